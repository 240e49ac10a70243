"""A runner for PyTorch programs at the job door: a program subclasses TorchJob, and writes only what is its own.

    class Ddp(TorchJob):
        framework = "torch.nn.parallel.DistributedDataParallel"
        dtypes = ("float32", "float16", "bfloat16")

        def wrap(self, model):
            return DistributedDataParallel(model)

    if __name__ == "__main__":
        Ddp.main()

The class attributes declare what the program can do; a run that asks for more is skipped, with that reason. The methods below
"what a program overrides" are the steps of a training step, each with the plain form as its default. A rank is started by
plumbline (RANK and WORLD_SIZE set), or by torchrun with --job-launches-ranks.

Needs Python 3.11, numpy and torch.
"""
import contextlib, difflib, functools, importlib, math, os, sys

import torch
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

try:
    from plumbline.job import Run, misuse, serve, unsupported
except ImportError:  # not installed: the files lie beside each other
    from plumbline_job import Run, misuse, serve, unsupported

AXES = ("pipeline", "data", "tensor")
DTYPES = ("float32", "float16", "bfloat16")
SCHEDULES = ("gpipe", "1f1b", "interleaved-1f1b", "looped-bfs", "zb-h1", "zb-h2", "interleaved-zb", "zbv", "v-half", "v-min", "dualpipev")
AVERAGING = ("localsgd", "slowmo", "diloco", "sgp")
# As adapters name them; a declaration may have either.
SCHEDULES_OF_ADAPTERS = {"interleaved": "interleaved-1f1b", "interleaved-zero-bubble": "interleaved-zb"}


class TiedLinear(nn.Module):
    """Multiplies by the weight of an earlier layer, which is its parameter too."""

    def __init__(self, owner):
        super().__init__()
        self.weight = owner.weight

    def forward(self, x):
        return nn.functional.linear(x, self.weight)


class Attention(nn.Module):
    """Causal self-attention of x [rows, tokens, features], in which each head has its query, key and value one after the other."""

    is_causal = True

    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, x):
        query, key, value = x.unflatten(-1, (self.heads, 3, -1)).permute(3, 0, 2, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=self.is_causal)
        return seen.transpose(1, 2).flatten(2)


class Add(nn.Module):
    """Adds the output of the earlier layer of number `added`."""

    def __init__(self, added):
        super().__init__()
        self.added = added

    def forward(self, x, earlier):
        return x + earlier


class Moe(nn.Module):
    """A mixture of experts: a token goes through the top_k experts with the largest probabilities. An expert that no token chooses is not
    computed, and has no gradient. `own` are the experts that are held here, by default all."""

    def __init__(self, of, own=None):
        super().__init__()
        self.experts, self.top_k, self.normalizes = of["experts"], of.get("top_k", 2), of.get("normalize_gates", True)
        own = range(self.experts) if own is None else own
        self.weight = nn.Parameter(torch.empty(self.experts, of["features"]))  # of the router
        self.up = nn.ParameterDict({str(number): nn.Parameter(torch.empty(of["hidden"], of["features"])) for number in own})
        self.down = nn.ParameterDict({str(number): nn.Parameter(torch.empty(of["features"], of["hidden"])) for number in own})

    def forward(self, x):
        tokens = x.flatten(0, -2)
        return self.mixed(tokens, *self.route(tokens)).view_as(x)

    def route(self, tokens):
        """(experts, gates) of each token, [tokens, top_k]."""
        probabilities = nn.functional.linear(tokens, self.weight).softmax(-1)
        chosen = probabilities.detach().sort(dim=-1, descending=True, stable=True).indices[:, : self.top_k]  # of equal ones the first
        gates = probabilities.gather(-1, chosen)
        return chosen, gates / gates.sum(-1, keepdim=True) if self.normalizes else gates

    def mixed(self, tokens, chosen, gates):
        out = torch.zeros_like(tokens)
        for number in range(self.experts):
            rows, choice = torch.nonzero(chosen == number, as_tuple=True)
            if len(rows) > 0:
                out = out.index_add(0, rows, self.expert(number, tokens[rows]) * gates[rows, choice, None])
        return out

    def expert(self, number, tokens):
        hidden = nn.functional.gelu(nn.functional.linear(tokens, self.up[str(number)]))
        return nn.functional.linear(hidden, self.down[str(number)])


