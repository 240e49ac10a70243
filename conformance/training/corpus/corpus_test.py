"""The corpus of silent bugs: the rules of its table, its command, and a part of it run.

usage: corpus_test.py PLUMBLINE PYTHONS [unittest arguments]

PYTHONS are interpreters that may have torch and numpy, separated by commas. Exits with 77 when Run is asked for and none of them has, and
where Python is older than 3.11.
"""
import contextlib, copy, io, json, os, re, subprocess, sys, tempfile, unittest
from pathlib import Path
from unittest import mock

if sys.version_info < (3, 11):
    print("skipped: tomllib needs Python 3.11")
    sys.exit(77)

sys.dont_write_bytecode = True
import tomllib

import corpus

PLUMBLINE = os.path.realpath(sys.argv[1])
PYTHON = next((python for python in sys.argv[2].split(",")
               if os.access(python, os.X_OK) and subprocess.run([python, "-c", corpus.NEEDED]).returncode == 0), None)
# A bug of each kind: what is reduced, accumulated, divided by, updated, skipped and tied.
PART = ("ddp.no_sync_inverted", "hsdp.last_micro_batch_only", "sharded.gather_buffer_not_zeroed",
        "buckets.divides_what_is_accumulated", "fsdp2.optimizer_of_other_parameters", "tensor.decides_alone", "stages.tied_group_lacks_middle", "pipelining.rescales_what_is_accumulated")


def command(*options):
    return subprocess.run([sys.executable, "-B", str(corpus.HERE / "corpus.py"), *map(str, options)], capture_output=True, text=True, timeout=500)


class Table(unittest.TestCase):
    """The rules of bugs.toml."""

    def setUp(self):
        self.table = tomllib.loads((corpus.HERE / "bugs.toml").read_text())
        self.changed = copy.deepcopy(self.table)

    def problems(self, table):
        return list(corpus.problems_of(table, corpus.known_requirements(), corpus.names_in("bugs.py"), corpus.names_in("programs.py")))

    def test_holds(self):
        self.assertEqual(self.problems(self.table), [])
        self.assertGreaterEqual(len(self.table["bug"]), 40)

    def test_what_is_wrong_is_named(self):
        first = self.changed["bug"][0]
        for field, value, words in (("sources", ["Megatron-LM#1"], "source 'Megatron-LM#1' must be owner/name#number or owner/name@commit"),
                                    ("sources", [], "source '' must be owner/name#number"),
                                    ("requirements", ["TRAIN-9999"], "requirement 'TRAIN-9999' does not exist"),
                                    ("requirements", [], "requirement 'none' does not exist"),
                                    ("profile", "collectives", "profile 'collectives' must be one of data-parallel, "),
                                    ("where", "here", "where is unknown")):
            with self.subTest(words):
                before = dict(first)
                first[field] = value
                self.assertRegex("\n".join(self.problems(self.changed)), f"{first['id']}: {words}")
                first.clear()
                first.update(before)
        del first["what"]
        self.assertIn(f"{first['id']}: what is missing", self.problems(self.changed))

    def test_an_id_has_a_program_and_a_bug(self):
        self.changed["bug"][0]["id"] = "dpd.no_such_bug"
        found = self.problems(self.changed)
        for words in ("dpd.no_such_bug: programs.py has no program 'dpd'", "dpd.no_such_bug: only bugs.toml has it", "ddp.no_sync_inverted: only bugs.py has it"):
            self.assertIn(words, found)
        self.changed["bug"][0]["id"] = self.changed["bug"][1]["id"]
        self.assertIn(f"{self.changed['bug'][1]['id']}: two entries have this id", self.problems(self.changed))


