"""A training program as the job door takes it: tensor parallelism by hand over gloo, after Megatron-LM, and data ranks beside it.

    plumbline check --profile data-parallel --job 'python3 tensor_gloo.py' --filter 'training.job.activations*'
"""
import torch
from torch import distributed, nn

from plumbline_torch_job import Attention, TorchJob


class Copied(torch.autograd.Function):
    """What enters a layer whose parts are on the ranks of a group: its gradient is the sum over them."""

    @staticmethod
    def forward(context, x, group):
        context.group = group
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        return summed(gradient, context.group), None


class Added(torch.autograd.Function):
    """The sum over the ranks of a group, each of which has its gradient."""

    @staticmethod
    def forward(context, part, group):
        return summed(part, group)

    @staticmethod
    def backward(context, gradient):
        return gradient, None


def summed(tensor, group):
    whole = tensor.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(whole, group=group)
    return whole


class PartOfLinear(nn.Module):
    """A tensor rank's part of a linear layer: columns of the transposed weight, or rows, as Megatron-LM names them."""

    def __init__(self, whole, job, is_column):
        super().__init__()
        self.job, self.is_column = job, is_column
        part = lambda tensor, dim: nn.Parameter(tensor.detach().tensor_split(job.sizes["tensor"], dim)[job.place["tensor"]].clone())
        self.weight = part(whole.weight, 0 if is_column else 1)
        self.bias = part(whole.bias, 0) if is_column else nn.Parameter(whole.bias.detach().clone())

    def forward(self, x):
        if self.is_column:
            return nn.functional.linear(self.job.entering(x), self.weight, self.bias)
        return self.job.leaving(nn.functional.linear(x, self.weight), self.bias)


class SplitLayers:
    """Linear layers are split over tensor ranks in pairs, the first by columns and the second by rows; of attention between them
    each rank has its heads."""

    def build(self):
        built = super().build()
        for stage in built if isinstance(built, nn.ModuleList) else [built]:
            for name, layer in list(stage.named_children()):
                if isinstance(layer, nn.Linear):
                    setattr(stage, name, PartOfLinear(layer, self, self.is_column(int(name))))
                elif isinstance(layer, Attention):
                    layer.heads //= self.sizes["tensor"]
        return built

    def is_column(self, number):
        return sum(layer["type"] == "linear" for layer in self.spec["model"]["layer"][:number]) % 2 == 0

    def shard_dim(self, name):
        number, kind = name.split(".")
        if self.spec["model"]["layer"][int(number)]["type"] != "linear":
            return None
        return 0 if self.is_column(int(number)) else 1 if kind == "weight" else None

    def output_dim(self, number):
        """What lies from a layer that is split by columns up to the one that is split by rows is in parts."""
        linear = [at for at, layer in enumerate(self.spec["model"]["layer"][: number + 1]) if layer["type"] == "linear"]
        return -1 if linear and self.is_column(linear[-1]) else None

    def entering(self, x):
        return Copied.apply(x, self.group("tensor"))

    def leaving(self, part, bias):
        return Added.apply(part, self.group("tensor")) + bias


class Tensor(SplitLayers, TorchJob):
    framework = "tensor parallelism by hand"
    axes = ("data", "tensor")
    layers = ("linear", "gelu", "relu", "tanh", "layer_norm", "embedding", "tied_linear", "attention", "add")
    clips = True
    records_activations = True
    reduces_in_backward = False

    def why_unsupported(self):
        ranks = self.sizes["tensor"]
        for layer in self.spec["model"]["layer"]:
            if layer["type"] == "attention" and layer["heads"] % ranks != 0:
                return f"{layer['heads']} heads on {ranks} tensor ranks: this program has as many on each"
        return None if ranks > 1 else "no tensor ranks: this program splits layers"


if __name__ == "__main__":
    Tensor.main()
