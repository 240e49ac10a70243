"""The sample programs with one fault each, as programs have had them: the checks must find it and name it.

usage: faulty.py PROGRAM.FAULT
"""
import contextlib, difflib, sys

import torch
from torch.nn.parallel import DistributedDataParallel

from amp_gloo import Amp
from ddp_gloo import Ddp
from diloco_gloo import DiLoCo
from expert_gloo import Expert
from fsdp2_gloo import Fsdp2
from localsgd_gloo import LocalSgd
from pipelining_gloo import Pipelining
from plumbline_torch_job import LOSSES, Attention, Moe, TiedLinear
from sgp_gloo import Sgp
from slowmo_gloo import SlowMo
from tensor_gloo import Tensor
from zero_gloo import Zero


class OwnLoss(Ddp):
    """The loss is a function of its own, and twice what it must be."""

    def loss_of(self, out, y):
        return 2 * LOSSES[self.spec["loss"]["type"]](out, y)


class Summed(Ddp):
    """Gradients are added over the ranks, and not divided."""

    def wrap(self, model):
        def add(state, bucket):
            work = torch.distributed.all_reduce(bucket.buffer(), async_op=True)
            return work.get_future().then(lambda future: future.value()[0])

        parallel = DistributedDataParallel(model)
        parallel.register_comm_hook(None, add)
        return parallel


class NotReduced(Ddp):
    """The gradient of one parameter stays each rank's own."""

    def wrap(self, model):
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ["0.bias"])
        return DistributedDataParallel(model)


class NotDivided(Ddp):
    """The parts of a step are added, and not averaged."""

    def share_of_a_part(self):
        return 1


class MeanOfMeans(Ddp):
    """Each micro-batch counts as much as the others, however many rows of it are padding."""

    def share_of_a_part(self):
        return 1 / self.parts_of_a_step


class OwnWeights(Ddp):
    """Each rank divides by the weight of its own rows, and gradients are averaged over the ranks."""

    def weight_of_step(self, step):
        return self.sizes["data"] * sum(weights.sum() for weights in self.weights_of_batches(step))


class SchedulesFirst(Ddp):
    """The scheduler is stepped before the optimizer, so that each step has the learning rate of the next one."""

    def update(self):
        self.scheduler.step()
        super().update()

    def step_scheduler(self):
        pass


class CountsMicroBatches(Ddp):
    """The warm-up counts micro-batches, and is over too soon."""

    def rate_factor(self, step):
        warmup = self.spec["lr_schedule"]["warmup_steps"]
        return min(1.0, step * self.parts_of_a_step / warmup) if step < warmup else super().rate_factor(step)


class DecaysAll(Zero):
    """The optimizer has one group, whose weight decay leaves out nothing."""

    def parameter_groups(self):
        return [parameter for _, parameter in self.named_parameters()]


class DecaysNorms(Ddp):
    """Weight decay leaves out what is called a bias, and not the weights of normalizations."""

    def parameter_groups(self):
        named = list(self.named_parameters())
        return [{"params": [parameter for name, parameter in named if not name.endswith("bias")]},
                {"params": [parameter for name, parameter in named if name.endswith("bias")], "weight_decay": 0.0}]


class FreezesByZeros(Ddp):
    """Gradients of frozen parameters are zeroed, and weight decay and momentum change what should stay."""

    def freeze(self, module):
        pass

    def parameter_groups(self):
        return [parameter for _, parameter in self.named_parameters()]

    def update(self):
        for name, parameter in self.named_parameters():
            if name in self.frozen:
                parameter.grad.zero_()
        super().update()


class Thaws(Zero):
    """What was frozen trains again from the second step on, by each rank's own gradients."""

    def parameter_groups(self):
        return [parameter for _, parameter in self.named_parameters()]

    def between_steps(self):
        self.module.requires_grad_(True)


class OwnReplica(Fsdp2):
    """Gradients are the mean over the ranks of each replica, and not reduced over the replicas."""

    def mesh_of_shards(self):
        return super().mesh_of_shards()["shard"]


