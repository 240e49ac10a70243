#!/usr/bin/env python3
"""Holds a training step with our reducer over the local backend against PyTorch's over gloo, in turns, in one run.

usage: ddp_gloo.py [--build BUILD] [--ranks 2] [--layers 80] [--width 128] [--rows 32] [--steps 30] [--rounds 7] [--json FILE]

Both train the same perceptron: linear layers with relu between. A round measures, one after the other: our step without a
reduction, with a bucket a gradient, in buckets of 25 MiB, with the size that its tuning chooses; PyTorch's step without a
reduction, with DistributedDataParallel in buckets of 25 MiB (gradients copied, and as views of buckets), and with
all_reduce_coalesced after the backward pass. What is printed is the median over the rounds of each round's median step, and of
each round's ratio to ours; after it the same of the processor's time of a step and rank, all threads together, which a machine
that others use too disturbs less. Run it with the Python whose torch the build has, such as .venv/bin/python3."""
import argparse, contextlib, json, os, statistics, subprocess, sys, tempfile, time
from pathlib import Path

OURS = {"ours, no reduction": -1, "ours, one each": 0, "ours, 25 MiB": 25 << 20, "ours, auto": -2}
THEIRS = ("torch, no reduction", "DDP, 25 MiB", "DDP, 25 MiB views", "all_reduce_coalesced")


def worker(rank, arguments, store, out):
    """One rank of PyTorch's side: all kinds, one after the other."""
    import torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    # Ranks meet in a file: a port that was free a moment ago need not be so any more.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=arguments.ranks)

    def model():
        torch.manual_seed(1)
        layers = []
        for i in range(arguments.layers):
            layers += [torch.nn.Linear(arguments.width, arguments.width)] + ([torch.nn.ReLU()] if i + 1 < arguments.layers else [])
        return torch.nn.Sequential(*layers)

    def timed(net, after):
        x = torch.full((arguments.rows, arguments.width), 0.5 + rank)
        samples = []
        for step in range(-5, arguments.steps):
            dist.barrier()
            if step == 0:
                processor = time.process_time()
            begin = time.perf_counter()
            net.zero_grad()
            net(x).sum().backward()
            after(net)
            own = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
            dist.all_reduce(own, dist.ReduceOp.MAX)
            if step >= 0:
                samples.append(own.item())
        processor = torch.tensor([time.process_time() - processor], dtype=torch.float64)
        dist.all_reduce(processor)
        return {"samples": samples, "processor": processor.item() / arguments.ranks / arguments.steps}

    def coalesced(net):
        gradients = [parameter.grad for parameter in net.parameters()]
        dist.all_reduce_coalesced(gradients)
        for gradient in gradients:
            gradient.div_(arguments.ranks)

    nothing = lambda net: None
    found = {"torch, no reduction": timed(model(), nothing),
             "DDP, 25 MiB": timed(DDP(model()), nothing),
             "DDP, 25 MiB views": timed(DDP(model(), gradient_as_bucket_view=True), nothing),
             "all_reduce_coalesced": timed(model(), coalesced)}
    if rank == 0:
        Path(out).write_text(json.dumps(found))
    dist.barrier()  # who leaves first is missed by nobody
    dist.destroy_process_group()
    # DistributedDataParallel keeps the threads of group and store (torch 2.13), and the interpreter's end may abort while they run.
    sys.stdout.flush()
    os._exit(0)


def failure(ranks, words):
    """What the first rank that failed by itself wrote last; others only miss it."""
    for rank, ended in enumerate(ranks):
        if ended.returncode:
            words[rank].seek(0)
            lines = [line for line in words[rank].read().splitlines() if line.strip()] or ["it wrote nothing"]
            return f"PyTorch's rank {rank} of {len(ranks)} ended with status {ended.returncode}: " + "\n  ".join(lines[-12:])


def wait_for_all(ranks, words, seconds=600):
    """Until all have ended, one has failed, or the time is up; ends the program in the latter cases."""
    end = time.monotonic() + seconds
    while any(rank.poll() is None for rank in ranks):
        if any(rank.poll() for rank in ranks) or time.monotonic() > end:
            break
        time.sleep(0.05)
    wrong = failure(ranks, words) or (f"PyTorch's ranks took more than {seconds} s" if any(rank.poll() is None for rank in ranks) else None)
    for rank in ranks:
        rank.kill()
        rank.wait()
    if wrong:
        sys.exit(f"ddp_gloo.py: {wrong}")


def theirs(arguments):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as files:
        out = Path(folder, "samples.json")
        command = [sys.executable, __file__, "--ranks", arguments.ranks, "--layers", arguments.layers, "--width", arguments.width,
                   "--rows", arguments.rows, "--steps", arguments.steps, "--out", out, "--store", Path(folder, "store"), "--rank"]
        words = [files.enter_context(open(Path(folder, f"rank{rank}.txt"), "w+")) for rank in range(arguments.ranks)]
        ranks = [subprocess.Popen([str(word) for word in command] + [str(rank)], stdout=words[rank], stderr=words[rank]) for rank in range(arguments.ranks)]
        wait_for_all(ranks, words)
        return json.loads(out.read_text())


def ours(arguments, bucket_bytes):
    command = [arguments.build / "tests/anchor_reducer_step", arguments.ranks, arguments.layers, arguments.width, arguments.rows,
               arguments.steps, bucket_bytes]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"ddp_gloo.py: {command[0]} ended with status {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    for name, value in {"ranks": 2, "layers": 80, "width": 128, "rows": 32, "steps": 30, "rounds": 7}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    for hidden in ("--store", "--out"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        return worker(arguments.rank, arguments, arguments.store, arguments.out)
    rounds = []
    for _ in range(arguments.rounds):
        found = {name: ours(arguments, size) for name, size in OURS.items()} | theirs(arguments)
        rounds.append({name: {"seconds": statistics.median(one["samples"]), "processor": one["processor"]} for name, one in found.items()})
        print(f"round {len(rounds)} of {arguments.rounds}", file=sys.stderr, flush=True)
    print(f"{arguments.layers} x Linear({arguments.width}, {arguments.width}), {arguments.rows} rows, {arguments.ranks} ranks: "
          f"ms a step, median (least-most) of {len(rounds)} rounds, and times ours (auto); the same of the processor's time")
    for name in (*OURS, *THEIRS):
        line = f"  {name:<22}"
        for what in ("seconds", "processor"):
            times = [one[name][what] * 1e3 for one in rounds]
            ratios = [one[name][what] / one["ours, auto"][what] for one in rounds]
            line += (f"{statistics.median(times):8.2f} {f'({min(times):.2f}-{max(times):.2f})':<16}"
                     f"{statistics.median(ratios):6.2f} {f'({min(ratios):.2f}-{max(ratios):.2f})':<14}")
        print(line.rstrip())
    if arguments.json:
        arguments.json.write_text(json.dumps(rounds, indent=1) + "\n")


if __name__ == "__main__":
    main()
