"""vectors: recorded questions are asked again, what differs is named, and what cannot be asked is no difference.

    python3 vectors_test.py
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "results"))
from plumbline_results import __main__ as commands

DESCRIPTION = {"operations": [
    {"name": "schedules.stage_to_rank", "arguments": [{"name": n} for n in ("convention", "pp", "num_stages", "style")], "result": [{"name": "result"}]},
    {"name": "schedules.generate", "arguments": [{"name": n} for n in ("convention", "schedule", "pp")], "result": [{"name": "compute_only"}]},
    {"name": "bucketing.assign", "arguments": [{"name": n} for n in ("convention", "numel", "device")], "result": [{"name": "buckets"}]},
    {"name": "scaler.clip_grad_norm", "arguments": [{"name": n} for n in ("convention", "grads")], "result": [{"name": "total_norm"}]},
    {"name": "topology.process_topology", "arguments": [{"name": n} for n in ("convention", "axes", "filter_match", "filter_match.filter")],
     "result": [{"name": "coords"}, {"name": "filter_match"}]},
]}
# Says the stages in the order of the ranks, and rejects a pipeline of none.
ADAPTER = """
import json, sys
for line in sys.stdin:
    question = json.loads(line)
    args, reply = question["args"], {"id": question["id"]}
    open(LOG, "a").write(json.dumps(question) + "\\n")
    if question["op"] == "hello":
        ops = ["schedules.stage_to_rank", "bucketing.assign", "scaler.clip_grad_norm", "topology.process_topology"]
        reply["result"] = {"protocol": 1, "name": "Acme", "version": "1.2", "ops": ops, "options": {"bucketing.assign": {"device": ["cpu"]}}}
    elif question["op"] == "scaler.clip_grad_norm":
        reply["result"] = {"total_norm": 5.000001}
    elif question["op"] == "topology.process_topology":
        reply["result"] = {"coords": [[0]], "filter_match": [{"filter": {"a": 0}, "ranks": [0]}]}
    elif question["op"] == "bucketing.assign":
        reply["result"] = {"buckets": []}
    elif args.get("pp") == 0:
        reply["error"] = {"kind": "invalid_argument", "message": "no ranks"}
    elif args.get("pp") == 9:
        sys.exit(1)
    else:
        reply["result"] = {"result": [stage % args["pp"] for stage in range(args["num_stages"])]}
    print(json.dumps(reply), flush=True)
