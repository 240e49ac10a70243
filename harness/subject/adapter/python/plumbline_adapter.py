"""Makes an adapter of a dictionary of functions: answers the adapter protocol on standard input and output.

    from plumbline_adapter import serve  # first: what a framework prints goes to standard error from here on
    import my_framework
    serve("my topology", "1.2", {"topology.prime_factors": lambda n: {"factors": factors_of(n)}},
          conventions={"plumbline": "0.1"}, options={})

A function gets the fields of "args" by name, null ones left out, and returns the "result", whose floats need not be
finite. It may take `convention`; without it, the same rule answers all of `conventions`, those that the adapter follows
with the version that each means (or a list). `options` says by operation and argument which values it has, where it has
not all. To refuse, raise AdapterError(kind, message) or one of KINDS; any other exception is reported as failed.
"""
import difflib
import inspect
import json
import math
import os
import sys

# Replies alone go to standard output, whatever prints there: Python, a logger that has kept sys.stdout, C code.
sys.stdout.flush()
_REPLIES = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)

LONGEST_LINE = 64 << 20
KINDS = {AssertionError: "invalid_argument", AttributeError: "invalid_argument",
         TypeError: "invalid_argument", ValueError: "invalid_argument", ArithmeticError: "invalid_argument",
         RecursionError: "invalid_argument", IndexError: "out_of_range", KeyError: "not_found",
         NotImplementedError: "unsupported", RuntimeError: "state"}


class AdapterError(Exception):
    """fields are further texts of the error, where an operation names some: stage and class of bucketing.dp_pass."""

    def __init__(self, kind, message, **fields):
        super().__init__(message)
        self.kind, self.fields = kind, fields


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


def _call(operations, conventions, op, args):
    if op not in operations:
        near = difflib.get_close_matches(str(op), operations, 1)
        raise AdapterError("unsupported", "there is no operation %.60r%s" % (op, "; did you mean %s?" % near[0] if near else ""))
    names = inspect.signature(operations[op]).parameters
    if op != "hello":
        takes, convention = "convention" in names, args.get("convention") or "plumbline"
        known = list(conventions or ([] if takes else ["plumbline"]))
        if known and convention not in known:
            raise AdapterError("unsupported", "%s: convention %.60r; there are %s" % (op, convention, ", ".join(known)))
        args = args if takes else {**args, "convention": None}
    given = {n: v for n, v in args.items() if v is not None or n not in {*names, "convention"}}
    bound = inspect.signature(operations[op]).bind(**given)
    return operations[op](*bound.args, **bound.kwargs)


def _reply(operations, conventions, line, reply):
    if len(line) > LONGEST_LINE:
        raise ValueError("the line is longer than %d bytes" % LONGEST_LINE)
    request = json.loads(line.decode(), parse_int=_number, parse_float=_number, parse_constant=_number)
    if not isinstance(request, dict) or type(request.get("id")) not in (int, float, str):
        raise ValueError("a request must be an object whose id is a number or a text")
    reply["id"], op, args = request.pop("id"), request.pop("op", None), request.pop("args", None)
    if not isinstance(op, str) or not isinstance(args, (dict, type(None))) or request:
        raise ValueError("a request must have a text op, an object args, and nothing else")
    return json.dumps({**reply, "result": _plain(_call(operations, conventions, op, args or {}))}, allow_nan=False)


def serve(name, version, operations, conventions=None, options=None):
    def hello(protocol=1):
        if protocol != 1:
            raise AdapterError("unsupported", "protocol must be 1, got %r" % (protocol,))
        claims = {"conventions": conventions, "options": options}
        return {"protocol": 1, "name": name, "version": version, "ops": sorted(operations),
                **{claim: value for claim, value in claims.items() if value is not None}}

    source = sys.stdin.buffer
    while line := source.readline(LONGEST_LINE + 2):
        rest, reply = line, {"id": None}
        while rest and not rest.endswith(b"\n"):  # a line too long, or the last one: the rest is not kept
            rest = source.readline(1 << 16)
        try:
            answer = _reply({**operations, "hello": hello}, conventions, line.rstrip(b"\n"), reply)
        except (Exception, SystemExit) as error:
            own = isinstance(error, AdapterError)  # others may have a kind and fields, of their own meaning
            kind = error.kind if own else next((KINDS[t] for t in type(error).__mro__ if t in KINDS), "failed")
            fields = {name: str(text) for name, text in error.fields.items()} if own else {}
            answer = json.dumps({**reply, "error": {**fields, "kind": kind, "message": str(error) or repr(error)}})
        _REPLIES.write(answer.encode() + b"\n")
        _REPLIES.flush()
