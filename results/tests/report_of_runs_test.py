#!/usr/bin/env python3
"""Reports records of real runs, each alone and all together, and looks for the verdict that each must have.

usage: report_of_runs_test.py FOLDER RUN.jsonl...     FOLDER: where the pages go"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
try:
    import jinja2  # noqa: F401
except ImportError:
    print("skipped: no jinja2 here (pip install jinja2)")
    sys.exit(77)

from plumbline_results import report  # noqa: E402
from plumbline_results.report.records import load  # noqa: E402
from plumbline_results.report.verdicts import failing, outcome_of  # noqa: E402

# By the name of a run's folder, the exit status that the run had (ci/CMakeLists.txt).
STATUSES = {
    "pass": 0,
    "bench": 0,
    "pipeline_bubble": 0,
    "fail": 1,
    "mutants": 0,
    "shard": 0,
    "expectations": 0,
    "inconclusive": 3,
    "statement": 0,
    "skip": 0,
}
OUT, FILES = (Path(sys.argv[1]), [Path(one) for one in sys.argv[2:]]) if len(sys.argv) > 2 else (Path("."), [])


class RunsTest(unittest.TestCase):
    def test_statuses(self):
        for file in FILES:
            with self.subTest(file.parent.name):
                self.assertEqual(outcome_of(load(file)).status, STATUSES[file.parent.name])

    def test_what_is_wrong_is_on_the_page(self):
        [file] = [one for one in FILES if one.parent.name == "fail"]
        page = OUT / "fail.html"
        self.assertEqual(report.main([str(file), "--out", str(page)]), 0)
        words = page.read_text("utf-8")
        found = failing(load(file))
        self.assertTrue(found)
        for name, results in found.items():
            self.assertIn(name, words)
            self.assertIn(results[0].verdict, words)

    def test_all_together(self):
        for form in ("html", "md", "github"):
            page = OUT / f"all.{form}"
            self.assertEqual(report.main([*map(str, FILES), "--format", form, "--out", str(page)]), 0)
            self.assertLess(page.stat().st_size, 3 << 20)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
