"""Measurements of records as series: what was measured under which labels, launch by launch.

Model   The unit is a launch, a fresh group of processes: its repetitions share memory, cores and luck, so that only their median
        counts. A measurement without launches, of an older record, is one launch. Several records of the same series add up.
"""
import json
import statistics
import sys
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from .options import BadInput

SCHEMA = 1
WHOLE_LABELS = ("world", "bytes", "bucket_bytes")  # these are reckoned with
MOST_DIGITS = 18


@dataclass
class Series:
    benchmark: str
    labels: dict
    unit: str
    launches: list = field(default_factory=list)  # a list of samples each
    noisy: str = ""  # why it is not to be believed

    @property
    def key(self):
        return self.benchmark, tuple(sorted(self.labels.items()))

    @property
    def name(self):
        return printable(" ".join([self.benchmark, *(f"{key}={value}" for key, value in sorted(self.labels.items(), key=_by_number))]))

    @property
    def medians(self):
        return [statistics.median(samples) for samples in self.launches]


@dataclass
class Record:
    path: str
    header: dict
    series: dict  # by key
    complete: bool

    @property
    def machine(self):
        """What times depend on. The identity of a host changes with a restart or a container, and means more than that."""
        environment = self.header.get("environment", {})
        return {name: environment.get(name) for name in ("cpu", "cores", "usable_cores")}


def printable(text):
    """Without what a terminal obeys, and what cannot be encoded: a record may be a stranger's."""
    return "".join(sign for sign in text if unicodedata.category(sign) not in ("Cc", "Cf", "Cs", "Zl", "Zp"))


def _by_number(item):
    key, value = item
    return key, (0, int(value), "") if _is_whole(value) else (1, 0, value)


def _is_whole(text):
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


def order(series):
    """As people list them: by name, then by labels, numbers as numbers."""
    return series.benchmark, [_by_number(item) for item in sorted(series.labels.items())]


def lines_of(file):
    """(number, object) of each line of a record. A last line that a killed run left torn is dropped. Throws BadInput."""
    try:
        rows = Path(file).read_bytes().split(b"\n")
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror or error}; name a run.jsonl, or a folder that has one") from None
    while rows and not rows[-1].strip():
        rows.pop()
    if not rows:
        raise BadInput(f"{file}: empty; a record begins with a header")
    for at, row in enumerate(rows, 1):
        try:
            line = json.loads(row)
            if not isinstance(line, dict):
                raise ValueError
        except (ValueError, RecursionError):
            if at == len(rows) > 1:
                return
            raise BadInput(f"{file}:{at}: not an object in JSON; a record has one on each line") from None
        yield at, line


def _samples(value, where):
    """Positive finite numbers."""
    if not isinstance(value, list) or not value:
        raise BadInput(f"{where}: samples {json.dumps(value)[:40]}; they are a list of numbers above 0")
    for one in value:
        if isinstance(one, bool) or not isinstance(one, (int, float)) or not 0 < one <= sys.float_info.max:
            raise BadInput(f"{where}: sample {json.dumps(one)[:40]}; it is a finite number above 0")
    return value


def _series(line, where):
    labels = line.get("labels")
    if not isinstance(line.get("benchmark"), str) or not isinstance(labels, dict):
        raise BadInput(f"{where}: a measurement without 'benchmark' or 'labels'; results/schema/run.schema.json has its form")
    labels = {str(key): str(value) for key, value in labels.items()}
    for key in WHOLE_LABELS:
        if not _is_whole(labels.get(key, "0")):
            raise BadInput(f"{where}: label {key} {json.dumps(labels[key])[:40]}; it is a whole number of at most {MOST_DIGITS} digits")
    launches = line.get("launches") or [{"samples": line.get("samples")}]
    if not isinstance(launches, list) or not all(isinstance(launch, dict) for launch in launches):
        raise BadInput(f"{where}: launches {json.dumps(launches)[:40]}; they are a list of objects with 'samples'")
    return Series(line["benchmark"], labels, str(line.get("unit", "")),
                  [_samples(launch.get("samples"), where) for launch in launches], str(line.get("noisy") or ""))


def _is_of_rank(line):
    return isinstance(line.get("labels"), dict) and "rank" in line["labels"]


def read_record(path):
    """The record in a file, or in the run.jsonl of a folder. Throws BadInput."""
    file = Path(path) / "run.jsonl" if Path(path).is_dir() else Path(path)
    record = None
    for at, line in lines_of(file):
        where = f"{file}:{at}"
        if record is None:
            if line.get("type") != "header" or line.get("schema") != SCHEMA:
                raise BadInput(f"{where}: no header of schema {SCHEMA}; a record begins with one")
            if not isinstance(line.get("environment", {}), dict):
                raise BadInput(f"{where}: environment {json.dumps(line['environment'])[:40]}; it is an object")
            record = Record(str(path), line, {}, False)
        elif line.get("type") == "measurement" and line.get("samples") != [] and not _is_of_rank(line):
            add(record.series, _series(line, where))
        elif line.get("type") == "complete":
            record.complete = True
    return record


def add(all_series, series):
    """Adds the launches of a series to those of the same key."""
    before = all_series.setdefault(series.key, series)
    if before is not series:
        before.launches += series.launches
        before.noisy = before.noisy or series.noisy


def files_of(path):
    """The records that a path means: a file, a folder with run.jsonl, or a folder of records. Throws BadInput."""
    folder = Path(path)
    if not folder.exists():
        raise BadInput(f"'{path}' does not exist; name a run.jsonl, or a folder that has one")
    if not folder.is_dir() or (folder / "run.jsonl").exists():
        return [folder]
    found = sorted([*folder.glob("*.jsonl"), *folder.glob("*/run.jsonl")])
    if not found:
        raise BadInput(f"'{path}' has no run.jsonl and no records; name a record, or a folder of records")
    return found


def differing_machines(base, new):
    """In what they differ; empty where they are alike."""
    return ", ".join(f"{name} {base.machine[name]} and {new.machine[name]}" for name in base.machine if base.machine[name] != new.machine[name])


def differing_labels(base, new):
    """In words, in what the most alike series of a benchmark that both have differ; nothing where there is none."""
    pairs = [[(name, *(printable(one.labels.get(name, "none")) for one in (old, now)))
              for name in sorted({*old.labels, *now.labels}) if old.labels.get(name) != now.labels.get(name)]
             for old in base.series.values() for now in new.series.values() if old.benchmark == now.benchmark]
    return ", ".join(f"{name} {before} and {after}" for name, before, after in min(pairs, key=len, default=[]))


def read_all(paths):
    """Records that are taken together: the first one's header, all launches. Throws BadInput where they have no measurement, or are
    of different machines."""
    files = [file for path in paths for file in files_of(path)]
    together = read_record(files[0])
    together.path = " ".join(str(path) for path in paths)
    for file in files[1:]:
        record = read_record(file)
        differences = differing_machines(together, record)
        if differences:
            raise BadInput(f"'{file}' is of another machine than '{files[0]}': {differences}; name records of one machine")
        for series in record.series.values():
            add(together.series, series)
    if not together.series:
        raise BadInput(f"'{together.path}' has no measurement; `plumbline bench` writes them")
    return together
