"""scoreboard: the table says what the records say, each disagreement finds its cause, and what has none is an exit status of 1.

    python3 scoreboard_test.py [PLUMBLINE]    with the program and PyTorch also the adapter of PyTorch, on a few requirements
"""

import ast
import contextlib
import html.parser
import importlib.machinery
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import made_records as made

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "results"))
from plumbline_results import __main__ as commands
from plumbline_results.options import BadInput
from plumbline_results.scoreboard.causes import load_causes

PLUMBLINE = ""
CAUSES = """
[[disagreement]]
id = "order"
framework = "Acme"
versions = ["1.*"]
kind = "convention"
title = "Acme adds from the last rank"
cases = ["sum[world=*]"]
requirements = ["COLL-001"]
text = "The order of `sum` is another."
suite = "COLL-001"
framework_source = "https://example.org/acme.py"

[[disagreement]]
id = "place"
framework = "Acme"
versions = ["1.2"]
kind = "defect"
title = "No place"
cases = ["place*"]
requirements = ["TOPO-*"]
text = "It has none."
framework_source = "place.c"
reproduction = "repro.py"
"""


def subject(name, version):
    return {"type": "subject", "capabilities": {}, "environment": {}, "name": name, "version": version, "conventions": {"acme": "1"}}


def run_of(name, version, *results, complete=True):
    plan = [made.planned(one["case"], one["requirements"]) for one in results]
    return [made.header(plan, subject="adapter acme"), subject(name, version), *results, *([made.COMPLETE] if complete else [])]


def acme(version="1.2", name="Acme", **more):
    fault = made.rank(0, "fail", [{"where": "a.cpp:1", "message": "<b>3</b> | is not 4"}])
    return run_of(
        name,
        version,
        made.result("sum[world=2]", ["COLL-001", "COLL-002"], "fail", violated=["COLL-001"], ranks=[fault]),
        made.result("root[world=2]", ["COLL-002"]),
        made.result("place[world=2]", ["TOPO-001"], "warn", reason="it does not"),
        **more,
    )


def other():
    return run_of("Bolt", "0.1", made.result("sum[world=2]", ["COLL-001"]), made.result("root[world=2]", ["COLL-002"], "skip", reason="not claimed"))


