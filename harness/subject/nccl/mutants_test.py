"""README.md's tables of faults and mutants are true: each has a row, and the row's test meets the fault, or fails with the mutant.

usage: mutants_test.py NCCL_TEST [unittest arguments]
"""
import os, re, signal, subprocess, sys, time, unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
NCCL_TEST = os.path.realpath(sys.argv[1])
DOUBLE = (HERE / "double/nccl_double.cpp").read_text()
ROW = re.compile(r"^\| `(\w+)` \| .+ \| `(\w+\.\w+)`, (\d) ranks? \|$", re.MULTILINE)
LONG = 300  # seconds
AT_ONCE = 2


def rows(heading):
    """(name, test, ranks) of the table whose first column has that heading."""
    table = (HERE / "README.md").read_text().split(f"\n| {heading} |")[1].split("\n\n")[0]
    found = ROW.findall(table)
    assert len(found) == table.count("\n") - 1, f"a row of '{heading}' has another form than: {ROW.pattern}"
    return found


def outcome(test, ranks, limit, mutant=""):
    """How the one test ends on so many ranks, and in how many seconds: passed, failed or hung."""
    begun = time.monotonic()
    child = subprocess.Popen([NCCL_TEST, ranks, f"--gtest_filter={test}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             env=os.environ | {"NCCL_DOUBLE_MUTANT": mutant}, start_new_session=True)
    try:
        output, _ = child.communicate(timeout=limit)
        passed = child.returncode == 0 and "[  PASSED  ] 1 test." in output
        return "passed" if passed else "failed", time.monotonic() - begun
    except subprocess.TimeoutExpired:
        return "hung", limit
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()


class Tables(unittest.TestCase):
    def test_each_fault_of_nccl_has_a_test_that_plants_and_survives_it(self):
        faults = rows("fault")
        self.assertEqual(sorted(name for name, _, _ in faults), sorted(set(re.findall(r'(?:fault\(\)|what) == "(\w+)"', DOUBLE))))
        source = (HERE / "faults_test.cpp").read_text()
        for name, test, ranks in faults:
            with self.subTest(fault=name):
                suite, case = test.split(".")
                body = source.split(f"TEST_F({suite}, {case}) {{")[1].split("\n}\n")[0]
                self.assertIn(f'"{name}"', body)
                self.assertEqual(outcome(test, ranks, LONG)[0], "passed")

    def test_each_mutant_of_the_module_is_noticed_by_the_test_of_its_row(self):
        mutants = rows("mutant")
        listed = re.search(r"kMutants\{([^}]*)\}", DOUBLE)[1]
        self.assertEqual(sorted(name for name, _, _ in mutants), sorted(re.findall(r'"(\w+)"', listed)))

        def ends(row):
            name, test, ranks = row
            without, seconds = outcome(test, ranks, LONG)
            if without != "passed":
                return without, None
            return without, outcome(test, ranks, max(5, 20 * seconds), name)[0]

        with ThreadPoolExecutor(AT_ONCE) as pool:
            for row, (without, with_mutant) in zip(mutants, pool.map(ends, mutants)):
                with self.subTest(mutant=row[0], test=row[1]):
                    self.assertEqual(without, "passed", "without a mutant")
                    self.assertIn(with_mutant, ("failed", "hung"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
