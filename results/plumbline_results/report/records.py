"""A record, run.jsonl, as the report reads it: whatever is missing or of another type becomes empty, never an exception.

Model   A record is a header, then lines of other kinds as they came, last `complete`. The process that writes it may be
        killed at any byte, so a last line that is no JSON is dropped; such a line anywhere else is damage, and an error.
        Of results with the same key the last holds.
"""

import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from ..options import BadInput

SCHEMA = 1


# Of terminals' colours. What else has no shape becomes a sign that can be seen, since a record may be hostile.
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def text(value):
    """As text without invisible characters; an object or a list as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False)
    value = _COLOUR.sub("", value.replace("\r\n", "\n"))
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", value)


def texts(value):
    return [text(one) for one in value] if isinstance(value, list) else []


def number(value):
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def numbers(value):
    found = [number(one) for one in value] if isinstance(value, list) else []
    return [one for one in found if one is not None]


def table(value):
    return value if isinstance(value, dict) else {}


def rows(value):
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


@dataclass
class Failure:
    where: str
    message: str
    requirement: str
    uncaught: bool
    expected: str
    got: str
    bound: str


@dataclass
class Rank:
    rank: str
    verdict: str
    seconds: float
    failures: list
    last_event: str
    host: str


@dataclass
class Result:
    case: str
    check: str
    requirements: list
    mode: str = "plain"
    seed: str = ""
    repetition: str = "0"
    mutant: str = ""
    role: str = ""
    verdict: str = "missing"
    judgement: str = "missing"
    bad: bool = True  # it makes the run's exit status 1
    reason: str = ""
    violated: list = field(default_factory=list)
    expectation: dict = field(default_factory=dict)
    tries: list = field(default_factory=list)
    ranks: list = field(default_factory=list)
    seconds: float = 0.0
    output: str = ""
    repeat: str = ""

    @property
    def key(self):
        return self.case, self.mode, self.seed, self.repetition, self.role, self.mutant

    @property
    def at_stake(self):
        """The requirements that the verdict is about."""
        return self.violated or self.requirements


@dataclass
class Measurement:
    benchmark: str
    case: str
    labels: dict
    samples: list
    unit: str
    derived: dict
    answer_checked: bool
    launches: list = field(default_factory=list)  # the samples of each launch; empty where it is not recorded
    noisy: str = ""  # why it is not to be believed
    hosts: list = field(default_factory=list)  # facts of the host, by launch: {"load": 1.5, …}


@dataclass
class Record:
    path: str
    header: dict
    subject: dict = field(default_factory=dict)
    results: list = field(default_factory=list)  # in the order of the plan, with what is missing
    controls: list = field(default_factory=list)
    measurements: list = field(default_factory=list)
    steps: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    stopped: str = ""
    complete: bool = False
    torn: bool = False
    seconds: float = None
    name: str = ""  # unique among the records of one report

    @property
    def command(self):
        return text(self.header.get("command"))

    def sentence(self, requirement):
        return table(table(self.header.get("requirements")).get(requirement))


FAILURES = ("fail", "refuse", "hang", "crash")


def judged(verdict, expectation):
    """What a result counts as, once what was known of its case before is taken into account (harness/run/judgement.hpp)."""
    if not expectation:
        return verdict
    kind, expected = text(expectation.get("kind")), text(expectation.get("verdict"))
    if expectation.get("run") is False:
        return "expected-fail" if kind == "expectation" and verdict == "skip" else verdict
    if kind == "waiver":
        return "waived" if verdict in FAILURES or verdict == "flake" else verdict
    if expected == "flake":
        return verdict
    if verdict == expected:
        return "expected-fail"
    return "unexpected-pass" if verdict == "pass" else verdict


def is_bad(judgement, expectation, header):
    if judgement == "unexpected-pass":
        return header.get("allow_unexpected_pass") is not True
    if judgement == "warn":
        return header.get("warnings_fail") is True
    if judgement == "flake":
        return text(table(expectation).get("verdict")) != "flake"
    return judgement == "missing" or judgement in FAILURES


def _failure(line):
    return Failure(
        text(line.get("where")),
        text(line.get("message")),
        text(line.get("requirement")),
        line.get("uncaught") is True,
        text(line.get("expected")),
        text(line.get("got")),
        text(line.get("bound")),
    )


def _rank(line):
    return Rank(
        text(line.get("rank")),
        text(line.get("verdict")),
        number(line.get("seconds")) or 0.0,
        [_failure(one) for one in rows(line.get("failures"))],
        text(line.get("last_event")),
        text(line.get("host")),
    )


def _result(line, header):
    expectation = table(line.get("expectation"))
    verdict = text(line.get("verdict"))
    judgement = text(line.get("judgement")) or judged(verdict, expectation)
    case = text(line.get("case"))
    return Result(
        case,
        text(line.get("check")) or case.split("[")[0],
        texts(line.get("requirements")),
        text(line.get("arm")) or "plain",
        text(line.get("seed")),
        text(line.get("repetition")),
        text(line.get("mutant")),
        text(line.get("role")),
        verdict,
        judgement,
        is_bad(judgement, expectation, header),
        text(line.get("reason")),
        texts(line.get("violated")),
        {text(key): text(value) for key, value in expectation.items()},
        texts(line.get("tries")),
        [_rank(one) for one in rows(line.get("ranks"))],
        number(line.get("seconds")) or 0.0,
        text(line.get("output")),
        text(line.get("repeat")),
    )


def _launches(line):
    """(samples, facts of the host) by launch, where they are recorded: a list of lists, or of objects that have a list of samples."""
    found = line.get("launches")
    if not isinstance(found, list):
        return []
    launches = []
    for one in found:
        samples = numbers(one.get("samples") if isinstance(one, dict) else one)
        facts = table(one.get("host")) if isinstance(one, dict) else {}
        if samples:
            launches.append((samples, {text(key): number(value) for key, value in facts.items()}))
    return launches


def _measurement(line):
    of_launches = _launches(line)
    launches = [samples for samples, _ in of_launches]
    samples = numbers(line.get("samples")) or [one for launch in launches for one in launch]
    noisy = line.get("noisy")
    derived = {text(key): number(value) for key, value in table(line.get("derived")).items()}
    return Measurement(
        text(line.get("benchmark")),
        text(line.get("case")),
        {text(key): text(value) for key, value in table(line.get("labels")).items()},
        samples,
        text(line.get("unit")),
        {key: value for key, value in derived.items() if value is not None},
        line.get("answer_checked") is True,
        launches,
        "the host was too busy" if noisy is True else text(noisy) if noisy else "",
        [facts for _, facts in of_launches],
    )


def _planned(row, header, stopped):
    case = text(row.get("case"))
    result = Result(
        case,
        case.split("[")[0],
        texts(row.get("requirements")),
        text(row.get("arm")) or "plain",
        text(row.get("seed")),
        text(row.get("repetition")),
        text(row.get("mutant")),
    )
    if stopped:
        result.verdict = result.judgement = "not-run"
        result.reason, result.bad = f"planned, and not run: {stopped}", False
    else:
        result.reason = "planned, but the run ended before it"
    return result


def _in_order_of_plan(record, by_key):
    found = []
    for row in rows(record.header.get("plan")):
        planned = _planned(row, record.header, record.stopped)
        found.append(by_key.pop(planned.key, planned))
    return found + list(by_key.values())


def _lines(path):
    """(number, object) of each line, and last whether it was torn."""
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; name a run.jsonl, or the folder that has one") from None
    last = max((index for index, line in enumerate(lines) if line.strip()), default=-1)
    for index, line in enumerate(lines[: last + 1]):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode("utf-8"))
            if not isinstance(value, dict):
                raise ValueError(f"a {type(value).__name__}")
        except (ValueError, RecursionError) as error:
            if index == last and index > 0:
                yield index + 1, None
                return
            raise BadInput(
                f"{path}:{index + 1}: not an object in JSON ({str(error)[:80]}); a record has one on each line"
            ) from None
        yield index + 1, value


def _header(path, value):
    if text(value.get("type")) != "header":
        raise BadInput(f"{path}:1: a line of type '{text(value.get('type'))[:40]}'; a record begins with a header")
    if value.get("schema") != SCHEMA:
        raise BadInput(
            f"{path}:1: schema {text(value.get('schema'))[:20] or 'none'}; this version reads schema {SCHEMA}"
        )
    return value


def load(path):
    """The record at `path`, a file or the folder that has run.jsonl. Throws BadInput."""
    path = Path(path)
    file = path / "run.jsonl" if path.is_dir() else path
    record, by_key = None, {}
    for at, value in _lines(file):
        if record is None:
            record = Record(str(path), _header(file, value))
            continue
        if value is None:
            record.torn = True
            continue
        kind = value.get("type")
        if kind == "result":
            result = _result(value, record.header)
            by_key[result.key] = result
        elif kind == "measurement":
            record.measurements.append(_measurement(value))
        elif kind == "step":
            record.steps.append(value)
        elif kind == "subject":
            record.subject = value
        elif kind == "note":
            record.notes.append(text(value.get("text")))
        elif kind == "resumed":
            record.stopped = ""
        elif kind == "stopped":
            record.stopped = text(value.get("why")) or "no reason was given"
        elif kind == "complete":
            record.complete, record.seconds = True, number(value.get("seconds"))
    if record is None:
        raise BadInput(f"{file}: empty; a record begins with a header")
    record.controls = [by_key.pop(key) for key in list(by_key) if by_key[key].role]
    record.results = _in_order_of_plan(record, by_key)
    return record
