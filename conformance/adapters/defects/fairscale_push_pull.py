"""FairScale 0.4.13, without Plumbline: PushPull hangs over gloo on a graph in which no node is passive.

PushPull.mix lets a passive node receive before it sends, and all others send first, by a broadcast in the group of the edge. In a directed graph no
node is passive, so that with two ranks both are in the broadcast of their own edge, and neither receives.
Exit status: 1 the defect is here, 0 it is not, 3 it cannot be asked.
"""
import os
import sys
import tempfile
import warnings


def not_asked(kind, error, trace):
    """Whatever ends this program early says nothing of the defect."""
    print(f"cannot be asked: {kind.__name__}: {error}", flush=True)
    os._exit(3)


sys.excepthook = not_asked

warnings.filterwarnings("ignore")
import torch
import torch.distributed as dist
import torch.multiprocessing as processes

torch.Tensor.cuda = lambda self, *arguments, **more: self  # FairScale asks for CUDA without a look whether there is any
torch.Tensor.pin_memory = lambda self, *arguments, **more: self
from fairscale.experimental.nn.data_parallel.gossip import graph_manager
from fairscale.experimental.nn.data_parallel.gossip.gossiper import PushPull

SECONDS = 20


def train(rank, world, file, name, ready):
    dist.init_process_group("gloo", init_method="file://" + file, rank=rank, world_size=world)
    graph = getattr(graph_manager, name)(rank, world, peers_per_itr=1)
    gossiper = PushPull(torch.ones(5), graph, device=torch.device("cpu"), rank=rank, world_size=world)
    ready.put(rank)
    for _ in range(4):
        gossiper.mix(torch.full((5,), float(rank)), torch.ones(1))
    dist.destroy_process_group()


def hangs(name):
    """Whether 2 ranks come to no end. Throws where they end in another way than right."""
    with tempfile.TemporaryDirectory() as folder:
        context = processes.get_context("spawn")
        ready = context.Queue()
        ranks = [context.Process(target=train, args=(rank, 2, folder + "/store", name, ready), daemon=True) for rank in range(2)]
        try:
            for one in ranks:
                one.start()
            for _ in ranks:
                ready.get(timeout=120)  # from here on nothing but four rounds is left
            for one in ranks:
                one.join(SECONDS)
            codes = [one.exitcode for one in ranks]
        finally:
            for one in ranks:
                one.kill()
    print(f"{name}, 2 ranks: " + (f"no end within {SECONDS} s" if None in codes else f"exit codes {codes}"))
    if {*codes} - {0, None}:
        raise RuntimeError("a rank fails")
    return None in codes


if __name__ == "__main__":
    if hangs("DynamicBipartiteExponentialGraph"):
        raise RuntimeError("the control, a graph with passive nodes, hangs, too")
    sys.exit(hangs("DynamicDirectedExponentialGraph"))
