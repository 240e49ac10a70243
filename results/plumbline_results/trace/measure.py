"""How long each rank communicated, computed at the same time, and waited for its peers."""

from dataclasses import dataclass

from .intervals import common, length


@dataclass
class Measured:
    """Of one rank, in microseconds."""

    rank: int
    span: float  # from its first communication or computation to its last
    computation: float
    communication: float
    overlapped: float  # part of the communication during which it computes
    waiting: float  # what its collectives took longer than the shortest of their peers'


def measure(profiles, can_compare):
    waiting = _waiting(profiles) if can_compare else {}
    return [
        Measured(rank, one.end - one.begin, length(one.computation), length(one.communication),
                 length(common(one.communication, one.computation)), waiting.get(rank, 0.0))
        for rank, one in sorted(profiles.items())
    ]


def _waiting(profiles):
    """The n-th call of one operation in one group is the same collective on all ranks that made as many of them."""
    times = {}
    for rank, one in profiles.items():
        for group, op, duration in one.calls:
            if "send" not in op and "recv" not in op:
                times.setdefault((group, op), {}).setdefault(rank, []).append(duration)
    waiting = {}
    for ranks in times.values():
        if len(ranks) < 2 or len(set(map(len, ranks.values()))) > 1:
            continue
        shortest = [min(durations) for durations in zip(*ranks.values())]
        for rank, durations in ranks.items():
            waiting[rank] = waiting.get(rank, 0.0) + sum(durations) - sum(shortest)
    return waiting
