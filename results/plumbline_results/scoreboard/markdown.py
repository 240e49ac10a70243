"""The scoreboard as Markdown: what a README or an issue takes."""

from ..report.escaping import MOST_TEXT, anchor, code, plain

MARKS = {"pass": "pass", "fail": "**fail**", "warn": "warn", "skip": "–", "inconclusive": "inconclusive"}
MOST_LISTED = 200


def _cell(cell):
    if cell is None:
        return "–"
    words = [MARKS[cell.verdict], *(f"[{plain(name)}](#{anchor(name)})" for name in cell.causes)]
    if cell.disagreements and cell.unexplained:
        words.append("unexplained")
    return " ".join(words)


def _line(cells):
    return "| " + " | ".join(cells) + " |"


def _cause(cause):
    yield f'### <a id="{anchor(cause.id)}"></a>{plain(cause.title)}'
    yield f"{plain(cause.framework)} {', '.join(map(plain, cause.versions))} · {cause.kind} · {f'{cause.matches} disagreements' if cause.cases else 'no case asks it'}"
    yield ""
    yield plain(cause.text, MOST_TEXT)
    if cause.framework_source:
        yield f"- theirs: {plain(cause.framework_source)}"
    if cause.suite:
        yield f"- the suite's: {plain(cause.suite)}"
    if cause.reproduction:
        yield f"- reproduction: {code(cause.reproduction)}"
    yield ""


def render(board, title):
    heads = [plain(one.title) for one in board.frameworks]
    lines = [f"# {plain(title)}", "", "  \n".join(map(plain, board.summary().splitlines())), ""]
    lines += [_line(["requirements", *heads]), _line(["---"] * (len(heads) + 1))]
    for verdict in ("pass", "fail", "warn", "inconclusive", "skip"):
        lines.append(_line([verdict, *(str(one.counts[verdict]) for one in board.frameworks)]))
    for name, rows, others in board.components:
        if not rows:
            continue
        lines += ["", f"## {name}", "", _line(["requirement", *heads]), _line(["---"] * (len(heads) + 1))]
        lines += [_line([plain(row.id), *map(_cell, row.cells)]) for row in rows]
        if others:
            lines += ["", f"{others} further requirements were asked of no framework here."]
    if board.shown_causes:
        lines += ["", "## Causes", "", *(line for cause in board.shown_causes for line in _cause(cause))]
    if board.missing:
        lines += ["", "## Unexplained", ""]
        lines += [f"- {plain(framework.title)}, {plain(one.requirement)}, {one.judgement}, {code(one.case)}: {plain(one.what, 200)}" for framework, one in board.missing[:MOST_LISTED]]
        if len(board.missing) > MOST_LISTED:
            lines.append(f"- and {len(board.missing) - MOST_LISTED} more")
    return "\n".join(lines) + "\n"
