"""Who waits for whom: collectives that some members entered and others did not, and what those do instead."""

from .model import Finding, ranks_text


class _Wait:
    """The first collective of a group that not all members entered."""

    def __init__(self, aligned, number, entered, lacking):
        self.aligned = aligned
        self.number = number
        self.entered = entered  # rank -> entry
        self.lacking = lacking  # ranks
        self.since_ns = min(entry.created_ns for entry in entered.values())

    @property
    def held(self):
        return sorted(rank for rank, entry in self.entered.items() if not entry.done) or sorted(self.entered)


def judge_waiting(groups, found, dumps):
    """Findings of kind missing, skipped, crossed, waiting and stuck. `found` are those about calls that differ."""
    apart = {(finding.group, rank) for finding in found if finding.kind in ("op", "skipped", "extra")
             for rank in finding.ranks}
    waits = [wait for wait in (_first_wait(aligned, apart) for aligned in groups) if wait]
    edges = _edges(waits, found, groups)
    messages = [finding for finding in found if finding.kind == "message"]
    causes = _causes(edges, {rank for wait in waits for rank in wait.lacking} | {one.ranks[0] for one in messages})
    crossed = [_crossed(cause, waits, messages) for cause in causes if len(cause) > 1]
    _demote(messages, edges, causes, crossed)
    blamed = {rank for finding in found if finding.is_cause for rank in finding.ranks}
    findings = list(crossed)
    at_fault = {rank for cause in causes for rank in cause}
    apart_groups = {group for group, _ in apart}
    for wait in waits:
        if wait.aligned.group.name in apart_groups:
            continue  # its ranks are out of step already, which is a finding
        findings.extend(_of_wait(wait, at_fault, blamed, causes, dumps))
    findings = [finding for finding in findings if finding]
    findings.extend(filter(None, map(_alone, groups)))
    if not found and not findings:
        findings.extend(filter(None, map(_stuck, groups)))
    return findings


def _first_wait(aligned, apart):
    for number in aligned.numbers:
        lacking = [rank for rank in aligned.lacking(number) if (aligned.group.name, rank) not in apart]
        row = {rank: entries[0] for rank, entries in aligned.row(number).items()}
        if aligned.absent and any(not entry.done for entry in row.values()):
            lacking += aligned.absent
        if lacking:
            return _Wait(aligned, number, row, lacking)
    return None


def _edges(waits, found, groups):
    """Rank -> ranks that it waits for: those that lack its collective, or that call another one in its place."""
    edges = {}
    for wait in waits:
        for rank in wait.held:
            edges.setdefault(rank, set()).update(wait.lacking)
    by_name = {aligned.group.name: aligned for aligned in groups}
    for finding in found:
        if finding.op in ("send", "recv"):  # whose numbers are those of messages
            for rank in finding.waiting:
                edges.setdefault(rank, set()).update(finding.ranks)
            continue
        aligned = by_name.get(finding.group)
        for rank, column in aligned.columns.items() if aligned else ():
            under_way = any(not entry.done for number in column if number >= finding.seq for entry in column[number])
            if under_way and rank not in finding.ranks:
                edges.setdefault(rank, set()).update(finding.ranks)
    return edges


def _causes(edges, missing):
    """Sets of ranks that wait for nobody outside the set, and that others wait for: one that went away, or a cycle."""
    reach = {rank: _reachable(rank, edges) for rank in missing}
    causes = []
    for rank in sorted(missing):
        cycle = {other for other in reach[rank] if rank in reach.get(other, ())} | {rank}
        if reach[rank] <= cycle and cycle not in causes:
            causes.append(cycle)
    return causes


def _reachable(rank, edges):
    seen, todo = set(), list(edges.get(rank, ()))
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo.extend(edges.get(one, ()))
    return seen


def _demote(messages, edges, causes, crossed):
    """A rank that is held up itself cannot come to its side of a message, unless only messages hold up each other."""
    in_crossed = {rank for one in crossed if one for rank in one.ranks}
    at_fault = {rank for cause in causes for rank in cause} - in_crossed
    for finding in messages:
        rank = finding.ranks[0]
        finding.is_cause = rank in at_fault or not edges.get(rank)
        if not finding.is_cause:
            finding.text += f"; {ranks_text([rank])} is held up itself"


