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
from plumbline_results.scoreboard.causes import load_causes

DESCRIPTION = {"operations": [
    {"name": "schedules.stage_to_rank", "arguments": [{"name": n} for n in ("convention", "pp", "num_stages", "style")], "result": [{"name": "result"}]},
    {"name": "schedules.generate", "arguments": [{"name": n} for n in ("convention", "schedule", "pp")], "result": [{"name": "compute_only"}]},
    {"name": "bucketing.assign", "arguments": [{"name": n} for n in ("convention", "numel", "device")], "result": [{"name": "buckets"}]},
    {"name": "scaler.clip_grad_norm", "arguments": [{"name": n} for n in ("convention", "grads")], "result": [{"name": "total_norm"}]},
    {"name": "topology.process_topology", "arguments": [{"name": n} for n in ("convention", "axes", "filter_match", "filter_match.filter")],
     "result": [{"name": "coords"}, {"name": "filter_match"}]},
    {"name": "bucketing.dp_pass", "arguments": [{"name": n} for n in ("convention", "program", "rings")], "result": [{"name": "final"}]},
    {"name": "topology.rank_generator", "arguments": [{"name": n} for n in ("convention", "order", "tokens")], "result": [{"name": "groups"}]},
]}
# Says the stages in the order of the ranks, and rejects a pipeline of none.
ADAPTER = """
import json, sys
REPLIES = {20: '{"result": [1]}', 21: '{"error": "no"}', 22: '[1]', 23: '{}', 24: '{"result": {}, "error": {}}', 25: '{"result": {}}',
           26: '{"error": {"kind": "unsupported", "message": "not here"}}', 27: '{"result": {"result": [true, 0.0, {"a": 1, "b": 2}]}}'}
for line in sys.stdin:
    question = json.loads(line)
    args, reply = question["args"], {"id": question["id"]}
    open(LOG, "a").write(json.dumps(question) + "\\n")
    if question["op"] == "hello":
        ops = ["schedules.stage_to_rank", "bucketing.assign", "scaler.clip_grad_norm", "topology.process_topology", "topology.rank_generator", "bucketing.dp_pass"]
        reply["result"] = {"protocol": 1, "name": "Acme", "version": "1.2", "ops": ops, "options": {"bucketing.assign": {"device": ["cpu"]}}}
    elif question["op"] == "scaler.clip_grad_norm":
        reply["result"] = {"total_norm": 5.000001}
    elif question["op"] == "topology.process_topology":
        reply["result"] = {"coords": [[0]], "filter_match": [{"filter": {"a": 0}, "ranks": [0]}]}
    elif question["op"] == "bucketing.dp_pass":
        reply["result"] = {"final": {"ops": args["program"]["ops"][::-1], "vars": args["program"]["vars"]}}
    elif question["op"] == "topology.rank_generator":
        reply["result"] = {"groups": {token: [[0]] for token in args.get("tokens", ["tp"])}}
    elif question["op"] == "bucketing.assign":
        reply["result"] = {"buckets": []}
    elif args.get("pp") in REPLIES:
        told = json.loads(REPLIES[args["pp"]])
        print(json.dumps({"id": question["id"], **told} if isinstance(told, dict) else told), flush=True)
        continue
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
        reference = self.folder / "reference.py"
        reference.write_text(f"LOG = {str(self.folder / 'asked')!r}\n" + ADAPTER.replace("sys.exit(1)", 'reply["error"] = {"kind": "invalid_argument"}'))
        self.program.write_text(f"#!/bin/sh\n[ \"$2\" = --describe ] || exec {sys.executable} {reference}\ncat <<'END'\n{json.dumps(DESCRIPTION)}\nEND\n")
        self.program.chmod(0o755)
        for name in ("pytorch", "deepspeed", "megatron_core", "paddle"):
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
        self.assertEqual((status, said), (0, "Acme 1.2\n  schedules/torch.json: 2 equal, 1 not claimed\nall 2 answers are those committed; 1 not claimed\n"),
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

    def test_groups_of_several_parallelisms_are_asked_for(self):
        self.vectors("topology/vectors/megatron_core", [{"kind": "rank_generator", "order": "tp-dp", "groups": {"tp": [[0]], "tp-dp": [[0]]}},
                                                        {"kind": "rank_generator", "order": "x", "error": {"type": "KeyError"}}])
        status, said = self.ask(only="megatron_core")
        self.assertIn("case 1, topology.rank_generator: recorded a refusal", said)
        self.assertIn("topology/megatron_core.json: 1 equal, 1 differ\n", said)
        asked = [json.loads(line)["args"] for line in (self.folder / "log").read_text().splitlines()]
        self.assertEqual([one.get("tokens") for one in asked[1:]], [["tp", "tp-dp"], None])

    def test_programs_are_asked_in_words(self):
        programs = {"before": {"ops": [0, 1], "vars": [0]}, "rings": {"0": [0]}}
        file = self.folder / "pass/vectors/order.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"ops": [{"type": "a"}, {"type": "b"}], "variables": [{"name": "x"}],
                                    "cases": [{**programs, "final": {"ops": [1, 0], "vars": [0]}}, {**programs, "final": {"ops": [0, 1], "vars": [0]}}]}))
        status, said = self.ask("--out", str(self.folder / "new"), only="paddle")
        self.assertEqual(status, 1, said)
        self.assertIn("pass/order.json: 1 equal, 1 differ\n    case 1, bucketing.dp_pass: final.ops[0].type: recorded \"a\", now \"b\"\n    not written: ", said)
        self.assertFalse((self.folder / "new").exists())

    def explain(self, recorded, version="1.2"):
        (self.folder / "adapters/disagreements.toml").write_text(
            f'[[disagreement]]\nid = "other-stage"\nframework = "Acme"\nversions = ["{version}"]\nkind = "adapter"\ntitle = "it differs"\n'
            f'text = "so"\ncases = ["none"]\nrequirements = ["none"]\nrecorded = {json.dumps(recorded)}\n')

    def test_differences_with_a_cause_are_counted_by_it(self):
        self.vectors("schedules/vectors/torch", [stages(2, [0, 1, 1, 1]), stages(2, [0, 1, 0, 1]), stages(2, None, error={"type": "ValueError"})])
        known = ["schedules/torch: result[2]: *", "schedules/torch: recorded a refusal, *"]
        self.explain(known)
        status, said = self.ask("--out", str(self.folder / "new"))
        self.assertEqual(status, 0, said)
        self.assertIn("schedules/torch.json: 1 equal, 2 explained\n    2 explained by other-stage (adapter): it differs\n", said)
        self.assertTrue(said.endswith("all 3 answers are those committed, but for 2 whose cause is known\n"), said)
        self.assertEqual(json.loads((self.folder / "new/schedules/torch.json").read_text())["cases"][0]["result"], [0, 1, 0, 1])

    def test_tables_of_causes_that_cannot_be_read(self):
        self.vectors("schedules/vectors/torch", [stages(2, [0, 1, 1, 1])])
        self.explain(["schedules/torch: *"])
        with unittest.mock.patch.dict(sys.modules, {"tomllib": None}):  # as before Python 3.11
            status, said = self.ask()
        self.assertEqual(status, 1, said)
        self.assertIn("differences are not explained: a table of causes is TOML", said)
        (self.folder / "adapters/disagreements.toml").write_text("[[disagreement]]\nid = 3\n")
        self.assert_one_line(2, "disagreements.toml: entry 1: id is not a text")

    def test_a_cause_explains_no_more_than_it_names(self):
        self.vectors("schedules/vectors/torch", [stages(2, [0, 1, 1, 1])])
        for recorded, version in ((["schedules/torch: result[3]: *"], "1.2"), (["schedules/other: *"], "1.2"), (["schedules/torch: *"], "1.3"), (["schedules/torch: *"], "1.2")):
            self.explain(recorded, version)
            status, said = self.ask()
            self.assertEqual(status, 0 if (recorded, version) == (["schedules/torch: *"], "1.2") else 1, said)
        self.vectors("schedules/vectors/torch", [stages(2, [1, 1, 1, 1])])
        self.explain(["schedules/torch: result[2]: *"])
        status, said = self.ask()
        self.assertEqual(status, 1, "one of two differences has no cause")
        self.assertIn("case 0, schedules.stage_to_rank: result[0]: recorded 1, now 0\n", said)

    def test_a_cause_names_the_questions_and_what_a_list_has_more(self):
        self.vectors("schedules/vectors/torch", [stages(2, [0, 1, 0])])
        for recorded, known in (('schedules/torch: result: now also [1]', True), ('schedules/torch: result: now also [0]', False),
                                ('schedules/torch[pp=2,style=loop]: result: now also [1]', True), ('schedules/torch[pp=2,style=v]: result: *', False),
                                ('schedules/torch[pp=3]: result: *', False), ('schedules/torch[none=*]: result: *', False), ('schedules/torch[pp.x=*]: result: *', False)):
            self.explain([recorded])
            status, said = self.ask()
            self.assertEqual(status, 0 if known else 1, said)
        self.assertIn("result: now also [1]\n", said)
        self.vectors("schedules/vectors/torch", [stages(2, [2, 1, 0])])
        self.assertIn("result: recorded [2, 1, 0], now [0, 1, 0, 1]\n", self.ask()[1], "a list with other values")
        for recorded in ("result[2]", "schedules/torch[pp]: result", "schedules/torch[]: result", "schedules/torch[pp=2: result"):
            self.explain([recorded])
            self.assert_one_line(2, f"entry 1: recorded '{recorded}'; it is FILE: DIFFERENCE or FILE[ARGUMENT=VALUE,...]: DIFFERENCE")

    def test_the_committed_causes_explain_no_other_answer(self):
        causes = load_causes(ROOT / "conformance/adapters/disagreements.toml")
        def known(file, args, difference):
            return any(one.explains_recorded("ColossalAI", "0.5.0", file, args, difference) for one in causes)
        capped, free = {"init": {"max_scale": 24.0}}, {"init": {"max_scale": None}}
        self.assertTrue(known("scaler/colossalai", capped, "trace[7].scale: recorded 27.0, now 24.0"))
        for args in (free, {"init": {}}, {"init": {"max_scale": 48.0}}):
            self.assertFalse(known("scaler/colossalai", args, "trace[7].scale: recorded 27.0, now 24.0"))
            self.assertFalse(known("scaler/colossalai", args, "trace[7].inv_scale: recorded 0.03703703731298447, now 0.0416666679084301"))
            self.assertFalse(known("scaler/colossalai", args, "state_dict.scale: recorded 27.0, now 24.0"))
        self.assertFalse(known("scaler/colossalai", capped, "trace[7].scale: recorded 27.0, now 12.0"))
        self.assertTrue(known("scaler/colossalai", free, "state_dict.max_scale: recorded null, now nothing"))
        self.assertFalse(known("scaler/colossalai", free, "state_dict.min_scale: recorded 1.0, now nothing"))
        self.assertTrue(known("scaler/colossalai", {"init": {"hysteresis": 0}}, "recorded a refusal, now {}"))
        self.assertFalse(known("scaler/colossalai", {"init": {"hysteresis": 1}}, "recorded a refusal, now {}"))
        for mode, is_known in (("3d", True), ("2d", False), (None, False)):
            added = 'initialized_modes: now also ["PARALLEL_3D_INPUT_X_WEIGHT", "PARALLEL_3D_OUTPUT_X_WEIGHT"]'
            args = {"world_size": 8, "parallel": {"tensor": {"mode": mode}}}
            self.assertEqual(known("groups/colossalai94", args, added), is_known)
            self.assertFalse(known("groups/colossalai94", args, 'initialized_modes: now also ["MODEL"]'))
            self.assertFalse(known("groups/colossalai94", args, "new_group_calls: now also [[0, 1]]"))
            self.assertFalse(known("groups/colossalai94", args, "new_group_calls: recorded [[0]], now [[1]]"))

    def test_files_are_written_as_they_are_committed(self):
        file = self.folder / "schedules/vectors/torch.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"schema": "1", "source": {"package": "acme", "version": "1.0"},
                                    "cases": [stages(2, [0, 1, 1, 1]), stages(0, [0]), stages(2, [0, 1, 0, 1])]}))
        self.assertEqual(self.ask("--out", str(self.folder / "new"))[0], 1)
        text = (self.folder / "new/schedules/torch.json").read_text()
        self.assertEqual([line[:8] for line in text.splitlines()], ['{"schema', '{"kind":', '{"kind":', '{"kind":', "]}"])
        new = json.loads(text)
        self.assertEqual(new["source"], {"package": "acme", "version": "1.2"})
        self.assertEqual((new["cases"][0]["result"], new["cases"][1]["error"]["message"]), ([0, 1, 0, 1], "no ranks"))
        self.assertNotIn("result", new["cases"][1], "a refusal has no result")
        self.assertEqual(new["cases"][1]["pp"], 0, "what was asked stays")

    def test_questions_that_are_not_answered_now(self):
        self.vectors("schedules/vectors/torch", [stages(2, [0, 1, 0, 1]), stages(26, [0]), stages(26, None, error={"type": "ValueError"}), {"kind": "other"}])
        status, said = self.ask()
        self.assertEqual(status, 1, said)
        self.assertIn("schedules/torch.json: 1 equal, 1 unsupported, 1 refused as unsupported\n", said)
        self.assertIn("or of another version: 1 cases\n  schedules/torch.json: 1 other\n", said)
        self.assertTrue(said.endswith("all 1 answers are those committed; 1 unsupported; 1 refused as unsupported\n"), said)
        self.vectors("schedules/vectors/torch", [stages(26, [0])])
        self.assertEqual(self.ask()[0], 1, "an adapter that answers nothing is no pass")

    def test_skipped_frameworks_are_named_last(self):
        self.vectors("schedules/vectors/torch", [stages(2, [0, 1, 0, 1])])
        (self.folder / "adapters/deepspeed/adapter.py").write_text("raise ImportError('deepspeed')")
        status, said = self.ask("--only", "deepspeed")
        self.assertEqual((status, said.splitlines()[-1]), (0, "all 1 answers are those committed; skipped: deepspeed"))

    def test_differences_of_types_and_fields(self):
        for recorded, words in (([1, 0.0, {"a": 1, "b": 2}], "result[0]: recorded 1, now true"), ([True, 0.0, {"a": 1}], "result[2].b: recorded nothing, now 2"),
                                ([True, 0.0, {"a": 1, "b": 2, "c": None}], "result[2].c: recorded null, now nothing"),
                                ([True, False, {"a": 1, "b": 2}], "result[1]: recorded false, now 0.0"), ([True, 0, {"a": 1, "b": 2}], "")):
            self.vectors("schedules/vectors/torch", [stages(27, recorded)])
            status, said = self.ask()
            self.assertEqual(status, 1 if words else 0, said)
            self.assertIn(words, said)
        self.vectors("schedules/vectors/torch", [stages(25, None)])
        self.assertIn("result: recorded null, now nothing", self.ask()[1])

    def assert_one_line(self, status, words):
        ended, said = self.ask()
        self.assertEqual(ended, status, said)
        self.assertNotIn("Traceback", said)
        self.assertIn(words, said.splitlines()[-1])

    def test_replies_that_are_no_replies(self):
        for pp in range(20, 25):
            self.vectors("schedules/vectors/torch", [stages(pp, [0])])
            self.assert_one_line(3, "plumbline: vectors: pytorch: schedules.stage_to_rank: its reply has no object as 'result' or 'error'")
        for result in ('{"ops": 3}', '{"ops": [[]]}', '{"ops": [], "options": 1}', '{"ops": [], "options": {"a": {"b": 1}}}'):
            (self.folder / "adapters/pytorch/adapter.py").write_text(f"print('{{\"id\": 1, \"result\": {result}}}')")
            self.assert_one_line(3, "plumbline: vectors: pytorch: its greeting has other '")
        (self.folder / "adapters/pytorch/adapter.py").write_text("print('{\"id\": 1, \"error\": {\"message\": \"no licence\"}}')")
        self.assert_one_line(3, 'plumbline: vectors: pytorch: it greets with an error: "no licence"')
        for reply, words in (('{\"id\": 7, \"result\": {}}', "hello: its reply is to question 7, and 1 was asked"), ("\\xff", "its reply is no JSON")):
            (self.folder / "adapters/pytorch/adapter.py").write_text(f"import sys\nsys.stdout.buffer.write(b'{reply}\\n')")
            status, said = self.ask()
            self.assertEqual(status, 3, said)
            self.assertIn(f"pytorch: skipped: {words}", said)

    def test_cases_that_are_no_cases(self):
        for cases, words in ([1], "case 0 is no object: 1"), ({}, "its cases are no list"), ([{"kind": "stage_to_rank"}, "x"], 'case 1 is no object: "x"'):
            self.vectors("schedules/vectors/torch", cases)
            self.assert_one_line(2, words)
        self.vectors("schedules/vectors/torch", [stages(2, [0])])
        self.vectors("topology/vectors/torch_device_mesh", [{"kind": "device_mesh"}])
        self.program.write_text(self.program.read_text().replace("schedules.stage_to_rank", "schedules.elsewhere"))
        self.assert_one_line(3, "describes no schedules.stage_to_rank, which schedules/torch.json asks for; PLUMBLINE_EXECUTABLE names")
        described = {"operations": [*DESCRIPTION["operations"], {"name": "topology.device_mesh", "arguments": [], "result": []}]}
        self.program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(described)}\nEND\n")
        self.assert_one_line(2, "torch_device_mesh.json: case 0 has not the fields of its question: KeyError: 'ranks'")

    def test_options_that_are_not_claimed(self):
        self.vectors("bucketing/vectors/torch", [{"kind": "assign", "numel": [1], "device": "cuda:1", "buckets": [[0]]},
                                                 {"kind": "assign", "numel": [1], "device": ["cpu", "cuda:0"], "buckets": [[0]]}])
        status, said = self.ask()
        self.assertEqual(status, 3, "asking nothing shows nothing")
        self.assertIn("bucketing/torch.json: 2 not claimed\nplumbline: vectors: no framework answered", said)
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
        self.assertEqual(status, 2)
        self.assertIn("--python: '/nowhere/python' is no program that can be run", said)
        (self.folder / "adapters" / "pytorch" / "adapter.py").write_text("raise ImportError('torch')")
        status, said = self.ask()
        self.assertEqual(status, 3)
        self.assertIn("pytorch: skipped: it ended and said last: ImportError: torch", said)

    def test_an_adapter_that_ends(self):
        self.vectors("schedules/vectors/torch", [stages(9, [0])])
        status, said = self.ask()
        self.assertEqual(status, 3)
        self.assertIn("plumbline: vectors: pytorch: it ended", said)

    def vary(self, *words):
        self.vectors("schedules/vectors/torch", [stages(pp, [0]) for pp in (2, 3, 5, 8)])
        (self.folder / "log").unlink(missing_ok=True)
        status, said = self.ask("--vary", "60", *words)
        return status, said, [json.loads(line)["args"] for line in (self.folder / "log").read_text().splitlines() if "schedules" in line]

    def test_varied_questions(self):
        status, said, asked = self.vary()
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"varied with seed 1: \d+ equal, \d+ refused by both")
        self.assertTrue(said.endswith("answers are those of the reference, of 60 questions\n"), said)
        self.assertEqual(len({json.dumps(args) for args in asked}), 60, "none twice")
        self.assertFalse([args for args in asked if set(args) != {"convention", "pp", "num_stages", "style"} or args["convention"] != "torch"])
        self.assertEqual(self.vary()[2], asked, "the same seed draws the same")
        self.assertNotEqual(self.vary("--seed", "2")[2], asked)

    def test_varied_questions_on_which_they_differ(self):
        framework = self.folder / "adapters/pytorch/adapter.py"
        right = framework.read_text()
        framework.write_text(right.replace('% args["pp"] for', '% args["pp"] + (args["num_stages"] == 8) for'))
        status, said, asked = self.vary()
        count = sum(args["num_stages"] == 8 and args["pp"] > 0 for args in asked)
        self.assertEqual(status, 1, said)
        self.assertIn("    differ: result[0]: the framework 1, the reference 0: ", said)
        self.assertRegex(said, rf"{count} of \d+ answers differ from those of the reference, of 60 questions\n$")
        for hollow in ('{}', '{"results": []}', '{"result": []}'):
            framework.write_text(right.replace('reply["result"] = {"result": [', f'reply["result"] = {hollow} if True else {{"result": ['))
            status, said, _ = self.vary()
            self.assertEqual(status, 1, f"{hollow} is no answer: {said}")
        framework.write_text(right.replace('args.get("pp") == 0', 'args.get("pp") in (0, 1, 4)'))
        status, said, _ = self.vary()
        self.assertEqual(status, 0, "a refusal is no other answer")
        self.assertRegex(said, r"refused by the framework alone: no ranks: .*\"pp\": [14]")

    def test_a_framework_that_ends_is_started_again(self):
        framework = self.folder / "adapters/pytorch/adapter.py"
        framework.write_text(framework.read_text().replace('args.get("pp") == 9', 'args.get("pp", 0) > 5'))
        status, said, asked = self.vary()
        self.assertEqual((status, len(asked)), (0, 60), said)
        self.assertRegex(said, r"[1-9]\d* the framework ended or was silent\n")

    def test_bad_input(self):
        status, said = self.ask()
        self.assertEqual(status, 2)
        self.assertIn("has no vectors; name the folder conformance of a checkout", said)
        (self.folder / "schedules" / "vectors").mkdir(parents=True)
        (self.folder / "schedules" / "vectors" / "torch.json").write_text("[1")
        status, said = self.ask()
        self.assertEqual(status, 2)
        self.assertIn("torch.json is no file of vectors", said)
        self.vectors("schedules/vectors/torch", [stages(2, [0])])
        for words, told in ((("--vary", "3", "--out", "new"), "--out: writes recorded questions"), (("--vary", "0"), "'0' is not a whole number from 1 to 1000000")):
            status, said = self.ask(*words)
            self.assertEqual(status, 2)
            self.assertIn(told, said)
        status, said = self.ask("--only", "tensorflow")
        self.assertEqual(status, 2)
        self.assertIn("tensorflow", said)


if __name__ == "__main__":
    unittest.main()
