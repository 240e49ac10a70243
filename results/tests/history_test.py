"""The history: writers at the same time, one that is killed, and a full disk lose nothing; and the commands over it."""
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import measured_records as made

sys.path.insert(0, str(made.RESULTS))
from plumbline_results import history
from plumbline_results.options import BadInput, Failed

# Adds records one after the other, saying each when it is kept.
WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from plumbline_results import history
for path in sys.argv[3:]:
    history.add(sys.argv[2], path)
    print(path, flush=True)
"""


class History(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.store = str(self.folder / "history")

    def record(self, name, day=1, **changes):
        return made.write(self.folder / name, made.measurement([1e-6 * day]), started=f"2026-11-{day:02}T10:00:00Z", **changes)

    def whole(self):
        """Every file that a reader sees is a whole record."""
        found = history.records(self.store)
        self.assertTrue(all(one.complete for one in found))
        return found

    def run_tool(self, *words):
        return made.run("results", words[0], "--store", self.store, *words[1:])

    def test_add_twice_is_once(self):
        record = self.record("a")
        status, out, _ = self.run_tool("add", record)
        self.assertEqual((status, out.startswith("added: ")), (0, True))
        self.assertTrue(self.run_tool("add", record)[1].startswith("already there: "))
        kept, = self.whole()
        self.assertEqual(kept.path.read_bytes(), Path(record, "run.jsonl").read_bytes())

    def test_writers_at_the_same_time(self):
        shared = [self.record(f"shared{at}", day=at) for at in range(1, 6)]
        own = [[self.record(f"own{writer}-{at}", day=at, seed=writer * 10 + at) for at in range(1, 6)] for writer in range(1, 5)]
        writers = [subprocess.Popen([sys.executable, "-B", "-c", WRITER, str(made.RESULTS), self.store, *shared, *records],
                                    stdout=subprocess.DEVNULL) for records in own]
        self.assertEqual([writer.wait() for writer in writers], [0, 0, 0, 0])
        self.assertEqual(len(self.whole()), 25)

    def test_a_killed_writer_leaves_whole_records_alone(self):
        records = [self.record(f"r{at}", day=at % 28 + 1, seed=at) for at in range(40)]
        writer = subprocess.Popen([sys.executable, "-B", "-c", WRITER, str(made.RESULTS), self.store, *records], stdout=subprocess.PIPE, text=True)
        said = [writer.stdout.readline() for _ in range(3)]
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.readlines()
        writer.stdout.close()
        writer.wait()
        self.assertGreaterEqual(len(self.whole()), sum(line.endswith("\n") for line in said), "what was said to be kept is there")
        for record in records:
            history.add(self.store, record)
        self.assertEqual(len(self.whole()), 40)

    def test_killed_before_the_name_is_taken(self):
        self.run_tool("add", self.record("first"))
        with mock.patch("os.link", side_effect=KeyboardInterrupt), mock.patch.object(Path, "unlink"):
            with self.assertRaises(KeyboardInterrupt):
                history.add(self.store, self.record("second", day=2))
        self.assertEqual(len(self.whole()), 1)
        left, = Path(self.store).glob(history.UNFINISHED + "*")
        self.run_tool("prune", "--keep", "9")
        self.assertTrue(left.exists(), "its writer may be at work")
        os.utime(left, (time.time() - 2 * history.ABANDONED_AFTER,) * 2)
        self.run_tool("prune", "--keep", "9")
        self.assertFalse(left.exists())

    def test_a_full_disk(self):
        self.run_tool("add", self.record("first"))
        with mock.patch("os.fsync", side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))):
            with self.assertRaisesRegex(Failed, "second cannot be added: No space left on device"):
                history.add(self.store, self.record("second", day=2))
        self.assertEqual(len(self.whole()), 1)
        self.assertEqual(list(Path(self.store).glob(history.UNFINISHED + "*")), [])
        history.add(self.store, str(self.folder / "second"))
        self.assertEqual(len(self.whole()), 2)

    @unittest.skipUnless(os.path.exists("/dev/shm") and os.geteuid() == 0, "a full file system takes root to make")
    def test_a_file_system_that_is_full(self):
        mount = self.folder / "small"
        mount.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)], capture_output=True, check=False).returncode != 0:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", str(mount)], check=True)
        store = str(mount / "history")
        kept = 0
        for at in range(60):
            record = made.write(self.folder / f"r{at}", made.measurement(made.draw(at, count=60)), started=f"2026-11-01T10:00:{at:02}Z")
            status, _, err = made.run("results", "add", "--store", store, record)
            if status != 0:
                break
            kept += 1
        self.assertEqual(status, 3)
        self.assertIn("No space left on device", err)
        found = history.records(store)
        self.assertEqual((len(found), all(one.complete for one in found)), (kept, True))

    def test_list_show_prune(self):
        for day in (3, 1, 2):
            self.run_tool("add", self.record(f"d{day}", day=day, labels={"commit": f"c{day}"}))
        other = made.write(self.folder / "check", command="check", started="2026-11-04T10:00:00Z", complete=False)
        self.run_tool("add", other)
        status, out, _ = self.run_tool("list")
        lines = out.splitlines()
        self.assertEqual([line.split()[1] for line in lines[:4]], [f"2026-11-0{day}T10:00:00Z" for day in (1, 2, 3, 4)])
        self.assertIn("unfinished", lines[3])
        found = json.loads(self.run_tool("list", "--command", "bench", "--label", "commit=c[12]", "--format", "json")[1])
        self.assertEqual([one["labels"]["commit"] for one in found], ["c1", "c2"])
        self.assertEqual(self.run_tool("list", "--label", "commit=c3", "--paths")[1].count("\n"), 1)
        out = self.run_tool("show", found[0]["id"][:6])[1]
        self.assertIn("commit=c1", out)
        self.assertIn("1.000 us", out)
        self.assertIn("would remove", self.run_tool("prune", "--keep", "1", "--dry-run")[1])
        self.assertEqual(len(history.records(self.store)), 4)
        self.run_tool("prune", "--keep", "1")
        self.assertEqual([one.started[:10] for one in history.records(self.store)], ["2026-11-03", "2026-11-04"], "of each kind the newest")

    def test_bad_input_is_one_line(self):
        self.run_tool("add", self.record("a"))
        shutil.copy(self.folder / "a" / "run.jsonl", self.folder / "cut.jsonl")
        Path(self.folder / "damaged.jsonl").write_text(json.dumps(made.header()) + "\nnonsense\n{}\n", encoding="utf-8")
        for words, status, due in (
                (["add", self.folder / "nothing"], 2, "No such file or directory; name a run.jsonl"),
                (["add", self.folder / "damaged.jsonl"], 2, "damaged.jsonl:2: not an object in JSON"),
                (["show", "0123"], 2, "'0123' is the beginning of 0 records"),
                (["list", "--label", "commit"], 2, "--label 'commit' is not KEY=VALUE"),
                (["prune"], 2, "neither --keep nor --days"),
                (["prune", "--keep", "0"], 2, "'0' is not a whole number from 1 on")):
            got, _, err = self.run_tool(*words)
            self.assertEqual((got, err.count("\n")), (status, 1), err)
            self.assertIn(due, err)
        self.assertEqual(made.run("results", "list", "--store", self.folder / "no")[0], 2)
        self.assertEqual(made.run("results")[0], 2)


if __name__ == "__main__":
    unittest.main()
