"""What changed since a baseline: verdicts of requirements and cases, and series that were measured in both."""

from collections import defaultdict
from dataclasses import dataclass

from .figures import measured_of
from .records import table, text
from .verdicts import badness, requirements_of
from .words import value_text

# Of a median: what is less is no change that anyone would act on.
LEAST_SHIFT = 0.02
# Of both intervals: six samples or launches each.
LEAST_CONFIDENCE = 0.95
# On either side, for the test of `plumbline compare` to be able to say anything.
LEAST_LAUNCHES = 5
# What changed, the first first.
ORDER = {"slower": 0, "faster": 1, "longer": 2, "shorter": 3}


@dataclass
class Change:
    """A requirement or a case whose verdict differs."""

    name: str
    before: str
    after: str
    words: str = ""

    @property
    def worse(self):
        return badness(self.after) > badness(self.before) if self.before and self.after else False


@dataclass
class Shift:
    """A series in both records."""

    key: tuple
    name: str
    labels: str
    before: object
    after: object
    unit: str
    noisy: bool = False
    verdict: str = ""  # of `plumbline compare`; empty: there are too few launches for one

    @property
    def ratio(self):
        return self.after.median / self.before.median if self.before.median else 1.0

    @property
    def word(self):
        """Slower and faster are verdicts on launches. Of one launch each, two runs of one program differ, too: the word is of the times alone."""
        if self.verdict:
            return self.verdict
        if self.noisy:
            return "noisy"
        if min(self.before.confidence, self.after.confidence) < LEAST_CONFIDENCE:
            return "too few samples"
        apart = self.after.low > self.before.high or self.after.high < self.before.low
        if abs(self.ratio - 1) <= LEAST_SHIFT or not apart:
            return "as before"
        return "longer" if self.ratio > 1 else "shorter"

    @property
    def tone(self):
        return {"slower": "bad", "faster": "good", "same": "quiet", "as before": "quiet"}.get(self.word, "warn")

    def cells(self):
        show = (
            lambda centre: f"{value_text(centre.median, self.unit)} [{value_text(centre.low, self.unit)}, {value_text(centre.high, self.unit)}]"
        )
        return [self.name, self.labels, show(self.before), show(self.after), f"{self.ratio:.2f}"]


@dataclass
class Comparison:
    requirements: list
    cases: list
    shifts: list
    gone: int = 0  # cases and series of the baseline alone
    new: int = 0
    machine: str = ""  # why the times say nothing about the subject

    @property
    def changed_shifts(self):
        return [one for one in self.shifts if one.word in ORDER]

    @property
    def is_empty(self):
        return not (self.requirements or self.cases or self.changed_shifts)


def compare(baselines, records):
    before, after = _cases(baselines), _cases(records)
    old, new = _series(baselines), _series(records)
    shifts = [_shift(old[key], new[key]) for key in new if key in old]
    machine = _judge_by_launches(shifts, old, new)
    shifts.sort(key=lambda one: (ORDER.get(one.word, len(ORDER)), -abs(one.ratio - 1)))
    changes = [
        Change(
            key[0] + (f", {key[1]}" if key[1] != "plain" else ""),
            before[key].judgement,
            after[key].judgement,
            after[key].reason,
        )
        for key in after
        if key in before and before[key].judgement != after[key].judgement
    ]
    return Comparison(
        _of_requirements(baselines, records),
        _worst_first(changes),
        shifts,
        sum(key not in after for key in before) + sum(key not in new for key in old),
        sum(key not in before for key in after) + sum(key not in old for key in new),
        _other_machine(baselines, records) or machine,
    )


def _judge_by_launches(shifts, old, new):
    """Gives the verdicts of `plumbline compare` to those that have launches enough; returns why the machine is at fault, if it is."""
    try:
        from ..comparison import Rules
        from ..comparison import compare as compare_series
        from ..series import Series
    except ModuleNotFoundError as error:
        if error.name not in ("scipy", "numpy"):
            raise
        return ""

    def series_of(measured):
        return {
            key: Series(one.of.benchmark, one.labels, one.of.unit, one.of.launches, one.of.noisy)
            for key, one in measured.items()
            if key in old
            and key in new
            and min(len(each.of.launches) for each in (old[key], new[key])) >= LEAST_LAUNCHES
            and all(value > 0 for launch in one.of.launches for value in launch)
        }

    before, after = series_of(old), series_of(new)
    judged = compare_series(
        {key: before[key] for key in before if key in after},
        {key: after[key] for key in after if key in before},
        Rules(),
    )
    verdicts = {row.series.key: row.verdict for row in judged.rows}
    for shift in shifts:
        shift.verdict = verdicts.get(shift.key, "")
    return judged.machine


def _worst_first(changes):
    return sorted(changes, key=lambda one: (not one.worse, -badness(one.after) if one.worse else 0, one.name))


def _of_requirements(baselines, records):
    old, new = requirements_of(baselines), requirements_of(records)
    changes = []
    for requirement, row in new.items():
        before = old[requirement].worst if requirement in old else ""
        if before and before != row.worst:
            changes.append(Change(requirement, before, row.worst, row.text))
    return _worst_first(changes)


def _cases(records):
    """By what a case is, whoever ran it: seed and shard do not count, of several the worst."""
    found = {}
    for record in records:
        for result in record.results:
            key = result.case, result.mode.split(":")[0], result.mutant
            if key not in found or badness(result.judgement) > badness(found[key].judgement):
                found[key] = result
    return found


def _series(records):
    found = defaultdict(list)
    for one in measured_of(records):
        found[_key(one)].append(one)
    return {key: series[-1] for key, series in found.items()}


def _key(measured):
    return measured.of.benchmark, tuple(sorted(measured.labels.items()))


def _shift(old, new):
    labels = ", ".join(f"{key} {value}" for key, value in sorted(new.labels.items()))
    return Shift(
        _key(new), new.of.benchmark, labels, old.centre, new.centre, new.of.unit, bool(old.of.noisy or new.of.noisy)
    )


def _other_machine(baselines, records):
    """Why times of the baseline say nothing about those of the records. A host's identity changes with a restart: its parts mean more."""
    machine = lambda record: tuple(
        text(table(record.header.get("environment")).get(name)) for name in ("cpu", "cores", "usable_cores")
    )
    measured = [{machine(record) for record in each if record.measurements} for each in (baselines, records)]
    return "the baseline was measured on another machine" if all(measured) and measured[0] != measured[1] else ""
