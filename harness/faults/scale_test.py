"""Tests of ci/scale: growth faster than in proportion is found, noise is none, and 256 ranks and many shards run.

usage: scale_test.py BUILD [unittest arguments]
"""
import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMMAND = Path(__file__).resolve().parents[2] / "ci/scale"
BUILD = None
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("scale", str(COMMAND))
scale = importlib.util.module_from_spec(importlib.util.spec_from_loader("scale", loader))
sys.modules["scale"] = scale
loader.exec_module(scale)
SIZES = (8, 16, 32, 64, 128, 256)


class Scale(unittest.TestCase):
    def is_faster(self, of, least=0.2):
        return scale.growth(SIZES, [of(size) for size in SIZES], least)[1]

    def test_growth_in_proportion_passes_and_a_square_does_not(self):
        self.assertFalse(self.is_faster(lambda n: 1.0))
        self.assertFalse(self.is_faster(lambda n: 5 - n / 100))
        self.assertFalse(self.is_faster(lambda n: 1 + n / 50))
        self.assertFalse(self.is_faster(lambda n: 1 + n * n.bit_length() / 50))
        self.assertTrue(self.is_faster(lambda n: 1 + n * n / 1000))
        self.assertTrue(self.is_faster(lambda n: 0.3 if n < 256 else 9.0), "a step at the end")
        self.assertFalse(self.is_faster(lambda n: 0.3 if n < 256 else 0.6), "noise")

    def test_a_table_names_what_grows_faster(self):
        rows = [scale.Row("cases", n, n * n / 100, 1000) for n in SIZES]
        lines = dict(scale.judged(rows))
        self.assertEqual(list(lines.values()), [True, False])
        self.assertRegex(list(lines)[0], r"^cases: time grows with exponent [12]\.\d\d: FASTER")

    def test_256_ranks_and_merged_shards_are_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            runs = scale.Runs(BUILD, folder)
            runs.backends = ["local"]
            self.assertEqual([row.size for row in runs.ranks((256,))], [256])
            self.assertEqual([row.size for row in runs.shards((1, 3))], [2, 3])
            with self.assertRaisesRegex(RuntimeError, "status 1"):
                runs.check("--backend", "local", "--filter", "faults.expect[where=one,world=1]")

    def test_bad_options_are_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            for words in (("x",), ("--only",), ("--only", "x"), ("--build", folder), ("--out", f"{folder}/no/file"), ("--quic",)):
                done = subprocess.run([sys.executable, "-B", COMMAND, *words], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), words)


if __name__ == "__main__":
    BUILD = Path(sys.argv.pop(1)).resolve()
    unittest.main()
