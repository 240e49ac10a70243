#!/usr/bin/env python3
"""Tests `plumbline results export` and `import`: each form against what its reader takes, and there and back.

Google Benchmark's own compare.py reads the export where Debian's libbenchmark-tools is installed."""

import contextlib
import csv
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import made_records as made  # noqa: E402

try:
    import markupsafe  # noqa: F401
except ImportError:
    print("skipped: no jinja2 here (pip install jinja2)")
    sys.exit(77)

from plumbline_results import exports, imports  # noqa: E402
from plumbline_results.report.records import load  # noqa: E402

COMPARE = Path("/usr/share/benchmark/compare.py")
OSU = """# OSU MPI Allreduce Latency Test v7.4
# Datatype: MPI_FLOAT.
# Size       Avg Latency(us)
4                       1.50
1048576               200.00
"""
NCCL = {
    "version": 2,
    "start_time": "2026-01-02 03:04:05",
    "args": ["./build/all_reduce_perf", "-J", "x"],
    "config": {"devices": [{"rank": 0}, {"rank": 1}]},
    "results": [
        {
            "size": 4096,
            "count": 1024,
            "type": "float",
            "redop": "sum",
            "root": "    -1",
            "experiment_name": "AllReduce",
            "out_of_place": {"time": 8.0, "alg_bw": 0.512, "bus_bw": 0.512, "nwrong": 0.0},
            "in_place": {"time": 10.0, "alg_bw": 0.41, "bus_bw": 0.41, "nwrong": 1.0},
            "in_place_per_iter": {"times_us": [9.0, 10.0, 11.0]},
        }
    ],
}


class ExchangeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.here = Path(folder.name)

    def call(self, tool, *arguments):
        out, errors = io.BytesIO(), io.StringIO()
        printed = io.TextIOWrapper(out, "utf-8", write_through=True)
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            try:
                status = tool.main(list(map(str, arguments)))
            except SystemExit as end:
                status = end.code
        return status, out.getvalue().decode("utf-8"), errors.getvalue()

    def export(self, form, lines=None, name="run"):
        folder = made.write(self.here / name, *(lines or made.measured_run()))
        status, words, errors = self.call(exports, folder, "--format", form)
        self.assertEqual((status, errors), (0, ""))
        return words

    def assertRefused(self, tool, arguments, words):
        status, out, errors = self.call(tool, *arguments)
        self.assertEqual((status, out, errors.count("\n")), (2, "", 1), errors)
        self.assertIn(words, errors)


