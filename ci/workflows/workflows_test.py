"""The samples github.yml and gitlab.yml: valid by the published schemas, and each of their steps run here, in a workspace a job, with
artefacts, caches and the main branch's record carried between them as the services do.

usage: workflows_test.py PLUMBLINE FAULTS [unittest arguments]

FAULTS is the program plumbline_faults, whose checks fail. In the place of the wheel is a package that starts PLUMBLINE; `bench` is a
stand-in where launches of a known distribution are wanted.
"""
import fnmatch
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "results"
sys.path.insert(0, str(RESULTS / "tests"))
import measured_records as made

made.skip_without("scipy", "jinja2")
try:
    from yaml import safe_load
except ModuleNotFoundError:
    try:
        from ruamel.yaml import YAML
        safe_load = YAML(typ="safe").load
    except ModuleNotFoundError:
        print(f"skipped: {sys.executable} reads no YAML; pip install check-jsonschema")
        sys.exit(made.SKIP)

PLUMBLINE, FAULTS = (str(Path(word).resolve()) for word in sys.argv[1:3])
QUICK = {"PLUMBLINE_TOOLS": "", "PIP_NO_INDEX": "1", "PLUMBLINE_PYTHON": sys.executable,
         "PLUMBLINE_BENCH": "--launches 2 --benchmark collectives.barrier --repetitions 2 --min-time 0.0001"}
FAILING = "--world-size 3 --filter faults.expect*where=one* --filter faults.a_pass*"
INSTALLED = tempfile.TemporaryDirectory()
CHECKS = "--filter collectives.barrier* --world-size 2"
# In the place of `bench`: two series of 20 launches each, of which the second takes $FACTOR times as long; nothing else knows the factor.
BENCH = """#!{python} -B
import os, sys
sys.path.insert(0, {tests!r})
if sys.argv[1:2] != ["bench"] or "FACTOR" not in os.environ:
    os.execv({program!r}, [{program!r}, *sys.argv[1:]])
import measured_records as made
seed, factor = int(os.environ["SEED"]), float(os.environ["FACTOR"])
made.write(sys.argv[sys.argv.index("--out") + 1], made.measurement(made.draw(seed, deviation=0.005)),
           made.measurement(made.draw(seed + 1, center=1e-6 * factor, deviation=0.005), size=65536))
"""


def wheel_of(program, folder):
    """A wheel whose command `plumbline` is the stand-in over a program."""
    name = "plumbline_suite-0.0.1"
    script = BENCH.format(python=sys.executable, tests=str(RESULTS / "tests"), program=program)
    files = {f"{name}.data/scripts/plumbline": script,
             f"{name}.dist-info/METADATA": "Metadata-Version: 2.1\nName: plumbline-suite\nVersion: 0.0.1\n",
             f"{name}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = "".join(f"{path},,\n" for path in [*files, f"{name}.dist-info/RECORD"])
    path = Path(folder) / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**files, f"{name}.dist-info/RECORD": record}.items():
            entry = zipfile.ZipInfo(file)
            entry.external_attr = 0o100755 << 16  # pip keeps executable what is a file and executable here
            archive.writestr(entry, text)
    return path


