"""Steps of training in the types of spmd_types (Meta, BSD): right ones, and with the bugs of this corpus that its types can express.

usage: spmd_programs.py

Prints JSON: by the id of a bug, or of a right program, what spmd_types said of it; nothing where it passed. Bugs that are within a
framework's own reduction, between the stages of a pipeline, in an optimizer's state, or in Python's control flow have no types.
Needs torch and spmd_types.
"""
import json, warnings

import spmd_types as spmd
import spmd_types.checker
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh

PROGRAMS = {}


def program(name):
    def enter(made):
        PROGRAMS[name] = made
        return made
    return enter


class Step:
    """R: equal on all ranks, with gradients that are parts of a sum. I: equal, with equal gradients. V: each rank's own. P: parts of a sum."""

    def __init__(self, group):
        self.group = group

    def typed(self, made, shape=(4,), trains=False):
        return spmd.assert_type(torch.randn(*shape).requires_grad_(trains), {self.group: made})

    def as_type(self, tensor, to, source=spmd.V):
        return spmd.reinterpret(tensor, self.group, src=source, dst=to)


# ---- data parallelism by hand

@program("buckets")
class Buckets(Step):
    def run(self):
        parameters, gradients = [self.typed(spmd.R) for _ in range(2)], self.new_gradients()
        self.accumulate(gradients)
        self.reduce(gradients)
        for value, gradient in zip(parameters, gradients):
            value.sub_(gradient, alpha=0.1)

    def new_gradients(self):
        return [self.as_type(self.typed(spmd.V), spmd.P) for _ in range(2)]

    def accumulate(self, gradients):
        for gradient, new in zip(gradients, self.new_gradients()):
            gradient.add_(new)

    def reduce(self, gradients):
        for gradient in gradients:
            distributed.all_reduce(gradient)
            gradient.div_(2)


@program("buckets.never_reduced")
class NeverReduced(Buckets):
    def reduce(self, gradients):
        pass


@program("buckets.only_the_last")
class OnlyTheLast(Buckets):
    def reduce(self, gradients):
        super().reduce(gradients[-1:])


@program("buckets.copy_is_reduced")
class CopyIsReduced(Buckets):
    def reduce(self, gradients):
        super().reduce([gradient.view(2, 2).t().contiguous() for gradient in gradients])


@program("buckets.reduced_too_early")
class ReducedTooEarly(Buckets):
    def accumulate(self, gradients):
        super().reduce(gradients)
        super().accumulate(gradients)

    def reduce(self, gradients):
        pass


@program("buckets.stale_view")
class StaleView(Buckets):
    def reduce(self, gradients):
        super().reduce(gradients)
        super().reduce(gradients)  # the next step: what it reduces is what came of this one


@program("buckets.divides_what_is_accumulated")
class DividesWhatIsAccumulated(Buckets):
    def reduce(self, gradients):
        for gradient, new in zip(gradients, self.new_gradients()):
            for one in (gradient, new):
                distributed.all_reduce(one)
            gradient.div_(2).add_(new)


@program("buckets.unequal_start")
class UnequalStart(Buckets):
    """Ranks draw values of their own. The type of a parameter is what the program says of it."""


@program("ddp.never_zeroed")
class NeverZeroed(Buckets):
    def reduce(self, gradients):
        super().reduce(gradients)
        super().accumulate(gradients)  # the next step adds to what was left


class Loss(Buckets):
    """A loss over the tokens of a rank, whose gradients are averaged."""

    def new_gradients(self):
        self.tokens = self.typed(spmd.V)
        return [self.as_type(self.typed(spmd.V) / self.count(), spmd.P) for _ in range(2)]


@program("ddp.mean_of_rank_means")
class MeanOfRankMeans(Loss):
    def count(self):
        return self.tokens


@program("ddp.tokens_of_all_then_averaged")
class TokensOfAllThenAveraged(Loss):
    def count(self):
        return spmd.all_reduce(self.as_type(self.tokens, spmd.P), self.group, src=spmd.P, dst=spmd.R)


@program("ddp.divided_twice_by_accumulation")
class DividedTwiceByAccumulation(Buckets):
    def reduce(self, gradients):
        super().reduce(gradients)
        for gradient in gradients:
            gradient.div_(2)