class SumsReplicas(Fsdp2):
    """Gradients are divided by the number of shards alone."""

    def share_of_a_part(self):
        return super().share_of_a_part() * self.replicas


class LosesMoments(Fsdp2):
    """A checkpoint gives back the parameters, and the optimizer starts without state."""

    def load(self, folder):
        super().load(folder)
        self.optimizer.state.clear()


class JoinsInOtherOrder(Fsdp2):
    """The shards of a checkpoint are joined from the second on, and then the first."""

    def load(self, folder):
        super().load(folder)
        with torch.no_grad():
            for _, parameter in self.named_parameters():
                shard = -(-parameter.shape[0] // self.world)
                parameter.copy_(torch.distributed.tensor.distribute_tensor(parameter.full_tensor().roll(-shard, 0), parameter.device_mesh, parameter.placements))


class CountsStepsAgain(Ddp):
    """The optimizer counts its steps from 0 after a checkpoint."""

    def load(self, folder):
        super().load(folder)
        for state in self.optimizer.state.values():
            state["step"].zero_()


class SchedulesAgain(Ddp):
    """The learning-rate schedule starts again after a checkpoint."""

    def load(self, folder):
        super().load(folder)
        self.scheduler = self.make_scheduler(self.optimizer)


class ForgetsScale(Ddp):
    """The loss scale is not in the checkpoint."""

    def state_to_keep(self):
        kept = super().state_to_keep()
        kept.pop("scaler", None)
        return kept


class FirstRowsAgain(Ddp):
    """The data loader starts with the first batch after a checkpoint."""

    def micro_batches(self, step):
        yield from super().micro_batches(step - self.first_step)


class SeesLaterTokens(Ddp):
    """Attention lacks its causal mask."""

    def build(self):
        built = super().build()
        for layer in built:
            if isinstance(layer, Attention):
                layer.is_causal = False
        return built


class WrongAttention(Ddp):
    """Attention is computed by another formula."""

    def build(self):
        built = super().build()
        for layer in built:
            if isinstance(layer, Attention):
                layer.forward = lambda x, heads=layer.heads: self.attend(*x.unflatten(-1, (heads, 3, -1)).permute(3, 0, 2, 1, 4))
        return built


class NotScaled(WrongAttention):
    """Query times key is not divided by the root of a head's features."""

    def attend(self, query, key, value):
        seen = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=1.0)
        return seen.transpose(1, 2).flatten(2)


class NotSplit(WrongAttention):
    """All heads are one."""

    def attend(self, *of_heads):
        return torch.nn.functional.scaled_dot_product_attention(*(one.transpose(1, 2).flatten(2) for one in of_heads), is_causal=True)


class DetachesHead(Ddp):
    """The head multiplies by the embedding's weight, which does not get its gradient."""

    def build(self):
        built = super().build()
        for layer in built:
            if isinstance(layer, TiedLinear):
                layer.forward = lambda x, layer=layer: torch.nn.functional.linear(x, layer.weight.detach())
        return built


class OtherRows(Ddp):
    """All ranks compute on the rows of rank 0."""

    def micro_batches(self, step):
        own, self.place = self.place, {**self.place, "data": 0}
        yield from super().micro_batches(step)
        self.place = own


class OwnGradients(torch.amp.GradScaler):
    """Skips by what `found` has, which is emptied."""

    found = []

    def unscale_(self, optimizer):
        super().unscale_(optimizer)
        for one in self._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values():
            one.fill_(any(self.found))
        self.found.clear()


class LooksBeforeTheSum(Ddp):
    """Each rank skips by its own gradients alone, as they are before the sum that makes all of them infinite."""

    def wrap(self, model):
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

        def look(state, bucket):
            OwnGradients.found.append(not bucket.buffer().isfinite().all())
            return allreduce_hook(None, bucket)

        parallel = DistributedDataParallel(model)
        parallel.register_comm_hook(None, look)
        return parallel

    def make_scaler(self, **settings):
        return OwnGradients(self.device.type, **settings)


