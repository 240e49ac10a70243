"""Do the members of a group call the same collectives, with sizes and dtypes that fit each other?"""

from collections import Counter

from .model import PROFILE, Finding, ranks_text

# How many calls too few or too many are looked for where sequences come apart.
SHIFTS = 8
# How often in a group, since each time all that follows is compared.
MOST_TRIES = 40
# Findings of one kind in one group that are told one by one.
MOST_OF_A_KIND = 5


def signature(entry):
    """What members of a group must agree on. An all_to_all may have another size on each."""
    if entry.op == "all_to_all":
        sizes = ()
    elif entry.op == "gather":
        sizes = (entry.elements_in,)
    elif entry.op == "scatter":
        sizes = (entry.elements_out,)
    else:
        sizes = (entry.elements_in, entry.elements_out)
    return entry.op, entry.dtypes, sizes, entry.root


def judge_group(aligned):
    """Findings about one group's calls: one that comes apart is followed no further for the rank that does."""
    judge = _Judge(aligned)
    for number in aligned.numbers:
        judge.row(number)
    return judge.findings


class _Judge:
    def __init__(self, aligned):
        self.aligned = aligned
        self.apart = set()  # ranks whose later calls say nothing more
        self.findings = []
        self.counts = Counter()
        self.signatures = {}
        self.sizes_seen = set()
        self.tries = 0

    def row(self, number):
        row = {rank: entries for rank, entries in self.aligned.row(number).items() if rank not in self.apart}
        for at in range(max(map(len, row.values()), default=0)):
            calls = {rank: entries[at] for rank, entries in row.items() if at < len(entries)}
            if len(calls) > 1 and len({self._signature(entry) for entry in calls.values()}) > 1:
                self._differ(number, calls)
                calls = {rank: entry for rank, entry in calls.items() if rank not in self.apart}
            self._sizes(number, calls)
            self._across(number, calls)

    def _signature(self, entry):
        key = (entry.op, entry.inputs, entry.outputs, entry.dtypes, entry.root)
        if key not in self.signatures:
            self.signatures[key] = signature(entry)
        return self.signatures[key]

    def _differ(self, number, calls):
        kinds = Counter(self._signature(entry) for entry in calls.values())
        (most, count), *others = kinds.most_common()
        if others[0][1] == count:
            self._no_majority(number, calls, most)
            return
        rest = [rank for rank, entry in calls.items() if self._signature(entry) == most]
        for rank in (rank for rank in calls if rank not in rest):
            self._one_differs(number, rank, rest, calls)

    def _one_differs(self, number, rank, rest, calls):
        found, shift = self._shifted(number, rank, rest[0])
        mine, theirs = calls[rank], calls[rest[0]]
        if found == "skipped":
            lacked = self.aligned.sequence(rest[0], number)[:shift]
            text = f"its calls from here on are those that {ranks_text(rest)} make {shift} later"
            self._add("skipped", [rank], number, theirs, mine, text, expected=", then ".join(map(str, lacked)))
        elif found == "extra":
            text = f"its calls after {shift} more are those of {ranks_text(rest)}"
            self._add("extra", [rank], number, theirs, mine, text)
        else:
            kind = _difference(theirs, mine)
            self._add(kind, [rank], number, theirs, mine, f"{ranks_text(rest)} differ from it")
            if kind != "op":
                return
        self.apart.add(rank)

    def _no_majority(self, number, calls, most):
        one = next(rank for rank, entry in calls.items() if self._signature(entry) == most)
        other = next(rank for rank, entry in calls.items() if self._signature(entry) != most)
        found, shift = self._shifted(number, other, one)
        kind = found or _difference(calls[one], calls[other])
        if found == "skipped":
            text = f"rank {other} skipped {shift} of the calls of rank {one}, or rank {one} made {shift} too many"
        elif found == "extra":
            text = f"rank {other} made {shift} calls too many, or rank {one} skipped {shift}"
        else:
            text = "no majority tells which of them is right"
        self._add(kind, sorted(calls), number, calls[one], calls[other], text, expected=None, got=self._opinions(calls))
        if kind in ("skipped", "extra", "op"):
            self.apart.update(calls)

    def _opinions(self, calls):
        """Each call, and who makes it, where nobody can say which is expected."""
        ranks, first = {}, {}
        for rank, entry in sorted(calls.items()):
            ranks.setdefault(self._signature(entry), []).append(rank)
            first.setdefault(self._signature(entry), entry)
        return "; ".join(f"{first[key]} on {ranks_text(ranks[key])}" for key in first)

    def _shifted(self, number, rank, model):
        """Does the rank lack calls of the model, or make more of them? Only where all that follows then fits."""
        self.tries += 1
        if self.tries > MOST_TRIES:
            return "", 0
        mine = [self._signature(entry) for entry in self.aligned.sequence(rank, number)]
        theirs = [self._signature(entry) for entry in self.aligned.sequence(model, number)]
        for shift in range(1, SHIFTS + 1):
            if _fits(mine, theirs[shift:]):
                return "skipped", shift
            if _fits(mine[shift:], theirs):
                return "extra", shift
        return "", 0

    def _sizes(self, number, calls):
        """Input against output of one call, by the operation's rule; each combination once."""
        size = len(self.aligned.group.ranks) if self.aligned.group.is_known else 0
        for rank, entry in calls.items():
            key = (entry.op, entry.inputs, entry.outputs)
            if key in self.sizes_seen:
                continue
            self.sizes_seen.add(key)
            wanted = _rule(entry, size)
            if wanted:
                alike = [one for one, other in calls.items() if (other.inputs, other.outputs) == (entry.inputs, entry.outputs)]
                self._add("sizes", alike, number, entry, entry, wanted, expected=wanted)

    def _across(self, number, calls):
        """Sizes that only all members together have."""
        group = self.aligned.group
        first = next(iter(calls.values()), None)
        if first is None or not group.is_known or len(calls) != len(group.ranks) or self.apart:
            return
        if first.op == "all_to_all":
            self._all_to_all(number, calls)
        elif first.op in ("gather", "scatter") and first.backend != PROFILE:
            roots = [rank for rank, entry in calls.items()
                     if (entry.elements_out if first.op == "gather" else entry.elements_in)]
            if len(roots) != 1 and len(calls) > 1 and any(e.elements_in + e.elements_out for e in calls.values()):
                self._add("root", roots or sorted(calls), number, first, calls[roots[-1]] if roots else first,
                          f"{ranks_text(roots)} are each the root" if roots else "no rank is the root",
                          expected="one root", got=f"{len(roots)} roots")

    def _all_to_all(self, number, calls):
        sent = sum(entry.elements_in for entry in calls.values())
        received = sum(entry.elements_out for entry in calls.values())
        if sent == received:
            return
        uneven = [rank for rank, entry in calls.items() if entry.elements_in != entry.elements_out]
        faulty = uneven if len(uneven) == 1 else sorted(calls)
        one = calls[faulty[0]]
        self._add("splits", faulty, number, one, one, "the split sizes of the members do not fit each other",
                  expected="as many elements sent as received, in all", got=f"{sent} sent and {received} received")

    def _add(self, kind, ranks, number, theirs, mine, text, expected="", got=""):
        """Expected are `theirs`, or what is given; None: nothing can be said to be."""
        self.counts[kind] += 1
        if self.counts[kind] > MOST_OF_A_KIND:
            last = [finding for finding in self.findings if finding.kind == kind][-1]
            last.ranks = sorted(set(last.ranks) | set(ranks))
            more = self.counts[kind] - MOST_OF_A_KIND
            last.text = f"{last.text.partition('; and ')[0]}; and {more} more in this group"
            return
        self.findings.append(
            Finding(kind, sorted(ranks), text, self.aligned.group.name, number, mine.op,
                    "" if expected is None else expected or str(theirs), got or str(mine), mine.site, theirs.site if theirs is not mine else "", frames=mine.frames)
        )


def _fits(one, other):
    length = min(len(one), len(other))
    return length > 0 and one[:length] == other[:length]


def _difference(one, other):
    if one.op != other.op:
        return "op"
    if one.root != other.root:
        return "root"
    return "dtype" if one.dtypes != other.dtypes else "size"


def _rule(entry, size):
    """What the operation's rule asks for and this call breaks; "" where it holds or the group's size is not known."""
    given, got = entry.elements_in, entry.elements_out
    if entry.op in ("all_reduce", "broadcast", "reduce") and given and got and given != got:
        return "as many elements out as in"
    if not size or not given or not got:
        return ""
    if entry.op in ("all_gather", "gather") and got != size * given:
        return f"{size * given} elements out: {size} ranks of {given}"
    if entry.op in ("reduce_scatter", "scatter") and given != size * got:
        return f"{size * got} elements in: {size} ranks of {got}"
    return ""
