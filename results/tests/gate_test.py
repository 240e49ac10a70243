"""compare, gate, calibrate and the gate's self-test, on records whose launches are drawn from known distributions."""
import json
import os
import re
import stat
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import measured_records as made

made.skip_without("scipy")
sys.path.insert(0, str(made.RESULTS))
from plumbline_results import comparison, estimates, gate, guidelines, measuring, selftest, tables, writing
from plumbline_results import series as series_of
from plumbline_results.series import Series

# A program in the place of plumbline: `bench` writes one launch of two series, of which one takes FACTOR times as long. SEEN counts.
PROGRAM = """#!{python} -B
import random, sys
sys.path.insert(0, {folder!r})
import measured_records as made
words = sys.argv[1:]
if "--help" in words: sys.exit(print({helps!r}))
with open({seen!r}, "a") as seen: seen.write({name!r} + " " + " ".join(words) + "\\n")
if {fails!r}: sys.exit("plumbline: no such option")
out = words[words.index("--out") + 1]
one = random.lognormvariate(0, 0.01)
made.write(out, made.measurement([1e-6 * one * {factor}]), made.measurement([2e-6 * one], size=1024))
"""


def series(name, launches):
    return Series(name, {}, "seconds", [[value] for value in launches])


def compared(base, new, **changes):
    """The row of one series."""
    one, other = series("a", base), series("a", new)
    return comparison.compare({one.key: one}, {other.key: other}, comparison.Rules(), **changes).rows[0]


class Estimates(unittest.TestCase):
    def test_shift_of_separate_samples_is_their_ratio(self):
        # By hand: the ratios of {2, 4, 8} to {1, 1, 1} are 2, 4, 8 three times each; their median is 4.
        found = estimates.shifts([([1, 1, 1], [2, 4, 8])])[0]
        self.assertAlmostEqual(found.factor, 4)

    def test_interval_and_p_of_a_textbook_example(self):
        # 20 and 20 values that do not overlap: U = 0, z = 200 / sqrt(400 * 41 / 12) = 5.41, p below 1e-6.
        found = estimates.shifts([(list(range(1, 21)), list(range(101, 121)))])[0]
        self.assertLess(found.p, 1e-6)
        self.assertGreater(found.low, 1)

    def test_benjamini_hochberg_by_hand(self):
        # Of 0.01, 0.02, 0.03, 0.5: 0.01 * 4 / 1, 0.02 * 4 / 2, 0.03 * 4 / 3, and 0.5.
        for got, due in zip(estimates.adjusted([0.01, 0.02, 0.03, 0.5]), [0.04, 0.04, 0.04, 0.5]):
            self.assertAlmostEqual(got, due)

    def test_standard_error_follows_theory(self):
        # The Hodges-Lehmann shift of normal samples has the deviation sigma * sqrt(2 / n) * sqrt(pi / 3).
        launches = made.draw(1, count=400, deviation=0.02)
        due = 0.02 * (2 / 20) ** 0.5 * 1.023
        self.assertAlmostEqual(estimates.standard_error([launches], 20, 20), due, delta=0.15 * due)


