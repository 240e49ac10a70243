"""Profiles of torch.profiler (Kineto, export_chrome_trace): the collectives that a rank issued, and how long they took.

NCCL's are record_param_comms events with group, sizes and sequence number, and kernels. Gloo's are c10d:: operators, which name
no group, with shapes and roots where record_shapes=True, and `gloo:` ranges on its threads.
"""

import json
import re
from dataclasses import dataclass, field

from ..options import BadInput
from . import fields
from .dumps import RANK, SAME, checked_rank
from .intervals import union
from .model import PROFILE, Entry

COMMUNICATION = re.compile(r"(?:gloo|nccl|ucc|mpi):(\w+)")
KERNEL = re.compile(r"nccl\w*Kernel")
# Of c10d:: operators: positions of the outputs, the inputs and the root or peer among the arguments.
OPERATORS = {
    "allreduce": (0, 0, None), "broadcast": (0, 0, 2), "reduce": (0, 0, 3), "allgather": (None, 1, None),
    "allgather_base": (0, 1, None), "gather": (None, 1, 3), "scatter": (0, None, 3), "reduce_scatter": (0, None, None),
    "reduce_scatter_base": (0, 1, None), "alltoall_base": (0, 1, None), "alltoall": (0, 1, None), "barrier": (None, None, None),
    "send": (None, 0, 2), "recv": (0, None, 2), "recv_any_source": (0, None, None),
}
ONE_GROUP = "all"


@dataclass
class Message:
    """A send or recv of gloo, from its call until it was waited for."""

    is_send: bool
    peer: int
    tag: str
    number: int  # among those of the pair, the direction and the tag
    begin: float
    end: float


@dataclass
class Profile:
    """What one rank's profiler saw. Times are microseconds of its own clock."""

    rank: int
    file: str
    entries: list
    configured: dict  # group -> ranks
    descriptions: dict
    names_groups: bool  # of each call
    has_one_group: bool
    has_sequence: bool  # numbers of the group, not counted by us
    has_shapes: bool
    communication: list  # union of times
    computation: list
    calls: list  # (group, op, duration) in order of their beginning
    ranges: list = field(default_factory=list)  # (name, begin, end) of record_function
    begin: float = 0
    end: float = 0
    base_ns: int = 0  # what its times are counted from
    messages: list = field(default_factory=list)
    message_begins: dict = field(default_factory=dict)  # (is_send, peer, tag, number) -> begin
    # As a dump has them.
    enqueued: dict = field(default_factory=dict)
    lost: bool = False


def looks_like(content):
    return content.lstrip()[:1] == b"{" and b'"traceEvents"' in content


def read(path, content):
    """The profile of one rank. Throws BadInput."""
    try:
        found = json.loads(content)
    except (RecursionError, ValueError):
        raise BadInput(f"{path}: the JSON of the profile ends early or is broken; copy the whole file, or remove it") from None
    events = found.get("traceEvents")
    if not isinstance(events, list):
        raise BadInput(f"{path}: no profile of torch.profiler; a list traceEvents would be right")
    job = found.get("distributedInfo")
    job = {**(job if isinstance(job, dict) else {}), "base_ns": found.get("baseTimeNanoseconds", 0)}
    try:
        ranges = sorted(filter(_is_range, events), key=lambda event: event["ts"])
        return _profile(path, job, ranges)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise BadInput(f"{path}: an event of another form than Kineto's ({type(error).__name__}: {str(error)[:80]})") from None


def _text(value):
    return fields.text(value, "a name")


def _is_range(event):
    return isinstance(event, dict) and event.get("ph") == "X" and event.get("cat") in ("cpu_op", "user_annotation", "kernel") \
        and isinstance(event.get("name"), str) and _is_time(event.get("ts")) and _is_time(event.get("dur"))


def _is_time(value):
    return type(value) in (int, float) and abs(value) < 1e18


