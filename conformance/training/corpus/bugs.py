"""The bugs of the corpus: each a right program with the few lines that a framework had wrong, after a public report (bugs.toml).

usage: bugs.py NAME, of a bug or a right program
"""
import contextlib, sys

import numpy
import torch
from torch import distributed, nn
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.nn.parallel import DistributedDataParallel

from programs import PROGRAMS, Amp, Buckets, Ddp, DiLoCo, Fsdp2, Hsdp, LocalSgd, Pipelining, Sharded, Stages, Tensor, Zero, flat, put_back, summed

BUGS = {}


def bug(name):
    """Enters a class under its id in bugs.toml."""
    def enter(made):
        BUGS[name] = made
        return made
    return enter


# ---- DistributedDataParallel

@bug("ddp.no_sync_inverted")
class NoSyncInverted(Ddp):
    """Synchronizes the first micro-batch of a step, and not the last."""

    def accumulation(self):
        is_first, self.seen = getattr(self, "seen", None) != self.current, self.current
        return contextlib.nullcontext() if is_first else self.model.no_sync()


@bug("ddp.sync_set_after_forward")
class SyncSetAfterForward(Ddp):
    """Sets the flag of the last micro-batch between forward and backward; the wrapper needs it before the forward."""

    def accumulation(self):
        return contextlib.nullcontext()

    def forward(self, x):
        out = super().forward(x)
        self.model.require_backward_grad_sync = self.is_last_part
        return out


@bug("ddp.forward_of_the_module")
class ForwardOfTheModule(Ddp):
    """Calls the module in the wrapper, which then reduces nothing."""

    def forward(self, x):
        return self.model.module(x)


@bug("ddp.mean_of_micro_batch_means")
class MeanOfMicroBatchMeans(Ddp):
    """Each micro-batch counts as much as the others, however much of it is padding."""

    def share_of_a_part(self):
        return 1 / self.parts_of_a_step


@bug("ddp.mean_of_rank_means")
class MeanOfRankMeans(Ddp):
    """The weight of a step's rows is that of the rank's own rows, which is not added up over the ranks."""

    def weight_of_step(self, step):
        return self.sizes["data"] * sum(weights.sum() for weights in self.weights_of_batches(step))


@bug("ddp.tokens_of_all_then_averaged")
class TokensOfAllThenAveraged(Ddp):
    """A rank's share is that of all ranks' rows, as if gradients were summed over the ranks; they are averaged."""

    def share_of_a_weight(self):
        return 1 / self.weight_of_step(self.current)


@bug("pipelining.tokens_after_the_backward")
class TokensAfterTheBackward(Pipelining):
    """The schedule propagates weighted sums back; only the loss is divided by the weight of the rows."""

    def share_of_a_weight(self):
        return self.sizes["data"]


@bug("ddp.local_rank_for_rank")
class LocalRankForRank(Ddp):
    """Takes the rows of its rank on the node, as if all nodes of two ranks were the first."""

    def micro_batches(self, step):
        own, self.place = self.place, {**self.place, "data": self.place["data"] % 2}
        yield from super().micro_batches(step)
        self.place = own


@bug("ddp.sampler_seed_by_rank")
class SamplerSeedByRank(Ddp):
    """Each rank takes its slice of a permutation of its own."""

    def __init__(self):
        super().__init__()
        order = numpy.random.default_rng(self.rank).permutation(self.spec["run"]["global_batch"])
        self.batches = {name: rows[:, order] for name, rows in self.batches.items()}


@bug("ddp.parameter_replaced")
class ParameterReplaced(Ddp):
    """A parameter that is replaced after wrapping has none of the wrapper's hooks."""

    def wrap(self, model):
        parallel = DistributedDataParallel(model, find_unused_parameters=True)
        model[-1].weight = nn.Parameter(model[-1].weight.detach().clone())
        return parallel


