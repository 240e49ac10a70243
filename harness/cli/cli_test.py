"""What the commands say to input that is wrong: one line, the status, and that nothing is lost; and that they do what they say.

usage: cli_test.py PLUMBLINE MODULES [unittest arguments]

MODULES are the optional modules of the build: "mpi,training", or "".
"""
import json, os, subprocess, sys, tempfile, unittest
from pathlib import Path

PLUMBLINE = os.path.realpath(sys.argv[1])
MODULES = sys.argv[2].split(",")
needs_training = unittest.skipUnless("training" in MODULES, "built without LibTorch")
needs_mpi = unittest.skipUnless("mpi" in MODULES, "built without MPI")
PASS = ["check", "--filter", "collectives.barrier*", "--world-size", "2"]

# Arguments, status, and what the line must name.
REFUSALS = [
    ("", 2, "subcommand"),
    ("frobnicate", 2, "no command 'frobnicate'; there are check"),
    ("check --frobnicate", 2, "--frobnicate"),
    ("check --backend nope", 2, "no backend 'nope'; there are local"),
    ("check --profile nope", 2, "no profile 'nope'; there are collectives"),
    ("check --filter nope", 2, "--filter 'nope'"),
    ("check --mutant nope", 2, "no mutant 'nope'"),
    ("check --world-size 0", 2, "'0' is not a whole number from 1"),
    ("check --world-size=-2", 2, "'-2' is not a whole number from 1"),
    ("check --world-size two", 2, "'two' is not a whole number from 1"),
    ("check --world-size 1000", 2, "--world-size: 1000 ranks; at most 64"),
    ("check --seed=-1", 2, "'-1' is not a whole number from 0"),
    ("check --seed 18446744073709551615", 2, "'18446744073709551615' is not a whole number"),
    ("check --shuffle=x", 2, "--shuffle: 'x' is not a whole number"),
    ("check --repeat 0", 2, "'0' is not a whole number from 1"),
    ("check --time-limit nan", 2, "'nan' is not a number of seconds"),
    ("check --time-limit 1e10", 2, "'1e10' is not a number of seconds"),
    ("check --jobs 65", 2, "'65' is not a whole number from 1 to 64"),
    ("check --backend-option a", 2, "'a' is not KEY=VALUE"),
    ("check --backend-option a=1", 2, "backend local has no options"),
    ("check --backend local --adapter reference", 2, "one subject"),
    ("check --adapter reference --world-size 2", 2, "--world-size 2"),
    ("check --adapter /nonexistent", 3, "/nonexistent"),
    ("check --device tpu", 2, "'tpu' is not cpu, cuda or cuda:N"),
    ("check --resume", 2, "there is no record in"),
    ("check --out /proc/nope", 3, "/proc/nope"),
    ("check --launcher nope", 2, "--launcher 'nope'; it is auto"),
    ("bench --sizes 4x", 2, "--sizes '4x'"),
    ("bench --sizes 1023Gi", 2, "--sizes 1023Gi"),
    ("bench --benchmark nope", 2, "--benchmark 'nope'"),
    ("bench --world-size 1000", 2, "--world-size: 1000 ranks"),
    ("bench --min-time 1e300", 2, "'1e300' is not a number of seconds"),
    ("requirements --format xml", 2, "--format 'xml'; it is table"),
    ("requirements --profile nope", 2, "no profile 'nope'"),
]
TRAINING_REFUSALS = [
    ("train --model nope", 2, "model 'nope'; it must be mlp"),
    ("train --optimizer nope", 2, "optimizer 'nope'; it must be sgd"),
    ("train --data-parallel 0", 2, "'0' is not a whole number from 1"),
    ("train --data-parallel 5", 2, "must be a multiple of parallel.data"),
    ("train --steps 0", 2, "'0' is not a whole number from 1"),
    ("train --device tpu", 2, "'tpu' is not cpu"),
    ("train --spec /nonexistent", 2, "/nonexistent"),
    ("train --spec /dev/null --model mlp", 2, "--spec excludes --model"),
    ("train --out /proc/nope", 3, "/proc/nope"),
]


