"""Fields of a stranger's file: of the type that they must have, and of bounded size, before anything is made of them.

What is not is a TypeError, whose text never has the value: a few bytes of a pickle stand for one of many gigabytes.
"""

import re
from math import prod

MOST_RANKS = 1 << 20
MOST_TEXT = 4096
MOST_SHAPES = 1 << 16
MOST_SIZES = 256
RANKS = re.compile(r"\[[\d, ]*\]")


def text(value, what):
    if type(value) is not str:
        raise TypeError(f"{what} is no text")
    if len(value) > MOST_TEXT:
        raise TypeError(f"{what} has {len(value)} characters; at most {MOST_TEXT} are read")
    return value


def is_whole(value):
    return type(value) is int and 0 <= value < 1 << 63


def whole(value, what):
    if not is_whole(value):
        raise TypeError(f"{what} is no whole number below 2^63")
    return value


def shapes(sizes):
    """Of one side of a call, whose elements can be counted in 63 bits."""
    if type(sizes) is not list or len(sizes) > MOST_SHAPES or not all(type(one) in (list, tuple) and len(one) < MOST_SIZES for one in sizes):
        raise TypeError("sizes are no list of shapes")
    found = tuple(tuple(whole(size, "a size") for size in shape) for shape in sizes)
    if sum(map(prod, found)) >= 1 << 63:
        raise TypeError("sizes have more elements than any tensor")
    return found


def texts(values, what):
    if type(values) not in (list, tuple) or len(values) > MOST_SHAPES:
        raise TypeError(f"{what} are no list of texts")
    return [text(one, what) for one in values]


def ranks(value):
    """Of a list, or of its text; [] where it is neither."""
    if type(value) is str and RANKS.fullmatch(value):
        value = [int(word[:8]) for word in re.findall(r"\d+", value)]
    if type(value) is not list or not all(type(one) is int for one in value):
        return []
    if any(not 0 <= one < MOST_RANKS for one in value):
        raise TypeError(f"a group has a rank that is not one of 0 to {MOST_RANKS - 1}")
    return value
