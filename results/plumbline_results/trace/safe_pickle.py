"""Pickles of strangers: containers, strings and numbers, and nothing that runs code."""

import io
import pickle

from ..options import BadInput
from .limits import limited

# What a file's objects may take: its bytes times this. A few bytes of a hostile pickle ask for tens of GiB.
BYTES_PER_BYTE = 64


class _Refused(Exception):
    pass


class _Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise _Refused(f"it asks for {module[:100]}.{name[:100]}")

    def persistent_load(self, key):
        raise _Refused("it asks for an object of another file")


def load(content, where):
    """The object of a pickle in bytes. Throws BadInput, also for each that has more than plain data."""
    try:
        with limited(BYTES_PER_BYTE * len(content)):
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
