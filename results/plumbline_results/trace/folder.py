"""Files of a folder, by what is in them."""

import gzip
import zlib
from pathlib import Path

from ..options import BadInput
from . import dumps, profiles
from .limits import limited
from .safe_pickle import BYTES_PER_BYTE

# What other programs leave beside dumps.
OTHERS = (".py", ".csv", ".txt", ".log", ".md", ".toml", ".yaml", ".yml", ".html", ".svg", ".png", ".pt", ".sh", ".out", ".err")
MOST_BYTES = 1 << 32
# What a packed file may unpack to: its bytes times the one, and the other.
UNPACKED_PER_BYTE, LEAST_UNPACKED = 200, 1 << 28
# What the objects of JSON may take for each byte of it. Ours take about 5; a list of empty lists, 21.
JSON_PER_BYTE = 10


def read_folder(folder, prefix):
    """Dumps and profiles, each by rank. Throws BadInput."""
    path = Path(folder)
    if not path.is_dir():
        raise BadInput(f"{folder}: {'a file' if path.exists() else 'no such folder'}; the folder with the dumps of all ranks would be right")
    found = {dumps: {}, profiles: {}}
    for file in sorted(path.iterdir()):
        if not file.is_file() or file.name.startswith(".") or not file.name.startswith(prefix) or file.suffix in OTHERS:
            continue
        content = _content(file)
        reader = next((one for one in found if one.looks_like(content)), None)
        if reader is None:
            what = "no dump of the flight recorder and no profile" if content else "an empty file"
            raise BadInput(f"{file}: {what}; remove it, or choose the others by --prefix")
        one = _read(reader, file, content)
        beside = found[reader].setdefault(one.rank, one)
        if beside is not one:
            what = "dump" if reader is dumps else "profile"
            raise BadInput(f"{file}: a second {what} of rank {one.rank}, beside {beside.file}; remove one, or choose by --prefix")
    if not any(found.values()):
        of = f" whose name begins with '{prefix}'" if prefix else ""
        raise BadInput(f"{folder}: no dump of PyTorch's flight recorder and no profile{of}; TORCH_FR_BUFFER_SIZE=2000 and "
                       "torch._C._distributed_c10d._dump_fr_trace() make a dump on each rank")
    return found[dumps], found[profiles]


def _read(reader, file, content):
    try:
        with limited((BYTES_PER_BYTE if content[:1] == b"\x80" else JSON_PER_BYTE) * len(content)):
            return reader.read(file, content)
    except MemoryError:
        why = "it asks for more memory than a dump or a profile of its size takes"
    except (OverflowError, RecursionError) as error:
        why = f"a value that is too large, or nested too deeply ({type(error).__name__})"
    raise BadInput(f"{file}: {why}")


def _content(file):
    if file.stat().st_size > MOST_BYTES:
        raise BadInput(f"{file}: {file.stat().st_size} bytes; at most {MOST_BYTES} are read")
    content = file.read_bytes()
    if content[:2] != b"\x1f\x8b":
        return content
    most = min(MOST_BYTES, LEAST_UNPACKED + UNPACKED_PER_BYTE * len(content))
    try:
        with gzip.open(file) as stream:
            content = stream.read(most + 1)
    except (OSError, EOFError, zlib.error):
        raise BadInput(f"{file}: the gzip file is cut off or broken; copy the whole file, or remove it") from None
    if len(content) > most:
        raise BadInput(f"{file}: more than {most} bytes when unpacked; fewer are read")
    return content
