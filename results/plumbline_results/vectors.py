"""`plumbline vectors`: records a framework's answers anew, and compares them with those that are committed."""

import contextlib
import itertools
import json
import os
import queue
import shlex
import subprocess
import sys
import threading
from pathlib import Path

from .options import BadInput, Failed, parser, status_of
from .writing import write

CONFORMANCE = Path(__file__).resolve().parents[2] / "conformance"
PATIENCE = 120  # seconds for an answer; the first import of torch on a cold disk takes one of them
HELP = """Ask installed frameworks, through their adapters in conformance/adapters, every recorded question again, and
compare what they answer now with the recorded answers in conformance/*/vectors. A file of vectors that holds no answers
of the protocol, such as whole training runs, is not asked."""
EXAMPLE = """Example: plumbline vectors --only pytorch --python .venv-adapters/bin/python
Exit status: 0 all answers are those that are committed; 1 some differ; 2 a bad option or file of vectors; 3 no framework could be asked,
or --out could not be written"""

# (file, kind of case): framework, operation, convention. A case's other fields are the operation's arguments and results.
QUESTIONS = {
    ("topology/torch_device_mesh", "device_mesh"): ("pytorch", "topology.device_mesh", "torch"),
    ("schedules/torch", "schedule"): ("pytorch", "schedules.generate", "torch"),
    ("schedules/torch", "construct"): ("pytorch", "schedules.generate", "torch"),
    ("schedules/torch", "stage_to_rank"): ("pytorch", "schedules.stage_to_rank", "torch"),
    ("schedules/torch", "load_csv"): ("pytorch", "schedules.load_csv", "torch"),
    ("schedules/torch_passes", "schedule"): ("pytorch", "schedules.lower", "torch"),
    ("bucketing/torch", "assign"): ("pytorch", "bucketing.assign", "torch"),
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
    ("schedules/megatron", "schedule"): ("megatron_core", "schedules.trace", "megatron"),
    ("schedules/partition_megatron", "layout"): ("megatron_core", "schedules.pipeline_layout", "megatron"),
    ("schedules/partition_megatron", "counted"): ("megatron_core", "schedules.partition_counted", "megatron"),
    ("bucketing/megatron", "ddp_layout"): ("megatron_core", "bucketing.layout", "megatron"),
    ("bucketing/megatron", "distributed_optimizer_layout"): ("megatron_core", "bucketing.layout", "megatron"),
    ("scaler/megatron", None): ("megatron_core", "scaler.trace", "megatron"),
    ("groups/colossalai94", "parallel_groups"): ("colossalai", "groups.parallel_groups", "colossalai"),
    ("groups/colossalai94", "pipeline_shared_module"): ("colossalai", "groups.shared_module", "colossalai"),
    ("schedules/partition_colossalai", "uniform"): ("colossalai", "schedules.partition_uniform", "colossalai"),
    ("schedules/partition_colossalai", "balanced"): ("colossalai", "schedules.partition_balanced", "colossalai"),
    ("scaler/colossalai", None): ("colossalai", "scaler.trace", "colossalai"),
    ("gossip/bluefog", None): ("bluefog", "gossip.topology", "bluefog"),
    ("gossip/bluefog_turns", None): ("bluefog", "gossip.turns", "bluefog"),
}
FRAMEWORKS = sorted({framework for framework, _, _ in QUESTIONS.values()})
# Half precision, powers and divisions are not the same on every processor.
TOLERANCES = {"scaler.clip_grad_norm": 2e-6, "scaler.trace": 1e-6, "gossip.topology": 1e-12}
REFUSALS = ("error", "errors", "construct_error")
OTHER_VERSION = "0.6.3"  # of DeepSpeed, whose answers are recorded beside those of the pinned one


class Gone(Exception):
    """The adapter ended, or is silent."""


class Adapter:
    """A framework's adapter, a process."""

    def __init__(self, command):
        self._count, self._replies = 0, queue.Queue()
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError as error:
            raise Gone(f"it does not start: {error.strerror or error}") from None
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        try:
            greeting = self.ask("hello", {"protocol": 1}).get("result", {})
        except Gone:
            self.close()
            raise
        self.name = f"{greeting.get('name', 'unnamed')} {greeting.get('version', '')}".rstrip()
        self._operations, self._options = set(greeting.get("ops", ())), greeting.get("options", {})

    def _listen(self):
        for line in self._process.stdout:
            self._replies.put(line)
        self._replies.put(None)

    def claims(self, operation, args):
        """Whether it has the operation, and the values of options that a question asks for."""
        def has(values, given):
            return all(str(one).partition(":")[0] in values for one in (given if isinstance(given, list) else [given]))
        return operation in self._operations and all(has(values, args[name]) for name, values in self._options.get(operation, {}).items() if name in args)

    def ask(self, operation, args):
        self._count += 1
        try:
            self._process.stdin.write(json.dumps({"id": self._count, "op": operation, "args": args}) + "\n")
            self._process.stdin.flush()
            line = self._replies.get(timeout=PATIENCE)
        except OSError:
            line = None
        except queue.Empty:
            raise Gone(f"{operation}: no answer in {PATIENCE} s") from None
        if line is None:
            raise Gone("it ended; its command by hand shows why")
        try:
            reply = json.loads(line)
            return reply if isinstance(reply, dict) else {}
        except ValueError:
            raise Gone(f"its reply is no JSON: {line[:80]!r}") from None

    def close(self):
        with contextlib.suppress(OSError):  # of what it did not read
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()
        self._process.stdout.close()


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


