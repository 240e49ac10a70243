"""`plumbline gate`: fails when a measurement became slower, or contradicts another one."""
import sys

from . import compare, measuring, options
from .options import BadInput

HELP = """Fail when a measurement became slower. BASE and NEW are what `plumbline compare` takes, and judged as there. A series whose noise
hides a change of --effect, or whose launches are too few, is shown as not gateable. With --guidelines no base is needed: a measurement must not contradict another one
of the same record, as where an all-reduce takes longer than a reduce-scatter and an all-gather."""
EXAMPLE = """Example: plumbline gate main/bench results/latest/bench --calibration calibration.json
         plumbline gate old/plumbline new/plumbline -- --benchmark 'collectives.*'
         plumbline gate --guidelines results/latest/bench
Exit status: 0 nothing became slower; 1 something did, or is missing, or a guideline is violated; 2 usage; 3 a program failed, the machine
is at fault, a series is ambiguous, or nothing could be gated."""


def _parse(words):
    parser = options.parser("gate", HELP, EXAMPLE)
    parser.add_argument("record", nargs="*", metavar="BASE NEW", help="what was before and what is now; with --guidelines, records")
    parser.add_argument("--guidelines", action="store_true", help="compare measurements of the same run with each other")
    parser.add_argument("--allow-missing", action="store_true", help="a series that only BASE has is no failure")
    compare.add_options(parser)
    given = parser.parse_args(words)
    if not given.guidelines and len(given.record) != 2:
        raise BadInput(f"{len(given.record)} records are given; it takes BASE and NEW, or --guidelines and one or more "
                       "(see plumbline gate --help)")
    if given.guidelines and not given.record:
        raise BadInput("--guidelines without a record; name the run.jsonl of a `plumbline bench --launches 20`")
    return given


def status_of(found, allow_missing):
    """Of a gate over a comparison."""
    if found.machine:
        return 3
    if found.of("slower") or (found.of("missing") and not allow_missing):
        return 1
    return 0 if found.of("same", "faster") and not found.of("ambiguous") else 3


def _against_base(given, bench):
    from . import tables
    given.base, given.new = given.record
    found = compare.compared(given, bench)
    print(tables.text_of(found, given.format))
    status = status_of(found, given.allow_missing)
    unclear = found.of("ambiguous")
    if status == 3 and unclear and not found.machine:
        print(f"plumbline: gate: {len(unclear)} series are ambiguous, as {unclear[0].series.name}; more launches tell", file=sys.stderr)
    elif status == 3 and not found.machine:
        print(f"plumbline: gate: nothing can be gated at {100 * given.effect:g} %; more launches, a quieter host or a larger --effect help",
              file=sys.stderr)
    return status


def main(words):
    def body():
        words_here, bench = measuring.split(words)
        given = _parse(words_here)
        if not given.guidelines:
            return _against_base(given, bench)
        if bench:
            raise BadInput(f"'-- {' '.join(bench)}': --guidelines reads records, which have options of their own")
        from . import guidelines
        return guidelines.gate(given)
    return options.status_of("gate", body)
