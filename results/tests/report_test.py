#!/usr/bin/env python3
"""Tests `plumbline report` on records that are written here, whole, cut off, damaged and hostile."""

import base64
import contextlib
import hashlib
import html.parser
import io
import json
import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import made_records as made  # noqa: E402

try:
    import jinja2  # noqa: F401
except ImportError:
    print("skipped: no jinja2 here (pip install jinja2)")
    sys.exit(77)

from plumbline_results import report  # noqa: E402
from plumbline_results.report import svg  # noqa: E402
from plumbline_results.report.centre import centre_of  # noqa: E402
from plumbline_results.report.compared import compare  # noqa: E402
from plumbline_results.report.records import BadInput, load, text  # noqa: E402
from plumbline_results.report.verdicts import causes_first, failing, kills_of, outcome_of, requirements_of  # noqa: E402
from plumbline_results.report.words import bytes_text, seconds_text  # noqa: E402

MOST_BYTES = 3 << 20
# Every way out of text into code that HTML, its attributes, SVG or Markdown have.
PAYLOADS = [
    "<script>window.hacked=1</script>",
    '"><img src=x onerror=window.hacked=1>',
    "'><svg onload=window.hacked=1>",
    "</title></style></script><iframe src=javascript:window.hacked=1>",
    "{{ 7*7 }}{% raw %}",
    "javascript:window.hacked=1",
    "]]><!--",
    "| a | b |\n|---|---|",
    "[x](javascript:window.hacked=1)",
    "`<b>`</code><h1>",
    "@everyone #1 http://evil.example/",
    "\x00\x1b[31m\u202e\ud800",
]


