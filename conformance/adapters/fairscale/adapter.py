#!/usr/bin/env python3
"""FairScale's own graphs, mixing, gossip and SlowMo behind Plumbline's adapter door.

Real processes over gloo answer gossip.trace and slowmo.trace: a pool of forked workers, a fresh process group a question. FairScale
calls CUDA without asking (Edge: .cuda(); streams; pin_memory); on a machine without a GPU these calls are stood in for, else it does not
run over gloo at all.
"""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))
from framework import AdapterError, asked, at_most, error_of, kind_of, no_answer, serve
import contextlib
import copy
import datetime
import importlib.metadata
import logging
import multiprocessing
import os
import tempfile
import traceback

import torch
import torch.distributed as dist
from fairscale.experimental.nn.data_parallel import gossip
from fairscale.experimental.nn.data_parallel.gossip import graph_manager, mixing_manager

torch.set_num_threads(1)
GRAPHS = {n: getattr(graph_manager, n) for n in ("DynamicDirectedExponentialGraph", "NPeerDynamicDirectedExponentialGraph",
          "DynamicBipartiteExponentialGraph", "DynamicDirectedLinearGraph", "DynamicBipartiteLinearGraph", "RingGraph")}


class Stream:
    def synchronize(self): pass
    def wait_stream(self, other): pass


def without_cuda():
    torch.Tensor.cuda = lambda self, *a, **k: self
    torch.Tensor.pin_memory = lambda self, *a, **k: self
    torch.cuda.synchronize = lambda *a, **k: None
    torch.cuda.current_stream = lambda *a, **k: Stream()
    torch.cuda.Stream = Stream
    torch.cuda.stream = lambda s: contextlib.nullcontext()


# ---- graphs, in this process ----

@contextlib.contextmanager
def stubbed_groups():
    own = (dist.new_group, dist.all_reduce, torch.Tensor.cuda)
    dist.new_group = lambda ranks: tuple(ranks)
    dist.all_reduce = lambda *a, **k: None
    torch.Tensor.cuda = lambda self: self
    try:
        yield
    finally:
        dist.new_group, dist.all_reduce, torch.Tensor.cuda = own


def class_of(name):
    if name not in GRAPHS:
        no_answer(f"FairScale has no graph {name}")
    return GRAPHS[name]


def graph(world_size, graph=None, nprocs_per_node=1, peers_per_itr=1, rotations=0, plan=None, book_rows=None, rows=None, center=None, seed=None):
    cls = class_of(graph)
    at_most(4096, world_size, "the edges are objects of Python")
    with stubbed_groups():
        make = lambda r: cls(r, world_size, nprocs_per_node=nprocs_per_node, peers_per_itr=peers_per_itr)
        if book_rows is not None:
            g = make(0)
            return {"book_rows": {str(r): [e.dest for e in g.phone_book[r]] for r in book_rows},
                    "regular": g.is_regular_graph(), "bipartite": g.is_bipartite_graph(), "dynamic": g.is_dynamic_graph()}
        if plan is not None:
            ranks = []
            for r in range(world_size):
                g, steps = make(r), []
                def look(rotate=False):
                    out, into = g.get_peers(rotate)
                    steps.append({"out": out, "in": into})
                look()
                for step in plan:
                    if step[0] == "rotate":
                        look(True)
                    else:
                        g.peers_per_itr = step[1]
                        look()
                ranks.append(steps)
            return {"ranks": ranks}
        g = make(0)
        result = {"regular": g.is_regular_graph(), "bipartite": g.is_bipartite_graph(), "dynamic": g.is_dynamic_graph(),
                  "passive": [g.is_passive(r) for r in range(world_size)], "phone_book": [[e.dest for e in row] for row in g.phone_book], "ranks": []}
        for r in range(world_size):
            g = make(r)
            row = {"out": [], "in": []}
            mixing = mixing_manager.UniformMixing(g, None)
            for t in range(rotations + 1):
                try:
                    out, into = g.get_peers(rotate=t > 0)
                    if t == 0:
                        named = lambda w: {str(k): v.item() for k, v in w.items()}
                        row["mixing"] = {"plain": named(mixing.get_mixing_weights(False)), "adjusted": named(mixing.get_mixing_weights(True)),
                                         "regular": mixing.is_regular(), "uniform": mixing.is_uniform()}
                        if world_size <= 16:
                            oe, ie = g.get_edges(False)
                            row["out_edges"], row["in_edges"] = [[e.src, e.dest] for e in oe], [[e.src, e.dest] for e in ie]
                except IndexError as error:
                    row["error_at"], row["error"] = t, error_of(error)
                    break
                row["out"].append(out); row["in"].append(into)
            result["ranks"].append(row)
        return result


