"""The median of samples, and an interval that holds the true one with at least 95 %, of whatever distribution."""

import math
import statistics
from dataclasses import dataclass

PLURAL = {"sample": "samples", "launch": "launches"}


@dataclass
class Centre:
    median: float
    low: float
    high: float
    confidence: float  # that the interval has; less than 0.95 where there are fewer than six samples
    count: int
    unit: str = "sample"  # what was counted

    @property
    def words(self):
        if self.count == 1:
            return f"one {self.unit}, no interval"
        return f"{100 * self.confidence:.0f} % interval of {self.count} {self.unit if self.count == 1 else PLURAL[self.unit]}"


def centre_of(samples, unit="sample"):
    """The interval is of order statistics: how many samples lie below the median is binomial (as benchmarks/bubble_report.cpp)."""
    ordered = sorted(samples)
    count = len(ordered)
    left, outside = 0, 2.0**-count
    for following in range(1, (count + 1) // 2):
        term = (
            math.comb(count, following) * 2.0**-count
            if count < 1000
            else math.exp(
                math.lgamma(count + 1)
                - math.lgamma(following + 1)
                - math.lgamma(count - following + 1)
                - count * math.log(2)
            )
        )
        if outside + term > 0.025:
            break
        outside += term
        left = following
    return Centre(statistics.median(ordered), ordered[left], ordered[-1 - left], max(0.0, 1 - 2 * outside), count, unit)


def centre_of_measurement(measurement):
    """Over launches where they are recorded, since samples of one launch share its placement in memory and on cores."""
    if len(measurement.launches) > 1:
        return centre_of([statistics.median(one) for one in measurement.launches], "launch")
    return centre_of(measurement.samples) if measurement.samples else None
