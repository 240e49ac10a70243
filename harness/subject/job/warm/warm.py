"""A process that has imported modules, and forks the Python programs that enter.py hands over: each is spared the import of torch.

usage: warm.py SOCKET MODULE...

It ends at the end of its standard input. A program ends when its enter.py does, or this; so do the processes that it forks.
A program that needs an import of its own may lack it here unseen: each program needs a start without this, too.
"""
import contextlib, ctypes, gc, importlib, json, os, runpy, selectors, signal, socket, subprocess, sys, tempfile, time
from pathlib import Path

# All that samples import of torch: optimizers import torch._dynamo when they are made.
MODULES = ("numpy", "torch", "torch._dynamo", "torch.nn.parallel", "torch.distributed.fsdp", "torch.distributed.fsdp.sharded_grad_scaler",
           "torch.distributed.optim", "torch.distributed.pipelining", "torch.distributed.device_mesh", "torch.distributed.tensor",
           "torch.distributed.algorithms.model_averaging.averagers")
PR_SET_PDEATHSIG = 1


@contextlib.contextmanager
def warmed(python, modules=MODULES):
    """The words that a job's command begins with, in place of `python -B`, for as long as the process lives; and its id."""
    with tempfile.TemporaryDirectory(prefix="plw.") as folder:
        path = Path(folder) / "warm"
        as_a_job = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_CBWR": "AVX2", "PYTHONFAULTHANDLER": "1"}  # as plumbline gives it
        with subprocess.Popen([python, "-B", __file__, str(path), *modules], env=as_a_job, stdin=subprocess.PIPE) as process:
            try:
                while not path.exists():
                    if process.poll() is not None:
                        raise RuntimeError(f"warm.py ended with status {process.returncode} before it served programs")
                    time.sleep(0.05)
                yield [python, "-I", "-S", str(Path(__file__).with_name("enter.py")), str(path)], process.pid
            finally:
                process.terminate()


class Warm:
    """Serves until its standard input ends, and returns in a process that is a program."""

    def __init__(self, path):
        self.selector, self.programs = selectors.DefaultSelector(), {}  # the id of a program's process, by its connection to enter.py
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(f"{path}.new")
        self.listener.listen(64)
        os.rename(f"{path}.new", path)
        self.selector.register(0, selectors.EVENT_READ, None)
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)

    def serve(self):
        """The descriptors of what is asked, and of the program's standard input, output and errors."""
        while True:
            key, _ = self.selector.select()[0]  # one at a time: it may end another's connection
            if key.data is None:
                os._exit(0)
            if (descriptors := key.data(key.fileobj)) is not None:
                return descriptors

    def accept(self, listener):
        connection, _ = listener.accept()
        self.selector.register(connection, selectors.EVENT_READ, self.hear)

    def hear(self, connection):
        if connection in self.programs:  # its enter.py has ended
            self.selector.unregister(connection)
            return os.kill(self.programs[connection], signal.SIGKILL)
        packet, descriptors, _, _ = socket.recv_fds(connection, 16, 4)
        if packet:
            return self.fork(connection, descriptors)
        self.selector.unregister(connection)
        connection.close()

    def fork(self, connection, descriptors):
        self.programs[connection] = os.fork()
        if self.programs[connection] == 0:
            for one in (self.selector, self.listener, *self.programs):
                one.close()
            return descriptors
        for one in descriptors:
            os.close(one)
        self.selector.register(os.pidfd_open(self.programs[connection]), selectors.EVENT_READ, lambda pidfd: self.report(connection, pidfd))

    def report(self, connection, pidfd):
        _, status = os.waitpid(self.programs.pop(connection), 0)
        self.selector.unregister(pidfd)
        os.close(pidfd)
        if connection in self.selector.get_map():
            self.selector.unregister(connection)
        with connection, contextlib.suppress(OSError):  # an enter.py that has ended
            connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def end_with_parents():
    """From now on, each process that this one forks is killed when the one that forked it ends."""
    forks, prctl = [os.getpid()], ctypes.CDLL(None).prctl

    def is_forked():
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != forks[0]:
            os._exit(1)
        forks[0] = os.getpid()

    os.register_at_fork(after_in_child=is_forked)


def become_asked(asked, *standard):
    """The arguments of the program that this process is from now on."""
    for number, one in enumerate(standard):
        os.dup2(one, number)
        os.close(one)
    with open(asked) as file:
        file.seek(0)
        asked = json.load(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    return asked["program"]


if __name__ == "__main__":
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.freeze()  # what all share, no collection writes to
    end_with_parents()
    sys.argv = become_asked(*Warm(sys.argv[1]).serve())
    sys.path[:1] = [os.path.dirname(os.path.abspath(sys.argv[0])), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    runpy.run_path(sys.argv[0], run_name="__main__")