class ReducesFirstOnly(Fsdp2):
    """Gradients are reduced with the first micro-batch of a step, and those of the others stay each rank's own."""

    def accumulation(self):
        self.is_first_part = not getattr(self, "seen", None) == self.current
        self.seen = self.current
        self.model.set_requires_gradient_sync(self.is_first_part)
        return contextlib.nullcontext()


class DividesTwice(Fsdp2):
    """Gradients that FSDP averages are divided by the number of ranks once more."""

    def share_of_a_part(self):
        return super().share_of_a_part() / self.world


class KeepsOwnShard(Zero):
    """Each rank updates its shard of the parameters, and does not send it to the others."""

    def make_optimizer(self, parameters):
        optimizer = super().make_optimizer(parameters)
        optimizer._sync_params = lambda: None
        return optimizer


class ClipsOwnShard(Fsdp2):
    """The norm by which a rank clips is that of its own shards."""

    def total_norm(self):
        shards = [parameter.grad.to_local() for _, parameter in self.named_parameters()]
        return torch.nn.utils.get_total_norm(shards, self.spec["clip"]["norm_type"]).item()


class ClipsByStage(Pipelining):
    """Each stage clips by the norm of its own gradients."""

    def norm_over(self, norm, order, group):
        return norm


class CountsTiedTwice(Pipelining):
    """Both copies of a tied weight count in the norm."""

    def counts_in_norm(self, name):
        return True


class LosesState(Zero):
    """The optimizer starts without its momentum in the middle of the run, as after an incomplete checkpoint."""

    def update(self):
        if self.current == 2:
            self.optimizer = self.make_optimizer([parameter for _, parameter in self.named_parameters()])
        super().update()


