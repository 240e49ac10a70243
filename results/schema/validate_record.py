#!/usr/bin/env python3
"""Checks run.jsonl files against run.schema.json, line by line.

usage: validate_record.py RUN.jsonl...

Knows the part of JSON Schema that run.schema.json uses, so that it needs nothing installed; a schema that uses more is
an error, not a pass. Exit status 0 when all lines are valid, 1 when one is not, 2 for files that cannot be read.
"""
import json, sys
from pathlib import Path

SCHEMA = json.loads((Path(__file__).parent / "run.schema.json").read_text())
TYPES = {"object": dict, "array": list, "string": str, "number": (int, float), "integer": int, "boolean": bool}
KNOWN = {"$schema", "$defs", "$ref", "title", "description", "oneOf", "type", "const", "enum", "properties", "required",
         "additionalProperties", "items"}


def problem(schema, value, where="line"):
    """What is wrong with value, or None."""
    unknown = set(schema) - KNOWN
    if unknown:
        raise ValueError(f"the schema uses {sorted(unknown)}, which this validator does not know")
    if "$ref" in schema:
        target = SCHEMA
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return problem(target, value, where)
    if "oneOf" in schema:
        problems = [problem(one, value, where) for one in schema["oneOf"]]
        if problems.count(None) == 1:
            return None
        # The alternative that was meant is the one whose "type" fits.
        meant = [p for p in problems if p and not p.endswith("is not the constant")]
        return meant[0] if meant else f"{where}: fits none of the kinds"
    if "const" in schema and value != schema["const"]:
        return f"{where}: {value!r} is not the constant"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where}: {value!r} is none of {schema['enum']}"
    if "type" in schema and (not isinstance(value, TYPES[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean")):
        return f"{where}: {value!r} is no {schema['type']}"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name, one in properties.items():
            if name in value and (wrong := problem(one, value[name], f"{where}.{name}")):
                return wrong
        for name in schema.get("required", ()):
            if name not in value:
                return f"{where}: has no {name}"
        if schema.get("additionalProperties") is False and (more := set(value) - set(properties)):
            return f"{where}: has unknown {sorted(more)}"
    if isinstance(value, list) and "items" in schema:
        for index, one in enumerate(value):
            if wrong := problem(schema["items"], one, f"{where}[{index}]"):
                return wrong
    return None


def main(files):
    if not files:
        print(__doc__, file=sys.stderr)
        return 2
    valid = True
    for file in files:
        try:
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            print(f"{file}: cannot be read: {error}", file=sys.stderr)
            return 2
        if not lines or '"type":"header"' not in lines[0]:
            print(f"{file}:1: no header")
            valid = False
        for number, line in enumerate(lines, 1):
            try:
                wrong = problem(SCHEMA, json.loads(line))
            except json.JSONDecodeError as error:
                wrong = f"no JSON: {error}"
            if wrong:
                print(f"{file}:{number}: {wrong}")
                valid = False
    return 0 if valid else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
