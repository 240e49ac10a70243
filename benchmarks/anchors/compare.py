#!/usr/bin/env python3
"""Holds the local backend and the benchmark harness against the MPIs of this machine and copying memory, alternately, in one run.

usage: compare.py [--build BUILD] [--ranks 2] [--rounds 5] [--sizes 4,1Ki,...] [--rival NAME=MPICC,MPIRUN]... [--json FILE]

A round measures, one after the other: the local backend's all-reduce (out of place and in place), broadcast and ping-pong; all ranks
copying as many bytes at once (plain and with streaming stores); a bare loop of the same calls over each rival; and the same calls of
backend mpi through `plumbline bench`. Rivals are Debian's Open MPI, in several settings, and MPICH where they are installed, and those
of --rival, such as mpich5=.venv/bin/mpicc,.venv/bin/mpirun. What is printed is the median over the rounds of each round's ratio, with
the extremes: absolute times wander with the machine, ratios inside a round do not."""
import argparse, json, os, shutil, statistics, subprocess, sys, tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
OPEN_MPI = ["--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "self,vader"]
SETTINGS = {  # the fair rival is the best of all, size by size
    "openmpi": OPEN_MPI,
    "openmpi coll/sm": [*OPEN_MPI, "--mca", "coll_sm_priority", "95"],
    "openmpi no single copy": [*OPEN_MPI, "--mca", "btl_vader_single_copy_mechanism", "none"],
    "mpich": ["-bind-to", "none"],
}
OPERATIONS = ("all_reduce", "all_reduce_in_place", "broadcast", "send_recv")
UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def bytes_of(text):
    number = text.rstrip("KMGi")
    return int(number) * UNITS[text[len(number):]]


def plumbline(build, ranks, backend, names, sizes, quick, *more):
    """{(benchmark, bytes): [seconds]} of `plumbline bench`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [build / "bin/plumbline", "bench", "--backend", backend, "--world-size", ranks, "--sizes", sizes, "--pin",
                   "--launches", "1", "--repetitions", quick[0], "--min-time", quick[1], "--out", folder, *more]
        for name in names:
            command += ["--benchmark", name]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = {}
        for line in Path(folder, "run.jsonl").read_text().splitlines():
            record = json.loads(line)
            if record["type"] == "measurement":
                found[record["benchmark"], int(record["labels"]["bytes"])] = record["samples"]
        return found


class Rival:
    """A bare loop over one MPI."""

    def __init__(self, name, mpicc, mpirun, options, folder):
        self.name, self.mpirun, self.options = name, mpirun, options
        self.loop = Path(folder, name.split()[0])
        if not self.loop.exists():
            subprocess.run([mpicc, "-O2", "-o", str(self.loop), str(HERE / "mpi_loop.c")], check=True)

    def samples(self, ranks, operation, sizes, quick):
        """{bytes: [seconds]}."""
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        command = [self.mpirun, "-n", ranks, *self.options, self.loop, operation, *quick, *map(bytes_of, sizes.split(","))]
        done = subprocess.run([str(word) for word in command], check=True, env=environment, capture_output=True, text=True)
        return {line["bytes"]: line["samples"] for line in map(json.loads, done.stdout.splitlines())}


def rivals_of(more, folder):
    found = []
    for kind in ("openmpi", "mpich"):
        mpicc, mpirun = shutil.which(f"mpicc.{kind}"), shutil.which(f"mpirun.{kind}")
        if mpicc and mpirun:
            found += [Rival(name, mpicc, mpirun, options, folder) for name, options in SETTINGS.items() if name.startswith(kind)]
    for text in more:
        name, _, programs = text.partition("=")
        mpicc, _, mpirun = programs.partition(",")
        if not (name and shutil.which(mpicc) and shutil.which(mpirun)):
            sys.exit(f"compare.py: --rival '{text}' is not NAME=MPICC,MPIRUN with programs that are there")
        found.append(Rival(name, mpicc, mpirun, ["--oversubscribe"] if "openmpi" in name else [], folder))
    if not found:
        sys.exit("compare.py: no mpicc.openmpi or mpicc.mpich here; name a rival with --rival")
    return found


def one_round(options, rivals):
    """{bytes: {what: seconds}}, the median of the samples each."""
    quick, sizes, ranks = (options.repetitions, options.seconds), options.sizes, options.ranks
    local = plumbline(options.build, ranks, "local", [f"collectives.{name}" for name in OPERATIONS] + ["memory.*"], sizes, quick)
    # Turn by turn, for their difference is small.
    loops = {(rival.name, operation): rival.samples(ranks, operation, sizes, quick) for rival in rivals for operation in OPERATIONS}
    harness = plumbline(options.build, ranks, "mpi", [f"collectives.{name}" for name in OPERATIONS], sizes, quick,
                        "--launcher", rivals[0].mpirun, "--backend-option", "threads=single")  # as MPI_Init of the bare loop
    table = {}
    for size in map(bytes_of, sizes.split(",")):
        row = {name: statistics.median(local[f"collectives.{name}", size]) for name in OPERATIONS}
        row["copy"] = min(statistics.median(samples) for (name, of), samples in local.items() if name.startswith("memory.") and of == size)
        row |= {f"mpi {name} {operation}": statistics.median(samples[size]) for (name, operation), samples in loops.items()}
        row |= {f"harness {name}": statistics.median(harness[f"collectives.{name}", size]) for name in OPERATIONS}
        table[size] = row
    return table


def spread(values):
    return f"{statistics.median(values):7.2f} ({min(values):.2f}-{max(values):.2f})"


def report(rounds, options, rivals):
    print(f"\n{options.ranks} ranks, median (least-most) of {len(rounds)} rounds; us: of backend local, a call; a round trip of send_recv")
    for operation in OPERATIONS:
        print(f"\n{operation:>19} {'us':>10}  {'best MPI/local':>22}  {'the best':<22}  {'copy/local':>22}  {'local/broadcast':>22}"
              f"  {'harness/bare loop':>22}")
        for text in options.sizes.split(","):
            rows = [one[bytes_of(text)] for one in rounds]
            times = {rival.name: [row[f"mpi {rival.name} {operation}"] for row in rows] for rival in rivals}
            best = min(times, key=lambda name: statistics.median(times[name]))
            ours = [row[operation] for row in rows]
            ratio = lambda above, below: spread([a / b for a, b in zip(above, below)])
            print(f"{text:>19} {statistics.median(ours) * 1e6:>10.3f}  {ratio([min(t) for t in zip(*times.values())], ours):>22}  {best:<22}"
                  f"  {ratio([row['copy'] for row in rows], ours):>22}  {ratio(ours, [row['broadcast'] for row in rows]):>22}"
                  f"  {ratio([row[f'harness {operation}'] for row in rows], times[rivals[0].name]):>22}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="4,64,1Ki,4Ki,16Ki,64Ki,256Ki,1Mi,4Mi,16Mi,64Mi")
    parser.add_argument("--repetitions", type=int, default=5, help="of each measurement in a round")
    parser.add_argument("--seconds", type=float, default=0.02, help="that a repetition lasts at least")
    parser.add_argument("--rival", action="append", default=[], metavar="NAME=MPICC,MPIRUN", help="another MPI; may be repeated")
    parser.add_argument("--json", type=Path, help="also keep all medians here")
    options = parser.parse_args()
    if not (options.build / "bin/plumbline").exists():
        sys.exit(f"compare.py: {options.build}/bin/plumbline is missing; --build names the folder of a build")
    with tempfile.TemporaryDirectory() as folder:
        rivals = rivals_of(options.rival, folder)
        rounds = []
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}: {', '.join(rival.name for rival in rivals)}", file=sys.stderr)
            rounds.append(one_round(options, rivals))
    if options.json:
        options.json.write_text(json.dumps(rounds))
    report(rounds, options, rivals)


if __name__ == "__main__":
    main()
