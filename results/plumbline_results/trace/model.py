"""What was read, and what was found in it. Readers make these, judges take them; neither knows a file's form."""

from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple


# The backend of calls that a profile has: it keeps roots and messages, and not all that a dump keeps.
PROFILE = "profile"


class Entry(NamedTuple):
    """One call of one rank, as the flight recorder or a profile keeps it."""

    group: str
    seq: int  # of collectives in the group, or of messages
    op: str  # all_reduce, send, …
    backend: str
    inputs: tuple  # shapes
    outputs: tuple
    dtypes: tuple
    done: bool
    state: str
    created_ns: int
    is_p2p: bool
    peer: tuple  # (source, destination) of a message: of a dump as group ranks, of a profile as ranks of the world
    frames: list
    record: int
    root: int = -1  # where it is recorded

    @property
    def elements_in(self):
        return sum(prod(shape) for shape in self.inputs)

    @property
    def elements_out(self):
        return sum(prod(shape) for shape in self.outputs)

    @property
    def site(self):
        return site_of(self.frames)

    def __str__(self):
        root = f", root {self.root}" if self.root >= 0 else ""
        if self.op == "barrier" or not (self.inputs or self.outputs):
            return self.op + root
        return f"{self.op} of {' and '.join(self.dtypes) or 'elements'}, {self.elements_in} in, {self.elements_out} out{root}"


def _is_of_torch(name):
    return "-packages/torch/" in name or "/torch/distributed/" in name or name.startswith("<")


def _frame(frame):
    if not isinstance(frame, dict):
        return "", ""
    name, line, function = (_shown(frame.get(one)) for one in ("filename", "line", "name"))
    return name, f"{name}:{line or '?'} {function or '?'}"


def _shown(value):
    """A text or a number of a stranger, and "" for whatever else it may be."""
    return value[:1000] if type(value) is str else str(value) if type(value) is int and abs(value) < 1 << 63 else ""


def site_of(frames):
    """The innermost call outside PyTorch, as `file:line function`; "" where none is recorded."""
    named = [_frame(frame) for frame in frames]
    return next((text for name, text in named if name and not _is_of_torch(name)), named[0][1] if named else "")


def stack_of(frames):
    return [text for _, text in map(_frame, frames)]


@dataclass
class Dump:
    """What one rank left."""

    rank: int
    file: str
    version: str
    entries: list
    configured: dict  # group -> ranks, where the dump has them
    descriptions: dict  # group -> text
    enqueued: dict  # group -> last number that its status names
    lost: bool  # the first entries were overwritten


@dataclass
class Group:
    name: str
    description: str
    ranks: list
    source: str  # where the ranks come from: dump, option, default, or seen (some may be lacking)

    @property
    def is_known(self):
        return self.source != "seen"

    def __str__(self):
        return f"group {self.name}" + (f" ({self.description})" if self.description else "")


@dataclass
class Finding:
    kind: str
    ranks: list  # at fault, as far as can be told
    text: str
    group: str = ""
    seq: int = 0
    op: str = ""
    expected: str = ""
    got: str = ""
    site: str = ""
    others_site: str = ""
    waiting: list = field(default_factory=list)  # ranks that it holds up
    since_ns: int = 0
    frames: list = field(default_factory=list)
    is_cause: bool = True


def ranks_text(ranks):
    """`rank 3`, or `ranks 0, 2-5`."""
    runs = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    words = [str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}-{b}" for a, b in runs]
    return f"rank{'' if len(set(ranks)) == 1 else 's'} {', '.join(words)}"
