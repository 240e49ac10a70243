"""`plumbline vectors`: asks a framework the recorded questions again, and compares its answers with those that are committed."""

import collections
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from .adapter_process import MISSING, Adapter, Gone, short
from .options import BadInput, Failed, parser, status_of, whole
from .scoreboard.causes import load_causes
from .varied import ALLOWANCE, vary
from .writing import write

CONFORMANCE = Path(__file__).resolve().parents[2] / "conformance"
HELP = """Ask installed frameworks, through their adapters in conformance/adapters, recorded questions again, and compare what
they answer now with the recorded answers in conformance/*/vectors. A difference whose cause stands in
conformance/adapters/disagreements.toml is explained: it is counted apart, by its cause. Cases that are no question of the protocol, or of a
framework without an adapter that serves them, are not asked; they are counted by file and kind."""
EXAMPLE = """Examples: plumbline vectors --only pytorch --python .venv-adapters/bin/python
          plumbline vectors --only pytorch --vary 2000 --seed 7
Exit status: 0 all answers are those that are committed, or explained, or the reference's; 1 some differ, or a question with a recorded answer is unsupported now;
2 a bad option or file of vectors; 3 no framework could be asked, an adapter breaks the protocol, or --out could not be written"""

# (file, kind of case): framework, operation, convention. Not here are FairScale's traces and SlowMo: its PushSum answers otherwise from
# run to run, its PushPull hangs (conformance/adapters/defects), and sums that cancel depend on fused multiply-adds. A case's other fields are the operation's arguments and results.
QUESTIONS = {
    ("topology/torch_device_mesh", "device_mesh"): ("pytorch", "topology.device_mesh", "torch"),
    ("schedules/torch", "schedule"): ("pytorch", "schedules.generate", "torch"),
    ("schedules/torch", "construct"): ("pytorch", "schedules.generate", "torch"),
    ("schedules/torch", "stage_to_rank"): ("pytorch", "schedules.stage_to_rank", "torch"),
    ("schedules/torch", "load_csv"): ("pytorch", "schedules.load_csv", "torch"),
    ("schedules/torch_passes", "schedule"): ("pytorch", "schedules.lower", "torch"),
    ("bucketing/torch", "assign"): ("pytorch", "bucketing.assign", "torch"),
    ("bucketing/torch_ddp", "ddp_run"): ("pytorch", "bucketing.ddp_runs", "torch"),
    ("bucketing/torch", "capacity_config"): ("pytorch", "bucketing.capacity_config", "torch"),
    ("scaler/torch", None): ("pytorch", "scaler.trace", "torch"),
    ("scaler/clip_grad_norm", None): ("pytorch", "scaler.clip_grad_norm", "torch"),
    ("collectives/ring_sum", None): ("pytorch", "comm.ring_sum", "gloo"),
    ("topology/deepspeed", "process_topology"): ("deepspeed", "topology.process_topology", "deepspeed"),
    ("topology/deepspeed", "pipeline_parallel_grid"): ("deepspeed", "topology.grid", "deepspeed"),
    ("schedules/deepspeed", "instruction_stream"): ("deepspeed", "schedules.instruction_stream", "deepspeed"),
    ("schedules/partition_deepspeed", "uniform"): ("deepspeed", "schedules.partition_uniform", "deepspeed"),
    ("schedules/partition_deepspeed", "balanced"): ("deepspeed", "schedules.partition_balanced", "deepspeed"),
    ("schedules/partition_methods", "method"): ("deepspeed", "schedules.partition_method", "deepspeed"),
    ("scaler/deepspeed", None): ("deepspeed", "scaler.trace", "deepspeed"),
    ("topology/megatron_core", "rank_generator"): ("megatron_core", "topology.rank_generator", "megatron"),
    ("topology/megatron_core", "initialize_model_parallel"): ("megatron_core", "topology.initialize_model_parallel", "megatron"),
    ("topology/megatron_core", "hyper_comm_grid"): ("megatron_core", "topology.hyper_comm_grid", "megatron"),
    ("schedules/megatron", "schedule"): ("megatron_core", "schedules.trace", "megatron"),
    ("schedules/megatron", "table"): ("megatron_core", "schedules.table", "megatron"),
    ("schedules/megatron", "warmup"): ("megatron_core", "schedules.warmup", "megatron"),
    ("schedules/partition_megatron", "layout"): ("megatron_core", "schedules.pipeline_layout", "megatron"),
    ("schedules/partition_megatron", "counted"): ("megatron_core", "schedules.partition_counted", "megatron"),
    ("bucketing/megatron", "ddp_layout"): ("megatron_core", "bucketing.layout", "megatron"),
    ("bucketing/megatron_buffers", "buffers"): ("megatron_core", "bucketing.buffers", "megatron"),
    ("bucketing/megatron", "distributed_optimizer_layout"): ("megatron_core", "bucketing.layout", "megatron"),
    ("scaler/megatron", None): ("megatron_core", "scaler.trace", "megatron"),
    ("groups/colossalai94", "parallel_groups"): ("colossalai", "groups.parallel_groups", "colossalai"),
    ("groups/colossalai94", "pipeline_shared_module"): ("colossalai", "groups.shared_module", "colossalai"),
    ("schedules/partition_colossalai", "uniform"): ("colossalai", "schedules.partition_uniform", "colossalai"),
    ("schedules/partition_colossalai", "balanced"): ("colossalai", "schedules.partition_balanced", "colossalai"),
    ("scaler/colossalai", None): ("colossalai", "scaler.trace", "colossalai"),
    **{(f"pass/{file}", None): ("paddle", "bucketing.dp_pass", "paddle")
       for file in ("degrees", "entry", "limits", "models", "options", "order", "recognition", "refused", "rings")},
    ("gossip/graphs", None): ("fairscale", "gossip.graph", "fairscale"),
    ("gossip/bluefog", None): ("bluefog", "gossip.topology", "bluefog"),
    ("gossip/bluefog_turns", None): ("bluefog", "gossip.turns", "bluefog"),
}
FRAMEWORKS = sorted({framework for framework, _, _ in QUESTIONS.values()})
# Half precision, powers and divisions are not the same on every processor.
TOLERANCES = {"scaler.clip_grad_norm": 2e-6, "scaler.trace": 1e-6, "gossip.topology": 1e-12}
REFUSALS = ("error", "errors", "construct_error")
# Fields below the top that some recorded answers lack: large ones, and the protocol's name for what kind of error it was.
LEFT_OUT = {"gossip.graph": ("out_edges", "in_edges"), "scaler.trace": ("kind",),
            "bucketing.dp_pass": ("debug",), "topology.initialize_model_parallel": ("get_expert_tensor_parallel_world_size",)}