def _crossed(cycle, waits, messages):
    """None where it is of messages alone, which are findings already."""
    mine = [wait for wait in waits if cycle & set(wait.held) and cycle & set(wait.lacking)]
    if not mine:
        return None
    lines = []
    for wait in mine:
        inside = sorted(cycle & set(wait.held))
        entry = wait.entered[inside[0]]
        lines.append(f"{ranks_text(inside)} in {wait.aligned.group} #{wait.number} ({entry.op} at {entry.site or '?'})"
                     f" for {ranks_text(cycle & set(wait.lacking))}")
    lines += [f"{ranks_text(one.waiting)} in {one.op} #{one.seq} at {one.site or '?'} for {ranks_text(one.ranks)}" for one in messages
              if cycle.issuperset(one.waiting + one.ranks) and one.waiting]
    first = mine[0]
    entry = first.entered[sorted(cycle & set(first.held))[0]]
    held = sorted({rank for wait in mine for rank in wait.held} - cycle)
    return Finding("crossed", sorted(cycle), "each waits for the other: " + "; ".join(lines), first.aligned.group.name,
                   first.number, entry.op, "groups entered in one order on all ranks", "groups entered in crossed order",
                   entry.site, "", held, first.since_ns, entry.frames)


def _of_wait(wait, at_fault, blamed, causes, dumps):
    in_cycle = {rank for cause in causes if len(cause) > 1 for rank in cause}
    if _is_extra(wait, dumps):
        entry = wait.entered[wait.held[0]]
        text = f"{ranks_text(wait.lacking)} had ended their calls without it"
        yield Finding("extra", sorted(wait.entered), text, wait.aligned.group.name, wait.number, entry.op,
                      f"no call after #{wait.number - 1}", str(entry), entry.site, "", wait.held, wait.since_ns, entry.frames)
        return
    for rank in sorted(wait.lacking):
        if rank in in_cycle or rank not in dumps:  # the latter is a finding of its own
            continue
        is_cause = rank in at_fault and rank not in blamed
        yield _missing(wait, rank, is_cause, dumps[rank])


def _is_extra(wait, dumps):
    """Fewer members entered it than did not, and those wait in nothing."""
    return len(wait.entered) < len(wait.lacking) and all(
        rank in dumps and dumps[rank].entries and all(entry.done for entry in dumps[rank].entries) for rank in wait.lacking)


def _missing(wait, rank, is_cause, dump):
    """The last call tells where the rank is; call sites tell whether it left one out long before it ran short."""
    entry = wait.entered[wait.held[0]]
    skip = _site_shift(wait, rank)
    last = max(dump.entries, key=lambda one: one.record, default=None)
    got = "nothing recorded" if last is None else (
        f"last {last} in group {last.group} #{last.seq}, {'completed' if last.done else 'not completed'}"
        f"{' at ' + last.site if last.site else ''}")
    if skip:
        number, lacked, mine = skip
        text = (f"its call sites from here on are those that others have one call later, and it never entered "
                f"#{wait.number}")
        return Finding("skipped", [rank], text, wait.aligned.group.name, number, lacked.op, f"{lacked}",
                       f"{mine}", mine.site, lacked.site, wait.held, wait.since_ns, mine.frames, is_cause)
    kind = "missing" if is_cause else "waiting"
    text = "never entered it" if is_cause else "did not come to it, for a cause named here"
    if is_cause and entry.backend == "gloo":
        text += "; gloo records no send and no recv, in which it may wait"
    return Finding(kind, [rank], text, wait.aligned.group.name, wait.number, entry.op, str(entry), got,
                   last.site if last else "", entry.site, wait.held, wait.since_ns, last.frames if last else [], is_cause)


