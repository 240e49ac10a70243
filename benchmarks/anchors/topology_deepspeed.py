#!/usr/bin/env python3
"""Holds the planning of worlds against DeepSpeed's own code, in turns, in one run.

usage: topology_deepspeed.py TOPOLOGY_PY [--build BUILD] [--rounds 3] [--full]

TOPOLOGY_PY is DeepSpeed's runtime/pipe/topology.py, any version; what it imports is stubbed, so that nothing else of DeepSpeed
is needed. A round builds a ProcessTopology of three axes and lists its groups along all three, and lets `planning BITS` lay out
the same groups of the same world (ninja planning). Of each size, what is printed is the least of the rounds on both sides and
the median over the rounds of each round's ratio. --full goes on to 2^20 ranks, where DeepSpeed takes seconds and memory."""
import argparse, statistics, subprocess, sys, time, types
from pathlib import Path

AXES = ["pipe", "data", "model"]


def stubbed(path):
    """The module's names, with stubs for what it imports of DeepSpeed."""
    package = types.ModuleType("deepspeed")
    for name in ("comm", "utils"):
        part = types.ModuleType("deepspeed." + name)
        part.logger = part.log_dist = None
        setattr(package, name, part)
        sys.modules["deepspeed." + name] = part
    sys.modules["deepspeed"] = package
    names = {"__name__": "topology"}
    exec(compile(Path(path).read_text(), str(path), "exec"), names)
    return names


def sizes_of(bits):
    """2^bits ranks over three axes of like sizes, the first one largest: as `planning` has them."""
    return [1 << (bits // 3 + (1 if axis < bits % 3 else 0)) for axis in range(3)]


def theirs(make, bits):
    """Milliseconds of the construction, and of the groups along all axes."""
    begin = time.perf_counter()
    topology = make(axes=AXES, dims=sizes_of(bits))
    built = time.perf_counter()
    for axis in AXES:
        topology.get_axis_comm_lists(axis)
    return (built - begin) * 1e3, (time.perf_counter() - built) * 1e3


def ours(program, bits):
    return float(subprocess.run([program, str(bits)], check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topology_py", metavar="TOPOLOGY_PY")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args()
    make = stubbed(options.topology_py)["ProcessTopology"]
    program = (options.build / "tests/planning").resolve()
    print("    ranks  DeepSpeed: built, ms  groups, ms   ours, ms   ratio")
    for bits in range(10, 21 if options.full else 19, 2):
        rounds = [(*theirs(make, bits), ours(program, bits)) for _ in range(options.rounds)]
        built, groups, laid_out = (min(column) for column in zip(*rounds))
        ratio = statistics.median((one[0] + one[1]) / one[2] for one in rounds)
        print(f"{1 << bits:9}  {built:20.2f}  {groups:10.2f}  {laid_out:9.4f}  {ratio:6.0f}")


if __name__ == "__main__":
    main()
