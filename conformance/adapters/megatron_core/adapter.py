#!/usr/bin/env python3
"""Megatron-core's own rank generator, groups, grids, schedules, layer layouts, buckets and loss scalers behind Plumbline's adapter door."""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))
from framework import asked, at_most, no_answer, scaler_trace, serve
import contextlib
import itertools
import math
import os
import types

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from megatron.core import parallel_state as ps
from megatron.core.hyper_comm_grid import HyperCommGrid
from megatron.core.optimizer import grad_scaler
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
from megatron.core.distributed import param_and_grad_buffer, DistributedDataParallelConfig
from megatron.core.pipeline_parallel import schedules, p2p_communication
from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
from megatron.core.transformer.enums import LayerType
from megatron.core.transformer import transformer_block, transformer_layer
from megatron.core.model_parallel_config import ModelParallelConfig
from importlib.metadata import version

class OnCpu:
    """The module torch, without the device 'cuda'."""
    def __init__(self, real):
        self._real = real
        self.cuda = types.SimpleNamespace(current_device=lambda: "cpu", synchronize=lambda: None, is_available=lambda: False)
    def __getattr__(self, name):
        value = getattr(self._real, name)
        if name in ("zeros", "empty", "tensor", "ones", "full"):
            def call(*a, device=None, **k):
                return value(*a, **k)
            return call
        return value


for module in (grad_scaler, schedules, p2p_communication):
    module.torch = OnCpu(torch)


# ---- groups ----

def rank_generator(sizes, order, rank_offset=0, tokens=None):
    names = {"tp": 1, "ep": 1, "dp": 1, "pp": 1, "cp": 1, **sizes}
    at_most(1 << 20, math.prod(size for size in names.values() if type(size) is int), "the groups are lists of Python")
    g = asked(ps.RankGenerator, **names, order=order, rank_offset=rank_offset)
    wanted = tokens if tokens is not None else g.order.split("-")
    return {"normalized_order": g.order, "ordered_size": g.ordered_size, "world_size": g.world_size, "groups": {t: g.get_ranks(t) for t in wanted}}


def hyper_comm_grid(shape, dim_names, world_size=None, rank_offset=0, dims=None, views=None):
    os.environ["WORLD_SIZE"] = str(world_size if world_size is not None else math.prod(shape) + rank_offset)
    try:
        grid = HyperCommGrid(shape, dim_names, rank_offset)
    finally:
        del os.environ["WORLD_SIZE"]
    def names_or(names, given):
        if given is not None:
            return given
        return [*names, *("-".join(p) for p in itertools.combinations(names, 2))]
    def groups(wanted, view=None):
        return {d: grid.get_rank_enum(d.split("-") if "-" in d else d, view=view) for d in wanted}
    result = {"groups": groups(names_or(dim_names, dims)), "views": {}}
    for name, v in (views or {}).items():
        grid.register_view(name, v["shape"], v["dim_names"], v.get("shared"))
        spec = grid._resolve_view(name)
        wanted = names_or(v["dim_names"], v.get("dims"))
        owners = {}
        for d in wanted:
            ordered, _ = grid._order_dims_for_view(spec, d.split("-") if "-" in d else d)
            key, owner, _ = grid._canonical_pg_key_and_enum_view(spec, ordered)
            owners[d] = "base" if grid._is_base_pg_key(key) else owner.name
        result["views"][name] = {"groups": groups(wanted, name), "owners": owners}
    return result


GETTERS = ["get_tensor_model_parallel_rank", "get_tensor_model_parallel_world_size", "get_pipeline_model_parallel_rank",
           "get_pipeline_model_parallel_world_size", "get_data_parallel_rank", "get_data_parallel_world_size", "get_context_parallel_rank",
           "get_context_parallel_world_size", "get_expert_model_parallel_rank", "get_expert_model_parallel_world_size",
           "get_expert_tensor_parallel_rank", "get_expert_tensor_parallel_world_size", "get_tensor_model_parallel_src_rank", "get_model_parallel_src_rank", "get_data_parallel_src_rank",
           "get_pipeline_model_parallel_first_rank", "get_pipeline_model_parallel_last_rank", "get_pipeline_model_parallel_next_rank",
           "get_pipeline_model_parallel_prev_rank", "is_pipeline_first_stage", "is_pipeline_last_stage", "is_rank_in_embedding_group",
           "is_rank_in_position_embedding_group"]


@contextlib.contextmanager
def initialized(rank, world_size, args):
    """The groups of one rank over PyTorch's fake backend; gives the list of creations, with what each is described as."""
    log, own = [], dist.new_group
    def new_group(ranks=None, *a, group_desc=None, **k):
        log.append([group_desc, list(ranks)])
        return own(ranks, *a, group_desc=group_desc, **k)
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    dist.new_group = torch.distributed.new_group = new_group
    try:
        asked(ps.initialize_model_parallel, **args, create_gloo_process_groups=False)
        yield log
    finally:
        dist.new_group = torch.distributed.new_group = own
        ps.destroy_model_parallel()
        dist.destroy_process_group()


