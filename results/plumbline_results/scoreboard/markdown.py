"""The scoreboard as Markdown: what a README or an issue takes."""

import re

MARKS = {"pass": "pass", "fail": "**fail**", "warn": "warn", "skip": "–", "inconclusive": "inconclusive"}


def _plain(value):
    """Text of a stranger's record in a cell: no mark-up, no new column, no new line."""
    return re.sub(r"([\\`*_{}\[\]<>|#~!])", r"\\\1", " ".join(value.split()))


def _cell(cell):
    if cell is None:
        return "–"
    words = [MARKS[cell.verdict], *(f"[{name}](#{name})" for name in cell.causes)]
    if cell.disagreements and cell.unexplained:
        words.append("unexplained")
    return " ".join(words)


def _line(cells):
    return "| " + " | ".join(cells) + " |"


def _cause(cause):
    yield f'### <a id="{cause.id}"></a>{_plain(cause.title)}'
    yield f"{_plain(cause.framework)} {', '.join(map(_plain, cause.versions))} · {cause.kind} · {f'{cause.matches} disagreements' if cause.cases else 'no case asks it'}"
    yield ""
    yield _plain(cause.text)
    if cause.framework_source:
        yield f"- theirs: {_plain(cause.framework_source)}"
    if cause.suite:
        yield f"- the suite's: {_plain(cause.suite)}"
    if cause.reproduction:
        yield f"- reproduction: `{cause.reproduction}`"
    yield ""


def render(board, title):
    heads = [_plain(one.title) for one in board.frameworks]
    lines = [f"# {_plain(title)}", "", board.summary().replace("\n", "  \n"), ""]
    lines += [_line(["requirements", *heads]), _line(["---"] * (len(heads) + 1))]
    for verdict in ("pass", "fail", "warn", "inconclusive", "skip"):
        lines.append(_line([verdict, *(str(one.counts[verdict]) for one in board.frameworks)]))
    for name, rows, others in board.components:
        if not rows:
            continue
        lines += ["", f"## {name}", "", _line(["requirement", *heads]), _line(["---"] * (len(heads) + 1))]
        lines += [_line([row.id, *map(_cell, row.cells)]) for row in rows]
        if others:
            lines += ["", f"{others} further requirements were asked of no framework here."]
    if board.shown_causes:
        lines += ["", "## Causes", "", *(line for cause in board.shown_causes for line in _cause(cause))]
    missing = [(framework, one) for framework, one in board.disagreements if one.cause is None]
    if missing:
        lines += ["", "## Unexplained", ""]
        lines += [f"- {_plain(framework.title)}, {one.requirement}, `{one.case}`: {_plain(one.what[:200])}" for framework, one in missing[:200]]
        if len(missing) > 200:
            lines.append(f"- and {len(missing) - 200} more")
    return "\n".join(lines) + "\n"
