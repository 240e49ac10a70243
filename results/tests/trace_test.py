"""trace check: real dumps of right and wrong programs, made-up ones of what gloo does not record, and broken files.

    python3 trace_test.py [unittest arguments]    the real ones where the Python has PyTorch with gloo and its flight recorder

The tests of the build have the right programs and five wrong ones, Real; `trace_test.py Whole` has the others, which take minutes.
"""

import contextlib
import gzip
import importlib.util
import io
import json
import os
import pickle
import shutil
import struct
import sys
import tempfile
import time
import unittest
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))
import trace_programs as programs
from plumbline_results import __main__ as commands
from plumbline_results.trace import folder, limits

HAS_TORCH = importlib.util.find_spec("torch") is not None


def call(op, seq, record, group="0", counts=(8, 8), dtype="Float", done=True, at=0, backend="nccl", **other):
    """An entry as version 2.x writes it."""
    entry = {
        "record_id": record, "pg_id": 0, "process_group": [group, "default_pg" if group == "0" else "undefined"],
        "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq, "profiling_name": f"{backend}:{op}",
        "time_created_ns": 1_700_000_000_000_000_000 + at, "input_sizes": [[counts[0]]] if counts[0] else [],
        "input_dtypes": [dtype] if counts[0] else [], "output_sizes": [[counts[1]]] if counts[1] else [],
        "output_dtypes": [dtype] if counts[1] else [], "state": "completed" if done else "started", "retired": done,
        "is_p2p": False, "frames": [{"filename": "train.py", "line": 10 + seq, "name": "step"}],
    }
    entry.update(other)
    return entry


def message(op, source, target, number, record, count=8, **other):
    name = f"send {source}->{target}" if op == "send" else f"recv {target}<-{source}"
    counts = (count, 0) if op == "send" else (0, count)
    return call(name, 0, record, counts=counts, is_p2p=True, p2p_seq_id=number, **other)


def dump(entries, ranks="[0, 1]", **other):
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}} if ranks else {}
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries, **other}


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def leave(self, *dumps, first=0):
        for rank, one in enumerate(dumps, first):
            (self.folder / f"rank_{rank}.json").write_text(json.dumps(one))

    def run_check(self, *words, folder=None):
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = commands.main(["trace", "check", str(folder or self.folder), *words])
        out.flush()
        return status, out.buffer.getvalue().decode(), err.getvalue()

    def findings(self, *words, folder=None):
        status, out, err = self.run_check("--format", "json", *words, folder=folder)
        self.assertIn(status, (0, 1), err)
        found = json.loads(out)["findings"]
        self.assertEqual(status, 1 if found else 0)
        return found

    def only(self, kind, ranks, *words, folder=None):
        """The one cause, or the first of several, which must be this one."""
        found = self.findings(*words, folder=folder)
        self.assertTrue(found, "no finding")
        self.assertEqual((found[0]["kind"], found[0]["ranks"]), (kind, ranks), found)
        self.assertEqual([one["kind"] for one in found if one["is_cause"]], [kind], found)
        return found[0]

    def rejected(self, *parts, words=()):
        status, out, err = self.run_check(*words)
        self.assertEqual((status, out), (2, ""), err)
        self.assertEqual(err.count("\n"), 1, err)
        for part in parts:
            self.assertIn(part, err)


