"""A training program as the job door takes it: LocalSGD by PyTorch's PeriodicModelAverager over gloo.

    plumbline check --profile data-parallel --job 'python3 localsgd_gloo.py' --filter 'training.job.averaging_localsgd*'
"""
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

from plumbline_torch_job import TorchJob


class LocalSgd(TorchJob):
    framework = "torch.distributed.algorithms.model_averaging"
    averaging = ("localsgd",)

    def wrap(self, model):
        period = self.spec["averaging"]["period"]
        # It averages after its warm-up and every `period` steps from there on: here after the last step of each round.
        self.averager = PeriodicModelAverager(period=period, warmup_steps=period - 1)
        return model

    def average(self, step):
        self.averager.average_parameters(self.module.parameters())


if __name__ == "__main__":
    LocalSgd.main()