class Samples(unittest.TestCase):
    """The rules of samples.toml."""

    def problems(self, table):
        return list(corpus.problems_of_samples(table, corpus.known_requirements(), corpus.names_in("faulty.py")))

    def test_holds(self):
        table = tomllib.loads((corpus.HERE / "samples.toml").read_text())
        self.assertEqual(self.problems(table), [])
        faults = [one["id"].split(".")[0] for one in table["fault"]]
        self.assertLessEqual({"ddp", "fsdp2", "zero", "pipelining", "amp", "tensor", "localsgd", "slowmo", "diloco", "sgp", "expert"}, {*faults})
        self.assertEqual([name for name in faults if faults.count(name) < 2], [])

    def test_what_is_wrong_is_named(self):
        right = {"id": "ddp.summed", "what": "", "requirements": ["TRAIN-006"], "profile": "data-parallel", "shows": "*"}
        for change, words in (({"id": "ddp.sumed"}, "ddp.sumed: faulty.py does not have it"), ({"id": "dpd.sumed"}, "dpd.sumed: there is no sample dpd_gloo.py"),
                              ({"requirements": []}, "ddp.summed: requirement 'none' does not exist"), ({"hides": "*"}, "ddp.summed: hides is unknown"),
                              ({"profile": "all"}, "ddp.summed: profile 'all' must be one of data-parallel, ")):
            with self.subTest(words):
                self.assertIn(words, "\n".join(self.problems({"fault": [{**right, **change}]})))
        self.assertEqual(self.problems({"fault": [right, right]}), ["ddp.summed: two entries have this id"])


class Verdicts(unittest.TestCase):
    """What counts as found."""

    BUG = {"id": "ddp.some", "requirements": ["TRAIN-005"], "shows": "*[model=mlp,*]", "hides": "*[model=conv,*]"}

    def judged(self, shown, hidden):
        return corpus.judged(self.BUG, [{"case": "a[model=mlp,world=2]", **shown}, {"case": "a[model=conv,world=2]", **hidden}])

    def test_found(self):
        self.assertEqual(self.judged({"verdict": "fail", "violated": ["TRAIN-004", "TRAIN-005"]}, {"verdict": "pass"}), (True, "TRAIN-005"))

    def test_not_found(self):
        for shown, hidden, words in (({"verdict": "pass"}, {"verdict": "pass"}, "pass; not TRAIN-005"),
                                     ({"verdict": "fail", "violated": ["TRAIN-006"]}, {"verdict": "pass"}, "fail TRAIN-006; not TRAIN-005"),
                                     ({"verdict": "crash", "violated": ["TRAIN-005"]}, {"verdict": "pass"}, "crash TRAIN-005; not TRAIN-005"),
                                     ({"verdict": "fail", "violated": ["TRAIN-005"]}, {"verdict": "fail"}, "fail where it cannot show: a[model=conv,world=2]")):
            with self.subTest(words):
                self.assertEqual(self.judged(shown, hidden), (False, words))
        self.assertEqual(corpus.judged(self.BUG, []), (False, "0 cases where it must show, 0 where it cannot"))


