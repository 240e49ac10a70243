"""A program of the corpus as TrainCheck traces it, which looks for a model and an optimizer by their names in the script.

usage: traced.py NAME, of a bug or a right program, with what the job door gives a rank
"""
import os, sys

import torch

from bugs import BUGS
from programs import PROGRAMS

run = {**PROGRAMS, **BUGS}[sys.argv[1]]()
torch.distributed.init_process_group("gloo")
run._prepare()
model = run.module
optimizer = run.optimizer  # of the model
for run.current in range(run.steps):
    if run.current > 0:
        run.between_steps()
    run._step(run.current)
torch.distributed.barrier()
