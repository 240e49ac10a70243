"""A training program as the job door takes it: torch.distributed.pipelining over gloo, data ranks beside the pipelines.

    plumbline check --profile pipeline --job 'python3 pipelining_gloo.py'
"""
import torch
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, schedules

from plumbline_torch_job import TorchJob

SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved-1f1b": ScheduleInterleaved1F1B,
             "looped-bfs": schedules.ScheduleLoopedBFS, "interleaved-zb": schedules.ScheduleInterleavedZeroBubble,
             "zbv": schedules.ScheduleZBVZeroBubble, "dualpipev": schedules.ScheduleDualPipeV}


class Stage(PipelineStage):
    """A stage that tells its job which micro-batch it computes: it also computes once to learn shapes."""

    def forward_one_chunk(self, fwd_chunk_id, *args, **kwargs):
        self.job.part = self.job.first_part + fwd_chunk_id
        try:
            return super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)
        finally:
            self.job.part = None


class Pipelining(TorchJob):
    framework = "torch.distributed.pipelining"
    axes = ("pipeline", "data")
    schedules = tuple(SCHEDULES)
    weighs_rows = True
    clips = True
    schedules_rate = True
    groups_decay = True
    records_activations = True
    reduces_in_backward = False

    def wrap(self, model):
        stages = [Stage(module, stage, self.stage_count, self.device, group=self.group("pipeline"))
                  for stage, module in zip(self.stages, model if self.stage_count > 1 else [model])]
        for stage in stages:
            stage.job = self
        kind = SCHEDULES[self.spec["run"]["schedule"]]
        is_single = issubclass(kind, schedules.PipelineScheduleSingle)
        # With scale_grads a call divides what earlier calls of the step have gathered once more (torch 2.13).
        return kind(stages[0] if is_single else stages, self.spec["run"]["micro_batches"], loss_fn=self.loss_of_part, scale_grads=False).step

    def loss_of_part(self, out, target):
        """Of a micro-batch the mean over its rows, or with row weights their weighted sum: the schedule adds up what parts have."""
        if not self.has_row_weights:
            return self.loss_of(out, target)
        y, weights = self.labels[target], self.row_weights[target]
        return self.weighted_loss_of(out, y, weights) * weights.sum()

    def share_of_gradients(self):
        return self.share_of_a_weight() if self.has_row_weights else self.share_of_a_part()

    def forward_backward(self, step):
        losses, share = [], self.share_of_gradients()  # asked for before the schedule runs: ranks exchange weights
        for batch, (x, target) in enumerate(self.inputs_and_targets(step)):
            self.first_part = batch * self.spec["run"]["micro_batches"]
            own = []
            self.model(*([x] if 0 in self.stages else []), **({"target": target, "losses": own} if self.has_last_stage else {}))
            losses += [loss.item() for loss in own]
        for gradient in self.gradients().values():
            gradient.mul_(share)
        if self.has_row_weights and losses:
            losses = [loss / max(float(weights.sum()), 1e-30) for loss, weights in zip(losses, self.weights_of_micro_batches(step))]
        return losses

    def inputs_and_targets(self, step):
        """The batches. A schedule splits one target: where rows have weights, it is the rows' numbers, by which their labels and
        weights are found."""
        if not self.has_row_weights:
            yield from self.batches_of(step)
            return
        for (x, self.labels), weights in zip(self.batches_of(step), self.weights_of_batches(step)):
            self.row_weights = torch.from_numpy(weights).to(self.device)
            yield x, torch.arange(len(x), device=self.device)


if __name__ == "__main__":
    Pipelining.main()
