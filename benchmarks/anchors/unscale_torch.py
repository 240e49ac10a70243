#!/usr/bin/env python3
"""Holds the unscaling of gradients against PyTorch's kernel and against copying, in turns, in one process.

usage: unscale_torch.py [--build BUILD] [--steps 60] [--sizes 1,16,64,256] [--json FILE]

Both sides have the same gradients in the same memory, on one thread: PyTorch's torch._amp_foreach_non_finite_check_and_unscale_,
which its GradScaler calls, and ours (ninja anchor_unscale). Of 16-bit gradients PyTorch makes f32 masters first, as mixed
precision does by hand; ours reads them once. A step of each and both kinds of copy follow each other, so that what else the
machine does meets all of them. Sizes are in MiB: a copy of so many bytes reads and writes as much as the unscaling does. What is
printed are medians over the steps, of GB/s and of each step's ratios, against the faster of its copies; a ratio above 1 is in our favour."""
import argparse, ctypes, json, statistics, time
from pathlib import Path

import torch

COUNTS = (65537, 7, 300000, 1024)  # as benchmarks/scaler.cpp has them
KINDS = {"f32": (torch.float32, 8), "f16_to_f32": (torch.float16, 6), "bf16_to_f32": (torch.bfloat16, 6)}


class Ours:
    """The anchor's library."""

    def __init__(self, build):
        self.library = ctypes.CDLL(str(build.resolve() / "tests/libanchor_unscale.so"))
        self.library.plumbline_copy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_bool)

    def unscale(self, gradients, masters, kind):
        """A call that divides them by 1; the lists must outlive it."""
        count = len(gradients)
        addresses = lambda tensors: (ctypes.c_void_p * count)(*[one.data_ptr() for one in tensors])
        arguments = (addresses(gradients), addresses(masters), (ctypes.c_int64 * count)(*map(len, gradients)),
                     ctypes.c_int64(count), ctypes.c_int(list(KINDS).index(kind)), ctypes.c_float(1))

        def call():
            assert self.library.plumbline_unscale(*arguments) == 0

        return call

    def copy(self, to, source, around_cache):
        return lambda: self.library.plumbline_copy(to.data_ptr(), source.data_ptr(), to.nbytes, around_cache)


def gradients(kind, mebibytes):
    dtype, moved = KINDS[kind]
    left, made = 2 * mebibytes * 2**20 // moved, []
    while left > 0:
        made.append(torch.ones(min(left, COUNTS[len(made) % len(COUNTS)]), dtype=dtype))
        left -= len(made[-1])
    return made


def theirs(grads, masters, kind):
    found, inverse = torch.zeros(1), torch.ones(1)

    def call():
        if kind != "f32":
            torch._foreach_copy_(masters, grads)
        torch._amp_foreach_non_finite_check_and_unscale_(masters, found, inverse)
        assert found.item() == 0

    return call


def seconds_in_turns(calls, steps):
    """Of each call, in each step; the first three steps are not counted."""
    seconds = {name: [] for name in calls}
    for step in range(steps + 3):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            if step >= 3:
                seconds[name].append(time.perf_counter() - begin)
    return seconds


def compare(ours, kind, mebibytes, steps):
    grads = gradients(kind, mebibytes)
    masters = grads if kind == "f32" else [torch.ones_like(one, dtype=torch.float32) for one in grads]
    source, to = torch.ones(mebibytes * 2**18), torch.ones(mebibytes * 2**18)
    seconds = seconds_in_turns({"ours": ours.unscale(grads, masters, kind), "torch": theirs(grads, masters, kind),
                                "memcpy": ours.copy(to, source, False), "streaming": ours.copy(to, source, True)}, steps)
    seconds["copy"] = min(seconds["memcpy"], seconds["streaming"], key=statistics.median)
    ratio = lambda other: statistics.median(b / a for a, b in zip(seconds["ours"], seconds[other]))
    speed = lambda name: mebibytes * 2**20 / statistics.median(seconds[name]) / 1e9
    return {"kind": kind, "mebibytes": mebibytes, "copy": speed("copy"), "ours": speed("ours"), "torch": speed("torch"),
            "of_copy": ratio("copy"), "times_torch": ratio("torch")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--sizes", default="1,16,64,256")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    ours, rows = Ours(options.build), []
    print(f"PyTorch {torch.__version__} on one thread, {options.steps} steps in turns")
    print(f"{'gradients':<14}{'MiB':>6}{'copy GB/s':>12}{'ours GB/s':>12}{'PyTorch GB/s':>14}{'of the copy':>13}{'times PyTorch':>15}")
    for mebibytes in map(int, options.sizes.split(",")):
        for kind in KINDS:
            row = compare(ours, kind, mebibytes, options.steps)
            rows.append(row)
            print(f"{kind:<14}{mebibytes:>6}{row['copy']:>12.2f}{row['ours']:>12.2f}{row['torch']:>14.2f}"
                  f"{row['of_copy']:>13.2f}{row['times_torch']:>15.2f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
