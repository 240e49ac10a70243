"""A training program as the job door takes it: PyTorch's ZeroRedundancyOptimizer beside DistributedDataParallel over gloo.

    plumbline check --profile data-parallel --job 'python3 zero_gloo.py'
"""
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from plumbline_torch_job import TorchJob


class Zero(TorchJob):
    framework = "torch.distributed.optim.ZeroRedundancyOptimizer"
    weighs_rows = True
    clips = True
    schedules_rate = True
    groups_decay = True
    freezes = True
    records_activations = True

    def wrap(self, model):
        return DistributedDataParallel(model, find_unused_parameters=self.leaves_some_unused)

    def make_optimizer(self, parameters):
        return ZeroRedundancyOptimizer(parameters, self.optimizer_class, **self.optimizer_settings)


if __name__ == "__main__":
    Zero.main()
