#!/usr/bin/env python3
"""PyTorch's own meshes, pipeline schedules, buckets, loss scaler, clipping and gloo behind Plumbline's adapter door."""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))
from framework import AdapterError, asked, at_most, error_of, no_answer, number, serve
import csv
import datetime
import functools
import math
import tempfile
import threading

import numpy
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.pipelining import schedules as S
from torch.distributed.pipelining import PipelineStage
from torch.distributed.tensor._ops import _math_ops as norms_of_tensors
from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping
from torch.nn.parallel import distributed as D
from torch.testing._internal.distributed.fake_pg import FakeStore

torch.set_num_threads(1)
DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "c64": torch.complex64,
          "float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16,
          "c32": torch.complex32, "c128": torch.complex128, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "i8": torch.int8}


# ---- DeviceMesh ----

def on_rank(rank, world, function):
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    try:
        return function()
    finally:
        dist.destroy_process_group()


def device_mesh(shape, dim_names, slices=(), world_size=None):
    world = world_size if world_size is not None else math.prod(shape)
    return every_rank(lambda: init_device_mesh("cpu", tuple(shape), mesh_dim_names=tuple(dim_names)), dim_names, slices, world, has_others=False)


def mesh_of_ranks(shape, dim_names, ranks, slices=(), world_size=None):
    world = world_size if world_size is not None else 1 + max(ranks)
    at_most(1024, math.prod(shape), "a mesh is made rank by rank here")
    return every_rank(lambda: DeviceMesh("cpu", asked(torch.tensor(ranks).reshape, shape), mesh_dim_names=tuple(dim_names)), dim_names, slices, world,
                      has_others=True)


def every_rank(make, dim_names, slices, world, has_others):
    """What each rank answers; others are ranks that the mesh does not have."""
    at_most(1024, world, "a mesh is made rank by rank here")
    mesh_list, groups, ranks = None, {n: set() for n in dim_names}, []
    for rank in range(world):
        mesh, row = on_rank(rank, world, lambda: described(make(), rank, dim_names, slices))
        mesh_list = mesh.mesh.tolist()
        for n in dim_names if row else ():
            groups[n].add(tuple(row["group_ranks"][n]))
        ranks.extend([row] if row else [{"rank": rank, "coordinate": None}] if has_others else [])
    return {"mesh": mesh_list, "groups": {n: sorted(map(list, g)) for n, g in groups.items()}, "ranks": ranks}


def described(mesh, rank, dim_names, slices):
    """A mesh, and what its rank is told; nothing where it has none."""
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return mesh, None
    row = {"rank": rank, "coordinate": list(coordinate),
           "group_ranks": {n: dist.get_process_group_ranks(mesh.get_group(n)) for n in dim_names},
           "local_rank": {n: mesh.get_local_rank(n) for n in dim_names}, "slices": {}}
    for s in slices:
        names = tuple(s.split("-"))
        row["slices"][s] = mesh[names if len(names) > 1 else names[0]].mesh.tolist()
    flatten = {}
    for s in [*(s for s in slices if "-" in s), *(["-".join(dim_names)] if len(dim_names) > 1 else [])]:
        names = tuple(s.split("-"))
        sub = mesh if names == tuple(dim_names) else mesh[names]
        flatten[s] = sub._flatten().mesh.tolist()
    if flatten:
        row["flatten"] = flatten
    return mesh, row


# ---- schedules ----

def stage_to_rank(pp, num_stages, style="loop"):
    mapping = generate_stage_to_rank_mapping(pp, num_stages, style)
    return {"result": [mapping[s] for s in sorted(mapping)]}


@functools.cache
def stages_of_ranks(size, count):
    """Where a PipelineStage itself says that the others are."""
    return on_rank(0, size, lambda: PipelineStage(torch.nn.Identity(), 0, count, torch.device("cpu")).stage_index_to_group_rank)