class Scoreboard(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "repro.py").write_text("")
        self.causes = self.folder / "causes.toml"
        self.causes.write_text(CAUSES)

    def record(self, name, lines):
        return str(made.write(self.folder / name, *lines))

    def call(self, *words):
        out, error = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            status = commands.main(["scoreboard", *words, "--causes", str(self.causes)])
        return status, "".join(one.buffer.getvalue().decode("utf-8") for one in (out, error))

    def board(self, *records):
        out = self.folder / "board.json"
        status, said = self.call(*records, "--format", "json", "--out", str(out))
        return status, json.loads(out.read_text()), said

    def test_rows_are_requirements_and_columns_are_frameworks_with_versions(self):
        status, board, _ = self.board(self.record("a", acme()), self.record("b", other()))
        self.assertEqual(status, 0)
        self.assertEqual([(one["name"], one["version"]) for one in board["frameworks"]], [("Acme", "1.2"), ("Bolt", "0.1")])
        verdicts = {row["id"]: [cell and cell["verdict"] for cell in row["cells"]] for row in board["requirements"]}
        self.assertEqual(verdicts, {"COLL-001": ["fail", "pass"], "COLL-002": ["pass", "skip"], "TOPO-001": ["warn", None]})
        self.assertEqual(board["requirements"][0]["component"], "collectives")

    def test_each_disagreement_has_its_cause(self):
        _, board, said = self.board(self.record("a", acme()))
        self.assertEqual([(one["requirement"], one["cause"]) for one in board["disagreements"]], [("COLL-001", "order"), ("TOPO-001", "place")])
        self.assertIn("1 convention, 1 defect", said)

    def test_a_disagreement_without_a_cause_is_status_1_and_is_listed(self):
        for lines, missing in ((acme(version="1.3"), "TOPO-001"), (acme(name="Else"), "COLL-001")):
            status, board, said = self.board(self.record("a", lines))
            self.assertEqual(status, 1)
            self.assertIn(missing, [one["requirement"] for one in board["disagreements"] if one["cause"] is None])
            self.assertIn("unexplained", said)

    def test_what_did_not_end_is_status_1(self):
        status, board, said = self.board(self.record("a", acme(complete=False)))
        self.assertEqual((status, board["unfinished"]), (1, ["Acme 1.2"]))
        self.assertIn("unfinished: Acme 1.2", said)
        status, board, _ = self.board(self.record("b", run_of("Bolt", "1", made.result("sum[world=2]", ["COLL-001"], "inconclusive"))))
        self.assertEqual((status, board["unexplained"]), (1, 1))

    def test_what_has_no_verdict_is_listed_and_named(self):
        lines = run_of("Bolt", "1", made.result("sum[world=2]", ["COLL-001"], "inconclusive", reason="too busy"))
        lines[0]["plan"].append(made.planned("root[world=2]", ["COLL-002"]))  # which never came
        record = self.record("b", lines)
        status, board, said = self.board(record)
        self.assertEqual((status, board["unexplained"], board["disagreements"]), (1, 2, []))
        self.assertEqual([(one["requirement"], one["judgement"]) for one in board["undecided"]], [("COLL-001", "inconclusive"), ("COLL-002", "missing")])
        self.assertIn("no verdict, which nothing explains: 2 cases and requirements", said)
        page = self.call(record, "--format", "md")[1]
        self.assertIn("COLL-001, inconclusive, <code>sum&#91;world=2&#93;</code>: too busy", page)
        self.assertIn("COLL-002, missing, ", page)
        if importlib.util.find_spec("jinja2"):
            self.call(record)
            self.assertIn("too busy", (Path(record) / "scoreboard.html").read_text("utf-8"))

    def test_an_entry_explains_no_crash_and_no_other_words_unless_it_says_so(self):
        crash = [made.rank(0, "crash", [{"where": "a.cpp:1", "message": "segmentation fault"}])]
        lines = run_of("Acme", "1.2", made.result("sum[world=2]", ["COLL-001"], "crash", ranks=crash), made.result("place", ["TOPO-001"], "warn", reason="no [place]"))
        kind = 'kind = "convention"\n'
        for more, explained in (("", False), ('verdict = ["fail", "crash"]\n', True), ('verdict = ["crash"]\nwhat = "segmentation*"\n', True),
                                ('verdict = ["crash"]\nwhat = "abort*"\n', False), ('what = "segmentation*"\n', False)):
            self.causes.write_text(CAUSES.replace(kind, kind + more).replace('id = "place"', 'id = "place"\nwhat = "no [place]"'))
            status, board, _ = self.board(self.record("a", lines))
            self.assertEqual([one["cause"] for one in board["disagreements"]], ["order" if explained else None, "place"], more)
            self.assertEqual(status, 0 if explained else 1, more)

    def test_a_limit_of_an_adapter_is_a_kind_of_its_own(self):
        self.causes.write_text(CAUSES.replace('kind = "convention"', 'kind = "adapter"').replace('suite = "COLL-001"\n', ""))
        status, _, said = self.board(self.record("a", acme()))
        self.assertEqual(status, 0)
        self.assertIn("1 defect, 1 adapter", said)

    def test_an_entry_that_explains_nothing_is_named(self):
        lines = run_of("Acme", "1.2", made.result("sum[world=2]", ["COLL-001"]))
        status, _, said = self.board(self.record("a", lines))
        self.assertEqual(status, 0)
        self.assertIn("'order' explains nothing now", said)
        self.assertIn("'place' explains nothing now", said)

    def test_the_page_is_whole_and_escapes_what_a_record_says(self):
        try:
            import jinja2  # noqa: F401
        except ModuleNotFoundError:
            self.skipTest("no jinja2")
        hostile = acme(version="1.3<script>alert(1)</script>")
        record = self.record("a", hostile)
        status, said = self.call(record)
        page = (self.folder / "a" / "scoreboard.html").read_text("utf-8")
        self.assertEqual(status, 1)
        self.assertIn("scoreboard.html", said)
        self.assertNotIn("<script>alert", page)
        self.assertNotIn("<b>3</b>", page)
        self.assertIn("No place", self.page_of(acme()))
        for words in ("Acme adds from the last rank", "https://example.org/acme.py", "repro.py", 'title="Acme adds from the last rank">convention</a>'):
            self.assertIn(words, self.page_of(acme()))
        links = Anchors(self.page_of(acme()))
        self.assertEqual(links.wanted - links.ids, set())

    def page_of(self, lines):
        record = self.record("p", lines)
        self.call(record)
        return (Path(record) / "scoreboard.html").read_text("utf-8")

    def test_markdown_escapes_cells(self):
        status, said = self.call(self.record("a", acme(version="1.3|x")), "--format", "md")
        self.assertEqual(status, 1)
        self.assertIn("Acme 1.3\\|x", said)
        self.assertIn("&lt;b&gt;3&lt;/b&gt; \\| is not 4", self.call(self.record("b", acme(name="E")), "--format", "md")[1])

    def test_markdown_escapes_ids_cases_and_names(self):
        lines = run_of("Acme `<i>`", "1", made.result("a`b`<img src=x>", ["X|<img src=x>"], "inconclusive"), complete=False)
        out = self.folder / "board.md"
        self.call(self.record("a", lines), "--format", "md", "--out", str(out))
        page = out.read_text("utf-8")
        self.assertNotRegex(page, r"<i(mg)?\b")
        self.assertIn("X\\|", page)
        self.assertNotRegex(page, r"(?<!\\)`")

    def test_what_utf_8_does_not_have_is_no_traceback(self):
        lines = acme()
        lines[1]["conventions"] = {"\ud800": "\udfff"}
        status, board, _ = self.board(self.record("a", lines))
        self.assertEqual((status, board["frameworks"][0]["conventions"]), (0, {"\\ud800": "\\udfff"}))

    def test_bad_input_is_one_line_and_status_2(self):
        record, bench = self.record("a", acme()), self.record("b", [made.header(command="bench"), made.COMPLETE])
        for words in (
            [record, "--format", "pdf"],
            [record, record],
            [bench],
            [str(self.folder / "none")],
            [],
            [record, "--nonsense"],
        ):
            status, said = self.call(*words)
            self.assertEqual(status, 2, said)
            self.assertEqual(said.count("\n"), 1, said)

    def test_a_bad_table_of_causes_says_where(self):
        for was, becomes, said in (
            ('kind = "defect"', 'kind = "fault"', "kind 'fault'"),
            ('reproduction = "repro.py"', 'reproduction = "none.py"', "no file"),
            ('reproduction = "repro.py"\n', "", "reproduction is missing"),
            ('suite = "COLL-001"\n', "", "suite is missing"),
            ('requirements = ["COLL-001"]\n', "", "requirements is missing"),
            ('requirements = ["TOPO-*"]\n', "", "requirements is missing"),
            ('versions = ["1.2"]', 'versions = ["1.2"]\nverdict = ["skip"]', "verdict 'skip'"),
            ('id = "place"', 'id = "order"', "twice"),
            ('versions = ["1.2"]', "versions = []", "versions"),
            ('title = "No place"', 'titel = "No place"', "unknown key 'titel'"),
            ("[[disagreement]]", "[disagreement", "not TOML"),
        ):
            self.causes.write_text(CAUSES.replace(was, becomes))
            with self.assertRaises(BadInput) as caught:
                load_causes(self.causes)
            self.assertIn(said, str(caught.exception))

    def test_the_committed_table_is_well_formed(self):
        self.assertIsInstance(load_causes(ROOT / "conformance" / "adapters" / "disagreements.toml"), list)