class Stack(nn.Sequential):
    """Layers one after the other, named by their numbers in the model."""

    def forward(self, x):
        adds = {name: getattr(layer, "added", None) for name, layer in self._modules.items()}  # a wrapped layer is no Add, and has its attributes
        added = set(adds.values())
        outputs = {int(name) - 1: x for name in list(self._modules)[:1]}
        for name, layer in self._modules.items():
            x = layer(x) if adds[name] is None else layer(x, outputs[adds[name]])
            if int(name) in added:
                outputs[int(name)] = x
        return x


LAYERS = {
    "linear": lambda of: nn.Linear(of["in"], of["out"], bias=of.get("bias", True)),
    "conv2d": lambda of: nn.Conv2d(of["in"], of["out"], of["kernel"], of.get("stride", 1), of.get("padding", 0), bias=of.get("bias", True)),
    "batch_norm2d": lambda of: nn.BatchNorm2d(of["features"]),
    "layer_norm": lambda of: nn.LayerNorm(of["features"]),
    "embedding": lambda of: nn.Embedding(of["rows"], of["features"]),
    "relu": lambda of: nn.ReLU(), "gelu": lambda of: nn.GELU(), "tanh": lambda of: nn.Tanh(), "flatten": lambda of: nn.Flatten(),
    "attention": lambda of: Attention(of["heads"]), "add": lambda of: Add(of["with"]),
    "moe": Moe,
}


def cross_entropy(out, y, **how):
    """Of rows, or of the tokens in rows: classes are the last dimension."""
    return nn.functional.cross_entropy(out.flatten(0, -2), y.flatten(), **how)


LOSSES = {"cross_entropy": cross_entropy, "mse": nn.functional.mse_loss}
LOSSES_OF_ROWS = {"cross_entropy": lambda out, y: cross_entropy(out, y, reduction="none").view(len(y), -1).mean(1),
                  "mse": lambda out, y: nn.functional.mse_loss(out, y, reduction="none").flatten(1).mean(1)}
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}


