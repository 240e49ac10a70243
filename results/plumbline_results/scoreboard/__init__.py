"""`plumbline scoreboard`: what real frameworks answer, requirement by requirement, with the cause of every disagreement."""

import json
import sys
from pathlib import Path

from ..options import BadInput, parser, status_of
from ..writing import write

FORMATS = ("html", "md", "json")
# Beside the adapters whose records it explains, in a checkout.
CAUSES = Path(__file__).resolve().parents[3] / "conformance" / "adapters" / "disagreements.toml"
HELP = """Show records of check as one table: a row for each requirement, a column for each framework with its
version. Each disagreement carries its cause from a table in TOML: a convention, a defect of the framework, a limit
of its adapter, or a fault of Plumbline."""
EXAMPLE = """Example: plumbline scoreboard results/latest/adapters/*/ --out scoreboard.html
Exit status: 0 every disagreement has a cause; 1 one has none, a case has no verdict, or a run did not finish; 2 a bad option, record or
table of causes; 3 the scoreboard could not be written, or jinja2 is missing (pip install jinja2)."""


def _options():
    one = parser("scoreboard", HELP, EXAMPLE)
    one.add_argument("record", nargs="+", metavar="RECORD", help="a run.jsonl of check, or the folder that has one")
    one.add_argument(
        "--causes",
        metavar="FILE",
        help="table of the causes (default conformance/adapters/disagreements.toml of the checkout; without one, no causes)",
    )
    one.add_argument(
        "--format",
        default="html",
        metavar="FORMAT",
        help="html: one file with all in it; md: Markdown; json (default html)",
    )
    one.add_argument(
        "--out",
        metavar="FILE",
        help="where it goes, - for standard output (default scoreboard.html beside the first record; - for md and json)",
    )
    one.add_argument("--title", default="Scoreboard", metavar="TITLE", help="of the page (default Scoreboard)")
    return one


def _text_of(form, board, title):
    if form == "json":
        return json.dumps(board.as_json(), indent=1, ensure_ascii=False) + "\n"
    if form == "md":
        from .markdown import render
    else:
        from .page import render
    return render(board, title)


def _default_out(options):
    if options.format != "html":
        return "-"
    first = Path(options.record[0])
    return str((first if first.is_dir() else first.parent) / "scoreboard.html")


def _run(arguments):
    from .board import Board
    from .causes import load_causes

    options = _options().parse_args(arguments)
    if options.format not in FORMATS:
        raise BadInput(f"--format '{options.format}'; it is html, md or json")
    causes = load_causes(options.causes) if options.causes else load_causes(CAUSES) if CAUSES.exists() else []
    board = Board(options.record, causes)
    page = _text_of(options.format, board, options.title)
    out = options.out or _default_out(options)
    write(out, page)
    print(board.summary(), file=sys.stderr if out == "-" else sys.stdout)
    if out != "-":
        print(f"scoreboard: {out}")
    return 1 if board.unexplained or board.unfinished else 0


def main(arguments):
    """Returns the exit status."""
    return status_of("scoreboard", lambda: _run(arguments))
