"""Pickles of strangers: containers, strings and numbers, and nothing that runs code."""

import contextlib
import io
import pickle
import resource

from ..options import BadInput

# What a file's objects may take: its bytes times this, and something for the interpreter. A few bytes of a hostile
# pickle ask for tens of GiB.
BYTES_PER_BYTE = 64
LEAST = 1 << 30


class _Refused(Exception):
    pass


class _Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise _Refused(f"it asks for {module}.{name}")

    def persistent_load(self, key):
        raise _Refused("it asks for an object of another file")


def _address_space():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


@contextlib.contextmanager
def _limited(more):
    """Address space of this process, `more` bytes beyond what it has."""
    try:
        before = resource.getrlimit(resource.RLIMIT_AS)
        limit = _address_space() + more
        if before[0] != resource.RLIM_INFINITY:
            limit = min(limit, before[0])
        resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    except (OSError, ValueError):  # no /proc, as on macOS
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def load(content, where):
    """The object of a pickle in bytes. Throws BadInput, also for each that has more than plain data."""
    try:
        with _limited(LEAST + BYTES_PER_BYTE * len(content)):
            return _Plain(io.BytesIO(content)).load()
    except _Refused as error:
        why = f"the pickle is not plain data: {error}; only dicts, lists, tuples, strings and numbers are read"
    except EOFError:
        why = "the pickle is cut off; copy the whole file, or remove it to check the other ranks"
    except MemoryError:
        why = "the pickle asks for more memory than a dump of its size takes"
    except Exception as error:  # a broken pickle raises nearly anything: KeyError, TypeError, UnicodeDecodeError …
        cut = "truncated" in str(error)
        why = (
            "the pickle is cut off; copy the whole file, or remove it to check the other ranks"
            if cut
            else f"no pickle that can be read ({type(error).__name__}); a dump of the flight recorder would be right"
        )
    raise BadInput(f"{where}: {why}") from None