class Made(InFolder):
    """Dumps in NCCL's form, by hand: they have messages and the ranks of groups, which gloo's lack."""

    def test_same_calls_are_sound(self):
        calls = [call("all_reduce", 1, 0), call("_all_gather_base", 2, 1, counts=(8, 16)), call("_reduce_scatter_base", 3, 2, counts=(16, 8))]
        self.leave(dump(calls), dump(calls))
        self.assertEqual(self.findings(), [])

    def test_recorder_that_kept_nothing(self):
        """As PyTorch writes it: without entries."""
        empty = {"version": "2.10", "pg_config": {"": {"name": "", "desc": "", "ranks": "[0, 1]"}}, "pg_status": {}}
        self.leave(empty, empty)
        status, out, _ = self.run_check()
        self.assertEqual(status, 0)
        self.assertIn("TORCH_FR_BUFFER_SIZE", out)

    def test_completed_before_the_watchdog_saw_it(self):
        calls = [call("all_reduce", 1, 0, retired=False)]
        self.leave(dump(calls), dump(calls))
        self.assertEqual(self.findings(), [])
        calls = [call("all_reduce", 1, 0, done=False)]
        self.leave(dump(calls), dump(calls))
        self.only("stuck", [0, 1])

    def test_shapes_of_one_count_are_the_same(self):
        self.leave(dump([call("all_reduce", 1, 0, input_sizes=[[2, 4]])]), dump([call("all_reduce", 1, 0)]))
        self.assertEqual(self.findings(), [])

    def test_gather_of_another_size_than_the_group(self):
        calls = [call("_all_gather_base", 1, 0, counts=(8, 24))]
        self.leave(dump(calls), dump(calls))
        found = self.only("sizes", [0, 1])
        self.assertIn("16 elements out", found["expected"])

    def test_scatter_of_another_size_than_the_group(self):
        calls = [call("_reduce_scatter_base", 1, 0, counts=(8, 8))]
        self.leave(dump(calls), dump(calls))
        self.assertIn("16 elements in", self.only("sizes", [0, 1])["expected"])

    def test_gather_and_scatter_as_nccl_records_them(self):
        """Who is not the root has an undefined tensor of no elements in the place of the list."""
        for op, mine, theirs in (("gather", {"counts": (8, 16)}, {"output_sizes": [[0]], "output_dtypes": ["Undefined"]}),
                                 ("scatter", {"counts": (16, 8)}, {"input_sizes": [[0]], "input_dtypes": ["Undefined"]})):
            self.leave(dump([call(op, 1, 0, **mine)]), dump([call(op, 1, 0, **theirs)]))
            self.assertEqual(self.findings(), [], op)
            self.leave(dump([call(op, 1, 0, **mine)]), dump([call(op, 1, 0, dtype="Half", **theirs)]))
            self.only("dtype", [0, 1])

    def test_two_ranks_have_no_majority(self):
        self.leave(dump([call("all_reduce", 1, 0)]), dump([call("all_reduce", 1, 0, counts=(9, 9))]))
        found = self.only("size", [0, 1])
        self.assertEqual(found["expected"], "")
        self.assertRegex(found["got"], "8 in, 8 out on rank 0; .*9 in, 9 out on rank 1$")

    def test_as_many_of_one_opinion_as_of_another_are_both_named(self):
        self.leave(*(dump([call("all_reduce", 1, 0, counts=(count, count))], ranks="[0, 1, 2, 3]") for count in (8, 8, 9, 9)))
        found = self.only("size", [0, 1, 2, 3])
        self.assertEqual(found["expected"], "")
        self.assertRegex(found["got"], "8 in, 8 out on ranks 0, 1; .*9 in, 9 out on ranks 2, 3$")

    def test_messages_that_match(self):
        self.leave(dump([message("send", 0, 1, 1, 0), message("recv", 1, 0, 2, 1)]),
                   dump([message("recv", 0, 1, 1, 0), message("send", 1, 0, 2, 1)]))
        self.assertEqual(self.findings(), [])

    def test_send_without_recv(self):
        self.leave(dump([message("send", 0, 1, 1, 0), message("send", 0, 1, 2, 1, done=False)]), dump([message("recv", 0, 1, 1, 0)]))
        found = self.only("message", [1])
        self.assertEqual((found["seq"], found["waiting"]), (2, [0]))

    def test_recv_without_send(self):
        self.leave(dump([]), dump([message("recv", 0, 1, 1, 0, done=False)]))
        self.assertIn("no send", self.only("message", [0])["text"])

    def test_message_of_another_size(self):
        self.leave(dump([message("send", 0, 1, 1, 0)]), dump([message("recv", 0, 1, 1, 0, count=7)]))
        self.only("size", [0, 1])

    def test_messages_name_ranks_of_the_group(self):
        """Group 7 has ranks 2 and 3: its rank 0 is the world's rank 2."""
        config = {"7": {"name": "7", "desc": "pp", "ranks": "[2, 3]"}}
        sound = dump([], ranks="")
        mine = dump([message("send", 0, 1, 1, 0, group="7", done=False)], ranks="", pg_config=config)
        self.leave(sound, sound, mine, dump([], ranks="", pg_config=config))
        self.only("message", [3])

    def test_wrapped_messages_are_not_misjudged(self):
        """Of the receiver the first 90 are lost, of the sender none."""
        self.leave(dump([message("send", 0, 1, n + 1, n) for n in range(100)]),
                   dump([message("recv", 0, 1, n + 1, n) for n in range(90, 100)]))
        self.assertEqual(self.findings(), [])

    def test_wrapped_buffers_are_aligned_by_number(self):
        self.leave(dump([call("all_reduce", n, n - 1, counts=(n, n)) for n in range(1, 101)]),
                   dump([call("all_reduce", n, n - 1, counts=(n, n)) for n in range(91, 101)]))
        self.assertEqual(self.findings(), [])

    def test_group_whose_entries_were_all_overwritten(self):
        """The status has a number of each process's own: only an entry tells whose it is."""
        config = {name: {"name": name, "desc": "default_pg" if name == "0" else "tp", "ranks": "[0, 1]"} for name in "03"}
        rest = [call("all_reduce", n, 100 + n) for n in range(1, 4)]
        mine = dump([call("all_reduce", 5, 0, group="3", done=False)] + rest, pg_config=config)
        for number in "3", "1":
            self.leave(mine, dump(rest, pg_config=config, pg_status={number: {"last_enqueued_collective": 4}}))
            self.assertEqual(self.findings(), [])
        kept = [message("send", 1, 0, 1, 100, group="3", pg_id=1)] + rest
        mine["entries"].append(message("recv", 1, 0, 1, 104, group="3"))
        self.leave(mine, dump(kept, pg_config=config, pg_status={"1": {"last_enqueued_collective": 5}}))
        self.assertEqual(self.findings(), [])
        self.leave(mine, dump(kept, pg_config=config, pg_status={"1": {"last_enqueued_collective": 4}}))
        self.only("missing", [1])

    def test_groups_that_share_a_name(self):
        """Of a mesh, the groups that a process is not in take no name there."""
        groups = [{"1": {"name": "1", "desc": "mesh_dp", "ranks": ranks}} for ranks in ("[0, 1]", "[2, 3]")]
        one, other = [call("all_reduce", 1, 0, group="1")], [call("broadcast", 1, 0, group="1", counts=(4, 4))]
        self.leave(*(dump(calls, "", pg_config=config) for calls, config in zip((one, one, other, other), (*groups[:1] * 2, *groups[1:] * 2))))
        self.assertEqual(self.findings(), [])
        waits = one + [call("all_reduce", 2, 1, group="1", done=False)]
        self.leave(*(dump(calls, "", pg_config=config) for calls, config in zip((waits, one, one, one), (*groups[:1] * 2, *groups[1:] * 2))))
        found = self.only("missing", [1])
        self.assertEqual((found["waiting"], found["group_description"]), ([0], "mesh_dp"))

    def test_what_was_completed_is_lacking_nowhere(self):
        """Rank 1 dumped earlier. A broadcast may end on its root alone, and what gloo calls completed may have failed."""
        calls = [call("all_reduce", n, n - 1) for n in range(1, 6)]
        self.leave(dump(calls), dump(calls[:-1]))
        self.assertEqual(self.findings(), [])
        self.assertIn("rank 1: its dump is older", self.run_check()[1])
        calls[-1] = call("broadcast", 5, 4)
        self.leave(dump(calls), dump(calls[:-1]))
        self.only("missing", [1])
        calls[-1] = call("all_reduce", 5, 4, backend="gloo")
        self.leave(dump(calls), dump(calls[:-1]))
        self.only("missing", [1])

    TP = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}, "1": {"name": "1", "desc": "tp", "ranks": "[1, 2]"}}

    def test_message_to_a_rank_that_is_held_up(self):
        """Rank 2 never enters tp, rank 1 waits there, and so does not come to the recv for rank 0."""
        first = call("all_reduce", 1, 0)
        for is_done in False, True:
            self.leave(dump([first, message("send", 0, 1, 1, 1, done=is_done)], pg_config=self.TP),
                       dump([first, call("all_reduce", 1, 1, group="1", done=False)], pg_config=self.TP), dump([first], pg_config=self.TP))
            self.only("missing", [2])
            self.assertEqual([(one["kind"], one["ranks"], one["is_cause"]) for one in self.findings()[1:]], [("message", [1], False)])

    def test_message_that_holds_up_a_collective(self):
        """Rank 0 waits for a send of rank 1, which has ended, and rank 2 for rank 0."""
        config = {**self.TP, "1": {"name": "1", "desc": "tp", "ranks": "[0, 2]"}}
        self.leave(dump([message("recv", 1, 0, 1, 0, done=False)], pg_config=config), dump([], pg_config=config),
                   dump([call("all_reduce", 1, 0, group="1", done=False)], pg_config=config))
        self.only("message", [1])

    def test_message_crossed_with_a_collective(self):
        """Rank 0 sends before the collective, rank 1 enters the collective before it receives."""
        self.leave(dump([message("send", 0, 1, 1, 0, done=False)]), dump([call("all_reduce", 1, 0, done=False)]))
        found = self.only("crossed", [0, 1])
        self.assertIn("rank 0 in send #1", found["text"])

    def test_messages_both_ways_without_the_other_side(self):
        self.leave(dump([message("recv", 1, 0, 1, 0, done=False)]), dump([message("recv", 0, 1, 1, 0, done=False)]))
        self.assertEqual([(one["kind"], one["is_cause"]) for one in self.findings()], [("message", True)] * 2)

    def test_wrapped_messages_are_compared_where_both_are_kept(self):
        """Send 60 is on its way already, recv 60 stands behind a collective that rank 2 never enters."""
        sent = [message("send", 0, 1, n, n) for n in range(51, 61)]
        received = [message("recv", 0, 1, n, n) for n in range(51, 60)]
        held = [call("all_reduce", 1, 60, group="1", done=False), message("recv", 0, 1, 60, 61, done=False)]
        self.leave(dump(sent, pg_config=self.TP), dump(received + held, pg_config=self.TP), dump([], pg_config=self.TP))
        self.only("missing", [2])
        self.leave(dump(sent[:-1]), dump(received + held[1:]))
        self.assertEqual(self.only("message", [0])["seq"], 60)

    def test_coalesced_calls_share_a_number(self):
        calls = [call("all_reduce", 1, 0), call("all_reduce", 1, 1, counts=(9, 9)), call("coalesced", 1, 2, counts=(0, 0))]
        self.leave(dump(calls), dump(calls))
        self.assertEqual(self.findings(), [])
        self.leave(dump(calls), dump([calls[0], calls[0], calls[2]]))
        self.only("size", [0, 1])

    def test_crossed_groups_among_three(self):
        """0 waits in x for 1, 1 in y for 2, 2 in z for 0: a cycle of three."""
        config = {name: {"name": name, "desc": "", "ranks": ranks} for name, ranks in
                  (("x", "[0, 1]"), ("y", "[1, 2]"), ("z", "[0, 2]"))}
        self.leave(*(dump([call("all_reduce", 1, 0, group=name, done=False)], pg_config=config) for name in "xyz"))
        found = self.only("crossed", [0, 1, 2])
        self.assertIn("rank 2 in group z", found["text"])

    def test_cause_at_the_end_of_a_chain(self):
        """3 ended; 2 waits for 3 in the world, 1 for 2 in y, 0 for 1 in x."""
        config = {name: {"name": name, "desc": "", "ranks": ranks} for name, ranks in
                  (("w", "[2, 3]"), ("x", "[0, 1]"), ("y", "[1, 2]"))}
        self.leave(*(dump([call("all_reduce", 1, 0, group=name, done=False)], pg_config=config) for name in "xyw"),
                   dump([], pg_config=config))
        found = self.only("missing", [3])
        self.assertEqual(found["waiting"], [2])

    def test_rank_without_a_dump(self):
        calls = [call("all_reduce", 1, 0), call("all_reduce", 2, 1, done=False)]
        one = dump(calls, ranks="[0, 1, 2]")
        self.leave(one, one)
        found = self.only("no-dump", [2])
        self.assertEqual((found["waiting"], found["since_ns"] > 0), ([0, 1], True))

    def test_text_and_markdown_have_the_same_findings(self):
        elsewhere = [{"filename": "other.py", "line": 7, "name": "step"}]
        self.leave(dump([call("all_reduce", 1, 0)]), dump([call("all_reduce", 1, 0, dtype="Half", frames=elsewhere)]))
        for form in "text", "md":
            status, out, _ = self.run_check("--format", form)
            self.assertEqual(status, 1)
            for part in "dtype", "Half", "train.py:11 step", "other.py:7 step":
                self.assertIn(part, out)

    def test_names_steer_no_terminal_and_no_table(self):
        self.leave(dump([call("all_reduce", 1, 0)]), dump([call("all_reduce", 1, 0, dtype="\x1b[31m|a")]))
        self.assertNotIn("\x1b", self.run_check()[1])
        self.assertIn("\\|a", self.run_check("--format", "md")[1])

    def test_committed_dumps(self):
        for folder, kind, ranks in (("sound", "", []), ("skipped", "skipped", [2]), ("crossed", "crossed", [0, 1])):
            with self.subTest(folder):
                found = self.findings(folder=HERE / "trace" / folder)
                self.assertEqual([(one["kind"], one["ranks"]) for one in found], [(kind, ranks)] if kind else [])

    def test_many_entries_take_seconds(self):
        calls = [call("all_reduce", n, n - 1, counts=(n % 97 + 1,) * 2) for n in range(1, 10001)]
        for rank in range(8):
            mine = calls if rank != 5 else calls[:7000] + [
                {**one, "collective_seq_id": one["collective_seq_id"] - 1} for one in calls[7001:]]
            (self.folder / f"rank_{rank}").write_bytes(pickle.dumps(dump(mine, ranks=str(list(range(8))))))
        begin = time.monotonic()
        found = self.only("skipped", [5])
        self.assertEqual(found["seq"], 7001)
        self.assertLess(time.monotonic() - begin, 60)


