#!/usr/bin/env python3
"""Paddle's own data-parallel optimization pass behind Plumbline's adapter door.

A program of a question is built in Paddle's C++ core, op by op; its pass is applied as Paddle applies passes, and the program is read
back after each of its methods.
"""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))
from framework import AdapterError, asked, at_most, kind_of, no_answer, number, serve
import contextlib
import logging
import os
import re

os.environ["FLAGS_enable_pir_api"] = "0"  # the pass is one of programs of the old form

import numpy
import paddle
from paddle.base import core
from paddle.base.framework import OpProtoHolder
from paddle.distributed import ReduceOp
from paddle.distributed.auto_parallel.process_mesh import ProcessMesh
from paddle.distributed.auto_parallel.static import process_group
from paddle.distributed.auto_parallel.static.dist_attribute import OperatorDistAttr, TensorDistAttr
from paddle.distributed.auto_parallel.static.dist_context import DistributedContext
from paddle.distributed.passes import PassContext, auto_parallel_data_parallel_optimization as source, pass_base

paddle.enable_static()
NAME, REDUCTIONS = "auto_parallel_data_parallel_optimization", {"sum": ReduceOp.SUM, "max": ReduceOp.MAX, "min": ReduceOp.MIN, "prod": ReduceOp.PROD, "avg": ReduceOp.AVG}
DEFAULTED = "has_the_default_reduce_type"
PROTOS = OpProtoHolder.instance()
# What is asked of an op; Paddle has more, with defaults of its own.
KEPT = ["op_role", "op_namescope", "ring_id", "reduce_type", "use_calc_stream", "scale", "rescale_grad", "value", "dtype", "copy_data", "use_align",
        "concated_shapes", "concated_ranks"]


# ---- programs ----

NAMES = {"float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "float64": "FP64", "int8": "INT8", "uint8": "UINT8", "int16": "INT16", "int32": "INT32",
         "int64": "INT64", "bool": "BOOL"}


def dtype_of(name):
    if name not in NAMES:
        no_answer(f"a variable of a program has one of {', '.join(NAMES)}, not {name}")
    return getattr(core.VarDesc.VarType, NAMES[name])


DTYPES = {dtype_of(name): name for name in NAMES}


def given(name, value):
    """An attribute as Paddle keeps it: value, scale and rescale_grad are of single precision."""
    if name == "reduce_type":
        return int(REDUCTIONS[value])
    if name == "dtype":
        return int(dtype_of(value))
    return float(numpy.float32(number(value))) if name in ("scale", "rescale_grad", "value") else value


def taken(name, value):
    if name == "reduce_type":
        return next(word for word, kind in REDUCTIONS.items() if int(kind) == int(value))
    if name == "dtype":
        return DTYPES[core.VarDesc.VarType(int(value))]
    return bool(value) if name == "use_calc_stream" else value


def append(block, op):
    desc = block.desc.append_op()
    desc.set_type(op["type"])
    proto = PROTOS.get_op_proto(op["type"]) if PROTOS.has_op_proto(op["type"]) else None  # programs may have ops of their own
    for slot, names in {**{one.name: [] for one in (proto.inputs if proto else ())}, **op["inputs"]}.items():
        desc.set_input(slot, names)
    for slot, names in {**{one.name: [] for one in (proto.outputs if proto else ())}, **op["outputs"]}.items():
        desc.set_output(slot, names)
    if op["type"] in ("all_reduce", "reduce") and "reduce_type" not in op.get("attrs", {}):
        desc._set_attr("reduce_type", int(ReduceOp.SUM))  # Paddle's default, and no word of the question's
        desc._set_attr(DEFAULTED, True)
    for name, value in op.get("attrs", {}).items():
        if name != "execution_stream":  # which is no attribute of Paddle's ops
            desc._set_attr(name, given(name, value))


def built(program, context):
    made = paddle.static.Program()
    block = made.global_block()
    ranks = sorted({rank for group in process_group.get_all_process_groups() for rank in group.ranks}) or [0]
    for var in program["vars"]:
        one = block.create_var(name=var["name"], shape=var["shape"], dtype=dtype_of(var["dtype"]), persistable=var.get("persistable", False))
        one.desc.set_is_parameter(var.get("parameter", False))
        attr = TensorDistAttr()
        attr.process_mesh, attr.dims_mapping = ProcessMesh(var.get("process_mesh") or ranks), var.get("dims_mapping") or [-1] * len(var["shape"])
        context.set_tensor_dist_attr_for_program(one, attr)
    for op in program["ops"]:
        append(block, op)
    for types in program.get("other_blocks", []):
        inner = made._create_block(0)
        for kind in types:
            append(inner, {"type": kind, "inputs": {}, "outputs": {}})
        inner._sync_with_cpp()
        made._rollback()
    block._sync_with_cpp()
    for op, asked_for in zip(block.ops, program["ops"], strict=True):
        attr = OperatorDistAttr(op.desc)
        attr.process_mesh = ProcessMesh(ranks)
        attr.execution_stream = asked_for.get("attrs", {}).get("execution_stream", "default")
        context.set_op_dist_attr_for_program(op, attr)
    return made


