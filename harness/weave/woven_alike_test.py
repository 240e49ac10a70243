#!/usr/bin/env python3
"""The woven program, with no mutant chosen, answers and trains as the product does, to the bit; with one it does not.

usage: woven_alike_test.py PLUMBLINE WOVEN
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PLUMBLINE, WOVEN = sys.argv[1:3]


def said(program, *arguments, mutant="", text=None):
    done = subprocess.run([program, *arguments], input=text, capture_output=True, text=True,
                          env={**os.environ, "PLUMBLINE_WOVEN": mutant})
    if done.returncode != 0:
        raise AssertionError(f"{program} {arguments}: status {done.returncode}\n{done.stderr}")
    return done.stdout


def without_times(answers):
    """Answers, one a line, but for what an operation measures: no two runs take the same time."""
    def others(answer):
        return {name: value for name, value in answer.items() if name not in ("periods", "call_seconds")}
    return [json.loads(line, object_hook=others) for line in answers.splitlines()]


class Alike(unittest.TestCase):
    def test_answers(self):
        operations = [row["name"] for row in json.loads(said(PLUMBLINE, "adapter", "--describe", "--format", "json"))["operations"]]
        self.assertGreater(len(operations), 40)
        questions = "".join(said(PLUMBLINE, "adapter", "--example", name).splitlines(True)[0] for name in operations)
        right = without_times(said(PLUMBLINE, "adapter", text=questions))
        self.assertEqual(without_times(said(WOVEN, "adapter", text=questions)), right)
        self.assertNotEqual(without_times(said(WOVEN, "adapter", text=questions, mutant="amp.hysteresis_off_by_one")), right)

    @unittest.skipUnless((Path(PLUMBLINE).parent.parent / "lib/plumbline/libplumbline_training.so").exists(), "built without LibTorch")
    def test_training(self):
        def tensors(program):
            with tempfile.TemporaryDirectory() as folder:
                said(program, "train", "--model", "mlp", "--pipeline", "2", "--data-parallel", "1", "--precision", "fp16", "--steps", "6", "--out", folder)
                return {file.name: file.read_bytes() for file in Path(folder).rglob("*.safetensors")}

        right = tensors(PLUMBLINE)
        self.assertTrue(right)
        self.assertEqual(tensors(WOVEN), right)

    def test_refuses_what_has_no_edits(self):
        for subject, mutant in (("cat", "amp.below_min"), (f"{PLUMBLINE} adapter", "amp.below_min")):
            done = subprocess.run([WOVEN, "check", "--adapter", subject, "--mutant", mutant, "--filter", "SCALER-032"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(f"--mutant {mutant}: it is an edit of the reference's source, and the subject here is '{subject}'", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