class Anchors(html.parser.HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.ids, self.wanted = set(), set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.ids.add(value)
            if name == "href" and value.startswith("#"):
                self.wanted.add(value[1:])


class Command(unittest.TestCase):
    """ci/adapters, which needs no framework to say what is wrong."""

    def call(self, *words):
        return subprocess.run([sys.executable, ROOT / "ci" / "adapters", *words], capture_output=True, text=True)

    def test_bad_options_are_one_line_and_status_2(self):
        for words in (["--only", "tensorflow"], ["--nonsense"], ["--venv", "/nowhere"], ["--out"]):
            done = self.call(*words)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)

    def test_help_and_a_missing_program(self):
        self.assertEqual(self.call("--help").returncode, 0)
        done = self.call("--plumbline", "/nowhere/plumbline")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (3, 1))

    def test_what_is_no_folder_or_no_program_is_one_line(self):
        readme = str(ROOT / "README.md")
        for words, status in ((["--out", readme], 2), (["--venv", readme, "--install"], 2), (["--plumbline", str(ROOT)], 3), (["--plumbline", readme], 3)):
            done = self.call(*words)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (status, "", 1), done.stderr)

    def test_each_folder_is_whole(self):
        for adapter in (ROOT / "conformance" / "adapters").glob("*/adapter.py"):
            self.assertRegex((adapter.parent / "requirements.txt").read_text(), r"==[0-9.]+\n$")


