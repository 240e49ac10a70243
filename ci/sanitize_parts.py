"""What ci/sanitize runs under a sanitizer, split into parts of about the same time.

usage: sanitize_parts.py BUILD thread|address [--part K/N] [--list]

Prints a line for each unit, its kind and name: `test NAME` of ctest, `check PROFILE` of the local backend, `mutants COMPONENT`. The split
depends on the names and on sanitize_times.json alone, so that the N parts, run anywhere, are the whole. With --list also the
seconds that are expected, and what is left out, with the reason. What is not in the file is taken for 30 s.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIMES = Path(__file__).resolve().parent / "sanitize_times.json"
SECONDS, HOUR = 30, 3600
LEFT_OUT = (  # (label or name of a test, or kind of unit and name; the sanitizer, or both; why)
    ("harness", "", "kills and times processes itself, which a sanitizer's slowness and its own exit codes falsify"),
    ("install", "", "a gate of sources, records and packages, not of memory and threads"),
    ("adapter_protocol.reference", "", "measures memory, of which a sanitizer takes several times as much"),
    ("adapter_protocol.sample", "", "measures memory, of which a sanitizer takes several times as much"),
)
ABSENT = (
    "module mpi: Open MPI is not built for sanitizers, and would only be reported itself",
    "modules training and c10d: LibTorch is not built for sanitizers",
)
WITH_THEM, NEED_TORCH = "schedules", {"pipeline", "training"}
CHECKS = ("collectives", "topology")


def tests_of(build):
    """(name, labels) of each test."""
    done = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(f"'{build}' has no tests: {done.stderr.strip().splitlines()[-1:]}; configure it first")
    for test in json.loads(done.stdout)["tests"]:
        yield test["name"], next((one["value"] for one in test["properties"] if one["name"] == "LABELS"), [])


def components():
    """Those that have mutants. Many of the last need LibTorch, so that alone there might be nothing to run."""
    named = {path.parent.name for path in ROOT.glob("conformance/*/requirements.toml")} - NEED_TORCH
    return [*sorted(named - {WITH_THEM}), ",".join(sorted({WITH_THEM} | NEED_TORCH))]


def why_not(names, kind):
    return next((why for name, only, why in LEFT_OUT if name in names and only in ("", kind)), "")


def units_of(tests, mutants, kind):
    """(units, {unit: reason} of those that are left out)."""
    named = {f"test {name}": [name, *labels] for name, labels in tests}
    named |= {f"check {name}": [f"check {name}"] for name in CHECKS} | {f"mutants {name}": [f"mutants {name}"] for name in mutants}
    left = {unit: why for unit, names in named.items() if (why := why_not(names, kind))}
    return [unit for unit in named if unit not in left], left


def split(units, seconds, parts):
    """Longest first, each to the part that has least so far; ties by name and number."""
    found, sums = [[] for _ in range(parts)], [0] * parts
    for unit in sorted(units, key=lambda one: (-seconds(one), one)):
        least = min(range(parts), key=lambda one: (sums[one], one))
        found[least].append(unit)
        sums[least] += seconds(unit)
    return found


def part(text):
    first, _, second = text.partition("/")
    if not (first.isdecimal() and second.isdecimal() and 1 <= int(first) <= int(second) <= 1000):
        raise argparse.ArgumentTypeError(f"'{text}' is not K/N, such as 2/5")
    return int(first), int(second)


def listing(units, left, seconds, given):
    whole = sum(map(seconds, units))
    lines = [f"{seconds(unit):6.0f} s  {unit}" for unit in sorted(units)]
    lines += [f"{whole:6.0f} s  {len(units)} units in part {given[0]}/{given[1]}" + (f"; more than an hour: give more parts than {given[1]}" if whole > HOUR else "")]
    by_reason = {}
    for unit, why in sorted(left.items()):
        by_reason.setdefault(why, []).append(unit)
    for why, names in by_reason.items():
        lines += [f"left out: {why}", *(f"          {name}" for name in names)]
    return lines + [f"left out: {why}" for why in ABSENT]


def main(words):
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.error = lambda message: (print(f"ci/sanitize: {message}", file=sys.stderr), sys.exit(2))
    parser.add_argument("build")
    parser.add_argument("kind", choices=("thread", "address"))
    parser.add_argument("--part", type=part, default=(1, 1))
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args(words)
    try:
        tests = list(tests_of(given.build))
    except ValueError as error:
        parser.error(str(error))
    times = json.loads(TIMES.read_text())[given.kind]
    units, left = units_of(tests, components(), given.kind)
    seconds = lambda unit: times.get(unit, SECONDS)
    chosen = split(units, seconds, given.part[1])[given.part[0] - 1]
    print("\n".join(listing(chosen, left, seconds, given.part) if given.list else chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
