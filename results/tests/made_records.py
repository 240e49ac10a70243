"""Records that tests write by hand: what is expected of a report follows from these lines, not from a run."""

import json
from pathlib import Path

REQUIREMENTS = {
    "COLL-001": {
        "level": "must",
        "text": "`all_reduce` MUST return the sum.",
        "sources": ["COL-02", "MPI-3.1 section 5.9"],
    },
    "COLL-002": {"level": "must", "text": "`reduce` MUST return the sum to the root."},
    "TOPO-001": {"level": "should", "text": "A rank SHOULD know its place."},
}


def planned(case, requirements):
    return {"case": case, "requirements": requirements, "arm": "plain", "seed": 1, "repetition": 0}


def header(plan=(), **more):
    return {
        "type": "header",
        "schema": 1,
        "command": "check",
        "subject": "backend acme",
        "suite_version": "1.2.3",
        "plan_hash": "1f",
        "profile": "collectives",
        "seed": 1,
        "started": "2026-01-02T03:04:05Z",
        "arguments": ["plumbline", "check"],
        "environment": {"cpu": "an example", "cores": 8, "host_identity": "aa", "memory_bytes": 1 << 34},
        "plan": list(plan),
        "requirements": REQUIREMENTS,
    } | more


def result(case, requirements, verdict="pass", **more):
    return {
        "type": "result",
        "check": case.split("[")[0],
        "case": case,
        "parameters": {},
        "requirements": requirements,
        "arm": "plain",
        "seed": 1,
        "repetition": 0,
        "attempt": 1,
        "verdict": verdict,
        "ranks": [],
        "seconds": 0.25,
        "limit_seconds": 10,
        "repeat": f"plumbline check --filter '{case}'",
    } | more


def rank(number, verdict="pass", failures=(), **more):
    return {"rank": number, "verdict": verdict, "seconds": 0.5, "failures": list(failures)} | more


def measurement(benchmark, samples, labels=None, **more):
    return {
        "type": "measurement",
        "benchmark": benchmark,
        "labels": {"backend": "acme", "world": "2"} | (labels or {}),
        "samples": samples,
        "unit": "seconds",
        "derived": {},
        "answer_checked": True,
    } | more


COMPLETE = {"type": "complete", "seconds": 12.5}


def write(folder, *lines):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return folder


def failing_run():
    """COLL-001 fails in one of two cases, COLL-002 passes, TOPO-001 warns; one case names which of its requirements it violates."""
    assertion = {
        "where": "a_check.cpp:7",
        "message": "element 3 of 4 differs",
        "expected": "12",
        "got": "13",
        "bound": "0",
    }
    left = {"where": "", "message": "PeerFailed: rank 1 has left", "uncaught": True}
    cases = ["sum[world=2]", "sum[world=3]", "root[world=2]", "place[world=2]"]
    return [
        header(
            [
                planned(cases[0], ["COLL-001"]),
                planned(cases[1], ["COLL-001", "COLL-002"]),
                planned(cases[2], ["COLL-002"]),
                planned(cases[3], ["TOPO-001"]),
            ]
        ),
        {"type": "subject", "capabilities": {"claims": ["groups"]}, "environment": {}, "name": "Acme CCL"},
        result(cases[0], ["COLL-001"]),
        result(
            cases[1],
            ["COLL-001", "COLL-002"],
            "fail",
            violated=["COLL-001"],
            reason="",
            ranks=[
                rank(0, "fail", [left], seconds=0.1),
                rank(1, "fail", [assertion], seconds=0.4, last_event="last left all_reduce"),
                rank(2, "aborted", seconds=0.05),
            ],
            output="what it printed",
        ),
        result(cases[2], ["COLL-002"]),
        result(cases[3], ["TOPO-001"], "warn", reason="it does not"),
        COMPLETE,
    ]


def measured_run(factor=1.0, **of_header):
    """All-reduces and copies of three sizes, seven samples each, within a tenth of a median."""
    lines = [header(command="bench", profile="", requirements={}, **of_header)]
    spread = [0.95, 0.97, 0.99, 1.0, 1.01, 1.03, 1.05]
    for size, seconds in ((4, 1e-6), (4096, 4e-6), (1 << 20, 2e-4)):
        median = seconds * factor
        lines.append(
            measurement(
                "collectives.all_reduce",
                [median * part for part in spread],
                {"bytes": str(size)},
                derived={"algbw_bytes_per_second": size / median, "busbw_bytes_per_second": size / median},
            )
        )
        lines.append(measurement("memory.copy", [seconds / 4 * part for part in spread], {"bytes": str(size)}))
    return lines + [COMPLETE]
