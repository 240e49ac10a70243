"""The dashboard, the alert rules and the README of metrics are made of the table harness/metrics/metrics.toml, and each of its rows is held to
metrics.prom of runs made here. promtool judges the rules, and Prometheus, which scrapes those files, every query.

usage: dashboard_test.py PLUMBLINE MODULES [unittest arguments]

MODULES are the optional parts of the build: "training,metrics", or "". What a tool is missing for is skipped, with the reason.
"""
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
DASHBOARD = SOURCE / "results/dashboard"
SKIP = 77

sys.path.insert(0, str(SOURCE / "harness/metrics"))
try:
    import metrics_table
    import views
except ModuleNotFoundError as missing:
    print(f"skipped: {sys.executable} has no {missing.name}; pip install tomli")
    sys.exit(SKIP)

PLUMBLINE, MODULES = str(Path(sys.argv[1]).resolve()), sys.argv[2].split(",")
TABLE = metrics_table.table()
LABELS = {metric["name"]: {name.rstrip("?") for name in TABLE["run_labels"] + metric["labels"]} for group in TABLE["group"] for metric in group["metric"]}
UNITS = {metric["name"]: metric["unit"] for group in TABLE["group"] for metric in group["metric"]}
# What Grafana calls a unit of the table.
GRAFANA_UNITS = {"seconds": "s", "bytes": "bytes", "bytes/second": "Bps", "hertz": "hertz"}
# What a kernel need not report.
OPTIONAL = set() if "cpu MHz" in Path("/proc/cpuinfo").read_text() else {"plumbline_benchmark_host_clock_hertz"}
if os.cpu_count() < 2:
    OPTIONAL.add("plumbline_benchmark_host_waited_ratio")

QUICK = "--repetitions 2 --min-time 0.0001"
BENCHMARKS = " ".join(f"--benchmark {name}" for name in (
    "collectives.all_reduce", "gossip_throughput.rounds.complete.all", "gossip_throughput.step.base",
    "scaler.agreement.resnet50.one_flag", "scaler.unscale.bf16_to_f32", "memory.copy", "allreduce_fusion.resnet50.copy"))
# Of one rank: on a busy host two seldom begin together.
WINDOWS = f"bench --backend local --world-size 1 --sizes 1Ki --sync window --benchmark collectives.all_reduce {QUICK}"
TRAIN = "train --data-parallel 2 --batch 16"
# A short run that writes each group of the table.
RUNS = {
    "Runs": "check --backend local --filter collectives.barrier* --world-size 2",
    "Cases and requirements": "check --backend local --filter collectives.barrier* --world-size 2",
    "Measurements": f"bench --backend local --world-size 2 --sizes 1Ki --launches 2 {BENCHMARKS} {QUICK}",
    "Intervals of measurements": WINDOWS,
    "Measurements in windows": WINDOWS,
    "Sizes of buckets": "bench allreduce_fusion --model resnet50 --buckets 25MiB --rounds 2 --seconds 0.001",
    "Bubbles": "bench pipeline_bubble --schedule zb-h2 --schedule 1f1b --stages 2 --micro-batches 4 --repetitions 2 --metrics-of-ranks "
               "--durations F=0.002,I=0.002,W=0.002",
    "Bubbles on devices": "bench pipeline_bubble --libtorch --device emulated --schedule 1f1b --width 8 --rows 2 --repetitions 2",
    "Training": f"{TRAIN} --steps 2",
    "Training beside a single device": f"{TRAIN} --steps 2",
    "Training by epochs": "train --model perceptron --data digits --most-digits 32 --pipeline 2 --batch 16 --epochs 1",
    "Averaged parameters": "train --averaging localsgd --steps 4 --data-parallel 2 --margin 100",
}
# What NVIDIA's NCCL Inspector writes of two communicators of a job.
INSPECTOR = "".join(f'nccl_bus_bandwidth_gbs{{collective="AllReduce",message_size="1.00KB",nranks="2",comm_id="{one}"}} 1\n' for one in ("0xa", "0xb"))
NEEDS_TRAINING = ("Bubbles on devices", "Training", "Averaged parameters")
SERIES = re.compile(r"(\w+)\{(.*)\} \S+")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def can_run(title):
    return "training" in MODULES or not title.startswith(NEEDS_TRAINING)


