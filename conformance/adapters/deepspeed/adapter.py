#!/usr/bin/env python3
"""DeepSpeed's own topology, grid, partition, instruction schedules and loss scalers behind Plumbline's adapter door."""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))
from framework import AdapterError, asked, at_most, error_of, no_answer, number, serve
import deepspeed.runtime.pipe.topology as topology
import deepspeed.runtime.pipe.schedule as schedules
import deepspeed.runtime.utils as ds_utils
from deepspeed.runtime.pipe.module import PipelineModule
from deepspeed.utils.groups import _get_expert_parallel_ranks as expert_ranks
from deepspeed.runtime.fp16 import loss_scaler, fused_optimizer, unfused_optimizer
import functools
import math
import types

import torch
from importlib.metadata import version

LARGEST = 1 << 21  # DeepSpeed keeps every coordinate in a dictionary; more would take gigabytes


def made(axes, dims):
    at_most(LARGEST, math.prod(max(size, 0) for size in dims), "DeepSpeed lists every rank")
    return topology.ProcessTopology(axes=axes, dims=dims)


def process_topology(axes, dims, filter_match=(), rank_repr=()):
    t = made(axes, dims)
    names = t.get_axis_names()
    by_rank = {rank: coord for coord, rank in t.mapping.items()}
    coords = [by_rank[r] for r in range(t.world_size())]
    wanted = [*names, "absent"]
    def represent(q):
        given = {k: q[k] for k in ("omit_axes", "inner_sep", "outer_sep") if q.get(k) is not None}
        return {**q, "repr": t.get_rank_repr(q["rank"], **given)}
    return {"world_size": t.world_size(), "coords": [list(c) for c in coords],
            "rank_of_coord": [t.get_rank(**c._asdict()) for c in coords],
            "get_dim": {a: t.get_dim(a) for a in wanted},
            "axis_comm_lists": {a: t.get_axis_comm_lists(a) for a in wanted},
            "axis_list": {a: [t.get_axis_list(a, i) for i in range(t.get_dim(a) + 1)] for a in names},
            "filter_match": [{**q, "ranks": asked(t.filter_match, **q["filter"])} for q in filter_match],
            "rank_repr": [represent(q) for q in rank_repr]}


class FakeDist(types.SimpleNamespace):
    """What topology.py calls of deepspeed.comm: the rank and size that are asked about, and a record of new groups."""


def grid_of(rank, world_size, axes, dims):
    calls = []
    def new_group(ranks):
        calls.append(list(ranks))
        return len(calls) - 1
    topology.dist = FakeDist(get_rank=lambda: rank, get_world_size=lambda: world_size, new_group=new_group)
    t = made(axes, dims) if axes is not None else None
    return topology.PipelineParallelGrid(topology=t), calls


def query(axes, dims, call, kwargs=None):
    kwargs = dict(kwargs or {})
    if call == "stage_to_global":
        rank = kwargs.pop("rank")
        grid, _ = grid_of(rank, math.prod(dims), axes, dims)
        return {"result": asked(grid.stage_to_global, **kwargs)}
    t = made(axes, dims)
    if call == "__str__":
        return {"result": str(t)}
    result = asked(getattr(t, call), **kwargs)
    return {"result": list(result) if isinstance(result, tuple) else result}


GETTERS = ["get_stage_id", "get_data_parallel_id", "get_global_rank", "get_pipe_parallel_rank", "get_pipe_parallel_world_size",
           "get_data_parallel_rank", "get_data_parallel_world_size", "get_model_parallel_rank", "get_model_parallel_world_size",
           "get_slice_parallel_rank", "get_slice_parallel_world_size", "get_pipeline_model_parallel_rank",
           "get_pipeline_model_parallel_world_size", "get_tensor_model_parallel_rank", "get_tensor_model_parallel_world_size",
           "get_data_parallel_group_ranks"]
HANDLES = ["get_pipe_parallel_group", "get_data_parallel_group", "get_model_parallel_group", "get_slice_parallel_group"]


