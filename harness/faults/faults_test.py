"""What the harness must survive, seen from outside: verdicts, evidence, time, and that nothing is left behind.

usage: faults_test.py EXECUTABLE BACKEND [unittest arguments]
"""
import glob, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, time, unittest
from pathlib import Path

EXECUTABLE = os.path.realpath(sys.argv[1])
BACKEND = sys.argv[2]
PROCESSES = BACKEND != "local"


# All that this test starts carries the marker; all scratch folders are made in a place of its own.
MARKER = f"FAULTS_TEST={os.getpid()}"
SCRATCH = tempfile.mkdtemp(prefix="pf.", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
os.environ["FAULTS_TEST"] = str(os.getpid())
os.environ["PLUMBLINE_TMPDIR"] = SCRATCH


def workers():
    """Process ids of what this test has started and still runs."""
    found = []
    for environ in glob.glob("/proc/[0-9]*/environ"):
        try:
            if MARKER.encode() in Path(environ).read_bytes().split(b"\0"):
                found.append(int(environ.split("/")[2]))
        except OSError:
            pass
    return [pid for pid in found if pid != os.getpid()]


class Harness(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = Path(self.folder.name) / "out"

    def tearDown(self):
        deadline = time.time() + 5
        while time.time() < deadline and (workers() or (os.listdir(SCRATCH))):
            time.sleep(0.1)
        self.assertEqual(workers(), [], "processes are left")
        self.assertEqual(os.listdir(SCRATCH), [], "files are left")
        self.folder.cleanup()

    def command(self, *filters, options=()):
        command = [EXECUTABLE, "check", "--backend", BACKEND, "--out", str(self.out), *options]
        for one in filters:
            command += ["--filter", one]
        return command

    def run_checks(self, *filters, options=(), timeout=100, status=None):
        begin = time.time()
        done = subprocess.run(self.command(*filters, options=options), capture_output=True, text=True, errors="replace", timeout=timeout)
        self.seconds = time.time() - begin
        self.output = done.stdout + done.stderr
        if status is not None:
            self.assertEqual(done.returncode, status, self.output)
        return self.results()

    def lines(self):
        return [json.loads(line) for line in (self.out / "run.jsonl").read_text().splitlines()]

    def results(self):
        if not (self.out / "run.jsonl").exists():
            return {}
        return {line["case"]: line for line in self.lines() if line["type"] == "result"}


class Faults(Harness):
    def verdict(self, name, where="one", world=3):
        filter = f"faults.{name}[where={where},world={world}]"
        # A pass before and after: the run must go on as if nothing had been.
        results = self.run_checks("faults.a_pass[where=one,world=%d]" % world, filter, "faults.z_pass[where=one,world=%d]" % world, status=1)
        self.assertEqual(results.pop("faults.a_pass[where=one,world=%d]" % world)["verdict"], "pass")
        self.assertEqual(results.pop("faults.z_pass[where=one,world=%d]" % world)["verdict"], "pass")
        (result,) = results.values()
        self.assertIn("--filter '" + filter + "'", result["repeat"])
        return result

    def ranks(self, result):
        return [rank["verdict"] for rank in result["ranks"]]

    # ---- crashes ----

    def check_crash(self, name, words):
        one = self.verdict(name)
        self.assertEqual(one["verdict"], "crash", one)
        if name != "exit_zero" and (PROCESSES or name in ("segfault", "abort", "overflow")):
            self.assertEqual(self.ranks(one), ["aborted", "aborted", "crash"], one)
        self.assertRegex(one["reason"] + one.get("output", ""), words)
        every = self.verdict(name, where="all")
        self.assertEqual(every["verdict"], "crash", every)
        alone = self.verdict(name, world=1)
        self.assertEqual(self.ranks(alone), ["crash"])

    def test_segfault(self):
        self.check_crash("segfault", "received signal 11")

    def test_abort(self):
        self.check_crash("abort", "received signal 6")

    def test_overflow_of_the_stack(self):
        self.check_crash("overflow", "received signal 11")

    def test_kill(self):
        self.check_crash("kill", "ignal 9")

    def test_exit_zero(self):
        self.check_crash("exit_zero", "the process of rank")

    def test_exit_seven(self):
        self.check_crash("exit_seven", r"Exit code: +7\b" if PROCESSES else r"exited with status 7\b")

    # ---- failures ----

    def check_failure(self, name, words, verdict="fail"):
        one = self.verdict(name)
        self.assertEqual(one["verdict"], verdict, one)
        self.assertEqual(self.ranks(one), ["aborted", "aborted", verdict], one)
        self.assertIn(words, one["reason"])
        self.assertLess(self.seconds, 12)
        every = self.verdict(name, where="all")
        self.assertEqual(every["verdict"], verdict)
        return one

    def test_assertion_in_a_called_function(self):
        self.check_failure("assert", "faults.cpp")

    def test_exception(self):
        self.check_failure("throw", "uncaught exception: thrown on purpose")

    def test_exception_of_an_odd_type(self):
        self.check_failure("throw_odd", "unknown type")

    def test_refusal(self):
        self.check_failure("refuse", "refused on purpose", verdict="refuse")

    def test_expectation_ends_as_failure_of_its_rank_alone(self):
        result = self.verdict("expect")
        self.assertEqual((result["verdict"], self.ranks(result)), ("fail", ["pass", "pass", "fail"]))

    def test_a_thousand_failures_are_cut(self):
        result = self.verdict("many_failures")
        self.assertEqual(result["verdict"], "fail")
        self.assertIn("and 981 more failures", json.dumps(result))
        self.assertLess(len(json.dumps(result)), 200_000)

    def test_a_message_of_any_length_is_a_failure_and_cut(self):
        result = self.check_failure("long_message", "uncaught exception: xxxx")
        self.assertLess(len(json.dumps(result)), 100_000)

    def test_a_process_that_ends_after_its_report_is_named(self):
        result = self.verdict("leave_afterwards")
        self.assertEqual(result["verdict"], "crash", result)
        self.assertIn("the process of rank %s ended after its report" % ("2" if PROCESSES else "0, 1, 2"), result["reason"])

    def test_ranks_that_make_different_calls_are_named_with_what_they_call(self):
        # Backends that notice say so themselves; where they do not, the ranks' own notes tell.
        result = self.verdict("other_count")
        self.assertIn("first difference: collective #2 on world: ranks 0, 1 all_reduce(f32 x 4, sum), rank 2 all_reduce(f32 x 5, sum)",
                      result["reason"])

    def test_failure_on_a_thread_that_is_no_rank(self):
        result = self.verdict("stray")
        self.assertEqual(result["verdict"], "fail")
        self.assertIn("on a thread that is no rank", result["reason"])

    def test_a_rank_that_leaves_early(self):
        results = self.run_checks("faults.leaves_early*", "faults.z_pass[where=one,world=3]", status=1)
        result = results["faults.leaves_early[world=3]"]
        self.assertEqual(result["verdict"], "hang" if PROCESSES else "fail", result)
        if not PROCESSES:
            self.assertIn("rank 1 has left the group", result["reason"])
        else:
            self.assertIn("entered barrier() #1 on world", result["reason"])

    # ---- hangs ----

    def check_hang(self, name, world=3):
        result = self.verdict(name, world=world)
        self.assertEqual(result["verdict"], "hang", result)
        self.assertLess(self.seconds, 15)
        return result

    def test_sleep(self):
        result = self.check_hang("sleep")
        self.assertEqual(self.ranks(result), ["hang", "hang", "hang"])
        self.assertIn("rank 1 entered barrier() #1 on world; rank 2 last made group world", result["reason"])

    def test_spin(self):
        self.check_hang("spin")

    def test_a_single_rank_that_hangs(self):
        self.check_hang("sleep", world=1)

    def test_a_member_that_never_arrives(self):
        self.check_hang("missing_call")

    def test_stopped_process(self):
        result = self.check_hang("stop")
        self.assertEqual(result["verdict"], "hang")
        self.assertIn("stopped", json.dumps(result))

    def test_progress_moves_the_deadline(self):
        results = self.run_checks("faults.slow_but_alive[where=all,world=1]", status=0)
        self.assertEqual([r["verdict"] for r in results.values()], ["pass"])

    # ---- output ----

    def test_noise_is_kept_as_a_tail_and_every_file_stays_readable(self):
        result = self.verdict("noise")
        self.assertIn("line 1999 of a lot of noise", result["output"])
        self.assertNotIn("line 10 of", result["output"])
        import xml.etree.ElementTree as ElementTree
        tree = ElementTree.parse(self.out / "junit.xml")
        self.assertEqual(len(tree.findall(".//failure")), 1)
        self.assertIn("plumbline_cases{", (self.out / "metrics.prom").read_text())

    # ---- the driver ----

    def test_interrupted_run_is_resumed_without_running_anything_twice(self):
        self.interrupt(signal.SIGTERM)

    def test_killed_driver_leaves_nothing_and_is_resumed(self):
        self.interrupt(signal.SIGKILL)

    def interrupt(self, number):
        filters = ["faults.a_pass*", "faults.sleep[where=all,world=1]", "faults.z_pass*"]
        with subprocess.Popen(self.command(*filters), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as driver:
            deadline = time.time() + 30
            while time.time() < deadline and not any("a_pass" in case for case in self.safe_results()):
                time.sleep(0.05)
            time.sleep(0.5)  # into the hang
            driver.send_signal(number)
            driver.communicate(timeout=20)
        with open(self.out / "run.jsonl", "a") as record:
            record.write('{"type":"result","torn')  # as a kill in the middle of a write leaves it
        had = set(self.safe_results())
        self.assertTrue(had)
        self.run_checks(*filters, options=["--resume"], status=1)
        lines = self.lines()
        cases = [line["case"] for line in lines if line["type"] == "result"]
        self.assertEqual(len(cases), len(set(cases)), "a case with a result ran again")
        self.assertTrue(had <= set(cases), "results were lost")
        self.assertEqual(len(cases), len(lines[0]["plan"]))
        self.assertEqual([line["type"] for line in lines if line["type"] in ("resumed", "complete")], ["resumed", "complete"])

    def safe_results(self):
        try:
            text = (self.out / "run.jsonl").read_text()
        except FileNotFoundError:
            return {}
        whole = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return {line["case"]: line for line in whole if line["type"] == "result"}

    def test_resume_refuses_another_plan(self):
        self.run_checks("faults.a_pass*", status=0)
        before = (self.out / "run.jsonl").read_bytes()
        self.run_checks("faults.z_pass*", options=["--resume"], status=2)
        self.assertIn("another plan", self.output)
        self.assertEqual((self.out / "run.jsonl").read_bytes(), before)

    def test_a_rank_killed_from_outside(self):
        with subprocess.Popen(self.command("faults.sleep[where=one,world=3]", "faults.z_pass[where=one,world=3]", options=["--time-limit", "30"]),
                              stdout=subprocess.DEVNULL) as driver:
            deadline = time.time() + 20
            victims = []
            while time.time() < deadline and len(victims) < (3 if PROCESSES else 1):
                time.sleep(0.2)
                victims = [pid for pid in workers() if pid != driver.pid and os.readlink(f"/proc/{pid}/exe") == EXECUTABLE]
            time.sleep(0.7)
            os.kill(sorted(victims)[-1], signal.SIGKILL)
            driver.wait(timeout=30)
        verdicts = {case: result["verdict"] for case, result in self.results().items()}
        self.assertEqual(verdicts, {"faults.sleep[where=one,world=3]": "crash", "faults.z_pass[where=one,world=3]": "pass"})

    def test_a_group_that_a_check_spoils_is_not_used_again(self):
        self.run_checks("faults.spoils[where=one,world=3]", "faults.z_pass[where=one,world=3]", status=0)

    # ---- options ----

    def test_everything_at_once_costs_only_what_is_at_fault(self):
        results = self.run_checks("faults.*", options=["--world-size", "3", "--jobs", "2", "--shuffle", "7"], timeout=300, status=1)
        passed = sorted(case for case, result in results.items() if result["verdict"] == "pass")
        expected = sorted(f"faults.{name}[where={where},world=3]" for name in ("a_pass", "spoils", "surroundings", "z_pass", "slow_but_alive") for where in ("one", "all"))
        self.assertEqual(passed, expected)
        self.assertNotIn("error", [result["verdict"] for result in results.values()])
        self.assertIn("--shuffle=7", self.output)

    def test_fail_fast(self):
        results = self.run_checks("faults.expect[where=one,world=1]", "faults.z_pass[where=one,world=1]", options=["--fail-fast"], status=1)
        self.assertEqual(list(results), ["faults.expect[where=one,world=1]"])

    def test_repeat_uses_other_seeds(self):
        self.run_checks("faults.a_pass[where=one,world=1]", options=["--repeat", "3", "--seed", "5"], status=0)
        self.assertEqual([line["seed"] for line in self.lines() if line["type"] == "result"], [5, 6, 7])

    def test_list_runs_nothing(self):
        done = subprocess.run(self.command("faults.a_pass*", options=["--list"]), capture_output=True, text=True)
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 4))
        self.assertFalse(self.out.exists())

    def test_bad_input_is_one_line_and_status_2(self):
        for options, words in (
            (["--backend", "nothere"], "no backend 'nothere'"),
            (["--profile", "nothere"], "no profile 'nothere'"),
            (["--filter", "nothere*"], "--filter 'nothere*' matches nothing"),
            (["--world-size", "0"], "'0' is not a whole number from 1 "),
            (["--world-size", "-2"], "'-2' is not a whole number from 1 "),
            (["--world-size", "7"], "nothing to run"),
            (["--world-size", "100000"], "at most"),
            (["--world-size", "two"], "'two' is not a whole number"),
            (["--jobs", "0"], "'0' is not a whole number from 1 "),
            (["--repeat", "0"], "'0' is not a whole number from 1 "),
            (["--mutant", "nothere"], "no mutant 'nothere'"),
            (["--launcher", "nothere"], "--launcher 'nothere'"),
            (["--backend-option", "x"], "'x' is not KEY=VALUE"),
            (["--control-address", "nothere"], "control address 'nothere'"),
            (["--time-limit", "-1"], "-1"),
            (["--shuffle", "x"], "--shuffle: 'x' is not a whole number"),
            (["--nothere"], "--nothere"),
            (["--adapter", "x", "--backend", BACKEND], "one subject"),
        ):
            base = [] if "--adapter" in options else ["--backend", BACKEND]
            command = [EXECUTABLE, "check", *(options if "--backend" in options else base + options), "--out", str(self.out)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 2, (options, done))
            self.assertIn(words, done.stderr, options)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertEqual(subprocess.run([EXECUTABLE], capture_output=True).returncode, 2)
        self.assertEqual(subprocess.run([EXECUTABLE, "nothere"], capture_output=True).returncode, 2)

    def test_a_results_folder_that_cannot_be_written(self):
        self.out = Path("/proc/nothere")
        done = subprocess.run(self.command("faults.a_pass*"), capture_output=True, text=True)
        self.assertEqual(done.returncode, 3)
        self.assertIn("cannot make folder '/proc/nothere'", done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    @unittest.skipIf(PROCESSES, "the limit would hit the runtime too; recording is the same for all backends")
    def test_a_full_disk_ends_the_run_in_one_line_and_loses_nothing(self):
        # A limit on the size of files is what a full disk looks like to a process: here behind the record's first line.
        self.run_checks("faults.a_pass*", status=0)
        kilobytes = len((self.out / "run.jsonl").read_text().splitlines()[0]) // 1024 + 2
        shutil.rmtree(self.out)
        limited = ["bash", "-c", f'trap "" XFSZ; ulimit -f {kilobytes}; exec "$@"', "bash"]
        done = subprocess.run(limited + self.command("faults.a_pass*", "faults.z_pass*"), capture_output=True, text=True)
        self.assertEqual(done.returncode, 3, done)
        self.assertIn("cannot write", done.stderr)
        self.assertIn("run.jsonl", done.stderr)
        had = set(self.safe_results())
        self.run_checks("faults.a_pass*", "faults.z_pass*", options=["--resume"], status=0)
        self.assertTrue(had <= set(self.results()))
        self.assertEqual(len(self.results()), 8)

    # ---- the control channel ----

    def test_strangers_on_the_control_channel_are_dropped_and_logged(self):
        with subprocess.Popen(self.command("faults.sleep[where=all,world=1]", "faults.z_pass[where=one,world=1]"),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as driver:
            time.sleep(1.0)
            ports = self.listening_ports(driver.pid)
            self.assertEqual(len(ports), 1)
            for junk in (b"hello\n", b"{}\n", b'{"type":"hello","token":"0"}\n', b'{"type":"hello","token":7}\n', b"[" * 100000,
                         b"\xff\xfe\n", b"x" * 1_000_000, b'{"type":"hello","token":"' + b"0" * 32 + b'"}\n', b""):
                with socket.create_connection(("127.0.0.1", ports[0]), timeout=5) as stranger:
                    try:
                        stranger.sendall(junk)
                        stranger.settimeout(2)
                        if junk:
                            self.assertEqual(stranger.recv(100), b"", junk[:40])
                    except (ConnectionError, BrokenPipeError):
                        pass
            output, _ = driver.communicate(timeout=30)
        self.assertGreaterEqual(output.count("control channel: dropped a connection"), 8, output)
        self.assertEqual({r["verdict"] for r in self.results().values()}, {"hang", "pass"})
        self.assertTrue(any(line["type"] == "note" for line in self.lines()))

    def test_a_stranger_who_does_not_stop_talking_costs_neither_time_nor_memory(self):
        with subprocess.Popen(self.command("faults.sleep[where=all,world=1]", "faults.z_pass[where=one,world=1]"),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as driver:
            time.sleep(1.0)
            (port,) = self.listening_ports(driver.pid)
            peak, deadline = 0, time.time() + 4
            with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
                try:
                    while time.time() < deadline:
                        stranger.sendall(b"{}\n" * 50_000)
                        peak = max(peak, self.kilobytes(driver.pid))
                except OSError:
                    pass  # dropped
            driver.communicate(timeout=30)
        self.assertLess(peak, 100_000)
        results = self.results()
        self.assertEqual({r["verdict"] for r in results.values()}, {"hang", "pass"})
        self.assertLess(results["faults.sleep[where=all,world=1]"]["seconds"], 3.5)

    @staticmethod
    def kilobytes(pid):
        status = Path(f"/proc/{pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    @staticmethod
    def listening_ports(pid):
        inodes = set()
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
        ports = []
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                assert fields[1].startswith("0100007F"), "listens elsewhere than on loopback"
                ports.append(int(fields[1].split(":")[1], 16))
        return ports


@unittest.skipUnless(BACKEND == "mpi", "only processes can be started by somebody else")
class InTheUsersJob(Harness):
    """The same command line, started on every rank by the user's own mpirun."""

    def run_job(self, processes, *filters, options=(), status=None, timeout=60):
        job = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(processes), *self.command(*filters, options=options)]
        begin = time.time()
        done = subprocess.run(job, capture_output=True, text=True, errors="replace", timeout=timeout)
        self.seconds = time.time() - begin
        self.output = done.stdout + done.stderr
        if status is not None:
            self.assertEqual(done.returncode, status, self.output)
        self.wait_for_the_driver()  # which outlives a job that was cut down
        self.assertEqual([file.name for file in self.out.glob(".control*")], [], "the way to the driver is left in the folder")
        return {case: result["verdict"] for case, result in self.results().items()}

    def wait_for_the_driver(self):
        deadline = time.time() + 10
        while time.time() < deadline and workers():
            time.sleep(0.05)

    def test_pass(self):
        verdicts = self.run_job(3, "faults.a_pass*", "faults.surroundings*", status=0)
        self.assertEqual(set(verdicts.values()), {"pass"})
        self.assertEqual(len(verdicts), 8)
        self.assertIn("8 pass", self.output)

    def test_jobs_is_one_for_there_is_one_group(self):
        verdicts = self.run_job(2, "faults.a_pass*", "faults.z_pass*", options=["--jobs", "2"], status=0)
        self.assertEqual(list(verdicts.values()), ["pass"] * 4)

    def test_resume_of_a_finished_run_ends_at_once_on_all_ranks(self):
        self.run_job(2, "faults.a_pass*", status=0)
        self.run_job(2, "faults.a_pass*", options=["--resume"], status=0, timeout=30)
        self.assertLess(self.seconds, 20)

    def test_resume_refuses_another_plan_as_it_does_outside(self):
        self.run_job(2, "faults.a_pass*", status=0)
        self.run_job(2, "faults.z_pass*", options=["--resume"], status=2, timeout=30)
        self.assertIn("another plan", self.output)
        self.assertLess(self.seconds, 20)

    def check_end(self, name, verdict, where, world, processes):
        case = f"faults.{name}[where={where},world={world}]"
        verdicts = self.run_job(processes, "faults.a_pass*", case, "faults.z_pass*")
        self.assertEqual(verdicts[case], verdict)
        self.assertEqual({v for key, v in verdicts.items() if key != case}, {"pass"})
        if verdict == "hang":  # after a crash mpirun may be gone, with the screen, before anybody can say a word
            self.assertIn(f"HANG  {case}", self.output)
        run = self.lines()
        self.assertEqual(run[0]["type"], "header")
        self.assertTrue((self.out / "junit.xml").exists())
        # A new job runs the rest.
        verdicts = self.run_job(processes, "faults.a_pass*", case, "faults.z_pass*", options=["--resume"], status=1)
        self.assertEqual(len(verdicts), len(run[0]["plan"]))
        self.assertEqual([v for v in verdicts.values() if v != "pass"], [verdict])

    def test_a_rank_that_dies(self):
        self.check_end("kill", "crash", "one", 3, 3)

    def test_rank_0_dies(self):
        self.check_end("kill", "crash", "all", 1, 2)

    def test_a_rank_that_hangs(self):
        self.check_end("sleep", "hang", "one", 3, 3)


def in_shards(count):
    """Runs the tests in so many processes at once, for most of their time is waiting; each has its own marker."""
    shards = [subprocess.Popen([sys.executable, "-B", *sys.argv], env=dict(os.environ, FAULTS_SHARD=f"{shard}/{count}"),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for shard in range(count)]
    failed = 0
    for shard in shards:
        output, _ = shard.communicate()
        print(output)
        failed += shard.returncode != 0
    return 1 if failed else 0


class Shard(unittest.TestLoader):
    """The tests of $FAULTS_SHARD, "K/N": every N-th from the K-th on."""

    def getTestCaseNames(self, case):
        shard, count = map(int, os.environ["FAULTS_SHARD"].split("/"))
        return super().getTestCaseNames(case)[shard::count]


if __name__ == "__main__":
    try:
        if len(sys.argv) == 3 and "FAULTS_SHARD" not in os.environ:
            sys.exit(in_shards(4))
        loader = Shard() if "FAULTS_SHARD" in os.environ else unittest.defaultTestLoader
        unittest.main(argv=[sys.argv[0]] + sys.argv[3:], verbosity=1, testLoader=loader)
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
