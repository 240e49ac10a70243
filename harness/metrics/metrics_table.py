#!/usr/bin/env python3
"""The table of metrics (metrics.toml), and README.md, which shows it.

usage: metrics_table.py [--update]

Fails where README.md shows another table; --update writes it there.
"""
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    import tomli as tomllib

FOLDER = Path(__file__).resolve().parent
README = FOLDER / "README.md"
BEGIN = "<!-- metrics_table.py --update writes from here on -->\n"


def table():
    """metrics.toml, where each metric has the `labels` of its group, too, and its `unit`, or ""."""
    whole = tomllib.loads((FOLDER / "metrics.toml").read_text(encoding="utf-8"))
    for group in whole["group"]:
        for metric in group["metric"]:
            metric["labels"] = group.get("labels", []) + metric.get("labels", [])
            metric.setdefault("unit", "")
    return whole


def _codes(names):
    return ", ".join(f"`{name.rstrip('?')}`" + ("?" if name.endswith("?") else "") for name in names)


def markdown(whole):
    """What README.md shows."""
    lines = [f"Labels of every series: {_codes(whole['run_labels'])}, and those of `--label`.", ""]
    for group in whole["group"]:
        by = group["by"] if group["by"].startswith("every") else f"`{group['by']}`"
        lines += [f"### {group['title']}", f"Written by {by}.", "", "| metric | unit | labels | meaning |", "| --- | --- | --- | --- |"]
        lines += [f"| `{one['name']}` | {one['unit']} | {_codes(one['labels'])} | {one['help']} |" for one in group["metric"]] + [""]
    return "\n".join(lines).rstrip() + "\n"


def due():
    """README.md as it is due."""
    return README.read_text(encoding="utf-8").split(BEGIN)[0] + BEGIN + markdown(table())


def main(words):
    if words not in ([], ["--update"]):
        print(f"metrics_table.py: '{' '.join(words)}'; it takes --update or nothing", file=sys.stderr)
        return 2
    if words:
        README.write_text(due(), encoding="utf-8")
    elif README.read_text(encoding="utf-8") != due():
        print("harness/metrics/README.md shows another table than metrics.toml has; run harness/metrics/metrics_table.py --update")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