OTHER_VERSION = "0.6.3"  # of DeepSpeed, whose answers are recorded beside those of the pinned one


def rows_of_operations():
    """By operation the names of its arguments and results, of fields inside by their paths."""
    executable = os.environ.get("PLUMBLINE_EXECUTABLE", "plumbline")
    try:
        told = subprocess.run([executable, "adapter", "--describe", "--format", "json"], capture_output=True, text=True, check=True)
        return {one["name"]: tuple([row["name"] for row in one[part]] for part in ("arguments", "result")) for one in json.loads(told.stdout)["operations"]}
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        raise Failed(f"{executable} does not describe its operations: {error}") from None


def named(value, path, rows):
    """A value without the fields that no row names, where rows name any."""
    if isinstance(value, list):
        return [named(one, path, rows) for one in value]
    inside = [row for row in rows if row.startswith(path + ".")]
    if not isinstance(value, dict) or not inside or any(row.startswith(path + ".*") for row in inside):
        return value
    return {name: named(one, f"{path}.{name}", rows) for name, one in value.items() if f"{path}.{name}" in rows}


def picked(case, rows):
    return {name: named(case[name], name, rows) for name in rows if name in case}


def differences(now, then, tolerance, left_out=(), where="", words=("recorded", "now")):
    """Where and how an answer differs from the recorded one; of the whole answer, fields that it alone has are not looked at."""
    if isinstance(then, dict) and isinstance(now, dict):
        names = then if not where else list(then) + [name for name in now if name not in then and name not in left_out]
        pairs = ((f"{where}.{name}" if where else name, now.get(name, MISSING), then.get(name, MISSING)) for name in names)
    elif isinstance(then, list) and isinstance(now, list) and len(now) == len(then):
        pairs = ((f"{where}[{i}]", *both) for i, both in enumerate(zip(now, then)))
    else:
        if not _is_same(now, then, tolerance):
            yield f"{where}: {_added(now, then, words) or f'{words[0]} {short(then)}, {words[1]} {short(now)}'}"
        return
    for place, a, b in pairs:
        yield from differences(a, b, tolerance, left_out, place, words)


