"""trend: planted changes are found at the run where they were planted, and steady series have none."""
import json
import os
import random
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import measured_records as made

made.skip_without("scipy", "ruptures")
sys.path.insert(0, str(made.RESULTS))
from plumbline_results import history, trend


def values(seed, count, deviation=0.01, at=None, factor=1.0):
    source = random.Random(seed)
    return [source.lognormvariate(0, deviation) * (factor if at is not None and run >= at else 1) for run in range(count)]


class ChangePoints(unittest.TestCase):
    def test_steady_series_have_none(self):
        wrong = sum(bool(trend.changes_of(values(seed, count, deviation))) for seed in range(50) for count, deviation in
                    ((8, 0.01), (12, 0.03), (20, 0.003), (40, 0.01)))
        self.assertLessEqual(wrong, 1)

    def test_a_change_is_found_where_it_was(self):
        found = [trend.changes_of(values(seed, 30, at=20, factor=1.05)) for seed in range(50)]
        self.assertGreaterEqual(sum(len(one) == 1 and abs(one[0] - 20) <= 1 for one in found), 48)

    def test_two_changes(self):
        both = [one * (0.9 if run >= 25 else 1) for run, one in enumerate(values(1, 40, at=12, factor=1.1))]
        self.assertEqual(trend.changes_of(both), [12, 25])

    def test_one_odd_run_is_no_change(self):
        odd = 0
        for seed in range(50):
            series = values(seed, 30)
            series[15] *= 1.5
            odd += bool(trend.changes_of(series))
        self.assertLessEqual(odd, 1)


class Command(unittest.TestCase):
    def store(self, folder, count, at=None, factor=1.0, benchmark="collectives.all_reduce", **changes):
        for run, value in enumerate(values(7, count, at=at, factor=factor)):
            record = made.write(os.path.join(folder, "record"), made.measurement([1e-6 * value] * 3, benchmark),
                                started=f"2026-11-{run + 1:02}T10:00:00Z", labels={"commit": f"c{run + 1}"}, **changes)
            history.add(os.path.join(folder, "history"), record)
        return os.path.join(folder, "history")

    def test_it_names_the_run(self):
        with tempfile.TemporaryDirectory() as folder:
            store = self.store(folder, 20, at=12, factor=1.1)
            status, out, err = made.run("trend", "--store", store)
            self.assertEqual((status, err), (0, ""))
            self.assertRegex(out, r"collectives.all_reduce .*: \+\d+\.\d % since [0-9a-f]{12} \(2026-11-13T10:00:00Z, commit=c13\); now 1\.(09|10|11)")
            self.assertIn("1 series: 1 changed, 0 steady", out)
            self.assertEqual(made.run("trend", "--store", store, "--gate")[0], 1)
            found, = json.loads(made.run("trend", "--store", store, "--format", "json")[1])
            self.assertEqual([change["labels"]["commit"] for change in found["changes"]], ["c13"])
            self.assertEqual(made.run("trend", "--store", store, "--gate", "--effect", "50%")[0], 0)

    def test_other_machines_are_other_series(self):
        with tempfile.TemporaryDirectory() as folder:
            self.store(folder, 10)
            store = self.store(folder, 3, factor=2, at=0, environment={"cpu": "another", "cores": 2, "usable_cores": 2})
            status, out, _ = made.run("trend", "--store", store)
            self.assertEqual(status, 0)
            self.assertIn("1 series: 0 changed, 1 steady; 1 have fewer than 8 runs", out)

    def test_bad_input_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            store = self.store(folder, 3)
            for words, status, due in ((["--store", folder + "/no"], 2, "is no folder"),
                                       (["--store", store], 3, "no series has 8 quiet runs of one machine; the longest has 3"),
                                       (["--store", store, "--benchmark", "none"], 2, "has no measurement of none"),
                                       (["--effect", "x"], 2, "'x' is not a share")):
                got, _, err = made.run("trend", *words)
                self.assertEqual((got, err.count("\n")), (status, 1), err)
                self.assertIn(due, err)


if __name__ == "__main__":
    unittest.main()
