"""PyTorch 2.13.0, without Plumbline: bad arguments to the planner of DDP's buckets end the process, or are taken.

compute_bucket_assignment_by_size (torch/csrc/distributed/c10d/reducer.cpp) reads *bucket_size_limits without a look whether there is one, and
tensors[tensor_indices[i]] for indices that were never compared with the number of tensors. Exit status 1: the defect is here.
"""
import subprocess
import sys

CASES = {
    "no limit": "[], [], []",
    "fewer indices than tensors": "[8], [], [0]",
    "an index twice": "[8], [], [0, 0]",
    "an index outside": "[8], [], [0, 99999999]",
}
CODE = """
import torch, torch.distributed as dist
try:
    print("is answered:", dist._compute_bucket_assignment_by_size([torch.empty(4), torch.empty(4)], %s))
except Exception as error:
    print("is rejected:", str(error).splitlines()[0])
"""

found = 0
for name, arguments in CASES.items():
    done = subprocess.run([sys.executable, "-c", CODE % arguments], capture_output=True, text=True)
    print(f"{name}: " + (f"ends the process by signal {-done.returncode}" if done.returncode else done.stdout.strip()))
    found += done.returncode != 0
sys.exit(found > 0)
