#!/usr/bin/env python3
"""The schedule of zbpp-light, Sea AI Lab's own light form of zero-bubble pipelining, behind Plumbline's adapter door."""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))
from framework import at_most, no_answer, serve
import contextlib
from importlib.metadata import version

from zbpp_light.auto_schedule import auto_schedule

KINDS = {"F": "F", "B": "I", "W": "W"}  # its B is that of the paper: input gradients alone


def generate(schedule, pp, microbatches, stages_per_rank=1):
    if stages_per_rank != 1:
        no_answer(f"auto_schedule has one stage a rank; there is no way to give it {stages_per_rank}")
    if min(pp, microbatches) < 1:
        no_answer(f"pp {pp}, microbatches {microbatches}: there is nothing to schedule, and auto_schedule does not look")
    at_most(1 << 17, pp * microbatches, "the nodes are objects of Python")
    with contextlib.redirect_stdout(sys.stderr):  # where it draws each row
        nodes = auto_schedule(pp, microbatches)
    return {"compute_only": [",".join(f"{one.stage}{KINDS[one.type]}{one.minibatch}" for one in row if one.type in KINDS) for row in nodes],
            "stage_to_rank": list(range(pp))}


serve("zbpp-light", version("zbpp-light"), {"schedules.generate": generate}, conventions={"plumbline": "zbpp-light " + version("zbpp-light")},
      options={"schedules.generate": {"schedule": ["zb-h1"]}})