def initialize_model_parallel(world_size, args=None):
    at_most(256, world_size, "the groups are made rank by rank here")
    rows, calls = [], None
    for rank in range(world_size):
        with initialized(rank, world_size, args or {}) as log:
            row = {"rank": rank}
            for g in GETTERS:
                try:
                    row[g] = getattr(ps, g)()
                except Exception:
                    pass
            rows.append(row)
        if calls is None:
            calls = log
        if calls != log:
            no_answer("ranks create different groups: there is no list of all ranks' calls")
    if calls is None:
        no_answer(f"world_size {world_size}: there is no rank to ask")
    return {"new_group_calls": calls, "ranks": rows}


def expert_groups(world_size, expert, tensor=1, pipeline=1):
    at_most(256, world_size, "each group is an object of PyTorch")
    sizes = dict(tensor_model_parallel_size=tensor, pipeline_model_parallel_size=pipeline, expert_model_parallel_size=expert)
    with initialized(0, world_size, sizes) as log:
        created = lambda name: sorted(ranks for description, ranks in log if description == name)
        return {"expert_parallel": created("EXPERT_MODEL_PARALLEL_GROUP"), "expert_data_parallel": created("EXPERT_DATA_PARALLEL_GROUP")}


# ---- schedules ----

class Group:
    def __init__(self, rank, size):
        self._rank, self._size = rank, size
    def rank(self): return self._rank
    def size(self): return self._size


class Chunk(torch.nn.Module):
    def __init__(self, index, config):
        super().__init__()
        self.index, self.config = index, config
        self.model_type = None


class Done:
    def wait(self): pass


def trace(schedule, pp, microbatches, stages_per_rank=1, microbatch_group_size=None, forward_only=False):
    if schedule not in ("1F1B", "interleaved"):
        no_answer(f"Megatron has no schedule {schedule}")
    if pp < 1:
        no_answer(f"pp {pp}: there is no rank to ask")
    return {"trace": [one_rank(schedule, pp, microbatches, stages_per_rank, microbatch_group_size, forward_only, r) for r in range(pp)]}


def one_rank(schedule, pp, microbatches, chunks, group_size, forward_only, rank):
    log, labels = [], {}
    interleaved = schedule == "interleaved"
    config = ModelParallelConfig(pipeline_model_parallel_size=pp, pipeline_dtype=torch.float32, batch_p2p_comm=True, batch_p2p_sync=False, overlap_p2p_comm=False,
                                 virtual_pipeline_model_parallel_size=chunks if interleaved else None, microbatch_group_size_per_vp_stage=group_size if interleaved else None)
    config.hidden_size, config.deallocate_pipeline_outputs = 1, False
    keep = []
    def labelled(label):
        t = torch.zeros(1, 1, 1)
        keep.append(t); labels[id(t)] = label
        return t
    def forward_step(func, data, model, num, input_tensor, store, config, *a, current_microbatch=None, **k):
        stage = model.index * pp + rank
        log.append(f"{stage}F{current_microbatch}")
        out = labelled(("act", stage, current_microbatch))
        return [out] if isinstance(input_tensor, list) else out, torch.tensor(0, dtype=torch.int)
    def backward_step(input_tensor, output_tensor, output_tensor_grad, config):
        output_tensor = output_tensor[0] if isinstance(output_tensor, list) else output_tensor
        _, stage, mb = labels[id(output_tensor)]
        log.append(f"{stage}B{mb}")
        out = labelled(("grad", stage, mb))
        return [out] if isinstance(input_tensor, list) else out
    class P2POp:
        def __init__(self, op, tensor, peer, group=None):
            self.op, self.tensor, self.peer = op, tensor, peer
    pending = {}
    def batched(*, tensor_send_prev, tensor_recv_prev, tensor_send_next, tensor_recv_next, group, prev_pipeline_rank, next_pipeline_rank):
        pending.update({id(t): name for t, name in ((tensor_recv_prev, "act"), (tensor_recv_next, "grad")) if t is not None})
        return own_batched(tensor_send_prev=tensor_send_prev, tensor_recv_prev=tensor_recv_prev, tensor_send_next=tensor_send_next, tensor_recv_next=tensor_recv_next,
                           group=group, prev_pipeline_rank=prev_pipeline_rank, next_pipeline_rank=next_pipeline_rank)
    def batch_isend_irecv(ops):
        words = []
        for op in ops:
            keep.append(op.tensor)
            if op.op is dist.isend:
                kind, stage, mb = labels[id(op.tensor)]
                words.append(f"SEND {kind}{stage}.{mb}>{op.peer}")
            else:
                words.append(f"RECV {pending[id(op.tensor)]}<{op.peer}")
        log.append("P2P(" + ";".join(words) + ")")
        return [Done()]
    own_batched = p2p_communication._batched_p2p_ops
    saved = (schedules.forward_step, schedules.backward_step, dist.P2POp, dist.batch_isend_irecv, dist.get_global_rank)
    schedules.forward_step, schedules.backward_step = forward_step, backward_step
    dist.P2POp, dist.batch_isend_irecv, dist.get_global_rank = P2POp, batch_isend_irecv, lambda group, r: r
    p2p_communication._batched_p2p_ops = batched
    own_initialized, dist.is_initialized = dist.is_initialized, lambda: True
    try:
        group = Group(rank, pp)
        communicator = p2p_communication.P2PCommunicator(pp_group=group, config=config)
        from megatron.core.process_groups_config import ProcessGroupCollection
        collection = ProcessGroupCollection()
        collection.tp = collection.cp = Group(0, 1)
        collection.pp = group
        common = dict(forward_step_func=None, num_microbatches=microbatches, seq_length=1, micro_batch_size=1, forward_only=forward_only,
                      p2p_communicator=communicator, pg_collection=collection)
        if interleaved:
            schedules.forward_backward_pipelining_with_interleaving(model=[Chunk(i, config) for i in range(chunks)], data_iterator=[None] * chunks, **common)
        else:
            schedules.forward_backward_pipelining_without_interleaving(model=[Chunk(i, config) for i in range(chunks)], data_iterator=[None] * chunks, **common)
    finally:
        schedules.forward_step, schedules.backward_step, dist.P2POp, dist.batch_isend_irecv, dist.get_global_rank = saved
        p2p_communication._batched_p2p_ops = own_batched
        dist.is_initialized = own_initialized
    return ",".join(log)


