"""What the adapters of this folder share. Import it before the framework: from then on only replies go to standard output."""
import functools
import sys
import traceback
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "harness" / "subject" / "adapter" / "python"))
import plumbline_adapter
from plumbline_adapter import KINDS, AdapterError

warnings.filterwarnings("ignore")
# These frameworks reject bad values by RuntimeError, too: TORCH_CHECK, and `raise RuntimeError` in Python.
KINDS[RuntimeError] = "invalid_argument"


def number(value):
    """A float of a question, where "inf", "-inf" and "nan" are texts."""
    return float(value) if isinstance(value, str) else value


HERE = Path(__file__).resolve().parents[1]


def no_answer(why):
    """Ends a question that cannot be passed on, or has no answer: no check takes `unsupported` for a framework's refusal."""
    raise AdapterError("unsupported", why)


def at_most(limit, value, why):
    if value > limit:
        no_answer(f"{value} is more than {limit}: {why}")


def asked(function, *args, **kwargs):
    """Calls what is the framework's own: it may reject its arguments before a line of Python of it runs."""
    return function(*args, **kwargs)


def is_own(error):
    """Whether a line of an adapter raised it, which says nothing of the framework."""
    own = True
    for frame, _ in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        if frame.f_code is asked.__code__ or {"site-packages", "dist-packages"} & {*file.parts}:
            own = False
        elif HERE in file.resolve().parents:
            own = True
    return own


def kind_of(error):
    if isinstance(error, AdapterError):
        return error.kind
    return "unsupported" if is_own(error) else next((KINDS[one] for one in type(error).__mro__ if one in KINDS), "failed")


def answering(operation):
    """An operation whose refusals are the framework's: an error of the adapter itself is `unsupported`."""
    @functools.wraps(operation)
    def answer(*args, **kwargs):
        try:
            return operation(*args, **kwargs)
        except AdapterError:
            raise
        except Exception as error:
            raise AdapterError(kind_of(error), str(error) or repr(error)) from error
    return answer


def serve(name, version, operations, **claims):
    plumbline_adapter.serve(name, version, {op: answering(one) for op, one in operations.items()}, **claims)


def error_of(error):
    return {"type": type(error).__name__, "message": str(error)}


def scaler_trace(dynamic, constant_class, trackers):
    """scaler.trace of ColossalAI and of Megatron-core, whose scalers differ in the names of their fields alone."""
    def trace(init, found_inf, constant=None):
        constant = set(init) == {"initial_scale"} if constant is None else constant
        scaler = asked(constant_class if constant else dynamic, **{name: number(value) for name, value in init.items()})
        rows = []
        for found in [None, *found_inf]:
            if found is not None:
                scaler.update(found)
            rows.append({"scale": scaler.scale.item(), "inv_scale": scaler.inv_scale.item(), **({} if constant else trackers(scaler))})
        state = {name: value.item() if hasattr(value, "item") else value for name, value in scaler.state_dict().items()}
        return {"trace": rows, "state_dict": state}
    return trace
