#!/usr/bin/env python3
"""Writes augmentation.jsonl: what torchvision's transforms make of small images, a case a line.

    pip install pillow torchvision
    python3 make_augmentation.py > augmentation.jsonl

Images are RGB, [3, height, width], as hexadecimal digits. Every answer comes from torchvision on PIL images, the way in
which a data loader for CIFAR-10 applies them.
"""
import json
import random

import numpy
import PIL
import torch
import torchvision
from PIL import Image
from torchvision.transforms import AutoAugment, AutoAugmentPolicy, InterpolationMode, Resize, ToTensor, Normalize
from torchvision.transforms import autoaugment
from torchvision.transforms import functional as F

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
POLICY = AutoAugment(policy=AutoAugmentPolicy.CIFAR10)


def planes(image):
    return numpy.asarray(image).transpose(2, 0, 1).tobytes().hex()


def noise(width, height, seed, low=0, high=255):
    generator = random.Random(seed)
    return Image.frombytes("RGB", (width, height), bytes(generator.randint(low, high) for _ in range(width * height * 3)))


def slope(width, height):
    return Image.frombytes("RGB", (width, height), bytes(value for y in range(height) for x in range(width)
                                                         for value in (40 + 9 * x, 7 * y + 3 * x, 200 - 11 * y)))


def flat(width, height):
    return Image.new("RGB", (width, height), (17, 200, 90))


IMAGES = {"noise": noise(10, 8, 1), "slope": slope(10, 8), "dim": noise(10, 8, 2, 90, 140), "flat": flat(10, 8),
          "large": noise(32, 32, 3), "tall": noise(7, 11, 4), "one": noise(1, 1, 5)}
GEOMETRIC = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")


def emit(**row):
    print(json.dumps(row, separators=(",", ":")))


def space(image):
    return POLICY._augmentation_space(10, [image.height, image.width])


def apply(image, name, magnitude):
    return autoaugment._apply_op(image, name, magnitude, InterpolationMode.NEAREST, None)


def operations(key, names, levels):
    image = IMAGES[key]
    for name, (magnitudes, signed) in space(image).items():
        if name not in names:
            continue
        for level in levels if magnitudes.ndim else (0,):
            for sign in (1, -1) if signed else (1,):
                magnitude = sign * float(magnitudes[level].item() if magnitudes.ndim else 0.0)
                emit(kind="operation", image=key, name=name, level=level, sign=sign, magnitude=magnitude,
                     out=planes(apply(image, name, magnitude)))


def policies():
    emit(kind="policy", table=[[list(one) for one in pair] for pair in POLICY.policies])
    image = IMAGES["noise"]
    for number, pair in enumerate(POLICY.policies):
        for signs in ((0, 1), (1, 0)):
            # Probabilities at the thresholds: an operation is applied where the number drawn is at most its own.
            for draws in ([pair[0][1], pair[1][1]], [pair[0][1] + 0.05, pair[1][1]], [pair[0][1], pair[1][1] + 0.05]):
                AutoAugment.get_params = staticmethod(
                    lambda _, n=number, d=draws, s=signs: (n, torch.tensor(d, dtype=torch.float64), torch.tensor(s)))
                out = planes(POLICY(image))
                if draws == [pair[0][1], pair[1][1]] or signs == (0, 1):
                    emit(kind="augment", image="noise", sub_policy=number, draws=draws, signs=signs, out=out)


def main():
    emit(provenance=f"make_augmentation.py with torchvision {torchvision.__version__}, torch {torch.__version__}, "
                    f"Pillow {PIL.__version__}", mean=MEAN, deviation=DEVIATION)
    for key, image in IMAGES.items():
        emit(kind="image", name=key, width=image.width, height=image.height, pixels=planes(image))
    everything = set(space(IMAGES["noise"]))
    operations("noise", everything, range(10))
    operations("slope", everything - set(GEOMETRIC), (1, 4, 8))
    operations("dim", {"AutoContrast", "Equalize", "Contrast", "Color", "Sharpness"}, (2, 9))
    operations("flat", everything - set(GEOMETRIC), (6,))
    operations("large", set(GEOMETRIC), (5, 9))
    operations("large", {"Sharpness", "Equalize", "Contrast"}, (9,))
    operations("tall", everything, (7,))
    operations("one", everything, (9,))
    policies()
    for key, sizes in {"noise": (8, 5, 3, 13, 32), "tall": (7, 4, 32), "large": (32, 20), "one": (3,)}.items():
        for size in sizes:
            out = Resize(size)(IMAGES[key])
            emit(kind="resize", image=key, size=size, width=out.width, height=out.height, out=planes(out))
    for top, left in ((0, 0), (4, 4), (8, 3), (5, 8)):
        out = F.crop(F.pad(IMAGES["noise"], [4]), top, left, 8, 10)
        emit(kind="crop", image="noise", padding=4, top=top, left=left, out=planes(out))
    ramp = Image.frombytes("RGB", (16, 16), bytes(value for i in range(256) for value in (i, i, i)))
    bits = Normalize(MEAN, DEVIATION)(ToTensor()(ramp)).numpy().view(numpy.uint32).reshape(3, 256)
    emit(kind="normalise", bits=bits.tolist())


main()