def _added(now, then, words):
    """Of a list that has all of another one in its order, what it has beyond that, which a cause may name; of others nothing."""
    if not isinstance(now, list) or not isinstance(then, list) or not then:
        return ""
    rest, added = list(then), []
    for one in now:
        if rest and json.dumps(one) == json.dumps(rest[0]):
            rest.pop(0)
        else:
            added.append(one)
    return "" if rest else f"{words[1]} also {json.dumps(added)}"


def _is_same(now, then, tolerance):
    """Of two values that are no objects, and no lists of one length. True is not 1."""
    if _is_number(now) and _is_number(then):
        return now == then or abs(now - then) <= tolerance * max(abs(now), abs(then))
    return isinstance(now, bool) == isinstance(then, bool) and now == then


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _of_mesh(case):
    return {"slices": list(case["ranks"][0]["slices"])}


def _of_graph(case):
    if "book_rows" in case:
        return {"book_rows": [int(rank) for rank in case["book_rows"]]}
    if "ranks" not in case or "plan" in case:
        return {}
    return {"rotations": max(1, *(len(rank["out"]) for rank in case["ranks"])) - 1}


def _of_orders(case):
    """Without tokens an adapter gives the groups of single parallelisms alone."""
    return {"tokens": list(case["groups"])} if "groups" in case else {}


def _of_ddp(case):
    return {**{name: case["parameters"][name] for name in ("numel", "dtype")}, **case["ddp"], "iterations": len(case["launches"])}


def _of_pass(case):
    return {"program": case["before"]}


def expanded(case, document):
    """A case with its programs in words: a file of programs has each op and each variable once, and numbers in their place."""
    lists = {"ops": document.get("ops"), "vars": document.get("variables"), "vars_added": document.get("variables")}
    def inside(value):
        if not isinstance(value, dict):
            return value
        return {name: [lists[name][at] for at in one] if name in lists and isinstance(one, list) else inside(one) for name, one in value.items()}
    return case if lists["ops"] is None else inside(case)


# By operation the arguments that a case has under other names.
DERIVED = {"bucketing.dp_pass": _of_pass, "bucketing.ddp_runs": _of_ddp, "topology.device_mesh": _of_mesh, "topology.rank_generator": _of_orders, "gossip.graph": _of_graph}


def question_of(file, case, rows):
    """(framework, operation, arguments, recorded result or None for a refusal), or nothing where a case has no question of the protocol."""
    if OTHER_VERSION in json.dumps(case.get("impl", "")) and "0.19" not in json.dumps(case["impl"]):
        return None
    found = QUESTIONS.get((file, case.get("kind"))) or QUESTIONS.get((file, None))
    if found is None or "error_at" in case:
        return None
    framework, operation, convention = found
    if operation not in rows:
        raise Failed(f"{os.environ.get('PLUMBLINE_EXECUTABLE', 'plumbline')} describes no {operation}, which {file}.json asks for; PLUMBLINE_EXECUTABLE names the program of this checkout")
    arguments, results = rows[operation]
    args = {**picked(case, arguments), **DERIVED.get(operation, lambda _: {})(case), "convention": convention}
    is_refused = any(case.get(name) for name in REFUSALS)
    return framework, operation, args, None if is_refused else {name: named(case[name], name, results) for name in results if "." not in name and name in case}


def compared(adapter, operation, args, recorded):
    """(a text for each difference or None for no answer, the case's fields as they are answered now)."""
    reply = adapter.ask(operation, args)
    error, result = reply.get("error"), reply.get("result")
    if error is not None and error.get("kind") == "unsupported":
        return None, None
    if recorded is None:
        return ([] if error is not None else [f"recorded a refusal, now {short(result)}"]), result
    if error is not None:
        return [f"recorded an answer, now refused: {str(error.get('message', ''))[:120]}"], {"error": error}
    found = list(differences(result, recorded, TOLERANCES.get(operation, 0), LEFT_OUT.get(operation, ())))
    return found, {name: result[name] for name in recorded if name in result}