def _rank_of(path, job):
    if type(job.get("rank")) is int and job["rank"] >= 0:
        return checked_rank(job["rank"], path)
    found = RANK.search(re.sub(r"(\.pt)?\.trace\.json(\.gz)?$|\.gz$", ".json", path.name))
    if not found:
        raise BadInput(f"{path}: no rank, neither in distributedInfo nor at the end of its name")
    return checked_rank(int(found.group(1)), path)


def _profile(path, job, events):
    configured = {_text(one["pg_name"]): fields.ranks(one.get("ranks")) for one in job.get("pg_config", [])}
    configured = {name: ranks for name, ranks in configured.items() if ranks}
    descriptions = {_text(one["pg_name"]): _text(one.get("pg_desc", "")) for one in job.get("pg_config", [])}
    base = job.get("base_ns", 0)
    named = [event for event in events if event["name"] == "record_param_comms" and "Collective name" in event.get("args", {})]
    has_kernels = any(event["cat"] == "kernel" for event in events)
    profile = Profile(_rank_of(path, job), path.name, [], configured, descriptions, bool(named), True, False, True, [], [], [])
    if named:
        _take_named(profile, named)
    else:
        _take_operators(profile, events, job)
    times = [(event["ts"], event["ts"] + event["dur"], event) for event in events]
    comm = [(begin, end, event) for begin, end, event in times if _is_communication(event, has_kernels)]
    profile.communication = union((begin, end) for begin, end, _ in comm)
    profile.base_ns = base if fields.is_whole(base) else 0
    servants = _threads_of_gloo(events)
    profile.computation = union((begin, end) for begin, end, event in times
                                if _is_computation(event, has_kernels) and event.get("tid") not in servants)
    profile.calls = [_timed(event, end - begin) for begin, end, event in comm]
    profile.ranges = [(event["name"], begin, end) for begin, end, event in times if event["cat"] == "user_annotation"]
    _take_messages(profile, times)
    both = profile.communication + profile.computation
    profile.begin, profile.end = min((a for a, _ in both), default=0), max((b for _, b in both), default=0)
    return profile


def _take_messages(profile, times):
    """The n-th range of gloo on a rank belongs to the n-th call."""
    for op in ("send", "recv"):
        calls = [entry for entry in profile.entries if entry.op == op and entry.is_p2p and entry.backend == PROFILE]
        ranges = [(begin, end) for begin, end, event in times if event["name"] == f"gloo:{op}"]
        if len(calls) != len(ranges) or not all(len(entry.peer) == 3 for entry in calls):
            continue
        counts = {}
        for entry, (begin, end) in zip(calls, ranges):
            key = (op == "send", entry.peer[op == "send"], entry.peer[2])
            counts[key] = counts.get(key, 0) + 1
            profile.messages.append(Message(*key, counts[key], begin, end))
            profile.message_begins[(*key, counts[key])] = begin


def _is_communication(event, has_kernels):
    if has_kernels:
        return event["cat"] == "kernel" and KERNEL.search(event["name"]) is not None
    return event["cat"] == "user_annotation" and COMMUNICATION.match(event["name"]) is not None


def _threads_of_gloo(events):
    """Its own threads, whose copies are part of the communication."""
    ranges = {event.get("tid") for event in events if event["name"].startswith("gloo:")}
    return ranges - {event.get("tid") for event in events if event["name"].startswith("c10d::")}


def _is_computation(event, has_kernels):
    if has_kernels:
        return event["cat"] == "kernel" and not KERNEL.search(event["name"])
    return event["cat"] == "cpu_op" and event["name"].startswith("aten::")


def _timed(event, duration):
    name = COMMUNICATION.match(event["name"])
    arguments = event.get("args", {})
    return (_text(arguments.get("Process Group Name", ONE_GROUP)),
            name.group(1) if name else _text(arguments.get("Collective name", event["name"])), duration)


def without_shapes(profile):
    """Only the operations, so that profiles with and without shapes can be compared."""
    profile.entries = [entry._replace(inputs=(), outputs=(), dtypes=(), root=-1, peer=()) for entry in profile.entries]


def _operation(name):
    op = name.lower().strip("_")
    return SAME.get(op, op)