class Recorder:
    """Stands in for a PipelineStage: what a schedule's constructor and _step_microbatches ask of one."""
    def __init__(self, index, count, rank, size):
        self.stage_index, self.num_stages, self.group_rank, self.group_size = index, count, rank, size
        self.is_first, self.is_last, self.has_backward = index == 0, index == count - 1, True
        self.submod, self.device, self.log = torch.nn.Identity(), torch.device("cpu"), []
        self.stage_index_to_group_rank = stages_of_ranks(size, count)
        self.args_recv_info, self.act_send_info = {0: ()}, {}
    def __getattr__(self, name):
        if name.startswith("get_") or name == "_get_init_p2p_neighbors_ops":
            return lambda *a, **k: []
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *a, **k: None
    def forward_one_chunk(self, i, *a, **k):
        self.log.append(f"{self.stage_index}F{i}")
        return torch.zeros(1)
    def backward_one_chunk(self, i, **k):
        self.log.append(f"{self.stage_index}B{i}")


SCHEDULES = ("ScheduleGPipe", "Schedule1F1B", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS", "ScheduleInterleavedZeroBubble",
             "ScheduleZBVZeroBubble", "ScheduleDualPipeV")


def made(name, pp, microbatches, stages_per_rank, rank=0):
    if name not in SCHEDULES:
        no_answer(f"PyTorch has no schedule {name}")
    cls = getattr(S, name)
    count = pp * stages_per_rank
    if issubclass(cls, S.PipelineScheduleSingle):
        if stages_per_rank != 1:
            no_answer(f"{name} is made of one stage; there is no way to give it {stages_per_rank}")
        return cls(Recorder(rank, count, rank, pp), microbatches)
    v = name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")
    own = [s for s, r in generate_stage_to_rank_mapping(pp, count, "v" if v else "loop").items() if r == rank]
    return cls([Recorder(s, count, rank, pp) for s in own], microbatches)


def rows(order):
    return [",".join("" if a is None else str(a) for a in order[r]) for r in sorted(order)]


def generate(schedule, pp, microbatches, stages_per_rank=1):
    if pp < 1:
        no_answer(f"pp {pp}: there is no rank to ask")
    at_most(1 << 17, pp * stages_per_rank * microbatches, "the actions are objects of Python")
    s = made(schedule, pp, microbatches, stages_per_rank)
    if isinstance(s, S.PipelineScheduleSingle):
        result = []
        for rank in range(pp):
            one = made(schedule, pp, microbatches, 1, rank)
            one._loss_fn = None
            one._step_microbatches([(torch.zeros(1),)] * microbatches, [{}] * microbatches)
            result.append(",".join(one._stage.log))
        return {"compute_only": result, "stage_to_rank": [s._stage.stage_index_to_group_rank[i] for i in range(pp)]}
    return {"compute_only": rows(s.pipeline_order), "stage_to_rank": [s.stage_index_to_group_rank[i] for i in range(s._num_stages)]}


def parsed(csv_rows):
    return {r: [S._Action.from_str(t) for t in next(csv.reader([row]), [])] for r, row in enumerate(csv_rows)}


def lower(compute_only, stage_to_rank, num_stages, idle=None, max_active_stages=3):
    actions = parsed(compute_only)
    microbatches = 1 + max((m for row in actions.values() for a in row if a is not None
                            for m in ([a.microbatch_index] if not a.sub_actions else [b.microbatch_index for b in a.sub_actions])), default=-1)
    where = lambda s: stage_to_rank[s]
    listed = lambda order: {r: list(row) for r, row in order.items()}  # which the passes consume
    plain = {r: [a for a in row if a is not None] for r, row in actions.items()}
    full = {r: S._add_reduce_grad(S._add_unshard_reshard(row, max_active_stages), microbatches) for r, row in actions.items()}
    with_comms = S._add_send_recv(listed(full), stage_to_rank=where, num_stages=num_stages)
    out = {"send_recv": rows(S._add_send_recv(listed(actions if idle == "steps" else plain), stage_to_rank=where, num_stages=num_stages)), "with_comms": rows(with_comms)}
    out["with_comms_defer_recv"] = rows(S._defer_recv_ops(listed(with_comms), stage_to_rank=where))
    out["merge_bw"] = rows({r: S._merge_bw(list(row)) for r, row in actions.items()})
    return out