class Service:
    """What both services have: a fresh workspace a job, and folders of what outlives it. `statuses` are those of the steps, by job."""
    installed = {}  # by program: the first workspace's .plumbline, which later ones get, since it takes long to make

    def __init__(self, folder, program=PLUMBLINE):
        self.folder, self.program = Path(folder), program
        self.wheel = wheel_of(program, folder)
        self.statuses, self.summaries, self.output = {}, {}, ""

    def workspace(self, job):
        place = self.folder / "workspaces" / re.sub(r"\W", "-", job)
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(HERE, place / "ci/workflows")
        self.statuses[job] = []
        return place

    def shell(self, job, line, place, variables):
        installs = line.startswith("ci/workflows/steps install ")
        if installs and self.program in self.installed:
            (place / ".plumbline").symlink_to(self.installed[self.program])
            return True
        variables = {name: value.replace("cuda", "emulated") for name, value in {**QUICK, **variables}.items()}  # in the place of GPUs
        done = subprocess.run(["bash", "-e", "-c", line.replace("cuda", "emulated")], cwd=place, capture_output=True, text=True, timeout=600,
                              env={**os.environ, **variables, "PLUMBLINE_WHEEL": str(self.wheel)})
        self.output += f"[{job}] {line}\n{done.stdout}{done.stderr}"
        self.statuses[job].append(done.returncode)
        if installs and done.returncode == 0:
            kept = Path(INSTALLED.name) / str(len(self.installed))
            self.installed[self.program] = shutil.move(place / ".plumbline", kept)
            (place / ".plumbline").symlink_to(kept)
        return done.returncode == 0

    def status(self, job):
        return next((status for status in self.statuses[job] if status), 0)


class GitHub(Service):
    """As much of GitHub Actions as github.yml uses."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.artefacts, self.caches, self.runs = self.folder / "artefacts", self.folder / "caches", 0

    def run(self, event, jobs, **variables):
        shutil.rmtree(self.artefacts, ignore_errors=True)
        self.runs += 1
        for name, job in safe_load((HERE / "github.yml").read_text())["jobs"].items():
            if name not in jobs:
                continue
            matrix = job["strategy"]["matrix"]
            for index, row in enumerate(matrix.get("include") or [{"on": one} for one in matrix["on"]]):
                facts = {"github.event_name": event, "github.run_id": str(self.runs), "strategy.job-index": str(index), "env.PLUMBLINE_WHEEL": "wheel",
                         **{f"matrix.{name}": value for name, value in row.items()}}
                self.run_job(self.filled(job["name"], facts), job["steps"], facts, variables)

    @staticmethod
    def filled(text, facts):
        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: str(facts[found[1]]), text)

    @staticmethod
    def holds(condition, facts, well):
        if compared := re.fullmatch(r"\$\{\{ ([\w.]+) == '(\w+)' \}\}", condition):
            return well and facts[compared[1]] == compared[2]
        return {"": well, "${{ !cancelled() }}": True}[condition]

    def run_job(self, name, steps, facts, variables):
        place, well = self.workspace(name), True
        summary = place / "summary-of-the-job.md"
        for step in steps:
            if not self.holds(step.get("if", ""), facts, well):
                continue
            if "run" in step:
                well &= self.shell(name, self.filled(step["run"], facts), place, {**variables, "GITHUB_STEP_SUMMARY": str(summary)})
            else:
                given = {key: self.filled(str(value), facts) for key, value in step.get("with", {}).items()}
                self.use(step["uses"].split("@")[0].removeprefix("actions/"), given, place)
        self.summaries[name] = summary.read_text() if summary.exists() else ""

    def use(self, action, given, place):
        if action == "upload-artifact":
            if (place / given["path"]).exists():  # or it warns
                shutil.copytree(place / given["path"], self.artefacts / given["name"])
        elif action == "download-artifact":
            for one in sorted(self.artefacts.iterdir()):
                if fnmatch.fnmatch(one.name, given["pattern"]):
                    shutil.copytree(one, place / given["path"], dirs_exist_ok=True)
        elif action == "cache/save":
            shutil.copytree(place / given["path"], self.caches / given["key"])
        elif action == "cache/restore":
            found = sorted(self.caches.glob(given["restore-keys"] + "*"))
            if found:
                shutil.copytree(found[-1], place / given["path"])
        else:
            assert action in ("checkout", "setup-python", "cache"), action


class GitLab(Service):
    """As much of GitLab CI as gitlab.yml uses."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.main, self.artefacts, self.tokens = self.folder / "main", self.folder / "artefacts", []

    def run(self, event, kinds, **variables):
        shutil.rmtree(self.artefacts, ignore_errors=True)
        whole = safe_load((HERE / "gitlab.yml").read_text())
        jobs = {name: {**whole["default"], **whole[job["extends"]], **job} for name, job in whole.items() if isinstance(job, dict) and "extends" in job}
        with self.server() as address:
            common = {"CI_API_V4_URL": address, "CI_PROJECT_ID": "7", "CI_DEFAULT_BRANCH": "main", "CI_JOB_TOKEN": "a-token", **variables}
            if event == "pull_request":
                common["CI_MERGE_REQUEST_IID"] = "3"
            for stage in whole["stages"]:
                for name, job in jobs.items():
                    if job["stage"] == stage and name.split("-")[0] in kinds:
                        self.run_job(name, job, common)
        if event == "push":
            shutil.rmtree(self.main, ignore_errors=True)
            shutil.copytree(self.artefacts, self.main)

    def run_job(self, name, job, common):
        for number in range(1, job.get("parallel", 1) + 1):
            called = f"{name} {number}/{job['parallel']}" if "parallel" in job else name
            place = self.workspace(called)
            for needed in job.get("needs", []):
                shutil.copytree(self.artefacts / needed, place, dirs_exist_ok=True)
            variables = {**common, "CI_JOB_NAME": name, **job.get("variables", {})}
            if "parallel" in job:
                variables |= {"CI_NODE_INDEX": str(number), "CI_NODE_TOTAL": str(job["parallel"])}
            # A job's script ends with its first line that fails.
            any(not self.shell(called, line, place, variables) for line in [*job["before_script"], *job["script"]])
            for line in job.get("after_script", []):
                self.shell(f"{called}", line, place, variables)
            for path in job["artifacts"]["paths"]:
                self.keep(place, path, self.artefacts / name)
            if "reports" in job["artifacts"]:
                assert (place / job["artifacts"]["reports"]["junit"]).is_file()
            summary = place / "results/summary.md"
            self.summaries[called] = summary.read_text() if summary.exists() else ""

    @staticmethod
    def keep(place, path, store):
        if (place / path).is_dir():
            shutil.copytree(place / path, store / path, dirs_exist_ok=True)
        elif (place / path).exists():
            shutil.copy(place / path, store / path)

    def server(self):
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                service.tokens.append(self.headers["JOB-TOKEN"])
                address = urllib.parse.urlparse(self.path)
                path = address.path.removeprefix("/projects/7/jobs/artifacts/main/raw/")
                file = service.main / urllib.parse.parse_qs(address.query)["job"][0] / path
                self.send_response(200 if file.is_file() else 404)
                self.end_headers()
                self.wfile.write(file.read_bytes() if file.is_file() else b"{}")

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def __enter__(self):
                threading.Thread(target=self.serve_forever, daemon=True).start()
                return "http://127.0.0.1:%d" % self.server_port

            def __exit__(self, *_):
                self.shutdown()
                self.server_close()

        return Server(("127.0.0.1", 0), Handler)


