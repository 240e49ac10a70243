"""What conformance/SECURITY.md promises of the commands, tried from outside.

usage: security_test.py PLUMBLINE PLUGIN [unittest arguments]: the program, and a plugin for --backend plugin:PLUGIN
"""
import glob
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PLUMBLINE, PLUGIN = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2])
SECRET = "hush-4f1c"
CLEAR_SCREEN = "\x1b[2J\x9b2J\x1b]0;owned\x07"
QUICK = ["--filter", "collectives.barrier*", "--world-size", "2"]
LONG = ["--filter", "COLL-001", "--world-size", "3"]
COMMAND = "[\x1b\x80-\x9f]"  # what a terminal takes for the begin of one
BAD_ADAPTER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    reply = {"id": asked["id"]}
    if asked["op"] == "hello":
        reply["result"] = {"protocol": 1, "name": "bad", "version": "1", "ops": ["comm.ring_sum"]}
    else:
        reply["error"] = {"kind": "failed", "message": WORDS}
        print(WORDS, file=sys.stderr, flush=True)
    print(json.dumps(reply), flush=True)
"""


class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="security-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out, self.scratch = self.folder / "out", self.folder / "scratch"
        self.scratch.mkdir()
        of_launchers = ("OMPI_", "PMI", "SLURM_", "TORCHELASTIC_", "MASTER_", "RANK", "WORLD_SIZE")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(of_launchers)}
        self.environment["PLUMBLINE_TMPDIR"] = str(self.scratch)

    def run_plumbline(self, *words, **environment):
        return subprocess.run([PLUMBLINE, *map(str, words)], cwd=self.folder, env=self.environment | environment, capture_output=True, text=True,
                              errors="replace", timeout=120)

    def start(self, *words, **environment):
        process = subprocess.Popen([PLUMBLINE, *map(str, words)], cwd=self.folder, env=self.environment | environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)

    def until(self, find):
        end = time.monotonic() + 30
        while not (found := find()):
            self.assertLess(time.monotonic(), end, "the run did not come so far")
            time.sleep(0.01)
        return found

    def test_no_secret_of_the_environment_is_in_what_a_run_writes(self):
        secrets = {name: SECRET for name in ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "MY_VARIABLE", "OMPI_MCA_login_password", "TORCH_HUB_TOKEN", "UCX_AUTH")}
        for backend in ("local", f"plugin:{PLUGIN}"):
            self.assertEqual(self.run_plumbline("check", "--backend", backend, *QUICK, "--out", "out", **secrets).returncode, 0)
            for file in self.out.iterdir():
                self.assertNotIn(SECRET, file.read_text(), file)
            header = json.loads((self.out / "run.jsonl").read_text().splitlines()[0])
            self.assertEqual(header["environment"]["variables"]["UCX_AUTH"], "(withheld)")

    def driver_with_ranks(self):
        driver = self.start("check", "--backend", f"plugin:{PLUGIN}", *LONG, "--repeat", "50", "--out", "out")
        return driver, self.until(lambda: self.workers_of(driver.pid))

    @staticmethod
    def workers_of(driver):
        """The environment of each process that the driver has started, as a dictionary."""
        found = []
        for folder in glob.glob("/proc/[0-9]*"):
            try:
                parent = Path(folder, "stat").read_text().rpartition(")")[2].split()[1]
                words = Path(folder, "environ").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            variables = dict(word.split("=", 1) for word in words if "=" in word)
            if int(parent) == driver and "PLUMBLINE_TOKEN" in variables:
                found.append(variables)
        return found

    def test_the_token_is_seen_by_its_user_alone(self):
        driver, workers = self.driver_with_ranks()
        token = workers[0]["PLUMBLINE_TOKEN"]
        self.assertEqual(len(token), 32)
        for file in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                self.assertNotIn(token.encode(), Path(file).read_bytes())
            except OSError:
                pass
        (folder,) = self.scratch.iterdir()
        self.assertEqual(stat.S_IMODE(folder.stat().st_mode), 0o700)
        self.end(driver)
        for file in self.out.iterdir():
            self.assertNotIn(token, file.read_text(), file)

    def test_the_driver_listens_on_loopback_alone(self):
        driver, _ = self.driver_with_ranks()
        inodes = {os.readlink(file)[8:-1] for file in glob.glob(f"/proc/{driver.pid}/fd/*") if os.readlink(file).startswith("socket:[")}
        rows = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
        listening = [row[1] for row in rows if row[3] == "0A" and row[9] in inodes]
        self.assertEqual([address.split(":")[0] for address in listening], ["0100007F"])

    def test_the_file_by_which_ranks_find_the_driver_is_its_users_alone(self):
        self.out.mkdir()
        planted = self.folder / "planted"
        planted.write_text("mine")
        (self.out / ".control-none-29500.new").symlink_to(planted)
        self.start("check", "--backend", f"plugin:{PLUGIN}", *QUICK, "--out", "out", RANK="0", WORLD_SIZE="2")
        (file,) = self.until(lambda: [one for one in self.out.glob(".control-*") if not one.name.endswith(".new")])
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
        self.assertIn("token", file.read_text())
        self.assertEqual(planted.read_text(), "mine")

    def test_nothing_is_written_through_a_link_in_the_place_of_results(self):
        planted, latest = self.folder / "planted", self.folder / "results/latest"
        planted.mkdir()
        latest.mkdir(parents=True)
        (latest / "check-local").symlink_to(planted)
        done = self.run_plumbline("check", *QUICK, "--resume")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertIn(f"'results/latest/check-local' links to '{planted.resolve()}', which is not in results/runs", done.stderr)
        # Nor where links in results/runs have the names of the next runs' folders, or the link leads to one of them.
        runs = self.folder / "results/runs"
        runs.mkdir()
        for ahead in range(60):
            (runs / time.strftime("%Y%m%dT%H%M%SZ-check-local", time.gmtime(time.time() + ahead))).symlink_to(planted)
        (runs / "link").symlink_to(planted)
        (latest / "check-local").unlink()
        (latest / "check-local").symlink_to("../runs/link")
        self.assertEqual(self.run_plumbline("check", *QUICK, "--resume").returncode, 2)
        self.assertEqual(self.run_plumbline("check", *QUICK).returncode, 0)
        self.assertEqual(list(planted.iterdir()), [])
        self.assertRegex(os.readlink(latest / "check-local"), r"^\.\./runs/20\d{6}T\d{6}Z-check-local$")
        self.assertTrue((latest / "check-local/run.jsonl").exists())

    def test_what_a_subject_says_does_not_reach_the_terminal_as_commands(self):
        adapter = self.folder / "bad.py"
        adapter.write_text(BAD_ADAPTER.replace("WORDS", repr(CLEAR_SCREEN + "words")))
        done = self.run_plumbline("check", "--adapter", f"{sys.executable} bad.py", "--no-control", "--out", "out")
        self.assertEqual(done.returncode, 1)
        self.assertIn("words", done.stdout)
        self.assertNotRegex(done.stdout + done.stderr, COMMAND)

    def hostile_record(self):
        """A record whose texts are all commands of a terminal."""
        self.assertEqual(self.run_plumbline("check", "--backend", "local", *QUICK, "--out", "out").returncode, 0)
        lines = [json.loads(line) for line in (self.out / "run.jsonl").read_text().splitlines()]
        for line in lines:
            if line["type"] == "result":
                line |= {"verdict": "fail", "reason": CLEAR_SCREEN, "output": CLEAR_SCREEN, "repeat": CLEAR_SCREEN}
        lines[0] |= {"subject": CLEAR_SCREEN, "labels": {"a": CLEAR_SCREEN}}
        lines[0]["facts"] = {"backend": CLEAR_SCREEN}
        (self.out / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def test_a_strangers_record_does_not_reach_the_terminal_as_commands(self):
        self.hostile_record()
        for words, status, prints in ((["expectations", "update", "out", "--file", "e.toml"], 0, "collectives.barrier"), (["results", "add", "out", "--store", "h"], 0, "added"),
                                      (["results", "list", "--store", "h"], 0, "owned"), (["report", "out", "--format", "md"], 0, "owned"),
                                      (["report", "out", "--format", "github"], 0, "owned"), (["check", "--resume", "--out", "out", "--backend", "local", *QUICK], 1, "owned")):
            with self.subTest(words):
                done = self.run_plumbline(*words)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(prints, done.stdout + done.stderr)
                self.assertNotRegex(done.stdout + done.stderr, COMMAND)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
