"""PyTorch 2.13.0, without Plumbline: bad arguments to the planner of DDP's buckets end the process, or are taken.

compute_bucket_assignment_by_size (torch/csrc/distributed/c10d/reducer.cpp) reads *bucket_size_limits without a look whether there is one, and
tensors[tensor_indices[i]] for indices that were never compared with the number of tensors.
Exit status: 1 the defect is here, 0 it is not, 3 it cannot be asked.
"""
import json
import os
import subprocess
import sys


def not_asked(kind, error, trace):
    """Whatever ends this program early says nothing of the defect."""
    print(f"cannot be asked: {kind.__name__}: {error}", flush=True)
    os._exit(3)


sys.excepthook = not_asked
import torch  # noqa: F401, to say that it is missing

CASES = {  # arguments, and the indices that an answer may have; the first is the control
    "as many indices as tensors": ("[8], [], [0, 1]", {0, 1}),
    "no limit": ("[], [], []", {0, 1}),
    "fewer indices than tensors": ("[8], [], [0]", {0}),
    "an index twice": ("[8], [], [0, 0]", {0}),
    "an index outside": ("[8], [], [0, 99999999]", {0, 99999999}),
}
CODE = """
import json, torch, torch.distributed as dist
try:
    print(json.dumps(dist._compute_bucket_assignment_by_size([torch.empty(4), torch.empty(4)], %s)[0]))
except Exception as error:
    print(json.dumps(str(error).splitlines()[0]))
"""


def ask(arguments, indices):
    """(whether the defect shows, what came)."""
    done = subprocess.run([sys.executable, "-c", CODE % arguments], capture_output=True, text=True)
    if done.returncode < 0:
        return True, f"ends the process by signal {-done.returncode}"
    if done.returncode:
        raise RuntimeError((done.stderr.splitlines() or ["no words"])[-1])
    answer = json.loads(done.stdout)
    if isinstance(answer, str):
        return False, f"is rejected: {answer}"
    wrong = sorted({index for bucket in answer for index in bucket} - indices)
    return bool(wrong), f"is answered: {answer}" + (f"; nobody gave {wrong}" if wrong else "")


found = 0
for name, (arguments, indices) in CASES.items():
    here, said = ask(arguments, indices)
    print(f"{name}: {said}", flush=True)
    if name == next(iter(CASES)) and (here or "is answered" not in said):
        raise RuntimeError("the control is not answered")
    found += here
sys.exit(found > 0)
