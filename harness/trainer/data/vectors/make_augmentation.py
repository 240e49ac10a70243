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
from torchvision.transforms import Normalize, Resize, ToTensor
from torchvision.transforms import functional as F

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


def planes(image):
    return numpy.asarray(image).transpose(2, 0, 1).tobytes().hex()


def noise(width, height, seed):
    generator = random.Random(seed)
    return Image.frombytes("RGB", (width, height), bytes(generator.randint(0, 255) for _ in range(width * height * 3)))


IMAGES = {"noise": noise(10, 8, 1), "large": noise(32, 32, 3), "tall": noise(7, 11, 4), "one": noise(1, 1, 5)}


def emit(**row):
    print(json.dumps(row, separators=(",", ":")))


def main():
    emit(provenance=f"make_augmentation.py with torchvision {torchvision.__version__}, torch {torch.__version__}, "
                    f"Pillow {PIL.__version__}", mean=MEAN, deviation=DEVIATION)
    for key, image in IMAGES.items():
        emit(kind="image", name=key, width=image.width, height=image.height, pixels=planes(image))
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