def first_difference(now, then, tolerance, where=""):
    """Where and how an answer differs from the recorded one; fields that only the answer has are not looked at."""
    if isinstance(then, dict) and isinstance(now, dict):
        pairs = ((f"{where}.{name}" if where else name, now.get(name), one) for name, one in then.items())
    elif isinstance(then, list) and isinstance(now, list) and len(now) == len(then):
        pairs = ((f"{where}[{i}]", *both) for i, both in enumerate(zip(now, then)))
    elif now == then or (_is_number(now) and _is_number(then) and abs(now - then) <= tolerance * max(abs(now), abs(then))):
        return ""
    else:
        return f"{where}: recorded {_short(then)}, now {_short(now)}"
    return next(filter(None, (first_difference(a, b, tolerance, place) for place, a, b in pairs)), "")


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _short(value):
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def question_of(file, case, rows):
    """(framework, operation, arguments, recorded result or None for a refusal), or nothing where a case has no question of the protocol."""
    if OTHER_VERSION in json.dumps(case.get("impl", "")) and "0.19" not in json.dumps(case["impl"]):
        return None
    found = QUESTIONS.get((file, case.get("kind"))) or QUESTIONS.get((file, None))
    if found is None or "error_at" in case:
        return None
    framework, operation, convention = found
    arguments, results = rows[operation]
    args = {**picked(case, arguments), "convention": convention}
    if operation == "topology.device_mesh":
        args["slices"] = list(case["ranks"][0]["slices"])
    is_refused = any(case.get(name) for name in REFUSALS)
    return framework, operation, args, None if is_refused else picked(case, [name for name in results if "." not in name])


def compared(adapter, operation, args, recorded):
    """What differs, and the case's fields as they are answered now."""
    reply = adapter.ask(operation, args)
    error = reply.get("error")
    if error is not None and error.get("kind") == "unsupported":
        return None, None
    if recorded is None:
        return ("" if error is not None else f"recorded a refusal, now {_short(reply.get('result'))}"), reply.get("result", {})
    if error is not None:
        return f"recorded an answer, now refused: {error.get('message', '')[:120]}", {"error": error}
    result = reply.get("result", {})
    return first_difference(result, recorded, TOLERANCES.get(operation, 0)), {name: result.get(name) for name in recorded}


def files_of(folder):
    for path in sorted(folder.glob("*/vectors/*.json")):
        file = f"{path.parent.parent.name}/{path.stem}"
        if any(file == known for known, _ in QUESTIONS):
            yield file, path


def read(path):
    try:
        document = json.loads(path.read_text())
        return document, document["cases"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path} is no file of vectors: {error}") from None


def ask_file(adapter, framework, file, path, rows, out):
    """How many cases were asked, and how many differ, after a line of the file and one for each of the first that differ."""
    document, cases = read(path)
    counts, lines = {"equal": 0, "differ": 0, "not answered": 0}, []
    for index, case in enumerate(cases):
        question = question_of(file, case, rows)
        if question is None or question[0] != framework or not adapter.claims(*question[1:3]):
            continue
        difference, now = compared(adapter, *question[1:])
        counts["not answered" if difference is None else "differ" if difference else "equal"] += 1
        if difference:
            lines.append(f"    case {index}, {question[1]}: {difference}")
            kept = {name: value for name, value in case.items() if name not in REFUSALS}
            cases[index] = {**kept, **now}
    asked = sum(counts.values()) - counts["not answered"]
    if not any(counts.values()):
        return 0, 0
    print(f"  {file}.json: " + ", ".join(f"{count} {word}" for word, count in counts.items() if count))
    for line in lines[:3]:
        print(line)
    if len(lines) > 3:
        print(f"    and {len(lines) - 3} more")
    if out is not None:
        (out / path.parent.parent.name).mkdir(parents=True, exist_ok=True)
        write(str(out / path.parent.parent.name / path.name), json.dumps(document) + "\n")
    return asked, counts["differ"]


def ask_framework(framework, options, rows):
    """How many cases were asked, and how many differ; none where the framework cannot be asked."""
    command = [*shlex.split(options.python), str(Path(options.conformance) / "adapters" / framework / "adapter.py")]
    try:
        adapter = Adapter(command)
    except Gone as why:
        print(f"{framework}: skipped: {why}")
        return 0, 0
    print(adapter.name, flush=True)
    try:
        out = None if options.out is None else Path(options.out)
        counts = [ask_file(adapter, framework, file, path, rows, out) for file, path in files_of(Path(options.conformance))]
        return tuple(map(sum, zip(*counts)))
    except Gone as why:
        raise Failed(f"{framework}: {why}") from None
    finally:
        adapter.close()


def _options():
    one = parser("vectors", HELP, EXAMPLE)
    one.add_argument("--only", action="append", choices=FRAMEWORKS, metavar="NAME", help=f"only this framework, may be repeated: {', '.join(FRAMEWORKS)} (default all)")
    one.add_argument("--python", default=sys.executable, metavar="PROGRAM", help="Python that has the frameworks (default this one)")
    one.add_argument("--conformance", default=str(CONFORMANCE), metavar="DIR", help="folder of adapters and vectors (default that of the checkout)")
    one.add_argument("--out", metavar="DIR", help="write the files with the answers of now (default: they are only compared)")
    return one


def _main(words):
    options = _options().parse_args(words)
    if not list(itertools.islice(files_of(Path(options.conformance)), 1)):
        raise BadInput(f"--conformance '{options.conformance}' has no vectors; name the folder conformance of a checkout")
    rows = rows_of_operations()
    counts = [ask_framework(framework, options, rows) for framework in options.only or FRAMEWORKS]
    asked, differ = map(sum, zip(*counts))
    if asked == 0:
        raise Failed(f"no framework answered by {options.python}; ci/adapters --install installs them")
    print(f"{differ} of {asked} answers differ from those committed" if differ else f"all {asked} answers are those committed")
    return 1 if differ else 0


def main(words):
    return status_of("vectors", lambda: _main(words))
