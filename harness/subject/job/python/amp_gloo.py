"""A training program as the job door takes it: torch.autocast and a gradient scaler with DistributedDataParallel over gloo.

    plumbline check --profile mixed-precision --job 'python3 amp_gloo.py'
"""
import torch
from torch.nn.parallel import DistributedDataParallel

from plumbline_torch_job import TorchJob


class Amp(TorchJob):
    framework = "torch.autocast"
    dtypes = ("float32", "float16", "bfloat16")
    clips = True
    records_activations = True
    keeps_copies = False  # autocast rounds the parameters where they are used

    def wrap(self, model):
        return DistributedDataParallel(model, find_unused_parameters=self.leaves_some_unused)

    def forward(self, x):
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            return self.model(x)


if __name__ == "__main__":
    Amp.main()
