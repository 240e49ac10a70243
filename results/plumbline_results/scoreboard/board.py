"""The table: requirements as rows, frameworks with their versions as columns, and the cause of each disagreement.

Model   A cell is the worst of what the framework's cases of that requirement came to: fail (also a crash, a hang or an unexpected
        rejection), warn (a SHOULD that does not hold), pass, or skip (nothing was asked, since the framework does not claim it).
        A disagreement is a case and a requirement at stake in it that fails or warns. The first entry of the table that fits
        explains it; a cell is explained when all its disagreements are. A case without a verdict, as one that did not run, is
        no disagreement, and nothing explains it.
"""

from collections import Counter
from dataclasses import dataclass, field

from ..options import BadInput
from ..report.records import FAILURES, load, table, text
from ..report.verdicts import causes_first, subject_name
from ..report.words import counted
from .causes import KINDS

COMPONENTS = {
    "COLL": "collectives",
    "DEVICE": "collectives",
    "TOPO": "topology",
    "GROUP": "groups",
    "SCHED": "schedules",
    "PIPE": "pipeline",
    "BUCKET": "bucketing",
    "PASS": "pass",
    "SCALER": "scaler",
    "GOSSIP": "gossip",
    "SLOWMO": "slowmo",
    "TRAIN": "training",
}
ORDER = ("skip", "pass", "warn", "inconclusive", "fail")  # from good to bad


def verdict_of(judgement):
    if judgement in ("pass", "skip", "warn"):
        return judgement
    return "fail" if judgement in FAILURES or judgement in ("flake", "expected-fail", "waived") else "inconclusive"


@dataclass
class Disagreement:
    case: str
    requirement: str
    verdict: str
    judgement: str  # what the record says, such as crash, which counts as fail
    what: str  # the first words of the failure
    repeat: str
    cause: object = None


@dataclass
class Cell:
    verdict: str = "skip"
    cases: Counter = field(default_factory=Counter)
    disagreements: list = field(default_factory=list)
    undecided: list = field(default_factory=list)  # the same of cases without a verdict
    reason: str = ""  # why it was skipped

    @property
    def causes(self):
        return list(dict.fromkeys(one.cause.id for one in self.disagreements if one.cause))

    @property
    def unexplained(self):
        return sum(one.cause is None for one in self.disagreements) + len(self.undecided)


class Framework:
    """A column."""

    def __init__(self, record):
        self.name = subject_name(record)
        self.version = text(record.subject.get("version"))
        self.conventions = {text(name): text(value) for name, value in table(record.subject.get("conventions")).items()}
        self.record, self.cells = record, {}
        self.finished = record.complete and not record.stopped

    @property
    def title(self):
        return f"{self.name} {self.version}".strip()

    @property
    def counts(self):
        """Of requirements, by verdict."""
        return Counter(cell.verdict for cell in self.cells.values())


@dataclass
class Row:
    id: str
    component: str
    level: str
    text: str
    sources: list
    cells: list  # one of each framework, None where the run did not have it

    @property
    def asked(self):
        return any(cell and cell.verdict != "skip" for cell in self.cells)

    @property
    def worst(self):
        return max((cell.verdict for cell in self.cells if cell), key=ORDER.index, default="skip")


def _what(result):
    for rank in causes_first(result):
        for failure in rank.failures:
            return failure.message.removeprefix("Failed\n")
    return result.reason or result.output.strip()[-200:] or result.verdict


