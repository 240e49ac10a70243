"""`plumbline report`: records as a page that people look at, as Markdown, or as the summary of a CI job."""
import argparse
import os
import sys
import tempfile
from pathlib import Path

from .records import BadInput, text

FORMATS = ("html", "md", "github")
HELP = """Show records of check, bench, train and mutants: verdicts with their requirements, failures with the rank that caused
them first, measurements as curves with intervals, bubbles, mutants, changes since a baseline, the machine."""
EXAMPLE = """Example: plumbline report results/latest/check results/latest/bench --baseline main/check --out report.html
         plumbline report results/latest/check --format github >> "$GITHUB_STEP_SUMMARY"
Exit status: 0 the report is written, whatever the runs came to; 2 a bad option or record; 3 it could not be written, or
jinja2 is missing (pip install jinja2)."""


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise BadInput(f"{message}; see plumbline report --help")


def _parser():
    parser = _Parser(prog="plumbline report", description=HELP, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter,
                     allow_abbrev=False)
    parser.add_argument("record", nargs="+", metavar="RECORD", help="a run.jsonl, or the folder that has one; also of a run that was killed")
    parser.add_argument("--format", default="html", metavar="FORMAT",
                        help="html: one file with all in it; md: Markdown; github: a job's summary, what is wrong or changed alone (default html)")
    parser.add_argument("--out", metavar="FILE", help="where it goes, - for standard output (default report.html beside the first record; - for md and github)")
    parser.add_argument("--baseline", action="append", default=[], metavar="RECORD", help="shows what changed since this record; may be repeated")
    parser.add_argument("--mutation", action="append", default=[], metavar="FILE", help="adds a score that ci/mutation-score wrote; may be repeated")
    parser.add_argument("--timeline", action="append", default=[], metavar="FILE",
                        help="adds a timeline, as `plumbline schedule --format trace` writes it; may be repeated")
    parser.add_argument("--title", default="", metavar="TEXT", help="of the page (default the names of the subjects)")
    return parser


def _load(options):
    from .extras import load_score, load_timeline
    from .records import load
    if options.format not in FORMATS:
        raise BadInput(f"--format '{options.format}'; it is html, md or github")
    records, baselines = ([load(path) for path in paths] for paths in (options.record, options.baseline))
    _name(records)
    _name(baselines)
    return records, baselines, [load_timeline(path) for path in options.timeline], [load_score(path) for path in options.mutation]


def _name(records):
    """Each record's folder, with as much of its path as tells it from the others."""
    paths = [Path(record.path).absolute() for record in records]
    paths = [path.parent if path.name == "run.jsonl" else path for path in paths]
    for index, record in enumerate(records):
        others = paths[:index] + paths[index + 1:]
        for count in range(1, len(paths[index].parts) + 1):
            record.name = "/".join(paths[index].parts[-count:])
            if all(other.parts[-count:] != paths[index].parts[-count:] for other in others):
                break
        else:
            record.name += f" ({index + 1})"
        record.name = text(record.name)


def _report(options):
    from .compared import compare, hosts_differ
    from .markdown import summary, whole
    records, baselines, timelines, scores = _load(options)
    comparison = compare(baselines, records) if baselines else None
    if options.format == "github":
        return summary(records, comparison)
    if options.format == "md":
        return whole(records, comparison, scores)
    from .page import render
    warning = ""
    if comparison and comparison.shifts and hosts_differ(baselines, records):
        warning = "The baseline was measured on another machine: its times say nothing about those of these records."
    return render(records, baselines, comparison, timelines, scores, options.title, warning)


def _write(page, out):
    if out == "-":
        sys.stdout.buffer.write(page.encode("utf-8"))
        sys.stdout.buffer.flush()
        return
    folder = Path(out).absolute().parent
    folder.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: whoever looks at the old page meanwhile sees it.
    handle, name = tempfile.mkstemp(dir=folder, prefix=".report-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(page.encode("utf-8"))
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, out)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _default_out(options):
    if options.format != "html":
        return "-"
    first = Path(options.record[0])
    return str((first if first.is_dir() else first.parent) / "report.html")


def main(arguments):
    """Returns the exit status."""
    try:
        options = _parser().parse_args(arguments)
        page = _report(options)
    except BadInput as error:
        print(f"plumbline: report: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if error.name not in ("jinja2", "markupsafe"):  # the latter comes with the former
            raise
        print(f"plumbline: report: {sys.executable} has no jinja2; pip install jinja2, or set PLUMBLINE_PYTHON to a Python that has it",
              file=sys.stderr)
        return 3
    out = options.out or _default_out(options)
    try:
        _write(page, out)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more
        return 0
    except OSError as error:
        print(f"plumbline: report: {out}: {error.strerror or error}; --out names another file", file=sys.stderr)
        return 3
    if out != "-":
        print(f"report: {out}")
    return 0
