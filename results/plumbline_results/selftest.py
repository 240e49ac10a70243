"""`plumbline selftest gate`: plants slowdowns and sees whether the gate finds them, and whether it stays quiet without one.

Model   A pair is what a gate compares: launch medians of several series on either side, drawn from a model of a machine's noise, or
        with replacement from launches of one program that were recorded. In one pair of two, one series is made slower by a factor.
        A series is gateable by a calibration, which is drawn apart, as a user's is. A suspect is measured again, as in a gate.
"""
import sys
from dataclasses import dataclass, field

from . import options
from .options import BadInput

HELP = """Plant slowdowns in launches of one and the same program, and see what the gate says: false alarms must stay under 1 %, and of
slowdowns of 5 % over 95 % must be found where the calibration says that the series can be gated at 5 %. What chance explains once in
100 times or more often is no fault: few pairs show only what is far off."""
EXAMPLE = """Example: plumbline selftest gate
         plumbline selftest gate --pairs 1000 --calibration calibration.json
Exit status: 0 the gate is as it must be; 1 it is not; 2 usage; 3 no series of the calibration can be gated
at 5 %, the launches are too few, or scipy is missing."""

FACTORS = (0.02, 0.05, 0.10)
EFFECT = 0.05
MOST_FALSE_ALARMS = 0.01
LEAST_FOUND = 0.95
CHANCE = 0.01  # what a gate that is as it must be would show more rarely than this is a fault


def _models():
    """Launch medians by name of the noise: (random, count) -> values around 1."""
    import numpy
    return {
        "steady, 0.4 %": lambda random, count: random.lognormal(0, 0.004, count),
        "usual, 1 %": lambda random, count: random.lognormal(0, 0.010, count),
        "wide, 2 %": lambda random, count: random.lognormal(0, 0.020, count),
        "two layouts of memory, 1 % apart": lambda random, count: random.lognormal(0, 0.005, count) * random.choice((1, 1.01), count),
        "stragglers: 1 launch of 20, up to 50 %": lambda random, count: random.lognormal(0, 0.008, count)
        * numpy.where(random.random(count) < 0.05, random.uniform(1.05, 1.5, count), 1),
        "busy, 5 %": lambda random, count: random.lognormal(0, 0.05, count),
    }


def _recorded(noise):
    """The same of a calibration: its launches, brought to one median, with replacement."""
    import numpy
    sources = {}
    for (benchmark, labels), sides in noise.items():
        pooled = numpy.concatenate([numpy.array(side) / numpy.median(side) for side in sides])
        name = " ".join([benchmark, *(f"{key}={value}" for key, value in labels)])
        sources[name] = lambda random, count, pooled=pooled: random.choice(pooled, count)
    return sources


@dataclass
class Tally:
    name: str
    gateable: float
    quiet: int = 0  # pairs in which nothing was planted here
    alarms: int = 0
    planted: dict = field(default_factory=lambda: {factor: 0 for factor in FACTORS})
    found: dict = field(default_factory=lambda: {factor: 0 for factor in FACTORS})

    @property
    def is_gateable(self):
        return self.gateable <= EFFECT

    def found_share(self, factor):
        return self.found[factor] / self.planted[factor] if self.planted[factor] else float("nan")