def defer_receives(ranks, stage_to_rank, num_stages):
    return {"ranks": rows(S._defer_recv_ops(parsed(ranks), stage_to_rank=lambda s: stage_to_rank[s]))}


def load_csv(csv, pp, microbatches, stages_per_rank=1, format="compute_only"):
    count = pp * stages_per_rank
    s = S._PipelineScheduleRuntime([Recorder(i, count, 0, pp) for i in range(0, count, pp)], microbatches)
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write("".join(row + "\n" for row in csv)); file.flush()
        s._load_csv(file.name, format)
    return {"accepted": True, "result": {"with_comms": rows(s.pipeline_order_with_comms),
            "stage_to_rank": [s.stage_index_to_group_rank[i] for i in range(count)]}}


# ---- buckets ----

def tensors_of(numel, dtype="f32", device="cpu"):
    listed = lambda v: v if isinstance(v, list) else [v] * len(numel)
    for n in numel:
        asked(torch.empty, n, device="meta")  # PyTorch's own word on a size that no tensor has
    return [torch.empty(1, dtype=DTYPES[t], device=d).expand(n) for n, t, d in zip(numel, listed(dtype), listed(device), strict=True)]


def assign(numel, limits, dtype="f32", device="cpu", expect_sparse_gradient=(), tensor_indices=()):
    buckets, bucket_limits = asked(dist._compute_bucket_assignment_by_size, tensors_of(numel, dtype, device), limits, list(expect_sparse_gradient), list(tensor_indices))
    return {"buckets": buckets, "bucket_limits": bucket_limits}


def capacity_config(bucket_cap_mb=None, bucket_cap_mb_list=None):
    c = D._BucketCapacityConfig.create(bucket_cap_mb, bucket_cap_mb_list, use_python_reducer=False)
    limits = []
    for s in (False, True):
        for f in (False, True):
            initial, rebuild = c.compute_bucket_size_limits(s, f)
            limits.append({"static_graph": s, "find_unused_parameters": f, "initial": list(initial), "rebuild": list(rebuild)})
    return {"bucket_bytes_cap": c.bucket_bytes_cap, "per_bucket_bytes_caps": list(c.per_bucket_bytes_caps),
            "first_bucket_bytes_cap": c.first_bucket_bytes_cap, "limits": limits}


def ddp_runs(numel, ready, iterations=3, dtype="f32", device="cpu", expect_sparse_gradient=(), bucket_cap_mb=None, bucket_cap_mb_list=None,
             find_unused_parameters=False, static_graph=False):
    sparse = [*expect_sparse_gradient] or [False] * len(numel)
    if {*([device] if isinstance(device, str) else device)} != {"cpu"}:
        no_answer("DDP over gloo on a machine without GPUs: only device cpu")
    at_most(1 << 26, sum(numel), "the gradients are real")
    kinds = dtype if isinstance(dtype, list) else [dtype] * len(numel)
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for i, (n, t) in enumerate(zip(numel, kinds)):
                if sparse[i]:  # an embedding's weight, by which DDP knows what is sparse
                    self.add_module(f"p{i}", torch.nn.Embedding(n, 1, sparse=True, dtype=DTYPES[t]))
                else:
                    holder = torch.nn.Module()
                    holder.weight = torch.nn.Parameter(torch.zeros(n, dtype=DTYPES[t]))
                    self.add_module(f"p{i}", holder)
            self.order = [getattr(self, f"p{i}").weight for i in range(len(numel))]
        def forward(self):
            p, total = self.order, []
            for i in reversed(ready):  # made last, back-propagated first
                if sparse[i]:
                    total.append(getattr(self, f"p{i}")(torch.zeros(min(numel[i], 1), dtype=torch.int64)).sum().to(torch.float32))
                    continue
                total.append(p[i].sum().abs().to(torch.float32) if p[i].is_complex() else p[i].sum().to(torch.float32))
            return torch.stack(total).sum()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = Model()
        ddp = D.DistributedDataParallel(model, bucket_cap_mb=bucket_cap_mb, bucket_cap_mb_list=bucket_cap_mb_list, find_unused_parameters=find_unused_parameters, static_graph=static_graph)
        index = {id(p): i for i, p in enumerate(model.order)}
        log = []
        def hook(state, bucket):
            log[-1].append({"index": bucket.index(), "numel": bucket.buffer().numel(), "is_last": bucket.is_last(),
                            "params": [index[id(p)] for p in bucket.parameters()]})
            future = torch.futures.Future(); future.set_result(bucket.buffer())
            return future
        ddp.register_comm_hook(None, hook)
        for _ in range(iterations):
            log.append([])
            ddp.zero_grad()
            ddp().backward()
        return {"launches": log}
    finally:
        dist.destroy_process_group()


