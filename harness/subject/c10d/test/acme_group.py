"""A backend of torch.distributed outside of torch, right unless ACME_FAULT names what is to be wrong with it."""
import os
import time

import torch
import torch.distributed as dist

FAULT = os.environ.get("ACME_FAULT", "")
kept = []


class Later(dist._Work):
    """Does something after the wait for another."""

    def __init__(self, work, then):
        super().__init__()
        self.work, self.then = work, then

    def wait(self, timeout=None):
        self.work.wait() if timeout is None else self.work.wait(timeout)
        self.then()
        return True


class Done(dist._Work):
    def wait(self, timeout=None):
        return True


def flip_the_last_bit(tensor):
    if tensor.numel() > 0:
        tensor.view(torch.uint8)[-1] ^= 1


class Acme(dist.ProcessGroup):
    """What is not here is done by the backend that is registered with it."""

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self.gloo = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, self.gloo)
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)

    def getBackendName(self):
        return "acme"

    def allreduce(self, tensors, options):
        if FAULT == "raises":
            raise RuntimeError("no all-reduce today")
        if FAULT == "raises_at_zero" and tensors[0].numel() == 0:
            raise ValueError("a tensor has no elements")
        if FAULT == "average_is_sum" and options.reduceOp == dist.ReduceOp.AVG:
            options.reduceOp = dist.ReduceOp.SUM
        if FAULT == "product_is_sum" and options.reduceOp == dist.ReduceOp.PRODUCT:
            options.reduceOp = dist.ReduceOp.SUM
        if FAULT == "leaks":
            kept.append(bytearray(256))
        if FAULT == "wait_returns_at_once":
            late = tensors[0].clone()
            kept.append((late, self.gloo.allreduce([late], options)))
            tensors[0].copy_(late)  # as far as it is by now
            return Done()
        work = self.gloo.allreduce(tensors, options)
        if FAULT == "wrong_sum":
            return Later(work, lambda: flip_the_last_bit(tensors[0]))
        return work

    def broadcast(self, tensors, options):
        if FAULT == "hangs":
            time.sleep(3600)
        if FAULT == "wrong_root":
            options.rootRank = (options.rootRank + 1) % self.size()
        return self.gloo.broadcast(tensors, options)

    def alltoall_base(self, output, input, output_sizes, input_sizes, options):
        if FAULT == "exits":
            os._exit(0)
        if FAULT == "sends_nothing":
            output.copy_(input)
            return Done()
        return self.gloo.alltoall_base(output, input, output_sizes, input_sizes, options)

    def barrier(self, options):
        if FAULT == "barrier_returns_at_once":
            return Done()
        return self.gloo.barrier(options)

    def send(self, tensors, to, tag):
        return self.gloo.send(tensors, to, 0 if FAULT == "ignores_tags" else tag)

    def recv(self, tensors, source, tag):
        return self.gloo.recv(tensors, source, 0 if FAULT == "ignores_tags" else tag)


dist.Backend.register_backend("acme", Acme, devices=["cpu"])
