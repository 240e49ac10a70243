#!/usr/bin/env python3
"""Weaves mutants into copies of the sources that they edit: each mutant gets its own copy of the function bodies that it changes.

usage: weave.py --root ROOT --out FOLDER FILE...   writes FOLDER/<source> for every source that a mutant edits
       weave.py --root ROOT --list FILE...         prints those sources, a line each
       weave.py --check                            fails where it lacks a package

A function becomes

    { if (plumbline::woven::is("bkt.stale_view")) { its body with the edit } else if (...) { ... } else { its body } }

so that one build has all mutants, one of which, or none, is chosen when it runs (woven.hpp). A file of mutants is read as
conformance/README.md describes. Bounds of functions come from tree-sitter; nothing is compiled here.
"""
import argparse
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    import tomli as tomllib
import tree_sitter
import tree_sitter_cpp

INCLUDE = b'#include "harness/weave/woven.hpp"\n'


class Refused(Exception):
    """A mutant that cannot be woven, with its file and name."""


def parse(source):
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language())).parse(source).root_node


def functions_of(node):
    """Every function with a body, the outer ones first. A lambda belongs to the function around it."""
    if node.type == "function_definition":
        body = node.child_by_field_name("body")
        if body is not None and body.type == "compound_statement":
            yield node, body
    for child in node.children:
        yield from functions_of(child)


def name_of(function):
    """Its name without namespaces and classes: "step" of Fp16Optimizer::step."""
    node = function.child_by_field_name("declarator")
    while node is not None and node.type not in ("identifier", "field_identifier", "destructor_name", "operator_name"):
        node = node.child_by_field_name("declarator") or node.child_by_field_name("name") or next(
            (child for child in node.children if child.type.endswith(("declarator", "identifier"))), None)
    return node.text.decode() if node is not None else ""


def is_constexpr(function):
    declarator = function.child_by_field_name("declarator")
    return b"constexpr" in function.text[:declarator.start_byte - function.start_byte]


def span_of(edit, source, functions):
    """Where the edit's text stands, and the function body around it. Throws Refused unless there is one such place."""
    find = edit["find"].encode()
    within = [(0, len(source))]
    if edit["function"]:
        within = [(body.start_byte, body.end_byte) for function, body in functions if name_of(function) == edit["function"]]
        if not within:
            raise Refused(f"{edit['file']} has no function '{edit['function']}'")
    found = set()
    for begin, end in within:
        at = source.find(find, begin, end)
        while at >= 0:
            found.add(at)
            at = source.find(find, at + 1, end)
    where = edit["at"]
    if len(found) != 1:
        raise Refused(f"{where}: 'find' stands there {len(found)} times, and must once: {edit['find']!r}")
    begin, = found
    end = begin + len(find)
    around = [pair for pair in functions if pair[1].start_byte < begin and end < pair[1].end_byte]
    if not around:
        raise Refused(f"{where}: 'find' is not in the body of a function: {edit['find']!r}")
    return begin, end, min(around, key=lambda pair: pair[1].end_byte - pair[1].start_byte)


def woven(path, source, mutants):
    """The source with the mutants in it; `mutants` maps names to lists of edits."""
    functions = list(functions_of(parse(source)))
    bodies = {}  # by start: the function, and for each mutant its edits as (begin, end, replacement)
    for name, edits in mutants.items():
        for edit in edits:
            try:
                begin, end, (function, body) = span_of(edit, source, functions)
            except Refused as why:
                raise Refused(f"mutant '{name}': {why}") from None
            of_body = bodies.setdefault(body.start_byte, (function, body, {}))[2]
            of_body.setdefault(name, []).append((begin, end, edit.get("replace", "").encode()))
    return chained_bodies(path, source, bodies)


def chained_bodies(path, source, bodies):
    """The source with every function's copies; `bodies` maps a body's start to (function, body, edits of each mutant)."""
    starts = sorted(bodies)
    for outer, inner in zip(starts, starts[1:]):
        if inner < bodies[outer][1].end_byte:
            raise Refused(f"{path}: mutants edit a function and one inside it; name the inner one's text in the outer function alone")
    for start in reversed(starts):
        function, body, edited = bodies[start]
        source = source[:start] + chained(path, source, function, body, edited) + source[body.end_byte:]
    return INCLUDE + f'#line 1 "{path}"\n'.encode() + source


def chained(path, source, function, body, edited):
    def line(of=""):
        return f'\n#line {body.start_point[0] + 1} "{path}{of}"\n'.encode()

    guard = b"!std::is_constant_evaluated() && " if is_constexpr(function) else b""
    text = b"{"
    for name, edits in edited.items():
        copy, at = b"", body.start_byte
        for begin, end, replacement in sorted(edits):
            if begin < at:
                raise Refused(f"mutant '{name}': two of its edits overlap in {path}")
            copy += source[at:begin] + replacement
            at = end
        text += b' if (' + guard + b'plumbline::woven::is("' + name.encode() + b'"))' + line(f" (mutant {name})") + copy + source[at:body.end_byte] + b"\nelse"
    return text + line() + source[body.start_byte:body.end_byte] + b"}"


def read(files):
    """{source: {mutant: edits}} of files of mutants."""
    by_source, seen = {}, set()
    for file in files:
        for mutant in tomllib.loads(file.read_text(encoding="utf-8")).get("mutant", []):
            where = f"mutant '{mutant.get('id')}' in {file}"
            own = {field: mutant[field] for field in ("at", "find", "replace") if field in mutant}
            if own and "edit" in mutant:
                raise Refused(f"{where}: it has '{next(iter(own))}' beside [[mutant.edit]]; put it into an edit")
            if mutant["id"] in seen:
                raise Refused(f"{where}: another has that id")
            seen.add(mutant["id"])
            for edit in mutant.get("edit", [own]):  # several are tables
                for field in ("at", "find"):
                    if not edit.get(field):
                        raise Refused(f"{where}: an edit has no '{field}'")
                for field in edit.keys() - {"at", "find", "replace"}:
                    raise Refused(f"{where}: an edit has a field '{field}'; perhaps [[mutant]] is missing before it")
                edit["file"], _, edit["function"] = edit["at"].partition(": ")
                by_source.setdefault(edit["file"], {}).setdefault(mutant["id"], []).append(edit)
    return by_source


def write_if_new(path, data):
    """Leaves a file of the same content as it is: what depends on it is not built again."""
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="do nothing: every package is here")
    parser.add_argument("--root", type=Path, help="where the sources are named from")
    parser.add_argument("--out", type=Path, help="folder of the woven sources")
    parser.add_argument("--list", action="store_true", help="print the sources that are edited, and weave nothing")
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.check:
        return
    if not (arguments.root and arguments.files and (arguments.list or arguments.out)):
        parser.error("give --root, files of mutants, and --out or --list")
    try:
        by_source = read(arguments.files)
        for name, mutants in sorted(by_source.items()):
            if arguments.list:
                print(name)
                continue
            path = arguments.root / name
            if not path.is_file():
                raise Refused(f"mutant '{next(iter(mutants))}': there is no file {name}")
            write_if_new(arguments.out / name, woven(path, path.read_bytes(), mutants))
    except (Refused, tomllib.TOMLDecodeError) as why:
        sys.exit(f"weave.py: {why}")


if __name__ == "__main__":
    main()