# ---- loss scaler ----

def plain(t):
    return None if t is None else t.detach().to(torch.float64).reshape(-1).tolist()


def scaler_trace(ops, init=None, dtype="float32", sizes=(), lr=0.5):
    rows = traced(ops, init, dtype, sizes, lr, fused=False)
    if dtype in ("float32", "float64"):
        compare_fused(rows, traced(ops, init, dtype, sizes, lr, fused=True))
    return {"results": rows}


def unscale(grads, inverse, dtype="float32"):
    """As GradScaler unscales the gradients of one device and type, in place."""
    tensors = [torch.tensor([number(v) for v in one], dtype=torch.float64).to(DTYPES[dtype]) for one in grads]
    found = torch.zeros(1)
    torch._amp_foreach_non_finite_check_and_unscale_(tensors, found, torch.tensor([number(inverse)], dtype=torch.float32))
    return {"grads": [plain(one) for one in tensors], "found_inf": bool(found.item())}


NOT_ASSERTED_BY_FUSED = "No inf checks were recorded for this optimizer."  # one without gradients


def compare_fused(rows, fused):
    """An optimizer with a fused kernel unscales and skips by itself: scale and parameters must be what they are without one, but for the
    inverse of the scale, which only the other way rounds to fp32."""
    eps = torch.finfo(torch.float32).eps
    for at, (plain_row, row) in enumerate(zip(rows, fused, strict=True)):
        if ("error" in plain_row) != ("error" in row) and plain_row.get("error", {}).get("message") != NOT_ASSERTED_BY_FUSED:
            no_answer(f"operation {at}: with and without a fused optimizer one ends with an error: {plain_row.get('error') or row.get('error')}")
        for name in ("scale", "growth_tracker", "found_inf", "params"):
            a, b = (numpy.asarray([*flat(one.get(name))], dtype=float) for one in (plain_row, row))
            if a.shape != b.shape or not numpy.allclose(a, b, rtol=8 * eps, atol=8 * eps, equal_nan=True):
                no_answer(f"operation {at}: {name} is {a.tolist()}, and with a fused optimizer {b.tolist()}")


def flat(value):
    return [number(math.nan if value is None else value)] if not isinstance(value, list) else (x for one in value for x in flat(one))


