"""Makes an adapter of a dictionary of functions: answers the adapter protocol on standard input and output.

    from plumbline_adapter import serve
    serve("my topology", "1.2", {"topology.prime_factors": lambda n: {"factors": factors_of(n)}})

A function gets the fields of "args" by name, null ones left out, and returns the "result", whose floats need not be
finite. To refuse, raise AdapterError(kind, message) or one of KINDS; any other exception is reported as failed.
"""
import inspect
import json
import math
import sys

LONGEST_LINE = 64 << 20
KINDS = {ValueError: "invalid_argument", TypeError: "invalid_argument", RecursionError: "invalid_argument",
         IndexError: "out_of_range", KeyError: "not_found", NotImplementedError: "unsupported"}


class AdapterError(Exception):
    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


def _number(text):
    if len(text) > 400 or not math.isfinite(float(text)):
        raise ValueError("not a number that a double holds: " + text[:40])
    return float(text) if set(text) & set(".eE") else int(text)


def _plain(value):
    value = value.tolist() if hasattr(value, "tolist") else value  # of numpy and torch
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {name: _plain(field) for name, field in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _call(operations, op, args):
    if op not in operations:
        raise AdapterError("unsupported", "there is no operation %.60r" % op)
    signature = inspect.signature(operations[op])
    if op != "hello" and args.get("convention") == "plumbline" and "convention" not in signature.parameters:
        args = {**args, "convention": None}  # what a function without this argument follows anyway
    given = {n: v for n, v in args.items() if v is not None or n not in {*signature.parameters, "convention"}}
    return operations[op](**signature.bind(**given).arguments)


def _reply(operations, line, reply):
    if len(line) > LONGEST_LINE:
        raise ValueError("the line is longer than %d bytes" % LONGEST_LINE)
    request = json.loads(line.decode(), parse_int=_number, parse_float=_number, parse_constant=_number)
    if not isinstance(request, dict) or type(request.get("id")) not in (int, float, str):
        raise ValueError("a request must be an object whose id is a number or a text")
    reply["id"], op, args = request.pop("id"), request.pop("op", None), request.pop("args", None)
    if not isinstance(op, str) or not isinstance(args, (dict, type(None))) or request:
        raise ValueError("a request must have a text op, an object args, and nothing else")
    return json.dumps({**reply, "result": _plain(_call(operations, op, args or {}))}, allow_nan=False)


def serve(name, version, operations):
    def hello(protocol=1):
        if protocol != 1:
            raise AdapterError("unsupported", "protocol must be 1, got %r" % (protocol,))
        return {"protocol": 1, "name": name, "version": version, "ops": sorted(operations)}

    source, target, sys.stdout = sys.stdin.buffer, sys.stdout.buffer, sys.stderr  # print() writes no replies
    while line := source.readline(LONGEST_LINE + 2):
        rest, reply = line, {"id": None}
        while rest and not rest.endswith(b"\n"):  # a line too long, or the last one: the rest is not kept
            rest = source.readline(1 << 16)
        try:
            answer = _reply({**operations, "hello": hello}, line.rstrip(b"\n"), reply)
        except (Exception, SystemExit) as error:
            kind = getattr(error, "kind", next((KINDS[t] for t in type(error).__mro__ if t in KINDS), "failed"))
            answer = json.dumps({**reply, "error": {"kind": kind, "message": str(error) or repr(error)}})
        target.write(answer.encode() + b"\n")
        target.flush()