@bug("ddp.zeroed_each_micro_batch")
class ZeroedEachMicroBatch(Ddp):
    """Gradients are set to zero before each micro-batch."""

    def accumulation(self):
        self.model.zero_grad()
        return super().accumulation()


@bug("ddp.never_zeroed")
class NeverZeroed(Ddp):
    """A step adds its gradients to those of the step before."""

    def forward_backward(self, step):
        for parameter, gradient in getattr(self, "old", []):
            parameter.grad = gradient
        losses = super().forward_backward(step)
        self.old = [(parameter, parameter.grad.clone()) for parameter in self.module.parameters()]
        return losses


@bug("ddp.static_graph_syncs_once")
class StaticGraphSyncsOnce(Ddp):
    """From the second step on no backward is taken for a synchronized one."""

    def accumulation(self):
        return super().accumulation() if self.current == 0 or self.parts_of_a_step == 1 else self.model.no_sync()


@bug("ddp.divided_twice_by_accumulation")
class DividedTwiceByAccumulation(Ddp):
    """The training loop divides the loss by the number of its parts, and so does the library's backward."""

    def share_of_a_part(self):
        return super().share_of_a_part() / self.parts_of_a_step


@bug("ddp.prescaled_by_pool")
class PrescaledByPool(Ddp):
    """Each rank divides by the size of its pool, the first two ranks, to survive an average that is over all ranks."""

    def share_of_a_part(self):
        return super().share_of_a_part() * self.world / (2 if self.rank < 2 else self.world - 2) / 2


@bug("ddp.adam_counts_parameters")
class AdamCountsParameters(Ddp):
    """Adam's step counter rises with each parameter in place of each step."""

    def update(self):
        states = self.optimizer.state.values()
        for number, state in enumerate(states):
            state["step"].fill_(self.current * len(states) + number)
        super().update()


@bug("ddp.adam_stays_at_one")
class AdamStaysAtOne(Ddp):
    """Adam's step counter does not rise, so that each bias correction is that of the first step."""

    def update(self):
        for state in self.optimizer.state.values():
            state["step"].zero_()
        super().update()


# ---- data parallelism by hand

@bug("buckets.unequal_start")
class UnequalStart(Buckets):
    """Ranks draw initial weights with seeds of their own, and nothing makes them equal."""

    def build(self):
        module = super().build()
        torch.manual_seed(self.rank)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.01)
        return module


@bug("buckets.never_reduced")
class NeverReduced(Buckets):
    """Ranks start from equal weights, and use gradients of their own."""

    def reduce(self):
        pass


@bug("buckets.only_the_last")
class OnlyTheLast(Buckets):
    """The loop over buckets uses a variable that an earlier loop left, the last bucket."""

    def reduce(self):
        buckets = self.buckets()
        for _ in buckets:
            self.reduce_bucket(buckets[-1])


@bug("buckets.stale_view")
class StaleView(Buckets):
    """A communication hook's result takes the place of the bucket, and later gradients are not copied into it."""

    def reduce_bucket(self, bucket):
        kept = self.__dict__.setdefault("results", {})
        place = len(bucket), bucket[0].shape
        kept[place] = self.averaged(kept[place] if self.current >= 2 else flat(bucket))
        put_back(kept[place], bucket)


@bug("buckets.rebuild_loses")
class RebuildLoses(Buckets):
    """Buckets are laid out anew after the first backward, and what they had gathered is lost."""

    def accumulation(self):
        if self.current == 0 and self.gradients() and not getattr(self, "is_rebuilt", False):
            self.is_rebuilt = True
            self.module.zero_grad()
        return super().accumulation()


@bug("buckets.reduced_too_early")
class ReducedTooEarly(Buckets):
    """The overlapped reduction begins with the first micro-batch, and the gradients of the others stay local."""

    def accumulation(self):
        if self.gradients() and getattr(self, "reduced_in", None) != self.current:
            self.reduced_in = self.current
            super().reduce()
        return super().accumulation()

    def reduce(self):
        if self.parts_of_a_step == 1:
            super().reduce()


