"""Where the text of a tool goes: a file, whole or not at all, or standard output."""

import os
import sys
import tempfile
from pathlib import Path

from .options import Failed


def write(out, words):
    """To the file `out`, or to standard output for "-". Throws Failed."""
    try:
        if out == "-":
            _print(words)
        else:
            _write_file(out, words)
    except OSError as error:
        raise Failed(f"{out}: {error.strerror or error}; --out names another file") from None


def _print(words):
    try:
        sys.stdout.buffer.write(words.encode("utf-8"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # who reads has seen enough; the interpreter flushes once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_file(out, words):
    """What is there and is no regular file, as a pipe or a device, is written to; a symbolic link stays, and what it names is replaced."""
    if os.path.exists(out) and not os.path.isfile(out):
        with open(out, "wb") as file:
            file.write(words.encode("utf-8"))
    else:
        _replace(Path(os.path.realpath(out)), words)


def _replace(target, words):
    """Whoever looks at the old file meanwhile sees all of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(words.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