class Samples:
    """What is asked of both."""
    service = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def ran(self, service, event, *jobs, **variables):
        service.output, service.statuses = "", {}
        service.run(event, jobs or ("check", "verdict", "bench"), **{"PLUMBLINE_CHECK": CHECKS, **variables})
        return {job: service.status(job) for job in service.statuses}

    def test_from_the_first_run_to_a_regression(self):
        service = self.service(self.folder)
        self.every_step_runs(service)
        self.an_unchanged_pair_is_quiet(service)
        self.a_regression_of_a_twentieth_is_named(service)

    def every_step_runs(self, service):
        self.assertEqual(set(self.ran(service, "pull_request").values()), {0}, service.output)
        for device in ("cpu", "gpu"):
            self.assertIn("**passed**", service.summaries[self.verdict + device])
        self.assertIn("main branch has no record yet", service.summaries[self.bench])

    def an_unchanged_pair_is_quiet(self, service):
        for event, seed in (("push", "10"), ("pull_request", "20")):
            self.assertEqual(set(self.ran(service, event, "bench", FACTOR="1", SEED=seed).values()), {0}, service.output)
        self.assertIn("2 series: 2 same", service.summaries[self.bench])

    def a_regression_of_a_twentieth_is_named(self, service):
        ended = self.ran(service, "pull_request", "bench", FACTOR="1.05", SEED="30")
        self.assertEqual(ended, {self.bench: 1, self.bench.replace("cpu", "gpu"): 1}, service.output)
        table = service.summaries[self.bench].split("### Speed against the main branch")[1]
        (row,) = [line for line in table.splitlines() if "| slower " in line]
        self.assertIn("bytes=65536", row)
        self.assertRegex(row, r"\| \+[45]\.\d % \|")


