#!/usr/bin/env python3
"""Writes models.jsonl: losses, outputs and gradients of small models, computed by torch.nn in float64, a case a line.

    python3 make_models.py > models.jsonl

The networks are written here from torch.nn's layers. Every number that goes in, and every direction along which a gradient
is measured, comes from one generator (value()), which the tests repeat. Of each gradient and each buffer two such
projections and the sum of magnitudes are kept.
"""
import json
import math

import torch
from torch import nn

MASK = (1 << 64) - 1


def mixed(state):
    """splitmix64"""
    state = (state + 0x9E3779B97F4A7C15) & MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def hashed(name):
    """FNV-1a"""
    state = 0xCBF29CE484222325
    for byte in name.encode():
        state = ((state ^ byte) * 0x100000001B3) & MASK
    return state


def value(name, index):
    """A multiple of 1/64 in [-1, 1)."""
    return ((mixed((hashed(name) + index) & MASK) >> 57) - 64) / 64


def values(name, shape):
    return torch.tensor([value(name, i) for i in range(math.prod(shape))], dtype=torch.float64).reshape(shape)


def labels(name, shape, classes):
    return torch.tensor([(mixed((hashed(name) + i) & MASK) >> 32) % classes for i in range(math.prod(shape))]).reshape(shape)


def measured(name, tensor):
    flat = tensor.detach().flatten()
    return [float((flat * values("first of " + name, (flat.numel(),))).sum()),
            float((flat * values("second of " + name, (flat.numel(),))).sum()), float(flat.abs().sum())]


