"""A training program as the job door takes it: experts on several data ranks by hand over gloo, after GShard and Megatron-LM.

    plumbline check --profile data-parallel --job 'python3 expert_gloo.py' --filter 'training.job.expert_ranks*'
"""
import torch
from torch import distributed

from plumbline_torch_job import Moe, TorchJob


class Exchanged(torch.autograd.Function):
    """Rows in blocks of to[r] for each rank r of a group become those of from_[r] that come from each; gradients travel back."""

    @staticmethod
    def forward(context, rows, to, from_, group):
        context.way = (from_, to, group)
        return exchanged(rows, to, from_, group)

    @staticmethod
    def backward(context, gradient):
        return exchanged(gradient, *context.way), None, None, None


def exchanged(rows, to, from_, group):
    out = rows.new_empty(sum(from_), *rows.shape[1:])
    distributed.all_to_all_single(out, rows.contiguous(), from_, to, group=group)
    return out


class SpreadMoe(Moe):
    """Each rank of a group has some of the experts: tokens travel to theirs, and the outputs back."""

    def __init__(self, of, own, group):
        super().__init__(of, own)
        self.own, self.group = own, group

    def mixed(self, tokens, chosen, gates):
        ranks = self.experts // len(self.own)
        order = chosen.flatten().argsort(stable=True)  # by expert, and so by rank
        rows = order // self.top_k
        counts = torch.bincount(chosen.flatten(), minlength=self.experts)
        sizes = exchanged(counts, [len(self.own)] * ranks, [len(self.own)] * ranks, self.group).view(ranks, -1)  # [rank, own expert]
        to, from_ = counts.view(ranks, -1).sum(1).tolist(), sizes.sum(1).tolist()
        arrived = Exchanged.apply(tokens[rows], to, from_, self.group)
        experts = torch.arange(len(self.own)).repeat(ranks).repeat_interleave(sizes.flatten())  # of each row that arrived
        made = torch.zeros_like(arrived)
        for at, number in enumerate(self.own):  # also without rows, so that every expert has a gradient, and all ranks the same calls
            here = torch.nonzero(experts == at).flatten()
            made = made.index_add(0, here, self.expert(number, arrived[here]))
        returned = Exchanged.apply(made, from_, to, self.group)
        return torch.zeros_like(tokens).index_add(0, rows, returned * gates.flatten()[order, None])


class Expert(TorchJob):
    framework = "expert parallelism by hand"
    spreads_experts = True
    reduces_in_backward = False

    def why_unsupported(self):
        return None if self.expert_ranks > 1 else "no expert ranks: this program spreads experts"

    def make_layer(self, of):
        return SpreadMoe(of, self.own_experts(of["experts"]), self.group("expert")) if of["type"] == "moe" else super().make_layer(of)

    def reduce(self):
        """A rank's gradient of an expert is a sum over the tokens of all ranks of its group: the ranks with the same experts add theirs up.
        Each rank's loss is the mean over its own rows, so all are divided by the number of data ranks."""
        for name, gradient in self.gradients().items():
            distributed.all_reduce(gradient, group=self.group("expert_data" if self.is_expert(name) else "data"))
            gradient.div_(self.divisor(name))

    def is_expert(self, name):
        return name.split(".")[1] in ("up", "down")

    def divisor(self, name):
        return self.sizes["data"]


if __name__ == "__main__":
    Expert.main()
