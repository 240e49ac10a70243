"""Memory that the reading of one file may take."""

import contextlib
import resource

# Beyond what is said of the file, for the interpreter.
LEAST = 1 << 30


def _address_space():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


@contextlib.contextmanager
def limited(more):
    """Address space of this process: `more` bytes, and LEAST, beyond what it has. What asks for more gets a MemoryError."""
    try:
        before = resource.getrlimit(resource.RLIMIT_AS)
        limit = _address_space() + LEAST + more
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
