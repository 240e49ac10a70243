"""Guidelines: what must hold between measurements of the same run, on any machine, without a history.

An operation must not take longer than what can stand in for it, with the same bytes, ranks and backend (J. Traff, W. Gropp, R. Thakur:
Self-Consistent MPI Performance Guidelines, 2010; S. Hunold, A. Carpen-Amarie: Reproducible MPI Benchmarking, 2016).
"""
import fnmatch
import json
import re
import statistics
import sys
from dataclasses import dataclass

from . import estimates, series as series_of
from .options import BadInput

LEAST_LAUNCHES = 5
# What sizes a series, as a label: bytes where an operation is about that many, else what its sizes are.
SIZE_LABELS = ("bucket_bytes", "bytes")


@dataclass
class Guideline:
    """`left` must not take longer than all of `right` together; * in `left` stands for the same in `right`."""
    left: str
    right: tuple
    least_world: int = 1
    without_size: tuple = ()  # of the right: that one has no sizes


GUIDELINES = [
    Guideline("collectives.all_reduce", ("collectives.reduce", "collectives.broadcast")),
    Guideline("collectives.all_reduce", ("collectives.reduce_scatter", "collectives.all_gather")),
    Guideline("collectives.all_reduce_in_place", ("collectives.reduce_scatter", "collectives.all_gather")),
    Guideline("collectives.reduce_scatter", ("collectives.all_reduce",)),
    Guideline("collectives.all_gather", ("collectives.all_reduce",)),
    Guideline("collectives.broadcast", ("collectives.all_reduce_in_place",)),
    Guideline("collectives.barrier", ("collectives.all_reduce",)),
    Guideline("allreduce_fusion.*.view", ("allreduce_fusion.*.per_tensor",), without_size=("allreduce_fusion.*.per_tensor",)),
    Guideline("allreduce_fusion.*.overlap", ("allreduce_fusion.*.serial",)),
    Guideline("gossip_throughput.rounds.*.p1", ("gossip_throughput.rounds.all_reduce",), least_world=8),
]
# Bubbles of schedules over the same stages and micro-batches.
BUBBLES = [("interleaved", "1f1b"), ("zb-h1", "1f1b")]


@dataclass
class Finding:
    text: str  # "collectives.all_reduce <= collectives.reduce_scatter + collectives.all_gather"
    labels: str
    left: list  # launch medians
    right: list
    p: float = 1.0
    q: float = 1.0
    verdict: str = ""

    @property
    def ratio(self):
        return statistics.median(self.left) / statistics.median(self.right)


def _where(series, without=()):
    return tuple(sorted((key, value) for key, value in series.labels.items() if key not in without))


def _world(series):
    return int(series.labels.get("world", "1"))


def _sums(parts):
    """Launch by launch: the parts of one launch had the same processes."""
    count = min(len(part.medians) for part in parts)
    return [sum(part.medians[launch] for part in parts) for launch in range(count)]


def _partners(guideline, series, by_place):
    """What stands for the right side at the place of a series; None where it was not measured."""
    star = re.fullmatch(re.escape(guideline.left).replace(r"\*", "(.*)"), series.benchmark)
    parts = []
    for pattern in guideline.right:
        name = pattern.replace("*", star[1] if star and star.groups() else "")
        without = SIZE_LABELS if pattern in guideline.without_size else ()
        part = by_place.get((name, _where(series, without)))
        if part is None and not any(label in series.labels for label in SIZE_LABELS):  # a barrier stands beside the smallest
            part = min((one for (benchmark, where), one in by_place.items() if benchmark == name
                        and _where(one, SIZE_LABELS) == _where(series)), key=lambda one: _size(one) or 0, default=None)
        if part is None:
            return None
        parts.append(part)
    return parts


def _size(series):
    return next((int(series.labels[label]) for label in SIZE_LABELS if label in series.labels), None)


