"""What a training program needs of the job door: its specification, its place, its rows, and the record that it leaves.

Needs Python 3.11, and numpy where tensors are read or written. Where the package safetensors is installed, its functions do as well as the two here.
"""
import faulthandler, gc, json, math, os, select, signal, socket, sys, tomllib
from pathlib import Path

TYPES = {"F32": "<f4", "I64": "<i8"}
GO_BACK = ("zbv", "v-half", "v-min", "dualpipev")  # schedules whose second half of stages lies on the ranks in reverse order

# The fields of a specification that this module knows, by table. A program that trains without one that it does not know trains
# something else: such a run is skipped.
FIELDS = {
    "": "protocol seed", "parallel": "pipeline data tensor order shard expert",
    "run": "steps global_batch micro_batches accumulation dtype schedule chunks bucket_bytes device activations", "model": "stages frozen",
    "model.layer": "type in out bias kernel stride padding features rows with heads hidden experts top_k normalize_gates", "loss": "type row_weights",
    "optimizer": "type lr momentum nesterov weight_decay no_decay betas eps", "clip": "max_norm norm_type",
    "averaging": "algorithm period lr momentum graph", "lr_schedule": "decay warmup_steps",
    "scaler": "kind init_scale growth_factor backoff_factor growth_interval", "checkpoint": "folder begin end",
    "inject": "step rank parameter index value moment",
    "files": "weights batches",
}

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

    # What a run can ask for that a program may lack: it is skipped then.
    weighs_rows = False  # weights of rows, of which 0 is padding
    clips = False        # clipping by the norm of the whole model's gradient
    schedules_rate = False  # a learning rate of each step
    groups_decay = False  # weight decay that leaves out some parameters
    freezes = False      # parameters that do not train
    shards = False       # data ranks that hold a copy of the parameters together
    resumes = False      # a checkpoint that another layout continues from
    records_activations = False  # outputs of layers, and their gradients
    spreads_experts = False  # experts of which each data rank has a part
    averaging = ()       # algorithms by which its ranks average parameters, of localsgd, slowmo, diloco, sgp; it has no other runs then

    def __init__(self):
        file = Path(environment("PLUMBLINE_SPEC"))
        self.folder = Path(environment("PLUMBLINE_RECORD"))
        self.rank, self.world = number_in_environment("RANK"), number_in_environment("WORLD_SIZE")
        try:
            self.spec = tomllib.loads(file.read_text())
        except (OSError, tomllib.TOMLDecodeError) as wrong:
            misuse(f"PLUMBLINE_SPEC = '{file}' cannot be read ({wrong}); it must be a run specification")
        if unknown := unknown_field(self.spec):
            unsupported(f"{unknown} in the specification: this program does not know it")
        self.sizes = self.spec["parallel"]
        ranks = self.sizes["pipeline"] * self.sizes["data"] * self.sizes["tensor"]
        if self.world != ranks or not 0 <= self.rank < ranks:
            misuse(f"RANK = {self.rank} of WORLD_SIZE = {self.world}: the specification is for ranks 0 to {ranks - 1} of {ranks}")
        rows, parts = self.spec["run"]["global_batch"], self.sizes["data"] * self.spec["run"]["micro_batches"]
        if rows % parts:
            misuse(f"run.global_batch = {rows}: it must be a multiple of parallel.data x run.micro_batches = {self.sizes['data']} x "
                   f"{self.spec['run']['micro_batches']}")
        self.place = self.place_of(self.rank)
        # Data ranks that hold a copy of the parameters together, and the copies. The rank's coordinates along these:
        self.shard_size = self.sizes.get("shard", 1)
        self.replicas = self.sizes["data"] // self.shard_size
        self.replica, self.shard = divmod(self.place["data"], self.shard_size)
        self.steps = self.spec["run"]["steps"]
        # Those that this program trains: all, but in a run of which each part has a layout of its own. It loads a checkpoint before the
        # first where that is above 0, and saves one after the last where steps remain.
        part = self.spec.get("checkpoint", {"begin": 0, "end": self.steps, "folder": ""})
        self.first_step, self.end_step = part["begin"], part["end"]
        self.checkpoint_folder = file.parent / part["folder"]
        # Each a part of the gradient that is a mean over all of them.
        self.parts_of_a_step = self.spec["run"]["accumulation"] * self.spec["run"]["micro_batches"]
        self.weights = load(file.parent / self.spec["files"]["weights"])
        self.batches = load(file.parent / self.spec["files"]["batches"])
        self.tensors = {}
        if self.has_row_weights and not self.weighs_rows:
            unsupported("weights of rows: this program has none")
        if "clip" in self.spec and not self.clips:
            unsupported("clipping: this program does not clip gradients")
        if "lr_schedule" in self.spec and not self.schedules_rate:
            unsupported("a learning-rate schedule: this program has one learning rate")
        if self.spec["optimizer"].get("no_decay") and not self.groups_decay:
            unsupported("parameters without weight decay: this program has one rule for all")
        self.frozen = frozenset(self.spec["model"].get("frozen", ()))  # names of parameters
        if self.frozen and not self.freezes:
            unsupported("frozen parameters: this program trains all")
        if self.shard_size > 1 and not self.shards:
            unsupported("shards of parameters: each data rank of this program has all")
        if "checkpoint" in self.spec and not self.resumes:
            unsupported("a checkpoint: this program saves none")
        self.expert_ranks = self.sizes.get("expert", 1)
        if self.expert_ranks > 1 and not self.spreads_experts:
            unsupported(f"experts on {self.expert_ranks} expert ranks: this program has all experts on each rank")
        if self.spec["run"].get("activations", False) and not self.records_activations:
            unsupported("outputs of layers: this program records none")
        asked = self.spec.get("averaging", {}).get("algorithm")
        if asked is None and self.averaging:
            unsupported("gradients that are reduced: this program averages parameters")
        if asked is not None and asked not in self.averaging:
            unsupported(f"averaging {asked}: this program has {', '.join(self.averaging) or 'none'}")

    # ---- the rank's place

    def place_of(self, rank):
        """The coordinates of a rank by axis: row-major over the axes in their order."""
        place = {}
        for axis in reversed(self.sizes["order"]):
            rank, place[axis] = divmod(rank, self.sizes[axis])
        return place

    def rank_at(self, rank, **place):
        """The rank that has the coordinates of `rank` but for those given."""
        place, number = {**self.place_of(rank), **place}, 0
        for axis in self.sizes["order"]:
            number = number * self.sizes[axis] + place[axis]
        return number

    def ranks_along(self, axis, rank=None):
        """The ranks that have all other coordinates of `rank`, by default of this one, in the axis's order. Of the data ranks `expert` gives
        the consecutive ones that hold all experts together, and `expert_data` those that hold the same experts."""
        rank = self.rank if rank is None else rank
        if axis in ("expert", "expert_data"):
            data, own = self.ranks_along("data", rank), self.place_of(rank)["data"]
            first = own - own % self.expert_ranks
            return data[own % self.expert_ranks :: self.expert_ranks] if axis == "expert_data" else data[first : first + self.expert_ranks]
        return tuple(self.rank_at(rank, **{axis: at}) for at in range(self.sizes[axis]))

    def own_experts(self, experts):
        """The numbers of the experts that this rank holds, of a layer with so many."""
        part = experts // self.expert_ranks
        first = self.place["data"] % self.expert_ranks * part
        return range(first, first + part)

    # ---- its stages

    @property
    def stage_count(self):
        return len(self.spec["model"]["stages"])

    def pipeline_rank_of(self, stage):
        """Stages go round the ranks; those of a V go back on them."""
        ranks = self.sizes["pipeline"]
        return 2 * ranks - 1 - stage if self.spec["run"]["schedule"] in GO_BACK and stage >= ranks else stage % ranks

    @property
    def stages(self):
        """The stages of this rank, ascending."""
        return [stage for stage in range(self.stage_count) if self.pipeline_rank_of(stage) == self.place["pipeline"]]

    @property
    def has_last_stage(self):
        return self.pipeline_rank_of(self.stage_count - 1) == self.place["pipeline"]

    def layer_numbers(self, stage):
        """The layers of a stage, by their numbers in the whole model."""
        starts = [*self.spec["model"]["stages"], len(self.spec["model"]["layer"])]
        return range(starts[stage], starts[stage + 1])

    def pipeline_ranks_of_tied(self, owner):
        """The pipeline ranks that hold the weight of layer `owner`: its own, and those of the layers tied to it."""
        uses = {owner, *(number for number, layer in enumerate(self.spec["model"]["layer"]) if layer["type"] == "tied_linear" and layer["with"] == owner)}
        return sorted({self.pipeline_rank_of(stage) for stage in range(self.stage_count) if uses & set(self.layer_numbers(stage))})

    # ---- its rows, and its record

    def batches_of(self, step):
        """x and y of this rank's slice of each batch of a step."""
        yield from self._slices(step, "x", "y")

    def _slices(self, step, *names):
        run = self.spec["run"]
        rows = run["global_batch"] // self.sizes["data"]
        first = self.place["data"] * rows
        for batch in range(step * run["accumulation"], (step + 1) * run["accumulation"]):
            yield tuple(self.batches[name][batch, first : first + rows] for name in names)

    def micro_batches(self, step):
        """x and y of this rank's micro-batches in a step: consecutive slices of its slice of each batch."""
        parts = self.spec["run"]["micro_batches"]
        for x, y in Run.batches_of(self, step):
            rows = len(x) // parts
            for first in range(0, parts * rows, rows):
                yield x[first : first + rows], y[first : first + rows]

    @property
    def has_row_weights(self):
        """Whether rows have weights, of which 0 is padding: a step's gradient is then the sum of weight x gradient over all its
        rows, on all data ranks, over the sum of their weights."""
        return self.spec["loss"].get("row_weights", False)

    def weights_of_batches(self, step):
        """The weights of the rows of batches_of(step)."""
        return [weights for weights, in self._slices(step, "w")]

    def weights_of_micro_batches(self, step):
        """The weights of the rows of micro_batches(step)."""
        return [part for weights in self.weights_of_batches(step) for part in weights.reshape(self.spec["run"]["micro_batches"], -1)]

    def mean_loss(self, step, losses):
        """The loss to record, of the losses of the rank's micro-batches; with row weights those are weighted means, or anything finite for
        one that is all padding."""
        if not self.has_row_weights:
            return sum(losses) / len(losses)
        weights = [float(part.sum()) for part in self.weights_of_micro_batches(step)]
        return sum(weight * loss for weight, loss in zip(weights, losses, strict=True)) / sum(weights)

    def rate_factor(self, step):
        """By which the learning rate of a step, from 0, is multiplied."""
        if "lr_schedule" not in self.spec:
            return 1.0
        schedule = self.spec["lr_schedule"]
        warmup = schedule["warmup_steps"]
        if step < warmup:
            return step / warmup
        done = (step - warmup) / (self.steps - warmup)
        return (1 + math.cos(math.pi * done)) / 2 if schedule["decay"] == "cosine" else 1 - done

    def ends_round(self, step):
        """Whether ranks average parameters after this step, in a run with rounds."""
        return (step + 1) % self.spec["averaging"]["period"] == 0

    def peers(self, step, rank=None):
        """The ranks to which a rank, by default this one, sends after a step of stochastic gradient push."""
        rank, world = self.rank if rank is None else rank, self.world
        graph = self.spec["averaging"]["graph"]
        if world == 1:
            return []
        if graph == "n-peer-exponential":
            return [(rank + 2 ** (step % (world - 1).bit_length())) % world]
        if graph == "ring":
            return [(rank + 1) % world]
        return [0] if graph == "star" and rank > 0 else [other for other in range(world) if other != rank]

    def injections(self, step, moment):
        """(parameter, index, value) of what this rank is to write into its gradients; `moment` is local or reduced."""
        return [(one["parameter"], one["index"], float(one["value"])) for one in self.spec.get("inject", [])
                if (one["step"], one["rank"], one["moment"]) == (step, self.rank, moment)]

    def record(self, step, what, value):
        """`what` is loss, scale, skipped, weight, NAME of a parameter after before/, grad/, after/, updated/ or seen/, or LAYER/MICRO-BATCH
        after activation/ or activation_grad/."""
        if what == "skipped":
            from numpy import uint8
            value = uint8(value)
        self.tensors[f"step{step}/{what}"] = value
        (self.folder / f"rank{self.rank}.progress").write_text(f"step{step}/{what}\n")  # said of a job that hangs

    def write(self, framework, version):
        metadata = {"protocol": "1", "framework": framework, "version": version, "rank": self.rank, "pipeline": self.place["pipeline"],
                    "data": self.place["data"], "tensor": self.place["tensor"], "steps": self.steps}
        save(self.folder / f"rank{self.rank}.safetensors", self.tensors, {key: str(value) for key, value in metadata.items()})