class Command(unittest.TestCase):
    def test_list(self):
        done = command("--list", "--only", "ddp.*")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ddp.no_sync_inverted                       TRAIN-005, TRAIN-006   modelscope/FunASR#3472\n", done.stdout)
        self.assertNotIn("\nzero.", done.stdout)

    def test_misuse(self):
        for options, words in ((("--only", "ddp.nothing"), "--only ddp.nothing: no bug has this id; --list prints them"),
                               (("--jobs", "0"), "--jobs 0: it must be 1 or more"), (("--twins", "some"), "argument --twins: invalid int value: 'some'"),
                               (("--only", "[d]dp*"), "--only [d]dp*: no bug has this id; --list prints them"),
                               (("--plumbline", "/bin/true", "--out", __file__), f"--out {__file__}: File exists; it is a folder that can be written to"),
                               (("--fast",), "unrecognized arguments: --fast"), (("--plumbline", "/no/such"), "/no/such is no executable"),
                               (("--plumbline", "/bin/true", "--python", "/bin/false"), "--python /bin/false: it must be Python 3.11 or newer with torch and numpy")):
            with self.subTest(words):
                done = command(*options)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertTrue(done.stderr.startswith(f"corpus.py: {words}"), done.stderr)

    def test_a_failed_start_alone_is_misuse(self):
        def ended(where, error):
            with (mock.patch.object(corpus, where, side_effect=RuntimeError("it ended")), mock.patch.object(corpus, "runner_of"),
                  mock.patch.object(sys, "argv", ["corpus.py", *(["--cold"] if where == "run_all" else [])]),
                  contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(error) as raised):
                corpus.main()
            return said.getvalue(), str(raised.exception)
        self.assertEqual(ended("warmed", SystemExit), ("corpus.py: it ended\n", "2"))
        self.assertEqual(ended("run_all", RuntimeError), ("", "it ended"))

    def test_an_older_python_is_misuse(self):
        done = subprocess.run([sys.executable, "-B", "-c", f"import sys; sys.version_info = (3, 10, 0); sys.path.insert(0, {str(corpus.HERE)!r}); import corpus"],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", "corpus.py: it needs Python 3.11 or newer, for tomllib\n"))


class Beside(unittest.TestCase):
    """What other tools find: the table, without them."""

    def table(self, records, *options):
        return subprocess.run([sys.executable, "-B", str(corpus.HERE / "beside.py"), "--records", str(records), *options], capture_output=True, text=True)

    def test_what_is_expressed_is_in_the_table(self):
        text = (corpus.HERE / "spmd_programs.py").read_text()
        expressed = re.findall(r'^@program\("([\w.]+)"\)', text, re.M)
        self.assertLessEqual({name for name in expressed if "." in name}, {*corpus.names_in("bugs.py")})
        self.assertLessEqual({name for name in expressed if "." not in name}, {*corpus.names_in("programs.py")})

    def test_a_table(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "corpus.json").write_text(json.dumps({"bugs": [{"id": "ddp.never_zeroed", "found": True, "by": "TRAIN-006"},
                                                                           {"id": "ddp.no_sync_inverted", "found": False, "by": "pass; not TRAIN-005"}]}))
            done = self.table(folder, "--without", "traincheck", "--without", "spmd_types", "--only", "ddp.n*")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "| bug | Plumbline | spmd_types | TrainCheck |\n| --- | --- | --- | --- |\n"
                                      "| ddp.no_sync_inverted | not found | - | - |\n| ddp.never_zeroed | TRAIN-006 | - | - |\n")

    def test_misuse(self):
        done = self.table("/no/such")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"^beside.py: --records /no/such: its corpus.json cannot be read \(.*\); corpus.py writes it\n$")


class Run(unittest.TestCase):
    def test_a_part(self):
        with tempfile.TemporaryDirectory() as folder:
            only = [option for bug in PART for option in ("--only", bug)]
            done = command("--plumbline", PLUMBLINE, "--python", PYTHON, "--out", folder, *only)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            written = json.loads((Path(folder) / "corpus.json").read_text())
        self.assertEqual({row["id"] for row in written["bugs"] if row["found"]}, {*PART}, done.stdout)
        self.assertGreaterEqual(written["right_runs"], len(PART))
        self.assertEqual(written["right_failed"], [])

    def test_faults_of_samples(self):
        """Of the five programs; those that average and the tensor ranks' are in job_door_test.py."""
        with tempfile.TemporaryDirectory() as folder:
            only = [option for program in ("ddp", "fsdp2", "zero", "pipelining", "amp") for option in ("--only", f"{program}.*")]
            done = command("--samples", "--twins", "0", "--plumbline", PLUMBLINE, "--python", PYTHON, "--out", folder, *only)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("OK: 10 of 10 bugs found; 0 of 0 runs of right programs failed\n", done.stdout)

    def test_a_bug_that_is_not_found_fails_the_run(self):
        # A case where it cannot show, in place of the one where it does.
        bug = {"id": "ddp.no_sync_inverted", "requirements": ["TRAIN-005"], "profile": "data-parallel", "shows": "*[model=mlp,optimizer=sgd,*world=2]"}
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            words = ["corpus.py", "--cold", "--twins", "0", "--plumbline", PLUMBLINE, "--python", PYTHON, "--out", folder]
            with (mock.patch.object(sys, "argv", words), mock.patch.object(corpus, "read_table", lambda: {"bug": [bug], "beyond": []}),
                  contextlib.redirect_stdout(said)):
                status = corpus.main()
        self.assertEqual(status, 1)
        self.assertIn("NOT FOUND", said.getvalue())
        self.assertIn("pass; not TRAIN-005\nNOT OK: 0 of 1 bugs found", said.getvalue())


if __name__ == "__main__":
    if PYTHON is None and "Run" in sys.argv[3:]:
        print(f"skipped: none of {sys.argv[2]} has torch and numpy")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
