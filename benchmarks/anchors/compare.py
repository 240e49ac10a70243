#!/usr/bin/env python3
"""Holds the local backend and the benchmark harness against what there is beside them, in turns, in one run.

usage: compare.py [--build BUILD] [--ranks 2] [--rounds 5] [--sizes 4,1Ki,...] [--json FILE]

A round measures, one after the other: the local backend's all-reduce (out of place and in place), all ranks copying as many
bytes at once (plain and with streaming stores), and a bare loop over MPI_Allreduce in several settings of Open MPI; and the
same all-reduce of backend mpi through `plumbline bench`. What is printed is the median over the rounds of each round's
ratio, with the extremes: absolute times wander with the machine, ratios inside a round do not."""
import argparse, json, os, statistics, subprocess, sys, tempfile
from pathlib import Path

SETTINGS = {  # the fair rival is the best of these, size by size
    "default": [],
    "coll/sm": ["--mca", "coll_sm_priority", "95"],
    "no single copy": ["--mca", "btl_vader_single_copy_mechanism", "none"],
}
OPERATIONS = ("all_reduce", "all_reduce_in_place")
UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def bytes_of(text):
    number = text.rstrip("KMGi")
    return int(number) * UNITS[text[len(number):]]


def plumbline(build, ranks, backend, names, sizes, quick):
    """{(benchmark, bytes): [seconds]} of `plumbline bench`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [build / "bin/plumbline", "bench", "--backend", backend, "--world-size", ranks, "--sizes", sizes, "--pin",
                   "--repetitions", quick[0], "--min-time", quick[1], "--out", folder]
        for name in names:
            command += ["--benchmark", name]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
        found = {}
        for line in Path(folder, "run.jsonl").read_text().splitlines():
            record = json.loads(line)
            if record["type"] == "measurement":
                found[record["benchmark"], int(record["labels"]["bytes"])] = record["samples"]
        return found


def bare_loop(build, ranks, setting, operation, sizes, quick):
    """{bytes: [seconds]} of the loop."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = ["mpirun", "-n", ranks, "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "self,vader",
               *SETTINGS[setting], build / "tests/anchor_mpi_loop", operation, quick[0], quick[1],
               *[bytes_of(size) for size in sizes.split(",")]]
    done = subprocess.run([str(word) for word in command], check=True, env=environment, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["bytes"]: line["samples"] for line in lines}


def one_round(build, ranks, sizes, quick, settings):
    """{bytes: {what: seconds}}, the median of the samples each."""
    local = plumbline(build, ranks, "local", [f"collectives.{name}" for name in OPERATIONS] + ["memory.*"], sizes, quick)
    # Turn by turn, for their difference is small.
    loops = {(setting, operation): bare_loop(build, ranks, setting, operation, sizes, quick)
             for setting in settings for operation in OPERATIONS}
    harness = plumbline(build, ranks, "mpi", ["collectives.all_reduce"], sizes, quick)
    table = {}
    for size in sizes.split(","):
        size = bytes_of(size)
        median = lambda samples: statistics.median(samples)
        row = {name: median(local[f"collectives.{name}", size]) for name in OPERATIONS}
        row["copy"] = min(median(samples) for (name, of), samples in local.items() if name.startswith("memory.") and of == size)
        row |= {f"mpi {setting} {operation}": median(samples[size]) for (setting, operation), samples in loops.items()}
        row["harness"] = median(harness["collectives.all_reduce", size])
        table[size] = row
    return table


def spread(values):
    return f"{statistics.median(values):7.2f} ({min(values):.2f}-{max(values):.2f})"


def report(rounds, sizes, ranks):
    print(f"\n{ranks} ranks, median (least-most) of {len(rounds)} rounds; times of the local backend in us")
    print(f"{'bytes':>6} {'out of place':>13} {'in place':>10}  {'best MPI/local':>20}  {'copy/out of place':>20}  {'copy/in place':>20}"
          f"  {'harness/bare loop':>20}")
    for text in sizes.split(","):
        rows = [one[bytes_of(text)] for one in rounds]
        rival = [min(value for name, value in row.items() if name.startswith("mpi ")) for row in rows]
        ours = [min(row[name] for name in OPERATIONS) for row in rows]
        out, place = ([row[name] for row in rows] for name in OPERATIONS)
        copy = [row["copy"] for row in rows]
        print(f"{text:>6} {statistics.median(out) * 1e6:>13.3f} {statistics.median(place) * 1e6:>10.3f}"
              f"  {spread([a / b for a, b in zip(rival, ours)]):>20}"
              f"  {spread([a / b for a, b in zip(copy, out)]):>20}  {spread([a / b for a, b in zip(copy, place)]):>20}"
              f"  {spread([row['harness'] / row['mpi default all_reduce'] for row in rows]):>20}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="4,64,1Ki,4Ki,16Ki,64Ki,256Ki,1Mi,4Mi,16Mi,64Mi")
    parser.add_argument("--repetitions", type=int, default=5, help="of each measurement in a round")
    parser.add_argument("--seconds", type=float, default=0.02, help="that a repetition lasts at least")
    parser.add_argument("--settings", default=",".join(SETTINGS), help="of Open MPI: " + ", ".join(SETTINGS))
    parser.add_argument("--json", type=Path, help="also keep all medians here")
    options = parser.parse_args()
    if not (options.build / "tests/anchor_mpi_loop").exists():
        sys.exit(f"compare.py: {options.build}/tests/anchor_mpi_loop is missing: ninja -C {options.build} anchor_mpi_loop")
    rounds = []
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
        rounds.append(one_round(options.build, options.ranks, options.sizes, (options.repetitions, options.seconds),
                                options.settings.split(",")))
    if options.json:
        options.json.write_text(json.dumps(rounds))
    report(rounds, options.sizes, options.ranks)


if __name__ == "__main__":
    main()
