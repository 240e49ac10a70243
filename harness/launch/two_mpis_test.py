"""plumbline canary between the two MPIs of this machine, before one replaces the other.

usage: two_mpis_test.py PLUMBLINE MODULES: the program and the folder of its modules
"""
import json, os, subprocess, sys, tempfile, unittest
from pathlib import Path

from launchers_test import ROOT, end, mpis_in

MOVES = {"all_gather", "all_to_all", "broadcast"}
SUMS = {"all_reduce", "reduce", "reduce_scatter"}


class TwoMpis(unittest.TestCase):
    def setUp(self):
        self.launchers = {words: program for program, words in mpis_in(MODULES)}
        for words, package in (("Open MPI", "openmpi-bin and libopenmpi-dev"), ("MPICH", "mpich and libmpich-dev")):
            if words not in self.launchers:
                self.skipTest(f"no {words} here with a module for it: Debian's {package}, at the time of the build")
        temporary = tempfile.TemporaryDirectory(prefix="two-mpis-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def canary(self, a, b, *arguments):
        """The status; the words are in self.words, the figures in self.figures."""
        of_launchers = ("OMPI_", "PMI", "SLURM_", "TORCHELASTIC_", "MASTER_", "RANK", "WORLD_SIZE")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(of_launchers)} | ROOT
        # Ranks that share cores make no time worth a verdict: one launch judges none.
        done = subprocess.run([PLUMBLINE, "canary", "--backend", "mpi", "--launcher", self.launchers[a], "--against", "mpi", "--against-launcher",
                               self.launchers[b], "--min-time", "0.0001", "--launches", "1", "--out", "out", *arguments],
                              cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        self.words = done.stdout
        self.figures = json.loads((self.folder / "out/canary.json").read_text())
        return done.returncode

    def assert_versions(self, a, b):
        self.assertRegex(self.words, rf"(?m)^A: backend mpi {a} v?\d.*$")
        self.assertRegex(self.words, rf"(?m)^B: backend mpi {b} v?\d.*$")
        self.assertIn(a, self.figures["a"]["version"])
        self.assertIn(b, self.figures["b"]["version"])

    def assert_right(self, rows):
        for row in rows:
            self.assertEqual((row["a"]["fault"], row["b"]["fault"]), ("", ""), row)
            if row["operation"] in MOVES or row["ranks"] == 2:
                self.assertEqual(row["differing"], 0, f"moves, and sums of two numbers, have one result: {row}")
            if row["operation"] in SUMS:
                least = 0 if row["elements"] > 100 else -1  # few sums may be exact
                self.assertTrue(least < row["a"]["error"] <= 1 and least < row["b"]["error"] <= 1, row)

    def test_each_may_replace_the_other_where_both_are_right(self):
        calls = ["--sizes", "4,16Ki", "--dtypes", "f32,bf16"]
        self.assertEqual(self.canary("Open MPI", "MPICH", "--world-size", "3", *calls), 0, self.words)
        self.assert_versions("Open MPI", "MPICH")
        self.assertRegex(self.words, r"(?m)^OK: B may replace A in 24 of 24 calls; bits differ in \d+$")
        self.assertEqual({row["operation"] for row in self.figures["rows"]}, MOVES | SUMS)
        self.assert_right(self.figures["rows"])
        self.assertTrue(all(order[side]["orders"] for order in self.figures["orders"] for side in "ab"), self.words)
        self.assertEqual(self.canary("MPICH", "Open MPI", "--world-size", "2", "--operations", "all_reduce,broadcast", *calls), 0, self.words)
        self.assert_versions("MPICH", "Open MPI")
        self.assert_right(self.figures["rows"])

    def test_algorithms_of_one_library_are_told_apart_by_their_order_of_additions(self):
        calls = ["--world-size", "4", "--sizes", "4Ki", "--dtypes", "f32", "--operations", "all_reduce"]
        # Open MPI's `tuned`: 1 reduces to a root and broadcasts, 3 doubles, 4 is a ring.
        tuned = "OMPI_MCA_coll_tuned_use_dynamic_rules=1", "OMPI_MCA_coll_tuned_allreduce_algorithm="
        found = {}
        for algorithm in ("1", "3"):
            variables = [word for option, number in (("--variable", algorithm), ("--against-variable", "4"))
                         for word in (option, tuned[0], option, tuned[1] + number)]
            self.assertEqual(self.canary("Open MPI", "Open MPI", *calls, *variables), 0, self.words)
            (order,) = self.figures["orders"]
            found[algorithm], found["4"] = order["a"]["orders"], order["b"]["orders"]
            self.assertRegex(self.words, rf"(?m)^A: backend mpi, {tuned[0]}, {tuned[1]}{algorithm} Open MPI")
            self.assertEqual(self.figures["b"]["variables"][tuned[1][:-1]], "4")
        self.assertEqual(set(map(type, found.values())), {list})
        self.assertEqual(len({str(orders) for orders in found.values()}), 3, found)

    def test_bits_that_the_order_of_additions_explains_fail_on_demand_alone(self):
        sums = ["--world-size", "3", "--sizes", "64Ki", "--dtypes", "f32", "--operations", "all_reduce,reduce"]
        status = self.canary("Open MPI", "MPICH", *sums, "--same-bits")
        differing = sum(row["differing"] > 0 for row in self.figures["rows"])
        self.assertEqual(status, 1 if differing else 0, self.words)
        (order,) = self.figures["orders"]
        if order["a"]["orders"] != order["b"]["orders"]:
            self.assertGreater(differing, 0, f"other orders of additions, and the same bits: {self.words}")

    def test_a_fault_of_the_new_one_is_told_from_one_of_the_old(self):
        broken, calls = "col.drop_last_element", ["--world-size", "3", "--sizes", "4Ki", "--dtypes", "f32", "--operations", "all_reduce,all_gather"]
        self.assertEqual(self.canary("Open MPI", "MPICH", *calls, "--against-mutant", broken), 1, self.words)
        self.assertRegex(self.words, r"(?m)^all_reduce .* wrong: B: rank \d+, element 1023: ")
        self.assertRegex(self.words, r"(?m)^NOT OK: B is wrong, slower or too different beside A in 1 of 2 calls")
        self.assertEqual(self.canary("Open MPI", "MPICH", *calls, "--mutant", broken), 0, self.words)
        self.assertRegex(self.words, r"(?m)^all_reduce .* wrong: A: rank \d+, element 1023: ")


if __name__ == "__main__":
    PLUMBLINE, MODULES = sys.argv[1], Path(sys.argv[2])
    end(unittest.main(argv=sys.argv[:1], exit=False).result)
