"""A training program in JAX as the job door takes it: a mesh of processes over gloo, rows sharded and parameters replicated, so
that the compiler adds the reductions.

    plumbline check --profile data-parallel --job 'python3 jax_mesh.py' --filter '*[model=mlp*'
"""
import os

import jax
import numpy
from jax import numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from plumbline_job import Run, unsupported

LAYERS = {
    "linear": lambda of, weights, x: x @ weights["weight"].T + weights.get("bias", 0),
    "conv2d": lambda of, weights, x: jax.lax.conv_general_dilated(x, weights["weight"], (of["stride"],) * 2, [(of["padding"],) * 2] * 2)
    + weights.get("bias", jnp.zeros(1))[:, None, None],
    "relu": lambda of, weights, x: jax.nn.relu(x), "tanh": lambda of, weights, x: jnp.tanh(x),
    "gelu": lambda of, weights, x: jax.nn.gelu(x, approximate=False), "flatten": lambda of, weights, x: x.reshape(len(x), -1),
}
LOSSES_OF_ROWS = {"cross_entropy": lambda out, y: -jnp.take_along_axis(jax.nn.log_softmax(out), y[:, None], 1)[:, 0],
                  "mse": lambda out, y: jnp.square(out - y).reshape(len(y), -1).mean(1)}


class Mesh(Run):
    def __init__(self):
        super().__init__()
        if reason := self.what_is_lacking():
            unsupported(reason)  # before ranks meet
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", self.world, self.rank)
        mesh = jax.make_mesh((self.world,), ("data",))
        self.whole, self.by_rows = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("data"))
        self.gradient = jax.jit(jax.grad(self.loss_of, has_aux=True), out_shardings=(self.whole, self.by_rows))
        self.update = jax.jit(getattr(self, self.spec["optimizer"]["type"]))

    def what_is_lacking(self):
        for axis in ("pipeline", "tensor"):
            if self.sizes[axis] > 1:
                return f"{self.sizes[axis]} {axis} ranks: this program is parallel along data only"
        if self.spec["run"]["dtype"] != "float32":
            return f"dtype {self.spec['run']['dtype']}: this program has float32"
        if self.spec["run"].get("device", "cpu") != "cpu":
            return f"device {self.spec['run']['device']}: this program computes on cpu"
        for table, what in (("scaler", "a loss scale"), ("inject", "values in gradients")):
            if table in self.spec:
                return f"{what}: this program has none"
        return next((f"layer {layer['type']}: this program has {', '.join(LAYERS)}" for layer in self.spec["model"]["layer"]
                     if layer["type"] not in LAYERS), None)

    def loss_of(self, parameters, x, y):
        """The mean over the rows of all ranks, and the loss of each row."""
        for number, layer in enumerate(self.spec["model"]["layer"]):
            own = {kind: parameters[f"{number}.{kind}"] for kind in ("weight", "bias") if f"{number}.{kind}" in parameters}
            x = LAYERS[layer["type"]](layer, own, x)
        of_rows = LOSSES_OF_ROWS[self.spec["loss"]["type"]](x, y)
        return of_rows.mean(), of_rows

    def sgd(self, is_first, state, value, gradient):
        of = self.spec["optimizer"]
        gradient = gradient + of["weight_decay"] * value
        state = jnp.where(is_first, gradient, of["momentum"] * state + gradient)
        return state, value - of["lr"] * (gradient + of["momentum"] * state if of["nesterov"] else state if of["momentum"] else gradient)

    def adam(self, corrections, state, value, gradient):
        of = self.spec["optimizer"]
        moments = [beta * moment + (1 - beta) * power for beta, moment, power in zip(of["betas"], state, (gradient, gradient**2))]
        first, second = (moment / correction for correction, moment in zip(corrections, moments))
        return jnp.stack(moments), value - of["lr"] * first / (jnp.sqrt(second) + of["eps"])

    def of_step(self, step):
        """What the optimizer's rule needs of a step. In float32, 1 - 0.999 would be off by 5e-5 of itself."""
        return [1 - beta ** (step + 1) for beta in self.spec["optimizer"]["betas"]] if self.spec["optimizer"]["type"] == "adam" else step == 0

    def train(self):
        values = {name: jax.device_put(value, self.whole) for name, value in self.weights.items()}
        moments = 2 if self.spec["optimizer"]["type"] == "adam" else 1
        states = {name: jnp.squeeze(jnp.zeros((moments, *value.shape)), 0 if moments == 1 else ()) for name, value in self.weights.items()}
        for step in range(self.steps):
            self.record_all(step, "before", values)
            gradients, losses = {name: 0 for name in values}, []
            for rows in self.micro_batches(step):
                new, of_rows = self.gradient(values, *(jax.make_array_from_process_local_data(self.by_rows, one) for one in rows))
                gradients = {name: gradients[name] + new[name] / self.parts_of_a_step for name in values}
                losses.append(numpy.mean(of_rows.addressable_data(0)))
            self.record_all(step, "grad", gradients)
            for name in values:
                states[name], values[name] = self.update(self.of_step(step), states[name], values[name], gradients[name])
            self.record_all(step, "after", values)
            self.record(step, "loss", numpy.mean(losses))

    def record_all(self, step, moment, values):
        for name, value in values.items():
            self.record(step, f"{moment}/{name}", numpy.array(value.addressable_data(0)))


if __name__ == "__main__":
    run = Mesh()  # it serves no ranks: JAX has a thread that a fork would lose as soon as it is imported
    run.train()
    run.write("jax", jax.__version__)
    jax.distributed.shutdown()