class Verdicts(unittest.TestCase):
    def test_the_four(self):
        base = made.draw(1)
        self.assertEqual(compared(base, made.draw(2, center=1.05e-6)).verdict, "slower")
        self.assertEqual(compared(base, made.draw(2, center=0.95e-6)).verdict, "faster")
        self.assertEqual(compared(base, made.draw(2)).verdict, "same")
        few = compared(made.draw(1, count=3), made.draw(2, count=3, center=2e-6))
        self.assertEqual(few.verdict, "not gateable")
        self.assertIn("3 and 3 launches are too few", few.why)

    def test_a_shift_below_the_threshold_is_none_however_certain(self):
        row = compared(made.draw(1, deviation=0.001), made.draw(2, center=1.01e-6, deviation=0.001))
        self.assertLess(row.q, 0.01)
        self.assertEqual(row.verdict, "same")

    def test_too_few_launches_for_so_many_series_are_no_pass(self):
        # The least p of 6 and 6 launches is 2 / 924; of 30 series the only one that changed has q = 30 * 2 / 924 = 6.5 %.
        base = [series(f"s{at}", made.draw(at, count=6)) for at in range(30)]
        new = [series(f"s{at}", made.draw(100 + at, count=6, center=1.5e-6 if at == 7 else 1e-6)) for at in range(30)]
        found = comparison.compare({one.key: one for one in base}, {one.key: one for one in new}, comparison.Rules())
        self.assertEqual({row.verdict for row in found.rows}, {"not gateable"})
        self.assertIn("too few to tell among 30 series (bench --launches 10)", found.rows[0].why)
        self.assertEqual(gate.status_of(found, False), 3)

    def test_least_p_is_that_of_the_test(self):
        self.assertAlmostEqual(estimates.least_p(6, 6), 2 / 924)
        for count in (1, 10, 100, 1000):
            launches = estimates.launches_for(count)
            self.assertLessEqual(estimates.shifts([(range(1, launches + 1), range(101, 101 + launches))])[0].p * count, 0.01)

    def test_an_ambiguous_series_is_no_pass(self):
        rows = lambda *verdicts: comparison.Comparison([comparison.Row(series("a", [1]), verdict) for verdict in verdicts])
        for verdicts, due in ((("same", "ambiguous"), 3), (("slower", "ambiguous"), 1), (("same", "not gateable"), 0), (("not gateable",), 3)):
            self.assertEqual(gate.status_of(rows(*verdicts), False), due, verdicts)

    def test_noise_is_never_green(self):
        row = compared(made.draw(1, deviation=0.06), made.draw(2, deviation=0.06))
        self.assertEqual(row.verdict, "not gateable")
        self.assertIn("hides changes below", row.why)
        self.assertEqual(compared(made.draw(1, deviation=0.06), made.draw(2, center=2e-6, deviation=0.06)).verdict, "slower")

    def test_a_noisy_host_counts_unless_both_sides_had_it(self):
        one, other = series("a", made.draw(1)), series("a", made.draw(2, center=1.1e-6))
        other.noisy = "2 of 4 launches: ranks without a core 31 % of the time"
        both = {one.key: one}, {other.key: other}
        self.assertEqual(comparison.compare(*both, comparison.Rules()).rows[0].verdict, "not gateable")
        self.assertEqual(comparison.compare(*both, comparison.Rules(), interleaved=True).rows[0].verdict, "slower")

    def test_a_rerun_must_say_the_same(self):
        def of(center):
            one, other = series("a", made.draw(1)), series("a", made.draw(2, center=center))
            return comparison.compare({one.key: one}, {other.key: other}, comparison.Rules())
        confirmed, refuted = of(1.05e-6), of(1.05e-6)
        comparison.confirm(confirmed, of(1.06e-6))
        comparison.confirm(refuted, of(1e-6))
        self.assertEqual([found.rows[0].verdict for found in (confirmed, refuted)], ["slower", "same"])

    def test_when_nearly_all_shift_it_is_the_machine(self):
        def sides(slow):
            base = [series(f"s{at}", made.draw(at)) for at in range(10)]
            new = [series(f"s{at}", made.draw(100 + at, center=1.1e-6 if at < slow else 1e-6)) for at in range(10)]
            return {one.key: one for one in base}, {one.key: one for one in new}
        self.assertIn("9 of 10 series are slower", comparison.compare(*sides(9), comparison.Rules()).machine)
        self.assertEqual(comparison.compare(*sides(3), comparison.Rules()).machine, "")
        self.assertEqual(comparison.compare(*sides(9), comparison.Rules(), interleaved=True).machine, "")


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.base = made.write(self.at("base"), made.measurement(made.draw(1)), made.measurement(made.draw(2), size=1024))
        self.slow = made.write(self.at("slow"), made.measurement(made.draw(3)), made.measurement(made.draw(4, center=1.06e-6), size=1024))

    def at(self, name):
        return os.path.join(self.folder.name, name)

    def program(self, name, factor, fails=False, helps="--launches N"):
        path = Path(self.at(name))
        path.write_text(PROGRAM.format(python=sys.executable, folder=os.path.dirname(os.path.abspath(__file__)), seen=self.at("seen"),
                                       name=name, factor=factor, fails=fails, helps=helps), encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def test_records(self):
        status, out, err = made.run("compare", self.base, self.slow)
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"bytes=1024 .*slower")
        self.assertIn("2 series: 1 slower, 1 same", out)
        self.assertEqual(made.run("gate", self.base, self.slow)[0], 1)
        self.assertEqual(made.run("gate", self.base, self.base)[0], 0)
        status, out, _ = made.run("compare", self.base, self.slow, "--format", "md")
        self.assertNotIn("bytes=4 ", out, "only what changed is in a job's summary")
        rows = json.loads(made.run("compare", self.base, self.slow, "--format", "json")[1])["series"]
        self.assertEqual({row["labels"]["bytes"]: row["verdict"] for row in rows}, {"4": "same", "1024": "slower"})

    def test_what_is_missing_fails_the_gate(self):
        less = made.write(self.at("less"), made.measurement(made.draw(5)))
        self.assertEqual(made.run("gate", self.base, less)[0], 1)
        self.assertEqual(made.run("gate", self.base, less, "--allow-missing")[0], 0)

    def test_other_machines_and_old_records(self):
        other = made.write(self.at("other"), made.measurement(made.draw(5)), environment={"cpu": "another", "cores": 2, "usable_cores": 2})
        status, out, _ = made.run("gate", self.base, other)
        self.assertEqual(status, 3)
        self.assertIn("different machines: cpu a CPU and another", out)
        old = made.measurement([1e-6])
        del old["launches"]
        status, out, err = made.run("gate", made.write(self.at("old"), old), self.base, "--allow-missing")
        self.assertIn("1 and 20 launches are too few to tell", out)
        self.assertEqual(status, 3, "what cannot be told is no pass")
        self.assertIn("nothing can be gated", err)

    def test_nothing_gateable_is_no_pass(self):
        noisy = [made.write(self.at(f"noisy{at}"), made.measurement(made.draw(at, deviation=0.1))) for at in (1, 2)]
        status, out, err = made.run("gate", *noisy)
        self.assertEqual(status, 3)
        self.assertIn("nothing can be gated at 5 %", err)

    def test_programs_are_interleaved_and_suspects_run_twice(self):
        old, new = self.program("old", 1), self.program("new", 1.2)
        status, out, err = made.run("gate", old, new, "--launches", "6", "--effect", "10%", "--", "--benchmark", "collectives.*", "--sizes", "4,1Ki")
        self.assertEqual(status, 1, out + err)
        self.assertRegex(out, r"bytes=4 .*slower .*a rerun found \+")
        seen = Path(self.at("seen")).read_text(encoding="utf-8").splitlines()
        first, again = seen[:12], seen[12:]
        for launch in range(6):
            self.assertEqual({line.split()[0] for line in first[2 * launch:2 * launch + 2]}, {"old", "new"})
        self.assertEqual(len(again), 12)
        self.assertIn("--benchmark collectives.all_reduce --sizes 4 ", again[0])

    def test_a_launch_is_one_of_any_version(self):
        old, new = self.program("old", 1, helps="--repetitions N"), self.program("new", 1)
        made.run("gate", old, new, "--launches", "5", "--", "--sizes", "4")
        lines = Path(self.at("seen")).read_text(encoding="utf-8").splitlines()
        self.assertEqual({"--launches 1" in line for line in lines if line.startswith("new ")}, {True}, "bench makes several by default")
        self.assertEqual({"--launches" in line for line in lines if line.startswith("old ")}, {False}, "it has no such option")
        made.run("compare", new, new, "--launches", "5", "--", "allreduce_fusion", "--rounds", "2")
        last = Path(self.at("seen")).read_text(encoding="utf-8").splitlines()[-1]
        self.assertIn("bench allreduce_fusion --rounds 2 --out", last, "it has rounds of its own")

    def test_calibrate_says_what_can_be_gated(self):
        own = {"PLUMBLINE_EXECUTABLE": self.program("own", 1)}
        out_file = self.at("calibration.json")
        status, out, err = made.run("calibrate", "--launches", "10", "--out", out_file, env=own)
        self.assertEqual(status, 0, err)
        self.assertIn("against itself: 2 series:", out)
        for row in json.loads(Path(out_file).read_text(encoding="utf-8"))["series"]:
            self.assertEqual([len(side) for side in row["medians"]], [10, 10])
            self.assertTrue(0.01 < row["gateable"] < 0.08, row["gateable"])  # 7.7 * 0.01 * sqrt(2 / 10) = 3.4 %
        status, out, err = made.run("calibrate", "--from", self.base, "--out", out_file)
        self.assertEqual(status, 0, err)
        self.assertEqual(made.run("gate", self.base, self.slow, "--calibration", out_file)[0], 1)
        # Without --out, each has a file of its own.
        for count in (1, 2):
            status, out, err = made.run("calibrate", "--from", self.base, cwd=self.at("."))
            self.assertEqual(status, 0, err)
            self.assertRegex(out, r"\ncalibration: results/runs/20\d{6}T\d{6}Z-calibrate/calibration\.json\n")
            self.assertEqual(len(list(Path(self.at("results/runs")).glob("*/calibration.json"))), count)
            self.assertTrue(Path(self.at("results/latest/calibrate/calibration.json")).samefile(self.at(out.split()[-1])))

    def test_out_may_be_a_pipe_or_a_link(self):
        target, link, fifo = self.at("target.json"), self.at("link.json"), self.at("fifo")
        os.symlink("target.json", link)
        writing.write(link, "one")
        self.assertEqual((os.path.islink(link), Path(target).read_text(encoding="utf-8")), (True, "one"))
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        writing.write(fifo, "two")
        self.assertEqual(os.read(reader, 10), b"two")
        self.assertTrue(stat.S_ISFIFO(os.stat(fifo).st_mode))
        self.assertEqual(made.run("calibrate", "--from", self.base, "--out", os.devnull)[0], 0)
        self.assertTrue(stat.S_ISCHR(os.stat(os.devnull).st_mode))

    def test_selftest_of_the_gate(self):
        status, out, err = made.run("selftest", "gate", "--pairs", "25")
        self.assertEqual(status, 0, out + err)
        self.assertIn("100 pairs of 6 series and 20 launches a side", out)
        self.assertRegex(out, r"busy, 5 %.*\*", "what cannot be gated is marked")

    def test_selftest_judges_by_what_chance_explains(self):
        trial = selftest.Trial({"a": lambda random, count: random.lognormal(0, 0.004, count)}, 20, 1)
        tally = trial.tallies["a"]
        self.assertFalse(trial.tried)
        trial.run(1)
        self.assertTrue(trial.tried)
        # P(X >= 5 of 200 | 1 %) = 5 %, of 8 0.1 %; P(X <= 17 of 20 | 95 %) = 7.5 %, of 15 0.3 %.
        for alarms, found, due in ((5, 17, 0), (8, 17, 1), (5, 15, 1)):
            trial.pairs, trial.pairs_with_alarm, tally.planted[0.05], tally.found[0.05] = 200, alarms, 20, found
            self.assertEqual(len(trial.faults), due, (alarms, found))

    def test_selftest_plants_in_each_source(self):
        sources = {name: lambda random, count: random.lognormal(0, 0.004, count) for name in "abc"}
        trial = selftest.Trial(sources, 20, 1)
        trial.run(1)
        self.assertEqual([tally.planted[0.05] for tally in trial.tallies.values()], [1, 1, 1])
        self.assertEqual(made.run("selftest", "gate", "--pairs", "5", "--launches", "5")[0], 3)

    def test_selftest_of_launches_that_were_recorded(self):
        steady, wild = self.at("steady.json"), self.at("wild.json")
        for deviation, out_file in ((0.01, steady), (0.2, wild)):
            record = made.write(self.at(out_file + ".record"), made.measurement(made.draw(1, deviation=deviation)))
            self.assertEqual(made.run("calibrate", "--from", record, "--out", out_file)[0], 0)
        status, out, err = made.run("selftest", "gate", "--pairs", "20", "--calibration", steady)
        self.assertEqual(status, 0, out + err)
        status, _, err = made.run("selftest", "gate", "--pairs", "5", "--calibration", wild)
        self.assertEqual(status, 3, "a gate that could find nothing is no pass")
        self.assertIn("no series can be gated at 5 %", err)

    def test_bad_input_is_one_line(self):
        Path(self.at("torn")).mkdir()
        Path(self.at("torn"), "run.jsonl").write_text('{"type":"header"\n{}\n', encoding="utf-8")
        zero = made.write(self.at("zero"), made.measurement([0.0]))
        none = made.write(self.at("none"))
        in_windows = [json.loads(line) for line in Path(self.base, "run.jsonl").read_text("utf-8").splitlines()]
        in_windows = [one for one in in_windows if one["type"] == "measurement"]
        windows = made.write(self.at("windows"), *({**one, "labels": {**one["labels"], "sync": "window"}} for one in in_windows))
        failing = self.program("failing", 1, fails=True)
        for words, status, due in (
                (["compare", self.base], 2, "required: NEW"),
                (["compare", self.base, self.at("nothing")], 2, "does not exist; name a run.jsonl"),
                (["compare", self.base, self.at("torn")], 2, "run.jsonl:1: not an object in JSON"),
                (["compare", self.base, zero], 2, "run.jsonl:2: sample 0.0; it is a finite number above 0"),
                (["compare", self.base, windows], 2, "have no series in common: the most alike have sync none and window; measure both"),
                (["compare", self.base, none], 2, "has no measurement; `plumbline bench` writes them"),
                (["compare", self.base, "backend:local"], 2, "one is a record and one is run"),
                (["compare", "backend:", "backend:local"], 2, "'backend:' names no backend"),
                (["compare", self.base, self.slow, "--effect", "7"], 2, "'7' is not a share such as 5% or 0.05"),
                (["compare", self.base, self.slow, "--launches", "2"], 2, "'2' is not a whole number from 5 on"),
                (["compare", self.base, self.slow, "--", "--sizes", "4"], 2, "options of bench are for programs"),
                *((["gate", "backend:local", "backend:local", "--", *words], 2, f"'{words[0]}' after '--': launches of both sides alternate here; "
                   "write --launches N before '--'") for words in (("--launches", "3"), ("--launches=3",), ("--within", "5"))),
                (["compare", self.base, self.slow, "--calibration", self.base + "/run.jsonl"], 2, "no calibration"),
                (["compare", failing, failing], 3, "ended with exit status 1: plumbline: no such option"),
                (["gate", self.base], 2, "1 records are given; it takes BASE and NEW"),
                (["gate", "--guidelines"], 2, "--guidelines without a record"),
                (["calibrate", "--from", made.write(self.at("short"), made.measurement([1e-6] * 3)), "--out", self.at("c")], 2, "3 launches"),
                (["selftest", "everything"], 2, "there is: selftest gate"),
                (["nonsense"], 2, "no command 'nonsense'")):
            got, _, err = made.run(*words)
            self.assertEqual(got, status, words)
            self.assertIn(due, err, words)
            self.assertEqual(err.count("\n"), 1, err)

    def test_records_of_strangers_are_refused_in_one_line(self):
        labels = lambda **changes: {**made.measurement([1e-6])["labels"], **changes}
        for name, line, header, due in (
                ("labels", {"labels": None}, {}, "without 'benchmark' or 'labels'"),
                ("number", {"labels": 5}, {}, "without 'benchmark' or 'labels'"),
                ("environment", {}, {"environment": None}, "environment null; it is an object"),
                ("huge", {"launches": [{"samples": [10 ** 400]}]}, {}, "it is a finite number above 0"),
                ("two", {"labels": labels(bytes="\u00b2")}, {}, "label bytes \"\\u00b2\"; it is a whole number"),
                ("long", {"labels": labels(bytes="9" * 5000)}, {}, "it is a whole number"),
                ("world", {"labels": labels(world="x")}, {}, "label world \"x\"; it is a whole number")):
            record = made.write(self.at(name), {**made.measurement([1e-6]), **line}, **header)
            with self.subTest(name), self.assertRaisesRegex(series_of.BadInput, re.escape(due)):
                series_of.read_all([record])
        self.assertEqual(made.run("gate", "--guidelines", record)[::2], (2, f"plumbline: gate: {record}/run.jsonl:2: label world \"x\"; it is "
                                                                          "a whole number of at most 18 digits\n"))
        other = made.write(self.at("other"), made.measurement([1e-6], labels=labels(dtype="\u00b2")))
        self.assertEqual([*map(series_of.order, series_of.read_all([other]).series.values())][0][0], "collectives.all_reduce")

    def test_a_folder_of_different_machines_is_refused(self):
        made.write(self.at("all/a"), made.measurement(made.draw(1)))
        made.write(self.at("all/b"), made.measurement(made.draw(2)), environment={"cpu": "another", "cores": 2, "usable_cores": 2})
        status, _, err = made.run("compare", self.at("all"), self.base)
        self.assertEqual((status, err.count("\n")), (2, 1))
        self.assertIn("cpu a CPU and another; name records of one machine", err)

    def test_labels_of_strangers_are_text(self):
        one = Series("a", {"b": "<b>|x [y](z) @all\x1b[31m\u202e\n\ud800"}, "seconds", [[1.0]])
        found = comparison.Comparison([comparison.Row(one, base=[1.0], new=[1.0])])
        self.assertIn("a b=<b>|x [y](z) @all[31m  ", tables.text_of(found, "text"))
        self.assertIn(r"| a b=&lt;b&gt;\|x \[y\]\(z\) @&#8203;all\[31m |", tables.text_of(found, "md"))

    def test_a_calibration_of_something_else_is_refused(self):
        of = lambda name, **changes: made.write(self.at(name), made.measurement(made.draw(1), changes.pop("benchmark", "x")), **changes)
        elsewhere = of("elsewhere", benchmark="collectives.all_reduce", environment={"cpu": "another", "cores": 2, "usable_cores": 2})
        old = self.program("old", 1)
        for record, due in ((of("unrelated"), "it has none of the series"), (elsewhere, "of another machine")):
            self.assertEqual(made.run("calibrate", "--from", record, "--out", self.at("c.json"))[0], 0)
            for words in ((self.base, self.slow), (old, old, "--launches", "5")):
                status, _, err = made.run("compare", *words, "--calibration", self.at("c.json"))
                self.assertEqual(status, 2, err)
                self.assertIn(due, err)

    def test_arguments_of_a_rerun(self):
        one = Series("x", {"bytes": "4"}, "seconds")
        for words, due in (
                (["--benchmark", "A", "B", "--world-size", "2", "--sizes=4,8"], ["--world-size", "2", "--benchmark", "x", "--sizes", "4"]),
                (["--sizes", "4", "8", "--libtorch"], ["--libtorch", "--benchmark", "x", "--sizes", "4"]),
                (["pipeline_bubble", "--stages", "4"], ["pipeline_bubble", "--stages", "4"])):
            self.assertEqual(measuring.arguments_for([one], words), due)

    def test_help_has_example_and_statuses(self):
        for words in (["compare"], ["gate"], ["calibrate"], ["selftest"], ["results"], ["results", "add"], ["trend"]):
            status, out, _ = made.run(*words, "--help")
            self.assertEqual(status, 0)
            self.assertEqual((out.count("Example: "), out.count("Exit status: ")), (1, 1), words)