def _substitutes(everything):
    by_place = {(one.benchmark, _where(one)): one for one in everything}
    by_place.update({(one.benchmark, _where(one, SIZE_LABELS)): one for one in everything if one.benchmark.endswith(".per_tensor")})
    for guideline in GUIDELINES:
        for one in everything:
            if not fnmatch.fnmatchcase(one.benchmark, guideline.left) or _world(one) < guideline.least_world:
                continue
            parts = _partners(guideline, one, by_place)
            if parts:
                yield Finding(f"{one.benchmark} <= {' + '.join(part.benchmark for part in parts)}", _labels(one), one.medians, _sums(parts))


def _labels(series):
    return " ".join(f"{key}={value}" for key, value in sorted(series.labels.items()))


def _sizes(everything):
    """More bytes never take less time."""
    families = {}
    for one in everything:
        if _size(one) is not None and "bucket_bytes" not in one.labels:  # larger buckets may well be faster
            families.setdefault((one.benchmark, _where(one, SIZE_LABELS)), []).append(one)
    for family in families.values():
        family.sort(key=_size)
        for smaller, larger in zip(family, family[1:]):
            yield Finding(f"{smaller.benchmark} of {_size(smaller)} <= of {_size(larger)} bytes",
                          " ".join(f"{key}={value}" for key, value in _where(smaller, SIZE_LABELS)), smaller.medians, larger.medians)


def _bubbles(everything):
    by_place = {(one.labels.get("schedule"), _where(one, ("schedule", "chunks"))): one for one in everything
                if one.benchmark == "pipeline_bubble"}
    for better, plain in BUBBLES:
        for (schedule, where), one in by_place.items():
            other = by_place.get((plain, where))
            if schedule == better and other is not None:
                yield Finding(f"bubble of {better} <= of {plain}", " ".join(f"{key}={value}" for key, value in where), one.medians, other.medians)


def findings(record, rules):
    """All guidelines of a record, judged."""
    everything = [one for one in record.series.values() if not one.noisy]
    found = [*_substitutes(everything), *_sizes(everything), *_bubbles(everything)]
    judged = [one for one in found if min(len(one.left), len(one.right)) >= LEAST_LAUNCHES]
    for one in judged:
        one.p = estimates.is_larger(one.left, one.right, 1 + rules.threshold)
    for one, q in zip(judged, estimates.adjusted([one.p for one in judged])):
        one.q = q
        one.verdict = "violated" if q <= rules.alpha else "holds"
    for one in found:
        one.verdict = one.verdict or f"not judged: {min(len(one.left), len(one.right))} launches"
    return found


def _print(found, form):
    from . import tables
    if form == "json":
        print(json.dumps([{"guideline": one.text, "labels": one.labels, "ratio": one.ratio, "q": one.q, "verdict": one.verdict}
                          for one in found], indent=1))
        return
    headings = ["guideline", "labels", "left / right", "verdict"]
    rows = [[one.text, one.labels, f"{one.ratio:.2f}", one.verdict] for one in found if form == "text" or one.verdict == "violated"]
    if rows:
        print("\n".join(tables.markdown(headings, rows) if form == "md" else tables.aligned(headings, rows)))
    count = {verdict: sum(one.verdict == verdict for one in found) for verdict in ("holds", "violated")}
    print(f"guidelines: {count['holds']} hold, {count['violated']} violated, "
          f"{len(found) - sum(count.values())} not judged")


def gate(given):
    """`plumbline gate --guidelines`. Returns the exit status."""
    from . import comparison
    record = series_of.read_all(given.record)
    found = findings(record, comparison.Rules(effect=given.effect))
    noisy = [one.name for one in record.series.values() if one.noisy]
    if not found and not noisy:
        raise BadInput(f"'{record.path}': no guideline is about its measurements; bench --benchmark 'collectives.*' has several")
    _print(found, given.format)
    if noisy:
        print(f"plumbline: gate: {len(noisy)} series are noisy and were left out, as {noisy[0]}", file=sys.stderr)
    if any(one.verdict == "violated" for one in found):
        return 1
    if any(one.verdict == "holds" for one in found):
        return 0
    print(f"plumbline: gate: nothing was judged; it takes {LEAST_LAUNCHES} launches on a quiet host (bench --launches 20)", file=sys.stderr)
    return 3
