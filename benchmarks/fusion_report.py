#!/usr/bin/env python3
"""Measures allreduce_fusion in rounds and says whether fusion pays, with which bucket size, and from which size on.

usage: fusion_report.py [--build BUILD] [--backend local] [--ranks 2] [--model resnet50] [--sizes 0,1Mi,4Mi,10Mi,25Mi,100Mi,512Mi]
                        [--rounds 7] [--json FILE] [--svg FILE] [--record FILE ...]

A round is one `plumbline bench` of everything; --record takes records that are there instead. What is compared are the
medians of rounds: the unit of a measurement is a launch. The interval of the best size comes from 2000 resamples of the
rounds (percentiles 2.5 and 97.5). The crossover is the smallest size from which on, up to the fastest
one that fuses, buckets are faster than an all-reduce a gradient in more than half of the rounds."""
import argparse, json, math, random, statistics, subprocess, sys, tempfile
from pathlib import Path

KINDS = ("view", "copy", "overlap", "serial")
# What a picture has, in the order of its legend. A line with a backward is held against one with a backward.
DRAWN = {"serial": ('stroke="#9467bd"', "backward, then buckets"),
         "overlap": ('stroke="#2ca02c"', "backward, buckets meanwhile"),
         "backward_per_tensor": ('stroke="#555555" stroke-dasharray="6 3"', "backward, then an all-reduce each"),
         "copy": ('stroke="#d62728"', "buckets, copied in and out"),
         "view": ('stroke="#1f77b4"', "buckets that gradients live in"),
         "per_tensor": ('stroke="#999999" stroke-dasharray="6 3"', "an all-reduce each"),
         "copy_alone": ('stroke="#999999" stroke-dasharray="2 3"', "the copies alone")}


def measure(arguments, number):
    print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.build / "bin/plumbline", "bench", "--backend", arguments.backend, "--world-size", arguments.ranks,
                   "--sizes", arguments.sizes, "--launches", 1, "--repetitions", 3, "--min-time", 0.05, "--time-limit", 600,
                   "--benchmark", f"allreduce_fusion.{arguments.model}.*", "--out", folder]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
        return read(Path(folder, "run.jsonl"), arguments.model)


def read(file, model):
    """{(kind, bucket bytes or None): (seconds, derived, bytes)} of one round."""
    found = {}
    for line in file.read_text().splitlines():
        record = json.loads(line)
        prefix = f"allreduce_fusion.{model}."
        if record["type"] != "measurement" or not record["benchmark"].startswith(prefix):
            continue
        size = record["labels"].get("bucket_bytes")
        key = record["benchmark"][len(prefix):], None if size is None else int(size)
        found[key] = statistics.median(record["samples"]), record["derived"], int(record["labels"]["bytes"])
    return found


def text(size):
    return "one each" if size == 0 else f"{size / (1 << 20):g} MiB"


def best_of(rounds, kind, sizes):
    return min(sizes, key=lambda size: statistics.median(one[kind, size][0] for one in rounds))


def interval(rounds, kind, sizes):
    random.seed(1)
    found = sorted(best_of(random.choices(rounds, k=len(rounds)), kind, sizes) for _ in range(2000))
    return found[49], found[1949]


def crossover(rounds, kind, sizes):
    def pays(size):
        return sum(one[kind, size][0] < one["per_tensor", None][0] for one in rounds) * 2 > len(rounds)
    fusing = [size for size in sizes if size > 0]  # one each fuses nothing
    if not fusing:
        return None, None
    best = best_of(rounds, kind, fusing)
    paying = None
    for size in reversed([size for size in fusing if size <= best]):  # beyond it buckets may be too large
        if not pays(size):
            break
        paying = size
    return paying, best


