"""The statistics of comparing: on launch medians, in logarithms, since times differ by factors.

Model   A change is the Hodges-Lehmann shift of two samples of launch medians, with the interval that inverts the Mann-Whitney test.
        The test says whether there is one, and Benjamini and Hochberg's procedure keeps the share of false alarms over all series.
        How small a change a series can show is estimated by resampling launches that were made of one and the same program.
"""
import functools
from dataclasses import dataclass

import numpy
from scipy import stats

QUANTILE = float(stats.norm.ppf(0.975))  # of an interval of 95 %
ALPHA = 0.01
# A shift counts from this part of the change that is to be found: that one is found reliably, and noise stays below.
THRESHOLD = 0.4
# The change that is to be found, in standard errors of the shift. At 0.4 of it the threshold is 3.1 of them: noise alone passes it
# once in 500 times, and a change of full size misses it with 4.6 of them to spare (design: 0.65 % for a threshold of 2 %).
ERRORS_PER_EFFECT = 7.7
RESAMPLES = 400


@dataclass
class Shift:
    """Of new over base, as a factor: 1.05 is 5 % slower."""
    factor: float
    low: float
    high: float
    p: float


def _differences(base, new):
    return numpy.sort((numpy.log(new)[:, None] - numpy.log(base)[None, :]).ravel())


def shifts(pairs):
    """Of (base, new) launch medians, one or more on either side, a Shift each. Those of equal counts are tested in one call."""
    found = [None] * len(pairs)
    by_counts = {}
    for at, (base, new) in enumerate(pairs):
        by_counts.setdefault((len(base), len(new)), []).append(at)
    for members in by_counts.values():
        base, new = (numpy.array([pairs[at][side] for at in members], float) for side in (0, 1))
        p_values = stats.mannwhitneyu(new, base, alternative="two-sided", axis=1).pvalue
        for at, p, *sides in zip(members, p_values, base, new):
            found[at] = _shift(*sides, float(p))
    return found


def _shift(base, new, p):
    n, m = len(base), len(new)
    differences = _differences(base, new)
    cut = int(n * m / 2 - QUANTILE * (n * m * (n + m + 1) / 12) ** 0.5)
    low, high = (differences[cut - 1], differences[n * m - cut]) if cut >= 1 else (-numpy.inf, numpy.inf)
    return Shift(*(float(numpy.exp(value)) for value in (numpy.median(differences), low, high)), p)


def is_larger(left, right, factor):
    """The p-value of: left exceeds factor times right (one-sided)."""
    return float(stats.mannwhitneyu(numpy.asarray(left, float), factor * numpy.asarray(right, float), alternative="greater").pvalue)


def adjusted(p_values):
    """By Benjamini and Hochberg."""
    return list(stats.false_discovery_control(p_values, method="bh")) if p_values else []


@functools.lru_cache(maxsize=4096)
def least_p(n, m):
    """The smallest p-value that the test gives for so many launches: that of samples that do not overlap."""
    return float(stats.mannwhitneyu(range(n), range(n, n + m), alternative="two-sided").pvalue)


def launches_for(count, alpha=ALPHA):
    """Of either side, from which on one series of `count` can be told from the others. From 9 launches on the test approximates, and its
    least p is a little larger than that of 8."""
    return next(n for n in range(5, 10**4) if max(least_p(more, more) for more in (n, n + 1, n + 2)) * count <= alpha)


def standard_error(samples, n, m, seed=0):
    """Of the shift between n and m launches of one program, of whose launch medians each of `samples` is a list: each list is brought
    to one median, so that a difference between them counts for nothing."""
    pooled = numpy.concatenate([numpy.log(numpy.asarray(one, float)) - numpy.median(numpy.log(one)) for one in samples])
    random = numpy.random.default_rng(seed)
    base = random.choice(pooled, (RESAMPLES, n))
    new = random.choice(pooled, (RESAMPLES, m))
    shifts = numpy.median((new[:, :, None] - base[:, None, :]).reshape(RESAMPLES, -1), axis=1)
    # Launches lose one degree of freedom to the median that was taken out.
    correction = numpy.sqrt(len(pooled) / max(1, len(pooled) - len(samples)))
    return float(numpy.std(shifts) * correction)


@functools.lru_cache(maxsize=4096)
def _smallest_effect(samples, n, m):
    return ERRORS_PER_EFFECT * standard_error(samples, n, m)


def smallest_effect(samples, n, m):
    """The smallest change, as a share, that a gate can find with n and m launches."""
    return _smallest_effect(tuple(tuple(one) for one in samples), n, m)
