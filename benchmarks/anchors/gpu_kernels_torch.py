#!/usr/bin/env python3
"""Holds our kernels on many tensors against PyTorch's foreach kernels, in turns, in one process, on one GPU.

usage: gpu_kernels_torch.py [--build BUILD] [--steps 40] [--json FILE]

Both sides have the same tensors in the same memory, on one stream; times are those of CUDA events. Lists of tensors: the gradients
of GPT-2 small, a thousand short ones, and one of 256 MiB. PyTorch's side is what its users write: GradScaler's kernel to unscale,
torch._foreach_copy_ for f32 masters before it and to flatten, chains of torch._foreach_ calls for the slow step and for mixing.
Before anything is timed, both results are compared: bit for bit, but for the slow step, whose order of operations differs.
What is printed are medians over the steps; a ratio above 1 is in our favour. Exit status 3 where there is no GPU."""
import argparse, ctypes, json, statistics, sys
from pathlib import Path

import torch

# GPT-2 small's gradients: embeddings, twelve layers, the last norm.
LAYER = [768, 768, 768 * 2304, 2304, 768 * 768, 768, 768, 768, 768 * 3072, 3072, 3072 * 768, 768]
LISTS = {"gpt2": [50257 * 768, 1024 * 768] + LAYER * 12 + [768, 768], "1000 of 1024": [1024] * 1000, "one of 2^26": [2**26]}
KINDS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}


class Ours:
    """The anchor's library, on lists of tensors that must outlive the calls."""

    def __init__(self, build):
        self.library = ctypes.CDLL(str(build.resolve() / "tests/libanchor_gpu_kernels.so"))

    def call(self, name, lists, *numbers):
        count = len(lists[0])
        addresses = [(ctypes.c_void_p * count)(*[one.data_ptr() for one in tensors]) for tensors in lists]
        counts = (ctypes.c_int64 * count)(*[one.numel() for one in lists[0]])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        function = getattr(self.library, f"plumbline_gpu_{name}")

        def step():
            if function(*addresses, counts, ctypes.c_int64(count), *numbers, stream) != 0:
                raise RuntimeError(f"plumbline_gpu_{name} refuses")

        return step


def made(counts, dtype=torch.float32):
    return [torch.randn(count, device="cuda").to(dtype) for count in counts]


def unscale(ours, counts, dtype):
    grads, found, inverse = made(counts, dtype), torch.zeros(1, device="cuda"), torch.full((1,), 0.5, device="cuda")
    results = [[torch.empty_like(one, dtype=torch.float32) for one in grads] for _ in "ab"]

    def theirs():
        torch._foreach_copy_(results[1], grads)
        torch._amp_foreach_non_finite_check_and_unscale_(results[1], found, inverse)

    mine = ours.call("unscale", (grads, results[0]), ctypes.c_int(KINDS[dtype]), ctypes.c_float(0.5),
                     ctypes.c_void_p(found.data_ptr()))
    return mine, theirs, results


def flatten(ours, counts):
    grads, buckets = made(counts), [torch.empty(sum(counts), device="cuda") for _ in "ab"]
    places = [list(bucket.split(counts)) for bucket in buckets]
    return ours.call("copy", (grads, places[0]), ctypes.c_double(1)), lambda: torch._foreach_copy_(places[1], grads), places


def slow_step(ours, counts, beta=0.5, rate=1.0, fast=0.1):
    mine = [made(counts) for _ in range(3)]
    other = [[one.clone() for one in column] for column in mine]

    def theirs():
        x, old, momentum = other
        difference = torch._foreach_sub(old, x)
        torch._foreach_div_(difference, fast)
        torch._foreach_mul_(momentum, beta)
        torch._foreach_add_(momentum, difference)
        torch._foreach_add_(old, momentum, alpha=-rate * fast)
        torch._foreach_copy_(x, old)

    return ours.call("slow_step", mine, *map(ctypes.c_double, (beta, rate, fast))), theirs, (sum(mine, []), sum(other, []))


def mixing(ours, counts):
    mine, came = made(counts), made(counts)
    other = [one.clone() for one in mine]

    def theirs():
        torch._foreach_add_(other, came)
        torch._foreach_mul_(other, 0.5)

    return ours.call("mix", (mine, came), ctypes.c_double(0.5)), theirs, (mine, other)


KERNELS = {
    "unscale f32": (lambda ours, counts: unscale(ours, counts, torch.float32), 0),
    "unscale f16": (lambda ours, counts: unscale(ours, counts, torch.float16), 0),
    "unscale bf16": (lambda ours, counts: unscale(ours, counts, torch.bfloat16), 0),
    "flatten f32": (flatten, 0),
    "slow_step f32": (slow_step, 1e-5),
    "mixing f32": (mixing, 0),
}


def compare(kernel, name, results, tolerance):
    for mine, other in zip(*results):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance, msg=lambda why: f"{kernel}, {name}: {why}")


def seconds_in_turns(calls, steps):
    """Of each call, in each step; the first three steps are not counted."""
    seconds = [[] for _ in calls]
    for step in range(steps + 3):
        for at, call in enumerate(calls):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
            begin.record()
            call()
            end.record()
            end.synchronize()
            if step >= 3:
                seconds[at].append(begin.elapsed_time(end) / 1e3)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.steps < 1:
        parser.error(f"--steps {options.steps}: it must be 1 or more")
    if not torch.cuda.is_available():
        print(f"gpu_kernels_torch.py: PyTorch {torch.__version__} sees no GPU", file=sys.stderr)
        return 3
    try:
        ours = Ours(options.build)
    except OSError as error:
        parser.error(f"--build {options.build}: {error}; build it with ninja anchor_gpu_kernels")
    rows = []
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, {options.steps} steps in turns")
    print(f"{'kernel':<15}{'tensors':<15}{'ours us':>10}{'PyTorch us':>12}{'times PyTorch':>15}")
    for name, counts in LISTS.items():
        for kernel, (prepare, tolerance) in KERNELS.items():
            mine, theirs, results = prepare(ours, counts)
            mine(), theirs()
            compare(kernel, name, results, tolerance)
            own, other = seconds_in_turns((mine, theirs), options.steps)
            row = {"kernel": kernel, "tensors": name, "seconds": statistics.median(own),
                   "torch_seconds": statistics.median(other),
                   "times_torch": statistics.median(b / a for a, b in zip(own, other))}
            rows.append(row)
            print(f"{kernel:<15}{name:<15}{row['seconds'] * 1e6:>10.1f}{row['torch_seconds'] * 1e6:>12.1f}"
                  f"{row['times_torch']:>15.2f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"torch": torch.__version__, "device": torch.cuda.get_device_name(), "rows": rows},
                                           indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
