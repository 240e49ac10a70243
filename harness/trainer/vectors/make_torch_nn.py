#!/usr/bin/env python3
"""Writes torch_nn.jsonl: small runs, computed by torch.nn and torch.optim in float64, a case a line.

    python3 make_torch_nn.py > torch_nn.jsonl

Parameters are rounded to float32 after each step, as a run's are; all else is float64. Weights and inputs are multiples of
1/64, so that they are exact in every format.
"""
import json
import tomllib

import torch
from torch import nn

HEAD = """protocol = 1
seed = 1
[parallel]
data = {data}
[run]
steps = 3
global_batch = {batch}
micro_batches = {micro}
accumulation = {accumulation}
[model]
"""


def table(head, row):
    """ "linear in=5 out=4" as a TOML table."""
    kind, *fields = row.split()
    return "\n".join([head, f'type = "{kind}"', *(field.replace("=", " = ").replace(",", ", ") for field in fields), ""])


def body_of(layers, loss, optimizer):
    tables = [*(("[[model.layer]]", layer) for layer in layers.split("; ")), ("[loss]", loss), ("[optimizer]", optimizer)]
    return "\n" + "".join(table(*one) for one in tables)


# Settings of the run, a row of its input, its target; layers, loss, optimizer.
CASES = {
    "linear, relu, cross-entropy; plain SGD": (
        dict(data=2, batch=8, micro=2, accumulation=1), (5,), 3,
        "linear in=5 out=4; relu; linear in=4 out=3",
        "cross_entropy", "sgd lr=0.5"),
    "gelu, tanh, no bias, mse; Nesterov with weight decay": (
        dict(data=1, batch=3, micro=1, accumulation=2), (3,), (2,),
        "linear in=3 out=4; gelu; linear in=4 out=4 bias=false; tanh; linear in=4 out=2",
        "mse", "sgd lr=0.1 momentum=0.9 nesterov=true weight_decay=0.01"),
    "convolution and batch normalisation; momentum": (
        dict(data=2, batch=12, micro=2, accumulation=1), (2, 5, 4), 3,
        "conv2d in=2 out=3 kernel=3 stride=2 padding=1; batch_norm2d features=3; relu; conv2d in=3 out=2 kernel=2 bias=false; "
        "flatten; linear in=4 out=3",
        "cross_entropy", "sgd lr=0.1 momentum=0.9"),
    "embedding, layer normalisation, tied weight; Adam": (
        dict(data=3, batch=6, micro=1, accumulation=2), ("embedding", 7), 7,
        "embedding rows=7 features=4; layer_norm features=4; tied_linear with=0",
        "cross_entropy", "adam lr=0.01"),
    "embedding of sequences, mse; Adam with other constants": (
        dict(data=2, batch=4, micro=1, accumulation=1), ("embedding", 6, 3), (2,),
        "embedding rows=6 features=2; linear in=2 out=2; flatten; linear in=6 out=2",
        "mse", "adam lr=0.05 betas=[0.8,0.95] eps=1e-3"),
    "transformer of two heads, head tied to the embedding; momentum": (
        dict(data=2, batch=4, micro=2, accumulation=1), ("embedding", 5, 3), ("tokens", 5, 3),
        "embedding rows=5 features=4; layer_norm features=4; linear in=4 out=12; attention heads=2; linear in=4 out=4; add with=0; "
        "layer_norm features=4; linear in=4 out=6; gelu; linear in=6 out=4; add with=5; tied_linear with=0",
        "cross_entropy", "sgd lr=0.1 momentum=0.9"),
}


class Attention(nn.Module):
    """torch.nn.MultiheadAttention with the identity as its projections."""

    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, x):
        features = x.shape[-1] // 3
        query, key, value = x.unflatten(-1, (self.heads, 3, -1)).transpose(2, 3).flatten(3).unbind(2)
        attention = nn.MultiheadAttention(features, self.heads, bias=False, batch_first=True).double()
        with torch.no_grad():
            attention.in_proj_weight.copy_(torch.eye(features).repeat(3, 1))
            attention.out_proj.weight.copy_(torch.eye(features))
        hidden = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=torch.float64)
        return attention(query, key, value, attn_mask=hidden, need_weights=False)[0]


class Layers(nn.Sequential):
    """An integer in place of a layer is the number of an earlier one, whose output is added."""

    def __init__(self, layers):
        super().__init__(*(nn.Identity() if isinstance(layer, int) else layer for layer in layers))
        self.added = {number: layer for number, layer in enumerate(layers) if isinstance(layer, int)}

    def forward(self, x):
        outputs = []
        for number, layer in enumerate(self):
            x = layer(x) + (outputs[self.added[number]] if number in self.added else 0)
            outputs.append(x)
        return x