@bug("buckets.copy_is_reduced")
class CopyIsReduced(Buckets):
    """A transposed gradient is made contiguous, which copies it; the copy is reduced, and the original used."""

    def reduce_bucket(self, bucket):
        for gradient in bucket:
            self.averaged(gradient.transpose(0, -1).contiguous())


@bug("buckets.last_item_dropped")
class LastItemDropped(Buckets):
    """The loader of accumulated batches loses the last one of an epoch."""

    def micro_batches(self, step):
        parts = list(super().micro_batches(step))
        yield from parts[:-1] if step == self.steps - 1 else parts


@bug("buckets.divides_what_is_accumulated")
class DividesWhatIsAccumulated(Buckets):
    """With each micro-batch's reduction what was accumulated before is divided, in place of what is new."""

    def accumulation(self):
        if self.gradients():
            self.add_reduced()
        return super().accumulation()

    def add_reduced(self):
        new = flat(self.gradients().values())
        distributed.all_reduce(new)
        self.gathered = new + (self.gathered / self.world if hasattr(self, "gathered") else 0)
        self.module.zero_grad(set_to_none=False)

    def reduce(self):
        self.add_reduced()
        put_back(self.gathered, self.gradients().values())
        del self.gathered


# ---- FSDP

@bug("fsdp2.loss_already_global")
class LossAlreadyGlobal(Fsdp2):
    """The loss is divided by what all ranks have, though FSDP averages over them."""

    def share_of_a_part(self):
        return super().share_of_a_part() / self.world


@bug("fsdp2.optimizer_of_other_parameters")
class OptimizerOfOtherParameters(Fsdp2):
    """The optimizer was made before the model was sharded: it has the parameters that were there before."""

    def make_optimizer(self, parameters):
        return super().make_optimizer(list(self.build().parameters()))


