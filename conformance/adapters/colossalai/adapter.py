#!/usr/bin/env python3
"""ColossalAI 0.5.0's own ParallelContext, shared modules, partitions and gradient scaler behind Plumbline's adapter door.

Its package imports much that is not here (peft, transformers, ...): packages are opened without their __init__, so that the modules
asked are the files of the release, alone.
"""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))
from framework import KINDS, at_most, error_of, no_answer, scaler_trace, serve
import importlib.metadata
import importlib.util
import os
import types
ROOT = importlib.util.find_spec("colossalai").submodule_search_locations[0]


def shell(name):
    m = types.ModuleType(name); m.__path__ = [os.path.join(ROOT, *name.split(".")[1:])]
    sys.modules[name] = m
    return m


for name in ("colossalai", "colossalai.legacy", "colossalai.context", "colossalai.legacy.context", "colossalai.legacy.pipeline", "colossalai.legacy.nn", "colossalai.legacy.nn.layer",
             "colossalai.legacy.nn.layer.wrapper", "colossalai.legacy.nn.layer.utils", "colossalai.amp", "colossalai.amp.naive_amp"):
    shell(name)
sys.modules["colossalai.legacy.nn.layer.utils"].CheckpointModule = object
import torch, torch.distributed as dist
logger = types.ModuleType("colossalai.logging")
warned = []
class Log:
    def warning(self, text, *a, **k): warned.append(text)
    def info(self, *a, **k): pass
logger.get_dist_logger = lambda *a, **k: Log()
logger.DistributedLogger = Log
sys.modules["colossalai.logging"] = logger
random_module = types.ModuleType("colossalai.legacy.context.random")
random_module.add_seed = random_module.get_seeds = random_module.set_mode = None
sys.modules["colossalai.legacy.context.random"] = random_module
from colossalai.legacy.context.parallel_mode import ParallelMode
sys.modules["colossalai.legacy.context"].ParallelMode = ParallelMode
sys.modules["colossalai.context"].Config = importlib.import_module("colossalai.context.config").Config
core = types.ModuleType("colossalai.legacy.core"); sys.modules["colossalai.legacy.core"] = core; core.global_context = None
import colossalai.legacy.context.parallel_context as pc
import colossalai.legacy.context.process_group_initializer
from colossalai.legacy.pipeline import utils as partition
from colossalai.legacy.nn.layer.wrapper import pipeline_wrapper
accelerator = types.ModuleType("colossalai.accelerator")
accelerator.get_accelerator = lambda: types.SimpleNamespace(device_count=lambda: 1, get_current_device=lambda: "cpu")
sys.modules["colossalai.accelerator"] = accelerator
from colossalai.amp.naive_amp.grad_scaler.dynamic_grad_scaler import DynamicGradScaler
from colossalai.amp.naive_amp.grad_scaler.constant_grad_scaler import ConstantGradScaler
from colossalai.context.singleton_meta import SingletonMeta

KINDS[NotImplementedError] = "invalid_argument"


def context_of(rank, world, parallel, calls):
    dist.new_group = lambda ranks, backend=None: (calls.append(list(ranks)), len(calls) - 1)[1]
    dist.get_backend = lambda *a: "gloo"
    getattr(SingletonMeta, "_instances", {}).clear()
    for name in ("TESSERACT_DEP", "TESSERACT_DIM", "SUMMA_DIM", "DEPTH_3D"):  # what its initializers leave behind
        os.environ.pop(name, None)
    for name in vars(pc.env):
        if name.startswith(("summa_dim", "tesseract", "depth_3d")):
            setattr(pc.env, name, None)
    c = pc.ParallelContext()
    c.load_config({"parallel": parallel} if parallel is not None else {})
    c.add_global_rank(ParallelMode.GLOBAL, rank)
    c._add_world_size(ParallelMode.GLOBAL, world)
    c._add_local_rank(ParallelMode.GLOBAL, rank)
    c.init_parallel_groups()
    return c


def parallel_groups(world_size, parallel=None):
    at_most(4096, world_size, "a context is made rank by rank here")
    if world_size < 1:
        no_answer(f"world_size {world_size}: there is no rank to ask")
    ranks, calls0, groups, first = [], None, {}, None
    for rank in range(world_size):
        calls = []
        c = context_of(rank, world_size, parallel, calls)
        first, calls0 = first or c, calls0 if calls0 is not None else calls
        if calls != calls0:
            no_answer("ranks create different groups: there is no list of all ranks' calls")
        row = {"rank": rank}
        for mode, own in c._ranks_in_group.items():
            if own is None:
                continue
            name = mode.name
            groups.setdefault(name, set()).add(tuple(own))
            row[name] = {"local_rank": c.get_local_rank(mode), "world_size": c.get_world_size(mode), "ranks": list(own), "new_group_index": c.get_group(mode),
                         "next": c.get_next_global_rank(mode), "prev": c.get_prev_global_rank(mode)}
        ranks.append(row)
    return {"data_parallel_size": first.data_parallel_size, "pipeline_parallel_size": first.pipeline_parallel_size, "tensor_parallel_size": first.tensor_parallel_size,
            "initialized_modes": [m.name for m in ParallelMode if m.name in groups], "groups": {m: sorted(map(list, g)) for m, g in groups.items()}, "new_group_calls": calls0, "ranks": ranks}


def shared_module(world_size, parallel, pipeline_ranks):
    if world_size < 1:
        no_answer(f"world_size {world_size}: there is no rank to ask")
    ranks, calls0 = [], None
    for rank in range(world_size):
        c = context_of(rank, world_size, parallel, [])
        calls = []
        dist.new_group = lambda r, backend=None: (calls.append(list(r)), len(calls) - 1)[1]
        pipeline_wrapper.gpc = c
        w = pipeline_wrapper.PipelineSharedModuleWrapper(pipeline_ranks)
        sent = []
        pipeline_wrapper.dist = types.SimpleNamespace(broadcast=lambda p, src, group: sent.append(src), new_group=dist.new_group)
        row = {"rank": rank, "ranks_in_group": w.ranks_in_group, "new_group_index": w.group}
        try:
            w.register_module(torch.nn.Linear(1, 1, bias=False))
            row["register_module"] = {"broadcast_src": sent[0]}
        except Exception as error:
            row["register_module"] = {"error": error_of(error)}
        pipeline_wrapper.dist = dist
        ranks.append(row)
        calls0 = calls0 if calls0 is not None else calls
    return {"new_group_calls": calls0, "ranks": ranks}


def told(function, *args):
    warned.clear()
    parts = function(*args)
    return {"parts": [[list(i) for i in p] for p in parts], "warned": bool(warned)}


serve("ColossalAI", importlib.metadata.version("colossalai"), {
    "groups.parallel_groups": parallel_groups, "groups.shared_module": shared_module,
    "schedules.partition_uniform": lambda num_items, pp, chunks: told(partition.partition_uniform, num_items, pp, chunks),
    "schedules.partition_balanced": lambda weights, pp, chunks: told(partition.partition_balanced, list(weights), pp, chunks),
    "scaler.trace": scaler_trace(lambda **init: DynamicGradScaler(verbose=False, **init), lambda **init: ConstantGradScaler(verbose=False, **init),
                                  lambda s: {"growth_tracker": s._growth_step, "hysteresis_tracker": s._hysteresis - s._hysteresis_step}),
}, conventions={"colossalai": importlib.metadata.version("colossalai")}, options={"schedules.partition_uniform": {"form": ["pp"]}, "schedules.partition_balanced": {"form": ["pp"]}})