class Page(html.parser.HTMLParser):
    """What a browser would make of a page: its tags with their attributes, and its visible text."""

    VOID = {"meta", "input", "br", "img", "path", "rect", "circle"}

    def __init__(self, page):
        super().__init__()
        self.tags, self.words, self.open, self.unbalanced = [], [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.here = Path(tempfile.mkdtemp(prefix="report-"))
        self.addCleanup(__import__("shutil").rmtree, self.here, ignore_errors=True)

    def write(self, name, lines):
        return str(made.write(self.here / name, *lines))

    def run_report(self, *arguments):
        """(status, standard output, standard error)."""
        out, errors = io.BytesIO(), io.StringIO()
        printed = io.TextIOWrapper(out, "utf-8", write_through=True)
        with mock.patch("sys.stdout", printed), contextlib.redirect_stderr(errors):
            try:
                status = report.main(list(map(str, arguments)))
            except SystemExit as end:  # --help
                status = end.code
        return status, out.getvalue().decode("utf-8"), errors.getvalue()

    def page(self, *arguments):
        status, page, errors = self.run_report(*arguments, "--out", "-")
        self.assertEqual((status, errors), (0, ""))
        return page


class VerdictsTest(ReportTest):
    def test_a_requirement_is_as_bad_as_its_worst_case_that_is_about_it(self):
        rows = requirements_of([self.load(made.failing_run())])
        self.assertEqual(
            {name: row.worst for name, row in rows.items()},
            {"COLL-001": "fail", "COLL-002": "pass", "TOPO-001": "warn"},
        )
        self.assertEqual((rows["COLL-001"].tallies["run"].cases, rows["COLL-001"].tallies["run"].bad), (2, 1))

    def test_cases_that_were_skipped_are_no_passes(self):
        cases = [made.result(f"sum[world={n}]", ["COLL-001"], "pass" if n == 2 else "skip") for n in (2, 3, 4)]
        run = self.write("run", [made.header([made.planned(one["case"], ["COLL-001"]) for one in cases]), *cases, made.COMPLETE])
        self.assertIn("| pass (1 of 3 cases) |", self.page(run, "--format", "md"))
        self.assertIn("1 of 3 cases", self.page(run))

    def load(self, lines):
        record = load(self.write("run", lines))
        record.name = "run"
        return record

    def test_an_assertion_caused_what_an_exception_on_another_rank_followed(self):
        [failed] = [one for one in self.load(made.failing_run()).results if one.verdict == "fail"]
        self.assertEqual([one.rank for one in causes_first(failed)], ["1", "0", "2"])

    def test_the_rank_that_the_driver_names_is_the_cause(self):
        lines = made.failing_run()
        lines[3]["reason"] = "rank 2: it was first"
        [failed] = [one for one in self.load(lines).results if one.verdict == "fail"]
        self.assertEqual(causes_first(failed)[0].rank, "2")

    def test_status_of_a_run(self):
        passing = [made.header([made.planned("a", ["COLL-001"])]), made.result("a", ["COLL-001"])]
        for lines, status, word in (
            (made.failing_run(), 1, "failed"),
            (passing + [made.COMPLETE], 0, "passed"),
            (passing, 3, "incomplete"),
            (passing[:1] + [made.COMPLETE], 1, "failed"),
            (passing[:1], 1, "incomplete"),
            ([made.header(), made.COMPLETE], 3, "nothing ran"),
            (passing + [{"type": "stopped", "why": "--budget"}], 3, "stopped"),
            ([passing[0], made.result("a", ["COLL-001"], "error"), made.COMPLETE], 3, "error"),
            (made.measured_run(), 0, "measured"),
        ):
            with self.subTest(word=word, lines=len(lines)):
                outcome = outcome_of(self.load(lines))
                self.assertEqual((outcome.status, outcome.word), (status, word))

    def test_an_expectation_changes_what_a_verdict_counts_as(self):
        known = {"kind": "expectation", "verdict": "fail", "reason": "known", "origin": "expect.toml:3"}
        for verdict, expectation, judgement, bad in (
            ("fail", known, "expected-fail", False),
            ("crash", known, "crash", True),
            ("pass", known, "unexpected-pass", True),
            ("fail", known | {"kind": "waiver"}, "waived", False),
            ("skip", known | {"run": False}, "expected-fail", False),
            ("flake", known | {"verdict": "flake"}, "flake", False),
        ):
            with self.subTest(verdict=verdict, judgement=judgement):
                record = self.load(
                    [made.header(), made.result("a", [], verdict, expectation=expectation), made.COMPLETE]
                )
                self.assertEqual((record.results[0].judgement, record.results[0].bad), (judgement, bad))

    def test_of_several_attempts_the_last_counts_and_a_control_is_not_the_subjects(self):
        record = self.load(
            [
                made.header([made.planned("a", ["COLL-001"])]),
                made.result("a", ["COLL-001"], "crash"),
                made.result("a", ["COLL-001"], "fail", role="control"),
                made.result("a", ["COLL-001"], attempt=2),
                made.COMPLETE,
            ]
        )
        self.assertEqual([one.verdict for one in record.results], ["pass"])
        self.assertEqual([one.verdict for one in record.controls], ["fail"])

    def test_kills(self):
        must = {"kind": "expectation", "verdict": "fail", "reason": "it drops one", "origin": "mutant m"}
        usual = [made.result(case, ["COLL-001"]) for case in ("shows", "hides", "broken")]
        usual[2]["verdict"] = "fail"
        trial = lambda mutant, case, verdict, **more: made.result(case, ["COLL-001"], verdict, mutant=mutant, **more)
        record = self.load(
            [
                made.header(command="mutants"),
                *usual,
                trial("m.killed", "shows", "fail", expectation=must),
                trial("m.killed", "hides", "pass"),
                trial("m.survives", "shows", "pass", expectation=must),
                trial("m.nowhere", "broken", "fail", expectation=must),
                made.COMPLETE,
            ]
        )
        self.assertEqual(
            {one.mutant: one.word for one in kills_of(record)},
            {"m.killed": "killed", "m.survives": "survived", "m.nowhere": "inconclusive"},
        )
        # A square where it is found.
        page = self.page(record.path)
        self.assertIn("1 of 3 killed", page)
        self.assertEqual(page.count('<g class="cell">'), 1)
        self.assertIn("<title>m.killed, COLL-001: fail</title>", page)

    def test_failures_are_by_requirement(self):
        self.assertEqual(failing(self.load(made.failing_run())).keys(), {"COLL-001"})


class NumbersTest(unittest.TestCase):
    def test_intervals_of_a_median_are_those_of_the_binomial_distribution(self):
        # From 6 samples on both ends together hold the median with 95 %: 1 - 2 / 2^6 = 0.969. From 9 on the second ones do: 1 - 2 (1 + 9) / 2^9.
        for count, low, high, confidence in (
            (1, 0, 0, 0.0),
            (5, 0, 4, 0.9375),
            (6, 0, 5, 0.96875),
            (9, 1, 7, 0.9609375),
            (10, 1, 8, 0.978515625),
            (20, 5, 14, 0.9586),
        ):
            centre = centre_of([float(i) for i in reversed(range(count))])
            self.assertEqual((centre.low, centre.high), (low, high), count)
            self.assertAlmostEqual(centre.confidence, confidence, 4)
        self.assertEqual(centre_of([1.0] * 3000).count, 3000)

    def test_words(self):
        self.assertEqual(
            [seconds_text(value) for value in (0, 1.5e-9, 2.5e-6, 0.0123, 1, 75.25)],
            ["0", "1.5 ns", "2.5 µs", "12.3 ms", "1 s", "75.2 s"],
        )
        self.assertEqual(
            [bytes_text(value) for value in (4, 1024, 1536, 25 << 20)], ["4 B", "1 KiB", "1.5 KiB", "25 MiB"]
        )
        self.assertEqual(text("a\x1b[31mb\x00\u202e"), "ab\\u0000\\u202e")

    def test_scales(self):
        scale = svg.Scale(svg.Axis("", log=10), [1e-6, 1e-3], 0, 100)
        self.assertAlmostEqual(scale(10**-4.5), 50)
        self.assertEqual([round(tick, 9) for tick in scale.ticks()], [1e-6, 1e-5, 1e-4, 1e-3])
        self.assertEqual(svg.round_ticks(0, 7, 6), [0, 2, 4, 6])
        for low, high in ((-1e308, 1e308), (0, 1.7e308), (0, 5e-324), (-5e-324, 5e-324), (1e308, 1.0000000000000002e308), (0, 1e-310)):
            self.assertTrue(all(low <= tick <= high for tick in svg.round_ticks(low, high, 6)), (low, high))
        for values in ([], [0.0], [5.0], [-1.0, -1.0], [0.0, 1e300], [-1e308, 1e308], [5e-324], [5e-324, 1e308]):
            for axis in (svg.Axis(""), svg.Axis("", log=10), svg.Axis("", zero=True)):
                scale = svg.Scale(axis, values, 0, 100)
                self.assertTrue(scale.ticks())
                self.assertTrue(all(0 <= scale(value) <= 100 for value in [*values, 1.0]))


class PageTest(ReportTest):
    def test_a_page_has_the_verdicts_the_sentences_and_the_cause_first(self):
        page = Page(self.page(self.write("run", made.failing_run())))
        self.assertEqual(page.unbalanced + page.open, [])
        for words in (
            "Acme CCL",
            "all_reduce MUST return the sum.",
            "COL-02; MPI-3.1 section 5.9",
            "element 3 of 4 differs",
            "what it printed",
            "plumbline check --filter 'sum[world=3]'",
            "an example",
            "16 GiB",
            "2026-01-02T03:04:05Z",
        ):
            self.assertIn(words, page.text)
        self.assertLess(page.text.index("rank 1"), page.text.index("rank 0"))
        self.assertLess(page.text.index("Failures"), page.text.index("Environment"))

    def test_a_list_of_a_requirement_is_one_on_every_page(self):
        lines = made.failing_run()
        words = "`sum` MUST hold:\n- on `A`;\n- on <b>."
        lines[0]["requirements"] = made.REQUIREMENTS | {"COLL-001": made.REQUIREMENTS["COLL-001"] | {"text": words}}
        run = self.write("run", lines)
        page = self.page(run)
        self.assertEqual(Page(page).unbalanced + Page(page).open, [])
        self.assertIn("<code>sum</code> MUST hold:<ul><li>on <code>A</code>;</li><li>on &lt;b&gt;.</li></ul>", page)
        self.assertIn("<code>sum</code> MUST hold:<br>– on <code>A</code>;<br>– on &lt;b&gt;.</span></summary>", page)
        self.assertIn("MUST hold:<br>- on \\`A\\`;<br>- on &lt;b&gt;. |", self.page(run, "--format", "md"))

    def test_it_needs_nothing_from_anywhere(self):
        page = Page(self.page(self.write("run", made.failing_run()), self.write("bench", made.measured_run())))
        for tag, attributes in page.tags:
            self.assertNotIn(tag, ("link", "img", "iframe", "object", "embed", "base", "use", "image"))
            self.assertNotIn("src", attributes)
            self.assertNotIn("style", attributes)
            self.assertFalse([name for name in attributes if name.startswith("on")], attributes)
            self.assertTrue(attributes.get("href", "#").startswith("#"), attributes)

    def test_its_policy_names_its_own_style_and_script_alone(self):
        page = self.page(self.write("run", made.failing_run()))
        [policy] = [one["content"] for tag, one in Page(page).tags if tag == "meta" and "http-equiv" in one]
        for tag in ("style", "script"):
            [content] = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            self.assertIn(f"{tag}-src 'sha256-{digest}';", policy)
        self.assertIn("default-src 'none'", policy)

    def test_a_full_run_is_at_most_3_mb(self):
        """As large as a full profile, with one failure in a hundred cases, all benchmarks in 20 launches, and all mutants."""
        requirement = {"level": "must", "text": "`all_reduce` MUST " + "do what it says " * 10, "sources": ["MPI-3.1 section 5.9", "COL-02"]}
        requirements = {f"COLL-{at:03}": requirement for at in range(900)}
        cases = [(f"collectives.case{at}[world={at % 8 + 1},dtype=f32]", [f"COLL-{at % 900:03}"]) for at in range(10_000)]
        wrong = {"where": "a_check.cpp:7", "message": "element 3 of 4 differs", "expected": "12", "got": "13", "bound": "0"}
        ranks = [made.rank(at, "fail", [wrong], last_event="last left all_reduce") for at in range(8)]
        fails = {"verdict": "fail", "output": "what it printed " * 250, "ranks": ranks}
        check = [made.result(*case, **(fails if at % 100 == 0 else {})) for at, case in enumerate(cases)]
        samples = [1e-6 + 1e-9 * at for at in range(60)]
        launches = {"launches": [samples[at:at + 3] for at in range(0, 60, 3)]}
        bench = [made.measurement(f"collectives.op{op}", samples, {"bytes": str(4 << 4 * size)}, **launches) for op in range(31) for size in range(6)]
        mutants = [made.result(*cases[at], "fail", mutant=f"col.mutant_number_{at}") for at in range(2700)]
        page = self.page(self.write("check", [made.header([made.planned(*case) for case in cases], requirements=requirements), *check, made.COMPLETE]),
                         self.write("bench", [made.header(command="bench", requirements={}), *bench, made.COMPLETE]),
                         self.write("mutants", [made.header(command="mutants", requirements=requirements), *mutants, made.COMPLETE]))
        for shown in ("collectives.op30", "col.mutant_number_0<", "collectives.case9900["):
            self.assertTrue(shown in page, shown)
        self.assertLess(len(page.encode()), 3_000_000)

    def test_curves_have_intervals_and_the_limit(self):
        page = self.page(self.write("bench", made.measured_run()))
        # 2 benchmarks of 3 sizes as times, one of them as bandwidths, too.
        self.assertEqual(page.count('<path class="interval"'), 9)
        self.assertIn("limit: copying", page)
        self.assertIn("98 % interval of 7 samples", page)
        self.assertIn("200 µs", page)

    def test_bubbles_are_a_curve_a_schedule_with_the_ranks_below(self):
        labels = {"schedule": "zb-h1", "micro_batches": "4", "chunks": "1", "devices": "emulated", "durations": "F=1"}
        lines = [made.header(command="bench", requirements={})]
        for count, ratio in (("4", 0.25), ("8", 0.125)):
            lines.append(
                made.measurement(
                    "pipeline_bubble",
                    [1.0, 1.0, 1.0],
                    labels | {"micro_batches": count},
                    derived={
                        "bubble_of_makespan_ratio": ratio,
                        "simulated_bubble_of_makespan_ratio": ratio,
                        "ratio_to_simulated": 1.01,
                    },
                )
            )
            for rank in ("0", "1"):
                lines.append(
                    made.measurement(
                        "pipeline_bubble.rank",
                        [ratio] * 3,
                        labels | {"micro_batches": count, "rank": rank},
                        derived={"idle_fill_seconds": ratio / 2, "idle_drain_seconds": ratio / 2},
                    )
                )
        page = Page(self.page(self.write("bubble", lines + [made.COMPLETE])))
        self.assertIn("2 ranks, simulated", page.text)
        self.assertIn("25 % to 25 %", page.text)
        self.assertIn("zb-h1, 8 micro-batches", page.text)
        self.assertNotIn("dependency:", page.text)

    def test_timelines_and_scores(self):
        trace = self.here / "trace.json"
        trace.write_text(
            json.dumps(
                {
                    "traceEvents": [
                        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "a schedule"}},
                        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "rank 0"}},
                        {"ph": "X", "name": "0F0", "cat": "F", "pid": 1, "tid": 1, "ts": 0, "dur": 1e6},
                    ]
                }
            )
        )
        score = self.here / "score.toml"
        score.write_text(
            'component = "topology"\nkilled = 9\ncounted = 10\nscore = "9 of 10"\n[[survivor]]\nat = "grid.cpp:3"\nfunction = "f"\nwas = "a<b"\nbecame = "a<=b"\nneeds = "a row"\n'
            '[[survivor]]\nat = "grid.cpp:4"\nfunction = "g"\nwas = "c"\nbecame = "d"\nequivalent = "c is d"\n'
        )
        page = Page(self.page(self.write("run", made.failing_run()), "--timeline", trace, "--mutation", score))
        for words in ("a schedule", "rank 0: 0F0, 0 to 1 s", "topology 90 %", "grid.cpp:3", "f: a row", "a<=b", "g: equivalent: c is d"):
            self.assertIn(words, page.text)

    def test_changes_since_a_baseline(self):
        before, after = made.failing_run(), made.failing_run()
        before[3] = made.result("sum[world=3]", ["COLL-001", "COLL-002"])
        paths = [self.write("before", before), self.write("slow", made.measured_run(1.5))]
        page = Page(
            self.page(
                self.write("after", after),
                self.write("now", made.measured_run(1.0)),
                "--baseline",
                paths[0],
                "--baseline",
                paths[1],
            )
        )
        self.assertIn("pass → fail COLL-001", page.text)
        comparison = compare([load(paths[1])], [load(self.write("now", made.measured_run(1.0)))])
        # The copies take as long in both.
        self.assertEqual(sorted(one.word for one in comparison.shifts), ["as before"] * 3 + ["shorter"] * 3)
        self.assertEqual({one.word for one in compare([load(paths[1])], [load(paths[1])]).shifts}, {"as before"})
        few = [
            line | {"samples": line["samples"][:5]} if line["type"] == "measurement" else line
            for line in made.measured_run()
        ]
        self.assertEqual(
            {one.word for one in compare([load(paths[1])], [load(self.write("few", few))]).shifts}, {"too few samples"}
        )

    def test_by_launches_the_verdicts_are_those_of_compare(self):
        try:
            import scipy  # noqa: F401
        except ImportError:
            self.skipTest("no scipy here (pip install scipy)")

        def launched(factor):
            return [
                (
                    line
                    | {
                        "launches": [
                            {"samples": [line["samples"][0] * factor * (1 + 0.001 * (i * 7 % 20))] * 3, "host": {}}
                            for i in range(20)
                        ]
                    }
                    if line["type"] == "measurement"
                    else line
                )
                for line in made.measured_run()
            ]

        base = load(self.write("base", launched(1.0)))
        for factor, words in ((1.0, {"same"}), (1.1, {"slower"}), (0.9, {"faster"})):
            comparison = compare([base], [load(self.write("next", launched(factor)))])
            self.assertEqual({one.word for one in comparison.shifts}, words)
            # All six at once: that is the machine, and said.
            self.assertEqual(bool(comparison.machine), factor != 1.0)

    def test_times_of_another_machine_are_marked(self):
        other = self.write("other", made.measured_run(environment={"cpu": "another"}))
        self.assertIn(
            "measured on another machine", self.page(self.write("now", made.measured_run()), "--baseline", other)
        )
        self.assertNotIn(
            "measured on another machine",
            self.page(self.write("now", made.measured_run()), "--baseline", self.write("same", made.measured_run())),
        )

    def test_a_subject_that_fails_everything_still_has_a_page_of_bounded_size(self):
        failures = [{"where": "a.cpp:1", "message": "wrong " * 300, "expected": "1" * 1000, "got": "2" * 1000}] * 3
        ids = [f"COLL-{i:03}" for i in range(900)]
        lines = [
            made.header(
                [made.planned(f"case[{i}]", [ids[i % 900]]) for i in range(1800)],
                requirements={
                    one: {"level": "must", "text": "A sentence of two hundred characters. " * 6, "sources": ["A paper"]}
                    for one in ids
                },
            )
        ]
        lines += [
            made.result(
                f"case[{i}]",
                [ids[i % 900]],
                "fail",
                reason="rank 1: wrong " * 40,
                output="o" * 4000,
                ranks=[made.rank(r, "fail", failures) for r in range(2)],
            )
            for i in range(1800)
        ]
        for name in ("html", "github"):
            page = self.page(self.write("run", lines + [made.COMPLETE]), "--format", name)
            self.assertLess(len(page.encode()), MOST_BYTES if name == "html" else 1 << 20, name)


