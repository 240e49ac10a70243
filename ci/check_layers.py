#!/usr/bin/env python3
"""Fails when an include crosses the arrows reference <- harness <- {conformance, benchmarks}, a check includes a command, an
include brings a runtime where it does not belong, harness/ names a component outside of what shows and trains components, a
component has more than eight public headers, or a private one is included from outside.

usage: check_layers.py [ROOT]
"""
import re, sys
from collections import Counter
from pathlib import Path

ALLOWED = {
    "reference": {"reference"},
    "harness": {"reference", "harness"},
    "conformance": {"reference", "harness", "conformance"},
    "benchmarks": {"reference", "harness", "benchmarks"},
}
# A command may show what an oracle says; a check includes no command.
SHOWN = ("harness/cli/", re.compile(r"conformance/\w+/oracles/"))
COMMANDS = ("conformance/", "harness/cli/")
# Headers of a runtime, and the only places that may include them.
RUNTIMES = {
    r"(torch|ATen|c10|caffe2)/": ("reference/training/", "harness/trainer/", "harness/subject/c10d/", "benchmarks/anchors/"),
    r"mpi\.h": ("harness/subject/mpi/", "benchmarks/anchors/"),
    r"(nccl|cuda)\.h": ("harness/subject/nccl/", "reference/device/launch.cuh"),
    # Kernels, a file each: what is around them runs without a toolkit.
    r"cuda_(runtime|fp16|bf16)\.h": ("harness/subject/nccl/", "reference/device/", "reference/scaler/unscale_",
                                      "reference/slowmo/slow_step_", "reference/slowmo/sums_", "reference/gossip/mixing_"),
    r"gtest/|gmock/": ("harness/worker/", "harness/faults/", "conformance/"),
    r"benchmark/benchmark\.h": ("benchmarks/",),
    r"prometheus/": ("harness/metrics/",),
    r"CLI/": ("harness/cli/", "harness/worker/", "benchmarks/bench_", "benchmarks/gpu_kernels"),
}
# A component is a slice of reference/, conformance/ and benchmarks/. harness/ takes every one of them alike, so it names none...
COMPONENT = re.compile(r"reference/(bucketing|gossip|groups|program|scaler|schedules|slowmo|topology|training)/")
# ...but in the commands that show a component, or measure it, and in what trains a model.
SHOWS_COMPONENTS = re.compile(
    r"harness/(trainer/|cli/(bench|buckets|gossip|injection|layer_file|op_diff|pass|scaler|schedule|topology|train)"
    r"(_\w+)?\.[ch]pp$)")
# What names one still, with the reason. A row that is not needed any more is an error: this list only shrinks.
STILL_NAMED = {
    "harness/device/cuda_module.cpp": "compiles the kernels of the scaler and of SlowMo into one CUDA module",
    "harness/subject/averaging_json.hpp": "reads settings of training",
    "harness/worker/program_task.cpp": "trains a model that is given by names",
    "harness/worker/worker.cpp": "tells the training module which devices to use",
}
# Headers directly in reference/<component>/ are public, at most so many; those in its folders, detail/ and others, are private.
MOST_PUBLIC_HEADERS = 8
HEADER = re.compile(r"reference/(\w+)/\w+(?<!_test)\.(hpp|h|cuh|inc)$")
PRIVATE = re.compile(r"reference/(\w+)/\w+/")
# Who includes a private header none the less, by the component, with the reason. This list, too, only shrinks.
INSIDERS = {
    "harness/trainer/": ("training", "is compiled into the training module"),
    "benchmarks/anchors/reducer_step.cpp": ("training", "is a training program"),
    "benchmarks/pipeline_bubble.cpp": ("training", "takes the schedule of a training run"),
    "conformance/collectives/device_mutants.cpp": ("device", "puts wrong work in the place of a device's"),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
MOST_TORCH_FILES = 12


def main(root):
    problems, seen, torch, still_named, insiders, public = [], 0, 0, set(), set(), Counter()
    for layer, allowed in ALLOWED.items():
        for file in sorted((root / layer).rglob("*")):
            if file.suffix not in {".cpp", ".hpp", ".h", ".inc", ".cu", ".cuh"}:
                continue
            seen += 1
            name = file.relative_to(root).as_posix()
            header = HEADER.match(name)
            public[header[1] if header else None] += 1
            is_test = name.endswith(("_test.cpp", "_test.hpp"))
            includes = INCLUDE.findall(file.read_text(encoding="utf-8"))
            torch += "torch/torch.h" in includes
            for include in includes:
                if name.startswith("harness/") and COMPONENT.match(include) and not SHOWS_COMPONENTS.match(name):
                    row = next((row for row in STILL_NAMED if name.startswith(row)), None)
                    still_named.add(row)
                    if row is None:
                        problems.append(f"{name}: harness names no component, and {include} is of one")
                private = PRIVATE.match(include)
                if private and not name.startswith(f"reference/{private[1]}/"):
                    row = next((row for row, (component, _) in INSIDERS.items() if name.startswith(row) and component == private[1]), None)
                    insiders.add(row)
                    if row is None:
                        problems.append(f"{name}: {include} is private to reference/{private[1]}")
                if private and header and private[1] == header[1]:
                    problems.append(f"{name}: a public header includes {include}, which is private and not installed")
                target = include.split("/")[0]
                is_shown = name.startswith(SHOWN[0]) and SHOWN[1].match(include)
                is_command = name.startswith(COMMANDS[0]) and include.startswith(COMMANDS[1])
                if (target in ALLOWED and target not in allowed and not is_shown) or is_command:
                    problems.append(f"{name}: {layer} must not include {include}")
                for pattern, places in RUNTIMES.items():
                    if re.match(pattern, include) and not name.startswith(places) and not (is_test and pattern.startswith("gtest")):
                        problems.append(f"{name}: {include} belongs to {', '.join(places)}")
    problems += [f"{row} names no component any more; take it out of STILL_NAMED" for row in STILL_NAMED.keys() - still_named]
    problems += [f"{row} includes no private header any more; take it out of INSIDERS" for row in INSIDERS.keys() - insiders]
    problems += [f"reference/{component}: {count} public headers; at most {MOST_PUBLIC_HEADERS} may stand outside of detail/"
                 for component, count in public.items() if component and count > MOST_PUBLIC_HEADERS]
    if torch > MOST_TORCH_FILES:
        problems.append(f"{torch} files include torch/torch.h; at most {MOST_TORCH_FILES} may, it costs 17 s each")
    if seen == 0:
        problems.append(f"no source in {root}")
    print("\n".join(problems) or f"{seen} files keep to the layers")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent))