def unknown_field(table, name=""):
    """The first field or table of a specification that FIELDS lacks, "optimizer.decoupled"; nothing where it has all."""
    for key, value in table.items():
        path = f"{name}.{key}" if name else key
        if path in FIELDS:
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, dict) and (found := unknown_field(one, path)):
                    return found
        elif key not in FIELDS[name].split():
            return f"[{path}]" if isinstance(value, dict) else path
    return None


def serve():
    """With --job-serves-ranks: forks a rank at each request, and returns in that rank, with its environment. Else returns at once.

    A program calls it once it has imported what it needs, and before it starts threads, which a fork would lose.
    """
    if "PLUMBLINE_JOB_SERVER" not in os.environ:
        return
    threads = os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else [0]
    if len(threads) > 1:
        misuse(f"{len(threads)} threads run when ranks are to be forked; there must be one, as with OMP_NUM_THREADS=1")
    gc.freeze()  # what the ranks share, no collection writes to
    requests, ranks = socket.socket(fileno=os.dup(0)), {}
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    requests.send(b"ready")
    while True:
        heard, _, _ = select.select([requests, woken], [], [])
        if woken in heard:
            woken.recv(4096)
        report_ends(ranks)
        if requests in heard:
            packet, descriptors, _, _ = socket.recv_fds(requests, 1 << 20, 2)
            if not packet:
                os._exit(0)
            sys.stdout.flush()
            sys.stderr.flush()
            pid = os.fork()
            if pid == 0:
                for one in (requests, woken, wakes, *ranks.values()):
                    one.close()
                return become_rank(json.loads(packet)["environment"], *descriptors)
            os.close(descriptors[0])
            ranks[pid] = socket.socket(fileno=descriptors[1])


