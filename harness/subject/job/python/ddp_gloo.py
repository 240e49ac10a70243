"""A training program as the job door takes it: PyTorch's DistributedDataParallel over gloo, in float32, float16 and bfloat16.

    plumbline check --profile data-parallel --job 'python3 ddp_gloo.py'
    plumbline check --profile mixed-precision --job 'python3 ddp_gloo.py'
"""
from torch.nn.parallel import DistributedDataParallel

from plumbline_torch_job import TorchJob


class Ddp(TorchJob):
    framework = "torch.nn.parallel.DistributedDataParallel"
    dtypes = ("float32", "float16", "bfloat16")
    weighs_rows = True
    clips = True
    schedules_rate = True
    groups_decay = True
    freezes = True
    resumes = True
    records_activations = True

    def wrap(self, model):
        return DistributedDataParallel(model, find_unused_parameters=self.leaves_some_unused)


if __name__ == "__main__":
    Ddp.main()
