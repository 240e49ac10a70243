"""What changed since a baseline: verdicts of requirements and cases, and series that were measured in both."""
from collections import defaultdict
from dataclasses import dataclass

from .figures import measured_of
from .verdicts import badness, requirements_of, subject_name
from .words import value_text

# Of a median: what is less is no change that anyone would act on (design of the gate: to find 5 % the threshold is 2 %).
LEAST_SHIFT = 0.02
# Of both intervals: six samples or launches each.
LEAST_CONFIDENCE = 0.95


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
    name: str
    labels: str
    before: object
    after: object
    unit: str
    noisy: bool = False

    @property
    def ratio(self):
        return self.after.median / self.before.median if self.before.median else 1.0

    @property
    def word(self):
        """A report does not gate: `plumbline gate` does, with launches, a correction for many series and a rerun."""
        if self.noisy:
            return "noisy"
        if min(self.before.confidence, self.after.confidence) < LEAST_CONFIDENCE:
            return "too few samples"
        apart = self.after.low > self.before.high or self.after.high < self.before.low
        if not apart:
            return "same" if abs(self.ratio - 1) <= LEAST_SHIFT else "not told apart"
        if abs(self.ratio - 1) <= LEAST_SHIFT:
            return "same"
        return "slower" if self.ratio > 1 else "faster"

    @property
    def tone(self):
        return {"slower": "bad", "faster": "good", "same": "quiet"}.get(self.word, "warn")

    def cells(self):
        show = lambda centre: f"{value_text(centre.median, self.unit)} [{value_text(centre.low, self.unit)}, {value_text(centre.high, self.unit)}]"
        return [self.name, self.labels, show(self.before), show(self.after), f"{self.ratio:.2f}"]


@dataclass
class Comparison:
    requirements: list
    cases: list
    shifts: list
    gone: int = 0  # cases and series of the baseline alone
    new: int = 0

    @property
    def changed_shifts(self):
        return [one for one in self.shifts if one.word in ("slower", "faster")]

    @property
    def is_empty(self):
        return not (self.requirements or self.cases or self.changed_shifts)


def compare(baselines, records):
    before, after = _cases(baselines), _cases(records)
    old, new = _series(baselines), _series(records)
    shifts = [_shift(old[key], new[key]) for key in new if key in old]
    order = {"slower": 0, "faster": 1}
    shifts.sort(key=lambda one: (order.get(one.word, 2), -abs(one.ratio - 1)))
    changes = [Change(key[0] + (f", {key[1]}" if key[1] != "plain" else ""), before[key].judgement, after[key].judgement, after[key].reason)
               for key in after if key in before and before[key].judgement != after[key].judgement]
    return Comparison(_of_requirements(baselines, records), _worst_first(changes), shifts,
                      sum(key not in after for key in before) + sum(key not in new for key in old),
                      sum(key not in before for key in after) + sum(key not in old for key in new))


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
        found[one.of.benchmark, tuple(sorted(one.labels.items()))].append(one)
    return {key: series[-1] for key, series in found.items()}


def _shift(old, new):
    labels = ", ".join(f"{key} {value}" for key, value in sorted(new.labels.items()))
    return Shift(new.of.benchmark, labels, old.centre, new.centre, new.of.unit, bool(old.of.noisy or new.of.noisy))


def hosts_differ(baselines, records):
    """Why times of the baseline say nothing about those of the records; empty where they do."""
    host = lambda record: record.header.get("environment", {}) if isinstance(record.header.get("environment"), dict) else {}
    identities = [{str(host(record).get("host_identity")) for record in each} for each in (baselines, records)]
    return "measured on another machine" if identities[0] != identities[1] else ""


def names_differ(baselines, records):
    return {subject_name(one) for one in baselines} != {subject_name(one) for one in records}
