"""What two sets of measurements say about each other, series by series.

Model   slower, faster    the test says so over all series, and the shift exceeds the threshold
        same              a change of the size that matters is ruled out
        ambiguous         neither: more launches would tell
        not gateable      the noise of this series hides a change of that size, or its launches are too few for the test to find any
                          among so many series: nobody can say that it is the same
        missing, new      it is in one of the two alone
        Where nearly all series shift together, or the machines differ, that is the machine's doing and no verdict on the subject.
"""
from dataclasses import dataclass, field

from . import estimates, series as series_of

# Nearly all: so large a share of the series, of so many at least, shifted in one direction.
MACHINE_SHARE = 0.8
MACHINE_SERIES = 5


@dataclass
class Rules:
    effect: float = 0.05  # the change that matters
    alpha: float = estimates.ALPHA

    @property
    def threshold(self):
        return estimates.THRESHOLD * self.effect


@dataclass
class Row:
    series: object  # of new; of base where that is all there is
    verdict: str = "ambiguous"
    why: str = ""
    base: list = field(default_factory=list)  # launch medians
    new: list = field(default_factory=list)
    shift: object = None
    q: float = 1.0  # p over all series
    gateable: float = None  # the smallest change that can be found

    @property
    def change(self):
        return self.shift.factor - 1


@dataclass
class Comparison:
    rows: list
    machine: str = ""  # why the machine is at fault; empty: it is not

    def of(self, *verdicts):
        return [row for row in self.rows if row.verdict in verdicts]


def compare(base, new, rules, noise=None, interleaved=False):
    """Of two dictionaries of series by key. `noise` has lists of launch medians of one program by key, from a calibration; without,
    the launches of both sides stand for it. Interleaved launches had the same machine, whatever it did."""
    rows = [_row(base.get(key), new.get(key), (noise or {}).get(key)) for key in {**base, **new}]
    tested = [row for row in rows if row.gateable is not None]
    for row, shift in zip(tested, estimates.shifts([(row.base, row.new) for row in tested])):
        row.shift = shift
    for row, q in zip(tested, estimates.adjusted([row.shift.p for row in tested])):
        row.q = q
        _judge(row, rules, interleaved, len(tested))
    rows.sort(key=lambda row: series_of.order(row.series))
    return Comparison(rows, "" if interleaved else _shifted_together(tested))


def _row(base, new, noise):
    if base is None or new is None:
        return Row(new or base, "new" if base is None else "missing", "it is in one of the two alone")
    row = Row(new, base=base.medians, new=new.medians)
    if base.unit != new.unit:
        row.why = f"the units differ: {base.unit} and {new.unit}"
        return row
    row.gateable = estimates.smallest_effect(noise or [row.base, row.new], len(row.base), len(row.new))
    row.why = base.noisy or new.noisy
    return row


def _judge(row, rules, interleaved, count):
    n, m = len(row.base), len(row.new)
    if row.why and not interleaved:
        row.verdict, row.why = "not gateable", f"noisy: {row.why.split(':')[0]}"
        return
    row.why = ""
    threshold = max(rules.threshold, estimates.THRESHOLD * row.gateable)
    if row.q <= rules.alpha and not 1 / (1 + threshold) < row.shift.factor < 1 + threshold:
        row.verdict = "slower" if row.shift.factor > 1 else "faster"
    elif estimates.least_p(n, m) * count > rules.alpha:  # were it the only one that changed, the test could not say so
        row.verdict = "not gateable"
        row.why = f"{n} and {m} launches are too few to tell among {count} series (bench --launches {estimates.launches_for(count, rules.alpha)})"
    elif row.gateable > rules.effect:
        row.verdict, row.why = "not gateable", f"its noise hides changes below {100 * row.gateable:.1f} %"
    elif row.shift.low > 1 / (1 + rules.effect) and row.shift.high < 1 + rules.effect:
        row.verdict = "same"


def _shifted_together(rows):
    if len(rows) < MACHINE_SERIES:
        return ""
    for verdict in ("slower", "faster"):
        count = sum(row.verdict == verdict for row in rows)
        if count >= MACHINE_SHARE * len(rows):
            return f"{count} of {len(rows)} series are {verdict}: that is the machine, or a change to all; run both interleaved"
    return ""


def confirm(comparison, again):
    """What is slower or faster stays so where a second, independent measurement says the same."""
    second = {row.series.key: row for row in again.rows}
    for row in comparison.of("slower", "faster"):
        other = second.get(row.series.key)
        if other is None or other.verdict != row.verdict:
            found = f"{100 * other.change:+.1f} %" if other and other.shift else "nothing"
            row.why = f"it was {row.verdict} by {100 * row.change:+.1f} %, and a rerun found {found}"
            row.verdict = "same" if other and other.verdict == "same" else "ambiguous"
        else:
            row.why = f"a rerun found {100 * other.change:+.1f} %"
