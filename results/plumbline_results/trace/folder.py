"""Files of a folder, by what is in them."""

import gzip
import zlib
from pathlib import Path

from ..options import BadInput
from . import dumps

# What other programs leave beside dumps.
OTHERS = (".py", ".csv", ".txt", ".log", ".md", ".toml", ".yaml", ".yml", ".html", ".svg", ".png", ".pt", ".sh", ".out", ".err")
MOST_BYTES = 1 << 32


def read_folder(folder, prefix):
    """Dumps by rank. Throws BadInput."""
    path = Path(folder)
    if not path.is_dir():
        raise BadInput(f"{folder}: {'a file' if path.exists() else 'no such folder'}; the folder with the dumps of all ranks would be right")
    found = {}
    for file in sorted(path.iterdir()):
        if not file.is_file() or file.name.startswith(".") or not file.name.startswith(prefix) or file.suffix in OTHERS:
            continue
        content = _content(file)
        if not dumps.looks_like(content):
            raise BadInput(f"{file}: {'an empty file' if not content else 'no dump of the flight recorder'}; remove it, or choose the others by --prefix")
        dump = dumps.read(file, content)
        if dump.rank in found:
            raise BadInput(f"{file}: a second dump of rank {dump.rank}, beside {found[dump.rank].file}; remove one, or choose by --prefix")
        found[dump.rank] = dump
    if not found:
        of = f" whose name begins with '{prefix}'" if prefix else ""
        raise BadInput(f"{folder}: no dump of PyTorch's flight recorder{of}; TORCH_FR_BUFFER_SIZE=2000 and torch._C._distributed_c10d._dump_fr_trace() make one on each rank")
    return found


def _content(file):
    if file.stat().st_size > MOST_BYTES:
        raise BadInput(f"{file}: {file.stat().st_size} bytes; at most {MOST_BYTES} are read")
    content = file.read_bytes()
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        with gzip.open(file) as stream:
            content = stream.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        raise BadInput(f"{file}: the gzip file is cut off or broken; copy the whole file, or remove it") from None
    if len(content) > MOST_BYTES:
        raise BadInput(f"{file}: more than {MOST_BYTES} bytes when unpacked; fewer are read")
    return content