class EndingsTest(ReportTest):
    def test_a_record_that_is_cut_off_anywhere_has_a_page(self):
        folder = Path(self.write("run", made.failing_run()))
        whole = (folder / "run.jsonl").read_bytes()
        first = whole.index(b"\n") + 1
        for size in [*range(first, len(whole), 211), len(whole) - 2, first, first + 1]:
            (folder / "run.jsonl").write_bytes(whole[:size])
            page = Page(self.page(folder))
            self.assertIn("has no end", page.text, size)
            self.assertEqual(page.unbalanced, [], size)
            self.assertIn(
                "incomplete", self.page(folder, "--format", "github") + "incomplete" * ("failed" in page.text)
            )

    def test_what_an_interrupted_run_did_not_come_to_is_no_failure_of_each_requirement(self):
        folder = self.write("run", made.failing_run()[:3])
        self.assertEqual(list(failing(load(folder))), ["Not reached"])

    def test_fields_that_are_missing_or_of_another_type_are_empty(self):
        lines = made.failing_run() + made.measured_run()[1:4]
        for field in sorted({field for line in lines for field in line} - {"type", "schema"}):
            for value in (None, 5, "words", [[]], [5], {"a": {"b": [None]}}, "remove"):
                changed = [
                    {
                        name: value if name == field else one
                        for name, one in line.items()
                        if name != field or value != "remove"
                    }
                    for line in lines
                ]
                for form in ("html", "github"):
                    status, _, errors = self.run_report(
                        self.write("run", changed), "--format", form, "--out", self.here / "page"
                    )
                    self.assertEqual((status, errors), (0, ""), (field, value, form))

    def test_infinite_and_huge_numbers_are_left_out(self):
        folder = Path(self.write("run", made.measured_run()))
        file = folder / "run.jsonl"
        file.write_text(
            file.read_text()
            .replace("0.00019", "1e999")
            .replace("1e-06", "NaN")
            .replace('"cores": 8', '"cores": 1' + "0" * 400)
        )
        self.assertIn("collectives.all_reduce", self.page(folder))

    def test_damage_before_the_end_is_named_with_its_line(self):
        folder = Path(self.write("run", made.failing_run()))
        lines = (folder / "run.jsonl").read_text().splitlines()
        for damage in ("{", "[1]", '{"a": ' * 100000, '"words"', "5"):
            (folder / "run.jsonl").write_text("\n".join(lines[:2] + [damage] + lines[2:]))
            self.assertRefused([folder], f"{folder}/run.jsonl:3: not an object in JSON")

    def assertRefused(self, arguments, words, status=2):
        got, out, errors = self.run_report(*arguments)
        self.assertEqual((got, out), (status, ""), errors)
        self.assertIn(words, errors)
        self.assertEqual(errors.count("\n"), 1, errors)
        self.assertTrue(errors.startswith("plumbline: report: "), errors)

    def test_bad_input_is_one_line(self):
        run = self.write("run", made.failing_run())
        other = self.write("schema", [made.header(schema=2)])
        (self.here / "empty").write_text("")
        (self.here / "bad.toml").write_text("killed = [")
        (self.here / "few.toml").write_text("killed = 11\ncounted = 10\n")
        for arguments, words in (
            ([], "the following arguments are required: RECORD"),
            ([self.here / "absent"], "absent: No such file or directory"),
            ([run, "--format", "pdf"], "--format 'pdf'; it is html, md or github"),
            ([run, "--colour"], "--colour"),
            ([other], "schema 2; this version reads schema 1"),
            ([self.here / "empty"], "empty: empty"),
            ([self.write("x", [made.COMPLETE])], "begins with a header"),
            ([self.here], "run.jsonl: No such file"),
            ([run, "--baseline", self.here / "no"], "no: No such file"),
            ([run, "--mutation", self.here / "bad.toml"], "bad.toml: not TOML"),
            ([run, "--mutation", self.here / "few.toml"], "no counts 'killed' and 'counted'"),
            ([run, "--timeline", self.here / "bad.toml"], "bad.toml: not JSON"),
            ([run, "--timeline", f"{run}/run.jsonl"], "not JSON"),
            ([run, "--out"], "--out"),
        ):
            with self.subTest(words=words):
                self.assertRefused(arguments, words)

    def test_a_page_that_cannot_be_written_leaves_the_one_before(self):
        run = self.write("run", made.failing_run())
        self.assertRefused([run, "--out", f"{run}/run.jsonl/report.html"], "run.jsonl", 3)
        target = self.here / "report.html"
        target.write_text("before")
        with mock.patch("os.replace", side_effect=OSError(28, "No space left on device")):
            self.assertRefused([run, "--out", target], "No space left on device", 3)
        self.assertEqual(target.read_text(), "before")
        self.assertEqual([one.name for one in self.here.iterdir() if one.name.startswith(".report")], [])

    def test_without_jinja2_it_says_so(self):
        run = self.write("run", made.failing_run())
        from plumbline_results import __main__
        from plumbline_results.report import page

        page._template.cache_clear()
        with mock.patch.dict(sys.modules, {"jinja2": None}):
            err = io.StringIO()
            with contextlib.redirect_stderr(err):
                status = __main__.main(["report", str(run)])
        self.assertEqual((status, err.getvalue().count("\n")), (3, 1))
        self.assertIn("has no jinja2; pip install jinja2 (or 'plumbline-suite[results]'", err.getvalue())

    def test_where_it_goes(self):
        run = self.write("run", made.failing_run())
        self.assertEqual(self.run_report(run)[:2], (0, f"report: {run}/report.html\n"))
        self.assertTrue(Path(run, "report.html").read_text("utf-8").startswith("<!DOCTYPE html>"))
        self.assertIn("## Plumbline", self.run_report(run, "--format", "github")[1])

    def test_help_has_an_example_and_the_exit_statuses(self):
        status, words, _ = self.run_report("--help")
        self.assertEqual(status, 0)
        self.assertIn("Example: plumbline report", words)
        self.assertIn("Exit status: 0", words)

    def test_records_of_one_name_are_told_apart(self):
        paths = [self.write(name, made.measured_run()) for name in ("a/bench", "b/bench", "c")]
        page = Page(self.page(*paths))
        for name in ("a/bench", "b/bench"):
            self.assertIn(name, page.text)