class TiedLinear(nn.Module):
    def __init__(self, first):
        super().__init__()
        self.first = [first]  # a list hides it: the parameter stays the first layer's

    def forward(self, x):
        return nn.functional.linear(x, self.first[0].weight)


def layer_of(row, layers):
    kind = row["type"]
    if kind == "linear":
        return nn.Linear(row["in"], row["out"], row.get("bias", True))
    if kind == "conv2d":
        return nn.Conv2d(row["in"], row["out"], row["kernel"], row.get("stride", 1), row.get("padding", 0),
                         bias=row.get("bias", True))
    if kind == "batch_norm2d":
        return nn.BatchNorm2d(row["features"])
    if kind == "layer_norm":
        return nn.LayerNorm(row["features"])
    if kind == "embedding":
        return nn.Embedding(row["rows"], row["features"])
    if kind == "tied_linear":
        return TiedLinear(layers[row["with"]])
    if kind == "attention":
        return Attention(row["heads"])
    if kind == "add":
        return row["with"]
    return {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh, "flatten": nn.Flatten}[kind]()


def model_of(spec):
    layers = []
    for row in spec["model"]["layer"]:
        layers.append(layer_of(row, layers))
    return Layers(layers).double()


def optimizer_of(spec, parameters):
    options = dict(spec["optimizer"])
    kind = options.pop("type")
    return torch.optim.SGD(parameters, **options) if kind == "sgd" else torch.optim.Adam(parameters, **options)


def grid(generator, *shape):
    return torch.randint(-64, 65, shape, generator=generator).double() / 64


def case(name, settings, row, target, *body):
    text = HEAD.format(**settings) + body_of(*body)
    spec = tomllib.loads(text)
    run, ranks = spec["run"], spec["parallel"]["data"]
    generator = torch.Generator().manual_seed(len(name))
    model = model_of(spec)
    with torch.no_grad():
        for value in model.parameters():
            value.copy_(grid(generator, *value.shape))
    weights = {key: value.detach().flatten().tolist() for key, value in model.named_parameters()}
    batches = run["steps"] * run["accumulation"]
    lead = (batches, run["global_batch"])
    if row[0] == "embedding":
        x = torch.randint(0, row[1], lead + tuple(row[2:]), generator=generator)
    else:
        x = grid(generator, *lead, *row)
    if isinstance(target, tuple) and target[0] == "tokens":
        y = torch.randint(0, target[1], lead + target[2:], generator=generator)
    else:
        y = grid(generator, *lead, *target) if isinstance(target, tuple) else torch.randint(0, target, lead, generator=generator)
    of_class = nn.CrossEntropyLoss()
    criterion = nn.MSELoss() if spec["loss"]["type"] == "mse" else lambda out, y: of_class(out if out.dim() == 2 else out.transpose(1, 2), y)
    optimizer = optimizer_of(spec, model.parameters())
    steps = []
    rows = run["global_batch"] // ranks // run["micro_batches"]
    for step in range(run["steps"]):
        optimizer.zero_grad()
        losses = []
        for rank in range(ranks):
            parts = []
            for batch in range(step * run["accumulation"], (step + 1) * run["accumulation"]):
                for part in range(run["micro_batches"]):
                    first = (rank * run["micro_batches"] + part) * rows
                    parts.append(criterion(model(x[batch, first:first + rows]), y[batch, first:first + rows]))
            losses.append(torch.stack(parts).mean())
        torch.stack(losses).mean().backward()
        gradients = {key: value.grad.flatten().tolist() for key, value in model.named_parameters()}
        optimizer.step()
        with torch.no_grad():
            for value in model.parameters():
                value.copy_(value.float())
        after = {key: value.detach().flatten().tolist() for key, value in model.named_parameters()}
        steps.append({"loss": [loss.item() for loss in losses], "grad": gradients, "after": after})
    return {"case": name, "spec": text, "weights": weights, "x_shape": list(x.shape), "x": x.flatten().tolist(),
            "y_shape": list(y.shape), "y": y.flatten().tolist(), "steps": steps}


print(json.dumps({"provenance": f"make_torch_nn.py with torch {torch.__version__}"}))
for name, rows in CASES.items():
    print(json.dumps(case(name, *rows)))