class OnGitHub(Samples, unittest.TestCase):
    service, verdict, bench = GitHub, "verdict ", "bench cpu"

    def test_a_requirement_that_fails_is_named(self):
        service = GitHub(self.folder, FAULTS)
        ended = self.ran(service, "pull_request", "check", "verdict", PLUMBLINE_CHECK=FAILING)
        self.assertEqual(ended[self.verdict + "cpu"], 1, service.output)
        self.assertIn("### Failures", service.summaries[self.verdict + "cpu"])
        self.assertIn("HARNESS-90", service.summaries[self.verdict + "cpu"])


class OnGitLab(Samples, unittest.TestCase):
    service, verdict, bench = GitLab, "verdict-", "bench-cpu"

    def every_step_runs(self, service):
        super().every_step_runs(service)
        self.assertEqual(set(service.tokens), {"a-token"})


class Steps(unittest.TestCase):
    def test_bad_input_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            for words, status, why in (([], 2, "no step ''; there are install, check"), (["chekc"], 2, "no step 'chekc'"), (["install"], 2, "one wheel"),
                                       (["check"], 2, "check ''; it is I/N"), (["check", "0/2"], 2, "check '0/2'"), (["check", "1/1"], 2, "two parts"), (["base"], 2, "one address"),
                                       (["base", "http://127.0.0.1:1/"], 3, "no answer from 'http://127.0.0.1:1/'"),
                                       (["merge"], 3, "no record results/check-I-N/run.jsonl"), (["gate"], 3, "no record results/bench/run.jsonl"),
                                       (["keep"], 3, "no record results/bench/run.jsonl"), (["summary"], 3, "no record in results/check")):
                done = subprocess.run([HERE / "steps", *words], cwd=folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, status, words)
                self.assertIn(why, done.stderr)
                self.assertEqual(done.stderr.splitlines()[-1][:7], "steps: ")

    def test_the_help_has_every_step(self):
        text = subprocess.run([HERE / "steps", "--help"], capture_output=True, text=True, check=True).stdout
        for step in re.findall(r"(?m)^step_(\w+)\(\)", (HERE / "steps").read_text()):
            self.assertIn(f"  steps {step} ", text)

    def test_samples_are_valid(self):
        for name, schema in (("github", "vendor.github-workflows"), ("gitlab", "vendor.gitlab-ci")):
            words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(HERE / f"{name}.yml")]
            done = subprocess.run(words, capture_output=True, text=True)
            if "No module named check_jsonschema" in done.stderr:
                self.skipTest("no check-jsonschema here (pip install check-jsonschema)")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_fork_runs_nothing_on_own_machines(self):
        jobs = safe_load((HERE / "github.yml").read_text())["jobs"]
        own = [job for job in jobs.values() if "self-hosted" in json.dumps(job["strategy"])]
        self.assertEqual(len(own), 2)
        for job in own:
            self.assertEqual(job["if"], "${{ github.event_name == 'push' || github.event.pull_request.head.repo.full_name == github.repository }}")

    def test_steps_of_the_samples_are_steps(self):
        known = re.findall(r"(?m)^step_(\w+)\(\)", (HERE / "steps").read_text())
        for name, own in (("github.yml", {"base"}), ("gitlab.yml", {"keep"})):
            used = re.findall(r"(?m)^[^#\n]*ci/workflows/steps (\w+)", (HERE / name).read_text())
            self.assertEqual(set(used), set(known) - own, name)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
