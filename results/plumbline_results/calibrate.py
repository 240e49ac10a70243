"""`plumbline calibrate`: which changes this machine can tell from its own noise."""
import json
import math
import statistics
from pathlib import Path

from . import measuring, options, run_folder, writing
from .options import BadInput

HELP = """Measure one program against itself, in launches that alternate, and say for each series how small a change a gate can find here.
With --from, launches that were already recorded stand for that. What is smaller than that is no regression and no pass either: `plumbline
gate --calibration FILE` shows such series as not gateable."""
EXAMPLE = """Example: plumbline calibrate --out calibration.json -- --benchmark 'collectives.*' --sizes 4,64Ki
         plumbline calibrate --from results/latest/bench --effect 2%
Exit status: 0 measured; 2 usage; 3 the program failed, or a file cannot be written."""
SCHEMA = 1


class Noise(dict):
    """Launch medians of one program by series: a tuple of tuples each. `machine` is where they were measured."""
    machine: dict = {}


def noise_of(file):
    """What a calibration says. Throws BadInput."""
    try:
        value = json.loads(Path(file).read_text(encoding="utf-8"))
        if value["schema"] != SCHEMA:
            raise ValueError(f"schema {value['schema']}, and this reads {SCHEMA}")
        noise = Noise()
        for series in value["series"]:
            medians = tuple(tuple(float(one) for one in side) for side in series["medians"])
            if not medians or not all(side and all(math.isfinite(one) and one > 0 for one in side) for side in medians):
                raise ValueError(f"medians of {series['benchmark']} are not numbers above 0")
            noise[series["benchmark"], tuple(sorted(series["labels"].items()))] = medians
        noise.machine = value["machine"]
        return noise
    except OSError as error:
        raise BadInput(f"--calibration {file}: {error.strerror}; `plumbline calibrate --out FILE` writes one") from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) else str(error)
        raise BadInput(f"--calibration {file}: no calibration: {why}; `plumbline calibrate --out FILE` writes one") from None


def _cells(series, sides, effect):
    from . import estimates, tables
    everything = [one for side in sides for one in side]
    least = estimates.smallest_effect(sides, len(sides[0]), len(sides[-1]))
    verdict = "gateable" if least <= effect else f"not gateable at {100 * effect:g} %"
    spread = statistics.stdev(everything) / statistics.mean(everything) if len(everything) > 1 else 0
    return least, [series.name, tables.value_text(statistics.median(everything), series.unit), f"{100 * spread:.1f} %",
                   f"{100 * least:.1f} %", verdict]


def _parse(words):
    parser = options.parser("calibrate", HELP, EXAMPLE)
    parser.add_argument("program", nargs="?", metavar="PROGRAM", help="what is measured against itself (default: this one)")
    parser.add_argument("--from", dest="recorded", action="append", metavar="RECORD",
                        help="launches of one program that were recorded; may be repeated")
    parser.add_argument("--launches", type=options.whole("count", 5), default=20, metavar="N", help="of either side, at least 5 (default 20)")
    parser.add_argument("--effect", type=options.share, default=0.05, metavar="SHARE", help="the change that must be found (default 5%%)")
    parser.add_argument("--out", metavar="FILE", help="where the calibration goes (default: calibration.json in a dated folder "
                        "under results/runs; results/latest/calibrate links to it)")
    return parser.parse_args(words)


def _measured(given, bench):
    """Two records of one program; of one that is given, only that."""
    from . import series
    if given.recorded:
        if given.program or bench:
            raise BadInput(f"--from {given.recorded[0]}: with it nothing is run; leave PROGRAM and '--' out")
        return [series.read_all(given.recorded)]
    side = measuring.side_of(given.program) if given.program else measuring.Side("this program", "")
    if side is None:
        raise BadInput(f"'{given.program}' is not a program that can be run; --from reads records")
    return measuring.measure([side, side], bench, given.launches)


def main(words):
    def body():
        from . import comparison, series, tables
        words_here, bench = measuring.split(words)
        given = _parse(words_here)
        records = _measured(given, bench)
        rows, written = [], []
        for one in sorted(records[0].series.values(), key=series.order):
            sides = tuple(tuple(record.series[one.key].medians) for record in records if one.key in record.series)
            if len(sides[0]) < 5:
                raise BadInput(f"{records[0].path}: {one.name} has {len(sides[0])} launches; a calibration takes at least 5 "
                               "(bench --launches 20)")
            least, cells = _cells(one, sides, given.effect)
            rows.append(cells)
            written.append({"benchmark": one.benchmark, "labels": one.labels, "unit": one.unit, "medians": sides, "gateable": least})
        given.out = given.out or str(run_folder.new_folder("calibrate") / "calibration.json")
        writing.write(given.out, json.dumps({"schema": SCHEMA, "machine": records[0].machine, "series": written}, indent=1) + "\n")
        print("\n".join(tables.aligned(["series", "median", "deviation", "finds from", "verdict"], rows)))
        if len(records) == 2:
            found = comparison.compare(records[0].series, records[1].series, comparison.Rules(given.effect), interleaved=True)
            print(f"against itself: {tables.summary(found)}")
        print(f"calibration: {given.out}")
        return 0
    return options.status_of("calibrate", body)
