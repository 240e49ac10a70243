"""Each fault of faults.c is found by the requirement that names it, and costs verdicts only: the run goes on and ends.

usage: faults_test.py PLUMBLINE FOLDER_OF_PLUGINS [unittest arguments]
"""
import json, re, shutil, subprocess, sys, tempfile, time, unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PLUMBLINE = str(Path(sys.argv[1]).resolve())
PLUGINS = Path(sys.argv[2]).resolve()
SOURCE = (Path(__file__).resolve().parent / "faults.c").read_text()
AT_ONCE = 6  # most of the time of a run is waiting

# fault: what it is, the requirement that finds it, the verdict, and the number of ranks at which it shows.
FAULTS = {
    "wrong_sum": ("the last byte of an all_reduce is off by one bit", "COLL-001", "fail", 2),
    "drops_the_last_element": ("all_reduce leaves the last element as it was", "COLL-001", "fail", 2),
    "product_is_sum": ("products are sums", "COLL-001", "fail", 2),
    "max_is_min": ("max is min", "COLL-001", "fail", 2),
    "crashes": ("reduce calls abort()", "COLL-002", "crash", 2),
    "average_is_sum": ("averages are not divided", "COLL-010", "fail", 2),
    "adds_in_reverse": ("all_reduce adds from the last rank to the first", "COLL-015", "fail", 3),
    "wrong_root": ("the root's successor is taken for the root", "COLL-016", "fail", 2),
    "swaps_ranks": ("all_gather exchanges the blocks of ranks 0 and 1", "COLL-017", "fail", 2),
    "throws": ("all_gather throws a C++ exception", "COLL-017", "fail", 2),
    "exits": ("gather calls exit(0)", "COLL-018", "crash", 2),
    "hangs": ("scatter does not return", "COLL-019", "hang", 2),
    "returns_unknown_status": ("all_to_all returns 99", "COLL-020", "fail", 2),
    "in_place_is_wrong": ("a result in place is off by one bit", "COLL-022", "fail", 2),
    "overwrites_input": ("a call changes its input", "COLL-023", "fail", 2),
    "writes_past_the_end": ("broadcast writes a byte after its buffer", "COLL-024", "fail", 2),
    "rejects_zero": ("a count of 0 is an invalid argument", "COLL-027", "fail", 2),
    "lacks_a_claimed_dtype": ("i64 is claimed and unsupported", "COLL-030", "fail", 2),
    "creates_no_group": ("create_group succeeds without a group", "COLL-031", "fail", 3),
    "sorts_the_ranks_of_groups": ("a group is in ascending order of world ranks", "COLL-032", "fail", 2),
    "roots_are_world_ranks": ("roots in a group are ranks of the world", "COLL-033", "fail", 4),
    "equal_lists_share_a_group": ("groups of one list are one group", "COLL-035", "fail", 2),
    "start_blocks": ("start waits for the other members", "COLL-037", "hang", 2),
    "start_returns_no_work": ("start succeeds without a work", "COLL-038", "fail", 2),
    "wait_returns_at_once": ("wait returns before the call is complete", "COLL-038", "fail", 2),
    "test_is_never_true": ("test never reports completion", "COLL-039", "fail", 2),
    "test_is_true_at_once": ("test reports completion before it", "COLL-039", "fail", 2),
    "wait_throws": ("wait throws a C++ exception", "COLL-040", "fail", 2),
    "starts_a_batch_in_reverse": ("calls of a batch take effect in reverse", "COLL-044", "fail", 2),
    "ignores_tags": ("all messages have one tag", "COLL-045", "fail", 2),
    "rejects_messages_to_itself": ("a rank cannot send to itself", "COLL-047", "refuse", 2),
    "empty_messages_are_none": ("an empty receive completes before the send", "COLL-048", "fail", 2),
    "barrier_returns_at_once": ("a barrier does not wait", "COLL-049", "fail", 2),
    "hangs_in_destroy_group": ("destroy_group does not return", "COLL-049", "hang", 2),
    "crashes_in_destroy_group": ("destroy_group calls abort()", "COLL-049", "crash", 2),
    "exits_in_destroy_group": ("destroy_group calls exit(0)", "COLL-049", "crash", 2),
    "wait_overruns_its_limit": ("wait returns 4 s after its limit", "COLL-050", "fail", 2),
    "wait_ends_before_its_limit": ("wait gives up at a quarter of its limit", "COLL-050", "fail", 2),
    "times_out_as_a_failure": ("a timeout is reported as a failure", "COLL-050", "fail", 2),
    "blames_all_others": ("a timeout names members that have arrived", "COLL-052", "fail", 3),
    "succeeds_after_a_failure": ("calls on a failed group succeed", "COLL-053", "fail", 2),
    "fails_other_groups_too": ("a timeout fails all groups", "COLL-053", "fail", 2),
    "gives_up_slow_members": ("a call without a limit times out", "COLL-054", "fail", 2),
    "repeats_the_last_result": ("a call on the buffers of the last one has its result", "COLL-064", "fail", 2),
    "uneven_blocks_begin_late": ("the blocks of an all_gather_v begin an element late", "COLL-100", "fail", 2),
    "uneven_max_is_min": ("max of a reduce_scatter_v is min", "COLL-101", "fail", 2),
    "loses_the_last_block": ("the last block of an all_to_all_v is zero", "COLL-102", "fail", 2),
    "uneven_input_is_scratch": ("a reduce_scatter_v in place clears the blocks before its own", "COLL-103", "fail", 2),
    "ignores_uneven_limits": ("an all_to_all_v has no time limit", "COLL-106", "hang", 2),
    "ignores_factors": ("inputs are not multiplied before they are added", "COLL-111", "fail", 2),
    "factors_are_integers": ("factors lose their fractions", "COLL-112", "fail", 2),
    "ignores_strides_of_inputs": ("an input in rows is read as if it had no gaps", "COLL-130", "fail", 3),
    "names_nobody_who_ended": ("the error after a rank was killed names no rank", "COLL-115", "fail", 3),
    "shrunk_groups_begin_elsewhere": ("ranks of a shrunk group are those of their neighbours", "COLL-116", "fail", 3),
    "shrunk_groups_keep_the_id": ("a shrunk group receives what was sent to the old one", "COLL-117", "fail", 3),
    "shrinks_once": ("a shrunk group cannot be shrunk", "COLL-118", "fail", 4),
    "sends_from_the_beginning": ("input in registered memory is read from its beginning", "COLL-140", "fail", 3),
    "ends_all_registrations": ("ending a registration ends all", "COLL-143", "fail", 3),
    "deregisters_anything": ("deregister_memory takes any value", "COLL-144", "fail", 3),
    "leaves_copies_of_registered": ("a registration leaves a copy of the memory", "COLL-145", "fail", 2),
    "newcomers_come_first": ("the last newcomer is the first member of a grown group", "COLL-150", "fail", 3),
    "growing_ends_the_old": ("a group that has grown fails", "COLL-151", "fail", 2),
    "shrunk_groups_do_not_grow": ("a shrunk group cannot grow", "COLL-152", "fail", 4),
    "multiplies_by_parts": ("products of c64 multiply real parts and imaginary parts", "COLL-122", "fail", 2),
    "moves_half_of_c128": ("all_gather moves half of each c128", "COLL-120", "fail", 2),
    "loses_imaginary_parts": ("sums of c128 have no imaginary part", "COLL-121", "fail", 2),
    "leaks_a_buffer": ("each call leaks 64 bytes", "COLL-065", "fail", 2),
}
# What happens before the first check ends the run with one line.
AT_START = {
    "crashes_in_open": "was killed by signal 6 (Aborted)",
    "exits_in_open": "exited with status 0",
    "throws_in_open": "open of 'unix_sockets': threw a C++ exception through the C interface",
    "open_returns_unknown_status": "returned status -7, which plumbline_backend.h does not have",
    "open_overflows_its_message": "open of 'unix_sockets': xxx",
}
# The driver gives a start 60 s; too long for a test. By hand it is "the worker group did not start: not ready after 60 s".
TOO_LONG = {"hangs_in_open"}
# After the last verdict nothing is left to be judged: Plumbline ends the processes.
AT_END = {"crashes_in_close", "hangs_in_close"}