@program("sharded")
class Sharded(Step):
    """ZeRO-2."""

    def run(self):
        values, gradient = self.typed(spmd.R), self.gradient()
        part = self.typed(spmd.V, (2,))
        distributed.reduce_scatter_tensor(part, gradient)
        part.div_(self.divisor)
        whole = self.typed(spmd.R)
        distributed.all_gather_into_tensor(whole, self.updated(values, part))
        spmd.assert_type(self.copied_back(values, whole), {self.group: spmd.R})

    divisor = 2

    def gradient(self):
        return self.as_type(self.typed(spmd.V), spmd.P)

    def updated(self, values, part):
        return values[:2] - part

    def copied_back(self, values, whole):
        return whole


@program("sharded.not_divided")
class NotDivided(Sharded):
    divisor = 1


@program("sharded.wrong_partition")
class WrongPartition(Sharded):
    def copied_back(self, values, whole):
        return torch.cat([whole[:2], values[2:]])


@program("sharded.gather_buffer_not_zeroed")
class GatherBufferNotZeroed(Sharded):
    def gradient(self):
        return super().gradient() + self.typed(spmd.R)


@program("zero.skips_broadcast_of_some")
class SkipsBroadcastOfSome(Sharded):
    def copied_back(self, values, whole):
        return self.updated(values, self.typed(spmd.V, (2,)))


# ---- tensor parallelism, as Megatron-LM has it

@program("tensor")
class Tensor(Step):
    """Two linear layers, the first by columns and the second by rows, and what all ranks have whole."""

    of_bias = spmd.I

    def run(self):
        bias, x = self.typed(self.of_bias, trains=True), self.typed(spmd.I, (3, 4), trains=True)
        part = torch.relu(self.entering(x) @ self.typed(spmd.V, (4, 4), trains=True)) @ self.typed(spmd.V, (4, 4), trains=True)
        spmd.assert_type(self.leaving(part, bias), {self.group: spmd.I})
        gradient = self.typed(spmd.P if self.of_bias is spmd.R else spmd.I)  # as its parameter's type has it
        self.norm(self.typed(spmd.V), gradient)
        self.reduce(gradient)
        with torch.no_grad():
            bias.sub_(gradient, alpha=0.1)

    def entering(self, x):
        return spmd.convert(x, self.group, src=spmd.I, dst=spmd.R)

    def added(self, part):
        return spmd.all_reduce(self.as_type(part, spmd.P), self.group, src=spmd.P, dst=spmd.I)

    def leaving(self, part, bias):
        return self.added(part) + bias

    def norm(self, of_parts, of_whole):
        if self.of_bias is spmd.I:
            spmd.assert_type(self.added(of_parts.square().sum()) + of_whole.square().sum(), {self.group: spmd.I})

    def reduce(self, gradient):
        pass


@program("tensor.bias_added_by_each")
class BiasAddedByEach(Tensor):
    def leaving(self, part, bias):
        return self.added(part + bias)


@program("tensor.share_of_bias_scales_gradient")
class ShareOfBiasScalesGradient(Tensor):
    of_bias = spmd.R

    def leaving(self, part, bias):
        return self.added(part + bias / 2)


@program("tensor.copy_of_gradient_reduced")
class CopyOfGradientReduced(Tensor):
    def entering(self, x):
        return x


@program("tensor.gradient_reduced_twice")
class GradientReducedTwice(Tensor):
    def entering(self, x):
        return super().entering(super().entering(x))


@program("tensor.replicated_reduced_again")
class ReplicatedReducedAgain(Tensor):
    def reduce(self, gradient):
        distributed.all_reduce(gradient)


@program("tensor.whole_counts_for_each")
class WholeCountsForEach(Tensor):
    def norm(self, of_parts, of_whole):
        self.added(of_parts.square().sum() + of_whole.square().sum())


@program("tensor.part_left_out_of_norm")
class PartLeftOutOfNorm(Tensor):
    def norm(self, of_parts, of_whole):
        spmd.assert_type(of_parts.square().sum(), {self.group: spmd.I})


def said_of(made, mesh):
    with spmd.set_current_mesh(mesh), spmd.checker.typecheck():
        try:
            made(mesh.get_group()).run()
        except spmd.SpmdTypeError as error:
            return str(error).splitlines()[0]
    return ""


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    distributed.init_process_group(backend="fake", rank=0, world_size=2)
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("ranks",))
    print(json.dumps({name: said_of(made, mesh) for name, made in PROGRAMS.items()}))
