"""The job door from outside: whole training programs, right ones, wrong ones, and ones that do not end well.

usage: job_door_test.py PLUMBLINE PYTHONS [unittest arguments]

PYTHONS are interpreters that may have torch, numpy and tomllib, separated by commas. Exits with 77 when another class than
Programs, Cpp and Jax is asked for and none of them has; Jax needs one with jax.
"""
import glob, json, os, re, resource, shlex, signal, socket, subprocess, sys, tempfile, time, unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parent / "warm"))
from warm import warmed

PLUMBLINE = os.path.realpath(sys.argv[1])
SAMPLES = Path(__file__).resolve().parent / "python"
HAS_ALL = "import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in ('torch', 'numpy', 'tomllib')))"
PYTHON = next((python for python in sys.argv[2].split(",")
               if os.access(python, os.X_OK) and subprocess.run([python, "-c", HAS_ALL]).returncode == 0), None)
WITH_JAX = next((python for python in sys.argv[2].split(",") if os.access(python, os.X_OK)
                 and subprocess.run([python, "-c", HAS_ALL.replace("torch", "jax")]).returncode == 0), None)
REFERENCE = f"{PLUMBLINE} train --spec $PLUMBLINE_SPEC --record $PLUMBLINE_RECORD --backend local --no-judge"
SOON = 40  # seconds: not a matter of how busy the machine is, and shorter than what would be waited for in vain
ONE = "*[model=mlp,optimizer=sgd,*,world=2]"

