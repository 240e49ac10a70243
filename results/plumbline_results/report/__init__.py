"""`plumbline report`: records as a page that people look at, as Markdown, or as the summary of a CI job."""

from pathlib import Path

from ..options import BadInput, parser, status_of
from ..writing import write
from .records import text

FORMATS = ("html", "md", "github")
HELP = """Show records of check, bench, train and mutants: verdicts with their requirements, failures
with the rank that caused them first, measurements as curves with intervals, bubbles, mutants,
changes since a baseline, the machine."""
EXAMPLE = """Example: plumbline report results/latest/check-local results/latest/bench --baseline main/check --out report.html
         plumbline report results/latest/check-local --format github >> "$GITHUB_STEP_SUMMARY"
Exit status: 0 the report is written, whatever the runs came to; 2 a bad option or record; 3 it could
not be written, or jinja2 is missing (pip install jinja2)."""


def _options():
    one = parser("report", HELP, EXAMPLE)
    one.add_argument(
        "record",
        nargs="+",
        metavar="RECORD",
        help="a run.jsonl, or the folder that has one; also of a run that was killed",
    )
    one.add_argument(
        "--format",
        default="html",
        metavar="FORMAT",
        help="html: one file with all in it; md: Markdown; github: a job's summary, what is wrong or changed alone (default html)",
    )
    one.add_argument(
        "--out",
        metavar="FILE",
        help="where it goes, - for standard output (default report.html beside the first record; - for md and github)",
    )
    one.add_argument(
        "--baseline",
        action="append",
        default=[],
        metavar="RECORD",
        help="shows what changed since this record; may be repeated",
    )
    one.add_argument(
        "--mutation",
        action="append",
        default=[],
        metavar="FILE",
        help="adds a score that ci/mutation-score wrote; may be repeated",
    )
    one.add_argument(
        "--timeline",
        action="append",
        default=[],
        metavar="FILE",
        help="adds a timeline, as `plumbline schedule --format trace` writes it; may be repeated",
    )
    one.add_argument("--title", default="", metavar="TITLE", help="of the page (default the names of the subjects)")
    return one


def _load(options):
    from .extras import load_score, load_timeline
    from .records import load

    if options.format not in FORMATS:
        raise BadInput(f"--format '{options.format}'; it is html, md or github")
    records, baselines = ([load(path) for path in paths] for paths in (options.record, options.baseline))
    _name(records)
    _name(baselines)
    return (
        records,
        baselines,
        [load_timeline(path) for path in options.timeline],
        [load_score(path) for path in options.mutation],
    )


def _name(records):
    """Each record's folder, with as much of its path as tells it from the others."""
    paths = [Path(record.path).absolute() for record in records]
    paths = [path.parent if path.name == "run.jsonl" else path for path in paths]
    for index, record in enumerate(records):
        others = paths[:index] + paths[index + 1 :]
        for count in range(1, len(paths[index].parts) + 1):
            record.name = "/".join(paths[index].parts[-count:])
            if all(other.parts[-count:] != paths[index].parts[-count:] for other in others):
                break
        else:
            record.name += f" ({index + 1})"
        record.name = text(record.name)


def _report(options):
    from .compared import compare
    from .markdown import summary, whole

    records, baselines, timelines, scores = _load(options)
    comparison = compare(baselines, records) if baselines else None
    if options.format == "github":
        return summary(records, comparison)
    if options.format == "md":
        return whole(records, comparison, scores)
    from .page import render

    return render(records, baselines, comparison, timelines, scores, options.title)


def _default_out(options):
    if options.format != "html":
        return "-"
    first = Path(options.record[0])
    return str((first if first.is_dir() else first.parent) / "report.html")


def main(arguments):
    """Returns the exit status."""
    return status_of("report", lambda: _run(arguments))


def _run(arguments):
    options = _options().parse_args(arguments)
    page = _report(options)
    out = options.out or _default_out(options)
    write(out, page)
    if out != "-":
        print(f"report: {out}")
    return 0
