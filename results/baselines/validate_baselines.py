#!/usr/bin/env python3
"""Checks that files of measured GPU figures keep their form (README.md), and claim nothing that was not measured.

usage: validate_baselines.py [FILE.json...]     (default: all beside this program)

Exit status 0 when all are well, 1 when one is not, 2 for a file that cannot be read.
"""
import json, re, sys
from pathlib import Path

VERSIONS = {"driver", "cuda", "nccl", "torch"}
CLOCKS = {"memory", "multiprocessors"}
FIGURE = {"name", "unit", "goal", "command", "value"}
MEASURED = {"interval", "launches"}


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_text(value):
    return isinstance(value, str) and value.strip() != ""


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def problems_of_figure(figure, status, gpus):
    where = f"figure '{figure.get('name', '?')}'"
    value = figure.get("value")
    allowed = FIGURE | {"gpus"} | (MEASURED if value is not None else {"why"})
    for field in sorted(FIGURE - figure.keys()):
        yield f"{where}: {field} is missing"
    for field in sorted(figure.keys() - allowed):
        yield f"{where}: {field} does not belong there"
    for field in ("name", "unit", "command"):
        if field in figure and not is_text(figure[field]):
            yield f"{where}: {field} is no text"
    if not is_count(figure.get("gpus", 1)):
        yield f"{where}: gpus is no whole number from 1 on"
    elif "gpus" in figure and is_count(gpus) and figure["gpus"] <= gpus:
        yield f"{where}: gpus is {figure['gpus']}, no more than the {gpus} of the others"
    if not is_number(figure.get("goal")):
        yield f"{where}: goal is no number"
    if value is None:
        if status == "measured" and not is_text(figure.get("why")):
            yield f"{where}: no value, and no why"
        return
    if status == "not run":
        yield f"{where}: a value, where nothing was run"
    interval = figure.get("interval")
    if not is_number(value):
        yield f"{where}: value is no number"
    elif not (isinstance(interval, list) and len(interval) == 2 and all(map(is_number, interval)) and interval[0] <= value <= interval[1]):
        yield f"{where}: interval is not two numbers around the value"
    launches = figure.get("launches")
    if not is_count(launches):
        yield f"{where}: launches is no whole number from 1 on"


def problems(baseline):
    if not isinstance(baseline, dict):
        return ["it is no object"]
    found = []
    status = baseline.get("status")
    common = {"schema", "device", "gpus", "status", "figures"}
    more = {"not run": {"why"}, "measured": {"date", "commit", "versions", "clocks"}}.get(status if is_text(status) else None)
    if more is None:
        return [f"status {status!r} is neither 'measured' nor 'not run'"]
    found += [f"{field} is missing" for field in sorted((common | more) - baseline.keys())]
    found += [f"{field} does not belong into one that is {status}" for field in sorted(baseline.keys() - common - more)]
    if found:
        return found
    if baseline["schema"] != 1:
        found.append(f"schema {baseline['schema']!r} is not 1")
    if not is_text(baseline["device"]):
        found.append("device is no text")
    if not is_count(baseline["gpus"]):
        found.append("gpus is no whole number from 1 on")
    if status == "not run" and not is_text(baseline["why"]):
        found.append("why is no text")
    if status == "measured":
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", str(baseline["date"])):
            found.append(f"date {baseline['date']!r} is not YYYY-MM-DD")
        if not re.fullmatch(r"[0-9a-f]{7,40}", str(baseline["commit"])):
            found.append(f"commit {baseline['commit']!r} is none")
        for field, keys in (("versions", VERSIONS), ("clocks", CLOCKS)):
            if not isinstance(baseline[field], dict) or baseline[field].keys() != keys or not all(baseline[field].values()):
                found.append(f"{field} must say {', '.join(sorted(keys))}")
    figures = baseline["figures"]
    if not (isinstance(figures, list) and figures and all(isinstance(figure, dict) for figure in figures)):
        return found + ["figures is no list of figures"]
    names = [figure.get("name") for figure in figures]
    found += [f"figure '{name}' stands twice" for name in sorted({name for name in names if names.count(name) > 1}, key=str)]
    for figure in figures:
        found += problems_of_figure(figure, status, baseline["gpus"])
    if status == "measured" and all(figure.get("value") is None for figure in figures):
        found.append("nothing was measured: status is 'not run'")
    return found


def main(arguments):
    files = [Path(argument) for argument in arguments] or sorted(Path(__file__).parent.glob("*.json"))
    worst = 0
    for file in files:
        try:
            baseline = json.loads(file.read_text())
        except (OSError, ValueError) as error:
            print(f"validate_baselines: {file}: {error}", file=sys.stderr)
            return 2
        for problem in problems(baseline):
            print(f"{file}: {problem}")
            worst = 1
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
