"""Plumbline: conformance and benchmark suite for the building blocks of distributed training.

plumbline.adapter  makes an adapter of a dictionary of functions
plumbline.job      what a training program needs to be judged (numpy; Python 3.11)
plumbline.torch_job  a runner for programs in PyTorch, which write the lines that are their own
plumbline.results  reads, compares, keeps and shows records (scipy, jinja2)
"""


def __getattr__(name):
    # Not at import: the command would wait for it.
    if name == "__version__":
        from importlib.metadata import version
        return version("plumbline-suite")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