def report(rounds, arguments):
    median = lambda kind, size=None: statistics.median(one[kind, size][0] for one in rounds)
    sizes = sorted({size for kind, size in rounds[0] if size is not None})
    plain, copies = median("per_tensor"), median("copy_alone")
    total = rounds[0]["per_tensor", None][2]
    ring = 2 * (arguments.ranks - 1) / arguments.ranks
    print(f"{arguments.model}, {arguments.backend}, {arguments.ranks} ranks, {total / (1 << 20):.1f} MiB, median of {len(rounds)} round{'s' if len(rounds) > 1 else ''}")
    print(f"  an all-reduce a gradient {plain * 1e3:8.2f} ms, {total / plain / 1e9:.2f} GB/s; the copies alone {copies * 1e3:.2f} ms; "
          f"the emulated back-propagation {median('backward') * 1e3:.2f} ms")
    print(f"  {'kind':<8}{'buckets':>10}{'ms':>10}{'algbw':>8}{'busbw':>8}{'launches':>9}{'copies':>8}{'speed-up':>9}")
    result = {"model": arguments.model, "backend": arguments.backend, "ranks": arguments.ranks, "rounds": len(rounds),
              "bytes": total,
              "plain": {"per_tensor": plain, "copy_alone": copies, "backward_per_tensor": plain + median("backward")}, "rows": [], "best": {}}
    for kind in KINDS:
        against = plain if kind in ("view", "copy") else plain + median("backward")
        for size in sizes:
            seconds, derived = median(kind, size), rounds[0][kind, size][1]
            share = copies / seconds if derived.get("copied_bytes") else 0
            row = {"kind": kind, "bucket_bytes": size, "seconds": seconds, "algbw": total / seconds, "busbw": total * ring / seconds,
                   "launches": derived["launches"], "copy_share": share, "speed_up": against / seconds}
            result["rows"].append(row)
            print(f"  {kind:<8}{text(size):>10}{seconds * 1e3:>10.2f}{row['algbw'] / 1e9:>8.2f}{row['busbw'] / 1e9:>8.2f}"
                  f"{derived['launches']:>9.0f}{share:>8.0%}{row['speed_up']:>9.2f}")
        low, high = interval(rounds, kind, sizes)
        best = best_of(rounds, kind, sizes)
        result["best"][kind] = {"bucket_bytes": best, "low": low, "high": high}
        # One round says nothing of the others.
        print(f"  {kind}: best {text(best)}" + (f", 95 % interval {text(low)} to {text(high)}" if len(rounds) > 1 else ""), end="")
        if kind in ("view", "copy"):
            paying, fastest = crossover(rounds, kind, sizes)
            result["best"][kind]["crossover"] = paying
            print("; fusion " + ("does not pay" if paying is None else f"pays from {text(paying)} up to {text(fastest)}, its fastest"), end="")
        print()
    return result


def ticks(most):
    """Up to 6 round numbers from 0 to beyond `most`."""
    power = 10 ** math.floor(math.log10(most))
    step = next(power * part for part in (0.2, 0.5, 1, 2) if most <= 5 * power * part)
    return [step * i for i in range(math.ceil(most / step) + 1)]


def svg(result):
    """Milliseconds over bucket sizes, a line a kind; dashed, what has no buckets."""
    sizes = sorted({row["bucket_bytes"] for row in result["rows"]})
    marks = ticks(max([row["seconds"] for row in result["rows"]] + list(result["plain"].values())) * 1e3)
    x = lambda size: 80 + 500 * sizes.index(size) / max(1, len(sizes) - 1)
    y = lambda seconds: 300 - 250 * seconds * 1e3 / marks[-1]
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" width="850" height="350" font-family="sans-serif" font-size="11">',
             '<rect width="850" height="350" fill="white"/>',
             f'<text x="80" y="24" font-size="14">{result["model"]}, {result["backend"]}, {result["ranks"]} ranks: a step, median of '
             f'{result["rounds"]} round{"s" if result["rounds"] > 1 else ""}</text>',
             '<text x="330" y="340" text-anchor="middle">bytes at which a bucket takes no more</text>']
    for size in sizes:
        name = "all in one" if size >= result["bytes"] else text(size)
        lines.append(f'<text x="{x(size):.0f}" y="320" text-anchor="middle">{name}</text>')
    for mark in marks:
        lines.append(f'<line x1="75" x2="590" y1="{y(mark / 1e3):.1f}" y2="{y(mark / 1e3):.1f}" stroke="#dddddd"/>')
        lines.append(f'<text x="70" y="{y(mark / 1e3) + 4:.0f}" text-anchor="end">{mark:g} ms</text>')
    for at, (kind, (style, words)) in enumerate(DRAWN.items()):
        if kind in result["plain"]:
            points = [(80, y(result["plain"][kind])), (580, y(result["plain"][kind]))]
        else:
            rows = [row for row in result["rows"] if row["kind"] == kind]
            points = [(x(row["bucket_bytes"]), y(row["seconds"])) for row in rows]
            lines += [f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3" fill="{style[8:15]}"/>' for left, top in points]
        line = " ".join(f"{left:.1f},{top:.1f}" for left, top in points)
        lines.append(f'<polyline points="{line}" fill="none" {style} stroke-width="2"/>')
        lines.append(f'<line x1="600" x2="622" y1="{51 + 17 * at}" y2="{51 + 17 * at}" {style} stroke-width="2"/>')
        lines.append(f'<text x="628" y="{55 + 17 * at}">{words}</text>')
    return "\n".join(lines + ["</svg>"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--backend", default="local")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--model", choices=("resnet50", "gpt2"), default="resnet50")
    parser.add_argument("--sizes", default="0,1Mi,4Mi,10Mi,25Mi,100Mi,512Mi")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--record", type=Path, nargs="+")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    arguments = parser.parse_args()
    rounds = [read(file, arguments.model) for file in arguments.record] if arguments.record else \
        [measure(arguments, number) for number in range(arguments.rounds)]
    result = report(rounds, arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    if arguments.svg:
        arguments.svg.write_text(svg(result) + "\n")


if __name__ == "__main__":
    main()