def table(microbatches, stages_per_rank, microbatch_group_size):
    at_most(1 << 20, microbatches * stages_per_rank, "the table is a list of Python")
    return {"table": [list(pair) for pair in asked(schedules.get_schedule_table, microbatches, stages_per_rank, microbatch_group_size)]}


def warmup(pp, microbatches, stages_per_rank=1, microbatch_group_size=None, forward_only=False, overlap_moe_expert_parallel_comm=False):
    if pp < 1:
        no_answer(f"pp {pp}: there is no rank to ask")
    at_most(1 << 20, pp, "each rank is asked")
    group_size = pp if microbatch_group_size is None else microbatch_group_size
    rows = []
    for rank in range(pp):
        communicator = types.SimpleNamespace(pp_group=Group(rank, pp), virtual_pipeline_model_parallel_size=stages_per_rank if stages_per_rank > 1 else None)
        counts = schedules.get_pp_rank_microbatches(microbatches, stages_per_rank, group_size, forward_only=forward_only,
                                                    overlap_moe_expert_parallel_comm=overlap_moe_expert_parallel_comm, p2p_communicator=communicator)
        rows.append({"rank": rank, **dict(zip(("total", "all_in_warmup", "warmup", "remaining"), counts, strict=True))})
    return {"ranks": rows}


# ---- layers ----

SHORT = {LayerType.embedding: "E", LayerType.decoder: "t", LayerType.mtp: "m", LayerType.loss: "L"}


@contextlib.contextmanager
def virtual(size):
    own = ps.get_virtual_pipeline_model_parallel_world_size
    ps.get_virtual_pipeline_model_parallel_world_size = lambda: size
    try:
        yield
    finally:
        ps.get_virtual_pipeline_model_parallel_world_size = own


def pipeline_layout(layout, pp, num_layers, mtp_num_layers=None):
    l = PipelineParallelLayerLayout(layout, pp)
    standalone = l.validate_layer_layout(num_layers, mtp_num_layers)
    v = l.virtual_pipeline_model_parallel_size
    stages = ["".join(SHORT[t] for t in l.layout[r][c]) for c in range(v) for r in range(pp)]
    with virtual(v):
        parts = [[[o := l.get_layer_offset(vp_stage=c, pp_rank=r), o + l.get_num_layers_to_build(vp_stage=c, pp_rank=r)] for c in range(v)] for r in range(pp)]
    return {"stages": stages, "parts": parts, "mtp_standalone": standalone}