class Guidelines(unittest.TestCase):
    def findings(self, *lines):
        with tempfile.TemporaryDirectory() as folder:
            from plumbline_results.series import read_record
            return {one.text: one for one in guidelines.findings(read_record(made.write(folder, *lines)), comparison.Rules())}

    def test_an_all_reduce_is_no_slower_than_its_parts(self):
        parts = [made.measurement(made.draw(1), "collectives.reduce_scatter"), made.measurement(made.draw(2), "collectives.all_gather")]
        name = "collectives.all_reduce <= collectives.reduce_scatter + collectives.all_gather"
        for center, due in ((1.5e-6, "holds"), (2.02e-6, "holds"), (2.2e-6, "violated")):
            found = self.findings(made.measurement(made.draw(3, center=center)), *parts)[name]
            self.assertEqual(found.verdict, due, center)
        self.assertAlmostEqual(found.ratio, 1.1, delta=0.02)

    def test_more_bytes_take_no_less_time(self):
        text = "collectives.all_reduce of 4 <= of 1024 bytes"
        self.assertEqual(self.findings(made.measurement(made.draw(1)), made.measurement(made.draw(2), size=1024))[text].verdict, "holds")
        slower = made.measurement(made.draw(1, center=3e-6))
        self.assertEqual(self.findings(slower, made.measurement(made.draw(2), size=1024))[text].verdict, "violated")

    def test_fused_and_overlapped(self):
        def fusion(name, center, **labels):
            one = made.measurement(made.draw(len(name), center=center), f"allreduce_fusion.gpt2.{name}")
            one["labels"].update(labels)
            return one
        buckets = {"bucket_bytes": "26214400"}
        found = self.findings(fusion("view", 2e-6, **buckets), fusion("per_tensor", 1e-6), fusion("overlap", 1e-6, **buckets),
                              fusion("serial", 2e-6, **buckets))
        self.assertEqual(found["allreduce_fusion.gpt2.view <= allreduce_fusion.gpt2.per_tensor"].verdict, "violated")
        self.assertEqual(found["allreduce_fusion.gpt2.overlap <= allreduce_fusion.gpt2.serial"].verdict, "holds")

    def test_statuses(self):
        with tempfile.TemporaryDirectory() as folder:
            at = lambda name: os.path.join(folder, name)
            good = made.write(at("good"), made.measurement(made.draw(1)), made.measurement(made.draw(2), size=1024))
            bad = made.write(at("bad"), made.measurement(made.draw(1, center=3e-6)), made.measurement(made.draw(2), size=1024))
            few = made.write(at("few"), made.measurement([1e-6]), made.measurement([2e-6], size=1024))
            noisy = made.write(at("noisy"), made.measurement(made.draw(1), noisy="1 of 1 launches"), made.measurement(made.draw(2), noisy="x", size=8))
            alone = made.write(at("alone"), made.measurement(made.draw(1)))
            for record, due in ((good, 0), (bad, 1), (few, 3), (noisy, 3), (alone, 2)):
                self.assertEqual(made.run("gate", "--guidelines", record)[0], due, record)
            self.assertIn(r"| collectives.all\_reduce of 4 &lt;= of 1024 bytes |", made.run("gate", "--guidelines", bad, "--format", "md")[1])


if __name__ == "__main__":
    unittest.main()
