"""`plumbline trend`: at which runs of a history measurements changed, by change points.

Model   A series over the history is a value a run, the median of its launches, in the order in which the runs began. In logarithms, in
        units of its own noise, and after a median of three, so that one odd run is no change, PELT finds the changes of the mean that
        are worth their penalty (R. Killick, P. Fearnhead, I. Eckley, 2012; package ruptures). Runs of other machines are other series.
"""
import fnmatch
import json
import statistics
from dataclasses import dataclass

from . import history, options, series as series_of
from .options import BadInput

HELP = """Find the runs of a history at which measurements changed, and say by how much. It takes 8 runs of one machine to begin with, and
3 after a change."""
EXAMPLE = """Example: plumbline trend --store results/history --benchmark 'collectives.*'
Exit status: 0 done, whatever was found; 1 the newest change of a series was for the worse (--gate); 2 usage; 3 the history cannot be
read, or no series has enough runs."""

LEAST_RUNS = 8
LEAST_AFTER = 3
# Of a change: how much twice the logarithm of the likelihood must rise by it, with n runs. At 4 log n + 14 fewer than one steady series
# in 200 shows one (results/tests/trend_test.py).
PENALTY = (4.0, 14.0)
LEAST_NOISE = 1e-3  # a series may be steadier than its clock


@dataclass
class Change:
    run: object  # history.Kept: the first one after it
    factor: float  # of the medians after over before, up to the next changes

    def told(self):
        return f"{100 * (self.factor - 1):+.1f} % since {self.run.told()}"


def changes_of(values):
    """Indices at which the values changed, of LEAST_RUNS values above 0 or more."""
    import numpy
    import ruptures
    logs = numpy.log(numpy.asarray(values, float))
    noise = max(LEAST_NOISE, 1.4826 * float(numpy.median(numpy.abs(numpy.diff(logs)))) / 2 ** 0.5)
    smooth = numpy.array([numpy.median(logs[max(0, at - 1):at + 2]) if 0 < at < len(logs) - 1 else logs[at] for at in range(len(logs))])
    penalty = PENALTY[0] * float(numpy.log(len(logs))) + PENALTY[1]
    found = ruptures.Pelt(model="l2", min_size=LEAST_AFTER, jump=1).fit((smooth / noise).reshape(-1, 1)).predict(pen=penalty)
    return found[:-1]


def changes(runs, values, least):
    """The changes of at least `least`, as a share."""
    found, cuts = [], changes_of(values)
    for before, at, after in zip([0, *cuts], cuts, [*cuts[1:], len(values)]):
        factor = statistics.median(values[at:after]) / statistics.median(values[before:at])
        if abs(factor - 1) >= least:
            found.append(Change(runs[at], factor))
    return found


def _histories(store, patterns):
    """(machine, series without its launches, runs, values) of each series, in the order of the runs."""
    found = {}
    for kept in history.records(store):
        record = series_of.read_record(kept.path)
        for one in record.series.values():
            if one.noisy or not any(fnmatch.fnmatchcase(one.benchmark, pattern) for pattern in patterns):
                continue
            key = (tuple(map(str, record.machine.values())), kept.header.get("subject"), one.key)
            _, _, runs, values = found.setdefault(key, (record.machine, one, [], []))
            runs.append(kept)
            values.append(statistics.median(one.medians))
    return sorted(found.values(), key=lambda row: series_of.order(row[1]))


def _print(rows, short, form):
    from . import tables
    if form == "json":
        print(json.dumps([{"benchmark": one.benchmark, "labels": one.labels, "machine": machine, "runs": len(runs),
                           "changes": [{"run": change.run.id, "path": str(change.run.path), "started": change.run.started,
                                        "labels": change.run.labels, "factor": change.factor} for change in changed]}
                          for machine, one, runs, values, changed in rows], indent=1))
        return
    for _, one, runs, values, changed in rows:
        for change in changed:
            now = tables.value_text(statistics.median(values[-LEAST_AFTER:]), one.unit)
            print(series_of.printable(f"{one.name}: {change.told()}; now {now}"))
    count = sum(bool(changed) for *_, changed in rows)
    print(f"{len(rows)} series: {count} changed, {len(rows) - count} steady" + (f"; {short} have fewer than {LEAST_RUNS} runs" if short else ""))


def main(words):
    def body():
        parser = options.parser("trend", HELP, EXAMPLE)
        parser.add_argument("--store", default=history.default_store(), metavar="DIR",
                            help="the history (default $PLUMBLINE_HISTORY, or results/history)")
        parser.add_argument("--benchmark", action="append", metavar="NAME", help="only these, by name with * and ?; may be repeated")
        parser.add_argument("--effect", type=options.share, default=0.02, metavar="SHARE", help="the smallest change that is shown (default 2%%)")
        parser.add_argument("--gate", action="store_true", help="exit status 1 where the newest change of a series was for the worse")
        parser.add_argument("--format", default="text", choices=("text", "json"), metavar="FORMAT", help="text or json (default text)")
        given = parser.parse_args(words)
        found = _histories(given.store, given.benchmark or ["*"])
        if not found:
            raise BadInput(f"'{given.store}' has no measurement" + (f" of {' '.join(given.benchmark)}" if given.benchmark else ""))
        rows = [(*row, changes(row[2], row[3], given.effect)) for row in found if len(row[3]) >= LEAST_RUNS]
        if not rows:
            most = max(len(row[3]) for row in found)
            raise options.Failed(f"'{given.store}': no series has {LEAST_RUNS} quiet runs of one machine; the longest has {most}")
        _print(rows, len(found) - len(rows), given.format)
        return 1 if given.gate and any(changed and changed[-1].factor > 1 for *_, changed in rows) else 0
    return options.status_of("trend", body)
