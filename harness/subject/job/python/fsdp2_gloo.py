"""A training program as the job door takes it: PyTorch's fully_shard (FSDP2) over gloo.

    plumbline check --profile data-parallel --job 'python3 fsdp2_gloo.py'
"""
import collections

from torch.distributed.fsdp import fully_shard

from plumbline_torch_job import TorchJob


class Fsdp2(TorchJob):
    framework = "torch.distributed.fsdp.fully_shard"
    weighs_rows = True
    clips = True
    schedules_rate = True
    groups_decay = True
    freezes = True
    resumes = True
    shards = True
    records_activations = True
    # Of a layer's parameters it reduces those that the rank's rows used: with other experts on other ranks the reductions do not match.
    layers = tuple(name for name in TorchJob.layers if name != "moe")
    injects = False  # before its reduction a gradient is in a buffer of FSDP's

    def wrap(self, model):
        """What several layers share stays with the whole model: a parameter has one group."""
        uses = collections.Counter(parameter for layer in model for parameter in layer.parameters())
        options = {"mesh": self.mesh_of_shards()} if self.shard_size > 1 else {}
        for layer in model:
            if any(True for _ in layer.parameters()) and all(uses[parameter] == 1 for parameter in layer.parameters()):
                fully_shard(layer, **options)
        return fully_shard(model, **options)


if __name__ == "__main__":
    Fsdp2.main()
