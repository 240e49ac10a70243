#!/usr/bin/env python3
"""Tests `plumbline results push`, on a real Pushgateway where one is installed, and on servers that are none."""

import contextlib
import http.server
import io
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PACKAGE))

from plumbline_results import push  # noqa: E402

METRICS = """# HELP plumbline_run_complete 1 when the run came to its end.
# TYPE plumbline_run_complete gauge
plumbline_run_complete{subject="backend local"} %d
"""


class PushTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        self.write("check", 0)

    def write(self, name, complete):
        Path("results/latest", name).mkdir(parents=True, exist_ok=True)
        Path("results/latest", name, "metrics.prom").write_text(METRICS % complete)

    def push(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = push.main(list(map(str, arguments)))
        return status, out.getvalue(), err.getvalue()

    def refused(self, status, words, *arguments):
        got, out, err = self.push(*arguments)
        self.assertEqual((got, out, err.count("\n")), (status, "", 1), err)
        self.assertIn(words, err)

    def answering(self, status, words=b"these are\nthe words"):
        """The address of a server that answers so, and the requests that it got."""
        requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self):
                requests.append((self.path, dict(self.headers), self.rfile.read(int(self.headers["Content-Length"])).decode()))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(words)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"127.0.0.1:{server.server_port}", requests

    def test_a_gateway_keeps_the_last_metrics_of_each_run(self):
        program = shutil.which("prometheus-pushgateway") or shutil.which("pushgateway")
        if program is None:
            self.skipTest("there is no prometheus-pushgateway")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % free.getsockname()[1]
        gateway = subprocess.Popen([program, f"--web.listen-address={address}"], stderr=subprocess.DEVNULL)
        self.addCleanup(gateway.wait)
        self.addCleanup(gateway.kill)
        url = f"http://{address}"
        end = time.monotonic() + 60
        while self.push("--gateway", url)[0] and time.monotonic() < end:
            time.sleep(0.1)
        self.write("check", 1)
        self.write("a b", 1)
        status, out, err = self.push("results/latest/check", "results/latest/a b", "--gateway", url, "--job", "night/ly")
        self.assertEqual((status, out), (0, "sent: check\nsent: a b\n"), err)
        self.assertEqual(self.push("--gateway", url)[1], "sent: a b\nsent: check\n")
        with urllib.request.urlopen(url + "/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        kept = sorted(line for line in lines if line.startswith("plumbline_run_complete{"))
        self.assertEqual(kept, [
            'plumbline_run_complete{instance="",job="night/ly",run="a b",subject="backend local"} 1',
            'plumbline_run_complete{instance="",job="night/ly",run="check",subject="backend local"} 1',
            'plumbline_run_complete{instance="",job="plumbline",run="a b",subject="backend local"} 1',
            'plumbline_run_complete{instance="",job="plumbline",run="check",subject="backend local"} 1'])
        Path("results/latest/check/metrics.prom").write_text("plumbline_run_complete{ 1\n")
        self.refused(2, "rejects the metrics: text format parsing error", "results/latest/check", "--gateway", url)

    def test_the_user_is_told_to_the_gateway_alone(self):
        address, requests = self.answering(202)
        self.assertEqual(self.push("--gateway", f"http://me:se%40cret@{address}/prefix/")[0], 0)
        path, headers, text = requests[0]
        self.assertEqual((path, text), ("/prefix/metrics/job/plumbline/run/check", METRICS % 0))
        self.assertEqual(headers["Authorization"], "Basic bWU6c2VAY3JldA==")
        address, _ = self.answering(401)
        status, out, err = self.push("--gateway", f"http://me:secret@{address}")
        self.assertEqual((status, out, err.count("\n")), (3, "", 1))
        self.assertNotIn("secret", err)

    def test_a_run_has_one_name(self):
        """That of its folder or link, however it is given; results/latest has links."""
        Path("results/runs").mkdir()
        Path("results/latest/check").rename("results/runs/20261128T000000Z-check")
        Path("results/latest/check").symlink_to("../runs/20261128T000000Z-check")
        address, requests = self.answering(200)
        for words in (), ("results/latest/check",), (Path("results/latest/check").absolute(),), ("results/latest/../latest/check/",):
            self.assertEqual(self.push(*words, "--gateway", f"http://{address}")[:2], (0, "sent: check\n"))
        os.chdir("results/latest/check")
        self.assertEqual(self.push(".", "--gateway", f"http://{address}")[0], 0)
        os.chdir("../../..")
        self.assertEqual([path for path, _, _ in requests], ["/metrics/job/plumbline/run/check"] * 4 + [
            "/metrics/job/plumbline/run/20261128T000000Z-check"])
        self.write("../nightly/check", 1)
        self.refused(2, "'results/nightly/check' and 'results/latest/check' have one name", "results/latest/check", "results/nightly/check",
                     "--gateway", f"http://{address}")
        self.assertEqual(len(requests), 5)

    def test_the_words_of_a_gateway_steer_no_terminal(self):
        address, _ = self.answering(400, b"\x1b]0;owned\x07 \x1b[31mred \xc2\x9b")
        _, _, err = self.push("--gateway", f"http://{address}")
        self.assertTrue(err[:-1].isprintable(), err)

    def test_what_is_no_gateway_is_named(self):
        address, _ = self.answering(404)
        self.refused(3, f"http://{address}/metrics/job/plumbline/run/check answers 404", "--gateway", f"http://{address}")
        address, _ = self.answering(400)
        self.refused(2, f"http://{address} rejects the metrics: these are the words", "--gateway", f"http://{address}")
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
        self.refused(3, f"cannot reach http://127.0.0.1:{port}: Connection refused", "--gateway", f"http://127.0.0.1:{port}")
        self.refused(3, "cannot reach http://nowhere.invalid", "--gateway", "http://nowhere.invalid")

    def test_a_gateway_that_does_not_answer_is_named(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            before, push.SECONDS = push.SECONDS, 0.2
            self.addCleanup(setattr, push, "SECONDS", before)
            self.refused(3, "gave no answer in 0.2 s", "--gateway", "http://127.0.0.1:%d" % silent.getsockname()[1])

    def test_bad_options_are_named(self):
        for url in ("localhost:9091", "ftp://a", "http://", "http://a:b", "http://a:99999", "http://a?x=1", "http://[::1", "http://a/#b", "http://a#"):
            self.refused(2, f"--gateway '{url}' is not the URL of a Pushgateway", "--gateway", url)
        self.refused(2, "--gateway is missing")
        self.refused(2, "--job '' is not a name", "--gateway", "http://a", "--job", "")
        self.refused(2, "--job", "--gateway", "http://a", "--job", "\ud800")
        self.refused(2, "--gateway", "--gateway", "http://a\ud800")
        self.refused(2, "--gateway", "--gateway", "http://u:\ud800@a")
        self.refused(2, "'nothing' has no metrics.prom", "nothing", "--gateway", "http://a")
        self.refused(2, "--nothing", "--nothing")
        shutil.rmtree("results")
        self.refused(2, "no run with metrics in results/latest", "--gateway", "http://a")


if __name__ == "__main__":
    unittest.main()
