#!/usr/bin/env python3
"""Checks junit.xml files: well-formed, made of what the Jenkins xunit plugin's schema junit-10 allows and Plumbline
writes of it, and with totals that are those of the cases.

usage: check_junit.py JUNIT.xml...

Exit status 0 when all files are valid, 1 when one is not, 2 for files that cannot be read.
"""
import re, sys
import xml.etree.ElementTree as ElementTree

# What each element has: its attributes, and the elements that may be inside.
ELEMENTS = {
    "testsuites": (set(), {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time", "timestamp"}, {"testcase"}),
    "testcase": ({"name", "classname", "time"}, {"failure", "error", "skipped"}),
    "failure": ({"message", "type"}, set()),
    "error": ({"message", "type"}, set()),
    "skipped": ({"message"}, set()),
}
FORMS = {"time": r"\d+(\.\d+)?", "testsuite time": r"\d+(\.\d{1,3})?",  # the schema of Jenkins' xunit plugin allows no more
         "timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "message": r"(?s).+", "name": r".+"}
TOTALS = {"tests": "testcase", "failures": "testcase/failure", "errors": "testcase/error",
          "skipped": "testcase/skipped"}


def problems(element):
    attributes, children = ELEMENTS[element.tag]
    where = f"{element.tag} '{element.get('name', '')}'"
    if set(element.attrib) != attributes:
        yield f"{where} has the attributes {sorted(element.attrib)}, not {sorted(attributes)}"
        return
    for name, value in element.attrib.items():
        if not re.fullmatch(FORMS.get(f"{element.tag} {name}", FORMS.get(name, ".*")), value):
            yield f"{where}: {name}='{value}'"
    if element.tag == "testcase" and len(element) > 1:
        yield f"{where} ended in {len(element)} ways"
    if element.tag == "testsuite":
        for name, cases in TOTALS.items():
            if element.get(name) != str(len(element.findall(cases))):
                yield f"{where}: {name}='{element.get(name)}', but there are {len(element.findall(cases))}"
    for child in element:
        if child.tag in children:
            yield from problems(child)
        else:
            yield f"{where} has a {child.tag} inside"


def main(files):
    if not files:
        print(__doc__, file=sys.stderr)
        return 2
    valid = True
    for file in files:
        try:
            root = ElementTree.parse(file).getroot()
            wrong = list(problems(root)) if root.tag == "testsuites" else [f"the root is {root.tag}"]
            if root.find("testsuite/testcase") is None:
                wrong.append("no case")
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
