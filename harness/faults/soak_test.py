"""A soak finds what is planted: wrong verdicts, leaks of each kind, what is left; and finds nothing where nothing is.

usage: soak_test.py BUILD [unittest arguments]
"""
import json
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import rows
import scene
import soak

BUILD = None
COMMAND = scene.ROOT / "ci/soak"
WORDS = ["--backend", "local", "--no-control"]


def samples(**values):
    """Of a process whose memory, descriptors or threads are what the functions say of the time."""
    steady = {"memory": lambda _: 50_000, "descriptors": lambda _: 9, "threads": lambda _: 4} | values
    return [soak.Held(**{name: int(of(at)) for name, of in steady.items()}) for at in range(90)]


class Judging(unittest.TestCase):
    def problems(self, results=0, **values):
        return soak.problems_of_growth("a worker", soak.growth_of(samples(**values)), results)

    def test_what_comes_and_goes_is_no_growth(self):
        self.assertEqual(self.problems(), [])
        self.assertEqual(self.problems(memory=lambda at: 50_000 + at % 7 * 9_000, descriptors=lambda at: 9 + at % 3, threads=lambda at: 4 + at % 2), [])

    def test_what_a_start_takes_is_no_growth(self):
        self.assertEqual(self.problems(memory=lambda at: 1_000 + min(at, 25) * 9_000, descriptors=lambda at: min(at, 25)), [])

    def test_each_growth_is_named(self):
        self.assertRegex(self.problems(memory=lambda at: 50_000 + at * 200)[0], "^a worker grew by 6000 KiB, from 56000$")
        self.assertRegex(self.problems(descriptors=lambda at: 9 + at // 20 + at % 3)[0], "^a worker holds [12] descriptors more$")
        self.assertEqual(self.problems(threads=lambda at: 4 + (at >= 50)), ["a worker has 1 threads more"])

    def test_results_that_a_driver_keeps_are_no_growth(self):
        self.assertEqual(self.problems(results=600, memory=lambda at: 50_000 + at * 200), [])
        self.assertEqual(len(self.problems(results=300, memory=lambda at: 50_000 + at * 200)), 1)

    def test_few_samples_say_nothing(self):
        self.assertIsNone(soak.growth_of(samples()[:soak.ENOUGH_SAMPLES - 1]))

    def test_a_known_failure_is_expected_as_long_as_it_fails(self):
        known = {"expectation": {"verdict": "fail"}}
        seen = [({"verdict": "pass"}, True), ({"verdict": "skip"}, True), ({"verdict": "warn"}, False), ({"verdict": "flake"}, False),
                ({"verdict": "inconclusive"}, False), ({"verdict": "fail"} | known, True), ({"verdict": "pass"} | known, False),
                ({"verdict": "hang"} | known, False)]
        for result, expected in seen:
            self.assertEqual(soak.is_expected(result), expected, result)

    def test_a_slice_is_repeated_often_or_not_at_all(self):
        first = soak.Slice("local", "gossip", ["--repeat", 2], 0, 1)
        times = lambda **of: (one := soak.longer(soak.Outcome(first, **of), 30)) and one.words[-1]
        self.assertEqual(times(case_seconds=2, verdicts={"pass": 10}), 29)
        self.assertEqual(times(case_seconds=20, verdicts={"pass": 2}), soak.LEAST_REPETITIONS)
        self.assertIsNone(times(case_seconds=60, verdicts={"pass": 2}))
        self.assertIsNone(times(case_seconds=1, verdicts={"skip": 8}))
        self.assertIsNone(times(case_seconds=1, verdicts={"pass": 8}, is_cut=True))

    def test_load_changes_and_ends(self):
        load = soak.Load(seed=3, most=2, seconds=(0.02, 0.05))
        time.sleep(1)
        load.set(2)
        pids = load.pids()
        self.assertEqual(len(pids), 2)
        load.close()
        self.assertEqual([scene.state_of(pid) for pid in pids], ["", ""])
        self.assertEqual(load.since(), (0, 2))


class Slices(unittest.TestCase):
    def setUp(self):
        self.out = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.runner = soak.Runner(rows.Build(BUILD, sys.executable), self.out)

    def run_slice(self, *words, steady=0, program=None):
        return self.runner.run(soak.Slice("local", "collectives", [*WORDS, *words], 1, 1, steady), program or BUILD / "tests/plumbline_faults")

    def steady(self, name):
        return self.run_slice("--filter", f"faults.leaks_{name}*", "--repeat", 400, steady=3)

    def test_a_good_slice_has_no_problem(self):
        outcome = self.steady("nothing")
        self.assertEqual((outcome.problems, outcome.verdicts), ([], {"pass": 400}))
        self.assertGreaterEqual(len(outcome.grown), 2, "the driver and a worker have been measured")
        self.assertTrue((outcome.record / "run.jsonl").exists())

    def test_leaks_of_a_worker_are_found(self):
        for name, words in (("memory", r"grew by \d{4,} KiB"), ("descriptors", r"holds \d+ descriptors more"), ("threads", r"has \d+ threads more")):
            problems = self.steady(name).problems
            self.assertRegex("\n".join(problems), words)
            self.assertNotIn("the driver", "\n".join(problems))

    def test_rounds_that_are_through_are_merged_and_all_is_reported(self):
        outcomes, said = [], []
        for number, part in ((1, "1/2"), (1, "2/2"), (2, "1/3"), (2, "3/3")):
            words = [*WORDS, "--filter", "COLL-049", "--world-size", "3", "--seed", number, "--shard", part]
            outcomes.append(self.runner.run(soak.Slice("local", "collectives", words, number, int(part[-1]))))
        outcomes.append(self.runner.run(soak.Slice("local", "collectives", [*WORDS, "--filter", "COLL-049", "--world-size", "2"], 3, 1)))
        self.assertEqual([one.problems for one in outcomes], [[]] * 5)
        self.assertEqual(soak.merge_and_report(self.runner.build, self.out, outcomes, said.append), [])
        self.assertRegex(said[0], "^1 rounds merged; (4 records|no report)")
        self.assertTrue((self.out / "rounds/00001/run.jsonl").exists())
        (outcomes[0].record / "run.jsonl").write_text("damaged\n")
        self.assertRegex(soak.merge_and_report(self.runner.build, self.out, outcomes, said.append)[0], "^merge of round 1: status 2: ")

    def test_an_unexpected_verdict_is_found_and_counted(self):
        outcome = self.run_slice("--filter", "faults.expect[where=one,world=3]", "--filter", "faults.a_pass*")
        self.assertEqual(len(outcome.problems), 1)
        self.assertRegex(outcome.problems[0], r"(?s)^faults.expect\[where=one,world=3\] \(plain, seed 1\): fail: .*a failing expectation")
        self.assertIn("| local | 1 | 5 | 1 | 0 |", soak.table([outcome])[2])

    def test_what_is_left_is_found(self):
        program = self.out / "leaves"
        program.write_text(f'#!/bin/sh\nsetsid sleep 60 &\ntouch "$PLUMBLINE_TMPDIR/a_file"\nexec {BUILD}/tests/plumbline_faults "$@"\n')
        program.chmod(0o755)
        soak.scene.SECONDS_TO_VANISH, before = 1, soak.scene.SECONDS_TO_VANISH
        problems = self.run_slice("--filter", "faults.a_pass*", program=program).problems
        soak.scene.SECONDS_TO_VANISH = before
        self.assertRegex("\n".join(problems), r"left: process \d+ \(sleep 60")
        self.assertIn("left: scratch a_file", problems)

    def test_a_run_whose_cases_are_all_skipped_has_no_problem(self):
        words = ["--filter", "COLL-105", "--world-size", "3", "--shard"]
        plugin = f"plugin:{BUILD}/tests/libunix_sockets.so"
        outcomes = [self.runner.run(soak.Slice("plugin", "collectives", ["--backend", plugin, *words, f"{part}/2"], 1, 2)) for part in (1, 2)]
        self.assertEqual([(one.problems, set(one.verdicts)) for one in outcomes], [([], {"skip"})] * 2)
        self.assertEqual(soak.merge_and_report(self.runner.build, self.out, outcomes, print), [])

    def test_a_run_that_cannot_run_is_found(self):
        self.assertRegex(self.run_slice("--filter", "nothing.of.this.name").problems[0], "^status [23]: ")


class Command(unittest.TestCase):
    def soak(self, *words):
        return subprocess.run([sys.executable, "-B", COMMAND, *map(str, words)], capture_output=True, text=True)

    def test_bad_options_are_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "file").touch()
            bad = [(), ("0",), ("-1",), ("x",), ("nan",), ("1e9",), ("1", "2"), ("1", "--seed", "-1"), ("1", "--seed", "1.5"), ("1", "--only", "mars"),
                   ("1", "--load", "65"), ("1", "--out", folder), ("1", "--out", f"{folder}/file"), ("1", "--build", folder), ("1", "--no-such"),
                   ("1", "--expectations", "local"), ("1", "--expectations", f"mars={folder}/file"), ("1", "--expectations", "local=/no/such")]
            for words in bad:
                done = self.soak(*words)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), (words, done))

    def test_a_signal_ends_it_with_what_was_found(self):
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen([sys.executable, "-B", COMMAND, "1", "--only", "adapter", "--load", "1", "--seed", "5", "--build", BUILD, "--out",
                                        f"{folder}/out"], stdout=subprocess.PIPE, text=True)
            while "round" not in process.stdout.readline():
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            words, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, words)
            self.assertRegex(words, r"OK: seed 5, 0.0\d h, \d+ slices, [1-9]\d* cases, 0 problems")
            slices = json.loads(Path(folder, "out/soak.json").read_text())["slices"]
            self.assertTrue(Path(folder, "out", slices[0]["record"], "run.jsonl").exists())


if __name__ == "__main__":
    BUILD = Path(sys.argv.pop(1)).resolve()
    unittest.main()
