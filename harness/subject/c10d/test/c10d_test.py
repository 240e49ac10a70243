"""Backend c10d over gloo, and over a backend outside of torch, acme_group.py: right it passes, and each fault of it is found by the
requirement that names it.

usage: c10d_test.py PLUMBLINE [unittest arguments]

Each fault imports torch anew. The tests of the build have one of each kind, C10d; `c10d_test.py PLUMBLINE Whole` has all of them.
"""
import json, os, re, subprocess, sys, tempfile, time, unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PLUMBLINE = str(Path(sys.argv[1]).resolve())
HERE = Path(__file__).resolve().parent
EXPECTATIONS = str(HERE.parent / "gloo_expectations.toml")
DEVIATIONS = HERE.parent / "gloo_deviations.py"
AT_ONCE = 3

# fault: what it is, the requirement that finds it, the verdict, and the number of ranks at which it shows.
FAULTS = {
    "wrong_sum": ("the last byte of an all_reduce is off by one bit", "COLL-001", "fail", 2),
    "product_is_sum": ("products are sums", "COLL-001", "fail", 2),
    "max_is_min": ("max is min", "COLL-001", "fail", 2),
    "drops_the_last_element": ("all_reduce leaves the last element as it was", "COLL-001", "fail", 2),
    "sums_in_bfloat16": ("f32 is added as bf16", "COLL-004", "fail", 2),
    "loses_infinity": ("all_reduce replaces NaN and infinity", "COLL-005", "fail", 2),
    "saturates": ("sums of i32 stop at the largest", "COLL-009", "fail", 2),
    "raises": ("all_reduce raises an exception", "COLL-001", "fail", 2),
    "average_is_sum": ("averages are not divided", "COLL-010", "fail", 2),
    "wrong_root": ("the root's successor is taken for the root", "COLL-016", "fail", 2),
    "hangs": ("broadcast does not return", "COLL-016", "hang", 2),
    "aborts": ("broadcast calls abort()", "COLL-016", "crash", 2),
    "cleans_nan": ("broadcast replaces NaN and infinity", "COLL-021", "fail", 2),
    "overwrites_input": ("all_to_all clears its input", "COLL-023", "fail", 2),
    "swaps_blocks": ("all_to_all gives the blocks in reverse", "COLL-020", "fail", 2),
    "sends_nothing": ("all_to_all copies its input", "COLL-020", "fail", 2),
    "exits": ("all_to_all ends the process", "COLL-020", "crash", 2),
    "raises_at_zero": ("a tensor without elements is an error", "COLL-027", "fail", 2),
    "wait_returns_at_once": ("wait returns before the call is complete", "COLL-037", "fail", 2),
    "sends_in_pairs_in_reverse": ("the second message of two is sent first, and gloo ends where lengths differ", "COLL-044", "crash", 2),
    "reads_late": ("a message is read after its send is complete", "COLL-061", "fail", 2),
    "remembers_results": ("all_reduce of a known buffer gives its first result", "COLL-064", "fail", 2),
    "ignores_tags": ("all messages have one tag", "COLL-045", "fail", 2),
    "garbles_messages": ("the last bit of a message is another", "COLL-043", "fail", 2),
    "waits_without_limit": ("a receive waits beyond its limit", "COLL-050", "hang", 2),
    "barrier_returns_at_once": ("a barrier does not wait", "COLL-049", "fail", 2),
    "leaks": ("each all_reduce leaks 256 bytes", "COLL-065", "fail", 2),
}
# Wrong values, precision, ends of all kinds, time, messages, memory.
ONE_OF_A_KIND = ["wrong_sum", "sums_in_bfloat16", "raises", "hangs", "aborts", "exits", "wait_returns_at_once", "ignores_tags", "leaks"]
# Complex numbers, of gloo alone: the checks whose calls it has.
COMPLEX = [f"collectives.complex.{name}*" for name in ("copies", "uneven_exchanges", "exact_sums", "sum_bound")]
# What both can do in a few seconds.
SLICE = ["COLL-001", "COLL-016", "COLL-017", "COLL-020", "COLL-031", "COLL-038", "COLL-043", "COLL-045", "COLL-049", "COLL-050"]