class Trial:
    """Pairs over all sources of noise at once, since a gate judges all series of a record together."""

    def __init__(self, sources, launches, seed):
        import numpy
        from . import comparison, estimates
        self.sources, self.launches = sources, launches
        self.random = numpy.random.default_rng(seed)
        self.rules = comparison.Rules(effect=EFFECT)
        self.noise = {self._key(name): tuple(tuple(draw(self.random, launches)) for _ in range(2)) for name, draw in sources.items()}
        self.tallies = {name: Tally(name, estimates.smallest_effect(self.noise[self._key(name)], launches, launches)) for name in sources}
        self.pairs_with_alarm = 0
        self.pairs = 0

    @staticmethod
    def _key(name):
        return name, ()

    def _side(self, slow="", factor=0.0):
        from .series import Series
        side = {}
        for name, draw in self.sources.items():
            values = draw(self.random, self.launches) * (1 + factor if name == slow else 1)
            side[self._key(name)] = Series(name, {}, "seconds", [[float(value)] for value in values])
        return side

    def pair(self, slow="", factor=0.0):
        from . import comparison
        once = lambda: comparison.compare(self._side(), self._side(slow, factor), self.rules, self.noise, interleaved=True)
        found = once()
        if found.of("slower", "faster"):
            comparison.confirm(found, once())
        verdicts = {row.series.benchmark: row.verdict for row in found.rows}
        alarms = [name for name, verdict in verdicts.items() if name != slow and verdict in ("slower", "faster")]
        for name, tally in self.tallies.items():
            tally.quiet += name != slow
            tally.alarms += name in alarms
        if slow:
            self.tallies[slow].planted[factor] += 1
            self.tallies[slow].found[factor] += verdicts[slow] == "slower"
        self.pairs += 1
        self.pairs_with_alarm += bool(alarms)

    def run(self, pairs):
        """So many pairs with nothing planted, and the same number with each size of slowdown, in the series by turns, each once or more."""
        names = list(self.sources)
        for index in range(max(pairs, len(names))):
            if index < pairs:
                self.pair()
            for factor in FACTORS:
                self.pair(names[index % len(names)], factor)

    @property
    def tried(self):
        """Whether finding was: a slowdown was planted in a series that can be gated."""
        return any(tally.is_gateable and tally.planted[EFFECT] for tally in self.tallies.values())

    @property
    def faults(self):
        """What is not as it must be, a line each."""
        from scipy.stats import binom
        faults = []
        if binom.sf(self.pairs_with_alarm - 1, self.pairs, MOST_FALSE_ALARMS) < CHANCE:
            faults.append(f"{self.pairs_with_alarm} of {self.pairs} pairs had a false alarm; under {100 * MOST_FALSE_ALARMS:g} % is right")
        for tally in self.tallies.values():
            planted, found = tally.planted[EFFECT], tally.found[EFFECT]
            if tally.is_gateable and planted and binom.cdf(found, planted, LEAST_FOUND) < CHANCE:
                faults.append(f"{tally.name}: {found} of {planted} slowdowns of {100 * EFFECT:g} % were found; over "
                              f"{100 * LEAST_FOUND:g} % is right")
        return faults


def report(trial):
    from . import tables
    share = lambda count, of: f"{100 * count / of:.1f} %" if of else "-"
    headings = ["noise", "gateable at", "false alarms", *(f"{100 * factor:g} % found" for factor in FACTORS)]
    rows = [[tally.name, f"{100 * tally.gateable:.1f} %", f"{share(tally.alarms, tally.quiet)} of {tally.quiet}",
             *(share(tally.found[factor], tally.planted[factor]) + ("" if factor >= tally.gateable else " *") for factor in FACTORS)]
            for tally in trial.tallies.values()]
    lines = tables.aligned(headings, rows)
    lines.append(f"The gate looks for changes of {100 * EFFECT:g} %. * below what the calibration says can be gated")
    lines.append(f"{trial.pairs} pairs of {len(trial.sources)} series and {trial.launches} launches a side: "
                 f"{trial.pairs_with_alarm} with a false alarm ({share(trial.pairs_with_alarm, trial.pairs)})")
    return "\n".join(lines)


def main(words):
    def body():
        parser = options.parser("selftest", HELP, EXAMPLE)
        parser.add_argument("what", metavar="gate", help="what is tested: gate")
        parser.add_argument("--pairs", type=options.whole("count", 5), default=50, metavar="N",
                            help="pairs without a slowdown, and the same number with each of 2, 5 and 10 %% (default 50)")
        parser.add_argument("--launches", type=options.whole("count", 5), default=20, metavar="N", help="of either side (default 20)")
        parser.add_argument("--calibration", metavar="FILE", help="takes the noise from launches that `plumbline calibrate` recorded "
                            "(default: models of noise)")
        parser.add_argument("--seed", type=options.whole("count", 0), default=1, metavar="N", help="random seed (default 1)")
        given = parser.parse_args(words)
        if given.what != "gate":
            raise BadInput(f"'{given.what}' is not known; there is: selftest gate")
        from . import calibrate
        sources = _recorded(calibrate.noise_of(given.calibration)) if given.calibration else _models()
        from . import estimates
        if estimates.least_p(given.launches, given.launches) * len(sources) > estimates.ALPHA:
            raise options.Failed(f"{given.launches} launches are too few to tell among {len(sources)} series; "
                                 f"--launches {estimates.launches_for(len(sources))} are enough")
        trial = Trial(sources, given.launches, given.seed)
        trial.run(given.pairs)
        print(report(trial))
        for fault in trial.faults:
            print(f"plumbline: selftest: {fault}", file=sys.stderr)
        if trial.faults:
            return 1
        if trial.tried:
            return 0
        raise options.Failed(f"no series can be gated at {100 * EFFECT:g} %: false alarms were tried, finding was not; calibrate on a quieter host")
    return options.status_of("selftest", body)