def op_of(op):
    slots = lambda names, of: {slot: of(slot) for slot in names if of(slot)}
    attrs = {name: taken(name, op.attr(name)) for name in KEPT if op.has_attr(name)}
    if op.has_attr(DEFAULTED):
        del attrs["reduce_type"]
    if attrs.get("op_namescope") in ("", "/"):
        del attrs["op_namescope"]
    stream = op.dist_attr.execution_stream
    return {"type": op.type, "inputs": slots(op.input_names, op.input), "outputs": slots(op.output_names, op.output),
            "attrs": {**attrs, **({"execution_stream": stream} if stream not in ("", "default") else {})}}


def ops_of(program):
    return [op_of(op) for op in program.global_block().ops]


# ---- the pass ----

class Watched(source.DataParallelOptimizationPass):
    """The pass, which keeps the program after each of its steps; where one of them asserts, its name is kept."""
    stage, ended, names = "", None, ()

    def _after(self, stage, method, *args):
        self.stage = stage
        result = method(*args)
        self.stage = ""
        return result

    def _analyze_program(self):
        self._after("analyze", super()._analyze_program)
        applied = self.is_data_parallel_applied()
        self.stages, self.groups, self.records = {}, None, []
        self.analysis = {
            "grad_to_ring": [[grad, group.id] for grad, group in self._grad_name_to_group_map.items()],
            "ring_to_grads": [[group.id, list(grads)] for group, grads in self._group_to_grad_name_map.items()],
            "support_rescale_grad": self._support_rescale_grad, "data_parallel_applied": applied, "all_dp_groups_same_degree": self._all_dp_groups_same_degree(),
            "could_be_prune": bool(self._could_be_prune()), "could_be_overlap": self._could_be_overlap(), "could_be_fuse": self._could_be_fuse()}

    def _keep(self, name):
        self.stages[name] = ops_of(self.program)

    def _prune_grad_scaling(self):
        self._after("prune", super()._prune_grad_scaling)
        self._keep("after_prune")

    def _calc_comm_overlap(self):
        self._after("overlap", super()._calc_comm_overlap)
        self._keep("after_overlap")

    def _group_grads(self):
        self.groups = self._after("group_grads", super()._group_grads)
        return self.groups

    def _update_program(self, groups):
        self._after("update_program", super()._update_program, groups)

    def _fuse_allreduce(self):
        groups = super()._fuse_allreduce()
        self._keep("after_fuse")
        return groups

    def _add_dependencies(self, groups):
        self._after("add_dependencies", super()._add_dependencies, groups)

    def summary(self, groups=()):
        self.records = said(super().summary, groups)


pass_base.PassBase._REGISTERED_PASSES[NAME] = Watched  # so that the pass of a context is the same one


def said(summary, groups):
    """What a summary writes to the root logger."""
    records, handler, root = [], logging.Handler(), logging.getLogger()
    handler.emit = lambda record: records.append((record.levelno, record.getMessage()))
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        summary(groups)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    return records


@contextlib.contextmanager
def limits(max_fuse_numel, max_overlap_rings, sequential_run):
    """The two constants of the source, and a flag of the executor that it looks at."""
    own, rings = source.GradientsGroup, source.__max_stream_num_allow__
    if max_fuse_numel is not None:
        source.GradientsGroup = lambda ops, _: own(ops, max_fuse_numel)
    if max_overlap_rings is not None:
        source.__max_stream_num_allow__ = max_overlap_rings
    paddle.set_flags({"FLAGS_new_executor_sequential_run": bool(sequential_run)})
    try:
        yield
    finally:
        source.GradientsGroup, source.__max_stream_num_allow__ = own, rings
        paddle.set_flags({"FLAGS_new_executor_sequential_run": False})


