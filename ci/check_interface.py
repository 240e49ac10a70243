#!/usr/bin/env python3
"""Fails when a header that modules are compiled with has changed, and the interface's version has not.

Modules are opened at run time and called by virtual functions. What they and the program must agree on is in the headers
below and in what these include. Comments and white space do not count.

usage: check_interface.py [ROOT]
"""
import hashlib, re, sys
from pathlib import Path

# What a module implements or calls by a pointer; the others follow by their includes.
ROOTS = ["harness/subject/backend.hpp", "reference/comm/errors.hpp", "reference/comm/communicator.hpp",
         "reference/device/runtime.hpp", "reference/training/training.hpp"]
VERSION_IS_IN = "reference/comm/interface.hpp"
# A row for each version that there was.
FINGERPRINTS = {1: "8f1d0d53af720c5d", 2: "53a5ab11f0f6ea75", 3: "d562bed2d073c877", 4: "af3bbc10ede479c2",
                5: "8223f3e98db9586a", 6: "e6f0566b4e6a1da6", 7: "c0d489ddee6c719d", 8: "f8c41778e88ebc17",
                9: "7f9799078bd30a53", 10: "e2fdf424127556c2", 11: "e029e6c893214d9e",
                12: "aaab572f3ed56368"}

NO_CODE = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def code_of(text):
    """Without comments, and with one blank for white space."""
    return " ".join(NO_CODE.sub(lambda match: match[0] if match[0].startswith('"') else " ", text).split())


def headers(root):
    found, waiting = set(), list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name in found or name == VERSION_IS_IN:
            continue
        found.add(name)
        waiting += re.findall(r'#include "([^"]+)"', (root / name).read_text())
    return sorted(found)


def fingerprint(root):
    digest = hashlib.sha256()
    for name in headers(root):
        digest.update(f"{name}\n{code_of((root / name).read_text())}\n".encode())
    return digest.hexdigest()[:16]


def problem(root, fingerprints=None):
    """In one line; empty when there is none."""
    fingerprints = FINGERPRINTS if fingerprints is None else fingerprints
    version = int(re.search(r"kInterfaceVersion = (\d+);", (root / VERSION_IS_IN).read_text())[1])
    now = fingerprint(root)
    if fingerprints.get(version) == now:
        return ""
    if version in fingerprints:
        return (f"{VERSION_IS_IN}: version {version} has fingerprint {fingerprints[version]}, and the headers have {now}; "
                f"increase kInterfaceVersion to {max(fingerprints) + 1} and add that row to ci/check_interface.py")
    return f"ci/check_interface.py: no row for version {version}; add {version}: \"{now}\""


def main(root):
    words = problem(root)
    print(words or f"interface: {len(headers(root))} headers, {fingerprint(root)}")
    return 1 if words else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent))