# ---- a pool of ranks ----

def worker(rank, connection):
    without_cuda()
    logging.disable(logging.CRITICAL)
    while True:
        try:
            task, world, file, payload = connection.recv()
        except EOFError:
            os._exit(0)
        try:
            dist.init_process_group("gloo", init_method="file://" + file, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=50))
            try:
                answer = ("ok", TASKS[task](rank, world, payload))
            finally:
                dist.destroy_process_group()
        except BaseException as error:
            answer = (kind_of(error), (f"{type(error).__name__}: {error}", traceback.format_exc()))
        connection.send(answer)


pool = []


def on_ranks(task, world, payload):
    at_most(16, world, "a process a rank")
    while len(pool) < world:
        here, there = multiprocessing.get_context("fork").Pipe()
        p = multiprocessing.get_context("fork").Process(target=worker, args=(len(pool), there), daemon=True)
        p.start()
        pool.append((p, here))
    with tempfile.TemporaryDirectory() as folder:
        for p, c in pool[:world]:
            c.send((task, world, folder + "/store", payload))
        answers = []
        for p, c in pool[:world]:
            if not c.poll(20):
                [q.kill() for q, _ in pool]; pool.clear()
                no_answer("a rank gave no answer in 20 s")
            answers.append(c.recv())
    wrong = [answer for answer in answers if answer[0] != "ok"]
    for kind, (words, trace) in sorted(wrong, key=lambda answer: answer[0] != "unsupported"):  # what others meet when one of them ends is no cause
        sys.stderr.write(trace)
        raise AdapterError(kind, words)
    return [a for _, a in answers]


class Flat(torch.nn.Module):
    """A module whose gradients are what they are told to be: the forward is sum(p * g)."""
    def __init__(self, parts, kind, buffer=None):
        super().__init__()
        for i, (part, t) in enumerate(zip(parts, kind)):
            self.register_parameter(f"p{i}", torch.nn.Parameter(torch.tensor(part, dtype=torch.float64).to(t)))
        if buffer is not None:
            self.register_buffer("b", torch.tensor(buffer, dtype=torch.float32))
        self.seen = self.seen_buffer = None
    def forward(self, x, grads, unused=()):
        self.seen = flat(self.parameters())
        if hasattr(self, "b"):
            self.seen_buffer = self.b.tolist()
        total = x.sum() * 0
        for i, (p, g) in enumerate(zip(self.parameters(), grads)):
            if i not in unused:
                total = total + (p * g).to(torch.float64).sum()
        return total


def flat(tensors):
    out = []
    for t in tensors:
        out += t.detach().to(torch.float64).reshape(-1).tolist()
    return out


def booked(book, regular):
    class Booked(graph_manager.GraphManager):
        def _make_graph(self):
            for rank in range(self.world_size):
                self.phone_book[rank] = [graph_manager.Edge(local_master_rank=self.rank * self.nprocs_per_node, dest=d, src=rank * self.nprocs_per_node, local_rank=self.local_rank) for d in book[rank]]
        def is_regular_graph(self): return regular
        def is_bipartite_graph(self): return False
        def is_passive(self, rank=None): return False
        def is_dynamic_graph(self): return True
    return Booked


def told_weights(weights, g):
    class Told(mixing_manager.MixingManager):
        round = 0
        def is_uniform(self): return False
        def get_mixing_weights(self, residual_adjusted=True):
            row = weights[min(self.round, len(weights) - 1)]
            if residual_adjusted:
                self.round += 1
            return {(k if k in ("lo", "uniform") else int(k)): torch.tensor([v], dtype=torch.float32) for k, v in row.items()}
    return Told(g, None)