def traced(ops, init, dtype, sizes, lr, fused):
    kind = DTYPES[dtype]
    init = {k: number(v) for k, v in (init or {}).items()}
    make = lambda given: asked(torch.amp.GradScaler, "cpu", **given)
    box = {"scaler": make(init), "state": None}
    params = [[torch.nn.Parameter((torch.arange(1, n + 1, dtype=torch.float64) / 8 + o).to(kind)) for n in one] for o, one in enumerate(sizes)]
    optimizers = [torch.optim.SGD(one, lr=lr, fused=fused) for one in params]
    results = []
    for op in ops:
        name, row, o = op[0], {}, op[1] if op[0] in ("grads", "unscale", "clip", "step") else None
        s = box["scaler"]
        try:
            if name == "scale":
                row["out"] = plain(s.scale(torch.tensor([number(v) for v in op[1]], dtype=torch.float32)))
            elif name == "grads":
                for p, g in zip(params[o], op[2], strict=True):
                    p.grad = None if g is None else torch.tensor([number(v) for v in g], dtype=torch.float64).to(kind)
            elif name == "unscale":
                s.unscale_(optimizers[o])
            elif name == "clip":
                row["norm"] = torch.nn.utils.clip_grad_norm_(params[o], number(op[2]), number(op[3])).item()
            elif name == "step":
                before = [p.detach().clone() for p in params[o]]
                stepped = []
                hook = optimizers[o].register_step_post_hook(lambda *a: stepped.append(1))
                try:
                    if len(op) > 2:
                        s.step(optimizers[o], closure=lambda: None)
                    else:
                        s.step(optimizers[o])
                finally:
                    hook.remove()
                row["stepped"] = bool(stepped)
            elif name == "update":
                if len(op) == 1:
                    s.update()
                elif op[1] == "tensor":
                    s.update(torch.tensor([number(op[2])], dtype=torch.float32))
                else:
                    s.update(number(op[1]))
            elif name == "save":
                box["state"] = s.state_dict(); row["state"] = box["state"]
            elif name == "load":
                box["scaler"] = make({k: number(v) for k, v in op[1].items()})
                box["scaler"].load_state_dict(box["state"])
            elif name == "load_empty":
                s.load_state_dict({})
            elif name == "set":
                getattr(s, "set_" + op[1])(number(op[2]))
            else:
                no_answer(f"there is no operation {name}")
        except AdapterError:
            raise
        except ValueError as error:
            row["error"] = {"kind": "invalid_argument", **error_of(error)}
        except Exception as error:
            row["error"] = {"kind": "state" if isinstance(error, (RuntimeError, AssertionError)) else "failed", **error_of(error)}
        s = box["scaler"]
        row |= {"scale": s.get_scale(), "growth_tracker": s._get_growth_tracker() if s.is_enabled() else None, "scale_created": getattr(s, "_scale", None) is not None}
        if o is not None:
            row |= {"grads": [plain(p.grad) for p in params[o]], "params": [plain(p) for p in params[o]]}
            if s.is_enabled():
                state = s._per_optimizer_states[id(optimizers[o])]
                found = state["found_inf_per_device"]
                row |= {"stage": state["stage"].name, "found_inf": sum(v.item() for v in found.values()) if found else None}
        results.append(row)
    return results


def clip_grad_norm(grads, max_norm, norm_type=2.0, dtype="float32", error_if_nonfinite=False):
    params = []
    for g in grads:
        p = torch.nn.Parameter(torch.zeros(len(g) if g is not None else 0, dtype=DTYPES[dtype]))
        p.grad = None if g is None else torch.tensor([number(v) for v in g], dtype=torch.float64).to(DTYPES[dtype])
        params.append(p)
    norm = torch.nn.utils.clip_grad_norm_(params, number(max_norm), number(norm_type), error_if_nonfinite=error_if_nonfinite)
    return {"total_norm": norm.item(), "clipped": [plain(p.grad) for p in params]}


def norm_of_part(gradients, p):
    """As PyTorch chooses, which must be what it gives gradient by gradient, and by its kernels for lists of them."""
    chosen, *others = [torch.nn.utils.get_total_norm(gradients, p, foreach=foreach) for foreach in (None, False, True)]
    for other in others:
        if not torch.allclose(other, chosen, rtol=8 * torch.finfo(chosen.dtype).eps, atol=0, equal_nan=True):
            no_answer(f"get_total_norm gives {chosen} and, with another foreach, {other}")
    return chosen


def total_norm(parts, norm_type=2.0, dtype="float32", error_if_nonfinite=False):
    p = number(norm_type)
    norms = [norm_of_part([torch.tensor([number(v) for v in g], dtype=torch.float64).to(DTYPES[dtype]) for g in part], p) for part in parts]
    # As DTensor combines the norms of shards, with a list in place of the all-reduce, which has one dtype: the norm of no gradients is fp32.
    placement = norms_of_tensors.get_placement_from_reduction_op(norms_of_tensors._get_norm_reduction_op(p))
    before, after = (getattr(placement, f"_{when}_reduce_transform", lambda norm: norm) for when in ("pre", "post"))
    reduced = {"sum": torch.sum, "max": torch.amax, "min": torch.amin}[placement.reduce_op]
    total = after(reduced(torch.stack([before(norm.to(DTYPES[dtype])) for norm in norms]))) if norms else torch.nn.utils.get_total_norm([], p)
    # The norm of order inf of one number is its magnitude.
    torch.nn.utils.get_total_norm([total], math.inf, error_if_nonfinite)
    return {"total_norm": total.item(), "part_norms": [norm.item() for norm in norms]}


