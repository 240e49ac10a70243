#!/usr/bin/env python3
"""The table of metrics (metrics.toml), and what is made of it: README.md, which shows it, and with views.toml the dashboard for Grafana
and the alert rules in results/dashboard.

usage: metrics_table.py [--update]

Fails where a file is another than is made of the table; --update writes them.
"""
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    import tomli as tomllib

sys.path.insert(0, str(Path(__file__).resolve().parent))
import views  # noqa: E402

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
    """{path: text} of the files that are made of the table, as they are due."""
    whole = table()
    return {README: README.read_text(encoding="utf-8").split(BEGIN)[0] + BEGIN + markdown(whole), **views.due(whole)}


def main(words):
    if words not in ([], ["--update"]):
        print(f"metrics_table.py: '{' '.join(words)}'; it takes --update or nothing", file=sys.stderr)
        return 2
    try:
        files = due()
    except views.BadView as error:
        print(error, file=sys.stderr)
        return 1
    status = 0
    for path, text in files.items():
        if words:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            print(f"{path} is another than the table makes; run harness/metrics/metrics_table.py --update")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