def check(plugin, out, *options, limit=20):
    command = [PLUMBLINE, "check", "--backend", f"plugin:{plugin}", "--plain", "--no-control", "--time-limit", str(limit), "--out", out,
               *options]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)


def results(out):
    """(verdict, requirements) of each result."""
    lines = [json.loads(line) for line in (Path(out) / "run.jsonl").read_text().splitlines()]
    return [(line["verdict"], line["requirements"]) for line in lines if line["type"] == "result"]


class Faults(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def in_parallel(self, function, rows):
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for row, problem in zip(rows, pool.map(function, rows)):
                with self.subTest(row=row):
                    self.assertEqual(problem, "")

    def test_each_is_found_by_the_requirement_that_names_it(self):
        def problem_of(fault):
            _, requirement, verdict, ranks = FAULTS[fault]
            out = str(self.folder / fault)
            begin = time.monotonic()
            done = check(PLUGINS / "libplugin_faults.so", out, "--backend-option", f"fault={fault}", "--filter", requirement, "--fail-fast",
                         "--world-size", str(ranks), limit=2 if verdict == "hang" else 20)
            print(f"{fault:30} {requirement} {verdict:6} {time.monotonic() - begin:5.1f} s")
            found = [requirements for how, requirements in results(out) if how == verdict]
            return "" if done.returncode == 1 and any(requirement in one for one in found) else done.stdout

        # Those that wait come first, so that the others run beside them.
        self.in_parallel(problem_of, sorted(FAULTS, key=lambda fault: FAULTS[fault][2] != "hang"))

    def test_claims_that_do_not_hold_are_found(self):
        out = str(self.folder / "claims")
        done = check(PLUGINS / "libplugin_overclaims.so", out, "--filter", "COLL-057", "--world-size", "2")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual({verdict for verdict, _ in results(out)}, {"fail"}, done.stdout)

    def test_a_crash_costs_one_verdict(self):
        out = str(self.folder / "crash")
        done = check(PLUGINS / "libplugin_faults.so", out, "--backend-option", "fault=exits", "--world-size", "2", "--filter", "COLL-018",
                     "--filter", "COLL-016", "--filter", "COLL-049")
        self.assertEqual(done.returncode, 1, done.stdout)
        verdicts = {one: verdict for verdict, requirements in results(out) for one in requirements}
        self.assertEqual(verdicts["COLL-018"], "crash")
        self.assertEqual((verdicts["COLL-016"], verdicts["COLL-049"]), ("pass", "pass"))

    def test_what_fails_at_the_start_ends_the_run_in_one_line(self):
        def problem_of(fault):
            done = check(PLUGINS / "libplugin_faults.so", str(self.folder / fault), "--backend-option", f"fault={fault}", "--filter", "COLL-049",
                         "--world-size", "2")
            said = [line for line in done.stdout.splitlines() if line.startswith("plumbline: ")]
            return "" if done.returncode == 3 and len(said) == 1 and AT_START[fault] in said[0] else done.stdout

        self.in_parallel(problem_of, list(AT_START))

    def test_libraries_that_are_no_plugins_are_rejected_in_one_line(self):
        for name, status, words in [("libplugin_other_version.so", 3, "it has interface version 7, and this program has 1"),
                                    ("libplugin_small_struct.so", 3, "its struct has 64 bytes"),
                                    ("libplugin_no_symbol.so", 3, "does not export plumbline_backend_get()"),
                                    ("nowhere.so", 2, "is not a file")]:
            with self.subTest(library=name):
                done = check(PLUGINS / name, str(self.folder / name), "--filter", "COLL-049", "--world-size", "2")
                said = [line for line in done.stdout.splitlines() if line.startswith("plumbline: ")]
                self.assertEqual((done.returncode, len(said)), (status, 1), done.stdout)
                self.assertIn(words, said[0])

    def test_what_happens_in_close_costs_nothing(self):
        for fault in AT_END:
            done = check(PLUGINS / "libplugin_faults.so", str(self.folder / fault), "--backend-option", f"fault={fault}", "--filter", "COLL-049",
                         "--world-size", "2")
            self.assertEqual(done.returncode, 0, done.stdout)

    # The sample has no f16 and no bf16. Other profiles ask about these beside others.
    def test_what_the_sample_does_not_claim_is_no_fault_of_it(self):
        out = str(self.folder / "sample")
        asked = [word for one in ("SCHED-054", "SCHED-055", "SCHED-057", "SLOWMO-036", "BUCKET-106") for word in ("--filter", one)]
        done = check(PLUGINS / "libunix_sockets.so", out, "--profile", "full", *asked, "--world-size", "3")
        self.assertEqual(done.returncode, 0, done.stdout)
        found = {requirement: {how for how, names in results(out) if requirement in names} for requirement in asked[1::2]}
        self.assertEqual([verdicts for verdicts in found.values() if "pass" not in verdicts], [], done.stdout)

    def test_every_fault_has_a_row(self):
        self.assertEqual(sorted(set(re.findall(r'is\("(\w+)"\)', SOURCE))), sorted([*FAULTS, *AT_START, *AT_END, *TOO_LONG]))

    def test_the_record_and_the_line_that_repeats_have_the_name_as_given(self):
        (self.folder / "libacme.so").symlink_to(PLUGINS / "libplugin_faults.so")
        command = [PLUMBLINE, "check", "--backend", "plugin:./libacme.so", "--backend-option", "fault=wrong_sum", "--filter", "COLL-001",
                   "--world-size", "2", "--plain", "--no-control", "--fail-fast"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.folder, timeout=300)
        self.assertEqual(done.returncode, 1, done.stdout)
        program = "plumbline" if shutil.which("plumbline") == PLUMBLINE else PLUMBLINE
        self.assertIn(f"repeat: {program} check --backend plugin:./libacme.so --backend-option fault=wrong_sum", done.stdout)
        lines = (self.folder / "results/latest/check-plugin-libacme/run.jsonl").read_text().splitlines()
        self.assertEqual(json.loads(lines[0])["facts"]["backend"], "plugin:./libacme.so")
        self.assertIn(str(self.folder.resolve() / "libacme.so"), "".join(lines))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
