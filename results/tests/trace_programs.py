"""Programs with PyTorch over gloo, right and wrong ones, that leave the dumps of their flight recorders.

    python3 trace_programs.py PROGRAM RANKS FOLDER     writes FOLDER/rank_0 … (pickled) and FOLDER/json/rank_0.json …,
                                                       and if PLUMBLINE_PROFILE is set, profiles in FOLDER/profiles

Every rank is a process. When all have ended, or hang for a while, those that live dump, as a job's watchdog has them do.
"""

import datetime
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

# A program hangs when it records nothing for this long.
PATIENCE = 3.0
MOST_SECONDS = 120
WITH_GROUPS = ("groups_in_order", "crossed", "crossed_at_once", "hung")
RIGHT = ("all_ops", "groups_in_order", "forty_steps", "data_parallel", "late")  # which end
UNDER_WAY = []
FOLDER = []


def f32(count=8):
    import torch

    return torch.ones(count)


def i32(count=8):
    import torch

    return torch.ones(count, dtype=torch.int32)


def all_ops(dist, rank, world, _):
    """Right: every operation, even and uneven, a root that is not 0, messages, objects."""
    some = [f32() for _ in range(world)]
    root = world - 1
    dist.all_reduce(f32())
    dist.broadcast(f32(), src=root)
    dist.reduce(f32(), root)
    dist.all_gather(some, f32())
    dist.all_gather_into_tensor(f32(8 * world), f32())
    dist.gather(f32(), some if rank == root else None, dst=root)
    dist.scatter(f32(), some if rank == root else None, src=root)
    dist.reduce_scatter_tensor(f32(), f32(8 * world))
    dist.all_to_all_single(f32(world), f32(world))
    counts = [rank + 1] * world  # to each; from rank r come r + 1
    dist.all_to_all_single(f32(sum(range(1, world + 1))), f32(sum(counts)), list(range(1, world + 1)), counts)
    if rank == 0:
        dist.send(f32(), 1)
    if rank == 1:
        dist.recv(f32(), 0)
    dist.all_gather_object([None] * world, {"rank": rank})
    dist.barrier()


def groups_in_order(dist, rank, world, groups):
    """Right: two groups with other members, and calls that run side by side."""
    works = []
    for step in range(5):
        works.append(dist.all_reduce(f32(), async_op=True))
        for name in "ab":
            if rank in groups[name][1]:
                works.append(dist.all_reduce(f32(16 + step), group=groups[name][0], async_op=True))
    for work in works:
        work.wait()
    dist.barrier()


def forty_steps(dist, rank, world, _):
    """Right, and longer than a small ring buffer."""
    for step in range(40):
        dist.all_reduce(f32(1 + step))
    dist.barrier()


