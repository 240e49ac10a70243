"""What the adapters of this folder share. Import it before the framework: from then on only replies go to standard output."""
import sys
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "harness" / "subject" / "adapter" / "python"))
from plumbline_adapter import KINDS, AdapterError, serve  # noqa: F401, for the adapters

warnings.filterwarnings("ignore")
# These frameworks reject bad values by RuntimeError, too: TORCH_CHECK, and `raise RuntimeError` in Python.
KINDS[RuntimeError] = "invalid_argument"


def number(value):
    """A float of a question, where "inf", "-inf" and "nan" are texts."""
    return float(value) if isinstance(value, str) else value


def at_most(limit, value, why):
    if value > limit:
        raise AdapterError("out_of_range", f"{value} is more than {limit}: {why}")


def error_of(error):
    return {"type": type(error).__name__, "message": str(error)}


def scaler_trace(dynamic, constant_class, trackers):
    """scaler.trace of ColossalAI and of Megatron-core, whose scalers differ in the names of their fields alone."""
    def trace(init, found_inf, constant=None):
        constant = set(init) == {"initial_scale"} if constant is None else constant
        scaler = (constant_class if constant else dynamic)(**{name: number(value) for name, value in init.items()})
        rows = []
        for found in [None, *found_inf]:
            if found is not None:
                scaler.update(found)
            rows.append({"scale": scaler.scale.item(), "inv_scale": scaler.inv_scale.item(), **({} if constant else trackers(scaler))})
        state = {name: value.item() if hasattr(value, "item") else value for name, value in scaler.state_dict().items()}
        return {"trace": rows, "state_dict": state}
    return trace
