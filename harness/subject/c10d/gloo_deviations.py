"""What backend gloo of torch.distributed does otherwise than Plumbline's requirements say: without Plumbline, three ranks.

usage: python3 gloo_deviations.py
"""
import math
import os
import subprocess
import sys
import tempfile
import time

RANKS = 3


def half_averages_overflow(dist, torch, rank):
    """COLL-011: the sum is not representable, the average is."""
    values = torch.full((1,), 40000.0, dtype=torch.float16)
    dist.all_reduce(values, dist.ReduceOp.AVG)
    return values.item(), values.item() == 40000


def half_averages_are_rounded_at_each_step(dist, torch, rank):
    """COLL-004: an average of halves is that of f32, rounded once."""
    torch.manual_seed(1)
    inputs = torch.randn(RANKS, 1000).to(torch.bfloat16)
    values = inputs[rank].clone()
    dist.all_reduce(values, dist.ReduceOp.AVG)
    wrong = (values != inputs.float().mean(0).to(torch.bfloat16)).sum().item()
    return f"{wrong} of 1000 elements are not the rounded mean", wrong == 0


def nan_hides_other_members(dist, torch, rank):
    """COLL-062: the minimum is NaN or that of the other members' values. Here it is 2, and another member gave 1."""
    wrong = []
    for with_nan in range(RANKS):
        for low in range(RANKS):
            given = [2.0] * RANKS
            given[low] = 1.0
            given[with_nan] = float("nan")
            values = torch.tensor([given[rank]])
            dist.all_reduce(values, dist.ReduceOp.MIN)
            if low != with_nan and values.item() == 2:
                wrong.append(given)
    return f"2 is the minimum of {wrong}", not wrong


def nan_is_lost_in_min_and_max(dist, torch, rank):
    """COLL-006: a minimum of NaN and -inf is NaN, whoever gave it."""
    results = []
    for with_nan in range(RANKS):
        values = torch.tensor([float("nan") if rank == with_nan else float("-inf")])
        dist.all_reduce(values, dist.ReduceOp.MIN)
        results.append(values.item())
    return f"{results} where rank 0, 1 or 2 gave NaN, and the others -inf", all(math.isnan(result) for result in results)


def a_zero_has_either_sign_in_min_and_max(dist, torch, rank):
    """COLL-008: of zeros the minimum is -0 and the maximum +0, whoever gave it."""
    results = []
    for negative in range(RANKS):
        for op, sign in ((dist.ReduceOp.MIN, -1), (dist.ReduceOp.MAX, 1)):
            values = torch.tensor([-0.0 if rank == negative else 0.0])
            dist.all_reduce(values, op)
            results.append((values.item(), sign))
    what = f"{[result for result, _ in results]} are min and max where rank 0, 1 or 2 gave -0, and the others 0"
    return what, all(math.copysign(1, result) == sign for result, sign in results)


def a_rank_cannot_send_to_itself(dist, torch, rank):
    """COLL-047"""
    try:
        dist.isend(torch.ones(1), rank)
    except RuntimeError as error:
        return str(error).partition("\n")[0], False
    return "it can", True


def is_completed_is_true_only_after_a_wait(dist, torch, rank):
    """COLL-039, which `--backend-option poll=is_completed` asks of gloo. After a second all are done."""
    works = [dist.reduce_scatter(torch.empty(1), [torch.ones(1)] * RANKS, async_op=True)]
    works += [dist.isend(torch.ones(1), (rank + 1) % RANKS), dist.irecv(torch.ones(1), (rank - 1) % RANKS)]
    time.sleep(1)
    before = [work.is_completed() for work in works]
    for work in works:
        work.wait()
    return f"reduce_scatter, isend, irecv: {before} before the wait, {[work.is_completed() for work in works]} after it", all(before)


def the_store_keeps_keys_of_destroyed_groups(dist, torch, rank):
    """COLL-088: the second ten groups leave as much behind as the first."""
    store = dist.distributed_c10d._get_default_store()
    keys = []
    for _ in range(3):
        for _ in range(10):
            group = dist.new_group(range(RANKS))
            dist.all_reduce(torch.ones(1), group=group)
            dist.destroy_process_group(group)
        dist.barrier()
        keys.append(store.num_keys())
    return f"{keys} keys after 10, 20 and 30 groups", keys[0] == keys[1] == keys[2]


DEVIATIONS = [half_averages_overflow, half_averages_are_rounded_at_each_step, nan_hides_other_members, nan_is_lost_in_min_and_max,
              a_zero_has_either_sign_in_min_and_max, a_rank_cannot_send_to_itself, is_completed_is_true_only_after_a_wait,
              the_store_keeps_keys_of_destroyed_groups]


def run_rank(store, rank):
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo", store=dist.FileStore(store, RANKS), rank=rank, world_size=RANKS)
    for deviation in DEVIATIONS:
        what, is_gone = deviation(dist, torch, rank)
        if rank == 0:
            print(f"{'gone' if is_gone else 'here'}  {deviation.__name__}: {what}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main():
    if len(sys.argv) > 1:
        return run_rank(sys.argv[1], int(sys.argv[2]))
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen([sys.executable, __file__, os.path.join(folder, "store"), str(rank)], stderr=subprocess.DEVNULL)
                 for rank in range(RANKS)]
        sys.exit(max(rank.wait() for rank in ranks))


main()
