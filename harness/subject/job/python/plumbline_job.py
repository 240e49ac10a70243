"""What a data-parallel training program needs of the job door: its specification, its rows, and the record that it leaves.

Needs numpy and Python 3.11. Where the package safetensors is installed, its functions do as well as the two here.
"""
import json, os, tomllib
from pathlib import Path

import numpy

TYPES = {"F32": numpy.float32, "I64": numpy.int64}


def load(file):
    """The tensors of a safetensors file, by name."""
    data = Path(file).read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(data[8 + size :][slice(*one["data_offsets"])], TYPES[one["dtype"]]).reshape(one["shape"]).copy()
            for name, one in header.items()}


def save(file, tensors, metadata):
    """Writes float32 tensors and a metadata of texts."""
    header, blocks, end = {"__metadata__": metadata}, [], 0
    for name, tensor in tensors.items():
        blocks.append(numpy.ascontiguousarray(tensor, numpy.float32).tobytes())
        header[name] = {"dtype": "F32", "shape": list(numpy.shape(tensor)), "data_offsets": [end, end + len(blocks[-1])]}
        end += len(blocks[-1])
    text = json.dumps(header).encode()
    Path(file).write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blocks))


class Run:
    """One rank's part of the run that PLUMBLINE_SPEC says, without pipeline and tensor parallelism."""

    def __init__(self):
        file = Path(os.environ["PLUMBLINE_SPEC"])
        self.spec = tomllib.loads(file.read_text())
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.steps = self.spec["run"]["steps"]
        # Each a part of the gradient that is a mean over all of them.
        self.parts_of_a_step = self.spec["run"]["accumulation"] * self.spec["run"]["micro_batches"]
        self.weights = load(file.parent / self.spec["files"]["weights"])
        self.batches = load(file.parent / self.spec["files"]["batches"])
        self.tensors = {}

    def micro_batches(self, step):
        """x and y of this rank's micro-batches in a step: consecutive slices of its consecutive slice of each batch."""
        run = self.spec["run"]
        rows = run["global_batch"] // self.world // run["micro_batches"]
        for batch in range(step * run["accumulation"], (step + 1) * run["accumulation"]):
            for part in range(run["micro_batches"]):
                first = (self.rank * run["micro_batches"] + part) * rows
                yield tuple(self.batches[name][batch, first : first + rows] for name in ("x", "y"))

    def record(self, step, what, value):
        """`what` is loss, before/NAME, grad/NAME or after/NAME."""
        self.tensors[f"step{step}/{what}"] = value

    def write(self, framework, version):
        metadata = {"protocol": "1", "framework": framework, "version": version, "rank": self.rank, "pipeline": 0, "data": self.rank,
                    "tensor": 0, "steps": self.steps}
        save(Path(os.environ["PLUMBLINE_RECORD"]) / f"rank{self.rank}.safetensors", self.tensors,
             {key: str(value) for key, value in metadata.items()})
