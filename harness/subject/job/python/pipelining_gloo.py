"""A training program as the job door takes it: torch.distributed.pipelining over gloo, data ranks beside the pipelines.

    plumbline check --profile pipeline --job 'python3 pipelining_gloo.py'
"""
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, schedules

from plumbline_torch_job import TorchJob

SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved-1f1b": ScheduleInterleaved1F1B,
             "looped-bfs": schedules.ScheduleLoopedBFS, "interleaved-zb": schedules.ScheduleInterleavedZeroBubble,
             "zbv": schedules.ScheduleZBVZeroBubble, "dualpipev": schedules.ScheduleDualPipeV}


class Pipelining(TorchJob):
    framework = "torch.distributed.pipelining"
    axes = ("pipeline", "data")
    schedules = tuple(SCHEDULES)
    reduces_in_backward = False

    def wrap(self, model):
        stages = [PipelineStage(module, stage, self.stage_count, self.device, group=self.group("pipeline"))
                  for stage, module in zip(self.stages, model)]
        kind = SCHEDULES[self.spec["run"]["schedule"]]
        is_single = issubclass(kind, schedules.PipelineScheduleSingle)
        # With scale_grads a call divides what earlier calls of the step have gathered once more (torch 2.13).
        return kind(stages[0] if is_single else stages, self.spec["run"]["micro_batches"], loss_fn=self.loss_of, scale_grads=False).step

    def forward_backward(self, step):
        losses = []
        for x, y in self.batches_of(step):
            own = []
            self.model(*([x] if 0 in self.stages else []), **({"target": y, "losses": own} if self.has_last_stage else {}))
            losses += [loss.item() for loss in own]
        for gradient in self.gradients().values():
            gradient.mul_(self.share_of_a_part())
        return losses


if __name__ == "__main__":
    Pipelining.main()