def loaded(path):
    """A program of Python as a module."""
    loader = importlib.machinery.SourceFileLoader(path.name.removesuffix(".py"), str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


GREETS = 'print(\'{"id": 1, "result": {}}\')\n'


class Program(unittest.TestCase):
    """ci/adapters with a framework and a program that are made for a test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.adapters = loaded(ROOT / "ci" / "adapters")
        self.adapters.ADAPTERS, self.adapters.FRAMEWORKS, self.out = self.folder, ["acme"], self.folder / "out"
        self.framework("# pip install\npip==1\n", GREETS)

    def framework(self, requirements, adapter):
        (self.folder / "acme").mkdir(exist_ok=True)
        (self.folder / "acme" / "requirements.txt").write_text(requirements)
        (self.folder / "acme" / "adapter.py").write_text(adapter)

    def program(self, text):
        path = self.folder / "plumbline"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def call(self, program, *words):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = self.adapters.main(["--venv", sys.prefix, "--plumbline", str(program), *(words or ("--out", str(self.out)))])
        return status, said.getvalue()

    def record(self, name, lines):
        made.write(self.folder / name, *lines)
        return f'for word; do [ "$before" = --out ] && out=$word; before=$word; done; cp {self.folder / name}/run.jsonl "$out"; exit 1\n'

    def test_runs_without_a_folder_keep_those_before_them(self):
        self.adapters.ROOT = self.folder
        runs, link = self.folder / "results" / "runs", self.folder / "results" / "latest" / "adapters"
        program = self.program(self.record("whole", other()))
        self.assertEqual(self.call(self.folder / "none", "--only", "acme")[0], 3)
        self.assertFalse(runs.exists())
        for count in (1, 2):
            status, said = self.call(program, "--only", "acme")
            self.assertIn(status, (0, 1), said)
            self.assertEqual(sum((one / "acme" / "run.jsonl").exists() for one in runs.iterdir()), count)
            self.assertIn(str(link.resolve()), said)

    def test_a_record_of_an_earlier_run_is_not_taken(self):
        made.write(self.out / "acme", *other())
        status, said = self.call(self.program("exit 3\n"))
        self.assertEqual(status, 3, said)
        self.assertFalse((self.out / "acme" / "run.jsonl").exists())

    def test_the_status_is_of_what_the_records_say_also_without_jinja2(self):
        program = self.program(self.record("a", acme(name="Else")))
        for has in (True, False):
            with unittest.mock.patch("importlib.util.find_spec", lambda name, has=has: has or None):
                status, said = self.call(program)
            self.assertEqual(status, 1, said)
            self.assertEqual("scoreboard.html is left out" in said, not has, said)
            self.assertTrue((self.out / "scoreboard.json").exists())

    def test_an_adapter_that_does_not_greet_is_skipped(self):
        self.framework("# pip install\npip==1\n", "import time\ntime.sleep(60)\n")
        self.adapters.PATIENCE = 1
        status, said = self.call(self.program("exit 0\n"))
        self.assertEqual(status, 3)
        self.assertIn("acme: skipped: it gives no answer in 1 s", said)

    def test_requirements_without_a_command_are_those_of_pip_install(self):
        self.framework("one==1\ntwo==2\n", GREETS)
        self.assertEqual(self.adapters.pins_of("acme"), [({}, ["install"], ["one==1", "two==2"])])
        self.framework("# nothing\n", GREETS)
        self.assertIn("acme: skipped: its requirements.txt pins nothing", self.call(self.program("exit 0\n"))[1])


ASKS = """
import sys
sys.path[:0] = [{common!r}, {site!r}]
from framework import asked, at_most, no_answer, serve
import acme

def callback():
    raise ValueError("of a stub")

serve("Acme", "1", {{
    "rejects": lambda: acme.rejects(), "asserts": lambda: acme.asserts(), "signature": lambda: asked(acme.rejects, 3), "built_in": lambda: asked(int, "x"),
    "own_error": lambda: 1 + "x", "own_signature": lambda: acme.rejects(3), "own_refusal": lambda: at_most(1, 2, "too many"), "none": lambda: no_answer("no rank"),
    "stub": lambda: acme.calls(callback), "takes": lambda number: number,
}}, conventions={{"acme": "1"}})
"""
ACME = """
def rejects(): raise RuntimeError("bad value")
def asserts(): assert False, "bad value"
def calls(one): one()
"""


class Refusals(unittest.TestCase):
    """conformance/adapters: what a check takes for a framework's refusal is the framework's."""

    def kinds(self, *operations):
        with tempfile.TemporaryDirectory() as folder:
            site, common, acme = (Path(folder) / name for name in ("site-packages", "common", "acme"))
            for one in (site, acme):
                one.mkdir()
            shutil.copytree(ROOT / "conformance" / "adapters" / "common", common)
            (site / "acme.py").write_text(ACME)
            (acme / "adapter.py").write_text(ASKS.format(common=str(common), site=str(site)))
            asked = "".join(json.dumps({"id": at, "op": op, "args": {"convention": "acme"}}) + "\n" for at, op in enumerate(operations))
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "harness" / "subject" / "adapter" / "python")}
            done = subprocess.run([sys.executable, "-B", acme / "adapter.py"], input=asked, capture_output=True, text=True, env=environment)
        return {op: json.loads(line)["error"]["kind"] for op, line in zip(operations, done.stdout.splitlines(), strict=True)}

    def test_those_of_a_framework_are_refusals_and_those_of_an_adapter_are_not(self):
        refused = dict.fromkeys(("rejects", "asserts", "signature", "built_in"), "invalid_argument")
        own = dict.fromkeys(("own_error", "own_signature", "own_refusal", "none", "stub"), "unsupported")
        self.assertEqual(self.kinds(*refused, *own), refused | own)
        self.assertEqual(self.kinds("takes"), {"takes": "invalid_argument"})  # what the protocol does not allow

    def test_an_adapter_refuses_nothing_and_asserts_nothing_in_a_frameworks_place(self):
        for path in (ROOT / "conformance" / "adapters").glob("*/adapter.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                where = f"{path.parent.name}/adapter.py:{getattr(node, 'lineno', 0)}"
                self.assertNotIsInstance(node, ast.Assert, where)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self.assertNotIn(node.id, ("asked", "no_answer"), where)  # what the common module gives
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                    self.assertIn(node.exc.func.id, ("AdapterError", "AttributeError"), where)


class Defects(unittest.TestCase):
    """conformance/adapters/defects: status 1 says that the defect is here, so nothing else may be 1."""

    def test_without_the_framework_it_cannot_be_asked(self):
        for program in sorted((ROOT / "conformance" / "adapters" / "defects").glob("*.py")):
            done = subprocess.run([sys.executable, "-B", "-S", program], capture_output=True, text=True)  # -S: without site-packages
            self.assertEqual((done.returncode, done.stderr), (3, ""), program.name)
            self.assertIn("cannot be asked: ModuleNotFoundError", done.stdout)

    def test_what_crashes_is_not_the_defect(self):
        for program in sorted((ROOT / "conformance" / "adapters" / "defects").glob("*.py")):
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "torch.py").write_text("raise MemoryError('none')")
                done = subprocess.run([sys.executable, "-B", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": folder})
            self.assertEqual(done.returncode, 3, program.name + done.stderr)


class RealPyTorch(unittest.TestCase):
    def test_the_adapter_of_pytorch_answers(self):
        if not PLUMBLINE or subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode:
            self.skipTest("no program or no PyTorch")
        with tempfile.TemporaryDirectory() as folder:
            words = ["--only", "pytorch", "--venv", sys.prefix, "--plumbline", PLUMBLINE, "--out", folder, "--"]
            done = subprocess.run([sys.executable, "-B", ROOT / "ci" / "adapters", *words, "--filter", "BUCKET-011", "SCHED-026", "SCHED-028"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            board = json.loads((Path(folder) / "scoreboard.json").read_text())
        self.assertEqual(board["frameworks"][0]["name"], "PyTorch")
        passed = [row["id"] for row in board["requirements"] if row["cells"][0]["verdict"] == "pass"]
        self.assertEqual(passed, ["SCHED-026", "SCHED-028", "BUCKET-011"], board)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PLUMBLINE = sys.argv.pop(1)
    unittest.main()