def data_parallel(dist, rank, world, _):
    """Right: three steps of DistributedDataParallel with several buckets, and a norm of all ranks."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)), bucket_cap_mb=0.01)
    for step in range(3):
        loss = model(torch.full((4, 64), float(rank + step))).sum()
        loss.backward()
        dist.all_reduce(loss.detach())


def skip_by_site(dist, rank, world, _):
    """Rank 1 leaves out the second of two calls that look the same, once."""
    for step in range(4):
        dist.all_reduce(f32())
        if not (rank == 1 and step == 2):
            dist.all_reduce(f32())  # skipped here


def skip_by_dtype(dist, rank, world, _):
    """Rank 1 leaves out a call that differs from the next ones, and none waits before the end."""
    works = [dist.all_reduce(f32(), async_op=True)]
    if rank != 1:
        works.append(dist.all_reduce(i32(), async_op=True))
    works.append(dist.all_reduce(f32(), async_op=True))
    works.append(dist.all_reduce(i32(), async_op=True))
    works.append(dist.broadcast(f32(), src=0, async_op=True))
    for work in works:
        work.wait()


def another_size(dist, rank, world, _):
    dist.all_reduce(f32())
    dist.broadcast(f32(4 if rank == 0 else 8), src=0)
    dist.barrier()


def another_dtype(dist, rank, world, _):
    dist.all_reduce(f32())
    dist.all_reduce(i32() if rank == 1 else f32())
    dist.barrier()


def another_op(dist, rank, world, _):
    dist.all_reduce(f32())
    if rank == 1:
        dist.broadcast(f32(), src=0)
    else:
        dist.all_reduce(f32())
    dist.barrier()


def another_root_of_gather(dist, rank, world, _):
    dist.all_reduce(f32())
    root = 1 if rank == 1 else 0
    dist.gather(f32(), [f32() for _ in range(world)] if rank == root else None, dst=root)


def another_root_of_broadcast(dist, rank, world, _):
    dist.all_reduce(f32())
    dist.broadcast(f32(), src=rank)


def crossed(dist, rank, world, groups):
    """Ranks 0 and 1 enter two groups in crossed order, having used both before."""
    for name in "ab":
        if rank in (0, 1):
            dist.all_reduce(f32(), group=groups[name][0])
    for name in "ab" if rank == 0 else "ba":
        if rank in (0, 1):
            dist.all_reduce(f32(), group=groups[name][0])
    dist.barrier()


def crossed_at_once(dist, rank, world, groups):
    """The same in the first calls of the groups, so that no dump names the other member."""
    for name in "ab" if rank == 0 else "ba":
        if rank in (0, 1):
            dist.all_reduce(f32(), group=groups[name][0])


def died(dist, rank, world, _):
    dist.all_reduce(f32())
    if rank == 2:
        os._exit(1)
    dist.all_reduce(f32())


def hung(dist, rank, world, groups):
    """Rank 2 hangs in its own code. Rank 0 waits for it, and rank 1 for rank 0 in another group."""
    if rank in (0, 1):
        dist.all_reduce(f32(), group=groups["a"][0])
    dist.all_reduce(f32())
    if rank == 2:
        time.sleep(3600)
    if rank == 1:
        dist.all_reduce(f32(), group=groups["a"][0])
    dist.all_reduce(f32())


def no_send(dist, rank, world, _):
    dist.all_reduce(f32())
    if rank == 0:
        dist.recv(f32(), 1)
    dist.barrier()


def extra_call(dist, rank, world, _):
    dist.all_reduce(f32())
    if rank == 1:
        dist.barrier()


def extra_in_between(dist, rank, world, _):
    works = []
    for step in range(3):
        works.append(dist.all_reduce(f32(), async_op=True))
        if rank == 1 and step == 1:
            works.append(dist.all_reduce(i32(), async_op=True))
    works.append(dist.all_gather([f32() for _ in range(world)], f32(), async_op=True))
    for work in works:
        work.wait()


def uneven_all_to_all(dist, rank, world, _):
    """Rank 1 expects an element more than rank 0 sends."""
    dist.all_to_all_single(f32(world + (rank == 1)), f32(world), [1 + (rank == 1)] + [1] * (world - 1), [1] * world)


def late(dist, rank, world, _):
    dist.all_reduce(f32())
    if rank == 1:
        time.sleep(4)
    dist.all_reduce(f32())


def another_reduction(dist, rank, world, _):
    dist.all_reduce(f32(), op=dist.ReduceOp.MAX if rank == 1 else dist.ReduceOp.SUM)


def another_root_not_awaited(dist, rank, world, _):
    """Rank 1 reduces to itself; nobody waits for the end, so that a profile is written."""
    dist.all_reduce(f32())
    UNDER_WAY.append(dist.reduce(f32(), 1 if rank == 1 else 0, async_op=True))


def computes_meanwhile(dist, rank, world, _):
    """A matrix product during a reduction, and a rank that comes late to the last one."""
    import torch

    some = torch.ones(400, 400)
    for _ in range(3):
        work = dist.all_reduce(f32(1 << 20), async_op=True)
        some @ some
        work.wait()
    if rank == 1:
        time.sleep(0.5)
    dist.all_reduce(f32())


def _pipeline(rank, world, chunks, kind):
    """Two steps of a schedule; its plan is left as PyTorch writes it, where it does."""
    import torch
    from torch.distributed import pipelining

    stages = [pipelining.PipelineStage(torch.nn.Linear(512, 512), number, world * chunks, torch.device("cpu"))
              for number in range(rank, world * chunks, world)]
    schedule = getattr(pipelining, kind)(stages if chunks > 1 else stages[0], 4, loss_fn=torch.nn.functional.mse_loss)
    batch = torch.ones(256, 512)
    for _ in range(2):
        schedule.step(*([batch] if rank == 0 else []), **({"target": batch} if rank == world - 1 else {}))
    if chunks > 1 and rank == 0:
        schedule._dump_csv(str(FOLDER[0] / "plan.csv"))


def is_computation(cell):
    return cell.lstrip("0123456789")[:1] in ("F", "B") and cell[-1:].isdigit()


def pipeline_gpipe(dist, rank, world, _):
    _pipeline(rank, world, 1, "ScheduleGPipe")


def pipeline_interleaved(dist, rank, world, _):
    _pipeline(rank, world, 2, "ScheduleInterleaved1F1B")


def pipeline_without_marks(dist, rank, world, _):
    _pipeline(rank, world, 1, "Schedule1F1B")


PROGRAMS = {
    body.__name__: body
    for body in (all_ops, groups_in_order, forty_steps, data_parallel, skip_by_site, skip_by_dtype, another_size, another_dtype, another_op,
                 another_root_of_gather, another_root_of_broadcast, crossed, crossed_at_once, died, hung, no_send, extra_call,
                 extra_in_between, uneven_all_to_all, late, another_reduction, another_root_not_awaited, computes_meanwhile, pipeline_gpipe,
                 pipeline_interleaved, pipeline_without_marks)
}


def _dump(rank, folder):
    from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

    for path, content in ((folder / f"rank_{rank}", _dump_fr_trace()),
                          (folder / "json" / f"rank_{rank}.json", _dump_fr_trace_json())):
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def _dump_when_asked(rank, folder):
    from torch._C._distributed_c10d import _dump_fr_trace

    size = 0
    while not (folder / ".dump").exists():
        before, size = size, len(_dump_fr_trace())
        if size != before:
            (folder / f".moved{rank}").touch()
        time.sleep(0.1)
    _dump(rank, folder)
    (folder / f".dumped{rank}").touch()
    while not (folder / ".exit").exists():  # a call that fails because its peer ended looks completed
        time.sleep(0.02)
    os._exit(0)


def _run_program(name, given, folder, has_profile):
    if not has_profile:
        PROGRAMS[name](*given)
        return
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        PROGRAMS[name](*given)
    recorded.export_chrome_trace(str(folder / "profiles" / f"worker{given[1]}.pt.trace.json.gz"))


def _be_rank(name, rank, world, folder, has_profile):
    import torch
    import torch.distributed as dist

    FOLDER.append(folder)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/.store", rank=rank, world_size=world,
                            timeout=datetime.timedelta(seconds=60))
    members = {"a": [0, 1], "b": [0, 1] if name.startswith("crossed") else list(range(world // 2, world))}
    groups = {one: (dist.new_group(ranks, group_desc=one), ranks) for one, ranks in members.items() if name in WITH_GROUPS}
    threading.Thread(target=_dump_when_asked, args=(rank, folder), daemon=True).start()
    (folder / f".ready{rank}").touch()
    try:
        _run_program(name, (dist, rank, world, groups), folder, has_profile)
    except Exception as error:  # what a peer's end is to the others
        print(f"rank {rank}: {str(error).splitlines()[0][:100]}", file=sys.stderr)
    (folder / f".done{rank}").touch()
    time.sleep(3600)


def _fork(name, rank, world, folder, buffer):
    child = os.fork()
    if child:
        return child
    os.environ["TORCH_FR_BUFFER_SIZE"] = str(buffer)
    try:
        _be_rank(name, rank, world, folder, False)
    finally:
        os._exit(1)


def _start_fresh(name, rank, world, folder, buffer):
    """PyTorch's profiler does not work in a forked process."""
    words = [sys.executable, "-B", "-W", "ignore", __file__, name, str(world), str(folder), str(rank)]
    return subprocess.Popen(words, env={**os.environ, "TORCH_FR_BUFFER_SIZE": str(buffer)}, stderr=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL).pid


