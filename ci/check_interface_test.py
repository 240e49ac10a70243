#!/usr/bin/env python3
"""A changed header is found, a changed comment is none."""
import shutil, sys, tempfile
from pathlib import Path

import check_interface as checked

source = Path(__file__).resolve().parent.parent
header = "reference/comm/communicator.hpp"
with tempfile.TemporaryDirectory() as folder:
    root = Path(folder)
    for name in checked.headers(source) + [checked.VERSION_IS_IN]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, root / name)
    right = (root / header).read_text()
    known = {1: "0000", 2: checked.fingerprint(root)}
    version = (root / checked.VERSION_IS_IN).read_text()

    def problem_with(text, number=2):
        (root / header).write_text(text)
        (root / checked.VERSION_IS_IN).write_text(checked.re.sub(r"Version = \d+", f"Version = {number}", version))
        return checked.problem(root, known)

    assert not problem_with(right)
    assert not problem_with(right.replace("// ", "//  And another word: ").replace("\n\n", "\n\n\n"))
    one_more = right.replace("virtual void abort(", "virtual void one_more() {}\n  virtual void abort(", 1)
    assert one_more != right
    assert "increase kInterfaceVersion to 3" in problem_with(one_more)
    assert "no row for version 3" in problem_with(one_more, number=3)
    assert "increase kInterfaceVersion to 3" in problem_with(right, number=1), "an earlier version's headers"
    assert checked.code_of('a = "// no comment"; /* one\n */ b // another\n') == 'a = "// no comment"; b'
    assert {"reference/comm/call.hpp", "reference/comm/dtype.hpp", header} <= set(checked.headers(source))
sys.exit(0)