class ExportTest(ExchangeTest):
    NAME = "collectives.all_reduce/bytes:4096/world:2/backend:acme"

    def test_google_benchmark_has_a_row_a_repetition(self):
        data = json.loads(self.export("google-benchmark"))
        rows = [row for row in data["benchmarks"] if row["name"] == self.NAME]
        self.assertEqual([round(row["real_time"]) for row in rows], [3800, 3880, 3960, 4000, 4040, 4120, 4200])
        self.assertEqual(
            {(row["run_type"], row["time_unit"], row["repetitions"]) for row in rows}, {("iteration", "ns", 7)}
        )
        self.assertEqual(data["context"]["num_cpus"], 8)

    @unittest.skipUnless(COMPARE.exists(), "libbenchmark-tools is not installed")
    def test_compare_py_reads_it(self):
        for name, factor in (("old", 1.0), ("new", 1.5)):
            (self.here / f"{name}.json").write_text(self.export("google-benchmark", made.measured_run(factor), name))
        # Without its U test, which takes scipy.
        ran = subprocess.run(
            [
                sys.executable,
                "-B",
                str(COMPARE),
                "--no-color",
                "--no-utest",
                "benchmarks",
                str(self.here / "old.json"),
                str(self.here / "new.json"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        line = next(line for line in ran.stdout.splitlines() if line.startswith(self.NAME))
        self.assertIn("+0.5000", line)

    def test_pytorch_hud(self):
        rows = json.loads(self.export("pytorch-hud"))
        for row in rows:
            self.assertLessEqual({"benchmark", "model", "metric"}, set(row))
            self.assertTrue(all(isinstance(value, float) for value in row["metric"]["benchmark_values"]))
        [time] = [row for row in rows if row["model"]["name"] == self.NAME and row["metric"]["name"] == "time_seconds"]
        self.assertEqual(
            (len(time["metric"]["benchmark_values"]), time["benchmark"]["name"], time["model"]["backend"]),
            (7, "collectives.all_reduce", "acme"),
        )

    def test_bencher_has_the_median_and_its_bounds_in_nanoseconds(self):
        [latency] = [
            {key: round(value) for key, value in one["latency"].items()}
            for name, one in json.loads(self.export("bencher")).items()
            if name == self.NAME
        ]
        self.assertEqual(latency, {"value": 4000, "lower_value": 3800, "upper_value": 4200})

    def test_github_action_benchmark(self):
        [row] = [row for row in json.loads(self.export("github-action-benchmark")) if row["name"] == self.NAME]
        self.assertEqual((round(row["value"]), row["unit"], row["range"]), (4000, "ns", "3800 to 4200"))

    def test_csv_has_a_row_a_sample_with_units_labels_launch_and_interval(self):
        lines = made.measured_run()
        lines[1]["launches"] = [[1e-6, 3e-6], [2e-6, 2e-6], [4e-6, 4e-6]]
        rows = list(csv.DictReader(io.StringIO(self.export("csv", lines))))
        first = [row for row in rows if row["benchmark"] == "collectives.all_reduce" and row["label_bytes"] == "4"]
        self.assertEqual(
            [(row["launch"], row["sample"], float(row["value"])) for row in first],
            [
                ("0", "0", 1e-6),
                ("0", "1", 3e-6),
                ("1", "0", 2e-6),
                ("1", "1", 2e-6),
                ("2", "0", 4e-6),
                ("2", "1", 4e-6),
            ],
        )
        # Of the launches' medians, 2, 2 and 4.
        self.assertEqual(
            {(float(row["median"]), float(row["low"]), float(row["high"]), row["unit"]) for row in first},
            {(2e-6, 2e-6, 4e-6, "seconds")},
        )
        self.assertEqual(len(rows), 6 + 5 * 7)

    def test_csv_has_how_the_host_was_in_each_launch(self):
        lines = made.measured_run()
        lines[1]["launches"] = [{"samples": [1e-6], "host": {"load": 1.5, "steal": 0.25, "clock_hertz": 2.6e9, "pinned": 1}},
                                {"samples": [1e-6], "host": {"load": 7, "waited": 0.5, "pinned": 0}}]
        rows = list(csv.DictReader(io.StringIO(self.export("csv", lines))))
        facts = [[row[f"host_{name}"] for name in ("load", "steal", "waited", "clock_hertz", "pinned")] for row in rows]
        self.assertEqual(facts[:2], [["1.5", "0.25", "", "2600000000.0", "1.0"], ["7.0", "", "0.5", "", "0.0"]])
        self.assertEqual(facts[2:], [[""] * 5] * (5 * 7), "launches that nobody recorded")

    def test_parquet_has_the_rows_of_csv(self):
        lines = made.measured_run()
        lines[1]["launches"] = [[1e-6, 3e-6], [2e-6, 2e-6], {"samples": [4e-6, 4e-6], "host": {"load": 2.5}}]
        file = self.here / "bench.parquet"
        folder = made.write(self.here / "run", *lines)
        status, _, errors = self.call(exports, folder, "--format", "parquet", "--out", file)
        try:
            from pyarrow import parquet
        except ImportError:
            self.assertEqual((status, file.exists()), (3, False))
            self.assertIn("--format parquet takes pyarrow", errors)
            return
        self.assertEqual(status, 0, errors)
        found = parquet.read_table(file).to_pylist()
        expected = list(csv.DictReader(io.StringIO(self.export("csv", lines))))
        self.assertEqual(len(found), len(expected))
        for row, words in zip(found, expected):
            words["confidence"] = row["confidence"]  # in full
            for key, value in row.items():
                read = bool(int(words[key])) if isinstance(value, bool) else type(value)(words[key]) if value is not None else words[key] or None
                self.assertEqual(value, read, key)

    def test_a_formula_of_a_stranger_is_none_in_a_spreadsheet(self):
        lines = made.measured_run()
        lines[1]["labels"]["backend"] = '=HYPERLINK("http://x")'
        self.assertIn("'=HYPERLINK", self.export("csv", lines))

    def test_bad_input(self):
        run = made.write(self.here / "check", *made.failing_run())
        self.assertRefused(exports, [run], "no measurements; name the record of a bench")
        self.assertRefused(exports, [run, "--format", "xml"], "--format 'xml'; it is google-benchmark")
        self.assertRefused(exports, [self.here / "none"], "No such file")
        self.assertIn("Exit status: 0", self.call(exports, "--help")[1])


class ImportTest(ExchangeTest):
    def imported(self, name, words, *options):
        file = self.here / name
        file.write_text(words if isinstance(words, str) else json.dumps(words))
        status, out, errors = self.call(imports, file, "--out", self.here / "imported", *options)
        self.assertEqual((status, out, errors), (0, "", ""))
        return load(self.here / "imported")

    def test_google_benchmark_there_and_back(self):
        record = self.imported("gb.json", self.export("google-benchmark"))
        found = {(one.benchmark, one.labels["bytes"]): one for one in record.measurements}
        one = found["collectives.all_reduce", "4096"]
        self.assertEqual([round(value * 1e9) for value in one.samples], [3800, 3880, 3960, 4000, 4040, 4120, 4200])
        self.assertEqual((one.labels["world"], one.labels["backend"]), ("2", "acme"))
        self.assertTrue(record.complete)
        schema = Path(__file__).resolve().parents[1] / "schema" / "validate_record.py"
        subprocess.run([sys.executable, "-B", schema, self.here / "imported" / "run.jsonl"], check=True)

    def test_nccl_tests(self):
        record = self.imported("nccl.json", NCCL, "--name", "NCCL 2.27")
        out, inside = record.measurements
        self.assertEqual(
            (out.benchmark, out.samples, out.labels),
            ("collectives.all_reduce", [8e-6], {"backend": "NCCL 2.27", "world": "2", "bytes": "4096", "dtype": "f32"}),
        )
        self.assertEqual(
            (round(out.derived["busbw_bytes_per_second"]), out.answer_checked, inside.answer_checked),
            (512_000_000, True, False),
        )
        self.assertEqual(
            (inside.benchmark, [round(value * 1e6) for value in inside.samples]),
            ("collectives.all_reduce_in_place", [9, 10, 11]),
        )

    def test_the_start_is_iso_8601(self):
        for words, due in (
            ("2026-01-02 03:04:05", "2026-01-02T03:04:05"),
            ("Fri Jan  2 03:04:05 2026", "2026-01-02T03:04:05"),
            ("2026-01-02T03:04:05+00:00", "2026-01-02T03:04:05+00:00"),
            ("yesterday", ""),
        ):
            self.assertEqual(imports._iso(words), due)
        record = self.imported("nccl.json", NCCL | {"start_time": "yesterday"})
        self.assertRegex(record.header["started"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def test_samples_that_are_not_above_0_are_left_out(self):
        file = self.here / "osu.txt"
        file.write_text(OSU.replace("1.50", "0.00"))
        status, _, errors = self.call(imports, file, "--out", self.here / "imported")
        self.assertEqual((status, errors.count("\n")), (0, 1))
        self.assertIn("1 samples are not above 0 and were left out", errors)
        self.assertEqual([one.labels["bytes"] for one in load(self.here / "imported").measurements], ["1048576"])
        file.write_text(OSU.replace("1.50", "0.00").replace("200.00", "0.00"))
        self.assertRefused(imports, [file, "--out", self.here / "x"], "none of its 2 samples is above 0")

    def test_osu(self):
        record = self.imported("osu.txt", OSU, "--name", "Open MPI 5", "--world-size", "4")
        small, large = record.measurements
        self.assertEqual(
            (small.benchmark, small.labels["bytes"], small.samples), ("collectives.all_reduce", "4", [1.5e-6])
        )
        # 1 MiB in 200 us, of which each link of a ring of 4 carries 3/2.
        self.assertAlmostEqual(large.derived["busbw_bytes_per_second"], (1 << 20) / 200e-6 * 1.5)

    def test_osu_names_of_collectives(self):
        for title, operation in (
            ("MPI Allgather", "all_gather"),
            ("MPI All-to-All Personalized Exchange", "all_to_all"),
            ("MPI Broadcast", "broadcast"),
            ("MPI Reduce_scatter", "reduce_scatter"),
            ("MPI Reduce", "reduce"),
            ("MPI-CUDA Allreduce", "all_reduce"),
        ):
            with self.subTest(title):
                words = f"# OSU {title} Latency Test v7.4\n# Size Avg Latency(us)\n8 2.0\n"
                (self.here / "x.txt").write_text(words)
                options = type("Options", (), {"file": "x", "operation": "", "name": "m", "world_size": 2})
                self.assertEqual(
                    [one["benchmark"] for one in imports.osu(words, options)], [f"collectives.{operation}"]
                )

    def test_a_ping_pong_is_half_of_our_round_trip(self):
        record = self.imported("osu.txt", "# OSU MPI Latency Test v7.4\n# Size Latency (us)\n1 0.5\n")
        self.assertEqual(
            (record.measurements[0].benchmark, record.measurements[0].samples), ("collectives.send_recv", [1e-6])
        )

    def test_a_barrier_has_no_size(self):
        record = self.imported("osu.txt", "# OSU MPI Barrier Latency Test v7.4\n# Avg Latency(us)\n 0.75\n")
        self.assertEqual(
            (record.measurements[0].benchmark, record.measurements[0].samples), ("collectives.barrier", [7.5e-7])
        )
        self.assertNotIn("bytes", record.measurements[0].labels)

    def test_bad_input(self):
        out = ["--out", self.here / "x"]
        for words, said in (
            ("", "no measurements of a form that is known"),
            ("{", "not JSON"),
            ("{}", "no measurements"),
            ("a,b\n1,2\n", "no measurements"),
            ("# OSU MPI Bandwidth Test v7.4\n# Size Bandwidth (MB/s)\n1 2.0\n", "of OSU"),
            ("# OSU MPI Put Latency Test\n1 2\n", "is no collective of ours"),
        ):
            (self.here / "bad").write_text(words)
            with self.subTest(said=said):
                self.assertRefused(imports, [self.here / "bad", *out], said)
        (self.here / "osu.txt").write_text(OSU)
        self.assertRefused(imports, [self.here / "osu.txt"], "--out")
        self.assertRefused(
            imports, [self.here / "osu.txt", *out, "--world-size", "0"], "--world-size 0; it is 1 or more"
        )
        self.assertRefused(imports, [self.here / "osu.txt", *out, "--operation", "x"], "--operation 'x'")
        made.write(self.here / "there", *made.measured_run())
        self.assertRefused(
            imports, [self.here / "osu.txt", "--out", self.here / "there"], "there is a record; name another folder"
        )
        self.assertIn("Exit status: 0", self.call(imports, "--help")[1])


OSU_SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/anchors/osu.py"
OSU_LAUNCHER = """#!{python} -B
import sys
print("# OSU MPI Allreduce Latency Test v5\\n# Size         Avg Latency(us)     Min Latency(us)     Max Latency(us)  Iterations")
for size in (4, 8, 1024):
    slowest = size / 4
    print(f"{{size}} {{slowest / 3:.4f}} {{slowest / 9:.4f}} {{slowest:.4f}} 100")
"""
OURS = """#!{python} -B
import sys
sys.path.insert(0, {tests!r})
import measured_records as made
words = sys.argv[1:]
factor = {{"barrier": 3, "window": {factor}}}[words[words.index("--sync") + 1]]
rows = [made.measurement([size / 4 * 1e-6 * factor], size=size) for size in (4, 1024)]
made.write(words[words.index("--out") + 1], *rows)
"""


@unittest.skipUnless(importlib.util.find_spec("scipy"), "no scipy here (pip install scipy)")
class BesideOsu(unittest.TestCase):
    """benchmarks/anchors/osu.py, with programs in the place of OSU's and ours that take known times."""

    def compared(self, factor, *options, setup=lambda here: None, env=None):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        here = Path(folder.name)
        (here / "bin").mkdir()
        for name, text in (("mpirun", OSU_LAUNCHER), ("osu_allreduce", OSU_LAUNCHER), ("bin/plumbline", OURS)):
            (here / name).write_text(text.format(python=sys.executable, tests=str(Path(__file__).resolve().parent), factor=factor))
            (here / name).chmod(0o755)
        setup(here)
        command = [sys.executable, "-B", OSU_SCRIPT, "--osu", here / "osu_allreduce", "--build", here, "--mpirun",
                   here / "mpirun", "--launches", "6", "--sizes", "4,1Ki", *options]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env={**os.environ, **(env or {})})
        return done.returncode, done.stdout, done.stderr

    def test_what_is_missing_is_told_before_anything_is_measured(self):
        def without_scipy(here):
            (here / "scipy").mkdir()
            (here / "scipy/__init__.py").write_text("raise ModuleNotFoundError('none', name='scipy')")
        with tempfile.TemporaryDirectory() as here:
            without_scipy(Path(here))
            for options, env, words in (((), {"PYTHONPATH": here}, "osu.py: no scipy here, which has the intervals (pip install scipy)\n"),
                                        (("--json", "/nowhere/x.json"), {}, "osu.py: --json '/nowhere/x.json' cannot be written: No such file or directory\n"),
                                        (("--build", "/nowhere"), {}, "osu.py: /nowhere/bin/plumbline is missing; --build names the folder of a build\n")):
                status, out, err = self.compared(1, *options, env=env)
                self.assertEqual((status, out, err), (3, "", words))

    def test_ranks_of_osu_are_bound_as_ours_are(self):
        def setup(here):
            (here / "osu_allreduce").write_text(f"#!{sys.executable}\nimport os, sys; sys.exit('cores ' + str(os.sched_getaffinity(0)))\n")
            # The second rank of two.
            (here / "mpirun").write_text("#!/bin/sh\nwhile [ $# -gt 0 ] && [ ! -x \"$1\" ]; do shift; done\nOMPI_COMM_WORLD_RANK=1 exec \"$@\"\n")
        cores = sorted(os.sched_getaffinity(0))
        status, _, err = self.compared(1, setup=setup)
        self.assertEqual(status, 3)
        self.assertIn(f"cores {{{cores[1 % len(cores)]}}}", err)

    def test_equal_times_agree(self):
        status, out, err = self.compared(1)
        self.assertEqual(status, 0, out + err)
        self.assertRegex(out, r"(?m)^ +1024 +256\.000 \[ *256\.000, +256\.000\] +768\.000 .* 1\.00  agree \(window\)$", "the slowest rank's, in us")
        self.assertIn("they agree on 2 of 2 sizes", out)

    def judged(self, window, within=0.25):
        sys.path.insert(0, str(OSU_SCRIPT.parent))
        import osu
        found = {("OSU", 4): [1.00, 1.01, 1.02, 1.03, 1.04, 1.05], ("barrier", 4): [3.0] * 6, ("window", 4): window}
        with contextlib.redirect_stdout(io.StringIO()) as out:
            return osu.report(found, [4], within), out.getvalue()

    def test_intervals_that_do_not_overlap_differ(self):
        self.assertEqual(self.judged([1.05, 1.06, 1.07, 1.08, 1.09, 1.10])[0], 0, "of six, the interval is all of them")
        status, out = self.judged([1.06, 1.07, 1.08, 1.09, 1.10, 1.11])
        self.assertEqual(status, 1)
        self.assertIn("they agree on 0 of 1 sizes", out)

    def test_wide_intervals_tell_nothing(self):
        status, out = self.judged([1.00, 1.01, 1.02, 1.03, 1.04, 1.30])
        self.assertEqual(status, 3)
        self.assertIn("they agree on 0 of 1 sizes; 1 cannot be told: more --launches, or a quieter host", out)

    def test_what_cannot_be_compared(self):
        for options, words in ((("--launches", "5"), "--launches 5: a median has an interval from 6 launches on"),
                               (("--ranks", "1"), "--ranks 1: OSU takes two ranks or more"), (("--osu", "/nowhere"), "'/nowhere' is no program"),
                               (("--mpirun", "/nowhere"), "--mpirun '/nowhere' is not here"), (("--sizes", "12"), "OSU does not measure 12"), (("--sizes", "4x"), "'4x' is no list of sizes such as 4,64,1Ki"),
                               (("--within", "-1"), "'-1' is no percentage above 0")):
            status, _, err = self.compared(1, *options)
            self.assertEqual((status, err.count(words)), (2, 1), err)


if __name__ == "__main__":
    unittest.main()