class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_plumbline(self, *arguments, stdout=subprocess.PIPE):
        # Runs write to results/ in their own folder.
        self.done = subprocess.run([PLUMBLINE, *arguments], cwd=self.folder, stdout=stdout, stderr=subprocess.PIPE, text=True,
                                   timeout=60)
        return self.done.returncode

    def check_refusals(self, refusals):
        for arguments, status, words in refusals:
            with self.subTest(arguments):
                self.assertEqual(self.run_plumbline(*arguments.split()), status, self.done.stderr)
                self.assertEqual(self.done.stderr.count("\n"), 1, self.done.stderr)
                self.assertTrue(self.done.stderr.startswith("plumbline: "), self.done.stderr)
                self.assertIn(words, self.done.stderr)

    def test_refusals(self):
        self.check_refusals(REFUSALS)

    @needs_training
    def test_refusals_of_train(self):
        self.check_refusals(TRAINING_REFUSALS)

    @needs_mpi
    def test_refusals_of_mpi(self):
        self.check_refusals([("check --backend mpi --backend-option nope=1", 2, "nope=1"),
                             ("check --backend mpi --backend-option threads=single --backend-option threads=single", 2,
                              "threads was given before"),
                             ("check --backend mpi --control-address nowhere", 2, "nowhere")])

    def test_a_refusal_leaves_the_record_that_was_there(self):
        self.assertEqual(self.run_plumbline(*PASS, "--out", "out"), 0, self.done.stderr)
        before = (self.folder / "out/run.jsonl").read_bytes()
        self.assertEqual(self.run_plumbline("check", "--adapter", "/nonexistent", "--out", "out"), 3)
        self.assertEqual((self.folder / "out/run.jsonl").read_bytes(), before)
        self.assertEqual(sorted(os.listdir(self.folder / "out")), ["junit.xml", "metrics.prom", "run.jsonl"])

    def test_standard_output_that_is_full(self):
        for command in (PASS, ["requirements"], ["doctor"]):
            with self.subTest(command[0]), open("/dev/full", "w") as full:
                self.assertEqual(self.run_plumbline(*command, stdout=full), 3, self.done.stderr)
                self.assertIn("cannot write to standard output: No space left", self.done.stderr)

    def test_help_has_an_example_for_every_command(self):
        for command in ("check", "train", "bench", "requirements", "mutants", "adapter", "doctor"):
            self.assertEqual(self.run_plumbline(command, "--help"), 0)
            self.assertIn("Example: ", self.done.stdout, command)

    def test_the_command_that_repeats_a_failure_repeats_it(self):
        options = ["--mutant", "col.drop_last_element", "--filter", "COLL-001", "--world-size", "2", "--fail-fast"]
        self.assertEqual(self.run_plumbline("check", *options, "--out", "out"), 1, self.done.stderr)
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        (failed,) = [line for line in lines if line["type"] == "result" and line["verdict"] == "fail"]
        done = subprocess.run(failed["repeat"].replace("plumbline", PLUMBLINE, 1), shell=True, cwd=self.folder,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(f"FAIL  {failed['case']}", done.stdout)

    def test_coverage_has_every_requirement(self):
        self.assertEqual(self.run_plumbline("requirements", "--format", "json"), 0)
        ids = [row["id"] for row in json.loads(self.done.stdout)]
        self.assertEqual(self.run_plumbline("requirements", "--coverage"), 0, self.done.stdout)
        lines = self.done.stdout.splitlines()[1:-1]
        self.assertEqual([line.split()[0] for line in lines], ids)
        for line in lines:
            self.assertGreater(int(line.split()[3]), 0, line)

    def test_bench_measures_what_it_says(self):
        self.assertEqual(self.run_plumbline("bench", "--sizes", "0,4,1Ki", "--repetitions", "2", "--min-time", "0.001", "--out", "out"),
                         0, self.done.stderr)
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        found = {(line["benchmark"], line["labels"].get("bytes")) for line in lines if line["type"] == "measurement"}
        self.assertIn(("collectives.all_reduce", "0"), found)
        self.assertIn(("collectives.all_reduce", "4"), found)
        self.assertIn(("collectives.reduce_scatter", "8"), found, "a rank's share is at least an element")
        self.assertTrue(all(len(line["samples"]) == 2 for line in lines if line["type"] == "measurement"))

    @needs_training
    def test_train_runs_a_specification_as_a_job_does(self):
        self.assertEqual(self.run_plumbline("train", "--steps", "3", "--out", "out"), 0, self.done.stderr)
        self.assertIn("OK: the single device computes the same", self.done.stdout)
        job = ["train", "--spec", "out/run/spec.toml", "--record", "record", "--no-judge"]
        self.assertEqual(self.run_plumbline(*job), 0, self.done.stderr)
        for rank in (0, 1):
            name = f"rank{rank}.safetensors"
            self.assertEqual((self.folder / "record" / name).read_bytes(), (self.folder / "out/record" / name).read_bytes())
        self.assertFalse((self.folder / "results").exists(), "a job leaves its record and nothing else")

    @needs_training
    def test_train_with_fewer_ranks_than_before(self):
        for ranks in ("3", "2"):
            self.assertEqual(self.run_plumbline("train", "--data-parallel", ranks, "--steps", "2", "--out", "out"), 0,
                             self.done.stdout + self.done.stderr)

    @needs_training
    def test_train_that_is_refused_leaves_the_training_record_that_was_there(self):
        self.assertEqual(self.run_plumbline("train", "--steps", "2", "--out", "out"), 0, self.done.stderr)
        before = sorted(os.listdir(self.folder / "out/record"))
        self.assertEqual(self.run_plumbline("train", "--data-parallel", "96", "--out", "out"), 2)
        self.assertIn("--data-parallel: 96 ranks; at most 64", self.done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder / "out/record")), before)

    @needs_training
    def test_train_that_diverges_comes_to_its_end(self):
        self.assertEqual(self.run_plumbline("train", "--steps", "2", "--no-judge", "--out", "out"), 0, self.done.stderr)
        spec = self.folder / "out/run/spec.toml"
        lines = ["lr = 1e30" if line.startswith("lr =") else line for line in spec.read_text().splitlines()]
        spec.write_text("\n".join(lines))
        self.assertEqual(self.run_plumbline("train", "--spec", str(spec), "--out", "again"), 0, self.done.stdout + self.done.stderr)

    @needs_training
    def test_train_says_what_the_single_device_computes_otherwise(self):
        self.assertEqual(self.run_plumbline("train", "--steps", "3", "--mutant", "col.drop_last_element", "--out", "out"), 1)
        self.assertIn("FAIL  TRAIN-", self.done.stdout)
        self.assertIn("NOT OK", self.done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:], verbosity=1)
