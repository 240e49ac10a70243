"""What the harness must survive, seen from outside: verdicts, evidence, time, and that nothing is left behind.

usage: faults_test.py EXECUTABLE BACKEND [unittest arguments]
"""
import glob, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, time, unittest
from pathlib import Path

EXECUTABLE = os.path.realpath(sys.argv[1])
BACKEND = sys.argv[2]
PROCESSES = BACKEND != "local"
SOON = 40  # seconds: not a matter of how busy the machine is, and shorter than what would be waited for in vain

# All that this test starts carries the marker; all scratch folders are made in a place of its own.
MARKER = f"FAULTS_TEST={os.getpid()}"
SCRATCH = tempfile.mkdtemp(prefix="pf.", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
os.environ["FAULTS_TEST"] = str(os.getpid())
os.environ["PLUMBLINE_TMPDIR"] = SCRATCH

# A debugger takes seconds for each hang: it is found by the test that is about it alone.
DEBUGGER_PATH = os.environ["PATH"]
os.environ["PATH"] = PROGRAMS = tempfile.mkdtemp(prefix="pf-path.")
for place in DEBUGGER_PATH.split(":"):
    for program in os.listdir(place) if os.path.isdir(place) else ():
        if program != "gdb" and not os.path.islink(os.path.join(PROGRAMS, program)):
            os.symlink(os.path.join(place, program), os.path.join(PROGRAMS, program))


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

    def command(self, *filters, options=(), control=False):
        """These checks are themselves at fault: with the control run the reference would fail in them as well."""
        command = [EXECUTABLE, "check", "--backend", BACKEND, "--out", str(self.out), *options]
        command += [] if control else ["--no-control"]
        for one in filters:
            command += ["--filter", one]
        return command

    def run_checks(self, *filters, options=(), timeout=100, status=None, control=False, environment=None):
        begin = time.time()
        done = subprocess.run(self.command(*filters, options=options, control=control), capture_output=True, text=True,
                              errors="replace", timeout=timeout, env=dict(os.environ, **(environment or {})))
        self.seconds = time.time() - begin
        self.output = done.stdout + done.stderr
        if status is not None:
            self.assertEqual(done.returncode, status, self.output)
        return self.results()

    def lines(self):
        return [json.loads(line) for line in (self.out / "run.jsonl").read_text().splitlines()]

    def results(self, role=None):
        if not (self.out / "run.jsonl").exists():
            return {}
        return {line["case"]: line for line in self.lines() if line["type"] == "result" and line.get("role") == role}

    def verdicts(self, *filters, **how):
        return {case: result["verdict"] for case, result in self.run_checks(*filters, **how).items()}


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

    # HARNESS-008@af2b
    def test_segfault(self):
        self.check_crash("segfault", "received signal 11")

    def test_abort(self):
        self.check_crash("abort", "received signal 6")

    def test_overflow_of_the_stack(self):
        self.check_crash("overflow", "received signal 11")

    # HARNESS-008@af2b
    def test_kill(self):
        self.check_crash("kill", "ignal 9")

    @unittest.skipUnless(PROCESSES, "of a process of its own")
    def test_the_end_of_one_process_of_several_is_told(self):
        self.assertIn("the process of rank 2 was killed by signal 9 (Killed) before it reported", self.verdict("kill")["reason"])
        self.assertIn("the process of rank 2 exited with status 7 before it reported", self.verdict("exit_seven")["reason"])

    # HARNESS-008@af2b
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
        every = self.verdict(name, where="all")
        self.assertEqual(every["verdict"], verdict)
        return one

    def uncaught(self, result):
        return [failure.get("uncaught", False) for failure in result["ranks"][-1]["failures"]]

    def test_assertion_in_a_called_function(self):
        self.assertEqual(self.uncaught(self.check_failure("assert", "faults.cpp")), [False])

    def test_exception(self):
        self.assertEqual(self.uncaught(self.check_failure("throw", "uncaught exception: thrown on purpose")), [True])

    def test_exception_of_an_odd_type(self):
        self.assertEqual(self.uncaught(self.check_failure("throw_odd", "unknown type")), [True])

    def test_exception_after_a_failing_expectation(self):
        self.assertEqual(self.uncaught(self.check_failure("expect_and_throw", "a failing expectation")), [False, True])

    def test_refusal(self):
        self.check_failure("refuse", "refused on purpose", verdict="refuse")

    def test_a_case_that_can_judge_nothing_is_a_skip_with_its_reason(self):
        case = "faults.judges_nothing[where=all,world=3]"
        results = self.run_checks(case, "faults.z_pass[where=one,world=3]", status=0)
        self.assertEqual((results[case]["verdict"], results[case]["reason"]), ("skip", "nothing to judge here"))

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
        self.assertRegex(result["reason"], "the process of rank %s .* after its report" % ("2" if PROCESSES else "0, 1, 2"))

    # HARNESS-012@feaf
    def test_ranks_that_make_different_calls_are_named_with_what_they_call(self):
        # Backends that notice say so themselves; where they do not, the ranks' own notes tell.
        result = self.verdict("other_count")
        self.assertIn("first difference: collective #2 on world: ranks 0, 1 all_reduce(f32 x 4, sum), rank 2 all_reduce(f32 x 5, sum)",
                      result["reason"])

    # HARNESS-032@f359
    def test_of_two_failures_the_cause_is_told(self):
        result = self.run_checks("faults.cause_and_consequence*", "faults.z_pass[where=one,world=3]", status=1)["faults.cause_and_consequence[world=2]"]
        self.assertEqual(self.ranks(result), ["fail", "fail"])
        self.assertIn("rank 1: ", result["reason"])
        self.assertIn("the cause", result["reason"])

    def test_failure_on_a_thread_that_is_no_rank(self):
        result = self.verdict("stray")
        self.assertEqual(result["verdict"], "fail")
        self.assertIn("on a thread that is no rank", result["reason"])

    # HARNESS-010@06e2
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
        # Twice the limit, which grows on a slow machine, and the debugger's time.
        self.assertLess(self.seconds, 2 * (result["limit_seconds"] + 10) + 5)
        return result

    # HARNESS-010@06e2
    def test_sleep(self):
        result = self.check_hang("sleep")
        self.assertEqual(self.ranks(result), ["hang", "hang", "hang"])
        self.assertIn("rank 1 entered barrier() #1 on world; rank 2 last made group world", result["reason"])
        self.assertIn("--time-limit", result["reason"])

    def test_spin(self):
        self.check_hang("spin")

    def test_a_single_rank_that_hangs(self):
        self.check_hang("sleep", world=1)

    def test_a_member_that_never_arrives(self):
        self.check_hang("missing_call")

    # HARNESS-016@319a
    def test_stopped_process(self):
        result = self.check_hang("stop")
        self.assertEqual(result["verdict"], "hang")
        self.assertIn("stopped", json.dumps(result))

    # HARNESS-009@61db
    def test_progress_moves_the_deadline(self):
        results = self.run_checks("faults.slow_but_alive[where=all,world=1]", status=0)
        self.assertEqual([r["verdict"] for r in results.values()], ["pass"])

    # ---- output ----

    # HARNESS-014@abd8
    def test_noise_is_kept_as_a_tail_and_every_file_stays_readable(self):
        result = self.verdict("noise")
        self.assertIn("line 1999 of a lot of noise", result["output"])
        self.assertNotIn("line 10 of", result["output"])
        import xml.etree.ElementTree as ElementTree
        tree = ElementTree.parse(self.out / "junit.xml")
        self.assertEqual(len(tree.findall(".//failure")), 2, "of the case and of its requirement")
        self.assertIn("plumbline_cases{", (self.out / "metrics.prom").read_text())

    # HARNESS-014@abd8
    def test_a_megabyte_of_any_bytes_leaves_a_record_that_is_text(self):
        result = self.run_checks("faults.garbage*", status=1)["faults.garbage[world=2]"]
        self.assertEqual(result["verdict"], "fail")
        text = (self.out / "run.jsonl").read_bytes().decode("utf-8", errors="strict")
        self.assertLess(len(text), 100_000)
        self.assertNotIn("\\u0000" * 2, text, "a record of zeros says nothing")
        import xml.etree.ElementTree as ElementTree
        self.assertEqual(len(ElementTree.parse(self.out / "junit.xml").findall(".//failure")), 2)

    # ---- lies ----

    # HARNESS-013@d984
    def test_a_claim_that_does_not_hold_is_a_failure_and_never_a_skip(self):
        lie = ["--mutant", "faults.claims_bf16"]
        verdicts = self.verdicts("faults.sums*", options=lie, control=True, status=1)
        self.assertEqual(verdicts, {"faults.sums[dtype=f32,world=2]": "pass", "faults.sums[dtype=bf16,world=2]": "refuse"})
        self.assertEqual([r["verdict"] for r in self.results("control").values()], ["pass"], "the reference keeps the claim")

    # HARNESS-017@27c5
    def test_a_rank_that_reports_twice_has_no_word(self):
        result = self.run_checks("faults.reports_twice*", "faults.z_pass[where=one,world=3]", status=1)["faults.reports_twice[world=2]"]
        self.assertEqual((result["verdict"], self.ranks(result)), ("fail", ["pass", "fail"]))
        self.assertIn("rank 1: it reported twice: pass, then pass", result["reason"])

    # HARNESS-017@27c5
    def test_a_report_of_a_rank_that_a_worker_has_not_is_noted_and_counts_nothing(self):
        self.assertEqual(self.verdicts("faults.reports_another*", status=0), {"faults.reports_another[world=2]": "pass"})
        notes = [line["text"] for line in self.lines() if line["type"] == "note"]
        self.assertEqual(notes, ["a worker reported rank 7, which it has not"])

    # ---- deaths outside a case ----

    # HARNESS-020@05f5
    def test_a_subject_that_dies_at_its_start_ends_the_run_in_one_line(self):
        before = self.verdicts("faults.a_pass[where=one,world=3]", status=0)
        self.run_checks("faults.z_pass*", status=3, environment={"FAULTS_AT_START": "abort"})
        lines = [line for line in self.output.splitlines() if line.startswith("plumbline: ")]
        self.assertEqual(len(lines), 1, self.output)
        self.assertIn("the worker group did not start", lines[0])
        self.assertLess(self.seconds, SOON)
        self.assertEqual({r["verdict"] for r in self.results().values()} - {"pass"}, {"error"}, before)

    # HARNESS-016@319a
    def test_a_subject_that_dies_at_its_exit_has_told_its_verdict(self):
        self.assertEqual(self.verdicts("faults.dies_at_exit*", "faults.z_pass[where=one,world=3]", status=0),
                         {"faults.dies_at_exit[world=2]": "pass", "faults.z_pass[where=one,world=3]": "pass"})

    # ---- time ----

    # HARNESS-009@61db
    def test_calls_move_the_deadline(self):
        result = self.run_checks("faults.slow_but_calls*", options=["--time-limit", "1"], status=0)["faults.slow_but_calls[world=2]"]
        self.assertGreater(result["seconds"], 1.9)

    # HARNESS-009@61db
    def test_progress_without_end_is_a_hang_at_the_hard_limit(self):
        result = self.run_checks("faults.endless_progress*", options=["--time-limit", "0.4"], status=1)["faults.endless_progress[world=2]"]
        self.assertEqual((result["verdict"], result["tries"]), ("hang", ["hang", "hang"]))
        self.assertTrue(2.0 <= result["seconds"] < 3.0, result["seconds"])

    # ---- evidence ----

    # HARNESS-010@06e2
    @unittest.skipUnless(shutil.which("gdb", path=DEBUGGER_PATH), "no debugger here")
    def test_the_stacks_of_a_hang_are_in_the_record(self):
        result = self.run_checks("faults.sleep[where=all,world=3]", options=["--time-limit", "0.5"], status=1,
                                 environment={"PATH": DEBUGGER_PATH})
        self.assertIn("sleep_forever", result["faults.sleep[where=all,world=3]"]["output"])
        self.assertIn("stacks of process", result["faults.sleep[where=all,world=3]"]["output"])

    # HARNESS-010@06e2
    def test_without_a_debugger_the_threads_of_a_hang_print_their_stacks(self):
        result = self.run_checks("faults.sleep[where=all,world=3]", options=["--time-limit", "0.5"],
                                 status=1)["faults.sleep[where=all,world=3]"]
        self.assertNotIn("stacks of process", result["output"])
        for rank in range(3):
            self.assertIn(f"rank {rank} stands here, thread ", result["output"])

    # HARNESS-011@c6ae
    def test_crossed_order_of_two_groups_is_named_even_where_it_gets_through(self):
        result = self.run_checks("faults.crossed_order*", options=["--time-limit", "1"], status=1)["faults.crossed_order[world=2]"]
        self.assertEqual(result["verdict"], "fail" if PROCESSES else "hang", result)
        if PROCESSES:  # a root's message is on its way, and the call returns
            self.assertIn("it got through, but ", result["reason"])
        self.assertRegex(result["reason"], "ranks 0 and 1 " + (
                         "enter blocking collectives of two groups in different orders" if PROCESSES else
                         "wait for each other in two groups") + r": rank 0 broadcast\(f32 x 1, root 0\) #1 on .*, rank 1 broadcast\(f32 x 1, root 1\) #1 on ")

    # ---- second opinions ----

    # HARNESS-004@df2f
    def test_state_that_a_case_leaves_behind_shows_when_it_runs_alone_or_in_another_order(self):
        # har.state_leak: the second passes only where the first was.
        leak = ["faults.leaves_state*", "faults.needs_state*"]
        self.assertEqual(set(self.orders(*leak)), {("pass", "fail"), ("pass", "pass")})
        sound = ["faults.a_pass[*world=1]", "faults.expect[*world=1]", "faults.refuse[*world=1]", "faults.z_pass[*world=1]"]
        self.assertEqual(len(set(self.orders(*sound))), 1)

    def orders(self, *filters):
        """The verdicts by case, in order, alone, and in other orders, of which one has the second case first."""
        found = []
        for options in ([], ["--isolate", "each"], *(["--shuffle", seed] for seed in ("1", "2")[:1 if PROCESSES else 2])):
            shutil.rmtree(self.out, ignore_errors=True)
            verdicts = self.verdicts(*filters, options=options)
            found.append(tuple(verdicts[case] for case in sorted(verdicts)))
        return found

    # HARNESS-006@5e37
    def test_a_crash_in_company_alone_is_a_flake(self):
        result = self.run_checks("faults.leaves_state*", "faults.crashes_in_company*", status=1)["faults.crashes_in_company[world=1]"]
        self.assertEqual((result["verdict"], result["tries"]), ("flake", ["crash", "pass"]))
        self.assertIn("crash, then pass", result["reason"])
        self.assertEqual(self.ranks(result), ["crash"], "the evidence is that of the crash")
        self.assertIn("received signal 11", result["output"])

    # HARNESS-006@5e37
    @unittest.skipIf(PROCESSES, "a hundred starts of mpirun; the rule is the same")
    def test_of_many_crashes_the_first_fifty_are_tried_again(self):
        self.run_checks("faults.segfault[where=all,world=1]", options=["--repeat", "101", "--jobs", "2"], status=1)
        tries = [len(line.get("tries", "x")) for line in self.lines() if line["type"] == "result"]
        self.assertEqual((tries.count(1), tries.count(2)), (101, 50))
        notes = [line["text"] for line in self.lines() if line["type"] == "note"]
        self.assertEqual(notes, ["101 cases are to be tried again; the first 50 are"])

    # HARNESS-006@5e37
    @unittest.skipIf(PROCESSES, "the rule is the same")
    def test_of_many_hangs_the_first_five_are_tried_again(self):
        self.run_checks("faults.sleep[where=all,world=1]", options=["--repeat", "6", "--jobs", "3", "--time-limit", "0.3"], status=1)
        tries = [len(line.get("tries", "x")) for line in self.lines() if line["type"] == "result"]
        self.assertEqual((tries.count(1), tries.count(2)), (6, 5))
        notes = [line["text"] for line in self.lines() if line["type"] == "note"]
        self.assertEqual(notes, ["6 cases that hung are to be tried again; the first 5 are"])
        # A person learns of it before the time is spent once more.
        announced = [line for line in self.output.splitlines() if line.startswith("hang after ")]
        self.assertEqual(len(announced), 3, self.output)
        self.assertIn("--time-limit SECONDS", self.output)
        self.assertIn("--fail-fast ends a run at the first", self.output)

    # HARNESS-007@4bb0
    def test_what_the_reference_fails_too_is_inconclusive(self):
        broken = ["--mutant", "faults.claims_bf16"]  # or the subject would be the reference itself
        case = "faults.expect[where=one,world=1]"
        self.assertEqual(self.verdicts(case, "faults.z_pass[where=one,world=1]", options=broken, control=True, status=3),
                         {case: "inconclusive", "faults.z_pass[where=one,world=1]": "pass"})
        self.assertIn("the reference fails here as well (fail: ", self.results()[case]["reason"])
        self.assertEqual(self.results("control")[case]["verdict"], "fail")
        self.assertEqual(self.verdicts(case, options=broken, status=1), {case: "fail"})

    # ---- expectations ----

    def expecting(self, id, verdict, more="", **how):
        """The verdict and the judgement of the case `id` of which `verdict` is expected."""
        file = Path(self.folder.name) / "expectations.toml"
        file.write_text(f'schema = 1\n[[expect]]\nid = "{id}"\nverdict = "{verdict}"\nreason = "known"\n{more}\n')
        options = ["--expectations", str(file), *how.pop("options", [])]
        result = self.run_checks("faults.leaves_state*", id, options=options, **how)[id]
        return result["verdict"], result["judgement"]

    # HARNESS-019@cc70
    def test_expectations_decide_what_a_result_counts_as(self):
        failing, passing = "faults.expect[where=one,world=1]", "faults.z_pass[where=one,world=1]"
        self.assertEqual(self.expecting(failing, "fail", status=0), ("fail", "expected-fail"))
        self.assertEqual(self.expecting(failing, "crash", status=1), ("fail", "fail"))
        self.assertEqual(self.expecting(passing, "fail", status=1), ("pass", "unexpected-pass"))
        self.assertEqual(self.expecting(passing, "fail", options=["--allow-unexpected-pass"], status=0), ("pass", "unexpected-pass"))
        self.assertEqual(self.expecting("faults.crashes_in_company[world=1]", "flake", status=0), ("flake", "flake"))
        self.assertEqual(self.expecting(failing, "flake", status=1), ("fail", "fail"))
        self.assertEqual(self.results()[failing]["tries"], ["fail"] * 3)

    # HARNESS-019@cc70
    def test_what_is_expected_to_hang_may_be_left_unexecuted(self):
        self.assertEqual(self.expecting("faults.sleep[where=all,world=1]", "skip-run", 'was = "hang"', status=0),
                         ("skip", "expected-fail"))
        self.assertLess(self.seconds, 4)

    # ---- the driver ----

    # HARNESS-021@2afd
    def test_interrupted_run_is_resumed_without_running_anything_twice(self):
        self.interrupt(signal.SIGTERM)

    # HARNESS-001@068b, HARNESS-016@319a
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
        cases = [line["case"] for line in lines if line["type"] == "result" and "tries" not in line]  # but for second tries
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

    # HARNESS-021@2afd
    def test_resume_refuses_another_plan(self):
        self.run_checks("faults.a_pass*", status=0)
        before = (self.out / "run.jsonl").read_bytes()
        self.run_checks("faults.z_pass*", options=["--resume"], status=2)
        self.assertIn("another plan", self.output)
        self.assertEqual((self.out / "run.jsonl").read_bytes(), before)

    # HARNESS-008@af2b
    def test_a_rank_killed_from_outside(self):
        with subprocess.Popen(self.command("faults.sleep[where=one,world=3]", "faults.z_pass[where=one,world=3]", options=["--time-limit", "6"]),
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
        self.run_checks("faults.spoils[where=all,world=3]", options=["--repeat", "3"])
        verdicts = [line["verdict"] for line in self.lines() if line["type"] == "result"]
        self.assertEqual("fail" not in verdicts, PROCESSES, f"threads end with their world: {verdicts}")

    # ---- options ----

    # HARNESS-008@af2b
    def test_everything_at_once_costs_only_what_is_at_fault(self):
        results = self.run_checks("faults.*", options=["--world-size", "3", "--jobs", "2", "--shuffle", "7", "--time-limit", "2"], timeout=300, status=1)
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
            (["--control-address", "nothere"], "control address 'nothere'" if PROCESSES else "ranks are processes"),
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

    # HARNESS-001@068b
    @unittest.skipIf(PROCESSES, "the limit would hit the runtime too; recording is the same for all backends")
    def test_a_full_disk_ends_the_run_in_one_line_and_loses_nothing(self):
        # A limit on the size of files is what a full disk looks like to a process: here after the record's first results.
        self.run_checks("faults.a_pass*", "faults.z_pass*", status=0)
        kilobytes = len("\n".join((self.out / "run.jsonl").read_text().splitlines()[:4])) // 1024 + 1
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

    # HARNESS-023@e6d8
    def test_strangers_on_the_control_channel_are_dropped_and_logged(self):
        with subprocess.Popen(self.command("faults.sleep[where=all,world=1]", "faults.z_pass[where=one,world=1]",
                                           options=["--time-limit", "2"]),
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

    # HARNESS-023@e6d8
    def test_a_stranger_who_does_not_stop_talking_costs_neither_time_nor_memory(self):
        with subprocess.Popen(self.command("faults.sleep[where=all,world=1]", "faults.z_pass[where=one,world=1]",
                                           options=["--time-limit", "2"]),
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
        sleeping = results["faults.sleep[where=all,world=1]"]
        self.assertLess(sleeping["seconds"], sleeping["limit_seconds"] + 10)

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
        deadline = time.time() + 60  # it may be taking stacks, which is slow on a busy machine
        while time.time() < deadline and workers():
            time.sleep(0.05)

    def test_pass(self):
        verdicts = self.run_job(3, "faults.a_pass*", "faults.surroundings*", status=0)
        self.assertEqual(set(verdicts.values()), {"pass"})
        self.assertEqual(len(verdicts), 8)
        self.assertIn("8 pass", self.output)

    def test_there_is_one_group_so_several_jobs_are_refused(self):
        self.run_job(2, "faults.a_pass*", options=["--jobs", "2"], status=2)
        self.assertIn("--jobs 2: the ranks that you started are one group", self.output)

    def test_resume_of_a_finished_run_ends_at_once_on_all_ranks(self):
        self.run_job(2, "faults.a_pass*", status=0)
        self.run_job(2, "faults.a_pass*", options=["--resume"], status=0, timeout=30)

    def test_resume_refuses_another_plan_as_it_does_outside(self):
        self.run_job(2, "faults.a_pass*", status=0)
        self.run_job(2, "faults.z_pass*", options=["--resume"], status=2, timeout=30)
        self.assertIn("another plan", self.output)

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
        for folder in (SCRATCH, PROGRAMS):
            shutil.rmtree(folder, ignore_errors=True)
