"""`plumbline results import`: what other benchmarks measured, as a record, so that peers stand in one table and one picture."""

import json
import re
import sys
from datetime import datetime, timezone
from pathlib import Path

from .exports import finish
from .options import BadInput, parser
from .report.records import number, numbers, rows, table, text

HELP = """Make a record of what another tool measured: Google Benchmark's JSON, the JSON of nccl-tests
(-J FILE), or the text that the OSU micro-benchmarks print. The record is read by report, compare and
results like one of ours."""
EXAMPLE = """Example: plumbline results import osu.txt --name 'Open MPI 5' --world-size 2 --out osu
         plumbline report results/latest/bench osu
Exit status: 0 written; 2 a bad option, or a file of none of these forms; 3 it could not be written."""
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
# The collectives of `plumbline bench` by the names of nccl-tests and OSU. A ping-pong of OSU is half of a round trip of ours.
OPERATIONS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "bcast": "broadcast",
    "reducescatter": "reduce_scatter",
    "reducescatterblock": "reduce_scatter",
    "sendrecv": "send_recv",
    "barrier": "barrier",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
}
# What a rank's link carries for each byte of the size, as nccl-tests defines bus bandwidth.
BUS = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
}
DTYPES = {
    "float": "f32",
    "half": "f16",
    "bfloat16": "bf16",
    "double": "f64",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
}


def _measurement(benchmark, labels, samples, derived=None, checked=False):
    labels = {key: str(value) for key, value in labels.items() if value not in (None, "")}
    return {
        "type": "measurement",
        "benchmark": benchmark,
        "labels": labels,
        "samples": samples,
        "unit": "seconds",
        "derived": derived or {},
        "answer_checked": checked,
    }


def _operation(words):
    return OPERATIONS.get(re.sub(r"[^a-z]", "", words.lower()), "")


def google_benchmark(data, options):
    """Repetitions of one name become the samples; labels are the parts of a name that have a colon."""
    found = {}
    for row in rows(data.get("benchmarks")):
        time, factor = number(row.get("real_time")), SECONDS.get(text(row.get("time_unit")) or "ns")
        if (
            row.get("run_type", "iteration") == "iteration"
            and time is not None
            and factor
            and not row.get("error_occurred")
        ):
            found.setdefault(text(row.get("run_name")) or text(row.get("name")), []).append(time * factor)
    made = []
    for name, samples in found.items():
        parts = name.split("/")
        labels = dict(part.split(":", 1) for part in parts[1:] if ":" in part)
        plain = "/".join(part for index, part in enumerate(parts) if index == 0 or ":" not in part)
        made.append(_measurement(plain, {"backend": options.name} | labels, samples))
    return made


def nccl_tests(data, options):
    """Both placements of each size. nccl-tests measures many calls at once: a size has one sample, unless it reports its iterations."""
    world = options.world_size or len(rows(table(data.get("config")).get("devices"))) or None
    program = Path(text((data.get("args") or [""])[0]) if isinstance(data.get("args"), list) else "").name
    made = []
    for row in rows(data.get("results")):
        operation = _operation(text(row.get("experiment_name"))) or _operation(re.sub(r"_perf(_mpi)?$", "", program))
        operation = operation or options.operation
        if not operation:
            raise BadInput(f"{options.file}: a result without a collective's name; --operation names it")
        for placement in ("out_of_place", "in_place"):
            one = table(row.get(placement))
            times = numbers(table(row.get(placement + "_per_iter")).get("times_us")) or numbers([one.get("time")])
            if not times:
                continue
            derived = {
                f"{key}_bytes_per_second": number(one.get(name)) * 1e9
                for key, name in (("algbw", "alg_bw"), ("busbw", "bus_bw"))
                if number(one.get(name)) is not None
            }
            labels = {
                "backend": options.name,
                "world": world,
                "bytes": row.get("size"),
                "dtype": DTYPES.get(text(row.get("type")), text(row.get("type"))),
            }
            suffix = "_in_place" if placement == "in_place" else ""
            made.append(
                _measurement(
                    f"collectives.{operation}{suffix}",
                    labels,
                    [time * 1e-6 for time in times],
                    derived,
                    number(one.get("nwrong")) == 0,
                )
            )
    return made


def osu(words, options):
    """A table of a title, '# Size … Latency(us)' and a row for each size; a barrier has a latency alone."""
    title = re.search(
        r"^#\s*OSU\s+(?:MPI|NCCL|xCCL|RCCL)(?:-\w+)?\s+(.*?)\s*(?:Latency\s+)?Test", words, re.MULTILINE | re.IGNORECASE
    )
    if title is None:
        return []
    if "bandwidth" in title[0].lower():
        raise BadInput(f"{options.file}: a bandwidth of OSU; name the output of a latency test")
    name = re.sub(r"(?i)\b(non-blocking|personalized|exchange|latency|average)\b", "", title[1])
    operation = (
        options.operation
        or _operation(re.sub(r"(?i)^all-to-all", "alltoall", name))
        or ("send_recv" if not _operation(name) and not name.strip() else "")
    )
    if not operation:
        raise BadInput(
            f"{options.file}: the OSU test '{title[1][:60]}' is no collective of ours; --operation names one"
        )
    made = []
    for line in words.splitlines():
        cells = line.split()
        values = [_float(cell) for cell in cells]
        if not cells or line.lstrip().startswith("#") or None in values:
            continue
        size, time = (
            (None, values[0])
            if operation == "barrier"
            else (int(values[0]), values[1]) if len(values) > 1 else (None, None)
        )
        if time is not None:
            made.append(_osu_measurement(operation, size, time * 1e-6, options))
    return made


