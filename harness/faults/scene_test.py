"""What looks at a run under a fault finds what is wrong with it: each thing left behind, and each damage of a record.

usage: scene_test.py [unittest arguments]
"""
import json
import socket
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import rows
import scene

HEADER = {"type": "header", "plan": []}


class SceneTest(unittest.TestCase):
    def setUp(self):
        self.scene = scene.Scene()
        self.addCleanup(self.scene.close)

    def left(self):
        return self.scene.left(limit=0.3)

    def test_nothing_is_left_by_what_leaves_nothing(self):
        seen = self.scene.run(["sh", "-c", "echo word; exit 3"], 20)
        self.assertEqual((seen.status, seen.output), (3, "word\n"))
        self.assertEqual(self.left(), [])

    def test_a_process_that_is_left_is_named_though_it_has_a_session_of_its_own(self):
        self.scene.run(["sh", "-c", "setsid sleep 60 & exit 0"], 20)
        self.assertRegex(self.left()[0], r"^process \d+ \(sleep 60")

    def test_files_that_are_left_are_named(self):
        self.scene.out.mkdir()
        for folder, name in ((self.scene.scratch, "plumbline-x"), (self.scene.temporary, "ompi.x"), (self.scene.out, ".control-job"),
                             (self.scene.out, "run.jsonl.new")):
            (folder / name).touch()
        self.assertEqual(self.left(), ["scratch plumbline-x", "temporary ompi.x", "out/.control-job", "out/run.jsonl.new"])

    def test_what_does_not_end_is_killed_and_has_no_status(self):
        seen = self.scene.run(["sleep", "60"], 0.2)
        self.assertIsNone(seen.status)

    def test_a_damaged_record_is_found_and_a_torn_end_is_not(self):
        self.scene.out.mkdir()
        (self.scene.out / "junit.xml").write_text("<testsuites>")
        (self.scene.out / "run.jsonl").write_text('{"type":"nothing"}\n{"type":"re')
        self.assertEqual(len(self.scene.lines()), 1)
        self.assertNotEqual(self.scene.problems_of_record(), [])

    def judged(self, results, status=1, output="", **expect):
        self.scene.out.mkdir(exist_ok=True)
        lines = [{"type": "result", "case": case, "verdict": verdict, "reason": "rank 1"} for case, verdict in results.items()]
        (self.scene.out / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"type": "complete"}]))
        row = rows.Row("fault", "local", None, rows.Expect(reports=False, **expect))
        return rows.judge(row, self.scene, scene.Seen(status, 1.0, output))

    def test_a_run_is_judged_by_each_of_its_expectations(self):
        crash = {"a": "crash", "b": "pass"}
        self.assertEqual(self.judged(crash, verdicts=crash, says="rank 1"), [])
        self.assertIn("status 0, not 1", self.judged(crash, status=0, verdicts=crash)[0])
        self.assertIn("no end within", self.judged(crash, status=None, verdicts=crash)[0])
        self.assertIn("a: crash, not hang", self.judged(crash, verdicts=crash | {"a": "hang"})[0])
        self.assertEqual(self.judged(crash, verdicts=crash | {"c": "pass"}), ["no result of c"])
        self.assertEqual(self.judged(crash, verdicts={"a": "crash"}), ["a result of b"])
        self.assertEqual(self.judged(crash, verdicts=crash, says="rank 7"), ["nothing says 'rank 7'"])
        self.assertIn("more than 0", self.judged(crash, verdicts=crash, limit=0)[0])
        self.assertEqual(self.judged(crash, verdicts=crash, output="LOST b\n"), ["LOST b"])

    def test_every_door_has_rows_and_no_name_stands_twice(self):
        names = [row.name for row in rows.all_rows()]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual({row.door for row in rows.all_rows()}, set(rows.DOORS))


class Sockets(unittest.TestCase):
    def test_the_port_of_a_process_is_found(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.assertEqual(scene.control_port(scene.os.getpid()), server.getsockname()[1])


class Command(unittest.TestCase):
    def test_bad_options_are_one_line(self):
        command = Path(__file__).resolve().parents[2] / "ci/faults"
        for options, words in ((["--only", "nothere"], "matches no row"), (["--nothere"], "--nothere")):
            done = subprocess.run([sys.executable, "-B", command, *options], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