@bug("hsdp.replicas_start_apart")
class ReplicasStartApart(Hsdp):
    """Shards are drawn with a seed for each replica."""

    def wrap(self, model):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 + 0.01 * (self.rank // 2))
        return super().wrap(model)


@bug("hsdp.last_micro_batch_only")
class LastMicroBatchOnlyInReplicas(Hsdp):
    """Each backward of a step is taken for its last one, and the next clears what it has left."""

    def accumulation(self):
        self.model.zero_grad()
        return contextlib.nullcontext()


# ---- ZeRO

@bug("zero.momentum_lost_on_resume")
class MomentumLostOnResume(Zero):
    """A resumed run has a fresh optimizer: loading fills no state that does not exist yet."""

    def between_steps(self):
        if self.current == 2:
            self.optimizer = self.make_optimizer([parameter for _, parameter in self.named_parameters()])


@bug("zero.skips_broadcast_of_some")
class SkipsBroadcastOfSome(Zero):
    """After the step each rank keeps its own matrices: those that a library replaced are left out of the broadcast."""

    def update(self):
        owner_of = {parameter: rank for rank, groups in enumerate(self.optimizer._partition_parameters()) for group in groups for parameter in group["params"]}
        before = {parameter: parameter.detach().clone() for parameter in owner_of}
        super().update()
        for parameter, rank in owner_of.items():
            if parameter.dim() > 1 and rank != self.rank:
                parameter.data.copy_(before[parameter])


@bug("zero.frozen_not_in_checkpoint")
class FrozenNotInCheckpoint(Zero):
    """A resumed run draws weights, and loads those that the optimizer had: of what is frozen there is nothing to load."""

    def between_steps(self):
        if self.current == 2:
            torch.manual_seed(1)
            for name, parameter in self.named_parameters():
                if name in self.frozen:
                    parameter.data.copy_(torch.randn_like(parameter) * 0.1)


@bug("sharded.step_at_start")
class StepAtStart(Sharded):
    """The optimizer makes a step with zero gradients when it is set up, and counts it."""

    def make_optimizer(self, parameters):
        optimizer = super().make_optimizer(parameters)
        self.shard.grad = torch.zeros_like(self.shard)
        optimizer.step()
        return optimizer


@bug("sharded.wrong_partition")
class WrongPartition(Sharded):
    """What is copied back after the step is the partition of another rank, so that only a part is trained."""

    def update(self):
        before = self.padded(self.parameters)
        super().update()
        part = len(before) // self.world
        put_back(torch.cat([self.padded(self.parameters)[:part], before[part:]]), self.parameters)


@bug("sharded.last_micro_batch_only")
class LastMicroBatchOnly(Sharded):
    """Each backward is taken for the last one of a step, and empties what was accumulated."""

    def accumulation(self):
        self.module.zero_grad()
        return super().accumulation()


@bug("sharded.gather_buffer_not_zeroed")
class GatherBufferNotZeroed(Sharded):
    """Values are gathered into the buffer of gradients, and the next backward adds to what is left there."""

    def reduce(self):
        whole = self.padded(self.gradients().values())
        put_back(whole + self.padded(self.parameters) if self.current > 0 else whole, self.gradients().values())
        super().reduce()


@bug("sharded.not_divided")
class NotDivided(Sharded):
    """Without accumulation the division by the number of ranks is on a buffer that holds nothing yet."""

    def scattered(self, whole):
        return super().scattered(whole) * (self.world if self.parts_of_a_step == 1 else 1)


# ---- 16 bits

@bug("ddp.master_weights_ignored")
class MasterWeightsIgnored(Ddp):
    """The optimizer keeps no float32 weights for bfloat16: each step ends in a rounding."""

    dtypes = ("bfloat16",)

    def update(self):
        super().update()
        for _, parameter in self.named_parameters():
            parameter.data.copy_(parameter.data.to(self.dtype))


@bug("ddp.masters_rebuilt_on_resume")
class MastersRebuiltOnResume(Ddp):
    """A resumed run makes its float32 weights from the 16-bit ones."""

    dtypes = ("bfloat16", "float16")

    def between_steps(self):
        if self.current == 3:
            for _, parameter in self.named_parameters():
                parameter.data.copy_(parameter.data.to(self.dtype))


@bug("ddp.masters_not_loaded")
class MastersNotLoaded(Ddp):
    """The pretrained weights are loaded into the 16-bit parameters; the first step updates float32 weights that were drawn at random."""

    dtypes = ("bfloat16", "float16")

    def update(self):
        if self.current == 0:
            torch.manual_seed(1)
            for _, parameter in self.named_parameters():
                parameter.data.copy_(torch.randn_like(parameter) * 0.1)
        super().update()


class Found:
    """A scaler that skips by what `is_found` says of each parameter's gradient."""

    def unscale_(self, optimizer):
        super().unscale_(optimizer)
        gradients = [parameter.grad for group in optimizer.param_groups for parameter in group["params"]]
        for one in self._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values():
            one.fill_(float(self.is_found(gradients)))


class Chosen:
    """A program whose scaler is of the class `Scaler`."""

    def make_scaler(self, **settings):
        return self.Scaler(self.device.type, **settings)


@bug("amp.looks_at_one_gradient")
class LooksAtOneGradient(Chosen, Amp):
    """The search for overflows goes over the rows of the optimizer's first gradient, here that of the last layer, in place of all gradients."""

    class Scaler(Found, ShardedGradScaler):
        def is_found(self, gradients):
            return not gradients[0].isfinite().all()

    def make_optimizer(self, parameters):
        return super().make_optimizer(parameters[::-1])


@bug("tensor.decides_alone")
class DecidesAlone(Chosen, Tensor):
    """Each rank decides whether to skip by the gradients that it has."""

    Scaler = torch.amp.GradScaler


@bug("ddp.decides_before_the_sum")
class DecidesBeforeTheSum(Chosen, Ddp):
    """Each replica decides by its gradients as they are before the sum."""

    class Scaler(Found, torch.amp.GradScaler):
        seen = []

        def is_found(self, gradients):
            found = any(self.seen)
            self.seen.clear()
            return found

    def wrap(self, model):
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

        def look(state, bucket):
            self.Scaler.seen.append(not bucket.buffer().isfinite().all())
            return allreduce_hook(None, bucket)

        parallel = super().wrap(model)
        parallel.register_comm_hook(None, look)
        return parallel


@bug("amp.divides_by_new_scale")
class DividesByNewScale(Chosen, Amp):
    """The scale grows before gradients are divided by it."""

    class Scaler(ShardedGradScaler):
        def unscale_(self, optimizer):
            if self._get_growth_tracker() + 1 == self.get_growth_interval():
                for group in optimizer.param_groups:
                    for parameter in group["params"]:
                        parameter.grad.div_(self.get_growth_factor())
            super().unscale_(optimizer)


@bug("amp.first_overflow_forgiven")
class FirstOverflowForgiven(Chosen, Amp):
    """With a hysteresis of two the scale is reported as reduced after the first overflow, and is what it was."""

    class Scaler(ShardedGradScaler):
        overflows = 0

        def update(self, new_scale=None):
            before = self.get_scale()
            super().update(new_scale)
            if self.get_scale() < before:
                self.overflows += 1
                if self.overflows == 1:
                    self._scale.fill_(before)


@bug("amp.scaler_not_restored")
class ScalerNotRestored(Amp):
    """A resumed run's scaler has counted a step that loading made, and has grown."""

    def between_steps(self):
        if self.current == 4 and self.scaler.is_enabled():
            self.scaler._scale.mul_(self.scaler.get_growth_factor())
            self.scaler._growth_tracker.zero_()


# ---- clipping

@bug("pipelining.clips_by_stage")
class ClipsByStage(Pipelining):
    """Each stage clips by the norm of its own gradients."""

    def norm_over(self, norm, order, group):
        return norm


@bug("tensor.whole_counts_for_each")
class WholeCountsForEach(Tensor):
    """What tensor ranks have whole counts in the norm once for each of them."""

    def counts_in_norm(self, name):
        return True


@bug("tensor.part_left_out_of_norm")
class PartLeftOutOfNorm(Tensor):
    """A parameter that tensor ranks have parts of is not marked as one: only that of the first rank counts in the norm."""

    def counts_in_norm(self, name):
        return super().counts_in_norm(name) and (name != "0.weight" or self.place["tensor"] == 0)


@bug("tensor.whole_clipped_on_one_rank")
class WholeClippedOnOneRank(Tensor):
    """Only the first tensor rank clips what all of them have whole, and the copies part."""

    def multiply_gradients(self, factor):
        for name, parameter in self.named_parameters():
            if self.counts_in_norm(name):
                parameter.grad.mul_(factor)


@bug("tensor.tensor_group_decides")
class TensorGroupDecides(Tensor):
    """Tensor ranks agree on an overflow, and stages of a pipeline do not."""

    def make_scaler(self, **settings):
        return ShardedGradScaler(self.device.type, process_group=self.group("tensor"), **settings)


# ---- torch.distributed.pipelining

@bug("pipelining.rescales_what_is_accumulated")
class RescalesWhatIsAccumulated(Pipelining):
    """Each call of a step divides the gradients of all calls so far."""

    def wrap(self, model):
        step = super().wrap(model)
        step.__self__.scale_grads = True
        return step

    def share_of_a_part(self):
        return 1 / self.spec["run"]["accumulation"]


@bug("pipelining.sums_micro_batches")
class SumsMicroBatches(Pipelining):
    """Gradients are added over micro-batches, and averaged over nothing."""

    def share_of_a_part(self):
        return 1


@bug("pipelining.labels_of_another_batch")
class LabelsOfAnotherBatch(Pipelining):
    """The last stage compares the output of a micro-batch to the labels of the next."""

    def batches_of(self, step):
        for x, y in super().batches_of(step):
            yield x, y.roll(-(len(y) // self.spec["run"]["micro_batches"]), 0)


@bug("pipelining.weight_half_unscaled")
class WeightHalfUnscaled(Pipelining):
    """The half of a split backward that makes weight gradients lacks the loss's factor."""

    def forward_backward(self, step):
        losses = super().forward_backward(step)
        if self.spec["run"]["schedule"] in ("zbv", "interleaved-zb"):
            for name, gradient in self.gradients().items():
                if name.endswith(".weight"):
                    gradient.div_(self.share_of_a_part())
        return losses


@bug("pipelining.shared_counted_twice")
class SharedCountedTwice(Pipelining):
    """With a split backward a weight that two layers share gets its gradient twice."""

    def forward_backward(self, step):
        losses = super().forward_backward(step)
        for name in {f"{layer['with']}.weight" for layer in self.spec["model"]["layer"] if layer["type"] == "tied_linear"} & {*self.gradients()}:
            self.gradients()[name].mul_(2)
        return losses


@bug("pipelining.reset_wipes_gradients")
class ResetWipesGradients(Pipelining):
    """Stages that are set up again for another shape lose what they have accumulated."""

    def batches_of(self, step):
        for x, y in super().batches_of(step):
            for parameter in self.module.parameters():
                parameter.grad = None
            yield x, y


@bug("pipelining.divided_by_world")
class DividedByWorld(Pipelining):
    """The sum over data ranks is divided by the number of all ranks."""

    def reduce(self):
        super().reduce()
        for gradient in self.gradients().values():
            gradient.mul_(self.sizes["data"] / self.world)


@bug("pipelining.last_stage_never_reduces")
class LastStageNeverReduces(Pipelining):
    """The last stage has no backward in the phase that turns the reduction on."""

    def average_gradients(self, group):
        if not self.has_last_stage:
            super().average_gradients(group)


# ---- a pipeline by hand

@bug("stages.scaled_at_each_stage")
class ScaledAtEachStage(Stages):
    """Each stage divides by the number of micro-batches, where the loss has been divided already."""

    def received(self, rank):
        tensor = super().received(rank)
        return tensor * self.share_of_a_part() if rank == self.next else tensor


@bug("stages.last_micro_batch_stays_local")
class LastMicroBatchStaysLocal(Stages):
    """The reduction over data ranks runs before the last micro-batch is added."""

    def backward_part(self, given, out):
        self.early = [gradient.clone() for gradient in self.gradients().values()]
        super().backward_part(given, out)

    def reduce(self):
        self.sum_tied_gradients()
        whole = flat(self.gradients().values())
        put_back(flat(self.early), self.gradients().values())
        self.average_gradients(self.group("data"))
        put_back(flat(self.gradients().values()) + whole - flat(self.early), self.gradients().values())


@bug("stages.input_gradient_accumulates")
class InputGradientAccumulates(Stages):
    """A stage's input buffer keeps its gradient from step to step, and the next one is added to it."""

    def forward_backward(self, step):
        self.old, self.new = getattr(self, "new", []), []
        return super().forward_backward(step)

    def backward_part(self, given, out):
        if self.before is not None and self.old:
            given.grad = self.old[len(self.new)].clone()
        super().backward_part(given, out)
        self.new.append(given.grad)


@bug("stages.tied_never_reduced")
class TiedNeverReduced(Stages):
    """Stages that have copies of an embedding update them with gradients of their own."""

    def sum_tied_gradients(self):
        pass


@bug("stages.tied_reduced_twice")
class TiedReducedTwice(Stages):
    """The gradient of a shared weight is added up twice."""

    def sum_tied_gradients(self):
        super().sum_tied_gradients()
        super().sum_tied_gradients()


@bug("stages.tied_group_lacks_middle")
class TiedGroupLacksMiddle(Stages):
    """The group of a shared weight is its first and its last stage, though one between them has it, too."""

    def pipeline_ranks_of_tied(self, owner):
        stages = super().pipeline_ranks_of_tied(owner)
        return [stages[0], stages[-1]]


@bug("stages.tied_written_late")
class TiedWrittenLate(Stages):
    """The last micro-batch's gradient of a shared weight is computed after the reduction."""

    def backward_part(self, given, out):
        self.early = {name: gradient.clone() for name, gradient in self.gradients().items()}
        super().backward_part(given, out)

    def sum_tied_gradients(self):
        own = {name: self.gradients()[name] for name in self._tied_groups() if name in self.gradients()}
        late = {name: gradient - self.early[name] for name, gradient in own.items()}
        for name, gradient in own.items():
            gradient.copy_(self.early[name])
        super().sum_tied_gradients()
        for name, gradient in own.items():
            gradient.add_(late[name])


@bug("stages.second_use_overwrites")
class SecondUseOverwrites(Stages):
    """A weight that is used twice in a stage gets the gradient of one use."""

    def wrap(self, model):
        model = super().wrap(model)
        for module in model:
            if type(module).__name__ == "TiedLinear":
                used = module.forward
                module.forward = lambda x, of=module: nn.functional.linear(x, of.weight.detach()) if self.is_twice(of, model) else used(x)
        return model

    @staticmethod
    def is_twice(module, model):
        return sum(getattr(other, "weight", None) is module.weight for other in model) > 1


# ---- tensor parallelism by hand

@bug("tensor.bias_added_by_each")
class BiasAddedByEach(Tensor):
    """Each tensor rank adds the bias to its part, and the parts are added up."""

    def leaving(self, part, bias):
        return super().leaving(part + bias, 0)


@bug("tensor.share_of_bias_scales_gradient")
class ShareOfBiasScalesGradient(Tensor):
    """Each tensor rank adds its share of the bias, and differentiates that division, too."""

    def leaving(self, part, bias):
        return super().leaving(part + bias / self.sizes["tensor"], 0)


@bug("tensor.copy_of_gradient_reduced")
class CopyOfGradientReduced(Tensor):
    """The gradient of what enters a layer is reduced in a copy, and returned as it was."""

    def entering(self, x):
        return x


@bug("tensor.gradient_reduced_twice")
class GradientReducedTwice(Tensor):
    """The gradient of what enters a layer is reduced by the layer and by what is before it."""

    def entering(self, x):
        return super().entering(super().entering(x))


@bug("tensor.replicated_reduced_again")
class ReplicatedReducedAgain(Tensor):
    """Gradients that each tensor rank has in full are reduced over tensor ranks."""

    def reduce(self):
        super().reduce()
        for name, gradient in self.gradients().items():
            if self.shard_dim(name) is None:
                gradient.copy_(summed(gradient, self.group("tensor")))


# ---- averaging of parameters

@bug("localsgd.period_counts_parameters")
class PeriodCountsParameters(LocalSgd):
    """The averager is called for each parameter, and counts each call as a step."""

    def average(self, step):
        for parameter in self.module.parameters():
            self.averager.average_parameters(iter([parameter]))


@bug("diloco.outer_step_backwards")
class OuterStepBackwards(DiLoCo):
    """The outer gradient is what the values changed by, whose opposite an optimizer goes along."""

    def pseudo_gradient(self, parameter, outer):
        return parameter - outer


if __name__ == "__main__":
    name = " ".join(sys.argv[1:])
    known = {**PROGRAMS, **BUGS}
    if name not in known:
        print(f"bugs.py: '{name}' is no bug and no program; it must be one of {', '.join(known)}", file=sys.stderr)
        sys.exit(2)
    known[name].main()
