"""What a training program needs of the job door: its specification, its place, its rows, and the record that it leaves.

Needs Python 3.11, and numpy where tensors are read or written. Where the package safetensors is installed, its functions do as well as the two here.
"""
import faulthandler, json, os, signal, sys, tomllib
from pathlib import Path

TYPES = {"F32": "<f4", "I64": "<i8"}

# When a job hangs, its ranks are asked where they stand.
faulthandler.register(signal.SIGUSR1, all_threads=True)


def load(file):
    """The tensors of a safetensors file, by name."""
    import numpy
    data = Path(file).read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(data[8 + size :][slice(*one["data_offsets"])], TYPES[one["dtype"]]).reshape(one["shape"]).copy()
            for name, one in header.items()}


def save(file, tensors, metadata):
    """Writes tensors, as bytes where they are `uint8` and as float32 else, and a metadata of texts."""
    import numpy
    header, blocks, end = {"__metadata__": metadata}, [], 0
    for name, tensor in tensors.items():
        is_bytes = getattr(tensor, "dtype", None) == numpy.uint8
        blocks.append(numpy.ascontiguousarray(tensor, numpy.uint8 if is_bytes else numpy.float32).tobytes())
        header[name] = {"dtype": "U8" if is_bytes else "F32", "shape": list(numpy.shape(tensor)), "data_offsets": [end, end + len(blocks[-1])]}
        end += len(blocks[-1])
    text = json.dumps(header).encode()
    Path(file).write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blocks))


class Run:
    """One rank's part of the run that PLUMBLINE_SPEC says."""

    def __init__(self):
        file = Path(os.environ["PLUMBLINE_SPEC"])
        self.spec = tomllib.loads(file.read_text())
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        # The coordinates of a rank: row-major over the axes in their order.
        self.sizes, self.place, left = self.spec["parallel"], {}, self.rank
        for axis in reversed(self.sizes["order"]):
            left, self.place[axis] = divmod(left, self.sizes[axis])
        self.steps = self.spec["run"]["steps"]
        # Each a part of the gradient that is a mean over all of them.
        self.parts_of_a_step = self.spec["run"]["accumulation"] * self.spec["run"]["micro_batches"]
        self.weights = load(file.parent / self.spec["files"]["weights"])
        self.batches = load(file.parent / self.spec["files"]["batches"])
        self.tensors = {}
        self.folder = Path(os.environ["PLUMBLINE_RECORD"])

    def micro_batches(self, step):
        """x and y of this rank's micro-batches in a step: consecutive slices of its consecutive slice of each batch."""
        run = self.spec["run"]
        rows = run["global_batch"] // self.sizes["data"] // run["micro_batches"]
        for batch in range(step * run["accumulation"], (step + 1) * run["accumulation"]):
            for part in range(run["micro_batches"]):
                first = (self.place["data"] * run["micro_batches"] + part) * rows
                yield tuple(self.batches[name][batch, first : first + rows] for name in ("x", "y"))

    def injections(self, step, moment):
        """(parameter, index, value) of what this rank is to write into its gradients; `moment` is local or reduced."""
        return [(one["parameter"], one["index"], float(one["value"])) for one in self.spec.get("inject", [])
                if (one["step"], one["rank"], one["moment"]) == (step, self.rank, moment)]

    def record(self, step, what, value):
        """`what` is loss, scale, skipped, before/NAME, grad/NAME or after/NAME."""
        if what == "skipped":
            from numpy import uint8
            value = uint8(value)
        self.tensors[f"step{step}/{what}"] = value
        (self.folder / f"rank{self.rank}.progress").write_text(f"step{step}/{what}\n")  # said of a job that hangs

    def write(self, framework, version):
        metadata = {"protocol": "1", "framework": framework, "version": version, "rank": self.rank, "pipeline": self.place["pipeline"],
                    "data": self.place["data"], "tensor": self.place["tensor"], "steps": self.steps}
        save(self.folder / f"rank{self.rank}.safetensors", self.tensors, {key: str(value) for key, value in metadata.items()})


def unsupported(reason):
    """Ends this rank, and says that the program does not do what the specification asks for: the case is skipped."""
    print(reason, file=sys.stderr, flush=True)
    os._exit(77)
