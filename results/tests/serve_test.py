#!/usr/bin/env python3
"""Tests `plumbline serve`: what Prometheus is told of several runs, and what stands in the way."""

import contextlib
import io
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import urllib.error
import urllib.request
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PACKAGE))

from plumbline_results import serve  # noqa: E402

CHECK = """# HELP plumbline_cases Cases of the run, by verdict.
# TYPE plumbline_cases gauge
plumbline_cases{subject="backend local",verdict="pass"} 3
# HELP plumbline_run_complete 1 when the run came to its end.
# TYPE plumbline_run_complete gauge
plumbline_run_complete{subject="backend local"} 0
"""
BENCH = """# HELP plumbline_run_complete 1 when the run came to its end.
# TYPE plumbline_run_complete gauge
plumbline_run_complete{subject="backend mpi",command="bench"} 1
plumbline_run_complete{subject="backend local"} 1
# HELP plumbline_up Without labels.
# TYPE plumbline_up gauge
plumbline_up 1
"""


class ServeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.here = Path(folder.name)
        for name, words in (("results/latest/check", CHECK), ("results/latest/bench", BENCH), ("results/latest/.killed.new", BENCH)):
            (self.here / name).mkdir(parents=True)
            (self.here / name / "metrics.prom").write_text(words)

    def start(self, *arguments):
        process = subprocess.Popen([sys.executable, "-B", "-m", "plumbline_results", "serve", *map(str, arguments)], cwd=self.here,
                                   stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(PACKAGE), "PATH": "/usr/bin:/bin"})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, re.fullmatch(r"serving (http://127\.0\.0\.1:\d+)/metrics\n", process.stdout.readline())[1]

    def get(self, url):
        with urllib.request.urlopen(url, timeout=60) as answer:
            self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            return answer.read().decode()

    def test_runs_are_one_page(self):
        _, url = self.start("--listen", "127.0.0.1:0")
        page = self.get(url + "/metrics")
        self.assertEqual(page.count("# TYPE plumbline_run_complete gauge"), 1)
        lines = page.splitlines()
        first = lines.index("# TYPE plumbline_run_complete gauge") + 1
        self.assertTrue(all(line.startswith("plumbline_run_complete{") for line in lines[first : first + 3]), "a metric's samples are together")
        self.assertIn('plumbline_run_complete{run="check",subject="backend local"} 0', lines, "a run does not hide another of its subject")
        self.assertIn('plumbline_run_complete{run="bench",subject="backend local"} 1', lines)
        self.assertIn('plumbline_cases{run="check",subject="backend local",verdict="pass"} 3', lines)
        self.assertIn('plumbline_up{run="bench"} 1', lines)
        self.assertNotIn("killed", page, "a link that was not finished is none")
        if shutil.which("promtool"):
            told = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True)
            self.assertEqual((told.returncode, told.stderr), (0, ""), told.stdout)

    def test_a_page_is_as_new_as_the_files(self):
        process, url = self.start(self.here / "results/latest/check", "--listen", "127.0.0.1:0")
        self.assertNotIn("bench", self.get(url + "/metrics"), "the folders that are named")
        file = self.here / "results/latest/check/metrics.prom"
        file.write_text(CHECK.replace("} 3", "} 4"))
        self.assertIn('verdict="pass"} 4', self.get(url + "/metrics"))
        file.unlink()
        self.assertEqual(self.get(url + "/metrics"), "", "nothing is said where there is nothing")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.get(url + "/../../etc/passwd")
        refused.exception.close()
        self.assertEqual(refused.exception.code, 404)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 0)

    def test_without_listen_this_machine_alone_is_served(self):
        with unittest.mock.patch.object(serve, "server", side_effect=OSError) as server, contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(serve.main([]), 3)
        host, port = server.call_args.args[0]
        self.assertEqual((host, port), ("127.0.0.1", 9469))
        with serve.server((host, 0), []) as listening:
            self.assertEqual(listening.socket.getsockname()[0], "127.0.0.1")

    def test_bad_input(self):
        _, url = self.start("--listen", "127.0.0.1:0")
        taken = url.removeprefix("http://")
        for arguments, status, words in (
            (("--listen", "9469"), 2, "--listen '9469' is not an address and a port"),
            (("--listen", "127.0.0.1:70000"), 2, "--listen '127.0.0.1:70000'"),
            (("--listen", ":1"), 2, "--listen ':1'"),
            (("nowhere",), 2, "'nowhere' is no folder"),
            (("--listen", taken), 3, f"cannot listen at {taken}"),
            (("--listen", "no such host:1"), 3, "cannot listen at no such host:1"),
        ):
            errors = io.StringIO()
            with contextlib.redirect_stderr(errors):
                self.assertEqual(serve.main(list(arguments)), status, arguments)
            self.assertIn(words, errors.getvalue())
            self.assertEqual(errors.getvalue().count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
