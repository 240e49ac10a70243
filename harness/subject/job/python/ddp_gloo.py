"""A training program as the job door takes it: PyTorch's DistributedDataParallel over gloo.

    plumbline check --profile data-parallel --job 'python3 ddp_gloo.py'
"""
import contextlib, os, sys

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from plumbline_job import Run

LAYERS = {
    "linear": lambda of: nn.Linear(of["in"], of["out"], bias=of.get("bias", True)),
    "conv2d": lambda of: nn.Conv2d(of["in"], of["out"], of["kernel"], of.get("stride", 1), of.get("padding", 0), bias=of.get("bias", True)),
    "batch_norm2d": lambda of: nn.BatchNorm2d(of["features"]),
    "layer_norm": lambda of: nn.LayerNorm(of["features"]),
    "embedding": lambda of: nn.Embedding(of["rows"], of["features"]),
    "relu": lambda of: nn.ReLU(), "gelu": lambda of: nn.GELU(), "tanh": lambda of: nn.Tanh(), "flatten": lambda of: nn.Flatten(),
}
LOSSES = {"cross_entropy": nn.functional.cross_entropy, "mse": nn.functional.mse_loss}
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}


def model_of(run):
    model = nn.Sequential(*(LAYERS[layer["type"]](layer) for layer in run.spec["model"]["layer"]))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(run.weights[name]))
    return model.to(run.spec["run"]["device"])


def share_of_a_part(run):
    return 1 / run.parts_of_a_step


def train(run, parallel=DistributedDataParallel):
    model = parallel(model_of(run))
    settings = dict(run.spec["optimizer"])
    optimizer = OPTIMIZERS[settings.pop("type")](model.parameters(), **settings)
    loss_of = LOSSES[run.spec["loss"]["type"]]

    def record(step, moment, values=lambda parameter: parameter):
        for name, parameter in model.module.named_parameters():
            run.record(step, f"{moment}/{name}", values(parameter).detach().cpu().clone().numpy())

    for step in range(run.steps):
        record(step, "before")
        optimizer.zero_grad()
        losses = []
        for part, (x, y) in enumerate(run.micro_batches(step), start=1):
            # Gradients add up on each rank, and are averaged over the ranks with the last part.
            with contextlib.nullcontext() if part == run.parts_of_a_step else model.no_sync():
                device = run.spec["run"]["device"]
                loss = loss_of(model(torch.from_numpy(x).to(device)), torch.from_numpy(y).to(device))
                (loss * share_of_a_part(run)).backward()
            losses.append(loss.item())
        record(step, "grad", lambda parameter: parameter.grad)
        optimizer.step()
        record(step, "after")
        run.record(step, "loss", sum(losses) / len(losses))


def main(**options):
    torch.distributed.init_process_group("gloo")
    run = Run()
    train(run, **options)
    run.write("torch.nn.parallel.DistributedDataParallel", torch.__version__)
    torch.distributed.barrier()  # a rank that leaves while another still talks makes that one fail
    torch.distributed.destroy_process_group()
    # DistributedDataParallel keeps the threads of group and store (torch 2.13), and the interpreter's end may abort while they run.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
