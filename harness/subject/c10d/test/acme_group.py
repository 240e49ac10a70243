"""A backend of torch.distributed outside of torch, right unless ACME_FAULT names what is to be wrong with it."""
import os
import threading
import time

import torch
import torch.distributed as dist

FAULT = os.environ.get("ACME_FAULT", "")
kept = []  # what lives as long as the process
held = []  # a message that waits for the next
remembered = {}


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


class Endless(dist._Work):
    """Knows no limit of a wait."""

    def __init__(self, work):
        super().__init__()
        self.work = work

    def wait(self, timeout=None):
        return self.work.wait()


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
        if FAULT == "loses_infinity" and tensors[0].is_floating_point():
            return Later(self.gloo.allreduce(tensors, options), lambda: tensors[0].nan_to_num_())
        if FAULT == "remembers_results":
            # As one that is keyed by the buffer, and not by what is in it.
            key = (tensors[0].data_ptr(), tensors[0].numel(), tensors[0].dtype)
            work = self.gloo.allreduce(tensors, options)
            if key in remembered:
                return Later(work, lambda: tensors[0].copy_(remembered[key]))
            return Later(work, lambda: remembered.update({key: tensors[0].clone()}))
        if FAULT == "max_is_min" and options.reduceOp == dist.ReduceOp.MAX:
            options.reduceOp = dist.ReduceOp.MIN
        if FAULT == "sums_in_bfloat16" and tensors[0].dtype == torch.float32:
            short = tensors[0].bfloat16()
            return Later(self.gloo.allreduce([short], options), lambda: tensors[0].copy_(short))
        if FAULT == "saturates" and tensors[0].dtype == torch.int32 and options.reduceOp == dist.ReduceOp.SUM:
            wide = tensors[0].double()
            limits = torch.iinfo(torch.int32)
            return Later(self.gloo.allreduce([wide], options), lambda: tensors[0].copy_(wide.clamp(limits.min, limits.max)))
        if FAULT == "drops_the_last_element" and tensors[0].numel() > 0:
            return self.gloo.allreduce([tensors[0][:-1]], options)
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
        if FAULT == "cleans_nan" and tensors[0].is_floating_point():
            return Later(self.gloo.broadcast(tensors, options), lambda: tensors[0].nan_to_num_())
        if FAULT == "hangs":
            time.sleep(3600)
        if FAULT == "aborts":
            os.abort()
        if FAULT == "wrong_root":
            options.rootRank = (options.rootRank + 1) % self.size()
        return self.gloo.broadcast(tensors, options)

    def alltoall_base(self, output, input, output_sizes, input_sizes, options):
        if FAULT == "exits":
            os._exit(0)
        if FAULT == "sends_nothing":
            output.copy_(input)
            return Done()
        work = self.gloo.alltoall_base(output, input, output_sizes, input_sizes, options)
        if FAULT == "swaps_blocks" and output.numel() > 0:
            return Later(work, lambda: output.copy_(output.view(self.size(), -1).flip(0).reshape(-1)))
        if FAULT == "overwrites_input":
            return Later(work, lambda: input.zero_())
        return work

    def barrier(self, options):
        if FAULT == "barrier_returns_at_once":
            return Done()
        return self.gloo.barrier(options)

    def send(self, tensors, to, tag):
        if FAULT == "reads_late":
            kept.append(threading.Timer(0.05, self.gloo.send, (tensors, to, tag)))
            kept[-1].start()
            return Done()
        if FAULT == "sends_in_pairs_in_reverse":
            if not held:
                held.append((tensors[0].clone(), to, tag))
                return Done()
            first, first_to, first_tag = held.pop()
            kept.append((first, self.gloo.send(tensors, to, tag), self.gloo.send([first], first_to, first_tag)))
            return kept[-1][1]
        if FAULT == "garbles_messages":
            tensors = [tensors[0].clone()]
            flip_the_last_bit(tensors[0])
            kept.append(tensors)
        return self.gloo.send(tensors, to, 0 if FAULT == "ignores_tags" else tag)

    def recv(self, tensors, source, tag):
        if FAULT == "waits_without_limit":
            return Endless(self.gloo.recv(tensors, source, tag))
        return self.gloo.recv(tensors, source, 0 if FAULT == "ignores_tags" else tag)


dist.Backend.register_backend("acme", Acme, devices=["cpu"])