def run(name, world, folder, buffer=2000, has_profile=False):
    """Without profiles the ranks are forked, so that PyTorch is imported once for all programs."""
    import torch.distributed  # noqa: F401

    folder = Path(folder)
    for one in ("json", "profiles"):
        (folder / one).mkdir(parents=True, exist_ok=True)
    start = _start_fresh if has_profile else _fork
    children = [start(name, rank, world, folder, buffer) for rank in range(world)]
    _await_end(folder, world, 60 if has_profile or name in RIGHT else PATIENCE)  # starting a profiler and writing its file take a while
    (folder / ".dump").touch()
    end = time.monotonic() + MOST_SECONDS
    while children and time.monotonic() < end:
        children = [child for child in children if os.waitpid(child, os.WNOHANG) == (0, 0)]
        if len(list(folder.glob(".dumped*"))) >= len(children):
            (folder / ".exit").touch()
        time.sleep(0.02)


def _await_end(folder, world, patience):
    """Until all ranks are done, or have started and record nothing more."""
    end = time.monotonic() + MOST_SECONDS
    while time.monotonic() < end and len(list(folder.glob(".done*"))) < world:
        time.sleep(0.05)
        ready = [mark.stat().st_mtime for mark in folder.glob(".ready*")]
        moved = [mark.stat().st_mtime for mark in folder.glob(".moved*")]
        if len(ready) == world and time.time() - max(ready + moved) > patience:
            return


if __name__ == "__main__":
    if len(sys.argv) == 5:  # a rank of a run with profiles
        _be_rank(sys.argv[1], int(sys.argv[4]), int(sys.argv[2]), Path(sys.argv[3]), True)
    if len(sys.argv) != 4 or sys.argv[1] not in PROGRAMS:
        sys.exit(f"{__doc__}\nPROGRAM is one of {', '.join(PROGRAMS)}")
    run(sys.argv[1], int(sys.argv[2]), sys.argv[3], has_profile=bool(os.environ.get("PLUMBLINE_PROFILE")))