"""


def stages(pp, result, **more):
    return {"kind": "stage_to_rank", "pp": pp, "num_stages": 4, "style": "loop", "result": result, **more}


class Vectors(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program = self.folder / "plumbline"
        self.program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(DESCRIPTION)}\nEND\n")
        self.program.chmod(0o755)
        for name in ("pytorch", "deepspeed"):
            (self.folder / "adapters" / name).mkdir(parents=True)
            (self.folder / "adapters" / name / "adapter.py").write_text(f"LOG = {str(self.folder / 'log')!r}\n" + ADAPTER)

    def vectors(self, name, cases):
        file = self.folder / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"schema": "1", "cases": cases}))

    def ask(self, *words, only="pytorch"):
        out, err = io.StringIO(), io.StringIO()
        with unittest.mock.patch.dict(os.environ, {"PLUMBLINE_EXECUTABLE": str(self.program)}), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = commands.main(["vectors", "--conformance", str(self.folder), "--only", only, *words])
            except SystemExit as ended:
                status = ended.code
        return status, out.getvalue() + err.getvalue()

    def test_equal_answers(self):
        self.vectors("schedules/vectors/torch", [stages(2, [0, 1, 0, 1]), stages(0, None, error={"type": "ValueError"}),
                                                 {"kind": "schedule", "schedule": "Schedule1F1B", "pp": 2, "compute_only": ["0F0"]}])
        status, said = self.ask()
        self.assertEqual((status, said), (0, "Acme 1.2\n  schedules/torch.json: 2 equal\nall 2 answers are those committed\n"),
                         "an operation that the adapter does not have is not asked")
        asked = [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]
        self.assertEqual(asked[1]["args"], {"convention": "torch", "pp": 2, "num_stages": 4, "style": "loop"}, "no result among the arguments")

    def test_differences(self):
        self.vectors("schedules/vectors/torch", [stages(2, [0, 1, 1, 1]), stages(0, [0]), stages(2, None, error={"type": "ValueError"})])
        status, said = self.ask("--out", str(self.folder / "new"))
        self.assertEqual(status, 1)
        self.assertIn("schedules/torch.json: 3 differ\n", said)
        self.assertIn("case 0, schedules.stage_to_rank: result[2]: recorded 1, now 0\n", said)
        self.assertIn("case 1, schedules.stage_to_rank: recorded an answer, now refused: no ranks\n", said)
        self.assertIn("case 2, schedules.stage_to_rank: recorded a refusal, now {\"result\": [0, 1, 0, 1]}\n", said)
        self.assertIn("3 of 3 answers differ from those committed\n", said)
        new = json.loads((self.folder / "new" / "schedules" / "torch.json").read_text())["cases"]
        self.assertEqual(new[0]["result"], [0, 1, 0, 1])
        self.assertEqual(new[1]["error"]["message"], "no ranks")
        self.assertEqual(new[2]["result"], [0, 1, 0, 1])
        self.assertNotIn("error", new[2])

    def test_options_that_are_not_claimed(self):
        self.vectors("bucketing/vectors/torch", [{"kind": "assign", "numel": [1], "device": "cuda:1", "buckets": [[0]]},
                                                 {"kind": "assign", "numel": [1], "device": ["cpu", "cuda:0"], "buckets": [[0]]}])
        status, said = self.ask()
        self.assertEqual(status, 3, "asking nothing shows nothing")
        self.assertIn("Acme 1.2\nplumbline: vectors: no framework answered", said)
        self.vectors("bucketing/vectors/torch", [{"kind": "assign", "numel": [1], "device": "cpu", "buckets": [[0]]}])
        self.assertEqual(self.ask()[0], 1, "this one is claimed")

    def test_tolerance_of_norms_alone(self):
        self.vectors("scaler/vectors/clip_grad_norm", [{"grads": [[3], [4]], "total_norm": 5.0}])
        self.assertEqual(self.ask()[0], 0)
        self.vectors("scaler/vectors/clip_grad_norm", [{"grads": [[3], [4]], "total_norm": 5.0001}])
        self.assertEqual(self.ask()[0], 1)

    def test_queries_without_their_answers(self):
        self.vectors("topology/vectors/deepspeed", [{"kind": "process_topology", "axes": ["a"], "coords": [[0]], "filter_match": [{"filter": {"a": 0}, "ranks": [0]}]}])
        self.assertEqual(self.ask(only="deepspeed")[0], 0)
        asked = json.loads((self.folder / "log").read_text().splitlines()[1])
        self.assertEqual(asked["args"]["filter_match"], [{"filter": {"a": 0}}])

    def test_frameworks_that_cannot_be_asked(self):
        self.vectors("schedules/vectors/torch", [stages(2, [0, 1, 0, 1])])
        status, said = self.ask("--python", "/nowhere/python")
        self.assertEqual(status, 3)
        self.assertIn("pytorch: skipped: it does not start: No such file or directory", said)
        self.assertIn("no framework answered by /nowhere/python", said)
        (self.folder / "adapters" / "pytorch" / "adapter.py").write_text("raise ImportError('torch')")
        status, said = self.ask()
        self.assertEqual(status, 3)
        self.assertIn("pytorch: skipped: it ended", said)

    def test_an_adapter_that_ends(self):
        self.vectors("schedules/vectors/torch", [stages(9, [0])])
        status, said = self.ask()
        self.assertEqual(status, 3)
        self.assertIn("plumbline: vectors: pytorch: it ended", said)

    def test_bad_input(self):
        status, said = self.ask()
        self.assertEqual(status, 2)
        self.assertIn("has no vectors; name the folder conformance of a checkout", said)
        (self.folder / "schedules" / "vectors").mkdir(parents=True)
        (self.folder / "schedules" / "vectors" / "torch.json").write_text("[1")
        status, said = self.ask()
        self.assertEqual(status, 2)
        self.assertIn("torch.json is no file of vectors", said)
        status, said = self.ask("--only", "tensorflow")
        self.assertEqual(status, 2)
        self.assertIn("tensorflow", said)


if __name__ == "__main__":
    unittest.main()
