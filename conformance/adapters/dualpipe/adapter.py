#!/usr/bin/env python3
"""DeepSeek's own DualPipe behind Plumbline's adapter door, cut in half: DualPipeV.

DualPipe's ranks r and 2p-1-r both have the stages r and 2p-1-r, and micro-batches enter at both ends. Where those of one end are taken
for those of the other, ranks r < p alone compute each stage once: DualPipeV on p ranks (Sea AI Lab, "Cut-in-half", 2025; DualPipe's README).
"""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))
from framework import at_most, no_answer, serve
from importlib.metadata import version

import torch
from dualpipe import set_p2p_tensor_dtype, set_p2p_tensor_shapes
from dualpipe.dualpipe import DualPipe, WeightGradStore

set_p2p_tensor_shapes([(1,)])  # step() wants to know them
set_p2p_tensor_dtype(torch.float32)


class Recorder(DualPipe):
    """One rank of DualPipe, whose own step() decides what is computed when; computations are recorded, and messages are none."""

    def __init__(self, rank, size):
        torch.nn.Module.__init__(self)
        self.rank, self.num_ranks, self.batch_dim = rank, size, 0
        self.is_first_rank, self.is_last_rank = rank == 0, rank == size - 1
        self.is_in_second_half, self.is_middle_rank = rank >= size // 2, rank in (size // 2 - 1, size // 2)
        self.log = []

    def _recv_forward(self, phase): pass
    def _send_forward(self, phase): pass
    def _recv_backward(self, phase): pass
    def _send_backward(self, phase): pass

    def stage(self, phase):
        """Phase 0 of step() is the direction that comes to this rank before the middle."""
        near = min(self.rank, self.num_ranks - 1 - self.rank)
        return near if phase == 0 else self.num_ranks - 1 - near

    def forward_of(self, phase):
        number, self.current_f_chunk_id[phase] = self.current_f_chunk_id[phase], self.current_f_chunk_id[phase] + 1
        return f"{self.stage(phase)}F{number}"

    def backward_of(self, phase, kind="B"):
        number, self.current_b_chunk_id[phase] = self.current_b_chunk_id[phase], self.current_b_chunk_id[phase] + 1
        return f"{self.stage(phase)}{kind}{number}"

    def _forward_compute_chunk(self, phase):
        self.log.append(self.forward_of(phase))

    def _backward_compute_chunk(self, phase, enable_zb=False):
        self.log.append(self.backward_of(phase, "I" if enable_zb else "B"))
        if enable_zb:
            weight = self.log[-1].replace("I", "W")
            WeightGradStore.put(lambda: self.log.append(weight))
            WeightGradStore.flush()

    def _forward_backward_compute_chunk(self, phase0, phase1):
        self.log.append(f"({self.forward_of(phase0)};{self.backward_of(phase1)})OVERLAP_F_B")

    def _reset_states(self):
        super()._reset_states()
        self.loss_chunks = [torch.zeros(())]


def row(rank, size, microbatches):
    one = Recorder(rank, size)
    one.step(num_chunks=2 * microbatches, criterion=lambda *_: None)
    return ",".join(one.log)


def generate(schedule, pp, microbatches, stages_per_rank=2):
    if stages_per_rank != 2:
        no_answer(f"DualPipe has two stages a rank; there is no way to give it {stages_per_rank}")
    if pp < 1:
        no_answer(f"pp {pp}: there is no rank to ask")
    at_most(1 << 17, 2 * pp * microbatches, "the actions are objects of Python")
    rows = [row(rank, 2 * pp, microbatches) for rank in range(pp)]
    if rows != [row(2 * pp - 1 - rank, 2 * pp, microbatches) for rank in range(pp)]:
        no_answer("the two halves of DualPipe's ranks differ: it cannot be cut")
    return {"compute_only": rows, "stage_to_rank": [*range(pp), *reversed(range(pp))]}


serve("DualPipe", version("dualpipe"), {"schedules.generate": generate}, conventions={"plumbline": "dualpipe " + version("dualpipe")},
      options={"schedules.generate": {"schedule": ["dualpipev"]}})