class HostileTest(ReportTest):
    def hostile_lines(self, payload):
        """Every text of a record, field names of free tables too, is the payload; what a reader chooses by is kept."""

        def poisoned(value, name=""):
            if isinstance(value, dict):
                free = name in ("environment", "labels", "derived", "requirements", "values", "capabilities", "facts")
                return {
                    (key + payload if free and name != "labels" else key): poisoned(one, key)
                    for key, one in value.items()
                }
            if isinstance(value, list):
                return [poisoned(one, name) for one in value]
            return (
                value + payload
                if isinstance(value, str) and name not in ("type", "command", "verdict", "bytes", "micro_batches")
                else value
            )

        lines = made.failing_run() + made.measured_run()[1:]
        lines.insert(2, {"type": "note", "text": "n"})
        lines.insert(3, {"type": "step", "step": 1, "loss": 0.5, "values": {"scale": 2}})
        lines.insert(4, {"type": "step", "step": 2, "loss": 0.4, "values": {"scale": 2}})
        lines.insert(
            5,
            made.result(
                "known",
                ["COLL-001"],
                "fail",
                expectation={
                    "kind": "expectation",
                    "verdict": "fail",
                    "reason": "r",
                    "link": "https://a.example/",
                    "origin": "o",
                },
                judgement="expected-fail",
            ),
        )
        lines.insert(6, {"type": "stopped", "why": "w"})
        return [poisoned(line) for line in lines]

    def reports(self, payload, form):
        trace = self.here / "trace.json"
        trace.write_text(
            json.dumps(
                {
                    "traceEvents": [
                        {"ph": "M", "name": "thread_name", "pid": payload, "tid": 1, "args": {"name": payload}},
                        {"ph": "X", "name": payload, "cat": payload, "pid": payload, "tid": 1, "ts": 0, "dur": 1e6},
                    ]
                }
            )
        )
        lines = self.hostile_lines(payload)
        mutants = [
            lines[0] | {"command": "mutants"},
            *(line | {"mutant": payload} for line in lines if line["type"] == "result"),
        ]
        before = [line | {"verdict": "crash"} if line["type"] == "result" else line for line in lines]
        return self.page(
            self.write("run", lines),
            self.write("mutants", mutants),
            "--baseline",
            self.write("before", before),
            "--timeline",
            trace,
            "--title",
            payload.replace("\x00", ""),
            "--format",
            form,
        )

    def test_nothing_of_a_record_becomes_a_tag_or_an_attribute(self):
        allowed = {name for name, _ in Page(self.reports("harmless", "html")).tags}
        for payload in PAYLOADS:
            with self.subTest(payload=payload):
                page = Page(self.reports(payload, "html"))
                self.assertEqual(page.unbalanced + page.open, [])
                self.assertLessEqual({name for name, _ in page.tags}, allowed | {"a"})
                self.assertEqual(sum(name == "script" for name, _ in page.tags), 1)
                for name, attributes in page.tags:
                    self.assertFalse(
                        [one for one in attributes if one.startswith("on") or one in ("src", "style", "srcdoc")],
                        (name, attributes),
                    )
                    self.assertRegex(attributes.get("href", "#"), r"^(#|https?://[^\s\"'<>]*$)")
                self.assertNotIn("49{", page.text)

    def test_nothing_of_a_record_becomes_html_or_a_mention_in_markdown(self):
        for form in ("github", "md"):
            for payload in PAYLOADS:
                with self.subTest(form=form, payload=payload):
                    page = self.reports(payload, form)
                    for tag in re.findall(r"<[^>]*>?", page):
                        self.assertIn(
                            tag,
                            ("<code>", "</code>", "<details>", "</details>", "<summary>", "</summary>", "<b>", "</b>"),
                        )
                    self.assertNotRegex(page, r"@[A-Za-z]")
                    self.assertNotIn("](", page)
                    self.assertNotIn("://evil", page)

    def test_what_is_not_to_be_seen_is_shown_as_its_number(self):
        page = self.reports(PAYLOADS[-1], "html")
        for sign in ("\x00", "\x1b", "\u202e"):
            self.assertNotIn(sign, page)
        self.assertIn("\\u202e", page)


class SummaryTest(ReportTest):
    def test_it_has_what_is_wrong_and_nothing_that_is_as_it_should_be(self):
        page = self.page(self.write("run", made.failing_run()), "--format", "github")
        self.assertIn("COLL-001", page)
        self.assertIn("rank 1 **fail** (cause)", page)
        for passing in ("COLL-002", "TOPO-001"):
            self.assertNotIn(passing, page)

    def test_it_has_changed_rows_alone(self):
        args = ("--format", "github", "--baseline", self.write("before", made.measured_run(2.0)))
        page = self.page(self.write("now", made.measured_run()), *args)
        self.assertEqual(page.count("| shorter |"), 3)
        self.assertNotIn("memory.copy", page)
        self.assertIn("Nothing that both have changed.", self.page(self.write("now", made.measured_run(2.0)), *args))


if __name__ == "__main__":
    unittest.main()