def partition_counted(num_layers, pp, chunks, embedding, loss):
    if min(pp, chunks) < 1:
        no_answer(f"pp {pp}, chunks {chunks}: there is no stage to ask")
    if pp == 1 < chunks:
        no_answer(f"{chunks} chunks of one rank: Megatron-core has chunks in pipelines alone, and would give each chunk every layer")
    config = types.SimpleNamespace(pipeline_model_parallel_layout=None, num_layers_in_first_pipeline_stage=None, num_layers_in_last_pipeline_stage=None, num_layers=num_layers,
                                   pipeline_model_parallel_size=pp, virtual_pipeline_model_parallel_size=chunks if chunks > 1 else None,
                                   account_for_embedding_in_pipeline_split=embedding, account_for_loss_in_pipeline_split=loss)
    parts = []
    with virtual(chunks if chunks > 1 else None):
        for r in range(pp):
            row = []
            for c in range(chunks):
                stage = c if chunks > 1 else None
                n = transformer_block.get_num_layers_to_build(config, vp_stage=stage, pp_rank=r)
                o = transformer_layer.get_transformer_layer_offset(config, vp_stage=stage, pp_rank=r)
                row.append([o, o + n])
            parts.append(row)
    return {"parts": parts}


# ---- buckets ----

def layout(numel, bucket_size_elements=None, data_parallel_world_size=None, pad_buckets_for_high_nccl_busbw=False, shared_embedding=()):
    params = [torch.nn.Parameter(asked(torch.empty, n, device="meta")) for n in numel]
    for i in shared_embedding:
        params[i].shared_embedding = True
    if data_parallel_world_size is None:
        l = param_and_grad_buffer._compute_default_per_buffer_param_layout(params, bucket_size_elements)
    else:
        config = DistributedDataParallelConfig(pad_buckets_for_high_nccl_busbw=pad_buckets_for_high_nccl_busbw)
        l = DistributedOptimizer._compute_per_buffer_param_layout(params, bucket_size_elements, data_parallel_world_size, config)
    return {"param_index": [list(l.param_index_map[p]) for p in params], "bucket_indices": [list(b) for b in l.bucket_indices],
            "per_bucket_numel_unpadded": list(l.per_bucket_numel_unpadded)}


TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}


def buffers(numel, dtype, expert=(), grad_reduce_in_fp32=False, bucket_size_elements=None, data_parallel_world_size=None,
            expert_data_parallel_world_size=None, pad_buckets_for_high_nccl_busbw=False, shared_embedding=()):
    kinds = [dtype] * len(numel) if isinstance(dtype, str) else dtype
    params = [torch.nn.Parameter(asked(torch.empty, n, device="meta", dtype=TYPES[t])) for n, t in zip(numel, kinds, strict=True)]
    for i in expert:
        params[i].allreduce = False  # what TE and Megatron's experts set
    for i in shared_embedding:
        params[i].shared_embedding = True
    if data_parallel_world_size is None:
        groups = param_and_grad_buffer.group_params_for_buffers(params, grad_reduce_in_fp32)
        layouts = {key: param_and_grad_buffer._compute_default_per_buffer_param_layout(own, bucket_size_elements) for key, (own, _) in groups.items()}
    else:
        config = DistributedDataParallelConfig(grad_reduce_in_fp32=grad_reduce_in_fp32, pad_buckets_for_high_nccl_busbw=pad_buckets_for_high_nccl_busbw)
        layouts = DistributedOptimizer.compute_full_param_layout(params, bucket_size_elements, data_parallel_world_size, config, expert_data_parallel_world_size).layouts
    index = {id(p): i for i, p in enumerate(params)}
    word = {kind: name for name, kind in TYPES.items()}
    result = []
    for key, l in layouts.items():
        own = sorted(l.param_index_map, key=lambda p: index[id(p)])
        result.append({"dtype": word[key.param_dtype], "grad_dtype": word[key.grad_dtype], "expert": key.is_expert_parallel, "params": [index[id(p)] for p in own],
                       "param_index": [list(l.param_index_map[p]) for p in own], "bucket_indices": [list(b) for b in l.bucket_indices],
                       "per_bucket_numel_unpadded": list(l.per_bucket_numel_unpadded)})
    return {"buffers": result}


serve("Megatron-core", version("megatron-core"), {
    "topology.rank_generator": rank_generator, "topology.hyper_comm_grid": hyper_comm_grid, "topology.initialize_model_parallel": initialize_model_parallel,
    "groups.expert_groups": expert_groups,
    "schedules.trace": trace, "schedules.table": table, "schedules.warmup": warmup, "schedules.pipeline_layout": pipeline_layout, "schedules.partition_counted": partition_counted,
    "bucketing.layout": layout, "bucketing.buffers": buffers, "scaler.trace": scaler_trace(grad_scaler.DynamicGradScaler, grad_scaler.ConstantGradScaler,
                                  lambda s: {"growth_tracker": s._growth_tracker, "hysteresis_tracker": s._hysteresis_tracker}),
}, conventions={"megatron": "core " + version("megatron-core")}, options={"schedules.trace": {"schedule": ["1F1B", "interleaved"]}, "bucketing.buffers": {"dtype": sorted(TYPES)}})
