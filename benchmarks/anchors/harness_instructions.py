#!/usr/bin/env python3
"""Counts what the harness and backend mpi add to a call of MPI, in instructions, which depend on no load.

usage: harness_instructions.py [--build BUILD] [--mpirun MPIRUN]

Runs an all-reduce of 4 bytes of backend mpi on one rank under valgrind's callgrind, and prints the instructions of an iteration of
`plumbline bench`: those of MPI_Allreduce, and of ours those of each function. What MPI does between ranks is not in it: on one rank there
is nothing to wait for, and waiting is no work.

Exit status: 0; 2 a bad option; 3 something is missing or failed."""
import argparse, re, shutil, subprocess, sys, tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ITERATION = "CallOperation::run()"
MPI = re.compile(r"\bP?MPI_Allreduce\b")
# In place of the launcher: callgrind before the worker. Workers end without a dump, so that there is one after the measurement.
LAUNCHER = """#!/usr/bin/env bash
words=()
for word in "$@"; do
  [[ $word != */bin/plumbline ]] || words+=({valgrind} --tool=callgrind --callgrind-out-file={out} '--toggle-collect=*{iteration}' \
'--dump-after=plumbline::bench::measure*')
  words+=("$word")
done
exec {mpirun} "${{words[@]}}"
"""
ROW = re.compile(r"^ *([\d,]+) \([ \d.]+%\)  ([*>]) +\S*?:(.*?)(?: \(([\d,]+)x\))?(?: \[.*\])?$")


class Missing(RuntimeError):
    pass


def profile(options, folder):
    """The text of callgrind_annotate."""
    tools = {name: shutil.which(name) for name in ("valgrind", "callgrind_annotate", options.mpirun)}
    if missing := [name for name, path in tools.items() if path is None]:
        raise Missing(f"no {missing[0]} here; apt-get install valgrind, and an MPI")
    launcher = folder / "mpirun"
    launcher.write_text(LAUNCHER.format(valgrind=tools["valgrind"], out=folder / "out.%p", iteration=ITERATION, mpirun=tools[options.mpirun]))
    launcher.chmod(0o755)
    command = [options.build / "bin/plumbline", "bench", "--backend", "mpi", "--launcher", launcher, "--benchmark", "collectives.all_reduce",
               "--sizes", 4, "--world-size", 1, "--launches", 1, "--repetitions", 1, "--out", folder / "record"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    dumps = sorted(folder.glob("out.*.1"), key=lambda path: path.stat().st_size)
    if done.returncode != 0 or not dumps:
        raise Missing(f"bench under valgrind ended with exit status {done.returncode}: {' '.join((done.stderr or done.stdout).split())[-300:]}")
    found = subprocess.run(["callgrind_annotate", "--inclusive=no", "--tree=calling", "--threshold=100", str(dumps[-1])], capture_output=True, text=True)
    return found.stdout


def number(text):
    return int(text.replace(",", ""))


def counted(text):
    """(iterations, instructions of MPI, {function: instructions of its own}) of what was collected."""
    own, mpi, iterations = {}, 0, 0
    caller = ""
    for line in text.splitlines():
        if not (row := ROW.match(line)):
            continue
        name = re.sub(r"\(anonymous namespace\)::", "", row[3]).split("(")[0] if "operator" not in row[3] else row[3]
        if row[2] == "*":
            caller = name
            own[name] = own.get(name, 0) + number(row[1])
        elif MPI.search(name):
            mpi += 0 if MPI.search(caller) else number(row[1])
        elif caller.endswith("CallOperation::run"):
            iterations = number(row[4])
    return iterations, mpi, own


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=HERE.parents[1] / "build")
    parser.add_argument("--mpirun", default="mpirun")
    options = parser.parse_args(words)
    if not (options.build / "bin/plumbline").exists():
        parser.error(f"--build '{options.build}' has no bin/plumbline")
    try:
        with tempfile.TemporaryDirectory() as folder:
            iterations, mpi, own = counted(profile(options, Path(folder)))
        if not iterations or not mpi:
            raise Missing("callgrind saw no iteration; the build must have its symbols")
    except (Missing, OSError) as error:
        print(f"harness_instructions.py: {error}", file=sys.stderr)
        return 3
    ours = {name: count for name, count in own.items() if "plumbline::" in name}
    print(f"all_reduce of 4 bytes on one rank, instructions an iteration, of {iterations}:")
    print(f"{mpi / iterations:8.0f}  MPI_Allreduce")
    print(f"{sum(ours.values()) / iterations:8.0f}  the harness and the backend:")
    for name, count in sorted(ours.items(), key=lambda item: -item[1]):
        if count >= iterations:
            print(f"{count / iterations:16.0f}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