# ---- gloo ----

def ring_sum(world_size, elements, dtype, op, inputs, dst=None, group=None):
    ranks = list(range(world_size)) if group is None else group
    if op not in ("all_reduce", "reduce") or (op == "reduce") != (dst is not None):
        no_answer("gloo is asked for all_reduce, or for reduce with dst")
    if world_size < 1 or not ranks or len(set(ranks)) < len(ranks) or any(not 0 <= r < world_size for r in ranks):
        no_answer(f"ranks {ranks} of a world of {world_size} are no group")
    if dst is not None and dst not in ranks:
        no_answer(f"dst {dst} is not in the group {ranks}")
    if len(inputs) != world_size or any(len(row) != elements for row in inputs):
        no_answer(f"inputs must hold {world_size} lists of {elements} numbers")
    at_most(64, len(ranks), "a thread a rank")
    store, tensors, errors = dist.HashStore(), {}, []
    for r in ranks:
        wide = torch.tensor([float(v) for v in inputs[r]], dtype=torch.float64)
        narrow = wide.to(DTYPES[dtype])
        if (torch.isinf(narrow) & ~torch.isinf(wide)).any():
            no_answer(f"a value is too large for {dtype}")
        tensors[r] = narrow
    def rank(position, r):
        try:
            pg = dist.ProcessGroupGloo(store, position, len(ranks), datetime.timedelta(seconds=20))
            if op == "all_reduce":
                pg.allreduce([tensors[r]], dist.AllreduceOptions()).wait()
            else:
                options = dist.ReduceOptions(); options.rootRank = ranks.index(dst)
                pg.reduce([tensors[r]], options).wait()
        except Exception as error:
            errors.append(error)
    threads = [threading.Thread(target=rank, args=(i, r)) for i, r in enumerate(ranks)]
    [t.start() for t in threads]; [t.join() for t in threads]
    if errors:
        raise errors[0]
    outputs = {r: plain(tensors[r]) for r in ranks}
    if op == "all_reduce" and any(repr(outputs[r]) != repr(outputs[ranks[0]]) for r in ranks):
        no_answer("gloo gave ranks different sums")
    return {"output": outputs[dst if dst is not None else ranks[0]]}


KINDS_OF_TENSORS = sorted(set(DTYPES) - {"float32", "float64", "float16", "bfloat16", "i8"})
FLOATS = ["bfloat16", "float16", "float32", "float64"]
OPTIONS = {
    "bucketing.assign": {"device": ["cpu", "meta"], "dtype": KINDS_OF_TENSORS},
    "bucketing.ddp_runs": {"device": ["cpu"], "dtype": KINDS_OF_TENSORS},  # over gloo
    "schedules.generate": {"schedule": sorted(SCHEDULES)},
    "scaler.clip_grad_norm": {"form": ["gradients"], "dtype": FLOATS},
    "scaler.total_norm": {"dtype": FLOATS},
    "scaler.unscale": {"dtype": FLOATS},
    "comm.ring_sum": {"dtype": FLOATS},
}
serve("PyTorch", torch.__version__, {
    "topology.device_mesh": device_mesh, "topology.mesh_of_ranks": mesh_of_ranks, "schedules.stage_to_rank": stage_to_rank, "schedules.generate": generate, "schedules.lower": lower, "schedules.defer_receives": defer_receives,
    "schedules.load_csv": load_csv, "bucketing.assign": assign, "bucketing.capacity_config": capacity_config, "bucketing.ddp_runs": ddp_runs,
    "scaler.trace": scaler_trace, "scaler.clip_grad_norm": clip_grad_norm, "scaler.total_norm": total_norm, "scaler.unscale": unscale,
    "comm.ring_sum": ring_sum,
}, conventions={"torch": torch.__version__, "gloo": "torch " + torch.__version__}, options=OPTIONS)