def group_of(group):
    return {"gradients": [grad.name for grad in group.gradients], "numel": group.numel, "dtype": DTYPES[group.dtype], "ring_id": group.ring_id,
            **{name: getattr(group, name) for name in ("coalesce_op_idx", "allreduce_op_idx", "scale_op_idx", "remove_wait_op_indices", "remove_allreduce_op_indices",
                                                       "remove_scale_op_indices")},
            "fused": len(group.gradients) > 1, "coalesce_var": getattr(group.coalesce_var, "name", None)}


def context_of(names):
    context = PassContext()
    for name in names:
        if name not in pass_base.PassBase._REGISTERED_PASSES:
            no_answer(f"Paddle has no pass {name}")
        context._add_pass(pass_base.new_pass(name))
    return context


def dp_pass(program, rings, options=None, max_fuse_numel=None, max_overlap_rings=None):
    at_most(1 << 14, len(program["ops"]), "the ops are objects of Python")
    options = {"gradient_scale": True, "global_rank": 0, **(options or {})}
    others = {rank for ring, ranks in rings.items() if int(ring) for rank in ranks}
    if "0" in rings and not others <= {*rings["0"]}:
        no_answer(f"ring 0 of Paddle is its world group, which has the ranks of all rings: not {rings['0']}")
    process_group.clear_all_process_groups()
    for ring, ranks in rings.items():
        process_group._g_process_group_map[int(ring)] = process_group.ProcessGroup(int(ring), ranks) if int(ring) else process_group.get_world_process_group()
    process_group.get_world_process_group().add_ranks(rings.get("0", []))
    context = DistributedContext()
    context.gradient_scale = options["gradient_scale"]
    made = built(program, context)
    before = ops_of(made)
    known = {var["name"] for var in program["vars"]}
    one = Watched()
    one.program = made
    one.set_attr("dist_context", context if options.get("dist_context", {}) is not None else None)
    for name, value in options.items():
        if name not in ("dist_context", "gradient_scale", "context_passes", "sequential_run"):
            one.set_attr(name, value)
    passes = context_of(options.get("context_passes") or [])
    one.earlier = list(passes.passes)
    with limits(max_fuse_numel, max_overlap_rings, options.get("sequential_run")), paddle.utils.unique_name.guard():
        try:
            asked(one.apply, [made], [paddle.static.Program()], passes)
        except Exception as error:
            if not one.stage:
                raise
            raise AdapterError(kind_of(error), str(error) or type(error).__name__, stage=one.stage, **{"class": type(error).__name__}) from error
    if len(passes.passes) == len(one.earlier):
        return {"final": final_of(made, before, known)}  # nothing was done, and no word of it is said
    return answer(one, before, known, made)


def new_vars(made, known):
    return [var for var in vars_of(made) if var["name"] not in known]


def final_of(made, before, known):
    ops, others = ops_of(made), [[op.type for op in block.ops] for block in made.blocks[1:]]
    if ops == before and not new_vars(made, known):
        return {"same_as": "before"}
    return {"ops": ops, "vars": vars_of(made), **({"other_blocks": others} if others else {})}


def answer(one, before, known, made):
    def as_stage(ops, earlier, added=()):
        same = next((name for name, other in earlier if other == ops and not added), None)
        return {"same_as": same} if same else {"ops": ops, **({"vars_added": added} if added else {})}
    new = new_vars(made, known)
    result, earlier = {"analysis": one.analysis, "stages": {}}, [("before", before)]
    if one.stages:
        for name, ops in one.stages.items():
            result["stages"][name] = as_stage(ops, earlier, new if name == "after_fuse" else ())
            earlier.append((name, ops))
        result["groups"] = [group_of(group) for group in one.groups or []]
    result["summary"] = summary_of(one.records)
    result["final"] = final_of(made, before, known)
    return result


def vars_of(made):
    return [{"name": var.name, "shape": list(var.shape), "dtype": DTYPES[var.dtype], "persistable": bool(var.persistable), "parameter": var.desc.is_parameter()}
            for var in sorted(made.global_block().vars.values(), key=lambda var: var.name)]


def summary_of(records):
    """The lines, and the counts that they name."""
    said_at = lambda level: [text for at, text in records if at == level]
    info, debug = said_at(logging.INFO), said_at(logging.DEBUG)
    counts = [int(one) for text in [*info, *debug] for one in re.findall(r"^ (\d+) Allreduce ops are fused into (\d+) |^the following \[(\d+)\] gradients are not fused", text)
              for one in one if one]
    return {"info": info, "debug": debug, **dict(zip(("allreduce_ops", "coalesce_allreduce_ops", "not_fused"), counts))}


serve("Paddle", paddle.__version__, {"bucketing.dp_pass": dp_pass}, conventions={"paddle": paddle.__version__})