def _take_named(profile, events):
    """NCCL's: each call says all of itself."""
    counts = {}
    for number, event in enumerate(events):
        given = event["args"]
        group = _text(given.get("Process Group Name", ""))
        ranks = fields.ranks(given.get("Process Group Ranks"))  # "[0, 1, ...]" where there are many
        if ranks:
            profile.configured.setdefault(group, ranks)
        op = _operation(_text(given["Collective name"]))
        if op in ("wait", "init", "coalesced"):
            continue
        is_p2p = op in ("send", "recv")
        key = (group, is_p2p)
        counts[key] = counts.get(key, 0) + 1
        ends = (profile.rank, given.get("Dst Rank")) if op == "send" else (given.get("Src Rank"), profile.rank)
        ends = tuple(map(int, ends)) if is_p2p and all(re.fullmatch(r"\d{1,7}", str(one)) for one in ends) else ()
        has_number = fields.is_whole(given.get("Seq"))
        profile.has_sequence = profile.has_sequence or has_number
        counted = given["Seq"] if has_number else counts[key]
        profile.entries.append(_entry(group, counted, op, _count(given.get("In msg nelems")), _count(given.get("Out msg nelems")),
                                      (_text(given.get("dtype", "")),), event, number, is_p2p, ends))


def _count(value):
    return ((value,),) if fields.is_whole(value) else ()


def _take_operators(profile, events, job):
    """Gloo's: calls in the order in which they were issued, all in one group if there is one."""
    groups = {tuple(ranks) for ranks in profile.configured.values()}
    profile.has_one_group = len(groups) <= 1
    profile.has_shapes = False
    world = job.get("world_size")
    if type(world) is int and 0 < world < 1 << 20:
        profile.configured = {ONE_GROUP: list(range(world))}
    counts = {True: 0, False: 0}
    for number, event in enumerate(events):
        name = event["name"]
        if event["cat"] != "cpu_op" or not name.startswith("c10d::"):
            continue
        op = name[6:].strip("_")
        if op not in OPERATORS:
            continue
        is_p2p = op in ("send", "recv", "recv_any_source")
        counts[is_p2p] += 1
        profile.entries.append(_operator(profile, op, counts[is_p2p], event, number, is_p2p))


def _operator(profile, op, seq, event, number, is_p2p):
    given = event.get("args", {})
    outputs, inputs, root = OPERATORS[op]
    shapes = given.get("Input Dims")
    kinds = given.get("Input type", [])
    values = given.get("Concrete Inputs", [])
    profile.has_shapes = profile.has_shapes or shapes is not None
    place = int(values[root]) if root is not None and root < len(values) and re.fullmatch(r"\d{1,7}", str(values[root])) else -1
    peer = ()
    if is_p2p and place >= 0:
        tag = values[3] if len(values) > 3 and type(values[3]) in (str, int) else ""
        peer = (profile.rank, place, tag) if op == "send" else (place, profile.rank, tag)
    if op == "barrier":
        outputs = inputs = None
    dtypes = tuple({str(kinds[at]) for at in (inputs, outputs) if at is not None and at < len(kinds)} - {"TensorList", "ScalarList", ""})
    return _entry(ONE_GROUP, seq, _operation(op), _shapes(shapes, kinds, inputs), _shapes(shapes, kinds, outputs), dtypes, event,
                  number, is_p2p, peer, place if not is_p2p else -1)


def _shapes(shapes, kinds, at):
    if shapes is None or at is None or at >= len(shapes) or at >= len(kinds) or kinds[at] in ("", "ScalarList"):
        return ()
    one = shapes[at] if kinds[at] == "TensorList" else [shapes[at]]
    return fields.shapes(one)


def _entry(group, seq, op, inputs, outputs, dtypes, event, number, is_p2p, peer, root=-1):
    return Entry(group=group, seq=seq, op=op, backend=PROFILE, inputs=inputs, outputs=outputs, dtypes=dtypes, done=True,
                 state="completed", created_ns=int(event["ts"] * 1000), is_p2p=is_p2p, peer=peer, frames=[], record=number, root=root)
