#!/usr/bin/env python3
"""Holds the planning of pipelines against torch.distributed.pipelining, in turns, in one run.

usage: schedules_torch.py [--build BUILD] [--rounds 3] [--full]

PyTorch's side is Python: the order of all ranks, as every rank makes it, and the messages put in (_add_send_recv). Ours is
`schedule_planning` (ninja schedule_planning): the same order with the same messages, and, beside it, our own lowering with a
timed simulation on top, which PyTorch has no like of here. A round takes both in turn; CPU time of one thread. Of each shape what
is printed is the least of the rounds on both sides and the median over the rounds of each round's ratio. --full goes on to 64
ranks with 512 micro-batches, where PyTorch takes up to a quarter of a minute a schedule."""
import argparse, json, statistics, subprocess, time
from pathlib import Path

from torch.distributed.pipelining import schedules as torch_schedules
from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping

CLASSES = {
    "gpipe": ("ScheduleGPipe", 1, "loop"),
    "1f1b": ("Schedule1F1B", 1, "loop"),
    "interleaved": ("ScheduleInterleaved1F1B", 2, "loop"),
    "interleaved-zero-bubble": ("ScheduleInterleavedZeroBubble", 2, "loop"),
    "zbv": ("ScheduleZBVZeroBubble", 2, "v"),
    "dualpipev": ("ScheduleDualPipeV", 2, "v"),
}


def order(name, ranks, micro_batches):
    """The order of all ranks, without the process groups that a constructor asks for."""
    kind, stages, _ = CLASSES[name]
    schedule = object.__new__(getattr(torch_schedules, kind))
    schedule._n_microbatches = micro_batches
    if stages == 1:
        schedule._num_stages = ranks
        return schedule._get_pipeline_order()
    schedule.pp_group_size, schedule.n_local_stages, schedule.rank = ranks, stages, 0
    schedule.number_of_rounds = max(1, micro_batches // ranks)
    schedule.microbatches_per_round = micro_batches // schedule.number_of_rounds
    schedule.num_stages = schedule._num_stages = ranks * stages
    schedule.pipeline_order = {rank: schedule._calculate_single_rank_operations(rank) for rank in range(ranks)}
    if name == "interleaved-zero-bubble":
        schedule.pipeline_order = schedule._add_bubbles_to_actions(ranks * stages)
    return schedule.pipeline_order


def numbered_from_zero(actions):
    """The last rank of PyTorch's 1F1B counts its forwards from 1, which its own lowering refuses."""
    forward = torch_schedules._ComputationType.FORWARD
    return [action._replace(microbatch_index=action.microbatch_index - 1)
            if action is not None and action.computation_type == forward else action for action in actions]


def theirs(name, ranks, micro_batches):
    """Milliseconds of the order, and of the messages."""
    begin = time.process_time()
    rows = order(name, ranks, micro_batches)
    made = time.process_time()
    if name == "1f1b":
        rows[ranks - 1] = numbered_from_zero(rows[ranks - 1])
    stages = ranks * CLASSES[name][1]
    mapping = generate_stage_to_rank_mapping(ranks, stages, style=CLASSES[name][2])
    lowering = time.process_time()
    torch_schedules._add_send_recv(rows, lambda stage: mapping[stage], stages)
    return (made - begin) * 1e3, (time.process_time() - lowering) * 1e3


def ours(program, shape):
    """Milliseconds of the same, and of our own plan, simulation included: the least of several repetitions."""
    command = [program, f"--benchmark_filter=^(torch|all)/{shape}$", "--benchmark_repetitions=5",
               "--benchmark_min_time=0.02", "--benchmark_format=json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = [row for row in json.loads(done.stdout)["benchmarks"] if row["run_type"] == "iteration"]
    return [min(row["cpu_time"] for row in rows if row["name"].startswith(step)) for step in ("torch", "all")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args()
    program = str((options.build / "tests/schedule_planning").resolve())
    print(f"{'schedule/ranks/micro-batches':32}  PyTorch: order, ms  messages, ms  ours: same, ms   ratio  simulated too, ms   ratio")
    for ranks, micro_batches in [(8, 64), (8, 512), (64, 128)] + [(64, 512)] * options.full:
        for name in CLASSES:
            shape = f"{name}/{ranks}/{micro_batches}"
            rounds = [(*theirs(name, ranks, micro_batches), *ours(program, shape)) for _ in range(options.rounds)]
            made, messages, same, planned = (min(column) for column in zip(*rounds))
            ratios = [statistics.median((one[0] + one[1]) / one[i] for one in rounds) for i in (2, 3)]
            print(f"{shape:32}  {made:18.2f}  {messages:12.2f}  {same:14.4f}  {ratios[0]:6.0f}  {planned:17.4f}  {ratios[1]:6.0f}",
                  flush=True)


if __name__ == "__main__":
    main()
