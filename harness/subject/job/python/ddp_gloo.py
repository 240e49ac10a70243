"""A training program as the job door takes it: PyTorch's DistributedDataParallel over gloo, in float32, float16 and bfloat16.

    plumbline check --profile data-parallel --job 'python3 ddp_gloo.py'
    plumbline check --profile mixed-precision --job 'python3 ddp_gloo.py'
"""
import contextlib, os, sys

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.nn.parallel import DistributedDataParallel

from plumbline_job import Run, unsupported

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


def require_support(run):
    for axis in ("pipeline", "tensor"):
        if run.sizes[axis] > 1:
            unsupported(f"{run.sizes[axis]} {axis} ranks: this program is data-parallel alone")
    for layer in run.spec["model"]["layer"]:
        if layer["type"] not in LAYERS:
            unsupported(f"no layer {layer['type']}")


def model_of(run):
    model = nn.Sequential(*(LAYERS[layer["type"]](layer) for layer in run.spec["model"]["layer"]))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(run.weights[name]))
    return model.to(run.spec["run"]["device"])


def scaler_of(run, rule=ShardedGradScaler):
    """A scale whose steps all ranks skip together: each alone would see what is wrong with its own gradients only."""
    settings = dict(run.spec.get("scaler", {}))
    settings.pop("kind", None)
    return rule(run.spec["run"]["device"].split(":")[0], enabled="scaler" in run.spec, **settings)


def share_of_a_part(run):
    return 1 / run.parts_of_a_step


def inject(run, step, moment, gradients):
    for name, index, value in run.injections(step, moment):
        if name in gradients:
            gradients[name].view(-1)[index] = value


def reduce(bucket):
    """Averages a bucket of gradients over the ranks."""
    return allreduce_hook(None, bucket)


def train(run, parallel=DistributedDataParallel):
    dtype = getattr(torch, run.spec["run"]["dtype"])
    masters = model_of(run)  # in float32; what computes is their copy in the run's type
    model = parallel(model_of(run).to(dtype))
    settings = dict(run.spec["optimizer"])
    optimizer = OPTIMIZERS[settings.pop("type")](masters.parameters(), **settings)
    stepped = []
    optimizer.register_step_post_hook(lambda *_: stepped.append(True))
    scaler = scaler_of(run)
    loss_of = LOSSES[run.spec["loss"]["type"]]
    names = {parameter: name for name, parameter in model.module.named_parameters()}

    def reduce_injected(step, bucket):
        """What comes after the last micro-batch's backward and before any reduction."""
        inject(run, step[0], "local", {names[parameter]: gradient for parameter, gradient in zip(bucket.parameters(), bucket.gradients())})
        return reduce(bucket)

    current = [0]
    if run.spec.get("inject"):
        model.register_comm_hook(current, reduce_injected)

    def record(step, moment, values=lambda parameter: parameter):
        for name, parameter in masters.named_parameters():
            run.record(step, f"{moment}/{name}", values(parameter).detach().cpu().clone().numpy())

    for step in range(run.steps):
        current[0] = step
        record(step, "before")
        with torch.no_grad():
            for parameter, master in zip(model.module.parameters(), masters.parameters()):
                parameter.copy_(master)
        model.zero_grad()
        losses = []
        for part, (x, y) in enumerate(run.micro_batches(step), start=1):
            # Gradients add up on each rank, and are averaged over the ranks with the last part.
            with contextlib.nullcontext() if part == run.parts_of_a_step else model.no_sync():
                device = run.spec["run"]["device"]
                x, y = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
                loss = loss_of(model(x.to(dtype) if x.is_floating_point() else x).float(), y)
                scaler.scale(loss * share_of_a_part(run)).backward()
            losses.append(loss.item())
        inject(run, step, "reduced", {names[parameter]: parameter.grad for parameter in model.module.parameters()})
        for parameter, master in zip(model.module.parameters(), masters.parameters()):
            master.grad = parameter.grad.float()
        if scaler.is_enabled():
            run.record(step, "scale", scaler.get_scale())
        scaler.unscale_(optimizer)
        record(step, "grad", lambda parameter: parameter.grad)
        stepped.clear()
        scaler.step(optimizer)
        scaler.update(None if run.spec.get("scaler", {}).get("kind") == "dynamic" else scaler.get_scale())
        if scaler.is_enabled():
            run.record(step, "skipped", not stepped)
        record(step, "after")
        run.record(step, "loss", sum(losses) / len(losses))


def main(**options):
    run = Run()
    require_support(run)  # before ranks meet: one that leaves makes those fail that still come
    torch.distributed.init_process_group("gloo")
    train(run, **options)
    run.write("torch.nn.parallel.DistributedDataParallel", torch.__version__)
    torch.distributed.barrier()  # a rank that leaves while another still talks makes that one fail
    torch.distributed.destroy_process_group()
    # DistributedDataParallel keeps the threads of group and store (torch 2.13), and the interpreter's end may abort while they run.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
