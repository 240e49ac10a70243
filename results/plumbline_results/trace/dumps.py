"""Dumps of PyTorch's flight recorder: torch/csrc/distributed/c10d/FlightRecorder.hpp, version 2.x, pickled or as JSON."""

import json
import re

from ..options import BadInput
from .fields import MOST_RANKS, is_whole, ranks, shapes, text, texts, whole
from .model import Dump, Entry
from .safe_pickle import load

MAJOR = "2"
RANK = re.compile(r"(\d+)(?:\.(?:json|pickle|pkl|gz))*$")
# `nccl:all_reduce`, `nccl:send 0->1`, `nccl:recv 1<-0`
NAME = re.compile(r"(?:([^:]*):)?(\S*)(?: (\d{1,7})(->|<-)(\d{1,7}))?$")
# Other names of one operation: of NCCL's fused forms, and of backends that spell it as MPI does.
SAME = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "all_reduce_barrier": "barrier",
    "all_gather_base": "all_gather",
    "allgather": "all_gather",
    "allgather_base": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "broadcast_oop": "broadcast",
    "reduce_oop": "reduce",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_to_allv": "all_to_all",
    "all_to_all_base": "all_to_all",
}
MOST_FRAMES = 256


def looks_like(content):
    """A pickle, or JSON with what a recorder writes; one that kept no call writes no entries."""
    return content[:1] == b"\x80" or (content.lstrip()[:1] == b"{" and any(word in content for word in (b'"entries"', b'"pg_status"')))


def rank_of(path):
    found = RANK.search(path.name)
    if not found:
        raise BadInput(f"{path}: no rank at the end of its name; PREFIX and the rank would be right, as nccl_trace_rank_0")
    return checked_rank(int(found.group(1)), path)


def checked_rank(rank, path):
    if not 0 <= rank < MOST_RANKS:
        raise BadInput(f"{path}: rank {str(rank)[:20]}; 0 to {MOST_RANKS - 1} would be right")
    return rank


def read(path, content):
    """The dump of one rank. Throws BadInput."""
    rank = rank_of(path)
    found = load(content, path) if content[:1] == b"\x80" else _json(content, path)
    if not isinstance(found, dict) or not isinstance(found.get("entries", []), list) or "version" not in found:
        raise BadInput(f"{path}: no dump of the flight recorder; a dict with version and entries would be right")
    try:
        version = text(found["version"], "version")
    except TypeError as error:
        raise BadInput(f"{path}: {error}; {MAJOR}.x would be right") from None
    if version.split(".")[0] != MAJOR:
        raise BadInput(f"{path}: version {version[:20]} of the flight recorder's dumps; {MAJOR}.x is read")
    raw = found.get("entries", [])
    entries = []
    for number, one in enumerate(raw):
        try:
            entries.append(_entry(one))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            raise BadInput(f"{path}: entry {number} of {len(raw)}: {_why(error)}") from None
    entries.sort(key=lambda entry: entry.record)
    groups, descriptions = _groups(found, path)
    descriptions.update({name: text for name, text in map(_named, raw) if text})
    return Dump(rank, path.name, version, entries, groups, descriptions, _enqueued(found, raw),
                bool(entries) and entries[0].record > 0)


def _why(error):
    if isinstance(error, KeyError):
        return f"no field {error.args[0]!r}; every entry has it in version 2.x"
    return f"a field of another form ({str(error)[:80]})"


def _json(content, path):
    try:
        return json.loads(content)
    except RecursionError:
        why = "the JSON is nested too deeply"
    except UnicodeDecodeError:
        why = "the JSON is not UTF-8"
    except ValueError as error:
        at = getattr(error, "pos", 0)
        why = f"the JSON ends early or is broken at byte {at} of {len(content)}"
    raise BadInput(f"{path}: {why}; copy the whole file, or remove it to check the other ranks") from None


def _named(entry):
    name, description = (texts(entry["process_group"], "names of a group") + ["", ""])[:2]
    return name, "" if description == "undefined" else description


def _operation(name):
    found = NAME.match(text(name, "profiling_name"))
    if not found:
        return "", name, ()
    backend, op, one, arrow, other = found.groups()
    op = op.lower().strip("_")
    peer = () if arrow is None else (int(one), int(other)) if arrow == "->" else (int(other), int(one))
    return backend or "", SAME.get(op, op), peer


def _dtypes(one, op):
    """Who is not the root of a gather has an undefined output, of a scatter an undefined input: only the side that all have is compared."""
    given = [] if op == "scatter" else texts(one.get("input_dtypes", []), "input_dtypes")
    got = [] if op == "gather" else texts(one.get("output_dtypes", []), "output_dtypes")
    return tuple(dict.fromkeys(name for name in given + got if name != "Undefined"))


def _entry(one):
    backend, op, peer = _operation(one["profiling_name"])
    is_p2p = one.get("is_p2p", False) is True
    state = text(one["state"], "state")
    frames = one.get("frames", [])
    return Entry(
        group=_named(one)[0],
        seq=whole(one["p2p_seq_id" if is_p2p else "collective_seq_id"], "sequence number"),
        op=op,
        backend=backend,
        inputs=shapes(one["input_sizes"]),
        outputs=shapes(one["output_sizes"]),
        dtypes=_dtypes(one, op),
        done=state == "completed" or one.get("retired") is True,  # gloo's state stays scheduled
        state=state,
        created_ns=whole(one["time_created_ns"], "time_created_ns"),
        is_p2p=is_p2p,
        peer=peer,
        frames=frames[:MOST_FRAMES] if isinstance(frames, list) else [],
        record=whole(one["record_id"], "record_id"),
    )


def _groups(found, path):
    """Gloo's has one without a name, and its ranks only in some processes: the default group's."""
    groups, descriptions = {}, {}
    config = found.get("pg_config")
    for key, one in config.items() if isinstance(config, dict) else ():
        if not isinstance(one, dict):
            continue
        try:
            name = text(one.get("name") or key, "the name of a group")
            members = ranks(one.get("ranks"))
            description = text(one.get("desc") or "", "the description of a group")
        except TypeError as error:
            raise BadInput(f"{path}: pg_config: {error}") from None
        if len(set(members)) != len(members):
            raise BadInput(f"{path}: a group has a rank twice: {str(one['ranks'])[:60]}")
        if members:
            groups[name] = members
        if description not in ("", "undefined"):
            descriptions[name] = description
    return groups, descriptions


def _enqueued(found, raw):
    """Last number that each group's status names, by group. The status has the group's id, of each process's own: entries alone tell
    which group it is."""
    names = {_id(one.get("pg_id")): _named(one)[0] for one in raw}
    status = found.get("pg_status")
    numbers = {}
    for key, one in status.items() if isinstance(status, dict) else ():
        number = one.get("last_enqueued_collective") if isinstance(one, dict) else None
        if _id(key) and _id(key) in names and is_whole(number):
            numbers[names[_id(key)]] = number
    return numbers


def _id(value):
    """Of a group: a number, in JSON the text of one."""
    return str(value) if is_whole(value) or type(value) is str else ""