def check(backend, out, *options, limit=30, environment=None):
    command = [PLUMBLINE, "check", "--backend", backend, "--plain", "--no-control", "--time-limit", str(limit), "--out", str(out), *options]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=HERE, timeout=600,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})})


def filters(requirements):
    return [word for one in requirements for word in ("--filter", one)]


def results(out):
    """(verdict, requirements) of each result."""
    lines = [json.loads(line) for line in (Path(out) / "run.jsonl").read_text().splitlines()]
    return [(line["verdict"], line["requirements"]) for line in lines if line["type"] == "result"]


def no_torch(python, why):
    """What is said where torch's library was found beside a build, and where that Python alone could find it: of an installed package."""
    return re.compile(rf"({why}|{re.escape(python)} imports no torch, and \S+ is not on this machine); pip install torch==")


class C10d(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_gloo_keeps_what_it_claims(self):
        done = check("c10d:gloo", self.folder / "gloo", *filters(SLICE + COMPLEX), "--world-size", "3", "--expectations", EXPECTATIONS)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual({verdict for verdict, _ in results(self.folder / "gloo")}, {"pass"}, done.stdout)

    # A thread that gossips waits as long as a clock can say.
    def test_a_limit_may_be_the_longest_that_there_is(self):
        done = check("c10d:gloo", self.folder / "longest", "--profile", "gossip", "--filter", "gossip.thread.beside[graph=hub,mixing=uniform,world=2]")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_dtype_that_is_left_out_is_refused(self):
        done = check("c10d:gloo", self.folder / "f32", "--backend-option", "dtypes=f32", *filters(["COLL-029", "COLL-030", "COLL-020"]),
                     "--world-size", "3", "--expectations", EXPECTATIONS)
        self.assertEqual(done.returncode, 0, done.stdout)

    # The factor of each rank reaches the process group; a build has the library with which gloo multiplies.
    @unittest.skipUnless("PLUMBLINE_C10D_MULTIPLYING" in os.environ, "PLUMBLINE_C10D_MULTIPLYING names no library")
    def test_sums_with_factors_where_they_are_claimed(self):
        done = check("c10d:gloo", self.folder / "scaled", "--backend-option", "import=multiplying", "--backend-option", "claims=scaled_sums",
                     *filters(["COLL-111", "COLL-113"]), "--world-size", "3")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual({verdict for verdict, _ in results(self.folder / "scaled")}, {"pass"}, done.stdout)

    def test_a_backend_outside_of_torch_is_found_after_its_import(self):
        done = check("c10d:acme", self.folder / "acme", "--backend-option", "import=acme_group", "--backend-option", "poll=wait",
                     *filters(SLICE), "--world-size", "2")
        self.assertEqual(done.returncode, 0, done.stdout)

    # As of a package that pip has installed: torch calls what is named there, and nobody says import=.
    def test_a_backend_outside_of_torch_is_found_by_its_entry_point(self):
        package = self.folder / "acme-1.0.dist-info"
        package.mkdir()
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (package / "entry_points.txt").write_text("[torch.backends]\nacme = acme_package:register\n")
        (self.folder / "acme_package.py").write_text("def register():\n    import acme_group\n")
        done = check("c10d:acme", self.folder / "entry", "--backend-option", "poll=wait", "--filter", "COLL-016", "--world-size", "2",
                     environment={"PYTHONPATH": f"{self.folder}:{HERE}"})
        self.assertEqual(done.returncode, 0, done.stdout)

    def problem_of(self, fault):
        _, requirement, verdict, ranks = FAULTS[fault]
        out = self.folder / fault
        begin = time.monotonic()
        done = check("c10d:acme", out, "--backend-option", "import=acme_group", "--backend-option", "poll=wait", "--filter", requirement,
                     "--fail-fast", "--world-size", str(ranks), limit=5 if verdict == "hang" else 30, environment={"ACME_FAULT": fault})
        print(f"{fault:30} {requirement} {verdict:6} {time.monotonic() - begin:5.1f} s")
        found = [requirements for how, requirements in results(out) if how == verdict]
        return "" if done.returncode == 1 and any(requirement in one for one in found) else done.stdout

    def assert_found(self, faults):
        rows = sorted(faults, key=lambda fault: FAULTS[fault][2] != "hang")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for row, problem in zip(rows, pool.map(self.problem_of, rows)):
                with self.subTest(row=row):
                    self.assertEqual(problem, "")

    def test_a_fault_of_each_kind_is_found_by_the_requirement_that_names_it(self):
        self.assert_found(ONE_OF_A_KIND)

    def test_every_fault_has_a_row(self):
        self.assertEqual(sorted(set(re.findall(r'FAULT == "(\w+)"', (HERE / "acme_group.py").read_text()))), sorted(FAULTS))

    def test_each_deviation_of_gloo_is_one_that_the_script_shows(self):
        shown = set(re.findall(r"(?m)^def (\w+)\(dist,", DEVIATIONS.read_text()))
        reasons = re.findall(r'(?m)^reason = ".*: (\w+)"$', Path(EXPECTATIONS).read_text())
        self.assertEqual(len(reasons), Path(EXPECTATIONS).read_text().count("[[expect]]"))
        self.assertLessEqual(set(reasons), shown)

    def test_what_is_not_here_ends_the_run_in_one_line(self):
        nowhere = {"PLUMBLINE_PYTHON": "/nowhere/python3"}
        without_torch = self.folder / "python3"  # as a Python that has no torch
        without_torch.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -I "$@"\n')
        without_torch.chmod(0o755)
        for backend, options, environment, status, words in [
                ("c10d:acme", ["import=no_such_module"], {}, 3, "No module named 'no_such_module'"),
                ("c10d:gloo", [], nowhere, 3, no_torch("/nowhere/python3", "/nowhere/python3: No such file or directory")),
                ("c10d:gloo", [], {"PLUMBLINE_PYTHON": str(without_torch)}, 3, no_torch(str(without_torch), "No module named 'torch'")),
                ("c10d:nccl", [], {}, 3, "has no backend nccl; it has gloo"),
                ("c10d:gloo", ["poll=never"], {}, 2, "option poll=never; it is is_completed or wait"),
                ("c10d:gloo", ["colour=red"], {}, 2, "no option 'colour'; there are import, claims, dtypes and poll"),
                ("c10d:gloo", ["claims=groups,complex_products"], {}, 2, "option claims=complex_products: backends get complex numbers as pairs"),
                ("c10d:gloo", ["claims=shrink"], {}, 2, "option claims=shrink: this door makes no such calls"),
                ("c10d:gloo", ["backend=gloo"], {}, 2, "it names the backend, and so does --backend-option backend"),
                ("c10d:Gloo!", [], {}, 2, "'Gloo!' is not the name of a backend of torch.distributed"),
                ("c10d:", [], {}, 2, "'' is not the name of a backend of torch.distributed")]:
            with self.subTest(backend=backend, options=options, environment=environment):
                options = [word for option in options for word in ("--backend-option", option)]
                done = check(backend, self.folder / "refused", *options, "--filter", "collectives.groups.bad_lists", "--world-size", "1", environment=environment)
                said = [line for line in done.stdout.splitlines() if line.startswith("plumbline: ")]
                self.assertEqual((done.returncode, len(said)), (status, 1), done.stdout)
                self.assertRegex(said[0], words if isinstance(words, re.Pattern) else re.escape(words))


class Whole(C10d):
    """The long form: all faults, and the deviations of gloo. No test of the build's."""

    test_a_fault_of_each_kind_is_found_by_the_requirement_that_names_it = None  # they are among all

    def test_each_fault_is_found_by_the_requirement_that_names_it(self):
        self.assert_found(FAULTS)

    def test_gloo_still_deviates_without_plumbline(self):
        done = subprocess.run([os.environ.get("PLUMBLINE_PYTHON", sys.executable), str(DEVIATIONS)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        ends = dict(line.split()[1::-1] for line in done.stdout.splitlines())
        expected = set(re.findall(r'(?m)^reason = ".*: (\w+)"$', Path(EXPECTATIONS).read_text()))
        self.assertEqual({name for name in expected if ends.get(f"{name}:") != "here"}, set(), done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
