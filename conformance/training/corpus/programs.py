"""Right training programs, as frameworks are built, that the bugs of this corpus are made from: those of the
job door, HSDP, and four by hand.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "harness/subject/job/python"))

import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard

from amp_gloo import Amp
from ddp_gloo import Ddp
from diloco_gloo import DiLoCo
from fsdp2_gloo import Fsdp2
from localsgd_gloo import LocalSgd
from pipelining_gloo import Pipelining
from plumbline_torch_job import TorchJob
from tensor_gloo import SplitLayers, summed
from zero_gloo import Zero


class Buckets(TorchJob):
    """Data parallelism: gradients are put into flat buckets in backward order, added up, divided, and put back."""
    reduces_in_backward = False
    bucket_elements = 500

    def reduce(self):
        for bucket in self.buckets():
            self.reduce_bucket(bucket)

    def buckets(self):
        """Lists of gradients, from the last parameter to the first; one that is full is closed."""
        made, elements = [[]], 0
        for gradient in reversed(list(self.gradients().values())):
            if elements >= self.bucket_elements:
                made.append([])
                elements = 0
            made[-1].append(gradient)
            elements += gradient.numel()
        return made

    def reduce_bucket(self, bucket):
        put_back(self.averaged(flat(bucket)), bucket)

    def averaged(self, whole):
        distributed.all_reduce(whole)
        return whole.div_(self.world)


class Sharded(TorchJob):
    """ZeRO-2: each rank has an equal part of all parameters in a row, reduces and updates it, and gathers the others."""
    reduces_in_backward = False

    def make_optimizer(self, parameters):
        self.parameters = parameters
        self.shard = nn.Parameter(self.padded(parameters).chunk(self.world)[self.rank].clone())
        return super().make_optimizer([self.shard])

    def padded(self, tensors):
        whole = flat(tensors)
        return nn.functional.pad(whole, (0, -len(whole) % self.world))

    def reduce(self):
        self.shard.grad = self.scattered(self.padded(self.gradients().values()))
        put_back(self.gathered(self.shard.grad), self.gradients().values())

    def scattered(self, whole):
        part = torch.empty(len(whole) // self.world)
        distributed.reduce_scatter_tensor(part, whole)
        return part.div_(self.world)

    def gathered(self, part):
        whole = torch.empty(len(part) * self.world)
        distributed.all_gather_into_tensor(whole, part)
        return whole

    def update(self):
        super().update()
        put_back(self.gathered(self.shard.data), self.parameters)


class Hsdp(Fsdp2):
    """FSDP over pairs of ranks, and replicas of such pairs."""

    def why_unsupported(self):
        return None if self.world == 4 else f"{self.world} ranks: this program has two pairs"

    def wrap(self, model):
        mesh = torch.distributed.device_mesh.init_device_mesh(self.device.type, (2, 2), mesh_dim_names=("replicate", "shard"))
        for layer in model:
            if any(True for _ in layer.parameters()):
                fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)


class Stages(TorchJob):
    """A pipeline with a stage a rank, and data ranks beside it: all forwards of a batch, then all backwards."""
    axes = ("pipeline", "data")
    schedules = ("gpipe", "1f1b", "zb-h1", "zb-h2")  # of the same placement; their order does not show in a record
    reduces_in_backward = False

    def why_unsupported(self):
        return None if self.sizes["pipeline"] > 1 else "no pipeline: this program has stages"

    def wrap(self, model):
        stage = self.stages[0]
        self.before = None if stage == 0 else self.rank_at(self.rank, pipeline=stage - 1)
        self.next = None if self.has_last_stage else self.rank_at(self.rank, pipeline=stage + 1)
        return model[0]

    def forward_backward(self, step):
        losses = []
        for batch, (x, y) in enumerate(self.batches_of(step)):
            parts = self.spec["run"]["micro_batches"]
            done = []
            for part in zip(x.chunk(parts), y.chunk(parts)):
                self.part = batch * parts + len(done)
                done.append(self.forward_part(*part, losses))
            for given, out in done:
                self.backward_part(given, out)
        return losses

    def forward_part(self, x, y, losses):
        given = x if self.before is None else self.received(self.before).requires_grad_()
        out = self.forward(given)
        if self.next is not None:
            self.send(out.detach(), self.next)
            return given, out
        loss = self.loss_of(out.float(), y)
        losses.append(loss.item())
        return given, self.scaler.scale(loss * self.share_of_a_part())

    def backward_part(self, given, out):
        out.backward(None if self.next is None else self.received(self.next))
        if self.before is not None:
            self.send(given.grad, self.before)

    def send(self, tensor, rank):
        distributed.send(torch.tensor([*tensor.shape, *[0] * (4 - tensor.dim())]), rank)
        distributed.send(tensor.contiguous(), rank)

    def received(self, rank):
        shape = torch.empty(4, dtype=torch.int64)
        distributed.recv(shape, rank)
        tensor = torch.empty([size for size in shape.tolist() if size], dtype=self.dtype)
        distributed.recv(tensor, rank)
        return tensor


class Tensor(SplitLayers, Stages):
    """Pairs of linear layers over tensor ranks in the stages of a pipeline."""
    axes = ("pipeline", "data", "tensor")
    dtypes = ("float32", "float16")
    clips = True
    groups_decay = True
    records_activations = True

    def why_unsupported(self):
        return super().why_unsupported() or (None if self.sizes["tensor"] > 1 else "no tensor ranks: this program splits layers")


def flat(tensors):
    """The elements of all tensors in a row, copied."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def put_back(whole, tensors):
    """The inverse of flat(); what is left of `whole` is padding."""
    begin = 0
    for tensor in tensors:
        tensor.data.copy_(whole[begin : begin + tensor.numel()].view_as(tensor))
        begin += tensor.numel()


PROGRAMS = {"ddp": Ddp, "buckets": Buckets, "fsdp2": Fsdp2, "hsdp": Hsdp, "zero": Zero, "sharded": Sharded, "amp": Amp,
            "pipelining": Pipelining, "stages": Stages, "tensor": Tensor, "localsgd": LocalSgd, "diloco": DiLoCo}
