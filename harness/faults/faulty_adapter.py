"""The sample adapter with a fault of its process, in what it is asked of three ranks.

usage: faulty_adapter.py FAULT
"""
import functools
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "subject/adapter/python"))
import plumbline_adapter
import sample_adapter

FAULT = sys.argv[1]


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def stop(seconds=None):
    if seconds and os.fork() == 0:
        time.sleep(seconds)
        os.kill(os.getppid(), signal.SIGCONT)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)


def half_a_reply():
    plumbline_adapter._REPLIES.write(b'{"id":')
    plumbline_adapter._REPLIES.flush()
    die()


def eat_address_space():
    """Raises MemoryError."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
    return [bytearray(8 << 20) for _ in range(1000)]


def leave_processes():
    subprocess.Popen(["sleep", "90"], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


BEFORE = {"killed_before_a_reply": die, "killed_inside_a_reply": half_a_reply, "stopped": stop, "stopped_and_continued": lambda: stop(1) if ASKED.count(3) == 1 else None,
          "slowed_1,000_times": lambda: time.sleep(0.2), "slowed": lambda: time.sleep(0.2), "out_of_address_space": eat_address_space,
          "leaves_processes": leave_processes, "killed_after_a_reply": lambda: None}


ASKED = []  # world sizes


@functools.wraps(sample_adapter.ring_sum)
def ring_sum(world_size, *rest, **question):
    ASKED.append(world_size)
    if world_size == 3 or FAULT == "slowed":
        BEFORE[FAULT]()
    return sample_adapter.ring_sum(world_size, *rest, **question)


class DiesAfterItsReply:
    """The replies' file, which ends the process after a reply to what three ranks were asked."""

    def __init__(self, file):
        self.file, self.write = file, file.write

    def flush(self):
        self.file.flush()
        if ASKED[-1:] == [3]:
            die()


if __name__ == "__main__":
    if FAULT == "killed_after_a_reply":
        plumbline_adapter._REPLIES = DiesAfterItsReply(plumbline_adapter._REPLIES)
    plumbline_adapter.serve("plumbline sample", "1", {"comm.ring_sum": ring_sum}, conventions=["plumbline", "gloo"])
