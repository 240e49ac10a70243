#!/usr/bin/env python3
"""A sample adapter: comm.ring_sum, the sum of ranks' inputs, in plain Python.

    plumbline check --adapter 'python3 sample_adapter.py'
"""
import math
import struct

from plumbline_adapter import AdapterError, serve


def to_float32(value):
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def to_float16(value):
    try:
        return struct.unpack("<e", struct.pack("<e", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def to_bfloat16(value):
    """The nearest number whose upper 16 bits of a float32 are all it needs; ties go to the even one."""
    if not math.isfinite(value) or value == 0:
        return value
    exponent = max(math.frexp(value)[1], -125)  # subnormal numbers share the smallest exponent
    step = 2.0 ** (exponent - 8)
    return to_float32(round(value / step) * step)


ROUND = {"float64": float, "float32": to_float32, "float16": to_float16, "bfloat16": to_bfloat16}


def number(value, dtype):
    if isinstance(value, bool) or (isinstance(value, str) and value not in ("inf", "-inf", "nan")):
        raise ValueError("inputs must hold numbers, got %r" % (value,))
    rounded = ROUND[dtype](float(value))
    if math.isinf(rounded) and value not in ("inf", "-inf"):
        raise AdapterError("out_of_range", "%r is too large for %s" % (value, dtype))
    return rounded


def integer(name, value, low, high=math.inf):
    if type(value) is not int or not low <= value <= high:
        raise ValueError("%s must be an integer from %s to %s, got %r" % (name, low, high, value))
    return value


def members(world_size, group, op, dst):
    """The ranks that take part, in their order."""
    everyone = list(range(integer("world_size", world_size, 1, 1 << 20)))
    ranks = everyone if group is None else group
    if not isinstance(ranks, list) or not ranks:
        raise ValueError("group must be a list of ranks, got %r" % (ranks,))
    if op not in ("all_reduce", "reduce") or (op == "reduce") != (dst is not None):
        raise ValueError("op must be all_reduce, or reduce with dst, got %r with dst %r" % (op, dst))
    for rank in ranks:
        if not 0 <= integer("a rank of group", rank, -math.inf) < world_size:
            raise AdapterError("out_of_range", "group has rank %d, world_size is %d" % (rank, world_size))
    if len(set(ranks)) < len(ranks):
        raise ValueError("group names a rank twice")
    if dst is not None and integer("dst", dst, -math.inf) not in ranks:
        raise AdapterError("out_of_range", "dst %d is not in the group" % dst)
    return ranks


def gloo_sum(rows, rounded):
    """Chunk c starts with rank c-1 and goes down, round after every addition."""
    ranks = len(rows)
    chunk_length = 2 * math.ceil(len(rows[0]) / (2 * ranks))
    output = []
    for position in range(len(rows[0])):
        chunk = position // chunk_length
        total = rows[(chunk - 1) % ranks][position]
        for step in range(2, ranks + 1):
            total = rounded(total + rows[(chunk - step) % ranks][position])
        output.append(total)
    return output


def plumbline_sum(rows, dtype):
    """Ranks in rising order; half formats are added in float32 and rounded once."""
    accumulator = float if dtype == "float64" else to_float32
    output = []
    for column in zip(*rows):
        total = column[0]
        for value in column[1:]:
            total = accumulator(total + value)
        output.append(ROUND[dtype](total))
    return output


def ring_sum(world_size, elements, dtype, op, inputs, dst=None, group=None, convention="plumbline"):
    if dtype not in ROUND:
        raise ValueError("dtype must be one of %s, got %r" % (", ".join(ROUND), dtype))
    ranks = members(world_size, group, op, dst)
    integer("elements", elements, 0)
    if not isinstance(inputs, list) or [len(row) for row in inputs] != [elements] * world_size:
        raise ValueError("inputs must hold %d lists of %d numbers" % (world_size, elements))
    rows = [[number(value, dtype) for value in inputs[rank]] for rank in ranks]
    return {"output": gloo_sum(rows, ROUND[dtype]) if convention == "gloo" else plumbline_sum(rows, dtype)}


if __name__ == "__main__":
    serve("plumbline sample", "1", {"comm.ring_sum": ring_sum}, conventions=["plumbline", "gloo"])
