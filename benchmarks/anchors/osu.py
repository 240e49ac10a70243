#!/usr/bin/env python3
"""Holds backend mpi's all-reduce, as `plumbline bench` measures it, against OSU's of the same MPI, alternately, in one run.

usage: osu.py --osu OSU_ALLREDUCE [--build BUILD] [--mpirun MPIRUN] [--ranks 2] [--launches 10] [--sizes 4,1Ki,...] [--within 25]
              [--json FILE]

A launch of OSU is one of its program, with the slowest rank's mean; a launch of ours is a fresh group, with iterations one after another
(barrier) and with those that begin at agreed times (window), which is nearer to what OSU does: it has a barrier before each call. All three
are launched in random order, as often as --launches says, over the same transports of Open MPI, each rank bound to the same core. They agree
on a size where the 95 % intervals of their medians over launches overlap: of ours, those of the kind that lies nearer. Intervals that are wider than --within allows tell nothing.
OSU's benchmarks: https://mvapich.cse.ohio-state.edu/benchmarks/

Exit status: 0 they agree on all sizes; 1 they differ on one; 2 a bad option; 3 a size cannot be told, or something is missing or failed."""
import argparse, json, os, random, re, shutil, statistics, subprocess, sys
from pathlib import Path

import compare

LEAST = 6  # launches of which a median has an interval
KINDS = ("OSU", "barrier", "window")
ROW = re.compile(r"^(\d+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+\d+\s*$", re.MULTILINE)


# Binds a rank as `bench --pin` does. Open MPI's own binding takes other cores where a core has two threads.
BOUND = """import os, sys
cores = sorted(os.sched_getaffinity(0))
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", 0)))
os.sched_setaffinity(0, {cores[rank % len(cores)]})
os.execv(sys.argv[1], sys.argv[1:])"""


class Missing(RuntimeError):
    pass


def sizes_of(text):
    """'4,1Ki' -> [4, 1024]. OSU's are powers of two."""
    try:
        found = sorted({compare.bytes_of(word) for word in text.split(",")})
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of sizes such as 4,64,1Ki") from None
    if without := [size for size in found if size < 4 or size & (size - 1)]:
        raise argparse.ArgumentTypeError(f"OSU does not measure {', '.join(map(str, without))}; its sizes are powers of two from 4 on")
    return found


def percent(text):
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 1000:
        raise argparse.ArgumentTypeError(f"'{text}' is no percentage above 0")
    return value


def osu(options, sizes):
    """{bytes: seconds} of one launch."""
    command = [options.mpirun, "-n", options.ranks, *compare.OPEN_MPI, sys.executable, "-c", BOUND, options.osu.resolve(), "-f", "-m", max(sizes)]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True)
    found = {int(row[1]): float(row[4]) * 1e-6 for row in ROW.finditer(done.stdout)}
    if done.returncode != 0 or not found:
        raise Missing(f"{options.osu} ended with exit status {done.returncode}: {' '.join((done.stderr or done.stdout).split())[-300:]}")
    if missing := [size for size in sizes if size not in found]:
        raise Missing(f"{options.osu} has no line of {missing[0]} bytes")
    return {size: found[size] for size in sizes}


def ours(options, sizes, sync):
    made = compare.plumbline(options.build, options.ranks, "mpi", ["collectives.all_reduce"], ",".join(map(str, sizes)), (3, 0.02),
                             "--launcher", options.mpirun, "--backend-option", "threads=single", "--sync", sync)
    return {size: statistics.median(samples) for (_, size), samples in made.items()}


def interval(values):
    """Of the median at 95 %, by ranks: as `plumbline bench` prints it."""
    from scipy import stats
    ordered, n = sorted(values), len(values)
    cut = int(stats.binom.ppf(0.025, n, 0.5))
    cut = cut - 1 if stats.binom.cdf(cut - 1, n, 0.5) <= 0.025 and cut > 0 else 0
    return ordered[cut], ordered[n - 1 - cut]


