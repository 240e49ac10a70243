"""`plumbline results export`: measurements of records in the forms of other tools."""

import csv
import io
import json
import statistics

from .options import BadInput, Failed, parser, status_of
from .report.centre import centre_of_measurement
from .report.records import load, numbers, table, text, texts
from .report.verdicts import subject_name
from .writing import write

FORMATS = ("google-benchmark", "pytorch-hud", "bencher", "github-action-benchmark", "csv", "parquet")
HELP = """Write the measurements of records of bench in the form of another tool: google-benchmark (its
compare.py), pytorch-hud (records of PyTorch's benchmark database), bencher (Bencher Metric Format),
github-action-benchmark (customSmallerIsBetter), csv or parquet (a row a sample, for pandas.read_csv and
pandas.read_parquet; parquet takes pyarrow)."""
EXAMPLE = """Example: plumbline results export results/latest/bench --format google-benchmark --out new.json
Exit status: 0 written; 2 a bad option or record, or one without measurements; 3 it could not be written."""
# Labels that a series is known by in a name, in this order; others follow by the alphabet.
FIRST_LABELS = ("bytes", "world", "backend", "device", "dtype")


def series_name(measurement):
    """The same in every record of a series, in Google Benchmark's form: collectives.all_reduce/bytes:4/world:2."""
    labels = measurement.labels
    keys = [key for key in FIRST_LABELS if key in labels] + sorted(set(labels) - set(FIRST_LABELS))
    return "/".join(
        [measurement.benchmark, *(f"{key}:{labels[key]}".replace("/", "_").replace(" ", "_") for key in keys)]
    )


def _units(measurement):
    """A value for each launch, or for each sample where launches are not recorded: what a tool may treat as independent."""
    if len(measurement.launches) > 1:
        return [statistics.median(one) for one in measurement.launches]
    return measurement.samples


def _is_time(measurement):
    return measurement.unit == "seconds"


def google_benchmark(records):
    header = records[0].header
    environment = table(header.get("environment"))
    context = {
        "date": text(header.get("started")),
        "host_name": text(environment.get("host")),
        "executable": "plumbline",
        "num_cpus": environment.get("cores", 0),
        "mhz_per_cpu": 0,
        "cpu_scaling_enabled": False,
        "caches": [],
        "load_avg": numbers([_number(one) for one in text(environment.get("load_before")).split()[:3]]),
        "library_build_type": "release",
        "plumbline_version": text(header.get("suite_version")),
    }
    rows = []
    for record in records:
        for one in filter(_is_time, record.measurements):
            values = _units(one)
            for index, value in enumerate(values):
                rate = table(one.derived).get("algbw_bytes_per_second")
                rows.append(
                    {
                        "name": series_name(one),
                        "family_index": len(rows),
                        "run_name": series_name(one),
                        "run_type": "iteration",
                        "repetitions": len(values),
                        "repetition_index": index,
                        "threads": 1,
                        "iterations": 1,
                        "real_time": value * 1e9,
                        "cpu_time": value * 1e9,
                        "time_unit": "ns",
                        **({"bytes_per_second": rate} if rate is not None else {}),
                    }
                )
    return _json({"context": context, "benchmarks": rows})


def _number(word):
    try:
        return float(word)
    except ValueError:
        return None


def pytorch_hud(records):
    """A record for each series and metric, as PyTorch's wiki has it (How to integrate with PyTorch OSS benchmark database)."""
    rows = []
    for record in records:
        environment = table(record.header.get("environment"))
        runner = {
            "name": text(environment.get("host")),
            "type": text(environment.get("cpu")),
            "cpu_info": text(environment.get("cpu")),
            "cpu_count": environment.get("cores", 0),
            "gpu_count": environment.get("gpus", 0),
        }
        for one in record.measurements:
            metrics = {f"time_{one.unit}" if _is_time(one) else one.unit: _units(one)}
            metrics.update({key: [value] for key, value in one.derived.items() if key.endswith("_bytes_per_second")})
            for metric, values in metrics.items():
                rows.append(
                    {
                        "benchmark": {
                            "name": one.benchmark,
                            "mode": text(record.command),
                            "dtype": one.labels.get("dtype", ""),
                            "extra_info": {
                                "labels": one.labels,
                                "args": texts(record.header.get("arguments")),
                                "noisy": bool(one.noisy),
                            },
                        },
                        "model": {
                            "name": series_name(one),
                            "type": "plumbline",
                            "backend": one.labels.get("backend", subject_name(record)),
                        },
                        "metric": {
                            "name": metric,
                            "unit": (
                                "s"
                                if metric == "time_seconds"
                                else "B/s" if metric.endswith("_per_second") else one.unit
                            ),
                            "benchmark_values": values,
                        },
                        "runners": [runner],
                        "dependencies": {
                            "plumbline": {
                                "repo": "plumbline",
                                "branch": "",
                                "sha": "".join(texts(environment.get("suite_source"))[:1]),
                            }
                        },
                    }
                )
    return _json(rows)


