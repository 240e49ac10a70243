"""A training program as the job door takes it: DiLoCo over gloo, as its paper has it (Douillard et al., 2023).

    plumbline check --profile data-parallel --job 'python3 diloco_gloo.py' --filter 'training.job.averaging_diloco*'
"""
import torch

from plumbline_torch_job import TorchJob


class DiLoCo(TorchJob):
    framework = "DiLoCo"
    averaging = ("diloco",)

    def wrap(self, model):
        self.outer_parameters = [parameter.detach().clone() for parameter in model.parameters()]
        self.outer = self.make_outer(self.spec["averaging"])
        return model

    def make_outer(self, outer):
        return torch.optim.SGD(self.outer_parameters, lr=outer["lr"], momentum=outer["momentum"], nesterov=outer["momentum"] > 0)

    def average(self, step):
        """The outer optimizer's step, on the mean of what the ranks' values changed by. The inner optimizers keep their state."""
        if not self.ends_round(step):
            return
        for parameter, outer in zip(self.module.parameters(), self.outer_parameters):
            outer.grad = self.pseudo_gradient(parameter, outer)
            torch.distributed.all_reduce(outer.grad)
            outer.grad.div_(self.world)
        self.outer.step()
        for parameter, outer in zip(self.module.parameters(), self.outer_parameters):
            parameter.copy_(outer)

    def pseudo_gradient(self, parameter, outer):
        return outer - parameter


if __name__ == "__main__":
    DiLoCo.main()
