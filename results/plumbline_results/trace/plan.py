"""A pipeline schedule against what ranks did: the order of their actions, and what they were idle for.

The plan is PyTorch's CSV: a line a rank, cells such as 0F1, 2B0, 1SEND_F0. The runtime of torch.distributed.pipelining marks
each action as a range `PP:0F1`; ScheduleGPipe marks `Forward 1` and `Backward 1`, without the stage.
"""

import csv
import re
from dataclasses import dataclass

from ..options import BadInput
from .intervals import common, length
from .model import Finding, ranks_text

COMPUTATION = r"\d{1,9}[FBIW]\d{1,9}"
COMPUTES = re.compile(rf"{COMPUTATION}|\({COMPUTATION}(?:;{COMPUTATION})+\)OVERLAP_F_B")
CELL = re.compile(rf"{COMPUTES.pattern}|\d{{1,9}}(?:(?:SEND|RECV)_[FB]\d{{1,9}}|UNSHARD|RESHARD|REDUCE_GRAD)")
GPIPE = re.compile(r"(Forward|Backward) (\d+)")
MARK = "PP:"


def read_plan(path):
    """Rows of cells, a row a rank. Throws BadInput."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
    except FileNotFoundError:
        raise BadInput(f"--plan {path}: no such file") from None
    except (UnicodeDecodeError, csv.Error):
        raise BadInput(f"--plan {path}: no CSV; a line a rank with cells such as 0F1 would be right") from None
    while lines and not lines[-1]:  # not "," of a rank without actions
        lines.pop()
    rows = [[cell.strip() for cell in row if cell.strip()] for row in lines]
    if not any(rows):
        raise BadInput(f"--plan {path}: empty; a line a rank with cells such as 0F1 would be right")
    for line, row in enumerate(rows, 1):
        for at, cell in enumerate(row, 1):
            if not CELL.fullmatch(cell):
                raise BadInput(f"--plan {path}: line {line}, cell {at}: '{cell[:30]}'; 0F1, 0B1, 0I1, 0W1 or 0SEND_F1 would be right")
    return rows


@dataclass
class Idle:
    """Of one rank, in microseconds, over all steps: from the first computation of a step to the last."""

    rank: int
    steps: int
    window: float
    computation: float
    waiting: float  # for a peer that had not begun the other side of the message
    transfer: float  # for a message that both sides had begun
    other: float

    @property
    def bubble(self):
        return (self.window - self.computation) / self.window if self.window else 0.0


def judge_plan(plan, profiles):
    """Findings of kind order, an Idle for each rank, and notes. Throws BadInput where there is nothing to compare."""
    last = max(profiles)
    if last >= len(plan):
        raise BadInput(f"--plan has {len(plan)} lines, and there is a profile of rank {last}; a line a rank would be right")
    findings, idles, notes = [], [], []
    for rank, profile in sorted(profiles.items()):
        actions = _actions(profile, plan[rank], any("SEND" in cell or "RECV" in cell for row in plan for cell in row))
        skipped = _rest_of_a_step(plan[rank], actions)
        if skipped:
            notes.append(f"rank {rank}: skipped {skipped} action{'s' if skipped > 1 else ''} of a step that began before its profile")
        finding, steps = _order(rank, plan[rank], actions[skipped:])
        if finding:
            findings.append(finding)
        else:
            idles.append(_idle(profile, steps, profiles))
    return findings, idles, notes


def _rest_of_a_step(row, actions):
    """How many actions at the beginning are the last ones of a step, where a whole one follows."""
    names = [name for name, _, _ in actions]
    if not row or row[0] not in names:
        return 0
    count = names.index(row[0])
    return count if 0 < count < len(row) and names[:count] == row[-count:] else 0


def _actions(profile, row, has_messages):
    """(name, begin, end) in the order of their beginning: computations, and messages and the rest if the plan has them."""
    stages = {re.match(r"\(?(\d+)", cell).group(1) for cell in row}
    found = []
    for name, begin, end in profile.ranges:
        gpipe = GPIPE.fullmatch(name)
        if gpipe and len(stages) == 1:
            name = f"{MARK}{min(stages)}{gpipe.group(1)[0]}{gpipe.group(2)}"
        if name.startswith(MARK):
            found.append((name[len(MARK):], begin, end))
    if row and not found:
        raise BadInput(f"{profile.file}: no range of torch.distributed.pipelining, as PP:0F1; its Schedule1F1B writes none, its runtime "
                       "(Interleaved1F1B, ZBVZeroBubble …) and ScheduleGPipe do")
    kept = set(row)
    return [one for one in sorted(found, key=lambda one: one[1]) if has_messages or COMPUTES.fullmatch(one[0]) or one[0] in kept]


def _order(rank, row, actions):
    """The first action that is not the plan's, or the steps: lists of actions. A profile may have several steps."""
    if not row:
        return (None, []) if not actions else (_differs(rank, 1, 1, "no action", actions[0][0], ""), [])
    count = max(1, -(-len(actions) // len(row)))
    for at in range(count * len(row)):
        expected = row[at % len(row)]
        got = actions[at][0] if at < len(actions) else "the end of the profile"
        if got != expected:
            step = actions[at // len(row) * len(row):][:len(row)]
            return _differs(rank, at // len(row) + 1, at % len(row) + 1, expected, got, _where(expected, step)), []
    return None, [actions[first:first + len(row)] for first in range(0, len(actions), len(row))]


def _where(expected, step):
    at = next((number for number, one in enumerate(step, 1) if one[0] == expected), 0)
    return f"; {expected} comes at position {at}" if at else f"; the step has no {expected}"


def _differs(rank, step, at, expected, got, where):
    return Finding("order", [rank], f"step {step}, position {at} of the plan{where}", "", at, expected, expected, got)


def _idle(profile, steps, profiles):
    idle = Idle(profile.rank, len(steps), 0, 0, 0, 0, 0)
    for step in steps:
        computed = [(begin, end) for name, begin, end in step if COMPUTES.fullmatch(name)]
        if not computed:
            continue
        window = (min(begin for begin, _ in computed), max(end for _, end in computed))
        busy = common([window], profile.computation)
        idle.window += window[1] - window[0]
        idle.computation += length(busy)
        for gap in _gaps(window, busy):
            _divide(gap, profile, profiles, idle)
    return idle


def _gaps(window, busy):
    at = window[0]
    for begin, end in busy:
        if begin > at:
            yield at, begin
        at = end
    if window[1] > at:
        yield at, window[1]


def _divide(gap, profile, profiles, idle):
    """A rank waits for one message after the other: up to the end of each, the gap is that message's."""
    at, end = gap
    for message in sorted((one for one in profile.messages if at < one.end <= end), key=lambda one: one.end):
        other = _other_side(message, profile, profiles)
        begun = message.begin if other is None else max(message.begin, other)
        first = max(at, message.begin)
        idle.other += first - at
        both = min(max(begun, first), message.end)
        idle.waiting += both - first
        idle.transfer += message.end - both
        at = message.end
    idle.other += end - at


def _other_side(message, profile, profiles):
    """When the peer began it, by this rank's clock; None where its profile lacks it."""
    peer = profiles.get(message.peer)
    if peer is None:
        return None
    key = (not message.is_send, profile.rank, message.tag, message.number)
    begin = peer.message_begins.get(key)
    return None if begin is None else begin + (peer.base_ns - profile.base_ns) / 1000


def note_missing(plan, profiles):
    lacking = [rank for rank, row in enumerate(plan) if row and rank not in profiles]
    if lacking:
        yield f"no profile of {ranks_text(lacking)}, which the plan has"