class TorchJob(Run):
    """One rank of a training run.

    masters  what build() returned: its parameters, in float32, are updated and recorded
    module   the masters, or their copy in 16 bits: its gradients are those of the run
    model    what wrap() made of the module: it computes
    """

    # ---- what a program declares

    framework = ""                  # its name in the record; default: the class's name
    axes = ("data",)                # along which it takes more than one rank: pipeline, data, tensor
    schedules = SCHEDULES           # of pipelines
    dtypes = ("float32",)           # float32, float16, bfloat16
    layers = (*LAYERS, "tied_linear")
    optimizers = tuple(OPTIMIZERS)
    weighs_rows = False             # whether it takes weights of rows, of which 0 is padding
    clips = False                   # whether it clips gradients by the norm of the whole model's
    schedules_rate = False          # whether its learning rate follows a schedule
    groups_decay = False            # whether its weight decay can leave out some parameters
    freezes = False                 # whether it can leave parameters as they are
    shards = False                  # whether data ranks can hold shards, by the sizes that the run says
    resumes = False                 # whether it saves a checkpoint from which another layout continues, by save() and load()
    spreads_experts = False         # whether it has parts of the experts on the data ranks, where a run says so
    records_activations = False     # whether it records outputs of layers and their gradients, by hooks on layers_in()
    injects = True                  # whether values can be written into its gradients
    reduces_in_backward = True      # else reduce() is called after the last backward of a step
    averaging = ()                  # algorithms by which its ranks average parameters: localsgd, slowmo, diloco, sgp; it has no other runs then
    keeps_copies = True             # in 16 bits `model` is a copy of the masters; else it is the masters (autocast)
    backend = "gloo"

    def __init__(self):
        super().__init__()
        run = self.spec["run"]
        self.device = torch.device(run["device"])
        self.dtype = getattr(torch, run["dtype"])
        if not hasattr(type(self), "loss_of"):  # a subclass's own is what it trains with
            self.loss_of = LOSSES[self.spec["loss"]["type"]] if not self.has_row_weights else self.weighted_loss_of
        self.part = None           # the number in its step of the micro-batch whose forward is computed: its outputs can be recorded
        self.is_last_part = False  # whether the micro-batch that is computed is the last one of its step
        self.current = 0           # the step
        self.pushes = self.spec.get("averaging", {}).get("algorithm") == "sgp"
        self.push_sum_weight = 1.0
        self.part_weights = None   # the weights of the rows of that micro-batch, in a run that has them
        self._totals = {}

    # ---- what a program overrides

    def layers_in(self, module):
        """(number in the specification, module) of the layers in what build() returned, whose outputs are recorded."""
        for stage in module if isinstance(module, nn.ModuleList) else [module]:
            for name, layer in stage.named_children():
                if name.isdecimal():
                    yield int(name), layer

    def output_dim(self, number):
        """The dimension, -1 for the last, along which this rank's output of a layer is its tensor rank's part; nothing for a whole one. Of a DTensor it is known."""
        return None

    def share_of_gradients(self):
        """What makes gradients in the backward pass those of the rank's loss of the step: 1 where a micro-batch's loss is multiplied
        by share_of_a_part() before it, and else that."""
        return 1

    def why_unsupported(self):
        """The reason why the program cannot do this run; nothing where it can."""
        return None

    def build(self):
        """The layers that this rank computes, with the given weights in float32: a module, or a list of one for each stage of a pipeline."""
        made = {}
        return nn.ModuleList(self.layers_of(stage, made) for stage in self.stages) if self.stage_count > 1 else self.layers_of(0)

    def make_layer(self, of):
        """The module of a layer, of which `of` is the specification; its parameters are overwritten with the given weights."""
        return LAYERS[of["type"]](of)

    def wrap(self, model):
        """What computes in `model`'s place: DistributedDataParallel(model), a module with hooks, …"""
        return model

    def freeze(self, module):
        """Before wrap(): leaves the parameters without gradients that the run says so of."""
        for name, parameter in self.names_in(module):
            parameter.requires_grad_(name not in self.frozen)

    def make_optimizer(self, parameters):
        """Of the parameters, or of groups of them as torch.optim has them, each with the settings that are its own."""
        return self.optimizer_class(parameters, **self.optimizer_settings)

    def make_scheduler(self, optimizer):
        """In a run with a learning-rate schedule, what sets the optimizer's learning rate now, and for each next step when it is stepped."""
        return torch.optim.lr_scheduler.LambdaLR(optimizer, self.rate_factor)

    def make_scaler(self, **settings):
        """A scaler whose steps all ranks skip together: each alone would see the overflows of its own gradients only."""
        return ShardedGradScaler(self.device.type, **settings)

    def forward(self, x):
        return self.model(x.to(self.dtype) if x.is_floating_point() else x)

    def forward_backward(self, step):
        """Adds the step's gradients up in the model, and returns the loss of each micro-batch, not scaled."""
        losses = []
        for self.part, (x, y) in enumerate(self.micro_batches(step)):
            self.is_last_part = self.part + 1 == self.parts_of_a_step
            with self.accumulation():
                loss = self.loss_of(self.forward(x).float(), y)
                self.scaler.scale(loss * self.share_of_a_part()).backward()
            losses.append(loss.item())
        return losses

    def share_of_a_part(self):
        """A step's gradient is the mean over its micro-batches, of which each is a part; with row weights a part counts by its weight
        in that of the rows of all data ranks, over whom gradients are averaged."""
        if self.has_row_weights:
            return self.part_weights.sum() * self.share_of_a_weight()
        return 1 / self.parts_of_a_step

    def share_of_a_weight(self):
        """What a row of weight 1 counts for in the gradient of a data rank."""
        return self.sizes["data"] / self.weight_of_step(self.current)

    def accumulation(self):
        """In which a micro-batch is computed: gradients are reduced with the last one of a step."""
        if hasattr(self.model, "set_requires_gradient_sync"):
            self.model.set_requires_gradient_sync(self.is_last_part)
        elif hasattr(self.model, "no_sync") and not self.is_last_part:
            return self.model.no_sync()
        return contextlib.nullcontext()

    def reduce(self):
        """Without reduces_in_backward: sums tied weights over the stages that hold them, and averages over data ranks."""
        self.sum_tied_gradients()
        self.average_gradients(self.group("data"))

    def clip(self):
        """Clips the gradients, which are reduced and divided by the scale, where the run says so."""
        norm = self.total_norm()
        if self.scaler.is_enabled() and not math.isfinite(norm):
            return  # the scaler skips the step
        factor = self.spec["clip"]["max_norm"] / (norm + 1e-6)
        self.multiply_gradients(1.0 if factor > 1 else factor)  # min(1, NaN) would be 1; clip_grad_norm_ multiplies by NaN

    def total_norm(self):
        """The norm of the whole model's gradient: of the parts on all pipeline and tensor ranks, and of what several have once."""
        order = self.spec["clip"].get("norm_type", 2.0)
        norms = [whole_of(torch.linalg.vector_norm(parameter.grad, order)).double() for name, parameter in self.named_parameters() if self.counts_in_norm(name)]
        norm = torch.linalg.vector_norm(torch.stack(norms), order) if norms else torch.zeros((), dtype=torch.float64, device=self.device)
        for axis in ("pipeline", "tensor"):
            if self.sizes[axis] > 1:
                norm = self.norm_over(norm, order, self.group(axis))
        return norm.item()

    def norm_over(self, norm, order, group):
        """Of the norms that the ranks of a group have, that of their gradients together."""
        is_largest = math.isinf(order)
        power = norm if is_largest else norm**order
        torch.distributed.all_reduce(power, torch.distributed.ReduceOp.MAX if is_largest else torch.distributed.ReduceOp.SUM, group=group)
        return power if is_largest else power ** (1 / order)

    def counts_in_norm(self, name):
        """Whether this rank counts a parameter that others may have, too: a tied weight counts on the first of its stages' ranks,
        and what tensor ranks have whole on the first of these."""
        is_whole = self.sizes["tensor"] == 1 or self.shard_dim(name) is None
        if is_whole and self.place["tensor"] > 0:
            return False
        number, kind = name.split(".", 1)
        return kind != "weight" or self.place["pipeline"] == self.pipeline_ranks_of_tied(int(number))[0]

    def multiply_gradients(self, factor):
        for _, parameter in self.named_parameters():
            parameter.grad.mul_(factor)

    def update(self):
        """The optimizer's step, or none where the scaler finds an overflow."""
        self.scaler.step(self.optimizer)
        self.scaler.update(None if self.spec.get("scaler", {}).get("kind") == "dynamic" else self.scaler.get_scale())

    def step_scheduler(self):
        """After the optimizer's step, in a run with a learning-rate schedule: the next step's learning rate."""
        self.scheduler.step()

    def estimate(self):
        """A context in which the model has what a forward pass uses: with stochastic gradient push its parameters, divided by their weight."""
        return contextlib.nullcontext()

    def average(self, step):
        """After the optimizer's step, in a run that averages parameters: the ranks do, where it is due."""

    def between_steps(self):
        """Before each step but the first."""

    def save(self, folder):
        """After the last step of a run that another one continues: saves what load() needs, of which each rank has its part."""
        checkpoint.save(self.state_to_keep(), checkpoint_id=folder)

    def load(self, folder):
        """Before the first step of a run that continues another one, of other sizes along the axes."""
        state = self.state_to_keep()
        checkpoint.load(state, checkpoint_id=folder)
        set_state_dict(self.masters, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])

    def state_to_keep(self):
        model, optimizer = get_state_dict(self.masters, self.optimizer)
        kept = {"model": model, "optimizer": optimizer, "scheduler": self.scheduler, "scaler": self.scaler if self.scaler.is_enabled() else None}
        return {name: state for name, state in kept.items() if state is not None}

    def named_parameters(self):
        """(name in the specification, parameter) of what this rank holds, each once."""
        return self.names_in(self.masters)

    def trained_parameters(self):
        """Those of named_parameters() that are not frozen."""
        return ((name, parameter) for name, parameter in self.named_parameters() if name not in self.frozen)

    def name_of(self, path):
        """The specification's name of a parameter, "2.weight", by its path in what build() returned."""
        layers = self.spec["model"]["layer"]
        parts = [part for part in path.split(".") if not part.startswith("_")]
        number, *kind = parts[-3 if parts[-1].isdecimal() else -2 :]  # 5.up.0 of an expert, and 5.weight
        of = layers[int(number)]
        return ".".join([str(of["with"]) if of["type"] == "tied_linear" else number, *kind])

    def shard_dim(self, name):
        """The dimension along which this rank's parameter is its tensor rank's part; nothing for a whole one."""
        return None

    # ---- what a program may use

    @property
    def optimizer_class(self):
        return OPTIMIZERS[self.spec["optimizer"]["type"]]

    @property
    def optimizer_settings(self):
        return {name: tuple(value) if isinstance(value, list) else value for name, value in self.spec["optimizer"].items()
                if name not in ("type", "no_decay")}

    def parameter_groups(self):
        """What make_optimizer() is given: this rank's parameters that train, in two groups where weight decay leaves out some."""
        named, exempt = list(self.trained_parameters()), self.spec["optimizer"].get("no_decay", ())
        if not exempt:
            return [parameter for _, parameter in named]
        groups = [{"params": [parameter for name, parameter in named if name not in exempt]},
                  {"params": [parameter for name, parameter in named if name in exempt], "weight_decay": 0.0}]
        return [group for group in groups if group["params"]]

    @property
    def leaves_some_unused(self):
        """Whether rows decide which parameters they use: experts that no token chooses are unused."""
        return any(layer["type"] == "moe" for layer in self.spec["model"]["layer"])

    def gradients(self):
        """The gradients of what computes, by name, scaled where the run has a scaler."""
        return {name: parameter.grad for name, parameter in self.names_in(self.module) if parameter.grad is not None}

    def batches_of(self, step):
        for x, y in super().batches_of(step):
            yield torch.from_numpy(x).to(self.device), torch.from_numpy(y).to(self.device)

    def micro_batches(self, step):
        weights = iter(self.weights_of_micro_batches(step)) if self.has_row_weights else None
        for x, y in super().micro_batches(step):
            if weights is not None:
                self.part_weights = torch.from_numpy(next(weights)).to(self.device)
            yield torch.from_numpy(x).to(self.device), torch.from_numpy(y).to(self.device)

    def weighted_loss_of(self, out, y, weights=None):
        """The weighted mean loss of a micro-batch, 0 where it is all padding; by default with its own weights."""
        weights = self.part_weights if weights is None else weights
        return (LOSSES_OF_ROWS[self.spec["loss"]["type"]](out, y) * weights).sum() / (weights.sum() + (weights.sum() == 0))

    def weight_of_step(self, step):
        """The sum of the weights of the step's rows on all data ranks, which all ranks ask for in the same order."""
        if step not in self._totals:
            total = torch.tensor(float(sum(weights.sum() for weights in self.weights_of_batches(step))), dtype=torch.float64, device=self.device)
            torch.distributed.all_reduce(total, group=self.group("data"))
            self._totals[step] = total.item()
        return self._totals[step]

    def group(self, axis):
        """The process group along an axis: ranks whose other coordinates are this rank's. All ranks call it in the same order."""
        if axis not in self._groups:
            self._groups[axis] = self._group_of({self.ranks_along(axis, rank) for rank in range(self.world)})
        return self._groups[axis]

    def mesh(self):
        """A device mesh of the run's axes, by their names and in their order."""
        order = self.sizes["order"]
        return torch.distributed.device_mesh.init_device_mesh(self.device.type, [self.sizes[axis] for axis in order], mesh_dim_names=tuple(order))

    def mesh_of_shards(self):
        """A device mesh of replicas and of the shards of each, for programs of data ranks alone."""
        return torch.distributed.device_mesh.init_device_mesh(self.device.type, [self.replicas, self.shard_size], mesh_dim_names=("replicate", "shard"))

    def layers_of(self, stage, made=None):
        """A stage's layers as a Stack, whose children are named by the layers' numbers. `made` has the layers of this rank's
        other stages, whose weights tied layers share."""
        layers, made = self.spec["model"]["layer"], {} if made is None else made
        stack = Stack()
        for number in self.layer_numbers(stage):
            of = layers[number]
            if of["type"] == "tied_linear":
                owner = of["with"]
                if owner not in made:  # it is on a stage of another rank, and this is a copy
                    made[owner] = LAYERS[layers[owner]["type"]]({**layers[owner], "bias": False})
                stack.add_module(str(number), TiedLinear(made[owner]))
            else:
                made[number] = self.make_layer(of)
                stack.add_module(str(number), made[number])
        with torch.no_grad():
            for name, parameter in self.names_in(stack):
                parameter.copy_(torch.from_numpy(self.weights[name]))
        return stack.to(self.device)

    def names_in(self, module):
        """(name in the specification, parameter) of what build() returned, each once; a tied weight by its first layer."""
        seen = set()
        for path, parameter in module.named_parameters():
            name = self.name_of(path)
            if name not in seen:
                seen.add(name)
                yield name, parameter

    def sum_tied_gradients(self):
        for name, group in self._tied_groups().items():
            if group is not None:
                torch.distributed.all_reduce(self.gradients()[name], group=group)

    def average_gradients(self, group):
        if torch.distributed.get_world_size(group) == 1:
            return
        for gradient in self.gradients().values():
            torch.distributed.all_reduce(gradient, group=group)
            gradient.div_(torch.distributed.get_world_size(group))

    def record_value(self, step, what, value, dim=None):
        """Records a tensor. A DTensor that is sharded over tensor ranks alone is recorded in parts, else as a whole."""
        if hasattr(value, "full_tensor"):
            value, dim = part_of_dtensor(value, ("tensor", "shard") if self.shard_size > 1 else ("tensor",))
        self.record(step, what if dim is None else f"{what}@{dim % value.dim()}", value.detach().float().cpu().clone().numpy())

    # ---- the run

    @classmethod
    def main(cls):
        """Trains as the environment says, and ends the process."""
        if "PLUMBLINE_JOB_SERVER" in os.environ:
            importlib.import_module("torch._dynamo")  # DistributedDataParallel and optimizers import it when they are made: once for all ranks
        serve()
        run = cls()
        run.check_declarations()
        if reason := run.what_is_lacking() or run.why_unsupported():
            unsupported(reason)  # before ranks meet: one that leaves makes those fail that still come
        torch.distributed.init_process_group(run.backend)
        run.train()
        run.write(cls.framework or cls.__name__, torch.__version__)
        torch.distributed.barrier()  # a rank that leaves while another still talks makes that one fail
        torch.distributed.destroy_process_group()
        # DistributedDataParallel keeps the threads of group and store (torch 2.13), and the interpreter's end may abort while they run.
        sys.stdout.flush()
        os._exit(0)

    def check_declarations(self):
        for what, known in (("axes", AXES), ("dtypes", DTYPES), ("schedules", SCHEDULES), ("layers", (*LAYERS, "tied_linear")), ("optimizers", OPTIMIZERS),
                            ("averaging", AVERAGING)):
            declared = getattr(self, what)
            if isinstance(declared, str):
                misuse(f"{type(self).__name__}.{what} = '{declared}': it must be a tuple of names")
            if what == "schedules":
                declared = self.schedules = tuple(SCHEDULES_OF_ADAPTERS.get(name, name) for name in declared)
            for name in declared:
                if name not in known:
                    misuse(f"{type(self).__name__}.{what} has '{name}': it must be one of {', '.join(known)}")
        known = [name for name, value in vars(TorchJob).items() if not name.startswith("_") and not callable(value)]
        for name, value in vars(type(self)).items():
            if not callable(value) and not hasattr(TorchJob, name):
                for meant in difflib.get_close_matches(name, known, 1, 0.85):
                    misuse(f"{type(self).__name__}.{name}: a program declares no such thing; did you mean {meant}?")

    def what_is_lacking(self):
        """What the run asks for that the program does not declare; nothing where it declares all."""
        run, model = self.spec["run"], self.spec["model"]
        for axis in AXES:
            if self.sizes[axis] > 1 and axis not in self.axes:
                return f"{self.sizes[axis]} {axis} ranks: this program is parallel along {' and '.join(self.axes) or 'no axis'} only"
        asked = [("dtype", run["dtype"], self.dtypes), ("optimizer", self.spec["optimizer"]["type"], self.optimizers)]
        if self.sizes["pipeline"] > 1:
            asked.append(("schedule", run["schedule"], self.schedules))
        asked += [("layer", layer["type"], self.layers) for layer in model["layer"]]
        for what, value, declared in asked:
            if value not in declared:
                return f"{what} {value}: this program has {', '.join(declared)}"
        if self.spec.get("inject") and not self.injects:
            return "values written into gradients: this program does not give access to them"
        return None

    def train(self):
        self._prepare()
        if self.first_step > 0:
            self.load(self.checkpoint_folder)
        for self.current in range(self.first_step, self.end_step):
            if self.current > self.first_step:
                self.between_steps()
            self._step(self.current)
        if self.end_step < self.steps:
            self.save(self.checkpoint_folder)

    def _prepare(self):
        self._groups, self._ties = {}, None
        self.masters = self.build()
        if not isinstance(self.masters, nn.Module):
            misuse(f"{type(self).__name__}.build() returned {type(self.masters).__name__}: it must be the module that trains")
        self._is_copied = self.dtype != torch.float32 and self.keeps_copies
        self.module = self.build().to(self.dtype) if self._is_copied else self.masters
        if self.frozen:
            self.freeze(self.module)
        self._hook_injections(self.module)
        if self.records_activations:
            self._watch_layers()
        self.model = self.wrap(self.module)
        if not callable(self.model):
            misuse(f"{type(self).__name__}.wrap() returned {type(self.model).__name__}: it must be what computes in the model's place")
        self.optimizer = self.make_optimizer(self.parameter_groups())
        self._stepped = []
        self.scheduler = self.make_scheduler(self.optimizer) if "lr_schedule" in self.spec else None
        self.optimizer.register_step_post_hook(lambda *_: self._stepped.append(True))
        settings = dict(self.spec.get("scaler", {}))
        settings.pop("kind", None)
        self.scaler = self.make_scaler(enabled="scaler" in self.spec, **settings)
        self.scaler.scale(torch.zeros(1, device=self.device))  # it has no scale before: a rank without the loss unscales, too

    def _watch_layers(self):
        for one in self.layers_in(self.module):
            if not (isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], int) and isinstance(one[1], nn.Module)):
                misuse(f"{type(self).__name__}.layers_in() gave {type(one).__name__}: it must give pairs of a layer's number and its module")
            one[1].register_forward_hook(functools.partial(self._note_output, one[0]))

    def _hook_injections(self, module):
        """A parameter's own hook runs before those of wrappers, which reduce its gradient."""
        if not self.spec.get("inject") or not self.reduces_in_backward:
            return
        for name, parameter in self.names_in(module):
            parameter.register_post_accumulate_grad_hook(functools.partial(self._inject_into, name))

    def _note_output(self, number, layer, inputs, out):
        is_recomputed = torch._C._current_graph_task_id() != -1  # in a backward pass, by activation checkpointing
        if self.part is None or is_recomputed:
            return
        step, place, dim = self.current, f"{number}/{self.part}", self.output_dim(number)
        self.record_value(step, f"activation/{place}", out, dim)
        if out.requires_grad:
            out.register_hook(functools.partial(self._note_gradient, step, f"activation_grad/{place}", dim))

    def _note_gradient(self, step, what, dim, gradient):
        scale = self.scaler.get_scale() if self.scaler.is_enabled() else 1
        self.record_value(step, what, gradient.detach().float() * (self.share_of_gradients() / scale), dim)

    def _inject_into(self, name, parameter):
        if self.is_last_part:
            self._inject("local", {name: parameter.grad})

    def _inject(self, moment, gradients):
        for name, index, value in self.injections(self.current, moment):
            if name in gradients:
                gradients[name].view(-1)[index] = value

    def _step(self, step):
        self._record_all(step, "before", lambda parameter: parameter)
        computing = [parameter for _, parameter in self.names_in(self.module)]
        masters = [parameter for _, parameter in self.named_parameters()]
        if self._is_copied:
            with torch.no_grad():
                for copy, master in zip(computing, masters):
                    copy.copy_(master)
        for parameter in [*computing, *masters]:
            parameter.grad = None
        with self.estimate():
            if self.pushes:
                self._record_all(step, "seen", lambda parameter: parameter)
            losses = self.forward_backward(step)
        self.part = None
        for parameter in computing:
            if parameter.grad is None and parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        if not self.reduces_in_backward:
            self._inject("local", self.gradients())
            self.reduce()
        self._finish_step(step, computing, masters)
        if self.has_last_stage:
            self.record(step, "loss", self.mean_loss(step, losses))

    def _finish_step(self, step, computing, masters):
        if self.injections(step, "reduced"):
            self._inject("reduced", self.gradients())
        if self._is_copied:
            for copy, master in zip(computing, masters):
                master.grad = copy.grad.float()
        if self.scaler.is_enabled():
            self.record(step, "scale", self.scaler.get_scale())
            self.scaler.unscale_(self.optimizer)
        if "clip" in self.spec:
            self.clip()
        for name, parameter in self.trained_parameters():
            self.record_value(step, f"grad/{name}", parameter.grad, self.shard_dim(name))
        self._stepped.clear()
        self.update()
        if self.scheduler is not None:
            self.step_scheduler()
        if self.scaler.is_enabled():
            self.record(step, "skipped", not self._stepped)
        if "averaging" in self.spec:
            self._record_all(step, "updated", lambda parameter: parameter)
            with torch.no_grad():
                self.average(step)
        if self.pushes:
            self.record(step, "weight", self.push_sum_weight)
        self._record_all(step, "after", lambda parameter: parameter)

    def _record_all(self, step, moment, value_of):
        for name, parameter in self.named_parameters():
            self.record_value(step, f"{moment}/{name}", value_of(parameter), self.shard_dim(name))

    def _group_of(self, all_ranks):
        """Of these sets of ranks, the group of the one with this rank. All ranks make all groups, in one order."""
        own = None
        for ranks in sorted(all_ranks):
            group = torch.distributed.new_group(list(ranks))
            if self.rank in ranks:
                own = group
        return own

    def _tied_groups(self):
        """By tied weight that this rank holds: the group of all ranks that hold it beside the same data and tensor ranks."""
        if self._ties is None:
            self._ties = {}
            for owner in sorted({layer["with"] for layer in self.spec["model"]["layer"] if layer["type"] == "tied_linear"}):
                stages = self.pipeline_ranks_of_tied(owner)
                if len(stages) > 1:
                    group = self._group_of({tuple(sorted(self.rank_at(rank, pipeline=at) for at in stages)) for rank in range(self.world)})
                    if self.place["pipeline"] in stages:
                        self._ties[f"{owner}.weight"] = group
        return self._ties


def whole_of(value):
    """A DTensor as the whole tensor; all ranks of its mesh call it."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def part_of_dtensor(value, axes):
    """(tensor, dimension of its part): this rank's part where one of these dimensions of the mesh shards the value, and no other does;
    else the whole value and None. All ranks of the mesh call it."""
    from torch.distributed.tensor import Shard
    names = value.device_mesh.mesh_dim_names or ()
    sharding = [(name, placement) for name, placement in zip(names, value.placements) if not placement.is_replicate()]
    if len(sharding) == 1 and sharding[0][0] in axes and isinstance(sharding[0][1], Shard):
        return value.to_local(), sharding[0][1].dim
    return value.full_tensor(), None