def _site_shift(wait, rank):
    """Where call sites of the rank begin to be those of another one call later, up to its last: (number, lacked, mine)."""
    aligned = wait.aligned
    model = wait.held[0]
    mine = {number: entries[0] for number, entries in aligned.columns[rank].items()}
    theirs = {number: entries[0] for number, entries in aligned.columns[model].items()}
    number = first = 0
    for number in sorted(mine, reverse=True):
        if number + 1 not in theirs or not mine[number].site or mine[number].site != theirs[number + 1].site:
            break
        first = number
    if not first or first not in theirs or theirs[first].site == mine[first].site:
        return None
    return first, theirs[first], mine[first]


def _alone(aligned):
    """In a group whose other members no dump names: gloo's recorder has no ranks of groups."""
    if aligned.group.is_known or len(aligned.ranks) != 1:
        return None
    rank = aligned.ranks[0]
    entry = next((one for one in aligned.sequence(rank, 0) if not one.done), None)
    if entry is None:
        return None
    name = aligned.group.name
    return Finding("alone", [rank], f"no dump names another member that entered the group; --group {name}=RANKS tells whom it waits for",
                   name, entry.seq, entry.op, "a call of other members", str(entry), entry.site, "", [rank],
                   entry.created_ns, entry.frames)


def _stuck(aligned):
    """All members are in the same call and none comes out: what the recorder does not keep may differ."""
    for number in aligned.numbers:
        row = {rank: entries[0] for rank, entries in aligned.row(number).items()}
        if len(row) < 2 or len(row) < len(aligned.ranks) or any(entry.done for entry in row.values()):
            continue
        entry = next(iter(row.values()))
        sites = {}
        for rank, one in row.items():
            sites.setdefault(one.site, []).append(rank)
        where = "; ".join(f"{ranks_text(ranks)} at {site or '?'}" for site, ranks in sites.items())
        hidden = "root" if entry.op in ("broadcast", "reduce", "gather", "scatter") else "reduce operation, split sizes"
        return Finding("stuck", sorted(row), f"all entered it and none completed it ({where}); compare what the "
                       f"recorder does not keep ({hidden}), or a rank, link or device hangs",
                       aligned.group.name, number, entry.op, "completed", "not completed on any rank", entry.site, "",
                       sorted(row), min(one.created_ns for one in row.values()), entry.frames)
    return None


def judge_lateness(aligned, seconds):
    """Ranks that entered a collective much later than most did: the worst of each rank, by the ranks' clocks."""
    worst, counts = {}, {}
    for number in aligned.numbers:
        row = aligned.row(number)
        if len(row) < 2:
            continue
        times = sorted(entries[0].created_ns for entries in row.values())
        middle = times[(len(times) - 1) // 2]
        if times[-1] - middle <= seconds * 1e9:
            continue
        for rank, entries in row.items():
            late = entries[0].created_ns - middle
            if late > seconds * 1e9:
                counts[rank] = counts.get(rank, 0) + 1
                if late > worst.get(rank, (0,))[0]:
                    worst[rank] = (late, number, entries[0], middle)
    for rank, (late, number, entry, since) in sorted(worst.items()):
        yield Finding("late", [rank], f"entered it {late / 1e9:.3g} s after most others; {counts[rank]} such calls",
                      aligned.group.name, number, entry.op, f"at most {seconds:g} s after most others",
                      f"{late / 1e9:.3g} s", entry.site, "", [other for other in aligned.ranks if other != rank], since,
                      entry.frames)


def judge_absent(aligned):
    """Members of a group that left no dump."""
    for rank in aligned.absent:
        last = max((column[max(column)][0] for column in aligned.columns.values() if column), default=None,
                   key=lambda entry: entry.seq)
        waiting = sorted(one for one in aligned.ranks if any(
            not entry.done for entries in aligned.columns[one].values() for entry in entries))
        text = "no dump of it; it ended before it wrote one, or its file is not here"
        yield Finding("no-dump", [rank], text, aligned.group.name, last.seq if last else 0, last.op if last else "",
                      f"a dump of rank {rank}", "none", "", last.site if last else "", waiting,
                      last.created_ns if last and waiting else 0, last.frames if last else [])
