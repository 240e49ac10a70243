#!/usr/bin/env python3
"""Holds the unscaling of gradients against PyTorch's kernel and against copying, in turns, in one run.

usage: unscale_torch.py [--build BUILD] [--rounds 5] [--sizes 1,16,64,256] [--json FILE]

Both sides have the same list of gradients, on one thread: PyTorch's torch._amp_foreach_non_finite_check_and_unscale_, which
its GradScaler calls, and scaler.unscale of `plumbline bench` (ninja plumbline plumbline_benchmarks). Of 16-bit gradients PyTorch
makes f32 masters first, as mixed precision does by hand; ours reads them once. A round takes copy, ours and PyTorch's in turn.
Sizes are in MiB: a copy of so many bytes reads and writes as much as the unscaling does. What is printed are medians over the
rounds of GB/s and of each round's ratios; a ratio above 1 is in our favour."""
import argparse, json, statistics, subprocess, tempfile, time
from pathlib import Path

import torch

COUNTS = (65537, 7, 300000, 1024)  # as benchmarks/scaler.cpp has them
KINDS = {"f32": (torch.float32, 8), "f16_to_f32": (torch.float16, 6), "bf16_to_f32": (torch.bfloat16, 6)}


def ours(build, mebibytes):
    """Seconds of the copy and of each kind."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([str(build / "bin/plumbline"), "bench", "--world-size", "1", "--sizes", f"{mebibytes}Mi", "--repetitions", "3",
                        "--min-time", "0.05", "--benchmark", "memory.copy*", "--benchmark", "scaler.unscale.*", "--out", folder],
                       check=True, stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in Path(folder, "run.jsonl").read_text().splitlines()]
    seconds = {line["benchmark"].removeprefix("scaler.unscale."): statistics.median(line["samples"])
               for line in lines if line["type"] == "measurement"}
    return min(seconds["memory.copy"], seconds["memory.copy_streaming"]), seconds


def gradients(kind, mebibytes):
    dtype, moved = KINDS[kind]
    left, made = 2 * mebibytes * 2**20 // moved, []
    while left > 0:
        made.append(torch.zeros(min(left, COUNTS[len(made) % len(COUNTS)]), dtype=dtype))
        left -= len(made[-1])
    return made


def theirs(kind, mebibytes):
    """Seconds of a step, the least of several."""
    grads = gradients(kind, mebibytes)
    masters = grads if kind == "f32" else [torch.empty_like(one, dtype=torch.float32) for one in grads]
    found, inverse = torch.zeros(1), torch.ones(1)
    times = []
    while len(times) < 5:
        begin = time.perf_counter()
        for _ in range(max(1, 64 // mebibytes)):
            if kind != "f32":
                torch._foreach_copy_(masters, grads)
            torch._amp_foreach_non_finite_check_and_unscale_(masters, found, inverse)
        times.append((time.perf_counter() - begin) / max(1, 64 // mebibytes))
    assert found.item() == 0
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="1,16,64,256")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__} on one thread, {options.rounds} rounds")
    print(f"{'gradients':<14}{'MiB':>6}{'copy GB/s':>12}{'ours GB/s':>12}{'PyTorch GB/s':>14}{'of the copy':>13}{'times PyTorch':>15}")
    rows = []
    for mebibytes in map(int, options.sizes.split(",")):
        rounds = [(ours(options.build, mebibytes), {kind: theirs(kind, mebibytes) for kind in KINDS})
                  for _ in range(options.rounds)]
        for kind in KINDS:
            speed = lambda seconds: statistics.median(mebibytes * 2**20 / one / 1e9 for one in seconds)
            row = {"kind": kind, "mebibytes": mebibytes, "copy": speed(copy for (copy, _), _ in rounds),
                   "ours": speed(own[kind] for (_, own), _ in rounds), "torch": speed(other[kind] for _, other in rounds),
                   "of_copy": statistics.median(copy / own[kind] for (copy, own), _ in rounds),
                   "times_torch": statistics.median(other[kind] / own[kind] for (_, own), other in rounds)}
            rows.append(row)
            print(f"{kind:<14}{mebibytes:>6}{row['copy']:>12.2f}{row['ours']:>12.2f}{row['torch']:>14.2f}"
                  f"{row['of_copy']:>13.2f}{row['times_torch']:>15.2f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
