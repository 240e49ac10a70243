"""All findings about a set of dumps, causes first."""

from .alignment import Aligned
from .collectives import judge_group
from .groups import find_groups, separate
from .measure import measure
from .messages import judge_messages
from .plan import judge_plan, note_missing
from .profiles import without_shapes
from .waiting import judge_absent, judge_lateness, judge_waiting

# What tells most about the cause comes first.
ORDER = ("order", "crossed", "skipped", "extra", "op", "dtype", "size", "sizes", "splits", "root", "message", "no-dump", "missing",
         "alone", "stuck", "late", "waiting")


class Judged:
    """Of dumps (rank -> Dump): groups, findings, and notes on what could not be judged."""

    kind = "dump"
    title = "flight recorder"

    def __init__(self, dumps, named_groups, world, late_seconds):
        self.files = dumps
        self.measured, self.idles = [], []
        separate(dumps)
        self.groups = find_groups(dumps, named_groups, world)
        aligned = self._judge(dumps, late_seconds)
        self.notes = [*_notes(dumps, self.groups, world), *_outdated(aligned)]

    def _judge(self, dumps, late_seconds):
        aligned = [Aligned(group, dumps) for group in self.groups.values()]
        found = []
        for one in aligned:
            found.extend(judge_group(one))
            found.extend(judge_messages(one.group, dumps))
        found.extend(_absent(aligned))
        waiting = judge_waiting(aligned, found, dumps)
        late = [finding for one in aligned for finding in judge_lateness(one, late_seconds)] if late_seconds else []
        for finding in found:
            _add_waiting(finding, aligned)
        self.findings = sorted(found + waiting + late, key=lambda one: (not one.is_cause, ORDER.index(one.kind)))
        self.collectives = sum(len(one.numbers) for one in aligned)
        return aligned


class JudgedProfiles(Judged):
    """The same of profiles (rank -> Profile), and what they measured."""

    kind = "profile"
    title = "profiles"

    def __init__(self, profiles, named_groups, world, plan):
        self.files = profiles
        self.findings, self.collectives, self.groups, self.idles = [], 0, {}, []
        if not all(one.has_shapes for one in profiles.values()):
            for one in profiles.values():
                without_shapes(one)
        separate(profiles)
        self.is_comparable = all(one.names_groups or one.has_one_group for one in profiles.values())
        self.measured = measure(profiles, self.is_comparable)
        if self.is_comparable:
            self.groups = find_groups(profiles, named_groups, world)
            self._judge(profiles, 0)
        self.notes = list(_profile_notes(profiles, self.is_comparable))
        if plan:
            findings, self.idles, notes = judge_plan(plan, profiles)
            self.findings = findings + self.findings
            self.notes += [*notes, *note_missing(plan, profiles)]
            if self.idles and not any(one.messages for one in profiles.values()):
                self.notes.append("no messages with their peers, so idle time is not divided; profile(record_shapes=True) keeps them (gloo)")


def _profile_notes(profiles, is_comparable):
    if not is_comparable:
        yield "gloo's profiles do not name the group of a call, and there are groups of several memberships: calls are not compared"
    elif not all(one.has_shapes for one in profiles.values()):
        yield "no sizes and no roots; profile(record_shapes=True) keeps them"
    if is_comparable and not any(one.has_sequence for one in profiles.values()):
        yield "calls are counted from the first of each profile: all ranks must begin to record before the same call"
    if not any(one.entries for one in profiles.values()):
        yield "no profile has a collective"


def _outdated(aligned):
    seen = set()
    for one in aligned:
        for rank, number in one.outdated().items():
            if rank not in seen:
                seen.add(rank)
                yield f"rank {rank}: its dump is older than others', which have completed #{number} of {one.group}; it is not taken for lacking"


def _absent(aligned):
    """A rank without a dump once, in the group with the most members."""
    seen = set()
    for one in sorted(aligned, key=lambda each: -len(each.group.ranks)):
        for finding in judge_absent(one):
            if finding.ranks[0] not in seen:
                seen.add(finding.ranks[0])
                yield finding


def _add_waiting(finding, aligned):
    """Members that have not come out of the collective, or of a later one in the group, are held up."""
    if finding.waiting or finding.kind in ("message", "no-dump"):
        return
    one = next(each for each in aligned if each.group.name == finding.group)
    held = {}
    for rank, column in one.columns.items():
        times = [entry.created_ns for number in column if number >= finding.seq for entry in column[number] if not entry.done]
        if times and rank not in finding.ranks:
            held[rank] = min(times)
    finding.waiting, finding.since_ns = sorted(held), min(held.values(), default=0)


def _notes(dumps, groups, world):
    backends = {entry.backend for dump in dumps.values() for entry in dump.entries}
    yield "not recorded, so not judged: reduce operations, roots of broadcast and reduce, split sizes but their sum"
    if "gloo" in backends:
        yield "gloo records no send and no recv"
    seen = [group.name for group in groups.values() if not group.is_known]
    if seen:
        yield f"members as far as dumps show: group{'s' if len(seen) > 1 else ''} {', '.join(seen)} (--group NAME=RANKS names all)"
    if not world and any(group.source == "default" for group in groups.values()):
        yield f"the job has {max(len(g.ranks) for g in groups.values() if g.source == 'default')} ranks as far as dumps show (--world-size N)"
    lost = [dump for dump in dumps.values() if dump.lost]
    for dump in lost:
        yield f"rank {dump.rank}: the first {dump.entries[0].record} entries were overwritten (TORCH_FR_BUFFER_SIZE)"
    if not any(dump.entries for dump in dumps.values()):
        yield "no dump has an entry; TORCH_FR_BUFFER_SIZE=2000 makes PyTorch record"