def gossip_task(rank, world, q):
    kind = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16}[q.get("dtype", "float32")]
    module = Flat([q["ranks"][rank]["x0"]], [kind])
    cls = booked(q["phone_book"], q.get("regular", False)) if "phone_book" in q else class_of(q["graph"])
    g = cls(rank, world, 1, 0, q.get("peers_per_itr", 1))
    mixing = told_weights(q["weights"][rank], g) if "weights" in q else mixing_manager.UniformMixing(g, None)
    w = gossip.SlowMoDistributedDataParallel(module, nprocs_per_node=1, slowmo_base_algorithm=gossip.SlowMoBaseAlgorithm.SGP, slowmo_momentum=0, slowmo_lr=1.0,
                                             graph=g, mixing=mixing, push_sum=q["algorithm"] == "PushSum")
    gossiper = next(iter(w.dist_config["gossipers"].values()))
    rounds = []
    for _ in range(q["rounds"]):
        out, into = [e.dest for e in gossiper.out_edges], [e.src for e in gossiper.in_edges]
        w._sgp_transfer_params()
        w._sgp_query_gossip_queue()
        x = next(module.parameters()).detach()
        rounds.append({"out": out, "in": into, "x": flat([x]), "w": w.ps_weight.item(), "debiased": flat([x / w.ps_weight.to(x.dtype)])})
    return {"rounds": rounds}


