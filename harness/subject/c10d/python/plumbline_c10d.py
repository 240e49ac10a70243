"""Hosts a rank of `plumbline … --backend c10d:NAME`: the process group is torch.distributed's, the rest is in C++.
`plumbline worker` becomes this program.

usage: plumbline_c10d.py WORKER_LIBRARY BACKEND_MODULE ARGUMENT…
"""
import ctypes
import datetime
import importlib
import json
import os
import sys

# The driver ends calls that take too long; a limit of the group's own would come in between.
TIMEOUT = datetime.timedelta(minutes=30)
# Names that torch has in every build, without a process group of that name to make.
NO_BACKENDS = ("undefined", "fake")


class Job:
    """Answers what the backend module asks for, a request a call."""

    def __init__(self, torch, distributed):
        self.torch, self.distributed = torch, distributed
        self.core = distributed.distributed_c10d

    def open(self, backend, imports, rank, ranks, store):
        for module in imports:
            importlib.import_module(module)
        here = [name for name in self.distributed.Backend.backend_list
                if name not in NO_BACKENDS and self.distributed.is_backend_available(name)]
        if backend not in here:
            raise LookupError(f"torch {self.torch.__version__} has no backend {backend}; it has {', '.join(here)}")
        devices = self.core.BackendConfig(self.distributed.Backend(backend)).get_device_backend_map()
        if devices.get("cpu") != backend:
            raise LookupError(f"backend {backend} serves memory of {', '.join(devices)}, and calls are made on the host's")
        self.backend, self.rank = backend, rank
        # Without a file: at MASTER_ADDR, as torchrun and other launchers say.
        self.store = self.distributed.FileStore(store, ranks) if store else next(self.distributed.rendezvous("env://", rank, ranks))[0]
        self.distributed.init_process_group(backend, store=self.store, rank=rank, world_size=ranks, timeout=TIMEOUT)
        return {"torch": self.torch.__version__}

    def create(self, name, ranks):
        # Not new_group(): that sorts the ranks, and its names agree only where all members have made as many groups.
        group, _ = self.core._new_process_group_helper(len(ranks), ranks.index(self.rank), ranks, self.distributed.Backend(self.backend),
                                                       self.store, name, timeout=TIMEOUT)
        self.core._world.pg_group_ranks[group] = {rank: index for index, rank in enumerate(ranks)}
        # Gloo fails on a member that still connects when another, which is done, destroys the group.
        if self.store.add(f"plumbline/{name}/made", 1) == len(ranks):
            self.store.set(f"plumbline/{name}/whole", "")
        self.store.wait([f"plumbline/{name}/whole"], TIMEOUT)
        return {"group": group.group_name}

    def drop(self, group):
        self.distributed.destroy_process_group(self.core._resolve_process_group(group))
        return {}


def answer_of(job, request):
    try:
        return getattr(job, request.pop("do"))(**request)
    except LookupError as error:
        return {"error": str(error.args[0]) if error.args else repr(error)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def file_for(version, module_file):
    """What `plumbline build-module c10d` made for this torch, or what came with plumbline: as torch_library.cpp has it."""
    folder, name = os.path.split(module_file)
    built = os.path.join(folder, "torch-" + ".".join(version.split(".")[:2]), name)
    return built if os.path.exists(built) else module_file


def connect(module_file):
    """Tells the backend module whom to ask. Returns what must live as long as the process."""
    import torch
    import torch.distributed as distributed
    if not distributed.is_available():
        raise ImportError(f"torch {torch.__version__} is built without torch.distributed")
    job = Job(torch, distributed)

    @ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    def ask(request, answer, size):
        text = json.dumps(answer_of(job, json.loads(request))).encode()
        if len(text) >= size:
            text = json.dumps({"error": text[:size // 2].decode(errors="replace")}).encode()
        ctypes.memmove(answer, text + b"\0", len(text) + 1)

    module = ctypes.CDLL(file_for(torch.__version__, module_file))
    module.plumbline_c10d_connect(ask)
    return module, ask


def main():
    worker_file, module_file, *arguments = sys.argv[1:]
    sys.path[0] = os.getcwd()  # as `python3 -m` does: modules with a backend may lie there
    try:
        connection = connect(module_file)
    except Exception as error:
        connection = None
        os.environ["PLUMBLINE_C10D_PROBLEM"] = f"{sys.executable}: {type(error).__name__}: {error}"
    argv = (ctypes.c_char_p * (len(arguments) + 2))(b"worker", *map(os.fsencode, arguments), None)
    status = ctypes.CDLL(worker_file).plumbline_worker_main(len(arguments) + 1, argv)
    sys.stdout.flush()
    sys.stderr.flush()
    del connection
    # No farewell: process groups that have lost a peer would wait for it.
    os._exit(status)


main()
