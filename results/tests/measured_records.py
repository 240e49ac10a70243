"""Records of measurements that the tests write: launches drawn from a known distribution."""
import json
import random
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent
SKIP = 77


def skip_without(*modules):
    """Ends the test where this Python lacks what the tools import: exit status 77, which CTest counts as skipped."""
    import importlib.util
    for module in modules:
        if importlib.util.find_spec(module) is None:
            print(f"skipped: {sys.executable} has no {module}; pip install {module}")
            sys.exit(SKIP)


def header(**changes):
    return {"type": "header", "schema": 1, "command": "bench", "subject": "backend local", "suite_version": "1.2.3", "plan_hash": "", "profile": "",
            "seed": 0, "started": "2026-11-01T10:00:00Z", "arguments": ["plumbline", "bench"],
            "environment": {"cpu": "a CPU", "cores": 2, "usable_cores": 2}, "plan": [], **changes}


def measurement(launches, benchmark="collectives.all_reduce", size=4, **changes):
    """Of launch medians, three samples around each."""
    rows = [{"samples": [0.99 * value, value, 1.01 * value], "host": {}} for value in launches]
    return {"type": "measurement", "benchmark": benchmark, "labels": {"backend": "local", "world": "2", "dtype": "f32", "bytes": str(size)},
            "samples": [one for row in rows for one in row["samples"]], "unit": "seconds", "derived": {}, "answer_checked": True,
            "launches": rows, **changes}


def draw(seed, count=20, center=1e-6, deviation=0.01):
    source = random.Random(seed)
    return [center * source.lognormvariate(0, deviation) for _ in range(count)]


def write(folder, *lines, complete=True, **changes):
    """A record in the folder; returns the folder's name."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [header(**changes), *lines, *([{"type": "complete", "seconds": 1.0}] if complete else [])]
    (folder / "run.jsonl").write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows), encoding="utf-8")
    return str(folder)


def run(*words, **options):
    """`plumbline WORDS`, as the executable starts it: (exit status, standard output, standard error)."""
    done = subprocess.run([sys.executable, "-B", "-m", "plumbline_results", *map(str, words)], capture_output=True, text=True, check=False,
                          env={"PYTHONPATH": str(RESULTS), "PATH": "/usr/bin:/bin", **options.pop("env", {})}, **options)
    return done.returncode, done.stdout, done.stderr
