"""A training program as the job door takes it: SlowMo over gloo, as its paper has it (Wang et al., ICLR 2020, algorithm 1).

    plumbline check --profile data-parallel --job 'python3 slowmo_gloo.py' --filter 'training.job.averaging_slowmo*'
"""
import torch

from plumbline_torch_job import TorchJob


class SlowMo(TorchJob):
    framework = "SlowMo"
    averaging = ("slowmo",)

    def wrap(self, model):
        self.begun = [parameter.detach().clone() for parameter in model.parameters()]  # the values at the start of the round
        self.slow = [torch.zeros_like(parameter) for parameter in self.begun]
        return model

    def average(self, step):
        if not self.ends_round(step):
            return
        for parameter, begun, slow in zip(self.module.parameters(), self.begun, self.slow):
            torch.distributed.all_reduce(parameter)
            self.outer_step(parameter.div_(self.world), begun, slow)
            begun.copy_(parameter)

    def outer_step(self, parameter, begun, slow):
        outer, rate = self.spec["averaging"], self.optimizer.param_groups[0]["lr"]
        slow.mul_(outer["momentum"]).add_(begun - parameter, alpha=1 / rate)
        parameter.copy_(begun - outer["lr"] * rate * slow)


if __name__ == "__main__":
    SlowMo.main()
