#!/usr/bin/env python3
"""Checks junit.xml files as CI servers read them: well-formed, of the elements of the common JUnit format that Plumbline
writes (github.com/testmoapp/junitxml), with totals that are those of the cases, each case once, a failure in at most
4 KiB, and no seed in a name. Public readers that are installed (junitparser, xunitparser) must count the same.

usage: check_junit.py JUNIT.xml...

Exit status 0 when all files are valid, 1 when one is not, 2 for files that cannot be read.
"""
import importlib.util, re, sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

MOST_BYTES_OF_A_FAILURE = 4096

# What each element has: its attributes, those that it may have, and the elements that may be inside.
ELEMENTS = {
    "testsuites": (set(), set(), {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time", "timestamp"}, set(), {"properties", "testcase"}),
    "testcase": ({"name", "classname", "time"}, {"file", "line"}, {"properties", "failure", "error", "skipped", "system-out"}),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "failure": ({"message", "type"}, set(), set()),
    "error": ({"message", "type"}, set(), set()),
    "skipped": ({"message"}, set(), set()),
    "system-out": (set(), set(), set()),
}
FORMS = {"time": r"\d+(\.\d+)?", "testsuite time": r"\d+(\.\d{1,3})?",  # some schemas allow no more digits
         "timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "message": r"(?s).+", "testcase name": r"(?!.*seed=).+",
         "testsuite name": r".+", "line": r"[1-9]\d*", "file": r"[^/].*"}
ENDS = ("failure", "error", "skipped")
TOTALS = {"tests": "testcase", "failures": "testcase/failure", "errors": "testcase/error",
          "skipped": "testcase/skipped"}


def problems(element):
    required, optional, children = ELEMENTS[element.tag]
    where = f"{element.tag} '{element.get('name', '')}'"
    if not required <= set(element.attrib) <= required | optional:
        yield f"{where} has the attributes {sorted(element.attrib)}, not {sorted(required)}"
        return
    for name, value in element.attrib.items():
        if not re.fullmatch(FORMS.get(f"{element.tag} {name}", FORMS.get(name, "(?s).*")), value):
            yield f"{where}: {name}='{value}'"
    if element.tag == "testcase" and sum(child.tag in ENDS for child in element) > 1:
        yield f"{where} ended in several ways"
    if element.tag == "testsuite":
        for name, cases in TOTALS.items():
            if element.get(name) != str(len(element.findall(cases))):
                yield f"{where}: {name}='{element.get(name)}', but there are {len(element.findall(cases))}"
    for child in element:
        if child.tag in children:
            yield from problems(child)
        else:
            yield f"{where} has a {child.tag} inside"


def problems_of_file(file):
    root = ElementTree.parse(file).getroot()
    if root.tag != "testsuites":
        yield f"the root is {root.tag}"
        return
    yield from problems(root)
    cases = root.findall("testsuite/testcase")
    if not cases:
        yield "no case"
    names = [(case.get("classname"), case.get("name")) for case in cases]
    for name in sorted({name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else ()):
        yield f"case {name} is there {names.count(name)} times"
    for failure in re.finditer(rb"(?s)<(failure|error) .*?(/>|</\1>)", Path(file).read_bytes()):
        if len(failure.group()) > MOST_BYTES_OF_A_FAILURE:
            yield f"a failure has {len(failure.group())} bytes: {failure.group()[:80]!r}"
    yield from problems_of_readers(file, root)


def problems_of_readers(file, root):
    """What public readers count otherwise; nothing where they are not installed."""
    counts = {name: sum(int(suite.get(name)) for suite in root) for name in TOTALS}
    if importlib.util.find_spec("junitparser"):
        import junitparser
        read = junitparser.JUnitXml.fromfile(str(file))
        cases = [case for suite in read for case in suite]
        kinds = [type(result) for case in cases for result in case.result]
        counted = {"tests": len(cases), "failures": kinds.count(junitparser.Failure),
                   "errors": kinds.count(junitparser.Error), "skipped": kinds.count(junitparser.Skipped)}
        if counted != counts:
            yield f"junitparser counts {counted}, not {counts}"
    if importlib.util.find_spec("xunitparser"):
        import xunitparser
        with open(file, encoding="utf-8") as stream:
            _, result = xunitparser.parse(stream)
        counted = {"tests": result.testsRun, "failures": len(result.failures), "errors": len(result.errors),
                   "skipped": len(result.skipped)}
        if counted != counts:
            yield f"xunitparser counts {counted}, not {counts}"


def main(files):
    if not files:
        print(__doc__, file=sys.stderr)
        return 2
    valid = True
    for file in files:
        try:
            wrong = list(problems_of_file(file))
        except OSError as error:
            print(f"{file}: cannot be read: {error}", file=sys.stderr)
            return 2
        except ElementTree.ParseError as error:
            wrong = [f"not well-formed: {error}"]
        for one in wrong:
            print(f"{file}: {one}")
        valid = valid and not wrong
    return 0 if valid else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