def labels_by_metric(text):
    """Of an exposition: metric -> every label of its series."""
    found = {}
    for line in text.splitlines():
        if series := SERIES.fullmatch(line):
            found.setdefault(series[1], set()).update(name for name, _ in LABEL.findall(series[2]))
    return found


def queries():
    """(panel, expression) of the dashboard, for every subject and benchmark."""
    for panel in json.loads((DASHBOARD / "plumbline.json").read_text())["panels"]:
        for target in panel.get("targets", []):
            yield panel, target["expr"].replace("$subject", ".*").replace("$benchmark", ".*")


def rules():
    return (DASHBOARD / "alerts.yml").read_text()


def run_tool(*words):
    return subprocess.run(words, cwd=DASHBOARD, capture_output=True, text=True)


@unittest.skipUnless("metrics" in MODULES, "this build has no prometheus-cpp and writes no metrics.prom")
class Written(unittest.TestCase):
    """metrics.prom of real runs."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.expositions, by_command = {}, {}
        for title, words in RUNS.items():
            if can_run(title):
                if words not in by_command:
                    by_command[words] = cls.run_once(words, Path(folder.name) / str(len(by_command)))
                cls.expositions[title] = by_command[words]

    @classmethod
    def run_once(cls, words, out):
        done = subprocess.run([PLUMBLINE, *words.split(), "--out", str(out)], cwd=out.parent, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"plumbline {words}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        cls.check_that_nothing_is_left_out(out)
        return (out / "metrics.prom").read_text()

    @staticmethod
    def check_that_nothing_is_left_out(out):
        """What a record has of a measurement or of a step is a row of the table."""
        for line in map(json.loads, (out / "run.jsonl").read_text().splitlines()):
            names = ["plumbline_benchmark_" + {"launches": "reductions"}.get(name, name) for name in line.get("derived", {})]
            if line["type"] == "step":
                names = ["plumbline_train_" + re.sub("_rank[0-9]+$", "", name) for name in line["values"] if not name.startswith("seconds_")]
            for name in names:
                assert name in LABELS, f"{name} has no row in metrics.toml"

    def test_every_group_has_a_run(self):
        self.assertEqual(list(RUNS), [group["title"] for group in TABLE["group"]])

    def test_every_row_is_written(self):
        for group in TABLE["group"]:
            if can_run(group["title"]):
                written = {*labels_by_metric(self.expositions[group["title"]]), *OPTIONAL}
                self.assertEqual([metric["name"] for metric in group["metric"] if metric["name"] not in written], [], group["title"])

    def test_every_series_has_the_labels_of_its_row(self):
        for title, text in self.expositions.items():
            for name, labels in labels_by_metric(text).items():
                with self.subTest(f"{title}: {name}"):
                    self.assertLessEqual(labels, LABELS[name])

    def test_help_is_that_of_the_table(self):
        helps = {metric["name"]: metric["help"] for group in TABLE["group"] for metric in group["metric"]}
        for text in self.expositions.values():
            for name, text_of_help in re.findall(r"(?m)^# HELP (\w+) (.*)$", text):
                self.assertEqual(text_of_help, helps[name], name)

    def test_labels_of_the_table_are_none_of_the_users(self):
        for name in sorted(set().union(*LABELS.values())):
            done = subprocess.run([PLUMBLINE, "check", "--list", "--label", f"{name}=x"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, f"--label {name}=x is not rejected")
            self.assertIn(f"metrics have a label {name} of their own", done.stderr)

    @unittest.skipUnless(shutil.which("promtool"), "no promtool here (apt-get install prometheus)")
    def test_promtool_finds_nothing_wrong(self):
        for title, text in self.expositions.items():
            done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""), title)

    @unittest.skipUnless(shutil.which("prometheus"), "no prometheus here (apt-get install prometheus)")
    def test_prometheus_answers_every_query(self):
        failing = self.expositions["Cases and requirements"].replace('verdict="pass"', 'verdict="fail"').replace('subject="', 'subject="broken ')
        other = self.expositions["Measurements"].replace('subject="', 'subject="other ')
        (beside_inspector,) = re.findall(r"(?m)^    (nccl_bus_bandwidth_gbs .*)$", (SOURCE / "harness/metrics/README.md").read_text())
        with Prometheus([*self.expositions.values(), failing, other, INSPECTOR]) as server:
            found = server.ask("query", query=beside_inspector)["result"]
            self.assertEqual({one["metric"]["job"] for one in found}, {f"run {len(self.expositions) + 2}"}, "beside two subjects")
            for panel, expression in queries():
                of_training = re.search("plumbline_train_", expression)
                with self.subTest(panel=panel["title"], query=expression):
                    found = server.ask("query", query=expression)["result"]
                    missing = (of_training and "training" not in MODULES) or OPTIONAL.intersection(views.metrics_of(expression))
                    self.assertTrue(found or missing, "no series")
            of_file = server.ask("rules")["groups"]
            for rule in (rule for group in of_file for rule in group["rules"]):
                self.assertEqual((rule["health"], rule.get("lastError", "")), ("ok", ""), rule["name"])
            (fires,) = [rule for group in of_file for rule in group["rules"] if rule["name"] == "PlumblineRequirementFails"]
            self.assertEqual({alert["labels"]["subject"] for alert in fires["alerts"]}, {"broken local"})


class Prometheus:
    """A server with the alert rules that has scraped each exposition, from an address of its own."""

    def __init__(self, expositions):
        self.expositions = expositions
        self.folder = tempfile.TemporaryDirectory()

    def __enter__(self):
        expositions = self.expositions

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(expositions[int(self.path[1:])].encode())

            def log_message(self, *_):
                pass

        self.source = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.source.handle_error = lambda *_: None  # Prometheus hangs up when it ends
        threading.Thread(target=self.source.serve_forever, daemon=True).start()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        config = Path(self.folder.name) / "prometheus.json"  # which is YAML, too
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(DASHBOARD / "alerts.yml")],
            "scrape_configs": [{"job_name": f"run {at}", "metrics_path": f"/{at}", "honor_labels": True,
                                "static_configs": [{"targets": ["127.0.0.1:%d" % self.source.server_port]}]} for at in range(len(expositions))]}))
        self.log = open(Path(self.folder.name) / "log", "w+")
        self.process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder.name}/data",
                                         f"--web.listen-address={self.address}"], stdout=self.log, stderr=subprocess.STDOUT)
        try:
            self.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait(self):
        """Until every file was scraped, and the rules were judged after that."""
        limit = time.monotonic() + 60
        while time.monotonic() < limit and self.process.poll() is None:
            time.sleep(0.5)
            try:
                up = self.ask("query", query="sum(up)")["result"]
                rule_runs = self.ask("query", query="sum(ALERTS)")["result"]
            except OSError:
                continue
            if up and int(up[0]["value"][1]) == len(self.expositions) and rule_runs:
                return
        self.log.seek(0)
        raise AssertionError("Prometheus has not scraped all: " + self.log.read()[-2000:])

    def ask(self, what, **query):
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{what}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()
        self.source.shutdown()
        self.source.server_close()
        self.folder.cleanup()


class Files(unittest.TestCase):
    def test_files_are_made_of_the_table(self):
        due = metrics_table.due()
        self.assertEqual({path.name for path in due}, {"README.md", "plumbline.json", "alerts.yml"})
        for path, text in due.items():
            self.assertEqual(path.read_text(encoding="utf-8"), text, "harness/metrics/metrics_table.py --update")

    def changed(self, of, **changes):
        """The table with another row of this name."""
        table = metrics_table.table()
        (row,) = [metric for group in table["group"] for metric in group["metric"] if metric["name"] == of]
        row.update(changes)
        return table

    def test_a_change_of_the_table_is_one_of_dashboard_and_alerts(self):
        panels = {panel["title"]: panel for panel in json.loads(views.dashboard(self.changed("plumbline_train_loss", unit="bytes", help="Another.")))["panels"]}
        self.assertEqual(panels["Loss of the last step"]["fieldConfig"]["defaults"]["unit"], "bytes")
        self.assertEqual(panels["Loss of the last step"]["description"], "Another.")
        for made in (views.dashboard, views.alerts):
            with self.assertRaisesRegex(views.BadView, "there is no metric plumbline_run_complete; metrics.toml has them all"):
                made(self.changed("plumbline_run_complete", name="plumbline_run_whole"))

    def test_metrics_are_named_by_their_units(self):
        for name, unit in UNITS.items():
            if unit in ("seconds", "bytes/second"):
                self.assertTrue(name.endswith("_" + unit.replace("/", "_per_")), name)

    def test_dashboard_and_alerts_name_rows_of_the_table(self):
        for text in [*(expression for _, expression in queries()), rules()]:
            for name, _, matchers in re.findall(r"(plumbline_\w+)(\{([^}]*)\})?", text):
                self.assertIn(name, LABELS)
                self.assertLessEqual(set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', "", matchers))), LABELS[name], name)
            names = set(re.findall(r"plumbline_\w+", text))
            for grouped in re.findall(r"by \(([^)]*)\)", text):
                self.assertLessEqual(set(re.split(", *", grouped)), set().union(*(LABELS[name] for name in names)), text)

    def test_panels_have_the_units_of_their_metrics(self):
        for panel, expression in queries():
            names = re.findall(r"plumbline_\w+", expression)
            if len(names) == 1 and UNITS[names[0]] in GRAFANA_UNITS and "count" not in expression:
                self.assertEqual(panel["fieldConfig"]["defaults"].get("unit"), GRAFANA_UNITS[UNITS[names[0]]], panel["title"])

    def test_panels_lie_beside_each_other(self):
        panels = json.loads((DASHBOARD / "plumbline.json").read_text())["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = {}
        for panel in panels:
            at = panel["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], 24)
            for place in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
                self.assertEqual(taken.setdefault(place, panel["title"]), panel["title"])

    def test_grafanas_types_read_the_dashboard(self):
        try:
            from grafana_foundation_sdk.cog.encoder import JSONEncoder
            from grafana_foundation_sdk.cog.plugins import register_default_plugins
            from grafana_foundation_sdk.models.dashboard import Dashboard
        except ModuleNotFoundError:
            self.skipTest("no grafana-foundation-sdk here (pip install grafana-foundation-sdk)")
        register_default_plugins()
        ours = json.loads((DASHBOARD / "plumbline.json").read_text())
        theirs = json.loads(json.dumps(Dashboard.from_json(ours), cls=JSONEncoder))
        self.assertEqual(list(differences(ours, theirs)), [])

    def test_every_alert_has_a_test(self):
        text = (DASHBOARD / "alerts_test.yml").read_text()
        for name in re.findall(r"- alert: (\w+)", rules()):
            self.assertRegex(text, rf"- alertname: {name}\n")

    @unittest.skipUnless(shutil.which("promtool"), "no promtool here (apt-get install prometheus)")
    def test_promtool_passes_the_rules(self):
        for words in (("check", "rules", "--lint=all", "--lint-fatal", "alerts.yml"), ("test", "rules", "alerts_test.yml")):
            done = run_tool("promtool", *words)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


def differences(ours, theirs, at="dashboard"):
    """What of ours is lost or another value in theirs, which may have more."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name, value in ours.items():
            yield from differences(value, theirs[name], f"{at}.{name}") if name in theirs else [f"{at}.{name}"]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs)):
            yield from differences(*pair, f"{at}[{number}]")
    elif ours != theirs:
        yield f"{at}: {ours} {theirs}"


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
