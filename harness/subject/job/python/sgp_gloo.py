"""A training program as the job door takes it: stochastic gradient push over gloo (Assran et al., ICML 2019, algorithm 1).

    plumbline check --profile data-parallel --job 'python3 sgp_gloo.py' --filter 'training.job.averaging_sgp*'
"""
import contextlib

import torch

from plumbline_torch_job import TorchJob


class Sgp(TorchJob):
    """Between steps the parameters are the numerators."""

    framework = "stochastic gradient push"
    averaging = ("sgp",)

    @contextlib.contextmanager
    def estimate(self):
        numerators = [parameter.detach().clone() for parameter in self.module.parameters()]
        with torch.no_grad():
            for parameter in self.module.parameters():
                parameter.div_(self.push_sum_weight)
        try:
            yield
        finally:
            with torch.no_grad():
                for parameter, numerator in zip(self.module.parameters(), numerators):
                    parameter.copy_(numerator)

    def average(self, step):
        """Each rank keeps a share of its numerators and weight, and sends as large a share to each of its peers of the round."""
        own = torch.cat([torch.tensor([self.push_sum_weight]), *(parameter.flatten() for parameter in self.module.parameters())])
        share = own / (len(self.peers(step)) + 1)
        sent = [torch.distributed.isend(share, peer) for peer in self.peers(step)]
        total, arrived = share.clone(), torch.empty_like(share)
        for rank in range(self.world):
            if self.rank in self.peers(step, rank):
                torch.distributed.recv(arrived, rank)
                total += arrived
        for work in sent:
            work.wait()
        self.take(total)

    def take(self, total):
        self.push_sum_weight = total[0].item()
        torch.nn.utils.vector_to_parameters(total[1:], self.module.parameters())


if __name__ == "__main__":
    Sgp.main()