@contextlib.contextmanager
def environment(**given):
    """These variables have these values meanwhile, but for those that are None."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update({name: value for name, value in given.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def slowmo_task(rank, world, q):
    own = q["ranks"][rank]
    numbers = own["init_params"]
    dims, half = q.get("dims"), q.get("fp16")
    if dims:
        i, h, o = dims
        sizes = [i * h, h, h * o, o]
    else:
        sizes = [len(numbers)]
    def cut(values):
        parts, at = [], 0
        for s in sizes:
            parts.append(values[at:at + s]); at += s
        return parts
    first = torch.float16 if half else torch.float32
    kinds = [torch.float64 if q.get("double_tail") and n >= 2 else first for n in range(len(sizes))]
    buffers = [s[rank].get("buffer_before") for s in q["steps"]]
    module = Flat(cut(numbers), kinds, buffers[0])
    nodes = world // q.get("nprocs_per_node", 1)

    def wrap():
        extra = {}
        base = {"localsgd": gossip.SlowMoBaseAlgorithm.LOCALSGD, "sgp": gossip.SlowMoBaseAlgorithm.SGP}[q["base"]]
        if q["base"] == "sgp" and nodes > 1:  # of one node the wrapper makes no graph, and turns the gossip off
            node, local = rank // q.get("nprocs_per_node", 1), rank % q.get("nprocs_per_node", 1)
            cls = booked(q["phone_book"], q.get("regular", False)) if "phone_book" in q else (class_of(q["graph"]) if q.get("graph") else graph_manager.NPeerDynamicDirectedExponentialGraph)
            if q.get("mixing", "uniform") != "uniform":
                no_answer("FairScale has uniform mixing only")
            g = cls(node, nodes, q.get("nprocs_per_node", 1), local, q.get("peers_per_itr", 1))
            extra = dict(graph=g, mixing=mixing_manager.UniformMixing(g, None), push_sum=q.get("push_sum", True), slowmo_sgp_average_params=q.get("sgp_average_params", False))
        return gossip.SlowMoDistributedDataParallel(module, nprocs_per_node=q.get("nprocs_per_node", 1), broadcast_buffers=q.get("broadcast_buffers", True), slowmo_base_algorithm=base,
            slowmo_momentum=q.get("slowmo_momentum", 0.5), slowmo_memory_efficient=q.get("memory_efficient", True), slowmo_frequency=q.get("slowmo_frequency", 48),
            slowmo_lr=q.get("slowmo_lr", 1.0), slowmo_num_shards=q.get("num_shards", 32), localsgd_frequency=q.get("localsgd_frequency", 3), **extra)
    with environment(NCCL_BLOCKING_WAIT=q.get("blocking_wait")):
        wrapper = wrap()
    masters = None
    if half:
        whole = torch.cat([p.detach().float().reshape(-1) for p in module.parameters()])
        masters = whole if half == "flat" else [p.detach().float().reshape(-1).clone() for p in module.parameters()]
        trained = [whole] if half == "flat" else masters
        trained = [torch.nn.Parameter(t) for t in trained]
        masters = trained[0].data if half == "flat" else [t.data for t in trained]
    else:
        trained = list(module.parameters())
    o = dict(q.get("optimizer") or {})
    cls = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[o.pop("name", "sgd")]
    groups = trained
    if "groups" in q:
        split = q["groups"]["split"]
        groups = [{"params": trained[split:], "lr": q["groups"]["lrs"][0]}, {"params": trained[:split], "lr": q["groups"]["lrs"][1]}]
    optimizer = asked(cls, groups, **o)
    if q.get("init_first"):
        wrapper._init_global_momentum_buffers(optimizer)
    rows = []
    for t, step in enumerate(q["steps"]):
        if q.get("resume_at") == t:
            state, own_state = wrapper.state_dict(), optimizer.state_dict()
            state, own_state = copy.deepcopy(state), copy.deepcopy(own_state)
            wrapper = wrap()
            wrapper.load_state_dict(state)
            optimizer.load_state_dict(own_state)
        row = {}
        asking = step[rank]
        if "lrs" in q:
            for group in optimizer.param_groups:
                group["lr"] = q["lrs"][t]
        if asking.get("buffer_before") is not None:
            module.b.copy_(torch.tensor(asking["buffer_before"]))
        given = asking.get("grads_local", asking.get("grads"))
        grads = [torch.tensor(g, dtype=torch.float64).to(k) for g, k in zip(cut(given), kinds)]
        module.zero_grad(set_to_none=True)
        loss = wrapper(torch.ones(1, dtype=torch.float64, requires_grad=True), grads, asking.get("unused") or ())
        row["params_in_forward"] = module.seen
        if hasattr(module, "b"):
            row["buffer_after_forward"] = module.seen_buffer
        loss.backward()
        if half:
            got = [p.grad.float().reshape(-1) for p in module.parameters()]
            for p, g in zip(trained, [torch.cat(got)] if half == "flat" else got):
                p.grad = g.clone()
        optimizer.step()
        if half:
            for p, m in zip(module.parameters(), torch.split(masters, sizes) if half == "flat" else masters):
                p.data.copy_(m.view_as(p))
        row["params_after_optimizer"] = flat(module.parameters())
        try:
            wrapper.perform_slowmo(optimizer, masters if half else None)
        except Exception as error:
            rows.append({"error": error_of(error)})
            break
        row["params"] = flat(module.parameters())
        if half:
            row["fp32"] = flat([masters] if half == "flat" else masters)
        if q["base"] == "sgp" and wrapper.sgp:
            row["ps_weight"], row["is_numerator"] = wrapper.ps_weight.item(), wrapper.is_sgp_ps_numerator
        if wrapper.global_momentum_buffers_initialized and wrapper.slowmo and wrapper.is_current_node_a_slowmo_shard:
            n = max(wrapper.portion_end - wrapper.portion_start, 0)
            row["slow"] = {"start": wrapper.portion_start, "end": wrapper.portion_end, "old_params": flat([wrapper.old_params[:n]]), "momentum": flat([wrapper.global_momentum_buffer[:n]])}
        rows.append(row)
    return rows


TASKS = {"gossip": gossip_task, "slowmo": slowmo_task}


def gossip_trace(**q):
    if q.get("mixing", "uniform") != "uniform" and "weights" not in q:
        no_answer("FairScale has uniform mixing only")
    if len(q["ranks"]) != q["world_size"]:
        no_answer(f"there are starts of {len(q['ranks'])} ranks for a world of {q['world_size']}")
    q.setdefault("rounds", 1)
    return {"ranks": on_ranks("gossip", q["world_size"], q)}


def slowmo_trace(**q):
    if q.get("base", "localsgd") == "none":
        no_answer("FairScale's wrapper has a base algorithm")
    q.setdefault("base", "localsgd")
    ranks = on_ranks("slowmo", q["world_size"], q)
    count = max(len(r) for r in ranks)
    return {"steps": [[r[t] for r in ranks if t < len(r)] for t in range(count)]}


OPTIONS = {
    "gossip.graph": {"graph": sorted(GRAPHS)},
    "gossip.trace": {"graph": sorted(GRAPHS), "mixing": ["uniform"], "dtype": ["float16", "float32", "float64"]},
    "slowmo.trace": {"graph": sorted(GRAPHS), "mixing": ["uniform"], "base": ["localsgd", "sgp"], "arithmetic": [],
                     "fields": ["steps.unused", "blocking_wait"]},
}
serve("FairScale", importlib.metadata.version("fairscale"), {"gossip.graph": graph, "gossip.trace": gossip_trace, "slowmo.trace": slowmo_trace},
      conventions={"fairscale": importlib.metadata.version("fairscale")}, options=OPTIONS)
