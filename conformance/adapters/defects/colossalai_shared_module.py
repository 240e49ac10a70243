"""ColossalAI 0.5.0, without Plumbline: a module that two pipeline stages share is broadcast from the wrong rank, or not at all.

PipelineSharedModuleWrapper keeps the ranks that share the module in ranks_in_group, and then takes ranks_in_group[pipeline_ranks[0]] for the
source: the first stage's number is no index of that list. With stages 1 and 2 of 4, stage 2 is the source in place of stage 1; with stages 2
and 3 it is an IndexError.
Exit status: 1 the defect is here, 0 it is not, 3 it cannot be asked.
"""
import importlib.util
import os
import sys
import types


def not_asked(kind, error, trace):
    """Whatever ends this program early says nothing of the defect."""
    print(f"cannot be asked: {kind.__name__}: {error}", flush=True)
    os._exit(3)


sys.excepthook = not_asked
import torch

ROOT = importlib.util.find_spec("colossalai").submodule_search_locations[0]
STAGES = 4


def module(name, **fields):
    one = sys.modules[name] = types.ModuleType(name)
    vars(one).update(fields)


# What the file imports: a context of one replica with 4 stages, as its own ParallelContext says it.
modes = types.SimpleNamespace(GLOBAL="global", DATA="data", PIPELINE="pipeline")
sizes = {"global": STAGES, "data": 1, "pipeline": STAGES}
here = types.SimpleNamespace(get_world_size=sizes.get, get_global_rank=lambda: here.rank, get_local_rank=lambda mode: here.rank)
for package in ("colossalai", "colossalai.legacy"):
    module(package, __path__=[])
module("colossalai.legacy.context", ParallelMode=modes)
module("colossalai.legacy.core", global_context=here)
spec = importlib.util.spec_from_file_location("pipeline_wrapper", ROOT + "/legacy/nn/layer/wrapper/pipeline_wrapper.py")
wrapper = importlib.util.module_from_spec(spec)
spec.loader.exec_module(wrapper)

sources = []
wrapper.dist = types.SimpleNamespace(new_group=lambda ranks: tuple(ranks), broadcast=lambda tensor, src, group: sources.append(src))
found = 0
for stages in ([0, 3], [1, 2], [2, 3]):
    here.rank = stages[0]  # with one replica, a stage's rank is its number
    try:
        wrapper.PipelineSharedModuleWrapper(stages).register_module(torch.nn.Linear(1, 1, bias=False))
        said, wrong = f"broadcast from rank {sources[-1]}", sources[-1] != stages[0]
    except IndexError as error:
        said, wrong = f"IndexError: {error}", True
    print(f"shared by stages {stages}: {said}, must be rank {stages[0]}")
    if wrong and stages[0] == 0:
        raise RuntimeError("the control, a module shared from stage 0 on, is wrong, too")
    found += wrong
sys.exit(found > 0)
