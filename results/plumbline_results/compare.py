"""`plumbline compare`: which measurements differ."""
import sys

from . import measuring, options
from .options import BadInput

HELP = """Tell which measurements differ: slower, faster, same, ambiguous. BASE and NEW are records (a run.jsonl, the folder that has
one, or a folder of records, whose launches add up), or programs that are run alternately, or backends (backend:NAME)."""
RULES = """
The unit is a launch: the Mann-Whitney test on the medians of launches, Benjamini and Hochberg's procedure over all series at 1 %, and a
shift of at least 0.4 of --effect. What programs or backends show is measured a second time before it counts.
"""
EXAMPLE = """Example: plumbline bench --launches 20 --out base, then with the other version --out new, then
         plumbline compare base new
         plumbline compare old/plumbline new/plumbline --launches 20 -- --benchmark 'collectives.all_reduce*' --sizes 4,1Mi
         plumbline compare backend:local backend:mpi -- --sizes 4
Exit status: 0 compared, whatever the verdicts; 2 usage; 3 a program failed, or the machine is at fault: nearly all series shifted, or
the records are of different machines."""


def add_options(parser):
    parser.add_argument("--effect", type=options.share, default=0.05, metavar="SHARE", help="the smallest change that matters (default 5%%)")
    parser.add_argument("--launches", type=options.whole("count", 5), default=20, metavar="N",
                        help="of each program or backend, at least 5 (default 20)")
    parser.add_argument("--calibration", metavar="FILE", help="the noise of this machine, as `plumbline calibrate` wrote it "
                        "(default: that of the launches that are compared)")
    parser.add_argument("--format", default="text", choices=("text", "md", "json"), metavar="FORMAT", help="text, md (a job's summary) or json (default text)")
    parser.add_argument("--keep", metavar="DIR", help="a folder where the records of the launches stay")


def compared(given, bench):
    """The comparison that the options ask for; suspects of programs are measured twice."""
    from . import calibrate, comparison
    rules = comparison.Rules(effect=given.effect)
    noise = calibrate.noise_of(given.calibration) if given.calibration else None
    sides = [measuring.side_of(word) for word in (given.base, given.new)]
    if sides.count(None) == 1:
        raise BadInput(f"'{given.base}' and '{given.new}': one is a record and one is run; give two records, or two to run")
    if sides[0] is None:
        if bench:
            raise BadInput(f"'-- {' '.join(bench)}': options of bench are for programs and backends, and these are records")
        return _of_records(given, rules, noise)
    return _of_programs(sides, given, bench, rules, noise)


def _check_noise(given, noise, record, keys):
    """That a calibration is of the record's machine, and of any of its series. Throws BadInput."""
    if noise is None:
        return
    if noise.machine != record.machine:
        raise BadInput(f"--calibration {given.calibration}: of another machine than '{given.base}'; calibrate on that one")
    if not any(key in noise for key in keys):
        raise BadInput(f"--calibration {given.calibration}: it has none of the series of '{given.base}'; calibrate with the same options of bench")


def _of_records(given, rules, noise):
    from . import comparison, series
    base, new = series.read_all([given.base]), series.read_all([given.new])
    _check_noise(given, noise, base, base.series)
    found = comparison.compare(base.series, new.series, rules, noise)
    if not any(row.shift for row in found.rows):
        labels = series.differing_labels(base, new)
        raise BadInput(f"'{given.base}' and '{given.new}' have no series in common{f': the most alike have {labels}' if labels else ''}; "
                       "measure both with the same options of bench")
    differences = series.differing_machines(base, new)
    if differences:
        found.machine = f"the records are of different machines: {differences}"
    return found


def _of_programs(sides, given, bench, rules, noise):
    from . import comparison
    across = any(side.options for side in sides)

    def once(arguments, part):
        folder = f"{given.keep}/{part}" if given.keep else None
        records = measuring.measure(sides, arguments, given.launches, folder)
        if across:
            records = [measuring.without_backend(record) for record in records]
        _check_noise(given, noise, records[0], records[0].series)
        return comparison.compare(records[0].series, records[1].series, rules, noise, interleaved=True)

    found = once(bench, "first")
    suspects = [row.series for row in found.of("slower", "faster")]
    if suspects:
        print(f"{len(suspects)} of {len(found.rows)} series differ; measuring those again", file=sys.stderr)
        comparison.confirm(found, once(measuring.arguments_for(suspects, bench), "again"))
    return found


def main(words):
    def body():
        words_here, bench = measuring.split(words)
        parser = options.parser("compare", HELP + "\n" + RULES, EXAMPLE)
        parser.add_argument("base", metavar="BASE", help="what was before")
        parser.add_argument("new", metavar="NEW", help="what is now")
        add_options(parser)
        given = parser.parse_args(words_here)
        found = compared(given, bench)
        from . import tables
        print(tables.text_of(found, given.format))
        return 3 if found.machine else 0
    return options.status_of("compare", body)