# All that this test starts carries the marker; all scratch folders are made in a place of its own.
os.environ["JOB_DOOR_TEST"] = str(os.getpid())
SCRATCH = tempfile.mkdtemp(prefix="pj.", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
os.environ["PLUMBLINE_TMPDIR"] = SCRATCH


ours = {os.getpid()}  # processes that live longer than a test


def left_behind():
    """The ids of the processes that carry the marker, besides ours."""
    found = []
    for file in glob.glob("/proc/[0-9]*/environ"):
        try:
            if f"JOB_DOOR_TEST={os.getpid()}".encode() in Path(file).read_bytes().split(b"\0"):
                found.append(int(file.split("/")[2]))
        except OSError:
            pass
    return [pid for pid in found if pid not in ours]


class JobDoor(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def tearDown(self):
        until = time.time() + 20  # one that was killed takes its time on a busy machine
        while left_behind() and time.time() < until:
            time.sleep(0.1)
        self.assertEqual(left_behind(), [], "processes are left")
        self.assertEqual(os.listdir(SCRATCH), [], "files are left")

    def command(self, job, *options, profile="data-parallel"):
        return [PLUMBLINE, "check", "--profile", profile, "--job", job, "--no-control", "--out", "out", *options]

    def check(self, job, *options, status, **more):
        begin = time.time()
        done = subprocess.run(self.command(job, *options, **more), cwd=self.folder, capture_output=True, text=True, errors="replace", timeout=600)
        self.seconds = time.time() - begin
        self.printed = done.stdout
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        lines = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        self.assertEqual(lines[-1]["type"], "complete")
        return [line for line in lines if line["type"] == "result" and line["attempt"] == 1]  # what broke is tried again

    def failure(self, job, *options, verdict):
        """The only result of a job that fails on one case, and its failures as a text."""
        (result,) = self.check(job, "--filter", ONE, *options, status=1)
        messages = "\n".join(failure["message"] for rank in result["ranks"] for failure in rank["failures"])
        self.assertEqual(result["verdict"], verdict, messages)
        return result, messages


class Programs(JobDoor):
    """The harness: programs without torch."""

    def test_the_reference_passes(self):
        results = self.check(REFERENCE, "--job-launches-ranks", "--filter", "*[model=mlp*", status=0)
        self.assertEqual({result["verdict"] for result in results}, {"pass"})
        self.assertEqual({result["parameters"]["world"] for result in results}, {"2", "3", "4"})

    def test_the_reference_averages(self):
        results = self.check(REFERENCE, "--job-launches-ranks", "--filter", "training.job.averaging*", status=0)
        self.assertEqual([result["verdict"] for result in results], ["pass"] * 15)

    # TRAIN-030@df22
    def test_the_reference_records_activations(self):
        results = self.check(REFERENCE, "--job-launches-ranks", "--filter", "training.job.activations*", status=0)
        self.assertEqual([result["verdict"] for result in results], ["pass"] * 10)

    def test_a_crash_costs_its_own_case(self):
        job = f"grep -q batch_norm2d $PLUMBLINE_SPEC && exit 3; exec {REFERENCE}"
        results = self.check(job, "--job-launches-ranks", "--filter", "training.job.single_device*", "--world-size", "3", status=1)
        self.assertEqual(len(results), 3)
        for result in results:
            self.assertEqual(result["verdict"], "crash" if result["parameters"]["model"] == "conv_norm" else "pass", result)

    def test_a_rank_that_dies(self):
        result, _ = self.failure("echo reading $RANK; [ $RANK = 1 ] && kill -SEGV $$; exec sleep 60", verdict="crash")
        self.assertIn("rank 1 was killed by signal 11 (Segmentation fault)", result["reason"])
        self.assertIn("rank 1 last wrote: reading 1", result["reason"])
        self.assertIn("rank 0 still ran", result["reason"])
        self.assertIn("---- rank 0\nreading 0\n", result["output"])
        self.assertIn("--job ", result["repeat"])
        self.assertLess(self.seconds, SOON)

    def test_a_command_that_is_none(self):
        done = subprocess.run(self.command(" "), cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("plumbline: --job: the command is empty; it must be a shell command", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    # HARNESS-042@043b
    def test_a_command_that_is_not_there(self):
        for job, words in (("/no/such", "rank 0 exited with status 127 (the shell did not find the command)"),
                           ("/dev/null --fast", "126 (the shell could not execute the command)")):
            with self.subTest(job):
                done = subprocess.run(self.command(job), cwd=self.folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, 3, done.stdout)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                for part in ("plumbline: ", f"job '{job}'", words):
                    self.assertIn(part, done.stderr)

    # HARNESS-042@043b
    def test_a_program_that_cannot_start(self):
        (self.folder / "imports.py").write_text("import no_such_module\n")
        (self.folder / "reads.py").write_text("import os\nopen(os.environ['PLUMBLINE_SPEC'])\nraise ValueError('later')\n")
        for job, status, *parts in ((f"{sys.executable} nosuch.py", 2, "there is no file 'nosuch.py'; ", "it ended before it opened $PLUMBLINE_SPEC; ",
                                     "can't open file"),
                                    (f"{sys.executable} imports.py", 3, "No module named 'no_such_module'")):
            for options in ((), ("--job-launches-ranks",), ("--job-serves-ranks",)):
                with self.subTest(job, options=options):
                    done = subprocess.run(self.command(job, *options), cwd=self.folder, capture_output=True, text=True)
                    self.assertEqual(done.returncode, status, done.stdout + done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                    for part in parts:
                        if not (options == ("--job-serves-ranks",) and "opened" in part):
                            self.assertIn(part, done.stderr)
        result, _ = self.failure(f"{sys.executable} reads.py", verdict="crash")
        self.assertIn("ValueError: later", result["reason"])

    # HARNESS-042@043b
    def test_a_command_that_is_missing_later(self):
        # Then there was a program, and its end is its own.
        job = f"if [ -e ran ]; then exec /no/such; fi; touch ran; exec {REFERENCE}"
        results = self.check(job, "--job-launches-ranks", "--filter", "training.job.single_device*", "--world-size", "3", status=1)
        self.assertEqual([result["verdict"] for result in results], ["pass", "crash", "crash"])
        self.assertIn("exited with status 127", results[1]["reason"])

    # HARNESS-040@0d89
    def test_what_a_program_does_not_support(self):
        job = f"if grep -q batch_norm2d $PLUMBLINE_SPEC; then echo no batch_norm2d here >&2; exit 77; fi; exec {REFERENCE}"
        results = self.check(job, "--job-launches-ranks", "--filter", "training.job.single_device*", "--world-size", "3", status=0)
        self.assertEqual(len(results), 3)
        for result in results:
            unsupported = result["parameters"]["model"] == "conv_norm"
            self.assertEqual((result["verdict"], result.get("reason", "")), ("skip", "no batch_norm2d here") if unsupported else ("pass", ""))
        # A launcher has a status of its own; a run of which nothing is supported has shown nothing.
        results = self.check("echo no training here > $PLUMBLINE_RECORD/unsupported; exit 1", "--job-launches-ranks", "--filter", ONE, status=3)
        self.assertEqual([(result["verdict"], result["reason"]) for result in results], [("skip", "no training here")])
        # What some ranks do is no skip.
        result, _ = self.failure("[ $RANK = 0 ] && exit 77", verdict="crash")
        self.assertIn("rank 0 exited with status 77 (it does not support the run)", result["reason"])

    # HARNESS-041@b080
    def test_a_hang(self):
        job = "trap '' TERM; [ $RANK = 1 ] && exit 0; echo step2/grad/0.bias > $PLUMBLINE_RECORD/rank0.progress; echo waiting; while :; do sleep 1; done"
        result, _ = self.failure(job, "--time-limit", "4", verdict="hang")
        self.assertIn("no end within 3.2 s: rank 0 still ran and was ended (a job has 80 % of the --time-limit); "
                      "rank 0 last recorded step2/grad/0.bias; rank 0 ", result["reason"])
        self.assertIn("; rank 0 last wrote: waiting; rank 1 exited with status 0", result["reason"])
        self.assertLess(self.seconds, SOON)
        # It has taken its limit twice, and has said so before the second time.
        (announced,) = [line for line in self.printed.splitlines() if line.startswith("hang after ")]
        self.assertIn(result["case"], announced)
        self.assertIn("tried once more at the end, alone; --time-limit SECONDS sets", self.printed)

    def test_records_that_are_none(self):
        cases = {"true": "no such file",  # nothing at all
                 "head -c 100000 /dev/urandom > $PLUMBLINE_RECORD/rank$RANK.safetensors": "TRAIN-001",
                 ": > $PLUMBLINE_RECORD/rank$RANK.safetensors": "TRAIN-001",
                 "printf '\\377\\377\\377\\377\\377\\377\\377\\177{}' > $PLUMBLINE_RECORD/rank$RANK.safetensors": "TRAIN-001",
                 "printf '\\002\\0\\0\\0\\0\\0\\0\\0{}' > $PLUMBLINE_RECORD/rank$RANK.safetensors": "TRAIN-001",
                 "cp $(dirname $PLUMBLINE_SPEC)/weights.safetensors $PLUMBLINE_RECORD/rank$RANK.safetensors": "TRAIN-001",
                 "mkfifo $PLUMBLINE_RECORD/rank$RANK.safetensors": "not a regular file",
                 "ln -s /dev/zero $PLUMBLINE_RECORD/rank$RANK.safetensors": "not a regular file",
                 "mkdir $PLUMBLINE_RECORD/rank$RANK.safetensors": "TRAIN-001",
                 "rm -r $PLUMBLINE_RECORD $(dirname $PLUMBLINE_SPEC); true": "no such file"}
        for job, words in cases.items():
            with self.subTest(job):
                result, messages = self.failure(job, verdict="fail")
                self.assertIn(words, messages)
                self.assertLess(self.seconds, SOON)
        result, messages = self.failure("true", verdict="fail")
        for rank in (0, 1):
            self.assertRegex(messages, f"TRAIN-001: rank {rank}: '/.*/rank{rank}.safetensors': no such file; its folder is empty")
        result, messages = self.failure("echo 1 > $PLUMBLINE_RECORD/rank_$RANK.pt", verdict="fail")
        self.assertIn("; its folder has rank_0.pt, rank_1.pt", messages)

    def test_a_record_of_another_run(self):
        # A program that trains as it likes leaves a well-formed record that is wrong.
        spec = "sed 's/^lr = .*/lr = 0.05/' $PLUMBLINE_SPEC > $PLUMBLINE_SPEC.own.toml; "
        result, messages = self.failure(spec + REFERENCE.replace("$PLUMBLINE_SPEC", "$PLUMBLINE_SPEC.own.toml"), "--job-launches-ranks",
                                        verdict="fail")
        self.assertIn("TRAIN-009: step 0, rank 0, 0.weight[", messages)
        self.assertNotIn("TRAIN-006", messages)

    def test_a_program_that_tidies_its_input(self):
        self.check(f'{REFERENCE} && rm -r "$(dirname $PLUMBLINE_SPEC)"', "--job-launches-ranks", "--filter", ONE, status=0)

    def test_files_that_are_written_over(self):
        weights = "$(dirname $PLUMBLINE_SPEC)/weights.safetensors"
        zeros_at_its_end = f"truncate -s -400 {weights}; truncate -s +400 {weights}; "
        _, messages = self.failure(zeros_at_its_end + REFERENCE, "--job-launches-ranks", verdict="fail")
        self.assertIn("TRAIN-002: step 0, rank 0, 2.", messages)

    def test_a_machine_that_denies_what_is_needed(self):
        # With fewer files to open than a rank needs, but enough for the harness itself: how many that is, we try.
        def limited(files):
            limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
            return subprocess.run(self.command("true", "--filter", ONE), cwd=self.folder, capture_output=True, text=True, preexec_fn=limit)
        done = next((done for done in map(limited, range(8, 40)) if (self.folder / "out/run.jsonl").exists()), None)
        self.assertIsNotNone(done, "no limit lets the harness run")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("1 case ", done.stdout)
        self.assertIn("Too many open files", done.stdout)
        self.assertIn("1 error", done.stdout)
        self.assertNotIn("fail", done.stdout.split("requirements:")[0])

    def test_much_output(self):
        result, _ = self.failure(": < $PLUMBLINE_SPEC; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo the end of $RANK; exit 1", verdict="crash")
        for rank in (0, 1):
            self.assertIn(f"x\nthe end of {rank}\n", result["output"])
        self.assertLess(len(result["output"]), 5000)
        self.assertLess((self.folder / "out/run.jsonl").stat().st_size, 60000)

    def test_what_is_left_behind(self):
        # tearDown looks.
        for end, verdict in (("true", "fail"), (": < $PLUMBLINE_SPEC; exit 1", "crash"), ("sleep 60", "hang")):
            with self.subTest(end):
                self.failure(f"setsid sleep 600 & (trap '' TERM; sleep 600) & {end}", "--time-limit", "3", verdict=verdict)
                self.assertEqual(left_behind(), [])

    def test_where_the_harness_is_ended(self):
        for number in (signal.SIGKILL, signal.SIGINT):
            with self.subTest(number):
                job = f"setsid sh -c 'echo > {self.folder}/started; exec sleep 600' & sleep 600"
                run = subprocess.Popen(self.command(job, "--filter", ONE), cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                deadline = time.time() + 20
                while not (self.folder / "started").exists() and time.time() < deadline:
                    time.sleep(0.02)
                run.send_signal(number)
                run.wait(20)
                while left_behind() and time.time() < deadline:
                    time.sleep(0.05)
                self.assertEqual(left_behind(), [])
                (self.folder / "started").unlink()
        # What a killed driver leaves in files, the next one clears away.
        self.failure("true", verdict="fail")

    def test_the_callers_directory_and_device(self):
        (self.folder / "train.sh").write_text("grep '^device' $PLUMBLINE_SPEC; exit 1\n")
        result, _ = self.failure("sh ./train.sh", "--device", "cuda:1", verdict="crash")
        self.assertIn('last wrote: device = "cuda:1"', result["reason"])
        self.assertIn("--device cuda:1", result["repeat"])

    def test_the_world_sizes_listed(self):
        done = subprocess.run(self.command("true", "--list", "--filter", "training.job.single_device*", "--world-size", "3"), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 3, done.stdout)
        for line in done.stdout.splitlines():
            self.assertRegex(line, r"training\.job\.single_device\[.*,world=3\]")


class Cpp(JobDoor):
    """The sample in C++, which the build puts beside PLUMBLINE's folder."""

    JOB = str(Path(PLUMBLINE).parents[1] / "tests/job_mlp")

    def test_it_passes(self):
        results = self.check(self.JOB, "--filter", "training.job.single_device[model=mlp*", status=0)
        verdicts = {(result["parameters"]["optimizer"], result["verdict"], result.get("reason", "")) for result in results}
        self.assertEqual(verdicts, {("sgd", "pass", ""), ("sgd_momentum", "pass", ""), ("sgd_decay", "pass", ""),
                                    ("adam", "skip", "optimizer.type adam: this program has sgd")})

    def test_it_skips_what_it_does_not_know(self):
        results = self.check(self.JOB, "--world-size", "2", status=0)
        self.assertEqual({result["verdict"] for result in results}, {"pass", "skip"})
        reasons = " | ".join(result.get("reason", "") for result in results)
        for reason in ("layer conv2d: this program has linear, relu", "lr_schedule in the specification: this program does not know it",
                       "loss.row_weights in the specification: ", "model.frozen in the specification: ", "parallel.tensor > 1: this program has data ranks"):
            self.assertIn(reason, reasons)


class Jax(JobDoor):
    """The sample in JAX."""

    def test_it_passes(self):
        results = self.check(shlex.join([WITH_JAX, "-B", str(SAMPLES / "jax_mesh.py")]), "--filter", "training.job.single_device[model=conv,*,world=3]",
                             "--filter", "training.job.single_device[model=mlp,optimizer=sgd,*", "--filter", "training.job.averaging_slowmo[*world=2]", status=0)
        self.assertEqual([(result["verdict"], result.get("reason", "")) for result in results],
                         [("pass", ""), ("skip", "averaging slowmo: this program has none"), ("pass", "")])


class Served(JobDoor):
    """Programs that are started once and fork their ranks: what a run leaves must not reach the next one."""

    # Rank 0 has the reference train for all.
    PROGRAM = """
import os, sys, time
from pathlib import Path
from plumbline_job import serve
here = Path(sys.argv[1])
with open(here / "started", "a") as file: print(os.getpid(), file=file)
state = []
serve()
rank, spec = os.environ["RANK"], Path(os.environ["PLUMBLINE_SPEC"]).read_text()
is_first_case = "conv2d" not in spec
def wait_for_nobody():
    time.sleep(600)
def fault():
    {fault}
if is_first_case: fault()
assert not state and os.getcwd() == str(here) and "LEFT" not in os.environ, "what the run before left"
assert sys.stdin.read() == ""
if rank == "0":
    sys.stdout.flush()
    os.execvp("sh", ["sh", "-c", {reference!r}])
"""

    def serve(self, fault, *options, status):
        (self.folder / "serve.py").write_text(self.PROGRAM.format(fault=fault, reference="exec " + REFERENCE))
        job = f"PYTHONPATH={SAMPLES} exec {PYTHON} -B serve.py {os.path.realpath(self.folder)}"
        results = self.check(job, "--job-serves-ranks", "--filter", "training.job.single_device*", "--world-size", "3", *options, status=status)
        self.assertEqual(len(results), 3)
        self.started = len((self.folder / "started").read_text().splitlines())
        (self.folder / "started").unlink()
        self.assertEqual(results[0]["parameters"]["model"], "mlp")
        others = [result["verdict"] for result in results[1:]]
        self.assertEqual(others, ["pass", "pass"], results)
        return results[0]

    # HARNESS-046@6245
    def test_one_start_serves_all_cases(self):
        self.assertEqual(self.serve("pass", status=0)["verdict"], "pass")
        self.assertEqual(self.started, 1)

    # HARNESS-046@6245
    def test_a_rank_that_crashes(self):
        result = self.serve("print('at the fault', flush=True); rank == '1' and os.kill(os.getpid(), 11); time.sleep(60)", status=1)
        self.assertEqual(result["verdict"], "crash")
        self.assertIn("rank 1 was killed by signal 11 (Segmentation fault) after ", result["reason"])
        self.assertIn("rank 1 last wrote: at the fault | Fatal Python error: Segmentation fault", result["reason"])
        self.assertIn("; rank 0 still ran", result["reason"])
        self.assertIn("--job-serves-ranks", result["repeat"])

    # HARNESS-046@6245
    def test_a_rank_that_raises_and_one_that_skips(self):
        result = self.serve("raise ValueError('no such layer')", status=1)
        self.assertEqual(result["verdict"], "crash")
        self.assertIn("exited with status 1 after", result["reason"])
        self.assertIn("ValueError: no such layer", result["reason"])
        result = self.serve("from plumbline_job import unsupported; unsupported('no such model here')", status=0)
        self.assertEqual((result["verdict"], result["reason"]), ("skip", "no such model here"))

    # HARNESS-046@6245
    def test_a_rank_that_hangs(self):
        result = self.serve("rank == '1' and wait_for_nobody()", "--time-limit", "40", status=1)
        self.assertEqual(result["verdict"], "hang")
        self.assertIn("rank 1 stood in wait_for_nobody (serve.py:", result["reason"])
        self.assertIn("; rank 2 exited with status 0", result["reason"])

    # HARNESS-046@6245
    def test_what_a_run_leaves(self):
        # State, an environment, a directory, processes in sessions of their own, an open pipe: tearDown looks for processes.
        fault = ("state.append(1); os.environ['LEFT'] = '1'; os.system('setsid sleep 600 & (trap \"\" TERM; exec sleep 600) &'); "
                 "os.fork() or (os.setsid(), time.sleep(600)); os.chdir('/'); sys.exit(4)")
        result = self.serve(fault, status=1)
        self.assertEqual(result["verdict"], "crash")
        self.assertIn("exited with status 4", result["reason"])
        self.assertEqual(self.started, 2)  # the second time where a worker of its own tries the case once more

    # HARNESS-046@6245
    def test_a_rank_that_kills_or_stops_its_server(self):
        for signal_name in ("SIGKILL", "SIGSTOP"):
            with self.subTest(signal_name):
                result = self.serve(f"import signal; rank == '1' and os.kill(os.getppid(), signal.{signal_name}); time.sleep(60)",
                                    "--time-limit", "40", status=1)
                self.assertIn(result["verdict"], ("crash", "hang"))

    # HARNESS-046@6245
    def test_a_program_that_does_not_serve(self):
        for job, words in (("true", "the program exited with status 0 before it served ranks (--job-serves-ranks)"),
                           ("echo no torch; exit 3", "the program exited with status 3 before it served ranks (--job-serves-ranks); the program last wrote: no torch")):
            with self.subTest(job):
                done = subprocess.run(self.command(job, "--job-serves-ranks"), cwd=self.folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, 3, done.stdout)
                self.assertIn(words, done.stderr)
        result, _ = self.failure("echo importing; exec sleep 60", "--job-serves-ranks", "--time-limit", "4", verdict="hang")
        self.assertIn("it is not ready to serve ranks; with --job-serves-ranks it must send 'ready' on its standard input; "
                      "the program last wrote: importing", result["reason"])
        done = subprocess.run(self.command("/no/such", "--job-serves-ranks"), cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("exited with status 127 (the shell did not find the command)", done.stderr)


class Warm(JobDoor):
    """The process that forks programs, which has imported no torch here."""

    PROGRAM = """
import os, sys, time
if sys.argv[1] == "exits":
    print(len(os.environ["LONG"]))
    sys.exit(int(sys.argv[2]))
if sys.argv[1] == "kills":
    os.kill(os.getpid(), int(sys.argv[2]))
os.write(1, f"{os.getpid()} {os.fork() or os.getpid()}\\n".encode())
time.sleep(600)
"""

    def setUp(self):
        super().setUp()
        (self.folder / "program.py").write_text(self.PROGRAM)

    def start(self, start, *arguments, **more):
        process = subprocess.Popen([*start, "program.py", *arguments], cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        self.addCleanup(process.kill)
        return process

    def test_a_program_ends_as_without_it(self):
        long = {f"LONG{part or ''}": "x" * 100000 for part in range(6)}  # more than a packet takes
        with warmed(sys.executable, ()) as (start, _):
            for asked, status in (("exits 0", 0), ("exits 5", 5), (f"kills {signal.SIGKILL}", -signal.SIGKILL), (f"kills {signal.SIGTERM}", -signal.SIGTERM)):
                with self.subTest(asked):
                    process = self.start(start, *asked.split(), env={**os.environ, **long})
                    out, errors = process.communicate(timeout=SOON)
                    self.assertEqual((process.returncode, errors), (status, ""))
                    self.assertEqual(out, "100000\n" if asked.startswith("exits") else "")

    def test_nothing_outlives_what_asked_for_it(self):
        with warmed(sys.executable, ()) as (start, warm):
            for ends in ("enter.py", "warm.py"):
                with self.subTest(ends):
                    process = self.start(start, "sleeps")
                    children = [int(one) for _ in range(2) for one in process.stdout.readline().split()]
                    self.assertEqual((len(children), set(children) - set(left_behind())), (4, set()))
                    os.kill(warm if ends == "warm.py" else process.pid, signal.SIGKILL)
                    process.communicate(timeout=SOON)
                    self.assertNotEqual(process.returncode, 0)
                    self.assert_ended(children)

    def test_it_ends_with_the_process_that_started_it(self):
        starts = (f"import sys\nsys.path.append({str(Path(__file__).resolve().parent / 'warm')!r})\nsys.dont_write_bytecode = True\nfrom warm import warmed\n"
                  "import subprocess\nwith warmed(sys.executable, ()) as (start, pid):\n    print(pid, flush=True)\n"
                  "    subprocess.run([*start, 'program.py', 'sleeps'])\n")
        with subprocess.Popen([sys.executable, "-c", starts], cwd=self.folder, env={**os.environ, "TMPDIR": str(self.folder)}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            pids = [int(one) for _ in range(3) for one in process.stdout.readline().split()]
            process.kill()
        self.assertEqual(len(pids), 5)
        self.assert_ended(pids)

    def assert_ended(self, pids):
        until = time.time() + SOON
        while (left := set(pids) & set(left_behind())) and time.time() < until:
            time.sleep(0.05)
        self.assertFalse(left, "processes are left")


class TorchJobs(JobDoor):
    """PyTorch programs. Ranks are served by forks of one process that has imported torch, but where the start is what is tried."""

    @classmethod
    def setUpClass(cls):
        process = warmed(PYTHON)
        cls.warm, pid = process.__enter__()
        cls.addClassCleanup(process.__exit__, None, None, None)
        ours.add(pid)

    def program(self, name, *arguments, cold=False):
        return shlex.join([*([PYTHON, "-B"] if cold else self.warm), str(SAMPLES / name), *arguments])

    def served(self, *command, profile, filter, status, cold=False):
        return self.check(self.program(*command, cold=cold), "--job-serves-ranks", "--filter", filter, profile=profile, status=status)


class Ddp(TorchJobs):
    """Real training: PyTorch's DistributedDataParallel over gloo, and faults that programs have had."""

    def sample(self, name, *arguments, serves=True):
        return self.program(name, *arguments, cold=not serves)

    def findings(self, fault, filter="training.job.single_device[model=mlp,*,world=2]", serves=("--job-serves-ranks",)):
        (result,) = self.check(self.sample("faulty.py", "ddp." + fault, serves=serves), *serves, "--filter", filter, status=1)
        self.assertEqual(result["verdict"], "fail", result["reason"])
        self.failures = [failure for rank in result["ranks"] for failure in rank["failures"]]
        return "\n".join(failure["message"] for failure in self.failures)

    def test_passes(self):
        serves = "--job-serves-ranks"
        for case, *options in (("[model=conv,*world=2]",), ("[model=mlp,*world=3]", serves), ("[model=conv_norm,*world=4]", serves),
                               ("[*optimizer=sgd_decay,*", serves)):
            with self.subTest(case):
                job = self.sample("ddp_gloo.py", serves=options)
                (result,) = self.check(job, *options, "--filter", "training.job.single_device" + case, status=0)
                self.assertEqual(result["verdict"], "pass")

    def test_a_fault_that_is_misspelt(self):
        done = subprocess.run([PYTHON, "-B", str(SAMPLES / "faulty.py"), "ddp.sumed"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"^faulty.py: 'ddp.sumed' is no fault; did you mean ddp.summed\?; FAULTS at the end of \S+ lists them\n$")

    def test_gradients_that_are_summed(self):
        found = self.findings("summed")
        self.assertRegex(found, r"TRAIN-006: step 0, rank 0, 0\.weight\[\d+\]: the gradient is not the mean")
        self.assertRegex(found, r"TRAIN-008: step 0, rank 0, 0\.weight\[\d+\]")
        self.assertRegex(found, r"TRAIN-006: step 0, rank 0, 2\.bias.*; the first wrong gradient of the run, in backward order; "
                                r"hypothesis: the expected gradient times 2 \(data ranks\): got / expected = 2\.0000, residual ")
        for requirement in ("TRAIN-001", "TRAIN-004", "TRAIN-005", "TRAIN-009", "TRAIN-010"):
            self.assertNotIn(requirement, found)

    def test_a_gradient_that_is_not_reduced(self):
        found = self.findings("not_reduced")
        self.assertRegex(found, r"TRAIN-005: step 0, rank 1, 0\.bias\[\d+\]: the gradient differs from that of rank 0")
        self.assertRegex(found, r"TRAIN-004: step 0, rank 1, 0\.bias\[\d+\]")
        gradient = next(failure for failure in self.failures if failure["requirement"] == "TRAIN-005")
        self.assertEqual((gradient["rank"], gradient["bound"]), (1, "0"))
        self.assertIn(f"expected {gradient['expected']}, got {gradient['got']}, the bits must be equal", gradient["message"])
        self.assertRegex(found, r"TRAIN-006: step 0, rank 0, 0\.bias\[\d+\].*; hypothesis: of data rank 0 alone: residual ")
        self.assertNotRegex(found, r"step 0, rank \d, (0\.weight|2\.)")

    def test_a_loss_that_is_not_averaged(self):
        found = self.findings("not_divided", "*model=conv,*micro_batches=2,*world=2]")
        self.assertRegex(found, r"TRAIN-006: step 0, rank 0, 0\.weight\[\d+\]")
        self.assertNotIn("TRAIN-010", found)

    def test_an_overflow_on_one_replica(self):
        for precision, moment in (("fp16", "local"), ("bf16", "reduced")):
            with self.subTest(precision):
                filter = f"scaler.job.one_replica[precision={precision},moment={moment},*"
                (result,) = self.check(self.sample("ddp_gloo.py"), "--job-serves-ranks", "--filter", filter, profile="mixed-precision", status=0)
                self.assertEqual(result["verdict"], "pass")
        (result,) = self.check(self.sample("ddp_gloo.py"), "--job-serves-ranks", "--filter", "scaler.job.single_device*2x2x1*", profile="mixed-precision", status=3)
        self.assertEqual(result["verdict"], "skip")
        self.assertIn("2 pipeline ranks: this program is parallel along data only", result["reason"])

    def test_ranks_that_look_before_the_sum(self):
        filter = "scaler.job.one_replica[precision=fp16,moment=local,*"
        (result,) = self.check(self.sample("faulty.py", "ddp.looks_before_the_sum"), "--job-serves-ranks", "--filter", filter, profile="mixed-precision", status=1)
        self.assertEqual(result["verdict"], "fail", result["reason"])
        self.assertIn("SCALER-091", result["violated"])
        found = "\n".join(failure["message"] for rank in result["ranks"] for failure in rank["failures"])
        self.assertRegex(found, r"SCALER-091: step 1, rank 1, 0\.weight: the step was made, although inf was written into a gradient of rank 0")

    # HARNESS-041@b080
    def test_a_rank_that_others_wait_for(self):
        (self.folder / "train.py").write_text(
            "import time\nfrom plumbline_job import Run\n"
            "def wait(others):\n    time.sleep(600)\n"
            "run = Run()\nfor step in range(2):\n    run.record(step, 'loss', 0.5)\n"
            "    if step == 1: wait(run.world)\n    run.record(step, 'skipped', run.rank == 1)\n")
        job = f"PYTHONPATH={SAMPLES} {PYTHON} -B train.py; exit $?"
        (result,) = self.check(job, "--filter", ONE, "--time-limit", "10", status=1)
        self.assertEqual(result["verdict"], "hang", result["reason"])
        for rank in (0, 1):
            self.assertIn(f"rank {rank} last recorded step1/loss; ", result["reason"])
            self.assertIn(f"rank {rank} stood in wait (train.py:4) < <module> (train.py:8); rank {rank} wrote nothing", result["reason"])
            self.assertIn(f"---- rank {rank}, asked where it stood\n", result["output"])

    def test_rows_of_another_rank(self):
        found = self.findings("other_rows")
        self.assertRegex(found, r"TRAIN-011: step 0, rank 1, loss: the loss is that of the rows of data rank 0")

    # HARNESS-046@6245
    def test_findings_are_the_same_where_ranks_are_served(self):
        self.assertEqual(self.findings("not_reduced", serves=()), self.findings("not_reduced"))


class Samples(TorchJobs):
    """The sample programs pass, and each fault that was planted in them is found by a requirement of its kind; more of them has
    conformance/training/corpus/samples.toml."""

    RIGHT = {
        "ddp_gloo.py": ("data-parallel", "training.job.single_device[model=conv_norm,*,world=3]"),
        "fsdp2_gloo.py": ("data-parallel", "*[model=conv,*,world=2]"),
        "zero_gloo.py": ("data-parallel", "*[model=conv,*,world=2]"),
        "amp_gloo.py": ("mixed-precision", "scaler.job.one_replica[precision=fp16,moment=local,*"),
        "pipelining_gloo.py": ("pipeline", "pipeline.job.single_device[model=tied,schedule=zbv,*"),
    }
    # Rows with weights.
    WEIGHTED = {"ddp_gloo.py": "[rows=weights,pipeline=1,micro_batches=2,*", "fsdp2_gloo.py": "[rows=padding,pipeline=1,micro_batches=2,*",
                "zero_gloo.py": "[rows=weights,pipeline=1,micro_batches=1,*", "pipelining_gloo.py": "[rows=padding,pipeline=2,*world=4]"}
    def test_right_ones(self):
        for program, (profile, filter) in self.RIGHT.items():
            with self.subTest(program):
                (result,) = self.served(program, profile=profile, filter=filter, status=0, cold=True)
                self.assertEqual(result["verdict"], "pass", result)

    def test_torchrun(self):
        """It starts ranks, which need no more than its environment; of a run that they skip it ends with a status of its own."""
        torchrun = subprocess.check_output([PYTHON, "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"], text=True)
        start = shlex.join([*self.warm, f"{torchrun.strip()}/distributed/run.py", "--no-python"])  # words of the start are in place of Python's
        job = f"{start} --nproc-per-node $WORLD_SIZE {self.program('ddp_gloo.py')}"
        for filter, verdict, reason, status in ((ONE, "pass", "", 0),
                                                ("training.job.averaging_slowmo[*world=2]", "skip", "averaging slowmo: this program has none", 3)):
            with self.subTest(verdict):
                (result,) = self.check(job, "--job-launches-ranks", "--filter", filter, status=status)
                self.assertEqual((result["verdict"], result.get("reason", "")), (verdict, reason), result)

    def test_rows_with_weights(self):
        for program, case in self.WEIGHTED.items():
            with self.subTest(program):
                (result,) = self.served(program, profile="data-parallel", filter="training.job.row_weights" + case, status=0)
                self.assertEqual(result["verdict"], "pass", result)
        for fault, rule in (("ddp.mean_of_means", "micro-batches"), ("ddp.own_weights", "data ranks")):
            with self.subTest(fault):
                (result,) = self.served("faulty.py", fault, profile="data-parallel", filter="training.job.row_weights[rows=padding,*world=3]", status=1)
                self.assertEqual((result["verdict"], result["violated"]), ("fail", ["TRAIN-016"]), result)
                found = "\n".join(failure["message"] for rank in result["ranks"] for failure in rank["failures"])
                self.assertRegex(found, f"hypothesis: the mean of the weighted means of the {rule}: residual ")
        (result,) = self.served("amp_gloo.py", profile="data-parallel", filter="training.job.row_weights[rows=weights,*world=2]", status=3)
        self.assertEqual((result["verdict"], result["reason"]), ("skip", "weights of rows: this program has none"))

    CLIPPED = {"fsdp2_gloo.py": "model=pairs,norm=2,grid=1x1x2,*", "zero_gloo.py": "model=pairs,norm=inf,*", "pipelining_gloo.py": "model=tied,*",
               "amp_gloo.py": "model=pairs,norm=1,*"}

    # Programs that average parameters: which cases they have, and which requirement and hypothesis are found of their faults.
    AVERAGING = {"localsgd_gloo.py": "localsgd[optimizer=sgd,*", "slowmo_gloo.py": "slowmo[*world=3]", "diloco_gloo.py": "diloco[*world=3]",
                 "sgp_gloo.py": "sgp[graph=star,*"}
    AVERAGING_FAULTS = {
        "localsgd.averages_pairs": ("TRAIN-043", "step 2, rank 0, .* of data ranks 0, 1 alone: residual "),
        "localsgd.averages_late": ("TRAIN-043", "step 2, rank 0, .* the rank's own values, without an average: residual "),
        "localsgd.averages_momentum": ("TRAIN-042", "step 3, .* begins the round with the mean of the ranks' states: residual "),
        "slowmo.forgets_momentum": ("TRAIN-045", "step 5, .* without the momentum of the rounds before: residual "),
        "slowmo.ignores_rate": ("TRAIN-045", "step 2, .* the outer learning rate left out: residual "),
        "diloco.wrong_sign": ("TRAIN-045", "step 2, .* the difference of the round with the opposite sign: residual "),
        "diloco.heavy_ball": ("TRAIN-045", "step 2, .* heavy-ball momentum in place of Nesterov's: residual "),
        "diloco.resets_inner": ("TRAIN-042", "step 3, .* begins the round without its state: residual "),
        "sgp.not_divided": ("TRAIN-040", r"step 1, .* hypothesis: the numerators, not divided by the push-sum weight 1\.33333: residual "),
        "sgp.keeps_weight": ("TRAIN-044", "step 0, .* the push-sum weight is 1, the shares come to .*hypothesis: the rank's own value, without a round"),
        "sgp.adds_whole": ("TRAIN-044", "step 0, rank 0, .* hypothesis: the rank's own value in whole, and the shares that came: residual "),
        "sgp.sends_back": ("TRAIN-044", "step 0, rank 0, .* hypothesis: the mixing matrix transposed: shares of the ranks that this rank sends to: residual "),
    }
    AVERAGING_CASES = {"localsgd": "localsgd[*world=3]", "slowmo": "slowmo[*world=3]", "diloco": "diloco[*world=2]", "sgp": "sgp[graph=star,*",
                       "sgp.sends_back": "sgp[graph=n-peer-exponential,*"}  # in a star, peers are the same in both directions

    def test_averaging(self):
        for program, case in self.AVERAGING.items():
            with self.subTest(program):
                (result,) = self.served(program, profile="data-parallel", filter="training.job.averaging_" + case, status=0, cold=True)
                self.assertEqual(result["verdict"], "pass", result)
        for fault, (requirement, words) in self.AVERAGING_FAULTS.items():
            with self.subTest(fault):
                case = "training.job.averaging_" + self.AVERAGING_CASES.get(fault, self.AVERAGING_CASES[fault.split(".")[0]])
                (result,) = self.served("faulty.py", fault, profile="data-parallel", filter=case, status=1)
                self.assertEqual((result["verdict"], requirement in result["violated"]), ("fail", True), result)
                found = "\n".join(failure["message"] for rank in result["ranks"] for failure in rank["failures"])
                self.assertRegex(found, f"{requirement}: {words}")
                self.assertNotRegex(found, r"rank (\d+), .*the rank's own values.* of data rank \1 alone", "one cause in two words")

    def test_what_a_record_of_averages_lacks(self):
        for fault, requirement in (("localsgd.forgets_gradient", "TRAIN-001"), ("localsgd.forgets_update", "TRAIN-018")):
            with self.subTest(fault):
                (result,) = self.served("faulty.py", fault, profile="data-parallel", filter="training.job.averaging_localsgd[*world=3]", status=1)
                self.assertEqual(result["violated"], [requirement, "TRAIN-040", "TRAIN-041", "TRAIN-042", "TRAIN-043"], result)

    def test_who_does_not_average(self):
        for program, case, reason in (
                ("ddp_gloo.py", "training.job.averaging_localsgd[*world=3]", "averaging localsgd: this program has none"),
                ("diloco_gloo.py", "training.job.averaging_slowmo[*world=3]", "averaging slowmo: this program has diloco"),
                ("localsgd_gloo.py", "training.job.single_device[model=mlp,*,world=2]", "gradients that are reduced: this program averages parameters")):
            with self.subTest(program):
                (result,) = self.served(program, profile="data-parallel", filter=case, status=3)
                self.assertEqual((result["verdict"], result["reason"]), ("skip", reason))

    def test_clipping(self):
        for program, case in self.CLIPPED.items():
            with self.subTest(program):
                (result,) = self.served(program, profile="mixed-precision", filter=f"scaler.job.clips[*{case}", status=0)
                self.assertEqual(result["verdict"], "pass", result)
        for fault, case, rule in (("pipelining.clips_by_stage", "model=pairs,norm=2,grid=1x2x2,*", r"clipped by the norm of pipeline rank 0 alone"),
                                  ("pipelining.counts_tied_twice", "model=tied,*", "clipped by a norm in which each copy of a tied weight counts"),
                                  ("fsdp2.clips_own_shard", "model=pairs,norm=2,grid=1x1x2,*", None)):
            with self.subTest(fault):
                (result,) = self.served("faulty.py", fault, profile="mixed-precision", filter=f"scaler.job.clips[precision=fp32,{case}", status=1)
                self.assertEqual((result["verdict"], result["violated"]), ("fail", ["SCALER-094"]), result)
                found = "\n".join(failure["message"] for rank in result["ranks"] for failure in rank["failures"])
                self.assertRegex(found, f"hypothesis: {rule}: residual " if rule else "SCALER-094: step 0")

    # What the cases of no profile have: a mean squared error over weighted rows, and a norm that is not finite without a scaler.
    SQUARES = """
[parallel]
pipeline = {ranks}
data = 1
tensor = 1
order = ["pipeline", "data", "tensor"]
[run]
steps = 1
global_batch = 4
micro_batches = 2
accumulation = 1
dtype = "float32"
schedule = "gpipe"
device = "cpu"
[model]
stages = {stages}
layer = [{{type = "linear", in = 2, out = 3, bias = false}}, {{type = "linear", in = 3, out = 3, bias = false}}]
[loss]
type = "mse"
row_weights = {weighs}
[optimizer]
type = "sgd"
lr = 0.1
[files]
weights = "weights.safetensors"
batches = "batches.safetensors"
"""
    # All in halves and quarters, and no product of infinity and 0. The last row's label is the argument; printed is 1.weight's gradient of `rank`, by its rows.
    FILES = """
import sys, numpy
from plumbline_job import load, save
if sys.argv[1] == "save":
    y = numpy.arange(12).reshape(1, 4, 3) / 4
    y[0, 3, 0] = float(sys.argv[2])
    save("weights.safetensors", {"0.weight": numpy.array([[1, 2], [0.5, -1], [-1, 1]]), "1.weight": numpy.array([[1, 0.5, -1], [2, 0.5, 1], [0, 1, -0.5]])}, {})
    save("batches.safetensors", {"x": numpy.arange(8).reshape(1, 4, 2) / 2 - 2, "y": y, "w": numpy.array([[1, 0.5, 0, 2]])}, {})
else:
    weights, batches, record = load("weights.safetensors"), load("batches.safetensors"), load(f"rank{sys.argv[2]}.safetensors")
    x, y, w = batches["x"][0], batches["y"][0], batches["w"][0] if sys.argv[3] == "true" else numpy.ones(4)
    hidden = x @ weights["0.weight"].T
    of_out = 2 / 3 * (hidden @ weights["1.weight"].T - y) * w[:, None] / w.sum()
    with numpy.errstate(invalid="ignore"):
        print("equal" if numpy.allclose(record["step0/grad/1.weight"], of_out.T @ hidden) else record["step0/grad/1.weight"].tolist())
"""

    def gradient_of_squares(self, program, ranks, more="", label="0.5", weighs="true"):
        def python(*command, start=(PYTHON, "-B"), **more):
            return subprocess.Popen([*start, *command], cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    env={**os.environ, "PYTHONPATH": str(SAMPLES), **more})
        def printed(process):
            out, errors = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, errors)
            return out.strip()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        (self.folder / "spec.toml").write_text(self.SQUARES.format(ranks=ranks, stages=list(range(ranks)), weighs=weighs) + more)
        printed(python("-c", self.FILES, "save", label))
        for record in self.folder.glob("rank*.safetensors"):
            record.unlink()
        started = [python(str(SAMPLES / program), start=self.warm, PLUMBLINE_SPEC="spec.toml", PLUMBLINE_RECORD=".", RANK=str(rank), WORLD_SIZE=str(ranks),
                          MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)) for rank in range(ranks)]
        for process in started:
            printed(process)
        return printed(python("-c", self.FILES, "compare", str(ranks - 1), weighs))

    def test_squares_of_rows_with_weights(self):
        for program, ranks in (("ddp_gloo.py", 1), ("pipelining_gloo.py", 1), ("pipelining_gloo.py", 2)):
            with self.subTest(program, ranks=ranks):
                self.assertEqual(self.gradient_of_squares(program, ranks), "equal")

    def test_a_norm_that_is_not_finite_clips_as_torch_does(self):
        clip = "[clip]\nmax_norm = 1.0\n"
        for label, others in (("nan", "nan"), ("inf", "0.0")):
            with self.subTest(label):
                first, *rest = json.loads(self.gradient_of_squares("ddp_gloo.py", 1, clip, label, "false").replace("nan", "NaN").replace("inf", "Infinity"))
                self.assertEqual([str(value) for value in first], ["nan"] * 3)
                self.assertEqual({str(abs(value)) for row in rest for value in row}, {others})

    def test_what_a_program_does_not_declare(self):
        (self.folder / "train.py").write_text(
            "from plumbline_torch_job import TorchJob\n"
            "class Some(TorchJob):\n    axes = ('data', 'pipeline')\n    schedules = ('gpipe', 'interleaved')\n    layers = ('linear', 'relu')\nSome.main()\n")
        job = f"PYTHONPATH={SAMPLES} {shlex.join(self.warm)} train.py"
        for filter, profile, reason in (
                ("*[model=conv,*,world=2]", "data-parallel", "layer conv2d: this program has linear, relu"),
                ("pipeline.job.single_device[model=mlp,schedule=v-min,*", "pipeline", "schedule v-min: this program has gpipe, interleaved-1f1b"),
                ("scaler.job.single_device[precision=bf16,*", "mixed-precision", "dtype bfloat16: this program has float32")):
            with self.subTest(reason):
                (result,) = self.check(job, "--job-serves-ranks", "--filter", filter, profile=profile, status=3)
                self.assertEqual((result["verdict"], result["reason"]), ("skip", reason))

    def test_mistakes_of_a_program(self):
        spec = {"PLUMBLINE_SPEC": "/no/such", "PLUMBLINE_RECORD": str(self.folder), "RANK": "0", "WORLD_SIZE": "2"}
        of_class = "from plumbline_torch_job import TorchJob\nclass Some(TorchJob):\n    {}\nobject.__new__(Some).check_declarations()"
        for body, environment, words in (
                ("import plumbline_job; plumbline_job.Run()", {}, "PLUMBLINE_SPEC is not set; it must be, as plumbline check --job "),
                ("import plumbline_job; plumbline_job.Run()", {**spec, "RANK": "first"}, "RANK = 'first': it must be a number, as plumbline and torchrun set it"),
                ("import plumbline_job; plumbline_job.Run()", spec, "PLUMBLINE_SPEC = '/no/such' cannot be read "),
                (of_class.format("dtypes = ('fp16',)"), {}, "Some.dtypes has 'fp16': it must be one of float32, float16, bfloat16"),
                (of_class.format("axes = 'data'"), {}, "Some.axes = 'data': it must be a tuple of names"),
                (of_class.format("spreads_expert = True"), {}, "Some.spreads_expert: a program declares no such thing; did you mean spreads_experts?")):
            with self.subTest(words):
                done = subprocess.run([PYTHON, "-B", "-c", body], env={"PYTHONPATH": str(SAMPLES), "JOB_DOOR_TEST": os.environ["JOB_DOOR_TEST"], **environment},
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


class Optional(TorchJobs):
    """What runs can ask for and programs may lack: the samples do it right, faults are found, and others skip."""

    # Programs with a learning-rate schedule.
    SCHEDULED = {"ddp_gloo.py": "linear,*pipeline=1,*world=2]", "fsdp2_gloo.py": "cosine,*pipeline=1,*world=2]", "zero_gloo.py": "cosine,*pipeline=1,*world=3]",
                 "pipelining_gloo.py": "cosine,*pipeline=2,*world=4]"}
    SCHEDULE_FAULTS = {"ddp.schedules_first": r"step 0, .*; hypothesis: the learning rate of step 1, the next one: 0\.05",
                       "ddp.counts_micro_batches": r"step 1, .*; hypothesis: the learning rate of a warm-up that counts micro-batches: 0\.1"}

    def test_learning_rate_schedules(self):
        for program, case in self.SCHEDULED.items():
            with self.subTest(program):
                (result,) = self.served(program, profile="data-parallel", filter="training.job.lr_schedule[decay=" + case, status=0)
                self.assertEqual(result["verdict"], "pass", result)
        for fault, words in self.SCHEDULE_FAULTS.items():
            with self.subTest(fault):
                (result,) = self.served("faulty.py", fault, profile="data-parallel", filter="training.job.lr_schedule[decay=linear,optimizer=sgd,*", status=1)
                self.assertEqual((result["verdict"], result["violated"]), ("fail", ["TRAIN-019"]), result)
                self.assertRegex("\n".join(failure["message"] for rank in result["ranks"] for failure in rank["failures"]), "TRAIN-019: " + words)
        (result,) = self.served("amp_gloo.py", profile="data-parallel", filter="training.job.lr_schedule[decay=linear,optimizer=sgd,*", status=3)
        self.assertEqual((result["verdict"], result["reason"]), ("skip", "a learning-rate schedule: this program has one learning rate"))

    # Programs whose weight decay leaves out some parameters.
    GROUPED = {"ddp_gloo.py": "conv_norm,*", "fsdp2_gloo.py": "mlp,*", "zero_gloo.py": "mlp,*", "pipelining_gloo.py": "pairs,*tensor=1,*"}
    GROUP_FAULTS = {"ddp.decays_norms": ("conv_norm", r"step 0, rank 0, 1\.weight\[.*; hypothesis: with weight decay"),
                    "zero.decays_all": ("mlp", r"step 0, rank 0, 0\.bias\[.*; hypothesis: with weight decay")}

    def test_weight_decay_of_groups(self):
        for program, case in self.GROUPED.items():
            with self.subTest(program):
                (result,) = self.served(program, profile="data-parallel", filter="training.job.no_decay[model=" + case, status=0)
                self.assertEqual(result["verdict"], "pass", result)
        (result,) = self.served(Activations.OF_CORPUS, "tensor", profile="data-parallel", filter="training.job.no_decay[model=pairs,*tensor=2,*", status=0)
        self.assertEqual(result["verdict"], "pass", result)
        for fault, (model, words) in self.GROUP_FAULTS.items():
            with self.subTest(fault):
                (result,) = self.served("faulty.py", fault, profile="data-parallel", filter=f"training.job.no_decay[model={model},*", status=1)
                self.assertEqual((result["verdict"], result["violated"]), ("fail", ["TRAIN-020"]), result)
                self.assertRegex("\n".join(failure["message"] for rank in result["ranks"] for failure in rank["failures"]), "TRAIN-020: " + words)
        (result,) = self.served("amp_gloo.py", profile="data-parallel", filter="training.job.no_decay[model=mlp,*", status=3)
        self.assertEqual((result["verdict"], result["reason"]), ("skip", "parameters without weight decay: this program has one rule for all"))

    # Programs with frozen parameters.
    FROZEN = {"ddp_gloo.py": "conv_norm,frozen=first_layer", "fsdp2_gloo.py": "mlp,frozen=first_layer", "zero_gloo.py": "mlp,frozen=biases"}
    FREEZE_FAULTS = {"ddp.freezes_by_zeros": (["TRAIN-021"], r"step 0, rank 0, 0\.weight\[.*: the value after the step of a frozen parameter is not the given one"),
                     "zero.thaws": (["TRAIN-021"], r"step 1, rank 0, 0\.weight\[.*: the value after the step of a frozen parameter")}

    def test_frozen_parameters(self):
        for program, case in self.FROZEN.items():
            with self.subTest(program):
                (result,) = self.served(program, profile="data-parallel", filter=f"training.job.frozen[model={case},*", status=0)
                self.assertEqual(result["verdict"], "pass", result)
        for fault, (requirements, words) in self.FREEZE_FAULTS.items():
            with self.subTest(fault):
                (result,) = self.served("faulty.py", fault, profile="data-parallel", filter="training.job.frozen[model=mlp,frozen=first_layer,*", status=1)
                self.assertEqual((result["verdict"], result["violated"]), ("fail", requirements), result)
                self.assertRegex("\n".join(failure["message"] for rank in result["ranks"] for failure in rank["failures"]), "TRAIN-021: " + words)
        (result,) = self.served("amp_gloo.py", profile="data-parallel", filter="training.job.frozen[model=mlp,frozen=biases,*", status=3)
        self.assertEqual((result["verdict"], result["reason"]), ("skip", "frozen parameters: this program trains all"))

    # Programs whose data ranks hold shards, and replicas of these.
    SHARD_FAULTS = {"fsdp2.own_replica": r"step 0, .*; hypothesis: .*the mean over the ranks of replica 0 alone", "fsdp2.sums_replicas": r"step 0, .*; hypothesis: .*replicas"}

    def test_shards(self):
        for case in ("1x3,model=conv,*", "2x2,model=transformer,*"):
            with self.subTest(case):
                (result,) = self.served("fsdp2_gloo.py", profile="data-parallel", filter="training.job.shards[mesh=" + case, status=0)
                self.assertEqual(result["verdict"], "pass", result)
        for fault, words in self.SHARD_FAULTS.items():
            with self.subTest(fault):
                (result,) = self.served("faulty.py", fault, profile="data-parallel", filter="training.job.shards[mesh=2x2,model=mlp,*", status=1)
                self.assertEqual(result["verdict"], "fail", result)
                self.assertIn("TRAIN-063", result["violated"], result)
                self.assertRegex("\n".join(failure["message"] for rank in result["ranks"] for failure in rank["failures"]), "TRAIN-063: " + words)
        (result,) = self.served("ddp_gloo.py", profile="data-parallel", filter="training.job.shards[mesh=1x2,*", status=3)
        self.assertEqual((result["verdict"], result["reason"]), ("skip", "shards of parameters: each data rank of this program has all"))

    # Programs that continue from a checkpoint of another layout.
    RESUMED = {"ddp_gloo.py": ["from=1x1x2,to=1x1x4,*", "from=1x1x3,*,state=loss_scale,*"], "fsdp2_gloo.py": ["from=1x1x3,*,state=adam,*"]}
    RESUME_FAULTS = {"fsdp2.loses_moments": ("from=1x1x3,*,state=adam,*", "TRAIN-061", r"step 2, .*; hypothesis: the optimizer's state of before the checkpoint is lost"),
                     "fsdp2.joins_in_other_order": ("from=1x1x3,*,state=adam,*", "TRAIN-060", r"step 2, .*: does not start from where"),
                     "ddp.counts_steps_again": ("from=1x1x3,*,state=adam,*", "TRAIN-061", r"step 2, "),
                     "ddp.schedules_again": ("from=1x1x2,to=1x1x4,*", "TRAIN-061", r"step 2, .*; hypothesis: the learning rate of step 0, of a schedule that starts again"),
                     "ddp.forgets_scale": ("from=1x1x3,*,state=loss_scale,*", "TRAIN-061", r"step 2, .*: the scale is not the rule's"),
                     "ddp.first_rows_again": ("from=1x1x3,*,state=adam,*", "TRAIN-062", r"step 2, .*; hypothesis: the rows of step 0, from the first batch again")}

    def test_checkpoints(self):
        for program, cases in self.RESUMED.items():
            for case in cases:
                with self.subTest(program, case=case):
                    (result,) = self.served(program, profile="data-parallel", filter="training.job.resume[" + case, status=0)
                    self.assertEqual(result["verdict"], "pass", result)
        for fault, (case, requirement, words) in self.RESUME_FAULTS.items():
            with self.subTest(fault):
                (result,) = self.served("faulty.py", fault, profile="data-parallel", filter="training.job.resume[" + case, status=1)
                self.assertEqual((result["verdict"], requirement in result["violated"]), ("fail", True), result)
                self.assertRegex("\n".join(failure["message"] for rank in result["ranks"] for failure in rank["failures"]), requirement + ": " + words)
        (result,) = self.served("zero_gloo.py", profile="data-parallel", filter="training.job.resume[from=1x1x2,to=1x1x4,*", status=3)
        self.assertEqual((result["verdict"], result["reason"]), ("skip", "a checkpoint: this program saves none"))

    # Transformers whose head has the embedding's weight.
    TRANSFORMERS = {"ddp_gloo.py": "1x1x3", "fsdp2_gloo.py": "1x1x2", "pipelining_gloo.py": "1x2x2", "tensor_gloo.py": "2x1x1"}
    # By fault: a case's ranks (tensor x pipeline x data), the requirement, the place, and what is said of it.
    TRANSFORMER_FAULTS = {
        "ddp.sees_later_tokens": ("1x1x2", "TRAIN-006", r"rank 0, activation/3/0.*: forward of layer 3 \(attention\), micro-batch 0: the output is not .*"
                                                        r"hypothesis: without the causal mask: tokens see those after them: residual "),
        "ddp.not_scaled": ("1x1x2", "TRAIN-006", r"rank 0, activation/3/0.*hypothesis: query times key not divided by the root of a head's features: residual "),
        "ddp.not_split": ("1x1x2", "TRAIN-006", r"rank 0, activation/3/0.*hypothesis: heads not split: one softmax over all features: residual "),
        "ddp.detaches_head": ("1x1x2", "TRAIN-023", r"rank 0, 0\.weight.*hypothesis: without the gradient of its use in layer 22 \(tied_linear\): residual "),
        "pipelining.tied_apart": ("1x2x1", "TRAIN-023", r"rank 1, 0\.weight.*hypothesis: without the gradient of its use in layer 0 \(embedding\): residual "),
        "pipelining.head_twice": ("1x2x1", "TRAIN-023", r"rank 0, 0\.weight.*hypothesis: the gradient of its use in layer 22 \(tied_linear\) twice: residual "),
    }

    def test_transformers(self):
        for program, case in self.TRANSFORMERS.items():
            with self.subTest(program):
                (result,) = self.served(program, profile="data-parallel", filter=f"training.job.transformer[grid={case},*", status=0,
                                        cold=program == "tensor_gloo.py")  # others start cold in Samples
                self.assertEqual(result["verdict"], "pass", result)
        for fault, (case, requirement, words) in self.TRANSFORMER_FAULTS.items():
            with self.subTest(fault):
                (result,) = self.served("faulty.py", fault, profile="data-parallel", filter=f"training.job.transformer[grid={case},*", status=1)
                self.assertEqual((result["verdict"], requirement in result["violated"]), ("fail", True), result)
                self.assertRegex("\n".join(failure["message"] for rank in result["ranks"] for failure in rank["failures"]), f"{requirement}: step 0, {words}")

    # Mixtures of experts, whole on every data rank, where some are unused, and in parts. By program, or fault: the case, and of a fault the
    # requirement that it violates and a finding.
    MIXTURES = {"ddp_gloo.py": "moe[grid=1x1x3,*", "expert_gloo.py": "expert_ranks[grid=1x1x4,expert_ranks=2,*"}
    MIXTURE_FAULTS = {
        "ddp.one_expert": ("moe[grid=1x1x2,*", "TRAIN-066", r"TRAIN-006: step 0, .*17\.bias.*hypothesis: each token goes through its first expert alone: residual "),
        "ddp.leaves_out_gates": ("moe[grid=1x1x2,*", "TRAIN-066", r"TRAIN-066: step 0, .*7\.weight.*got 0, "),
        "ddp.counts_users": ("moe[grid=1x1x3,*", "TRAIN-065", "TRAIN-065: step 0, .*hypothesis: of data rank"),
        "ddp.keeps_unused": ("moe[grid=1x1x3,*", "TRAIN-065", "TRAIN-065: step 1, .*: the gradient is not the mean"),
        "expert.divides_by_replicas": ("expert_ranks[grid=1x1x4,expert_ranks=2,*", "TRAIN-067", r"TRAIN-067: step 0, .*hypothesis: the expected gradient times 2 \(expert ranks or "),
        "expert.averages_all": ("expert_ranks[grid=1x1x2,*", "TRAIN-067", r"TRAIN-067: step 0, .*\.(up|down)\.\d"),
        "expert.detaches_router": ("expert_ranks[grid=1x1x2,*", "TRAIN-067", r"TRAIN-067: step 0, .*15\.weight.*got 0, "),
    }

    def test_mixtures_of_experts(self):
        for program, case in self.MIXTURES.items():
            with self.subTest(program):
                (result,) = self.served(program, profile="data-parallel", filter="training.job." + case, status=0)
                self.assertEqual(result["verdict"], "pass", result)
        for fault, (case, requirement, words) in self.MIXTURE_FAULTS.items():
            with self.subTest(fault):
                (result,) = self.served("faulty.py", fault, profile="data-parallel", filter="training.job." + case, status=1)
                self.assertEqual((result["verdict"], requirement in result["violated"]), ("fail", True), result)
                self.assertRegex("\n".join(failure["message"] for rank in result["ranks"] for failure in rank["failures"]), words)
        (result,) = self.served("faulty.py", "ddp.waits_for_unused", profile="data-parallel", filter="training.job.moe[grid=1x1x3,*", status=1)
        self.assertIn(result["verdict"], ("crash", "hang"), result)
        (result,) = self.served("ddp_gloo.py", profile="data-parallel", filter="training.job.expert_ranks[grid=1x1x2,*", status=3)
        self.assertEqual((result["verdict"], result["reason"]), ("skip", "experts on 2 expert ranks: this program has all experts on each rank"))

    def test_transformers_of_wrapped_layers(self):
        (self.folder / "train.py").write_text(
            "from ddp_gloo import Ddp\nfrom torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper\n"
            "class Wrapped(Ddp):\n    records_activations = False\n    def build(self):\n        built = super().build()\n"
            "        for name, layer in list(built.named_children()):\n            setattr(built, name, checkpoint_wrapper(layer))\n        return built\n"
            "Wrapped.main()\n")
        (result,) = self.check(f"PYTHONPATH={SAMPLES} {shlex.join(self.warm)} train.py", "--job-serves-ranks", "--filter",
                               "training.job.transformer[grid=1x1x2,*", status=0)
        self.assertEqual(result["verdict"], "pass", result)

    def test_what_a_program_does_not_know(self):
        """A specification of a later form, with a field or table that nobody here has heard of."""
        described, known = {}, subprocess.check_output([PYTHON, "-B", "-c", "import json, plumbline_job; print(json.dumps(plumbline_job.FIELDS))"],
                                                       env={**os.environ, "PYTHONPATH": str(SAMPLES)}, text=True)
        for table, field in re.findall(r"^\| (?:`\[+([\w.]+)\]+`)? *\| `(\w+)`", subprocess.check_output([PLUMBLINE, "train", "--describe"], text=True), re.M):
            described.setdefault(table, set()).add(field)
        self.assertEqual({table: set(fields.split()) for table, fields in json.loads(known).items()}, described)
        # Each rank changes its own copy.
        (self.folder / "train.py").write_text(
            "import os, subprocess, sys\nfrom ddp_gloo import Ddp\nclass Changed(Ddp):\n    def __init__(self):\n"
            "        spec = os.environ['PLUMBLINE_SPEC']\n        os.environ['PLUMBLINE_SPEC'] = f\"{spec}.{os.environ['RANK']}\"\n"
            "        with open(os.environ['PLUMBLINE_SPEC'], 'w') as changed:\n            subprocess.run(['sed', sys.argv[1], spec], stdout=changed, check=True)\n"
            "        super().__init__()\nChanged.main()\n")
        for change, reason in (("/^protocol/a quorum = 2", "quorum"), ("/^lr = /a decoupled = true", "optimizer.decoupled"),
                               ("/^type = .relu/a slope = 0.1", "model.layer.slope"), ("$ a [outer]", "[outer]")):
            with self.subTest(reason):
                job = f"PYTHONPATH={SAMPLES} {shlex.join([*self.warm, 'train.py', change])}"
                (result,) = self.check(job, "--job-serves-ranks", "--filter", ONE, status=3)
                self.assertEqual((result["verdict"], result["reason"]), ("skip", f"{reason} in the specification: this program does not know it"))


class Activations(TorchJobs):
    """Recorded outputs of layers, and their gradients: right ones pass, and of wrong ones the first place is named."""

    RIGHT_CASES = {
        "ddp_gloo.py": ("1x1x2", "1x1x3"), "fsdp2_gloo.py": ("1x1x3",), "zero_gloo.py": ("1x1x2",),
        "pipelining_gloo.py": ("1x2x1", "1x3x1", "1x2x2"), "tensor_gloo.py": ("2x1x1", "3x1x1", "2x1x2"),
    }
    # By fault: a case's ranks (tensor x pipeline x data), the place, and the hypothesis.
    PLACES = {
        "ddp.off_on_one_rank": ("1x1x2", r"step 0, rank 1, activation/1/0\[\d+\]: forward of layer 1 \(relu\), micro-batch 0: the output is not ",
                                r"the expected output times 1\.01: residual "),
        "ddp.leaves_out_layer": ("1x1x2", r"step 0, rank 0, activation/1/0\[\d+\]: forward of layer 1 \(relu\), micro-batch 0", r"the output of layer 0: "),
        "ddp.stale_output": ("1x1x2", r"step 1, rank 0, activation/2/3\[\d+\]: forward of layer 2 \(linear\), micro-batch 3",
                             r"the output of the step before: "),
        "ddp.doubles_gradient": ("1x1x2", r"step 0, rank 0, activation_grad/0/0\[\d+\]: backward of layer 1 \(relu\), micro-batch 0: the gradient that it "
                                          r"passes to layer 0 is not ", r"the expected gradient times 2 \(data ranks or micro-batches"),
        "ddp.records_elsewhere": ("1x1x2", r"step 0, rank 0, activation/0/0\[\d+\]: forward of layer 0 \(linear\), micro-batch 0", r"the output of layer 1: "),
        "ddp.other_rows": ("1x1x2", r"step 0, rank 1, activation/0/0\[\d+\]: forward of layer 0 \(linear\), micro-batch 0", r"the output on data rank 0: "),
        "ddp.not_divided": ("1x1x2", r"step 0, rank 0, activation_grad/2/0\[\d+\]: backward of the loss, micro-batch 0: the gradient that it passes to layer 2",
                            r"the expected gradient times 4 \(micro-batches of the step\): "),
        "pipelining.reuses_input": ("1x2x1", r"step 0, rank 1, activation/5/1\[\d+\]: forward of layer 5 \(linear\), micro-batch 1",
                                    r"the output for micro-batch 0: "),
        "tensor.not_summed": ("2x1x1", r"step 0, rank 0, activation/2/0\[\d+\]: forward of layer 2 \(linear\), micro-batch 0",
                              r"not summed over the tensor ranks, whose values add up to the expected one but for the bias, which each adds: "),
        "tensor.bias_twice": ("3x1x1", r"step 0, rank 1, activation/0/0\[\d+\]: forward of layer 0 \(linear\), micro-batch 0",
                              r"the output with the layer's bias 2 times: "),
    }

    # The corpus has tensor ranks beside stages.
    OF_CORPUS = Path(os.path.relpath(Path(__file__).resolve().parents[3] / "conformance/training/corpus/bugs.py", SAMPLES))

    def test_tensor_ranks_beside_stages(self):
        (result,) = self.activations(self.OF_CORPUS, "tensor", grid="2x2x1", status=0)
        self.assertEqual(result["verdict"], "pass", result)
        (result,) = self.activations(self.OF_CORPUS, "tensor.copy_of_gradient_reduced", grid="2x2x1", status=1)
        self.assertRegex(result["ranks"][0]["failures"][0]["message"],
                         r"TRAIN-030: step 0, rank 0, activation_grad/4/0.*: backward of layer 5 \(linear\), micro-batch 0: the gradient that it passes to layer 4 is "
                         r"not .*; the first wrong activation of the run; .*hypothesis: not summed over the tensor ranks, whose values add up to the expected one: residual ")

    def activations(self, *command, grid, status):
        return self.served(*command, profile="data-parallel", filter=f"training.job.activations[grid={grid},*", status=status)

    def test_right_ones(self):
        for program, grids in self.RIGHT_CASES.items():
            for grid in grids:
                with self.subTest(program, grid=grid):
                    for result in self.activations(program, grid=grid, status=0):
                        self.assertEqual(result["verdict"], "pass", result)

    def test_places(self):
        for fault, (grid, place, hypothesis) in self.PLACES.items():
            with self.subTest(fault):
                (result,) = self.activations("faulty.py", fault, grid=grid, status=1)
                self.assertEqual((result["verdict"], result["violated"]), ("fail", ["TRAIN-030"]), result)
                first = result["ranks"][0]["failures"][0]["message"]
                self.assertRegex(first, f"TRAIN-030: {place}.*; the first wrong activation of the run; .*hypothesis: {hypothesis}")

    def test_the_place_comes_before_the_parameters(self):
        (result,) = self.served("faulty.py", "ddp.off_on_one_rank", profile="data-parallel", filter="training.job.single_device[model=mlp,*,world=3]", status=1)
        failures = [failure["message"] for failure in result["ranks"][0]["failures"]]
        self.assertRegex(failures[0], r"TRAIN-006: step 0, rank 1, activation/1/0.*: forward of layer 1 \(relu\), micro-batch 0: .*; the first wrong activation ")
        self.assertRegex(failures[1], r"TRAIN-006: step 0, rank 0, 2\.bias.*; the first wrong gradient of the run, in backward order")
        self.assertNotIn("TRAIN-030", result["violated"])
        # What is recorded at a wrong place is no fault of the training.
        (result,) = self.served("faulty.py", "ddp.records_elsewhere", profile="data-parallel", filter="training.job.single_device[model=mlp,*,world=3]", status=0)
        self.assertEqual(result["verdict"], "pass")

    def test_programs_that_record_none(self):
        (self.folder / "train.py").write_text("from ddp_gloo import Ddp\nclass Silent(Ddp):\n    records_activations = {}\n"
                                              "    def layers_in(self, module):\n        return []\nSilent.main()\n")
        for declared, reason in ((False, "outputs of layers: this program records none"), (True, "the program records no outputs of layers")):
            with self.subTest(reason):
                text = (self.folder / "train.py").read_text().replace("{}", str(declared))
                (self.folder / f"train_{declared}.py").write_text(text)
                (result,) = self.check(f"PYTHONPATH={SAMPLES} {shlex.join(self.warm)} train_{declared}.py", "--job-serves-ranks", "--filter",
                                       "training.job.activations[grid=1x1x2,*", status=3)
                self.assertEqual((result["verdict"], result["reason"]), ("skip", reason))


    def test_values_that_no_place_has(self):
        """What the judge does not look up, or cannot read, is no pass."""
        for place, words in (("00/0", "is of no layer and micro-batch, such as 0/0"), ("0/0@-1", "is no tensor's name"), ("0/99", "is of no micro-batch")):
            with self.subTest(place):
                (self.folder / "train.py").write_text("from ddp_gloo import Ddp\nclass Misnamed(Ddp):\n    def record(self, step, what, value):\n"
                                                      f"        super().record(step, what.replace('activation/0/0', 'activation/{place}'), value)\n"
                                                      "Misnamed.main()\n")
                (result,) = self.check(f"PYTHONPATH={SAMPLES} {shlex.join(self.warm)} train.py", "--job-serves-ranks", "--filter",
                                       "training.job.activations[grid=1x1x2,*", status=1)
                self.assertEqual(result["violated"], ["TRAIN-030"])
                self.assertRegex(result["ranks"][0]["failures"][0]["message"], f"TRAIN-030: step 0, rank 0, step0/activation/{place}: not judged: .*{words}")


class Whole(JobDoor):
    """The long form of Samples: all cases of each program's profiles. No test of the build's: job_door_test.py … Whole."""

    def test_right_ones(self):
        for program, profiles in {"ddp_gloo.py": ("data-parallel", "mixed-precision"), "fsdp2_gloo.py": ("data-parallel",), "zero_gloo.py": ("data-parallel",),
                                  "amp_gloo.py": ("mixed-precision",), "pipelining_gloo.py": ("pipeline",)}.items():
            for profile in profiles:
                with self.subTest(program=program, profile=profile):
                    results = self.check(shlex.join([PYTHON, "-B", str(SAMPLES / program)]), "--job-serves-ranks", profile=profile, status=0)
                    self.assertLessEqual({result["verdict"] for result in results}, {"pass", "skip"})
                    self.assertIn("pass", {result["verdict"] for result in results})
                    print(f"{program} {profile}: {len(results)} cases in {self.seconds:.1f} s")


if __name__ == "__main__":
    try:
        if PYTHON is None and {"Served", "Ddp", "Samples", "Optional", "Activations", "Whole"} & {argument.split(".")[0] for argument in sys.argv[3:]}:
            print(f"skipped: none of {sys.argv[2]} has torch, numpy and tomllib")
            sys.exit(77)
        if WITH_JAX is None and "Jax" in sys.argv[3:]:
            print(f"skipped: none of {sys.argv[2]} has jax, numpy and tomllib; pip install jax brings the first")
            sys.exit(77)
        unittest.main(argv=sys.argv[:1] + sys.argv[3:])
    finally:
        os.rmdir(SCRATCH)