def causes_of(adapter, file, args, found, causes):
    """The causes that explain every difference of a case, or nothing where one has none."""
    by_difference = [next((one for one in causes if one.explains_recorded(adapter.framework, adapter.version, file, args, words)), None) for words in found]
    return [] if None in by_difference else list(dict.fromkeys(one.id for one in by_difference))


def files_of(folder):
    for path in sorted(folder.glob("*/vectors/*.json")):
        yield f"{path.parent.parent.name}/{path.stem}", path


def read(path):
    try:
        document = json.loads(path.read_text())
        cases = document["cases"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path} is no file of vectors: {error}") from None
    if not isinstance(cases, list):
        raise BadInput(f"{path} is no file of vectors: its cases are no list")
    for index, case in enumerate(cases):
        if not isinstance(case, dict):
            raise BadInput(f"{path} is no file of vectors: case {index} is no object: {short(case)}")
    return document, cases


def questions_of(file, path, document, rows):
    for index, case in enumerate(document["cases"]):
        try:
            yield index, case, question_of(file, expanded(case, document), rows)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise BadInput(f"{path}: case {index} has not the fields of its question: {type(error).__name__}: {error}") from None


def written(document):
    """As files of vectors are committed: a case a line."""
    head = json.dumps({name: value for name, value in document.items() if name != "cases"})[:-1]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in document["cases"])
    return f'{head}{", " if len(head) > 1 else ""}"cases": [\n{lines}\n]}}\n'


ENDS = ("equal", "differ", "explained", "unsupported", "refused as unsupported", "not claimed")


def ask_file(adapter, framework, file, path, rows, causes, out):
    """How many cases ended in which way, after a line of the file, one for each of the first that differ, and one for each cause."""
    document, cases = read(path)
    counts, lines, explained = dict.fromkeys(ENDS, 0), [], collections.Counter()
    for index, case, question in list(questions_of(file, path, document, rows)):
        if question is None or question[0] != framework:
            continue
        if not adapter.claims(*question[1:3]):
            counts["not claimed"] += 1
            continue
        found, now = compared(adapter, *question[1:])
        if found is None:
            counts["refused as unsupported" if question[3] is None else "unsupported"] += 1
            continue
        known = causes_of(adapter, file, question[2], found, causes)
        explained.update(known)
        counts["equal" if not found else "explained" if known else "differ"] += 1
        if found and not known:
            lines.append(f"    case {index}, {question[1]}: {found[0] if len(found[0]) <= 400 else found[0][:397] + '...'}")
        if found:
            old = {*REFUSALS, *(rows[question[1]][1] if "error" in now else ())} - set(question[2])
            cases[index] = {**{name: value for name, value in case.items() if name not in old}, **now}
    if not any(counts.values()):
        return counts
    print(f"  {file}.json: " + ", ".join(f"{count} {word}" for word, count in counts.items() if count))
    for line in lines[:3]:
        print(line)
    if len(lines) > 3:
        print(f"    and {len(lines) - 3} more")
    for one in causes:
        if explained[one.id]:
            print(f"    {explained[one.id]} explained by {one.id} ({one.kind}): {one.title}")
    if out is not None and "variables" in document:
        print("    not written: its programs are numbers of ops in lists of the file")
    elif out is not None and counts["equal"] + counts["differ"] + counts["explained"]:
        if isinstance(document.get("source"), dict) and adapter.version:
            document["source"]["version"] = adapter.version
        (out / path.parent.parent.name).mkdir(parents=True, exist_ok=True)
        write(str(out / path.parent.parent.name / path.name), written(document))
    return counts


def recorded_questions(framework, folder, rows):
    """(operation, arguments, recorded answer, None for a refusal) of each recorded question of a framework."""
    found = [question for file, path in files_of(folder) for _, _, question in questions_of(file, path, read(path)[0], rows)]
    return [question[1:] for question in found if question is not None and question[0] == framework]


def varied_difference(operation, now, then):
    tolerance = ALLOWANCE * TOLERANCES.get(operation, 0)
    return next(differences(now, then, tolerance, words=("the framework", "the reference")), "")