class Rejected(InFolder):
    def setUp(self):
        super().setUp()
        self.leave(dump([call("all_reduce", 1, 0)]))

    def file(self, content, name="rank_1"):
        (self.folder / name).write_bytes(content)

    def test_no_folder(self):
        shutil.rmtree(self.folder)
        self.rejected("no such folder")

    def test_folder_without_dumps(self):
        (self.folder / "rank_0.json").unlink()
        self.rejected("no dump")

    def test_prefix_of_no_file(self):
        self.rejected("'other'", words=("--prefix", "other"))

    def test_empty_file(self):
        self.file(b"")
        self.rejected("rank_1", "empty")

    def test_truncated_pickle(self):
        whole = pickle.dumps(dump([call("all_reduce", 1, 0)]))
        for length in (1, 2, 20, len(whole) // 2, len(whole) - 1):
            self.file(whole[:length])
            self.rejected("rank_1")

    def test_truncated_json(self):
        whole = json.dumps(dump([call("all_reduce", 1, 0)])).encode()
        self.file(whole[:-5], "rank_1.json")
        self.rejected("rank_1.json", "ends early")

    def test_truncated_gzip(self):
        self.file(gzip.compress(json.dumps(dump([call("all_reduce", 1, 0)])).encode())[:-20], "rank_1.json.gz")
        self.rejected("rank_1.json.gz", "gzip")

    def test_other_version(self):
        self.file(pickle.dumps(dump([], version="3.0")))
        self.rejected("version 3.0", "2.x")

    def test_two_files_of_a_rank(self):
        self.file(pickle.dumps(dump([])), "rank_0")
        self.rejected("second dump of rank 0")

    def test_name_without_rank(self):
        self.file(pickle.dumps(dump([])), "rank")
        self.rejected("no rank")

    def test_entry_without_a_field(self):
        entry = call("all_reduce", 1, 0)
        del entry["input_sizes"]
        self.file(pickle.dumps(dump([entry])))
        self.rejected("entry 0 of 1", "input_sizes")

    def test_fields_of_another_form(self):
        for field, value in (("input_sizes", [["x"]]), ("input_sizes", 3), ("collective_seq_id", "1"), ("time_created_ns", -1),
                             ("process_group", None), ("record_id", 1 << 70), ("input_sizes", [[-3]])):
            with self.subTest(field, value=value):
                self.file(pickle.dumps(dump([call("all_reduce", 1, 0, **{field: value})])))
                self.rejected("rank_1", "entry 0")

    def test_what_is_no_dump(self):
        for content in (pickle.dumps([1]), pickle.dumps({"entries": 1, "version": "2.1"}), b"garbage", pickle.dumps({"version": "2.1", "entries": {}})):
            self.file(content)
            self.rejected("rank_1")

    def test_hostile_pickles(self):
        class Runs:
            def __reduce__(self):
                return os.system, (f"touch {Path(tempfile.gettempdir()) / 'plumbline-trace-ran'}",)

        ran = Path(tempfile.gettempdir()) / "plumbline-trace-ran"
        ran.unlink(missing_ok=True)
        for protocol in (0, 2, 4):
            self.file(b"\x80" + pickle.dumps(Runs(), protocol)[1 if protocol else 0:])
            self.rejected("rank_1")
        self.file(pickle.dumps(Runs()))
        self.rejected("only dicts, lists")
        self.assertFalse(ran.exists())
        self.file(b"\x80\x04" + b"N" + b"r\xff\xff\xff\x7f" + b".")  # a memo of 2**31 places
        self.rejected("rank_1")

    def spliced(self, blob, **fields):
        """A dump whose field MARKER is what these opcodes leave on the stack."""
        whole = pickle.dumps(dump([call("all_reduce", 1, 0, **fields)], **({"version": "MARKER"} if not fields else {})), 2)
        marker = b"X\x06\x00\x00\x00MARKER"
        at = whole.index(marker) + len(marker)
        self.file(whole[:at - len(marker)] + blob + whole[at + (2 if whole[at:at + 1] == b"q" else 0):])

    def test_texts_that_are_none(self):
        """A hundred bytes that stand for 2^34 lists, and lists in lists: neither is made a text."""
        twice = b"]r\xe8\x03\x00\x000" + b"".join(
            b"]r" + struct.pack("<I", 1001 + n) + b"(" + 2 * (b"j" + struct.pack("<I", 1000 + n)) + b"e0" for n in range(34)) + b"j" + struct.pack("<I", 1034)
        deep = b"]" * 100000 + b"a" * 99999
        for blob in twice, deep:
            for fields in ({"state": "MARKER"}, {"profiling_name": "MARKER"}, {"pg_id": "MARKER"}, {"collective_seq_id": "MARKER"},
                           {"input_dtypes": ["MARKER"]}, {"input_sizes": "MARKER"}, {"process_group": ["MARKER", ""]}, {}):
                self.spliced(blob, **fields)
                if "pg_id" in fields:  # which is of use in a status alone
                    self.assertEqual(self.run_check()[0], 0)
                else:
                    self.rejected("rank_1")
            frame = {"filename": "a.py", "line": "MARKER", "name": "f"}
            self.spliced(blob, frames=[frame], input_sizes=[[9]])
            self.assertIn("a.py:?", self.run_check()[1])

    def test_texts_and_numbers_without_measure(self):
        for fields in ({"state": "s" * 10000}, {"profiling_name": "n" * 10000}, {"input_sizes": [[1 << 62] * 3]}, {"input_sizes": [[10 ** 5000]]},
                       {"output_sizes": [[1 << 62], [1 << 62]]}, {"collective_seq_id": 10 ** 5000}):
            self.file(pickle.dumps(dump([call("all_reduce", 1, 0, **fields)])))
            self.rejected("rank_1", "entry 0")
        self.file(pickle.dumps(dump([], version=10 ** 5000)))
        self.rejected("version")
        self.file(pickle.dumps(dump([], pg_status={10 ** 5000: {"last_enqueued_collective": float("inf")}})))
        self.assertEqual(self.run_check()[0], 0)
        self.file(pickle.dumps(dump([call(f"send {'9' * 5000}->1", 1, 0)])))
        self.rejected("rank_1")

    def test_ranks_without_measure(self):
        for ranks in "[0, 99999999999]", f"[0, {'9' * 5000}]", [0, 1 << 40], "[0, 1048576]":
            self.file(pickle.dumps(dump([], ranks=ranks)))
            self.rejected("rank_1", "1048575")
        self.rejected("1048576", words=("--world", "99999999999"))
        self.rejected("--world", words=("--world", "9" * 5000))
        self.rejected("1048575", words=("--group", "0=0,1048576"))
        (self.folder / "rank_1").unlink()
        self.file(pickle.dumps(dump([], ranks="")), "rank_20261127.json")
        self.rejected("rank_20261127.json", "1048575")

    def test_small_files_of_much(self):
        before, limits.LEAST = limits.LEAST, 1 << 26
        self.addCleanup(setattr, limits, "LEAST", before)
        for name in "entries", "traceEvents":
            content = b'{"version":"2.10","%s":[' % name.encode() + b"[]," * 8_000_000 + b"[]]}"
            self.file(gzip.compress(content, 1), "rank_1.json.gz")
            self.rejected("rank_1.json.gz", "memory")
        before, folder.LEAST_UNPACKED = folder.LEAST_UNPACKED, 1 << 20
        self.addCleanup(setattr, folder, "LEAST_UNPACKED", before)
        self.file(gzip.compress(b" " * (1 << 24)), "rank_1.json.gz")
        self.rejected("rank_1.json.gz", "unpacked")

    def test_errors_steer_no_terminal(self):
        for content in (pickle.dumps(dump([], version="3\x1b[31m\x07\x9b\x7f")), b"\x80\x02c\x1b]0;owned\x07\x1b[2J\nname\n."):
            self.file(content)
            _, _, err = self.run_check()
            self.assertTrue(err[:-1].isprintable(), err)
            self.assertIn("\\x1b", err)
        (self.folder / "rank_1").unlink()
        _, _, err = self.run_check("--prefix", "x" * 10000)
        self.assertLess(len(err), 600)
        self.assertIn("_dump_fr_trace() make a dump on each rank", err)

    def test_half_a_character(self):
        self.file(pickle.dumps(dump([call("all_reduce", 1, 0, dtype="\ud800")])))
        for form in "json", "text", "md":
            self.assertEqual(self.run_check("--format", form)[0], 1)
        json.loads(self.run_check("--format", "json")[1])

    def test_deep_json(self):
        self.file(b'{"entries":' + b"[" * 200000, "rank_1.json")
        self.rejected("rank_1.json")

    def test_options(self):
        for words, part in ((("--group", "x"), "NAME=RANKS"), (("--group", "x=0,0"), "once"), (("--group", "x=0"), "no dump has a group"),
                            (("--world", "0"), "--world"), (("--late", "-1"), "--late"), (("--late", "nan"), "--late"),
                            (("--format", "xml"), "xml"), (("--group", "x=3-1"), "once"), (("--group", "x=0-99999999"), "more than")):
            self.rejected(part, words=words)

    def test_world_smaller_than_a_rank(self):
        self.file(pickle.dumps(dump([])), "rank_5")
        self.rejected("rank 5", words=("--world", "3"))


def event(name, begin, duration, kind="cpu_op", thread=1, **arguments):
    return {"ph": "X", "cat": kind, "name": name, "pid": 1, "tid": thread, "ts": begin, "dur": duration, "args": arguments}


def nccl_call(op, seq, begin, count=(8, 8), dtype="Float", group="0", ranks="[0, 1]", **other):
    """record_param_comms, as torch/csrc/profiler/util.h names its arguments."""
    return event("record_param_comms", begin, 1, **{
        "Collective name": op, "In msg nelems": count[0], "Out msg nelems": count[1], "dtype": dtype, "Group size": 2,
        "Process Group Name": group, "Process Group Description": "default_pg", "Process Group Ranks": ranks, "Seq": seq, **other})


class MadeProfiles(InFolder):
    """In the form of NCCL's, by hand, with times that can be added up."""

    def leave(self, *ranks):
        for rank, events in enumerate(ranks):
            profile = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": len(ranks)}, "traceEvents": events}
            (self.folder / f"trace{rank}.json").write_text(json.dumps(profile))

    def test_times(self):
        """Communication 0 to 10 and 20 to 50, computation 5 to 25 and 40 to 45: 5 + 5 + 5 overlap."""
        kernels = [event("ncclDevKernel_AllReduce", 0, 10, "kernel", 2), event("ncclDevKernel_AllReduce", 20, 30, "kernel", 2),
                   event("gemm", 5, 20, "kernel", 3), event("gemm", 6, 2, "kernel", 4), event("gemm", 40, 5, "kernel", 3), event("aten::mm", 0, 1000)]
        others = [event("ncclDevKernel_AllReduce", 0, 4, "kernel", 2), event("ncclDevKernel_AllReduce", 20, 31, "kernel", 2)]
        self.leave(kernels + [nccl_call("allreduce", n, n) for n in (1, 2)], others + [nccl_call("allreduce", n, n) for n in (1, 2)])
        status, out, err = self.run_check("--format", "json")
        self.assertEqual(status, 0, err)
        one, other = json.loads(out)["profiles"]
        self.assertEqual([one[key] for key in ("span_us", "computation_us", "communication_us", "overlapped_us", "waiting_us")],
                         [50, 25, 40, 15, 6])
        self.assertEqual([other[key] for key in ("span_us", "communication_us", "overlapped_us", "waiting_us")], [51, 35, 0, 1])

    def test_calls_are_aligned_by_number(self):
        """Rank 1 began to record one call later."""
        calls = [nccl_call("allreduce", n, n, (n, n)) for n in range(1, 6)]
        self.leave(calls, calls[1:])
        self.assertEqual(self.findings(), [])

    def test_profiles_that_end_and_begin_at_other_calls(self):
        calls = [nccl_call("allreduce", n, n, (n, n)) for n in range(1, 6)] + [nccl_call("broadcast", 6, 6)]
        for length in 5, 4, 3:
            self.leave(calls, calls[:length])
            self.assertEqual(self.findings(), [])
        sent = [nccl_call("send", n, n, (n, n), **{"Dst Rank": 1}) for n in range(1, 6)]
        received = [nccl_call("recv", n, n, (n, n), **{"Src Rank": 0}) for n in range(1, 6)]
        for first, last in ((0, 4), (1, 5), (2, 3)):
            self.leave(sent, received[first:last])
            self.assertEqual(self.findings(), [])
            self.leave(received[first:last], sent)  # as the ranks of a profile say, of another pair
            self.assertEqual(self.findings(), [])

    def test_messages_name_ranks_of_the_world(self):
        """Group 7 has ranks 1 and 2."""
        def messages(op, end, peer, count=8):
            return [nccl_call(op, n, n, (count, count), group="7", ranks="[1, 2]", **{end: peer}) for n in (1, 2)]
        other = [nccl_call("allreduce", 1, 1, group="9", ranks="[0]")]
        self.leave(other, messages("send", "Dst Rank", 2), messages("recv", "Src Rank", 1))
        self.assertEqual(self.findings(), [])
        self.leave(other, messages("send", "Dst Rank", 2), messages("recv", "Src Rank", 1, 9))
        self.only("size", [1, 2])

    def test_calls_that_differ(self):
        for other, kind in ((nccl_call("allreduce", 1, 1, (9, 9)), "size"), (nccl_call("allreduce", 1, 1, dtype="Half"), "dtype"),
                            (nccl_call("broadcast", 1, 1), "op")):
            self.leave([nccl_call("allreduce", 1, 1)], [other])
            self.only(kind, [0, 1])

    def test_group_size_and_sizes(self):
        calls = [nccl_call("_allgather_base", 1, 1, (8, 24))]
        self.leave(calls, calls)
        self.only("sizes", [0, 1])

    def pipeline(self, plan="0F0,0B0\n1F0,1B0\n"):
        """Rank 0 computes 0 to 10 and 40 to 50. Its send goes 11 to 14, with the peer's recv posted at 0; its recv 12 to 40, with
        the peer's send begun at 30."""
        (self.folder / "plan.csv").write_text(plan)

        def of_gloo(op, peer, begin, end):
            given = {"Concrete Inputs": ["", "", str(peer), "0"], "Input type": ["TensorList", "", "Scalar", "Scalar"],
                     "Input Dims": [[[8]], [], [], []]}
            return [event(f"c10d::{op}", begin - 0.5, 0.5, **given),
                    event("gloo:" + op.strip("_"), begin, end - begin, "user_annotation")]

        self.leave([event("PP:0F0", 0, 10, "user_annotation"), event("aten::mm", 0, 10), *of_gloo("send", 1, 11, 14),
                    *of_gloo("recv_", 1, 12, 40), event("PP:0B0", 15, 35, "user_annotation"), event("aten::mm", 40, 10)],
                   [*of_gloo("recv_", 0, 0, 15), event("PP:1F0", 15, 10, "user_annotation"), event("aten::mm", 15, 10),
                    event("PP:1B0", 25, 4, "user_annotation"), event("aten::mm", 25, 4), *of_gloo("send", 0, 30, 45)])

    def test_idle_time_of_a_pipeline(self):
        self.pipeline()
        status, out, err = self.run_check("--format", "json", "--plan", str(self.folder / "plan.csv"))
        self.assertEqual(status, 0, err + out)
        one, other = json.loads(out)["pipeline"]
        self.assertEqual([one[key] for key in ("steps", "window_us", "computation_us", "waiting_us", "transfer_us", "other_us", "bubble")],
                         [1, 50, 20, 16, 13, 1, 0.6])
        self.assertEqual([other[key] for key in ("steps", "window_us", "computation_us", "bubble")], [1, 14, 14, 0])

    def test_order_against_the_plan(self):
        self.pipeline("0F0,0B0\n1F0,1F1,1B0,1B1\n")
        found = self.only("order", [1], "--plan", str(self.folder / "plan.csv"))
        self.assertEqual((found["seq"], found["expected"], found["got"]), (2, "1F1", "1B0"))

    def against(self, plan, *ranks):
        (self.folder / "plan.csv").write_text(plan)
        self.leave(*([event(f"PP:{name}" if name[0].isdigit() else name, 10 * at, 10, "user_annotation") for at, name in enumerate(names)]
                     for names in ranks))
        return "--plan", str(self.folder / "plan.csv")

    def test_rank_without_actions(self):
        self.assertEqual(self.findings(*self.against("0F0,0B0\n,\n\n", ["0F0", "0B0"], ["step"])), [])
        words = self.against("0F0,0B0\n,\n1F0\n", ["0F0", "0B0"], ["step"], ["1F0"])
        self.assertEqual(self.findings(*words), [])
        words = self.against("0F0,0B0\n,\n1F0\n", ["0F0", "0B0"], ["2F0"], ["1F0"])
        self.assertEqual(self.only("order", [1], *words)["got"], "2F0")

    def test_profile_that_begins_within_a_step(self):
        plan, step = "0F0,0F1,0B0,0B1\n", ["0F0", "0F1", "0B0", "0B1"]
        for first in range(1, 4):
            words = self.against(plan, step[first:] + step * 2)
            self.assertEqual(self.findings(*words), [])
            self.assertIn(f"rank 0: skipped {4 - first} action", self.run_check(*words)[1])
            self.assertEqual(json.loads(self.run_check(*words, "--format", "json")[1])["pipeline"][0]["steps"], 2)
        for wrong in (["0F1", "0F0", "0B0", "0B1"], ["0B0", *step], ["0F1", "0B1", *step], step[1:]):
            self.only("order", [0], *self.against(plan, wrong))

    def test_plan_of_more_ranks(self):
        self.pipeline("0F0,0B0\n1F0,1B0\n2F0,2B0\n")
        self.assertIn("no profile of rank 2", self.run_check("--plan", str(self.folder / "plan.csv"))[1])

    def test_bad_plans(self):
        for plan, part in (("", "empty"), (",\n", "empty"), ("0F0,x\n", "cell 2"), ("0F0,0B0\n", "1 lines"), ("0F0;0B0\n", "cell 1"), ("(a)OVERLAP_F_B\n", "cell 1"),
                           ("(0F0)OVERLAP_F_B\n", "cell 1"), (f"0F{'9' * 5000}\n", "cell 1")):
            self.pipeline(plan)
            self.rejected("--plan", part, words=("--plan", str(self.folder / "plan.csv")))
        self.rejected("no such file", words=("--plan", str(self.folder / "none.csv")))

    def test_broken_profiles(self):
        for content in (b'{"traceEvents": [', b'{"traceEvents": 3}', b'{"traceEvents": [], "distributedInfo": {"rank": -1}}'):
            (self.folder / "trace.json").write_bytes(content)
            self.rejected("trace.json")

    def test_numbers_without_measure(self):
        one = nccl_call("allreduce", 1, 1)
        of_gloo = event("c10d::allreduce_", 1, 1, **{"Input Dims": [[[float("inf")]]], "Input type": ["TensorList"], "Concrete Inputs": [""]})
        tagged = event("c10d::send", 1, 1, **{"Concrete Inputs": ["", "", "0", {}], "Input type": ["TensorList"], "Input Dims": [[[8]]]})
        for events, job in (([one], {"rank": 1 << 30}), ([one], {"pg_config": [{"pg_name": "0", "ranks": [float("inf")]}]}), ([of_gloo], {}),
                            ([one], {"pg_config": [{"pg_name": "0", "ranks": [0, 10 ** 11]}]}), ([one], {"pg_config": {"a": 1}}),
                            ([nccl_call("allreduce", 10 ** 4000, 1, (10 ** 4000, 8))], {}), ([nccl_call("allreduce", 1, 1, ranks="[0, 1048576]")], {}),
                            ([tagged], {}), ([nccl_call("a" * 5000, 1, 1)], {})):
            self.leave([one], [])
            (self.folder / "trace1.json").write_text(json.dumps({"distributedInfo": {"rank": 1, **job}, "traceEvents": events,
                                                                 "baseTimeNanoseconds": 10 ** 4000}))
            status, out, err = self.run_check()
            self.assertIn((status, err.count("\n")), ((0, 0), (1, 0), (2, 1)), err)
            self.assertLess(len(out), 10000)

    def test_names_of_another_form(self):
        self.leave([event("record_param_comms", 0, 1, **{"Collective name": 3, "Process Group Ranks": [[1]]})], [{"ph": "X", "cat": 7}, 3])
        self.assertIn(self.run_check()[0], (0, 1, 2))


@unittest.skipUnless(HAS_TORCH, "no PyTorch in this Python; PLUMBLINE_PYTHON names another")
class OfPrograms(InFolder):
    """Programs that run with gloo here, and what their recorders or profilers kept."""

    def record(self, name, world=3, buffer=2000):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            programs.run(name, world, self.folder, buffer)

    def profile(self, name, world=3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            programs.run(name, world, self.folder, has_profile=True)
        return self.folder / "profiles"

    def are_sound(self, *of_worlds):
        for name, world in of_worlds:
            with self.subTest(name, world=world):
                self.record(name, world)
                self.assertEqual(len(list(self.folder.glob("rank_*"))), world)
                self.assertEqual(len(list(self.folder.glob(".done*"))), world)
                self.assertEqual(self.findings(), [])
                self.assertEqual(self.findings(folder=self.folder / "json"), [])
                self.assertGreater(json.loads(self.run_check("--format", "json")[1])["collectives"], 8)
            shutil.rmtree(self.folder)

    def differ(self, *calls):
        for name, kind, rank, seq in calls:
            with self.subTest(name):
                self.record(name)
                found = self.only(kind, [rank])
                self.assertEqual((found["seq"], found["group"]), (seq, "0"))
                self.assertIn("trace_programs.py:", found["site"])
                self.assertIn(name, found["site"])
            shutil.rmtree(self.folder)

    def have_sound_profiles(self, *of_worlds):
        for name, world in of_worlds:
            with self.subTest(name):
                folder = self.profile(name, world)
                self.assertEqual(len(list(folder.iterdir())), world)
                self.assertEqual(self.findings(folder=folder), [])
                calls = [one["calls"] for one in json.loads(self.run_check("--format", "json", folder=folder)[1])["profiles"]]
                self.assertGreater(min(calls), 5)
            shutil.rmtree(self.folder)


class Real(OfPrograms):
    """What the build asks of them."""

    def test_right_programs(self):
        self.are_sound(("all_ops", 3), ("groups_in_order", 4), ("data_parallel", 3))

    def test_profiles_of_right_programs(self):
        self.have_sound_profiles(("all_ops", 3))

    def test_wrapped_buffers(self):
        self.record("forty_steps", buffer=8)
        status, out, _ = self.run_check()
        self.assertEqual(status, 0, out)
        self.assertIn("33 entries were overwritten", out)

    def test_calls_that_differ(self):
        self.differ(("skip_by_site", "skipped", 1, 6), ("another_size", "size", 0, 2))

    def test_crossed_groups(self):
        self.record("crossed")
        self.assertEqual(self.only("crossed", [0, 1])["waiting"], [])

    def test_rank_that_died(self):
        self.record("died")
        self.only("no-dump", [2], "--world", "3")

    def test_rank_that_hangs(self):
        self.record("hung")
        found = self.only("missing", [2])
        self.assertEqual((found["seq"], found["waiting"]), (2, [0]))
        self.assertGreater(found["since_ns"], 10**18)

class Whole(OfPrograms):
    """The other programs. No test of the build's: trace_test.py Whole."""

    def test_right_programs(self):
        self.are_sound(("all_ops", 2), ("all_ops", 4), ("forty_steps", 3))

    def test_profiles_of_right_programs(self):
        self.have_sound_profiles(("groups_in_order", 4))

    def test_calls_that_differ(self):
        self.differ(("skip_by_dtype", "skipped", 1, 2), ("another_dtype", "dtype", 1, 2), ("another_op", "op", 1, 2),
                    ("extra_in_between", "extra", 1, 3), ("uneven_all_to_all", "splits", 1, 1), ("extra_call", "extra", 1, 2))

    def test_roots(self):
        self.record("another_root_of_gather")
        self.only("root", [0, 1])
        shutil.rmtree(self.folder)
        self.record("another_root_of_broadcast")  # of which no root is recorded
        self.assertIn("root", self.only("stuck", [0, 1, 2])["text"])

    def test_groups_that_cross_in_their_first_calls(self):
        self.record("crossed_at_once")
        found = self.findings()
        self.assertEqual([(one["kind"], one["ranks"]) for one in found], [("alone", [0]), ("alone", [1])])
        names = sorted({one["group"] for one in found})
        self.only("crossed", [0, 1], *(word for name in names for word in ("--group", f"{name}=0-1")))

    def test_recv_without_send(self):
        self.record("no_send")
        found = self.only("missing", [0])
        self.assertIn("gloo records no send", found["text"])
        self.assertEqual(found["waiting"], [1, 2])

    def test_late_rank(self):
        self.record("late")
        self.assertEqual(self.findings(), [])
        self.only("late", [1], "--late", "2")

    def test_reductions_are_not_recorded(self):
        """Two ranks add and one takes the maximum: no dump has it, and the report says so."""
        self.record("another_reduction")
        status, out, _ = self.run_check()
        self.assertEqual(status, 0)
        self.assertIn("not judged: reduce operations", out)

    def test_profiles_of_wrong_programs(self):
        for name, world, kind, ranks in (("another_size", 3, "size", [0]), ("uneven_all_to_all", 3, "splits", [1]),
                                         ("another_root_not_awaited", 3, "root", [1])):
            with self.subTest(name):
                self.only(kind, ranks, folder=self.profile(name, world))
            shutil.rmtree(self.folder)

    def test_pipelines_against_plans(self):
        folder = self.profile("pipeline_gpipe", 2)
        plan = self.folder / "mine.csv"
        rows = [[f"{rank}{kind}{number}" for kind in "FB" for number in range(4)] for rank in range(2)]
        plan.write_text("\n".join(map(",".join, rows)))
        status, out, err = self.run_check("--format", "json", "--plan", str(plan), folder=folder)
        self.assertEqual(status, 0, err + out)
        for idle in json.loads(out)["pipeline"]:
            self.assertEqual(idle["steps"], 2)
            self.assertTrue(0 < idle["bubble"] < 1, idle)
            parts = sum(idle[f"{name}_us"] for name in ("computation", "waiting", "transfer", "other"))
            self.assertAlmostEqual(parts, idle["window_us"], delta=1)
        plan.write_text("0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n")
        self.assertEqual(self.only("order", [1], "--plan", str(plan), folder=folder)["expected"], "1B0")

    def test_interleaved_pipeline(self):
        folder = self.profile("pipeline_interleaved", 2)
        plan = self.folder / "plan.csv"
        self.assertEqual(self.findings("--plan", str(plan), folder=folder), [])
        rows = plan.read_text().split("\n")
        computations = ",".join(cell for cell in rows[0].split(",") if programs.is_computation(cell.strip()))
        plan.write_text("\n".join([computations, ",".join(cell for cell in rows[1].split(",") if programs.is_computation(cell.strip()))]))
        self.assertEqual(self.findings("--plan", str(plan), folder=folder), [])
        plan.write_text(plan.read_text().replace("0F0,0F1", "0F1,0F0"))
        self.only("order", [0], "--plan", str(plan), folder=folder)

    def test_pipeline_without_marks(self):
        folder = self.profile("pipeline_without_marks", 2)
        plan = self.folder / "mine.csv"
        plan.write_text("0F0\n1F0\n")
        status, _, err = self.run_check("--plan", str(plan), folder=folder)
        self.assertEqual((status, err.count("\n")), (2, 1), err)
        self.assertIn("Schedule1F1B writes none", err)

    def test_times_of_a_profile(self):
        """Rank 1 comes 0.5 s late, and rank 0 waits for it."""
        folder = self.profile("computes_meanwhile", 2)
        status, out, err = self.run_check("--format", "json", folder=folder)
        self.assertEqual(status, 0, err)
        one, other = json.loads(out)["profiles"]
        self.assertGreater(one["waiting_us"], 400_000)
        for rank in one, other:
            self.assertLess(0, rank["overlapped_us"])
            self.assertLessEqual(rank["overlapped_us"], min(rank["communication_us"], rank["computation_us"]))
            self.assertLessEqual(max(rank["communication_us"], rank["computation_us"]), rank["span_us"])


if __name__ == "__main__":
    unittest.main()
