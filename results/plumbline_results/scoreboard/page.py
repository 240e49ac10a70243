"""The scoreboard as one HTML file that needs nothing from anywhere, in the style of the report and with its policy: every value is
escaped, and no script runs and no style applies but those whose hashes the page names."""

from markupsafe import Markup

from ..report import page as report

MOST_UNEXPLAINED = 200


def _template():
    environment = report._template().environment
    environment.globals["marks"] = {"pass": "pass", "fail": "fail", "warn": "warn", "skip": "–", "inconclusive": "unknown"}
    return environment.from_string((report.TEMPLATES.parents[1] / "scoreboard" / "scoreboard.html.j2").read_text("utf-8"))


def render(board, title):
    style = Markup(
        (report.TEMPLATES / "report.css").read_text("utf-8").strip()
        + "\n"
        + (report.TEMPLATES.parents[1] / "scoreboard" / "scoreboard.css").read_text("utf-8").strip()
    )
    script = Markup((report.TEMPLATES.parents[1] / "scoreboard" / "scoreboard.js").read_text("utf-8").strip())
    return _template().render(
        board=board,
        title=report.cut(title, 200),
        missing=board.missing[:MOST_UNEXPLAINED],
        missing_count=len(board.missing),
        by_id={one.id: one for one in board.causes},
        style=style,
        script=script,
        style_hash=report._hash(style),
        script_hash=report._hash(script),
    )
