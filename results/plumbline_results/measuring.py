"""Measures programs in turns: launches of both sides alternate in random order, so that what the machine does meets both."""
import functools
import os
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import series as series_of
from .options import BadInput, Failed


# The first word of what bench measures as a whole, with options of its own.
STUDIES = ("allreduce_fusion", "pipeline_bubble")


@dataclass
class Side:
    """What is measured: a program, and the options that are its own."""
    name: str
    program: str  # empty: this one
    options: tuple = ()


def split(words):
    """What comes after '--' is for bench, but for how often it is launched, which alternates here. Throws BadInput."""
    at = words.index("--") if "--" in words else len(words)
    for word in words[at + 1:]:
        if word.partition("=")[0] in ("--launches", "--within"):
            raise BadInput(f"'{word}' after '--': launches of both sides alternate here; write --launches N before '--'")
    return words[:at], words[at + 1:]


def side_of(word):
    """A Side where the word means a program or 'backend:NAME', else None: it is a record."""
    if word.startswith("backend:"):
        if not word[len("backend:"):]:
            raise BadInput(f"'{word}' names no backend; backend:local is one")
        return Side(word, "", ("--backend", word[len("backend:"):]))
    path = Path(word)
    if path.is_file() and os.access(path, os.X_OK) and path.suffix != ".jsonl":
        return Side(word, str(path.resolve()))
    return None


def own_program():
    program = os.environ.get("PLUMBLINE_EXECUTABLE") or shutil.which("plumbline")
    if not program:
        raise Failed("there is no program 'plumbline'; put its folder into PATH, or set PLUMBLINE_EXECUTABLE")
    return program


@functools.lru_cache(maxsize=None)
def _one_launch(program):
    """The options that have bench make one launch; older versions make no more, and have no option for it."""
    try:
        done = subprocess.run([program, "bench", "--help"], capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise Failed(f"cannot start '{program}': {error.strerror}") from None
    return ("--launches", "1") if "--launches" in done.stdout else ()


def _launch(side, arguments, out):
    program = side.program or own_program()
    one = () if arguments[:1] and arguments[0] in STUDIES else _one_launch(program)
    command = [program, "bench", *side.options, *arguments, *one, "--out", str(out)]
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    except OSError as error:
        raise Failed(f"cannot start '{program}': {error.strerror}") from None
    said = [line for line in done.stderr.splitlines() if line.strip()]
    why = said[-1] if said else f"exit status {done.returncode}"
    if done.returncode == 2:
        raise BadInput(f"{side.name}: {why}")
    if done.returncode != 0:
        raise Failed(f"{side.name}: a launch of bench ended with exit status {done.returncode}: {why}")
    return series_of.read_record(out)


def measure(sides, arguments, launches, folder=None):
    """The records of each side, all launches of it together. With a folder, the records of the launches stay there."""
    with tempfile.TemporaryDirectory() as scratch:
        records = [None] * len(sides)
        for launch in range(launches):
            order = list(range(len(sides)))
            random.shuffle(order)
            for side in order:
                out = Path(folder or scratch) / f"{side}" / f"{launch:03}"
                record = _launch(sides[side], arguments, out)
                if records[side] is None:
                    records[side] = record
                else:
                    for one in record.series.values():
                        series_of.add(records[side].series, one)
            if sys.stderr.isatty():
                print(f"\rlaunch {launch + 1} of {launches}", end="" if launch + 1 < launches else "\n", file=sys.stderr)
    return records


def arguments_for(series, arguments):
    """Those of bench that measure these series again, and few others."""
    if arguments[:1] and arguments[0] in STUDIES:
        return list(arguments)
    kept, skip = [], False
    for word in arguments:
        skip = skip and not word.startswith("--")  # an option may have several values
        if word in ("--benchmark", "--sizes"):
            skip = True
        elif not skip and not word.startswith(("--benchmark=", "--sizes=")):
            kept.append(word)
    for name in sorted({one.benchmark for one in series}):
        kept += ["--benchmark", name]
    sizes = sorted({int(one.labels.get("bucket_bytes", one.labels.get("bytes", 0))) for one in series} - {0})
    return [*kept, *(["--sizes", ",".join(map(str, sizes))] if sizes else [])]


def without_backend(record):
    """Series of different backends are compared under what else they have in common."""
    for one in record.series.values():
        one.labels.pop("backend", None)
    record.series = {one.key: one for one in record.series.values()}
    return record