def measure(options, sizes):
    found = {(kind, size): [] for kind in KINDS for size in sizes}
    for launch in range(options.launches):
        for kind in random.sample(KINDS, len(KINDS)):
            for size, seconds in (osu(options, sizes) if kind == "OSU" else ours(options, sizes, kind)).items():
                found[kind, size].append(seconds)
        print(f"launch {launch + 1} of {options.launches}", file=sys.stderr)
    return found


def judged(found, size, within):
    """(verdict, kind of ours that lies nearer): the verdict is 'agree', 'differ' or 'too noisy'."""
    spans = {kind: interval(found[kind, size]) for kind in KINDS}
    middle = {kind: statistics.median(found[kind, size]) for kind in KINDS}
    near = min(KINDS[1:], key=lambda kind: abs(middle[kind] - middle["OSU"]))
    if any(spans[kind][1] - spans[kind][0] > within * middle[kind] for kind in ("OSU", near)):
        return "too noisy", near
    agrees = spans[near][0] <= spans["OSU"][1] and spans["OSU"][0] <= spans[near][1]
    return "agree" if agrees else "differ", near


def report(found, sizes, within):
    """Prints the table; returns the exit status."""
    print(f"{'bytes':>9}  " + "  ".join(f"{kind + ', us [95 %]':>36}" for kind in KINDS) + f"  {'ours/OSU':>8}")
    verdicts = []
    for size in sizes:
        verdict, near = judged(found, size, within)
        verdicts.append(verdict)
        cells = []
        for kind in KINDS:
            low, high = interval(found[kind, size])
            cells.append(f"{statistics.median(found[kind, size]) * 1e6:>11.3f} [{low * 1e6:10.3f}, {high * 1e6:10.3f}]")
        ratio = statistics.median(found[near, size]) / statistics.median(found["OSU", size])
        print(f"{size:>9}  " + "  ".join(f"{cell:>36}" for cell in cells) + f"  {ratio:>8.2f}  {verdict} ({near})")
    agreed, noisy = verdicts.count("agree"), verdicts.count("too noisy")
    print(f"they agree on {agreed} of {len(sizes)} sizes" + (f"; {noisy} cannot be told: more --launches, or a quieter host" if noisy else ""))
    return 1 if "differ" in verdicts else 3 if noisy else 0


def problem_of_here(options):
    """What is missing, or "": it is looked for before anything is measured."""
    try:
        import scipy.stats  # noqa: F401
    except ImportError as error:
        return f"no {error.name or 'scipy'} here, which has the intervals (pip install scipy)"
    if not os.access(options.build / "bin/plumbline", os.X_OK):
        return f"{options.build}/bin/plumbline is missing; --build names the folder of a build"
    if options.json:
        try:
            options.json.open("a").close()
        except OSError as error:
            return f"--json '{options.json}' cannot be written: {error.strerror}"
    return ""


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--osu", required=True, type=Path, metavar="OSU_ALLREDUCE")
    parser.add_argument("--build", type=Path, default=compare.HERE.parents[1] / "build")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--launches", type=int, default=10)
    parser.add_argument("--sizes", type=sizes_of, default="4,64,1Ki,16Ki,64Ki,1Mi")
    parser.add_argument("--within", type=percent, default=25, metavar="PERCENT")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(words)
    if options.launches < LEAST:
        parser.error(f"--launches {options.launches}: a median has an interval from {LEAST} launches on")
    if options.ranks < 2:
        parser.error(f"--ranks {options.ranks}: OSU takes two ranks or more")
    if not (options.osu.is_file() and os.access(options.osu, os.X_OK)):
        parser.error(f"--osu '{options.osu}' is no program; name OSU's osu_allreduce")
    if not shutil.which(options.mpirun):
        parser.error(f"--mpirun '{options.mpirun}' is not here")
    if problem := problem_of_here(options):
        print(f"osu.py: {problem}", file=sys.stderr)
        return 3
    try:
        found = measure(options, options.sizes)
        if options.json:
            options.json.write_text(json.dumps([{"kind": kind, "bytes": size, "seconds": values} for (kind, size), values in found.items()]))
    except (Missing, subprocess.CalledProcessError, OSError) as error:
        print(f"osu.py: {error}", file=sys.stderr)
        return 3
    return report(found, options.sizes, options.within / 100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