class Residual(nn.Module):
    """A basic block or a bottleneck."""

    def __init__(self, kind, inside, planes, stride, dilation, groups, base_width, norm, fit):
        super().__init__()
        self.names = []
        if kind == "basic":
            out = planes
            self.step(1, nn.Conv2d(inside, planes, 3, stride, 1, bias=False), norm(planes))
            self.step(2, nn.Conv2d(planes, planes, 3, 1, 1, bias=False), norm(planes))
        else:
            width, out = int(planes * (base_width / 64)) * groups, planes * 4
            self.step(1, nn.Conv2d(inside, width, 1, bias=False), norm(width))
            self.step(2, nn.Conv2d(width, width, 3, stride, dilation, dilation, groups, bias=False), norm(width))
            self.step(3, nn.Conv2d(width, out, 1, bias=False), norm(out))
        if fit:
            self.downsample = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), norm(out))

    def step(self, number, conv, norm):
        setattr(self, f"conv{number}", conv)
        setattr(self, f"bn{number}", norm)
        self.names.append((f"conv{number}", f"bn{number}"))

    def forward(self, x):
        y = x
        for i, (conv, norm) in enumerate(self.names):
            y = getattr(self, norm)(getattr(self, conv)(y))
            if i + 1 < len(self.names):
                y = torch.relu(y)
        return torch.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class Classifier(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.fc = nn.Linear(features, classes)

    def forward(self, x):
        return self.fc(x.mean((2, 3)))


def resnet(kind="bottleneck", layers=(3, 4, 6, 3), classes=1000, groups=1, base_width=64, dilate=(False, False, False),
           group_norm=0, planes=64, zero=False):
    norm = (lambda channels: nn.GroupNorm(group_norm, channels)) if group_norm else nn.BatchNorm2d
    expansion = 4 if kind == "bottleneck" else 1
    parts = [nn.Sequential(nn.Conv2d(3, planes, 7, 2, 3, bias=False), norm(planes), nn.ReLU(), nn.MaxPool2d(3, 2, 1))]
    inside, dilation = planes, 1
    for number, count in enumerate(layers):
        width, stride, before = planes << number, 1 if number == 0 else 2, dilation
        if number and dilate[number - 1]:
            dilation, stride = dilation * stride, 1
        blocks = []
        for i in range(count):
            step = stride if i == 0 else 1
            blocks.append(Residual(kind, inside, width, step, before if i == 0 else dilation, groups, base_width, norm,
                                   step != 1 or inside != width * expansion))
            inside = width * expansion
        parts.append(nn.Sequential(*blocks))
    return nn.Sequential(*parts, Classifier(inside, classes))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x):
        rows, length, width = x.shape
        query, key, content = (part.view(rows, length, self.heads, -1).transpose(1, 2)
                               for part in self.qkv(x).split(width, 2))
        seen = nn.functional.scaled_dot_product_attention(query, key, content, is_causal=True)
        return self.out(seen.transpose(1, 2).reshape(rows, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(nn.functional.gelu(self.widen(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, tokens, length, width, heads, layers):
        super().__init__()
        self.token, self.place = nn.Embedding(tokens, width), nn.Embedding(length, width)
        for i in range(layers):
            setattr(self, f"block{i}", Block(width, heads))
        self.norm, self.layers = nn.LayerNorm(width), layers

    def forward(self, x):
        y = self.token(x) + self.place(torch.arange(x.shape[1]))
        for i in range(self.layers):
            y = getattr(self, f"block{i}")(y)
        return nn.functional.linear(self.norm(y), self.token.weight).transpose(1, 2)


class Perceptron(nn.Sequential):
    def __init__(self, sizes):
        super().__init__(*[nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])])

    def forward(self, x):
        x = x.flatten(1)
        for i, layer in enumerate(self):
            x = layer(x if i == 0 else torch.relu(x))
        return x


def case(name, model, x, y, **settings):
    model = model.double()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            scale = 0.125 if parameter.dim() > 1 else 1
            parameter.copy_(scale * values(key, parameter.shape))
    out = model(x)
    loss = nn.functional.cross_entropy(out, y)
    loss.backward()
    row = {"case": name, "settings": settings, "x": list(x.shape), "y": list(y.shape), "loss": loss.item(),
           "out": measured("out", out), "out_shape": list(out.shape),
           "grad": {key: measured(key, parameter.grad) for key, parameter in model.named_parameters()},
           "after": {key: measured(key, buffer) for key, buffer in model.named_buffers() if buffer.dim()}}
    model.eval()
    row["evaluated"] = measured("out", model(x))
    print(json.dumps(row))


def resnet_case(name, size=33, **settings):
    classes = settings.get("classes", 5)
    settings["classes"] = classes
    case(name, resnet(**settings), values("x", (2, 3, size, size)), labels("y", (2,), classes), kind_of_model="resnet",
         **settings)


def main():
    print(json.dumps({"provenance": f"make_models.py with torch {torch.__version__}"}))
    full = resnet()
    print(json.dumps({"resnet50": [[key, list(parameter.shape)] for key, parameter in full.named_parameters()],
                      "buffers": [key for key, buffer in full.named_buffers() if buffer.dim()],
                      "numbers": sum(parameter.numel() for parameter in full.parameters())}))
    resnet_case("bottleneck", layers=(1, 2, 1, 1), planes=2)
    resnet_case("basic", kind="basic", layers=(2, 1, 1, 2), planes=3)
    resnet_case("groups", layers=(1, 1, 2, 1), planes=4, groups=2, base_width=32)
    resnet_case("dilation", layers=(1, 1, 2, 2), planes=2, dilate=(False, True, True))
    resnet_case("group norm", layers=(1, 1, 1, 1), planes=2, group_norm=2)
    sizes = (12, 7, 5, 3)
    case("perceptron", Perceptron(sizes), values("x", (4, 3, 4)), labels("y", (4,), 3), kind_of_model="perceptron",
         sizes=sizes)
    shape = dict(tokens=11, length=6, width=8, heads=2, layers=2)
    case("transformer", Transformer(**shape), labels("x", (3, 5), 11), labels("y", (3, 5), 11),
         kind_of_model="transformer", **shape)


main()
