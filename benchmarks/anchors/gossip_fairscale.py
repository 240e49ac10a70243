#!/usr/bin/env python3
"""Holds a round of gossip over the local backend against FairScale's over gloo, in turns, in one run.

usage: gossip_fairscale.py [--build BUILD] [--ranks 2] [--parameters 1000000] [--steps 40] [--turns 5] [--json FILE]

FairScale's side trains one flat parameter with SlowMoDistributedDataParallel, base algorithm SGP, on CPU processes: calls that
need CUDA are stood in for, and a round is the step with SGP less the step without communication. Run it with a Python that has
torch, numpy and fairscale 0.4.13. What is printed is the median over the turns of each side's rounds a second, and of each
turn's ratio."""
import argparse, json, os, statistics, subprocess, sys, tempfile, time, warnings
from pathlib import Path

OURS = ("rounds.n-peer-exponential.p1", "rounds.confirmed", "rounds.exchange", "rounds.exchange_on", "rounds.all_reduce")


def stand_in_for_cuda(torch):
    class Stream:
        def wait_stream(self, _):
            pass

        def synchronize(self):
            pass

    torch.cuda.synchronize = lambda *_: None
    torch.cuda.current_stream = lambda *_: Stream()
    torch.Tensor.cuda = lambda self, *_, **__: self
    torch.Tensor.pin_memory = lambda self, *_: self


def worker(rank, arguments, port, out):
    """One rank of FairScale's side."""
    warnings.simplefilter("ignore")
    import torch, torch.distributed as dist
    stand_in_for_cuda(torch)
    from fairscale.experimental.nn.data_parallel import SlowMoBaseAlgorithm, SlowMoDistributedDataParallel

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=arguments.ranks)

    class Flat(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.values = torch.nn.Parameter(torch.full((arguments.parameters,), 1.0 + rank))

        def forward(self, x):
            return (self.values * x).sum()

    def timed(model, after):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        x, samples = torch.ones(1), []
        for step in range(-5, arguments.steps):
            dist.barrier()
            begin = time.perf_counter()
            optimizer.zero_grad()
            model(x).backward()
            optimizer.step()
            after(optimizer)
            own = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
            dist.all_reduce(own, dist.ReduceOp.MAX)
            if step >= 0:
                samples.append(own.item())
        return statistics.median(samples)

    alone = timed(Flat(), lambda _: None)
    wrapped = SlowMoDistributedDataParallel(Flat(), nprocs_per_node=1, slowmo_momentum=0.0, broadcast_buffers=False,
                                            slowmo_base_algorithm=SlowMoBaseAlgorithm.SGP)
    with_sgp = timed(wrapped, wrapped.perform_slowmo)
    if rank == 0:
        Path(out).write_text(json.dumps({"step": alone, "step with SGP": with_sgp, "round": with_sgp - alone}))
    dist.barrier()
    os._exit(0)  # its gossip thread never ends


def theirs(arguments):
    import socket
    with socket.socket() as probe, tempfile.TemporaryDirectory() as folder:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        out = Path(folder, "seconds.json")
        command = [sys.executable, __file__, "--ranks", arguments.ranks, "--parameters", arguments.parameters, "--steps",
                   arguments.steps, "--out", out, "--port", port, "--rank"]
        ranks = [subprocess.Popen([str(word) for word in command] + [str(rank)], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) for rank in range(arguments.ranks)]
        failures = [rank.communicate(timeout=600)[1] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            sys.exit("FairScale's ranks failed: " + "".join(failures)[-800:])
        return json.loads(out.read_text())


def ours(arguments):
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.build / "bin/plumbline", "bench", "--backend", "local", "--world-size", arguments.ranks, "--sizes",
                   4 * arguments.parameters, "--launches", 1, "--repetitions", 5, "--min-time", 0.1, "--pin", "--out", folder]
        for name in OURS:
            command += ["--benchmark", "gossip_throughput." + name]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
        records = map(json.loads, Path(folder, "run.jsonl").read_text().splitlines())
        return {record["benchmark"].split(".", 1)[1]: statistics.median(record["samples"])
                for record in records if record["type"] == "measurement"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--parameters", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path)
    for hidden in ("--rank", "--port"):
        parser.add_argument(hidden, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        return worker(arguments.rank, arguments, arguments.port, arguments.out)
    turns = []
    for _ in range(arguments.turns):
        turns.append({"fairscale": theirs(arguments), "ours": ours(arguments)})
    print(f"{arguments.ranks} ranks, {arguments.parameters} parameters, {arguments.turns} turns")
    fairscale = statistics.median(turn["fairscale"]["round"] for turn in turns)
    print(f"{'FairScale, SGP over gloo':<44}{fairscale * 1e3:>10.3f} ms{1 / fairscale:>12.0f} rounds/s")
    for name in OURS:
        seconds = statistics.median(turn["ours"][name] for turn in turns)
        ratio = statistics.median(turn["fairscale"]["round"] / turn["ours"][name] for turn in turns)
        print(f"{'plumbline, ' + name:<44}{seconds * 1e3:>10.3f} ms{1 / seconds:>12.0f} rounds/s{ratio:>8.0f} times FairScale's")
    if arguments.json:
        arguments.json.write_text(json.dumps(turns, indent=1) + "\n")


if __name__ == "__main__":
    main()
