"""Comparisons as text, Markdown and JSON."""
import json
import re
import statistics

from .series import printable

FORMATS = ("text", "md", "json")
UNITS = ((1, "s"), (1e-3, "ms"), (1e-6, "us"), (0, "ns"))


def value_text(value, unit):
    if unit != "seconds":
        return f"{value:.4g} {unit}"
    scale, name = next(row for row in UNITS if value >= row[0])
    return f"{value / (scale or 1e-9):.3f} {name}"


def percent(share):
    return f"{100 * share:+.1f} %"


def _cells(row):
    center = lambda medians: value_text(statistics.median(medians), row.series.unit) if medians else "-"
    if not row.shift:
        return [row.series.name, center(row.base), center(row.new), "", "", row.verdict + (f": {row.why}" if row.why else "")]
    bound = lambda factor: percent(factor - 1)
    interval = f"[{bound(row.shift.low)}, {bound(row.shift.high)}]" if row.shift.high != float("inf") else "unknown"
    verdict = row.verdict
    if verdict in ("slower", "faster", "same") and row.gateable is not None:
        verdict += f" (gateable at {100 * row.gateable:.1f} %)"
    return [row.series.name, center(row.base), center(row.new), percent(row.change), interval, verdict + (f": {row.why}" if row.why else "")]


HEADINGS = ["series", "base", "new", "change", "95 % interval", "verdict"]


def aligned(headings, rows):
    """Lines of columns: the first and the last from the left, numbers from the right."""
    table = [[printable(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    last = len(headings) - 1
    return ["  ".join(cell.ljust(width) if column in (0, last) else cell.rjust(width)
                      for column, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in table]


def escaped(text):
    """With nothing that Markdown, HTML or GitHub gives a meaning."""
    text = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_{}\[\]()#!|~$])", r"\\\1", text)
    return text.replace("@", "@&#8203;").replace("://", ":&#8203;//").replace("www.", "www&#8203;.")


def markdown(headings, rows):
    lines = [headings, ["---"] * len(headings), *[[escaped(cell) for cell in row] for row in rows]]
    return ["| " + " | ".join(row) + " |" for row in lines]


def summary(comparison):
    counts = {}
    for row in comparison.rows:
        counts[row.verdict] = counts.get(row.verdict, 0) + 1
    order = ("slower", "faster", "same", "ambiguous", "not gateable", "missing", "new")
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in order if verdict in counts)
    return f"{len(comparison.rows)} series: {words}; a change is the median over all pairs of launches, not that of the medians"


def _json(comparison):
    finite = lambda value: value if value is not None and abs(value) != float("inf") else None
    rows = [{"benchmark": row.series.benchmark, "labels": row.series.labels, "unit": row.series.unit, "verdict": row.verdict, "why": row.why,
             "base": row.base, "new": row.new, "q": row.q, "gateable": row.gateable,
             **({"factor": row.shift.factor, "low": finite(row.shift.low or None), "high": finite(row.shift.high), "p": row.shift.p}
                if row.shift else {})} for row in comparison.rows]
    return json.dumps({"machine": comparison.machine, "series": rows}, indent=1)


def text_of(comparison, form):
    if form == "json":
        return _json(comparison)
    rows = [_cells(row) for row in comparison.rows]
    if form == "md":  # what is well is counted, not listed
        rows = [cells for cells, row in zip(rows, comparison.rows) if row.verdict != "same"]
        lines = [f"**{summary(comparison)}**", "", *(markdown(HEADINGS, rows) if rows else [])]
    else:
        lines = [*aligned(HEADINGS, rows), summary(comparison)]
    if comparison.machine:
        lines.append("machine: " + (escaped if form == "md" else printable)(comparison.machine))
    return "\n".join(lines)