def grid(world_size, axes=None, dims=None):
    rows, first, all_calls = [], None, None
    for rank in range(world_size):
        g, calls = grid_of(rank, world_size, axes, dims)
        if first is None:
            first, all_calls = g, calls
        if calls != all_calls:
            no_answer("ranks create different groups: there is no list of all ranks' calls")
        row = {"rank": rank, **{n: getattr(g, n)() for n in GETTERS}}
        row |= {n: getattr(g, n) for n in ("is_first_stage", "is_last_stage", "dp_group", "pp_group", "slice_group")}
        row["stage_to_global"] = [g.stage_to_global(s) for s in range(g.pipe_parallel_size)]
        row["group_handles"] = {n: getattr(g, n)() for n in HANDLES}
        corners, last = [], {}
        for axis in g.topology().get_axis_names():
            if axis == "pipe":
                continue
            size = g.topology().get_dim(axis)
            corners.append((0, {axis: 0}))
            if size > 1:
                corners.append((0, {axis: size - 1}))
            last[axis] = size - 1
        corners.append((g.pipe_parallel_size - 1, last))
        row["stage_to_global_overrides"] = [{"stage_id": s, "override": o, "rank": g.stage_to_global(s, **o)} for s, o in corners]
        rows.append(row)
    if first is None:
        no_answer(f"world_size {world_size}: there is no rank to ask")
    return {"pipe_parallel_size": first.pipe_parallel_size, "data_parallel_size": first.data_parallel_size,
            "model_parallel_size": first.model_parallel_size, "slice_parallel_size": first.slice_parallel_size,
            "p2p_groups": first.p2p_groups, "new_group_calls": all_calls, "ranks": rows}


def expert_groups(world_size, expert, tensor=1, pipeline=1, use_data_before_expert_parallel=False):
    at_most(LARGEST, world_size, "DeepSpeed lists every rank")
    lists = asked(expert_ranks, world_size, tensor, expert, pipeline, use_data_before_expert_parallel)
    return dict(zip(("expert_parallel", "expert_data_parallel"), (sorted(map(list, groups)) for groups in lists)))


def partition_uniform(num_items, num_parts):
    return {"boundaries": [int(b) for b in ds_utils.partition_uniform(num_items, num_parts)]}


def partition_balanced(weights, num_parts):
    return {"boundaries": [int(b) for b in ds_utils.partition_balanced([number(one) for one in weights], num_parts)]}


def partition_method(method, layers, num_parts):
    """PipelineModule's own _partition_layers, over layers that only have a name and so many parameters."""
    def layer(one):
        if one["type"] is None:
            return functools.partial(print)  # a function without a name
        cls = type(one["type"], (torch.nn.Module,), {})
        module = cls()
        if one["parameters"]:
            module.register_parameter("w", torch.nn.Parameter(torch.empty(one["parameters"], device="meta")))
        return module
    class Bare(PipelineModule):
        def __init__(self):
            torch.nn.Module.__init__(self)
    m = Bare()
    m._layer_specs = [layer(one) for one in layers]
    m.num_stages, m.global_rank, m.loss_fn = num_parts, 0, None
    m._topo = made(["pipe"], [num_parts])
    m._set_bounds = lambda start, stop: None
    try:
        m._partition_layers(method=method)
    except NotImplementedError as error:  # an unknown method is the asker's fault here
        raise AdapterError("invalid_argument", str(error)) from error
    return {"boundaries": [int(b) for b in m.parts]}


def instruction_stream(pp, microbatches, schedule="TrainSchedule"):
    cls = getattr(schedules, schedule, None)
    if not isinstance(cls, type) or not issubclass(cls, schedules.PipeSchedule):
        no_answer(f"DeepSpeed has no schedule {schedule}")
    stages = []
    for stage in range(pp):
        s = cls(micro_batches=microbatches, stages=pp, stage_id=stage)
        stages.append({"stage": stage, "num_pipe_buffers": s.num_pipe_buffers(), "is_first_stage": s.is_first_stage,
                       "is_last_stage": s.is_last_stage, "steps": [[repr(c) for c in step] for step in s.steps()]})
    return {"stages": stages}