def _osu_measurement(operation, size, seconds, options):
    if operation == "send_recv":
        seconds *= 2  # OSU reports one way, `plumbline bench` the round trip
    derived = {}
    if size and seconds > 0:
        derived["algbw_bytes_per_second"] = size / seconds
        if options.world_size and operation in BUS:
            derived["busbw_bytes_per_second"] = size / seconds * BUS[operation](options.world_size)
    return _measurement(
        f"collectives.{operation}",
        {"backend": options.name, "world": options.world_size, "bytes": size},
        [seconds],
        derived,
    )


def _float(word):
    try:
        return number(float(word))
    except ValueError:
        return None


def read(options):
    """The measurements of a file, whose form is told by what is in it."""
    try:
        words = Path(options.file).read_text("utf-8")
    except OSError as error:
        raise BadInput(
            f"{options.file}: {error.strerror or error}; name a file of another benchmark's results"
        ) from None
    except UnicodeDecodeError:
        raise BadInput(
            f"{options.file}: not text; name Google Benchmark's or nccl-tests' JSON, or what an OSU benchmark printed"
        ) from None
    data = None
    if words.lstrip().startswith("{"):
        try:
            data = json.loads(words)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{options.file}: not JSON ({str(error)[:80]})") from None
    made = []
    if isinstance(data, dict):
        made = (
            google_benchmark(data, options)
            if "benchmarks" in data
            else nccl_tests(data, options) if "results" in data else []
        )
    else:
        made = osu(words, options)
    made = _above_zero(made, options)
    if not made:
        raise BadInput(
            f"{options.file}: no measurements of a form that is known; it is Google Benchmark's or nccl-tests' JSON, or an OSU benchmark's text"
        )
    return made, data


def _above_zero(made, options):
    """Without the samples that are no times, and the measurements that then have none."""
    kept, dropped = [], 0
    for one in made:
        samples = [value for value in one["samples"] if 0 < value < float("inf")]
        dropped += len(one["samples"]) - len(samples)
        if samples:
            kept.append(one | {"samples": samples})
    if dropped and not kept:
        raise BadInput(f"{options.file}: none of its {dropped} samples is above 0; name a file with times")
    if dropped:
        print(f"plumbline: results import: {options.file}: {dropped} samples are not above 0 and were left out", file=sys.stderr)
    return kept


def _iso(words):
    """A start as nccl-tests or Google Benchmark writes it, in ISO 8601; empty where it is none."""
    words = " ".join(words.split())
    try:
        datetime.fromisoformat(words.replace("Z", "+00:00"))
        return words.replace(" ", "T")
    except ValueError:
        pass
    for form in ("%a %b %d %H:%M:%S %Y", "%Y/%m/%d %H:%M:%S"):
        try:
            return datetime.strptime(words, form).isoformat()
        except ValueError:
            continue
    return ""


def record_of(made, data, options):
    context = table(table(data).get("context"))
    started = (
        _iso(text(context.get("date")))
        or _iso(text(table(data).get("start_time")))
        or datetime.fromtimestamp(Path(options.file).stat().st_mtime, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    )
    environment = {"imported_from": Path(options.file).name}
    if context.get("host_name"):
        environment["host"] = text(context["host_name"])
    header = {
        "type": "header",
        "schema": 1,
        "command": "bench",
        "subject": f"backend {options.name}",
        "subject_name": options.name,
        "suite_version": "",
        "plan_hash": "",
        "profile": "",
        "seed": 0,
        "started": started,
        "arguments": [],
        "environment": environment,
        "plan": [],
    }
    return "".join(
        json.dumps(line, separators=(",", ":")) + "\n" for line in [header, *made, {"type": "complete", "seconds": 0}]
    )


def main(arguments):
    """Returns the exit status."""
    one = parser("results import", HELP, EXAMPLE)
    one.add_argument("file", metavar="FILE", help="what the other tool wrote")
    one.add_argument(
        "--name", default="", metavar="NAME", help="of what was measured, the series' backend (default the file's name)"
    )
    one.add_argument(
        "--world-size", type=int, metavar="N", help="ranks; OSU does not print them (default of nccl-tests: as it says)"
    )
    one.add_argument(
        "--operation", default="", metavar="NAME", help="the collective, where the file does not say: all_reduce, …"
    )
    one.add_argument("--out", required=True, metavar="DIR", help="folder of the record")
    return finish("results import", lambda: _run(one.parse_args(arguments)))


def _run(options):
    if options.world_size is not None and options.world_size < 1:
        raise BadInput(f"--world-size {options.world_size}; it is 1 or more")
    if options.operation and options.operation not in OPERATIONS.values():
        raise BadInput(f"--operation '{options.operation}'; it is {', '.join(sorted(set(OPERATIONS.values())))}")
    options.name = options.name or Path(options.file).stem
    target = Path(options.out, "run.jsonl")
    if target.exists():
        raise BadInput(f"--out {options.out}: there is a record; name another folder")
    return str(target), record_of(*read(options), options)