def bencher(records):
    found = {}
    for record in records:
        for one in record.measurements:
            centre = centre_of_measurement(one)
            if centre is None:
                continue
            # Bencher's built-in measure latency is in nanoseconds.
            name, factor = ("latency", 1e9) if _is_time(one) else (one.unit or "value", 1)
            found[series_name(one)] = {
                name: {
                    "value": centre.median * factor,
                    "lower_value": centre.low * factor,
                    "upper_value": centre.high * factor,
                }
            }
            rate = one.derived.get("busbw_bytes_per_second")
            if rate is not None:
                found[series_name(one)]["bus-bandwidth"] = {"value": rate}
    return _json(found)


def github_action_benchmark(records):
    rows = []
    for record in records:
        for one in filter(_is_time, record.measurements):
            centre = centre_of_measurement(one)
            if centre:
                rows.append(
                    {
                        "name": series_name(one),
                        "unit": "ns",
                        "value": centre.median * 1e9,
                        "range": f"{centre.low * 1e9:g} to {centre.high * 1e9:g}",
                        "extra": f"{centre.words}{', noisy' if one.noisy else ''}",
                    }
                )
    return _json(rows)


# Of a launch, as records name them: results/schema/run.schema.json.
HOST_FACTS = ("load", "steal", "waited", "clock_hertz", "pinned")


def _rows(records):
    """A row a sample, all with the same columns."""
    rows = list(_flat(records))
    if not rows:
        raise BadInput(f"{records[0].path}: its measurements have no samples")
    return rows


def _flat(records):
    labels = sorted({key for record in records for one in record.measurements for key in one.labels})
    for record in records:
        of_run = {
            "record": str(record.path),
            "subject": subject_name(record),
            "started": text(record.header.get("started")),
            "host": text(table(record.header.get("environment")).get("host")),
        }
        for one in record.measurements:
            centre = centre_of_measurement(one)
            of_series = {"benchmark": one.benchmark, **{f"label_{key}": one.labels.get(key, "") for key in labels}}
            for launch, samples in enumerate(one.launches or [one.samples]):
                host = one.hosts[launch] if one.launches else {}
                for index, value in enumerate(samples):
                    yield {
                        **of_run,
                        **of_series,
                        "launch": launch,
                        "sample": index,
                        "value": value,
                        "unit": one.unit,
                        "median": centre.median,
                        "low": centre.low,
                        "high": centre.high,
                        "confidence": centre.confidence,
                        "noisy": bool(one.noisy),
                        "answer_checked": bool(one.answer_checked),
                        **{f"host_{fact}": host.get(fact) for fact in HOST_FACTS},
                    }


def flat_csv(records):
    out = io.StringIO()
    rows = _rows(records)
    writer = csv.DictWriter(out, rows[0], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: _cell(value) for key, value in row.items()} | {"confidence": f"{row['confidence']:.4f}"})
    return out.getvalue()


def flat_parquet(records):
    try:
        from pyarrow import BufferOutputStream, Table, parquet
    except ImportError:
        raise Failed("--format parquet takes pyarrow: python3 -m pip install pyarrow; csv has the same rows") from None
    out = BufferOutputStream()
    parquet.write_table(Table.from_pylist(_rows(records)), out)
    return out.getvalue().to_pybytes()


def _cell(value):
    """A spreadsheet takes what begins with these for a formula, and a record may be a stranger's."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, str):
        return repr(value)
    return "'" + value if value[:1] in ("=", "+", "-", "@", "\t") else value


def _json(value):
    return json.dumps(value, indent=1) + "\n"


WRITERS = dict(zip(FORMATS, (google_benchmark, pytorch_hud, bencher, github_action_benchmark, flat_csv, flat_parquet)))


def main(arguments):
    """Returns the exit status."""
    one = parser("results export", HELP, EXAMPLE)
    one.add_argument("record", nargs="+", metavar="RECORD", help="a run.jsonl, or the folder that has one")
    one.add_argument(
        "--format",
        default="google-benchmark",
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)} (default google-benchmark)",
    )
    one.add_argument("--out", default="-", metavar="FILE", help="where it goes (default -, standard output)")
    return finish("results export", lambda: _run(one.parse_args(arguments)))


def _run(options):
    if options.format not in WRITERS:
        raise BadInput(f"--format '{options.format}'; it is {', '.join(FORMATS)}")
    records = [load(path) for path in options.record]
    if not any(record.measurements for record in records):
        raise BadInput(f"{options.record[0]}: no measurements; name the record of a bench")
    return options.out, WRITERS[options.format](records)


def finish(name, run):
    """Runs a tool that comes to (file, text), writes that, and returns the exit status."""

    def body():
        write(*run())
        return 0

    return status_of(name, body)
