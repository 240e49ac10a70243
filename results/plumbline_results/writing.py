"""Where what a tool writes goes, text or bytes: a file, whole or not at all, or standard output."""

import os
import sys
import tempfile
from pathlib import Path

from .options import Failed


def write(out, words):
    """To the file `out`, or to standard output for "-"; half a surrogate pair as JSON escapes it. Throws Failed."""
    content = words.encode("utf-8", "backslashreplace") if isinstance(words, str) else words
    try:
        if out == "-":
            _print(content)
        else:
            _write_file(out, content)
    except OSError as error:
        raise Failed(f"{out}: {error.strerror or error}; --out names another file") from None


def _print(content):
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # who reads has seen enough; the interpreter flushes once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_file(out, content):
    """What is there and is no regular file, as a pipe or a device, is written to; a symbolic link stays, and what it names is replaced."""
    if os.path.exists(out) and not os.path.isfile(out):
        with open(out, "wb") as file:
            file.write(content)
    else:
        _replace(Path(os.path.realpath(out)), content)


def _replace(target, content):
    """Whoever looks at the old file meanwhile sees all of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
