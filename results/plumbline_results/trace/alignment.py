"""Collectives of one group, aligned by sequence number: a ring buffer loses the first ones, and never shifts the others."""

from math import inf

from .model import PROFILE, Group

# Their members all wait for each other, so one that ended has been entered by all.
SYMMETRIC = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")


class Aligned:
    """Rows by sequence number, each rank -> its entries of that number (several when calls were coalesced)."""

    def __init__(self, group: Group, dumps):
        self.group = group
        self.ranks = [rank for rank in group.ranks if rank in dumps]
        self.absent = [rank for rank in group.ranks if rank not in dumps]
        self.columns = {rank: {} for rank in self.ranks}
        for rank in self.ranks:
            for entry in dumps[rank].entries:
                if entry.group == group.name and not entry.is_p2p:
                    self.columns[rank].setdefault(entry.seq, []).append(entry)
        self.last = {rank: self._last_of(dumps[rank]) for rank in self.ranks}
        self.numbers = sorted(set().union(*self.columns.values()))

    def _last_of(self, dump):
        """Last number that the rank entered. Where all of a group's entries were overwritten, its status may have a bound; a profile that
        has numbers ends when it is told to, and not where the job hangs."""
        if getattr(dump, "has_sequence", False):
            return inf
        column = self.columns[dump.rank]
        if column:
            return max(column)
        return dump.enqueued.get(self.group.name, inf) if dump.lost else 0

    def row(self, number):
        return {rank: column[number] for rank, column in self.columns.items() if number in column}

    def lacking(self, number):
        """Ranks with a dump that never entered it; one whose entry was overwritten is none of them, nor one whose dump is older."""
        return [] if self._ended(number) else self._short_of(number)

    def outdated(self):
        """Ranks whose dump was written before a collective that others have completed, with its number."""
        return {rank: number for number in reversed(self.numbers) if self._ended(number) for rank in self._short_of(number)}

    def _short_of(self, number):
        return [rank for rank in self.ranks if self.last[rank] < number]

    def _ended(self, number):
        """On all members, since it has on one. Gloo's calls look completed when they fail."""
        return any(entry.op in SYMMETRIC and entry.state == "completed" and entry.backend not in ("gloo", PROFILE)
                   for entries in self.row(number).values() for entry in entries)

    def sequence(self, rank, first):
        """The rank's entries from a number on, one a call."""
        return [entry for number in self.numbers if number >= first for entry in self.columns[rank].get(number, ())]