class ShiftedTargets(Pipelining):
    """The last stage compares each micro-batch's output to the targets of the one after it."""

    def batches_of(self, step):
        for x, y in super().batches_of(step):
            yield x, y.roll(len(y) // self.spec["run"]["micro_batches"])


class TiedApart(Pipelining):
    """Each stage that has a tied weight uses the gradient of its own use alone."""

    def sum_tied_gradients(self):
        pass


class HeadTwice(Pipelining):
    """After the sum over the stages that have a tied weight, the gradient of the last one is added once more."""

    def sum_tied_gradients(self):
        own = {name: gradient.clone() for name, gradient in self.gradients().items()}
        super().sum_tied_gradients()
        for name, group in self._tied_groups().items():
            head = own[name] if self.has_last_stage else torch.zeros_like(own[name])
            torch.distributed.all_reduce(head, group=group)
            self.gradients()[name].add_(head)


class StepsAnyway(Amp):
    """The optimizer makes a step in spite of an overflow."""

    def update(self):
        self.optimizer.step()
        self.scaler.update()


class NotUnscaled(Amp):
    """The optimizer uses gradients that are still multiplied by the scale."""

    class Scaler(torch.amp.GradScaler):
        def unscale_(self, optimizer):
            before = [parameter.grad.clone() for group in optimizer.param_groups for parameter in group["params"]]
            super().unscale_(optimizer)
            for parameter, gradient in zip((parameter for group in optimizer.param_groups for parameter in group["params"]), before):
                parameter.grad.copy_(gradient)

    def make_scaler(self, **settings):
        return self.Scaler(self.device.type, **settings)


class AveragesPairs(LocalSgd):
    """Ranks average over pairs of ranks, as in a group that was made for nodes."""

    def wrap(self, model):
        super().wrap(model)
        self.averager.process_group = self._group_of({tuple(range(first, min(first + 2, self.world))) for first in range(0, self.world, 2)})
        return model


class AveragesLate(LocalSgd):
    """Each average comes a step late."""

    def wrap(self, model):
        super().wrap(model)
        self.averager.warmup_steps += 1
        return model


class AveragesMomentum(LocalSgd):
    """The optimizer's momentum is averaged with the parameters, and not kept."""

    def average(self, step):
        super().average(step)
        if self.ends_round(step):
            for state in self.optimizer.state.values():
                torch.distributed.all_reduce(state["momentum_buffer"])
                state["momentum_buffer"].div_(self.world)


class ForgetsGradient(LocalSgd):
    """One gradient is not recorded."""

    forgotten = "grad/0.weight"

    def record(self, step, what, value):
        if (step, what) != (3, self.forgotten):
            super().record(step, what, value)


class ForgetsUpdate(ForgetsGradient):
    """What the optimizer made of one parameter is not recorded."""

    forgotten = "updated/0.weight"


class ForgetsSlowMomentum(SlowMo):
    """The slow momentum of the rounds before is lost."""

    def outer_step(self, parameter, begun, slow):
        super().outer_step(parameter, begun, slow.zero_())


class IgnoresSlowRate(SlowMo):
    """The outer step has no learning rate of its own."""

    def outer_step(self, parameter, begun, slow):
        rate = self.optimizer.param_groups[0]["lr"]
        slow.mul_(self.spec["averaging"]["momentum"]).add_(begun - parameter, alpha=1 / rate)
        parameter.copy_(begun - rate * slow)


class WrongSign(DiLoCo):
    """The pseudo-gradient points the way that the parameters went."""

    def pseudo_gradient(self, parameter, outer):
        return parameter - outer


class HeavyBall(DiLoCo):
    """The outer step's momentum is not Nesterov's."""

    def make_outer(self, outer):
        return torch.optim.SGD(self.outer_parameters, lr=outer["lr"], momentum=outer["momentum"])


class ResetsInner(DiLoCo):
    """The inner optimizer loses its state after each round."""

    def average(self, step):
        super().average(step)
        if self.ends_round(step):
            self.optimizer.state.clear()


class NotDividedByWeight(Sgp):
    """Forward passes use the numerators as they are."""

    def estimate(self):
        return contextlib.nullcontext()


class KeepsWeight(Sgp):
    """Push-sum weights stay 1."""

    def take(self, total):
        super().take(torch.cat([torch.ones(1), total[1:]]))


class SendsBack(Sgp):
    """Each rank sends to those from which it should receive."""

    def peers(self, step, rank=None):
        rank = self.rank if rank is None else rank
        return [other for other in range(self.world) if rank in super(SendsBack, self).peers(step, other)]


class AddsWhole(Sgp):
    """A rank adds what comes to its value in whole, and not to its share."""

    def take(self, total):
        own = torch.cat([torch.tensor([self.push_sum_weight]), *(parameter.flatten() for parameter in self.module.parameters())])
        super().take(total + own - own / (len(self.peers(self.current)) + 1))


def make_wrong(model, layer, wrong):
    """From then on the layer's output is what `wrong` makes of its module, inputs and output."""
    model.get_submodule(layer).register_forward_hook(wrong)
    return model


class OffOnOneRank(Ddp):
    """A layer's output is off by a hundredth on rank 1."""

    def build(self):
        return make_wrong(super().build(), "1", lambda layer, inputs, out: out * 1.01 if self.rank == 1 else out)


class LeavesOutLayer(Ddp):
    """A layer puts out what it takes."""

    def build(self):
        return make_wrong(super().build(), "1", lambda layer, inputs, out: inputs[0] * 1)


class StaleOutput(Ddp):
    """A layer has the output of the step before in each step's last micro-batch."""

    def build(self):
        def stale(layer, inputs, out):
            if not self.is_last_part:
                return out
            old, self.old = getattr(self, "old", out.detach()), out.detach()
            return out + (old - out).detach()

        return make_wrong(super().build(), "2", stale)


class DoublesGradient(Ddp):
    """The backward pass of one layer passes on twice the gradient."""

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.view_as(x)

        @staticmethod
        def backward(context, gradient):
            return 2 * gradient

    def build(self):
        built = super().build()
        built.get_submodule("1").register_forward_pre_hook(lambda layer, inputs: self.Doubled.apply(inputs[0]))
        return built


class RecordsElsewhere(Ddp):
    """What is recorded as the first layer's output is that of the second."""

    def layers_in(self, module):
        for number, layer in super().layers_in(module):
            yield number, module.get_submodule("1") if number == 0 else layer


class ReusesInput(Pipelining):
    """The second stage computes each micro-batch but the first on the input of the one before."""

    def build(self):
        built = super().build()
        if 1 in self.stages:
            def reuse(stage, inputs):
                if self.part is None:
                    return inputs  # the stage learns the shapes of its outputs
                old, self.old = getattr(self, "old", None), inputs[0].detach()
                return inputs if old is None else inputs[0] + old - inputs[0].detach()

            (built[self.stages.index(1)] if self.stage_count > 1 else built).register_forward_pre_hook(reuse)
        return built

    def forward_backward(self, step):
        self.__dict__.pop("old", None)
        return super().forward_backward(step)


class NotSummed(Tensor):
    """The parts of a layer that is split by rows are not added up."""

    def leaving(self, part, bias):
        return part + bias


class BiasTwice(Tensor):
    """One tensor rank adds its part of a bias twice."""

    def build(self):
        return make_wrong(super().build(), "0", lambda layer, inputs, out: out + layer.bias if self.place["tensor"] == 1 else out)


class DividesByReplicas(Expert):
    """Gradients of experts are divided by the number of their replicas, and not by that of all data ranks."""

    def divisor(self, name):
        return self.sizes["data"] // (self.expert_ranks if self.is_expert(name) else 1)


class AveragesAllExperts(Expert):
    """Gradients of experts are averaged over all data ranks, which have different experts."""

    def is_expert(self, name):
        return False


def change_mixtures(built, change):
    for layer in built:
        if isinstance(layer, Moe):
            change(layer)
    return built


class DetachesRouter(Expert):
    """The router does not get its gradient: gates are computed apart from the graph."""

    def build(self):
        def detach(layer):
            route = layer.route
            layer.route = lambda tokens: tuple(one.detach() for one in route(tokens))

        return change_mixtures(super().build(), detach)


class OneExpert(Ddp):
    """Each token goes through its first expert alone."""

    def build(self):
        return change_mixtures(super().build(), lambda layer: setattr(layer, "top_k", 1))


class LeavesOutGates(Ddp):
    """Outputs of experts are added as they are."""

    def build(self):
        def leave_out(layer):
            mixed = layer.mixed
            layer.mixed = lambda tokens, chosen, gates: mixed(tokens, chosen, torch.ones_like(gates))

        return change_mixtures(super().build(), leave_out)


class CountsUsers(Ddp):
    """A gradient is averaged over the ranks that have one."""

    reduces_in_backward = False

    def wrap(self, model):
        return model

    def forward_backward(self, step):
        losses = super().forward_backward(step)
        self.used = {name: float(parameter.grad is not None) for name, parameter in self.names_in(self.module)}
        return losses

    def reduce(self):
        for name, gradient in self.gradients().items():
            users = torch.tensor(self.used[name])
            torch.distributed.all_reduce(users)
            torch.distributed.all_reduce(gradient)
            gradient.div_(users.clamp(min=1))


class KeepsUnused(Ddp):
    """What a rank's rows do not use counts with its gradient of the step before."""

    reduces_in_backward = False

    def wrap(self, model):
        return model

    def forward_backward(self, step):
        losses, old = super().forward_backward(step), getattr(self, "old", {})
        for name, parameter in self.names_in(self.module):
            if parameter.grad is None and name in old:
                parameter.grad = old[name].clone()
        self.old = {name: gradient.clone() for name, gradient in self.gradients().items()}
        return losses


class WaitsForUnused(Ddp):
    """Gradients of experts that no token chose are waited for."""

    def wrap(self, model):
        return DistributedDataParallel(model)


FAULTS = {
    "expert.divides_by_replicas": DividesByReplicas, "expert.averages_all": AveragesAllExperts, "expert.detaches_router": DetachesRouter,
    "ddp.one_expert": OneExpert, "ddp.leaves_out_gates": LeavesOutGates,
    "ddp.counts_users": CountsUsers, "ddp.keeps_unused": KeepsUnused, "ddp.waits_for_unused": WaitsForUnused,
    "ddp.off_on_one_rank": OffOnOneRank, "ddp.leaves_out_layer": LeavesOutLayer, "ddp.stale_output": StaleOutput,
    "ddp.doubles_gradient": DoublesGradient, "ddp.records_elsewhere": RecordsElsewhere, "pipelining.reuses_input": ReusesInput,
    "tensor.not_summed": NotSummed, "tensor.bias_twice": BiasTwice,
    "localsgd.averages_pairs": AveragesPairs, "localsgd.averages_late": AveragesLate, "localsgd.averages_momentum": AveragesMomentum,
    "localsgd.forgets_gradient": ForgetsGradient, "localsgd.forgets_update": ForgetsUpdate,
    "slowmo.forgets_momentum": ForgetsSlowMomentum, "slowmo.ignores_rate": IgnoresSlowRate,
    "diloco.wrong_sign": WrongSign, "diloco.heavy_ball": HeavyBall, "diloco.resets_inner": ResetsInner,
    "sgp.not_divided": NotDividedByWeight, "sgp.keeps_weight": KeepsWeight, "sgp.sends_back": SendsBack, "sgp.adds_whole": AddsWhole,
    "ddp.own_loss": OwnLoss, "ddp.summed": Summed, "ddp.not_reduced": NotReduced, "ddp.not_divided": NotDivided, "ddp.other_rows": OtherRows,
    "ddp.looks_before_the_sum": LooksBeforeTheSum, "ddp.mean_of_means": MeanOfMeans, "ddp.own_weights": OwnWeights,
    "ddp.schedules_first": SchedulesFirst, "ddp.counts_micro_batches": CountsMicroBatches,
    "ddp.decays_norms": DecaysNorms, "zero.decays_all": DecaysAll,
    "ddp.freezes_by_zeros": FreezesByZeros, "zero.thaws": Thaws,
    "fsdp2.clips_own_shard": ClipsOwnShard, "pipelining.clips_by_stage": ClipsByStage, "pipelining.counts_tied_twice": CountsTiedTwice,
    "fsdp2.reduces_first_only": ReducesFirstOnly, "fsdp2.divides_twice": DividesTwice,
    "zero.keeps_own_shard": KeepsOwnShard, "zero.loses_state": LosesState,
    "pipelining.shifted_targets": ShiftedTargets, "pipelining.tied_apart": TiedApart, "pipelining.head_twice": HeadTwice,
    "fsdp2.own_replica": OwnReplica, "fsdp2.sums_replicas": SumsReplicas,
    "fsdp2.loses_moments": LosesMoments, "fsdp2.joins_in_other_order": JoinsInOtherOrder,
    "ddp.counts_steps_again": CountsStepsAgain, "ddp.schedules_again": SchedulesAgain, "ddp.forgets_scale": ForgetsScale,
    "ddp.first_rows_again": FirstRowsAgain,
    "ddp.sees_later_tokens": SeesLaterTokens, "ddp.not_scaled": NotScaled, "ddp.not_split": NotSplit, "ddp.detaches_head": DetachesHead,
    "amp.steps_anyway": StepsAnyway, "amp.not_unscaled": NotUnscaled,
}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in FAULTS:
        given = " ".join(sys.argv[1:])
        meant = difflib.get_close_matches(given, FAULTS, 1)
        print(f"faulty.py: '{given}' is no fault{f'; did you mean {meant[0]}?' if meant else ''}; FAULTS at the end of {__file__} lists them",
              file=sys.stderr)
        sys.exit(2)
    FAULTS[sys.argv[1]].main()
