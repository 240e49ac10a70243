"""ddp_gloo.py with one fault, as programs have had it: the checks must find it and name it.

usage: ddp_gloo_faulty.py FAULT
"""
import sys

import torch
from torch.nn.parallel import DistributedDataParallel

import ddp_gloo


def summed(model):
    """Gradients are added over the ranks, and not divided."""
    parallel = DistributedDataParallel(model)

    def add(state, bucket):
        work = torch.distributed.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    parallel.register_comm_hook(None, add)
    return parallel


def not_reduced(model):
    """The gradient of one parameter stays each rank's own."""
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ["0.bias"])
    return DistributedDataParallel(model)


def not_divided(model):
    """The parts of a step are added, and not averaged."""
    ddp_gloo.share_of_a_part = lambda run: 1
    return DistributedDataParallel(model)


def other_rows(model):
    """All ranks compute on the rows of rank 0."""
    ddp_gloo.Run.micro_batches = lambda run, step, own=ddp_gloo.Run.micro_batches: own(as_rank_0(run), step)
    return DistributedDataParallel(model)


def looks_before_the_sum(model):
    """Each rank skips by its own gradients alone, as they are before the sum that makes all of them infinite."""
    found = []
    reduce = ddp_gloo.reduce

    def look(bucket):
        found.append(not bucket.buffer().isfinite().all())
        return reduce(bucket)

    class OwnGradients(torch.amp.GradScaler):
        def unscale_(self, optimizer):
            super().unscale_(optimizer)
            for one in self._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values():
                one.fill_(any(found))
            found.clear()

    ddp_gloo.reduce = look
    ddp_gloo.scaler_of = lambda run, own=ddp_gloo.scaler_of: own(run, rule=OwnGradients)
    return DistributedDataParallel(model)


def as_rank_0(run):
    twin = object.__new__(ddp_gloo.Run)
    twin.__dict__.update(run.__dict__, rank=0, place={**run.place, "data": 0})
    return twin


FAULTS = {function.__name__: function for function in (summed, not_reduced, not_divided, other_rows, looks_before_the_sum)}

if __name__ == "__main__":
    ddp_gloo.main(parallel=FAULTS[sys.argv[1]])