def report_ends(ranks):
    """Tells of each rank that has ended, how, and forgets it."""
    for pid in list(ranks):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done == 0:
            continue
        words = f"exited {os.WEXITSTATUS(status)}" if os.WIFEXITED(status) else f"signaled {os.WTERMSIG(status)}"
        try:
            ranks[pid].send(f"{words}\n".encode())
        except OSError:
            pass  # nobody waits for it
        ranks.pop(pid).close()


def become_rank(environment, output, control):
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, number)
        if number != 1:
            os.close(descriptor)
    del os.environ["PLUMBLINE_JOB_SERVER"]
    os.environ.update(environment)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # else all ranks would draw the same numbers
    with socket.socket(fileno=control) as told:
        told.send(f"started {os.getpid()}\n".encode())


def unsupported(reason):
    """Ends this rank, and says that the program does not do what the specification asks for: the case is skipped."""
    print(reason, file=sys.stderr, flush=True)
    if "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun ends with a status of its own
        (Path(environment("PLUMBLINE_RECORD")) / "unsupported").write_text(f"{reason}\n")
    os._exit(77)


def misuse(problem):
    """Ends this rank with status 2: the program, or the way it was started, is wrong."""
    print(f"{Path(sys.argv[0]).name}: {problem}", file=sys.stderr, flush=True)
    os._exit(2)


def environment(name):
    if name not in os.environ:
        misuse(f"{name} is not set; it must be, as plumbline check --job 'python3 {Path(sys.argv[0]).name}' sets it")
    return os.environ[name]


def number_in_environment(name):
    text = environment(name)
    return int(text) if text.isdecimal() else misuse(f"{name} = '{text}': it must be a number, as plumbline and torchrun set it")
