"""A process that has imported modules, and forks the Python programs that enter.py hands over: each is spared the import of torch.

usage: warm.py SOCKET MODULE...

A program that needs an import of its own may lack it here unseen: each program needs a start without this, too.
"""
import contextlib, gc, importlib, json, os, runpy, signal, socket, subprocess, sys, tempfile, time
from pathlib import Path

# All that samples import of torch: optimizers import torch._dynamo when they are made.
MODULES = ("numpy", "torch", "torch._dynamo", "torch.nn.parallel", "torch.distributed.fsdp", "torch.distributed.fsdp.sharded_grad_scaler",
           "torch.distributed.optim", "torch.distributed.pipelining", "torch.distributed.device_mesh", "torch.distributed.tensor",
           "torch.distributed.algorithms.model_averaging.averagers")


@contextlib.contextmanager
def warmed(python):
    """The words that a job's command begins with, in place of `python -B`, for as long as the process lives; and its id."""
    with tempfile.TemporaryDirectory(prefix="plw.") as folder:
        path = Path(folder) / "warm"
        as_a_job = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_CBWR": "AVX2", "PYTHONFAULTHANDLER": "1"}  # as plumbline gives it
        with subprocess.Popen([python, "-B", __file__, str(path), *MODULES], env=as_a_job, stdin=subprocess.DEVNULL) as process:
            try:
                while not path.exists():
                    if process.poll() is not None:
                        raise RuntimeError(f"warm.py ended with status {process.returncode} before it served programs")
                    time.sleep(0.05)
                yield [python, "-I", "-S", str(Path(__file__).with_name("enter.py")), str(path)], process.pid
            finally:
                process.terminate()


def become_asked(path):
    """Serves until it is ended; returns in a process that is a job, with the arguments of its program."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"{path}.new")
        listener.listen(64)
        os.rename(f"{path}.new", path)
        while True:
            connection, _ = listener.accept()
            packet, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
            if packet and os.fork() == 0:
                break
            connection.close()
            for one in descriptors:
                os.close(one)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, one in enumerate(descriptors):
        os.dup2(one, number)
        os.close(one)
    connection.detach()  # it is closed when the job ends, which ends enter.py
    asked = json.loads(packet)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    return asked["program"]


if __name__ == "__main__":
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.freeze()  # what all share, no collection writes to
    sys.argv = become_asked(sys.argv[1])
    sys.path[:1] = [os.path.dirname(os.path.abspath(sys.argv[0])), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    runpy.run_path(sys.argv[0], run_name="__main__")
