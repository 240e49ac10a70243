"""Tests of sanitize_parts: the parts are the whole, each unit once, and of about the same time.

usage: sanitize_parts_test.py [unittest arguments]
"""
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import sanitize_parts as parts

TESTS = [(f"one_{n}", ["unit"]) for n in range(50)] + [("cli", ["harness"]), ("format", ["install"]), ("adapter_protocol.sample", ["unit"])]


class Parts(unittest.TestCase):
    def test_each_unit_is_in_one_part(self):
        units, left = parts.units_of(TESTS, ["gossip", "pass"], "thread")
        self.assertEqual(len(units), 50 + len(parts.CHECKS) + 2)
        for count in (1, 2, 7, 100):
            split = parts.split(units, lambda unit: len(unit), count)
            self.assertEqual(len(split), count)
            self.assertEqual(sorted(unit for part in split for unit in part), sorted(units))
        self.assertEqual(set(left), {"test cli", "test format", "test adapter_protocol.sample"})
        self.assertTrue(all(left.values()), "each with a reason")

    def test_the_order_of_tests_does_not_matter(self):
        units, _ = parts.units_of(TESTS, ["gossip"], "address")
        seconds = lambda unit: {"check collectives": 900, "mutants gossip": 700}.get(unit, 30)
        self.assertEqual(parts.split(units, seconds, 3), parts.split(units[::-1], seconds, 3))

    def test_parts_take_about_the_same_time(self):
        seconds = {f"test {n}": n * 10 for n in range(60)}
        sums = [sum(seconds[unit] for unit in part) for part in parts.split(list(seconds), seconds.get, 4)]
        self.assertLess(max(sums) - min(sums), 100)

    def test_what_takes_more_than_an_hour_is_said(self):
        words = parts.listing(["test a"], {}, lambda _: 4000, (1, 2))
        self.assertIn("more than an hour: give more parts than 2", words[1])

    def test_a_reason_is_said_once(self):
        words = parts.listing(["test a"], {"test d": "slow", "test b": "times", "test c": "slow"}, lambda _: 1, (1, 1))
        self.assertEqual(words[2:-len(parts.ABSENT)], ["left out: times", "          test b", "left out: slow", "          test c", "          test d"])

    def test_a_list_changes_nothing(self):
        """Nothing that installs or configures is called; a folder that was not configured is said to be none."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "bin").mkdir()
            (Path(folder) / "ci").mkdir()
            for name in "dpkg-query", "apt-get", "sudo", "cmake", "ninja":
                program = Path(folder, "bin", name)
                program.write_text(f"#!/bin/sh\ntouch {folder}/called\n")
                program.chmod(0o755)
            for name in "sanitize", "setup.sh", "sanitize_parts.py", "sanitize_times.json":
                shutil.copy(parts.ROOT / "ci" / name, Path(folder, "ci"))
            done = subprocess.run([f"{folder}/ci/sanitize", "--list", "thread"], capture_output=True, text=True,
                                  env={**os.environ, "PATH": f"{folder}/bin:/usr/bin:/bin"})
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("build-tsan is not configured", done.stderr)
            self.assertEqual(sorted(one.name for one in Path(folder).iterdir()), ["bin", "ci"])

    def test_a_part_is_two_numbers(self):
        self.assertEqual(parts.part("2/5"), (2, 5))
        for text in ("", "2", "0/5", "6/5", "a/b", "1/2/3", "-1/5", "1/0", "1/9999"):
            with self.assertRaises(parts.argparse.ArgumentTypeError):
                parts.part(text)

    def test_times_are_of_units_that_can_be(self):
        times = json.loads(parts.TIMES.read_text())
        self.assertEqual(set(times), {"thread", "address"})
        known = {f"mutants {name}" for name in parts.components()} | {f"check {name}" for name in parts.CHECKS}
        for kind in times.values():
            self.assertEqual({unit for unit in kind if not unit.startswith("test ")} - known, set())
            self.assertTrue(all(0 < seconds <= parts.HOUR for seconds in kind.values()), "a unit that takes more than an hour fits no part")


if __name__ == "__main__":
    unittest.main()
