"""What the results of a record come to: by requirement, by profile, as a whole; and which rank was the cause of a failure.

The rules are those of harness/run (summary.hpp, ranks.hpp), applied to a record alone."""

import re
from collections import Counter
from dataclasses import dataclass, field

from .records import FAILURES, table, text, texts
from .words import counted

# From good to bad, for a requirement.
BADNESS = (
    "skip",
    "pass",
    "warn",
    "waived",
    "expected-fail",
    "inconclusive",
    "not-run",
    "error",
    "missing",
    "aborted",
    "flake",
    "refuse",
    "hang",
    "crash",
    "fail",
    "unexpected-pass",
)
NOT_REACHED = "Not reached"
# How the page shows each: a class of its style.
TONE = {
    "pass": "good",
    "skip": "quiet",
    "not-run": "quiet",
    "warn": "warn",
    "waived": "warn",
    "expected-fail": "warn",
    "flake": "bad",
    "inconclusive": "warn",
    "error": "warn",
}
# Which profile a requirement belongs to, by the prefix of its id (conformance/profiles/profiles.toml).
PROFILES = {
    "COLL": "collectives",
    "DEVICE": "collectives",
    "TOPO": "topology",
    "GROUP": "topology",
    "SCHED": "pipeline",
    "PIPE": "pipeline",
    "BUCKET": "data-parallel",
    "PASS": "data-parallel",
    "TRAIN": "data-parallel",
    "SCALER": "mixed-precision",
    "GOSSIP": "gossip",
    "SLOWMO": "gossip",
}


def badness(judgement):
    return BADNESS.index(judgement) if judgement in BADNESS else len(BADNESS)


def tone(judgement):
    return TONE.get(judgement, "bad")


def profile_of(requirement):
    return PROFILES.get(requirement.split("-")[0], "other")


def subject_name(record):
    """Never a command line, which may be long or private (summary.hpp, name_of_subject)."""
    given = text(record.header.get("subject_name")) or text(record.subject.get("name"))
    if given:
        return given
    subject = text(record.header.get("subject"))
    kind, _, rest = subject.partition(" ")
    if kind == "backend":
        return rest.split(" ")[0].split(",")[0]
    return kind if kind in ("adapter", "job") else subject


def subject_shown(record):
    """The name, and the fault that was planted in it."""
    mutant = text(table(record.header.get("facts")).get("mutant"))
    return subject_name(record) + (f", mutant {mutant}" if mutant else "")


@dataclass
class Tally:
    judgement: str = "skip"
    cases: int = 0
    ran: int = 0
    bad: int = 0
    seconds: float = 0.0

    @property
    def tone(self):
        return tone(self.judgement)

    @property
    def shown_cases(self):
        """'2 of 7 cases': those that are bad, or else those that ran, where others are skipped."""
        part = self.bad or (self.ran if self.judgement != "skip" else self.cases)
        return ("" if part == self.cases else f"{part} of ") + counted(self.cases, "case")


@dataclass
class Requirement:
    id: str
    level: str = ""
    text: str = ""
    sources: list = field(default_factory=list)
    tallies: dict = field(default_factory=dict)  # by the name of the record

    @property
    def worst(self):
        return max((one.judgement for one in self.tallies.values()), key=badness, default="skip")


def requirements_of(records):
    """By id, what the cases of each requirement come to in each record. Of mutants nothing: their subject is wrong on purpose."""
    found = {}
    for record in records:
        if record.command == "mutants":
            continue
        for result in record.results:
            for requirement in result.requirements:
                row = found.setdefault(requirement, Requirement(requirement))
                _add_sentence(row, record.sentence(requirement))
                _add(row.tallies.setdefault(record.name, Tally()), result, requirement in result.at_stake)
    return dict(sorted(found.items()))


def _add_sentence(row, sentence):
    row.level = row.level or text(sentence.get("level"))
    row.text = row.text or text(sentence.get("text"))
    row.sources = row.sources or texts(sentence.get("sources"))


def _add(tally, result, is_about):
    judgement = result.judgement if is_about else "pass"
    tally.cases += 1
    tally.ran += judgement != "skip"
    tally.bad += result.bad and is_about
    tally.seconds += result.seconds
    if badness(judgement) > badness(tally.judgement):
        tally.judgement = judgement


@dataclass
class Outcome:
    """A record as a whole."""

    status: int
    word: str
    tone: str
    counts: dict
    why: str