class Board:
    def __init__(self, paths, causes):
        self.causes = causes
        self.frameworks = [self._framework(path) for path in paths]
        titles = [one.title for one in self.frameworks]
        for at, title in enumerate(titles):
            if title in titles[:at]:
                raise BadInput(f"{paths[at]}: '{title}' is in {paths[titles.index(title)]}, too; a framework has one record")
        self.rows = self._rows()
        self.unfinished = [one.title for one in self.frameworks if not one.finished]
        cells = [(framework, cell) for framework in self.frameworks for cell in framework.cells.values()]
        self.disagreements = [(framework, one) for framework, cell in cells for one in cell.disagreements]
        self.undecided = [(framework, one) for framework, cell in cells for one in cell.undecided]
        self.missing = [(framework, one) for framework, one in self.disagreements if one.cause is None] + self.undecided
        self.unexplained = sum(cell.unexplained for one in self.frameworks for cell in one.cells.values())

    def _framework(self, path):
        record = load(path)
        if record.command != "check":
            raise BadInput(f"{path}: a record of '{record.command}'; a scoreboard is made of records of check")
        framework = Framework(record)
        for result in record.results:
            for requirement in result.requirements:
                cell = framework.cells.setdefault(requirement, Cell())
                self._add(framework, cell, result, requirement)
        return framework

    def _add(self, framework, cell, result, requirement):
        verdict = verdict_of(result.judgement) if requirement in result.at_stake else "pass"
        cell.cases[verdict] += 1
        if verdict == "skip":
            cell.reason = cell.reason or result.reason
        found = Disagreement(result.case, requirement, verdict, result.judgement, text(_what(result))[:400], result.repeat)
        if verdict == "inconclusive":
            cell.undecided.append(found)
        if verdict in ("fail", "warn"):
            found.cause = next((one for one in self.causes if one.explains(framework.name, framework.version, found)), None)
            if found.cause:
                found.cause.matches += 1
            cell.disagreements.append(found)
        cell.verdict = max(cell.verdict, verdict, key=ORDER.index)

    def _rows(self):
        found = []
        for requirement in sorted({name for one in self.frameworks for name in one.cells}):
            sentence = next((one for one in (f.record.sentence(requirement) for f in self.frameworks) if one), {})
            sources = sentence.get("sources")
            found.append(
                Row(
                    requirement,
                    COMPONENTS.get(requirement.split("-")[0], "other"),
                    text(sentence.get("level")),
                    text(sentence.get("text")),
                    [text(one) for one in sources] if isinstance(sources, list) else [],
                    [one.cells.get(requirement) for one in self.frameworks],
                )
            )
        order = list(dict.fromkeys(COMPONENTS.values()))
        return sorted(found, key=lambda row: (order.index(row.component) if row.component in order else len(order), row.id))

    @property
    def components(self):
        """(name, rows that some framework was asked, number of the others)."""
        for name in dict.fromkeys(row.component for row in self.rows):
            rows = [row for row in self.rows if row.component == name]
            asked = [row for row in rows if row.asked]
            yield name, asked, len(rows) - len(asked)

    def _is_here(self, cause):
        return any(cause.is_of(one.name, one.version) for one in self.frameworks)

    @property
    def shown_causes(self):
        """Those that explain something, and defects that no case asks."""
        return [one for one in self.causes if one.matches or (not one.cases and self._is_here(one))]

    @property
    def idle_causes(self):
        """Entries of frameworks and versions that are here, and that explain nothing: whatever they were about has gone."""
        return [one for one in self.causes if one.cases and not one.matches and self._is_here(one)]

    def summary(self):
        kinds = Counter(one.cause.kind if one.cause else "unexplained" for _, one in self.disagreements)
        words = ", ".join(f"{kinds[name]} {name}" for name in (*KINDS, "unexplained") if kinds[name])
        asked = f"{sum(row.asked for row in self.rows)} of {counted(len(self.rows), 'requirement')} asked"
        lines = [f"{counted(len(self.frameworks), 'framework')}, {asked}; {counted(len(self.disagreements), 'disagreement')}" + (f": {words}" if words else "")]
        if self.undecided:
            lines.append(f"no verdict, which nothing explains: {counted(len(self.undecided), 'case and requirement', 'cases and requirements')}")
        lines += [f"unfinished: {name}" for name in self.unfinished]
        lines += [f"'{one.id}' explains nothing now" for one in self.idle_causes]
        return "\n".join(lines)

    def as_json(self):
        return {
            "schema": 1,
            "frameworks": [
                {"name": one.name, "version": one.version, "conventions": one.conventions, "finished": one.finished,
                 "requirements": {name: one.counts[name] for name in ORDER}, "started": text(one.record.header.get("started")),
                 "suite_version": text(one.record.header.get("suite_version"))}
                for one in self.frameworks
            ],
            "requirements": [
                {"id": row.id, "component": row.component, "level": row.level, "text": row.text, "sources": row.sources,
                 "cells": [cell and {"verdict": cell.verdict, "cases": dict(cell.cases), "causes": cell.causes, "unexplained": cell.unexplained,
                                     **({"reason": cell.reason} if cell.verdict == "skip" else {})} for cell in row.cells]}
                for row in self.rows
            ],
            "disagreements": [
                {"framework": framework.title, "case": one.case, "requirement": one.requirement, "verdict": one.verdict, "judgement": one.judgement,
                 "what": one.what, "repeat": one.repeat, "cause": one.cause.id if one.cause else None}
                for framework, one in self.disagreements
            ],
            "undecided": [
                {"framework": framework.title, "case": one.case, "requirement": one.requirement, "judgement": one.judgement,
                 "what": one.what, "repeat": one.repeat} for framework, one in self.undecided
            ],
            "causes": [{name: value for name, value in vars(one).items() if value not in ("", [])} for one in self.causes],
            "unexplained": self.unexplained,
            "unfinished": self.unfinished,
        }