loss_scaler.dist = FakeDist(get_rank=lambda: 1)


def scaler_trace(init, overflow, scaler="DynamicLossScaler"):
    if scaler == "DynamicLossScaler":
        s = asked(loss_scaler.DynamicLossScaler, **{name: number(value) for name, value in init.items()})
        def state():
            return {"scale": s.cur_scale, "cur_iter": s.cur_iter, "last_overflow_iter": s.last_overflow_iter, "cur_hysteresis": s.cur_hysteresis}
        trace = [state()]
        for one in overflow:
            try:
                s.update_scale(one)
                trace.append(state())
            except Exception as error:
                trace.append({**state(), "error": error_of(error)})
                break
        return {"trace": trace}
    if scaler != "FP16_Optimizer._update_scale":
        no_answer(f"DeepSpeed has no scaler {scaler}")
    profile = loss_scaler.LossScaleProfile[init["profile"]]
    args = init.get("args")
    static = init.get("static")
    config = loss_scaler.LossScaleConfig(torch.float16, static is None, static, args, profile=profile)
    cls = fused_optimizer.FP16_Optimizer if init["profile"] == "FUSED" else unfused_optimizer.FP16_UnfusedOptimizer
    o = object.__new__(cls)
    o.loss_scale_config, o.verbose, o.clip_grad = config, False, 0.0
    def state():
        return {"scale": config.cur_scale, "cur_iter": config.cur_iter, "last_overflow_iter": config.last_overflow_iter}
    trace = [state()]
    for one in overflow:
        before = config.cur_scale
        o._update_scale(one)
        trace.append(state())
        if not one:
            trace[-1]["gradient_one_unscaled"] = before / config.cur_scale
    return {"trace": trace}


def overflow(tensor, pipeline, data, ranks, dtype="float32", over="model"):
    """CheckOverflow's own search, and its own choice of a group; only the maximum over that group is made here."""
    kind, model, world = getattr(torch, dtype), tensor * pipeline, tensor * pipeline * data
    def parameter(values):
        gradient = values if values is None else torch.tensor([number(v) for v in values], dtype=torch.float64).to(kind)
        return types.SimpleNamespace(grad=gradient)
    parameters = [[parameter(values) for values in rank["grads"]] for rank in ranks]
    found = [bool(ds_utils.CheckOverflow().has_overflow_serial(one)) for one in parameters]
    def reported(rank):
        first = rank // model * model
        mpu = types.SimpleNamespace(get_model_parallel_group=lambda: range(first, first + model)) if over == "model" else None
        def all_reduce(flag, op, group):
            flag.fill_(max(found[member] for member in group))
        ds_utils.dist = FakeDist(all_reduce=all_reduce, ReduceOp=torch.distributed.ReduceOp, get_world_group=lambda: range(world))
        return ds_utils.CheckOverflow(mpu=mpu, zero_reduce_scatter=over == "world").has_overflow(parameters[rank])
    if over not in ("none", "model", "world"):
        no_answer(f"CheckOverflow agrees over a model group, the world or none, not {over}")
    return {"local": [r for r, one in enumerate(found) if one], "overflow": [r for r in range(world) if reported(r)]}


serve("DeepSpeed", version("deepspeed"), {
    "topology.process_topology": process_topology, "topology.query": query,
    "topology.prime_factors": lambda n: {"factors": topology._prime_factors(n)},
    "topology.grid": grid, "groups.expert_groups": expert_groups, "schedules.partition_uniform": partition_uniform, "schedules.partition_balanced": partition_balanced,
    "schedules.partition_method": partition_method, "schedules.instruction_stream": instruction_stream, "scaler.trace": scaler_trace,
    "scaler.overflow": overflow,
}, conventions={"deepspeed": version("deepspeed")}, options={"schedules.partition_uniform": {"form": ["num_parts"]}, "schedules.partition_balanced": {"form": ["num_parts"]}})