def outcome_of(record):
    """The exit status that the run had by its own rules, and the word for it."""
    counts = Counter(one.judgement for one in record.results)
    ordered = {name: counts[name] for name in sorted(counts, key=badness, reverse=True)}
    bad = sum(one.bad for one in record.results)
    ran = any(one.verdict not in ("skip", "aborted") for one in record.results) or record.measurements or record.steps
    of_harness = [name for name in ("error", "inconclusive", "not-run") if counts[name]]
    if record.command == "mutants" and not record.complete:
        return Outcome(3, "incomplete", "warn", ordered, "the record has no end")
    if bad:
        word = "incomplete" if not record.complete and bad == counts["missing"] else "failed"
        return Outcome(
            1, word, "warn" if word == "incomplete" else "bad", ordered, f"{bad} of {len(record.results)} cases"
        )
    if of_harness:
        return Outcome(3, of_harness[0], "warn", ordered, ", ".join(f"{counts[name]} {name}" for name in of_harness))
    if record.stopped:
        return Outcome(3, "stopped", "warn", ordered, record.stopped)
    if not record.complete:
        return Outcome(3, "incomplete", "warn", ordered, "the record has no end")
    if not ran:
        return Outcome(3, "nothing ran", "warn", ordered, "no case ran")
    measured = f"{len(record.measurements)} measurements" if record.measurements else f"{len(record.results)} cases"
    return Outcome(0, "measured" if record.command == "bench" else "passed", "good", ordered, measured)


def causes_first(result):
    """The ranks of a result, the one that caused the failure before those that suffered from it.

    The driver saw the order of the reports and says whom it took in the reason. Where it says none: an assertion before an
    exception that ended the rank's body, since a call throws also where a peer has left; then whoever ended first."""
    named = re.match(r"rank (\d+)", result.reason)
    worst = {"crash": 0, "hang": 1, "error": 2, "fail": 3, "refuse": 4}

    def place(rank):
        by_exception = bool(rank.failures) and rank.failures[0].uncaught
        is_named = named is not None and rank.rank == named[1]
        return (
            not is_named,
            rank.verdict in ("pass", "skip"),
            rank.verdict == "aborted",
            worst.get(rank.verdict, 5),
            by_exception,
            rank.seconds,
        )

    return sorted(result.ranks, key=place)


def failing(record):
    """Results that fail the run, those of one requirement together, the worst first; last what an interrupted run did not come to."""
    groups = {}
    for result in record.results:
        if result.judgement == "missing" and not record.complete:
            groups.setdefault(NOT_REACHED, []).append(result)
        elif result.bad or result.judgement in ("error", "inconclusive"):
            groups.setdefault(result.at_stake[0] if result.at_stake else result.check, []).append(result)
    return dict(
        sorted(groups.items(), key=lambda group: (group[0] == NOT_REACHED, -max(map(_weight, group[1])), group[0]))
    )


def _weight(result):
    return badness(result.judgement)


@dataclass
class Kill:
    """What became of one mutant, as far as a record says."""

    mutant: str
    what: str = ""
    killed: bool = False
    must_show: bool = False  # a case in which it must show has run
    verdict: str = ""
    requirements: list = field(default_factory=list)
    cases: int = 0
    survived: list = field(default_factory=list)  # cases in which it must show, and passed
    undecided: bool = False
    seconds: float = 0.0

    @property
    def word(self):
        if self.undecided:
            return "inconclusive"
        if self.survived or not self.killed:
            return "survived"
        return "killed"


def kills_of(record):
    """By mutant, what the record of `plumbline mutants` says: a case that has an expectation is one in which it showed or must."""
    usual = {(one.case, one.mode): one.verdict for one in record.results if not one.mutant}
    found = {}
    for result in record.results:
        if result.mutant:
            _add_trial(
                found.setdefault(result.mutant, Kill(result.mutant)), result, usual.get((result.case, result.mode))
            )
    order = {"survived": 0, "inconclusive": 1, "killed": 2}
    return sorted(found.values(), key=lambda kill: (order[kill.word], kill.mutant))


def _add_trial(kill, result, usual):
    kill.cases += 1
    kill.what = kill.what or text(table(result.expectation).get("reason"))
    if result.verdict in ("error", "missing", "not-run") or (usual != "pass" and result.expectation):
        kill.undecided = True
        return
    if usual != "pass":  # what a mutant does in such a case says nothing
        return
    if result.verdict in FAILURES or result.verdict == "warn":
        if not kill.killed:
            kill.verdict, kill.seconds = result.verdict, result.seconds
        kill.killed = True
        kill.requirements += [one for one in result.at_stake if one not in kill.requirements]
    elif result.expectation:
        kill.survived.append(result.case)