def ask_framework(framework, options, rows, causes):
    """How many cases ended in which way; nothing where the framework cannot be asked."""
    program = shlex.split(options.python)
    if not program or shutil.which(program[0]) is None:
        raise BadInput(f"--python: '{options.python}' is no program that can be run; give a Python that has the frameworks")
    command = [*program, str(Path(options.conformance) / "adapters" / framework / "adapter.py")]
    try:
        adapter = Adapter(command)
    except Gone as why:
        print(f"{framework}: skipped: {why}")
        return None
    except Failed as why:
        raise Failed(f"{framework}: {why}") from None
    print(adapter.name, flush=True)
    try:
        if options.vary:
            recorded = recorded_questions(framework, Path(options.conformance), rows)
            return {**dict.fromkeys(ENDS, 0), **vary(adapter, lambda: Adapter(command), recorded, options, varied_difference, LEFT_OUT)}
        out = None if options.out is None else Path(options.out)
        counts = [ask_file(adapter, framework, file, path, rows, causes, out) for file, path in files_of(Path(options.conformance))]
        return {end: sum(one[end] for one in counts) for end in ENDS}
    except Gone as why:
        raise Failed(f"{framework}: {why}") from None
    finally:
        adapter.close()


def say_what_is_no_question(folder, rows):
    """The cases that nothing here asks, by file and kind."""
    lines, total = [], 0
    for file, path in files_of(folder):
        kinds = collections.Counter(str(case.get("kind", "cases")) for _, case, question in questions_of(file, path, read(path)[0], rows) if question is None)
        total += sum(kinds.values())
        if kinds:
            lines.append(f"  {file}.json: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    if lines:
        print(f"no question of an adapter, or of another version: {total} cases", *lines, sep="\n")


def known_causes(table):
    """The entries of the table; none where it is not there, or this Python reads no TOML, which is said."""
    try:
        return load_causes(table) if table.is_file() else []
    except Failed as why:
        print(f"differences are not explained: {why}")
        return []


def _options():
    one = parser("vectors", HELP, EXAMPLE)
    one.add_argument("--only", action="append", choices=FRAMEWORKS, metavar="NAME", help=f"only this framework, may be repeated: {', '.join(FRAMEWORKS)} (default all)")
    one.add_argument("--python", default=sys.executable, metavar="PROGRAM", help="Python that has the frameworks (default this one)")
    one.add_argument("--conformance", default=str(CONFORMANCE), metavar="DIR", help="folder of adapters and vectors (default that of the checkout)")
    one.add_argument("--out", metavar="DIR", help="write the files with the answers of now (default: they are only compared)")
    one.add_argument("--vary", type=whole("--vary", 1, 1_000_000), metavar="COUNT", help="ask each framework COUNT recorded questions with random changes instead, and compare with the reference's answers")
    one.add_argument("--seed", type=whole("--seed", 0), default=1, metavar="N", help="of the changes (default 1)")
    return one


def _main(words):
    options = _options().parse_args(words)
    if not list(itertools.islice(files_of(Path(options.conformance)), 1)):
        raise BadInput(f"--conformance '{options.conformance}' has no vectors; name the folder conformance of a checkout")
    if options.vary and options.out:
        raise BadInput("--out: writes recorded questions; --vary asks others. Give one of them")
    rows = rows_of_operations()
    causes = known_causes(Path(options.conformance) / "adapters" / "disagreements.toml")
    by_framework = {framework: ask_framework(framework, options, rows, causes) for framework in options.only or FRAMEWORKS}
    counts = {end: sum(one[end] for one in by_framework.values() if one) for end in ENDS}
    answered = counts["equal"] + counts["differ"] + counts["explained"]
    if not options.vary:
        say_what_is_no_question(Path(options.conformance), rows)
    skipped = [framework for framework, one in by_framework.items() if one is None]
    rest = [f"{counts[end]} {end}" for end in ENDS[3:] if counts[end]] + ([f"skipped: {', '.join(skipped)}"] if skipped else [])
    if answered + counts["unsupported"] == 0:
        raise Failed("; ".join([f"no framework answered by {options.python}", *rest, "ci/adapters --install installs them"]))
    those = f"of the reference, of {sum(one['asked'] for one in by_framework.values() if one)} questions" if options.vary else "committed"
    head = f"{counts['differ']} of {answered} answers differ from those {those}" if counts["differ"] else f"all {answered} answers are those {those}"
    if counts["explained"]:
        head += f"{', and' if counts['differ'] else ', but for'} {counts['explained']} whose cause is known"
    print("; ".join([head, *rest]))
    return 1 if counts["differ"] or counts["unsupported"] else 0


def main(words):
    return status_of("vectors", lambda: _main(words))
