#!/usr/bin/env python3
"""Fails when a wheel is not what it must be: its size, its files, what its programs and modules need of a machine.

usage: check_wheel.py [--symbols] FILE

--symbols asks only for what systems of the wheel's tag lack, of a wheel that has none yet.
"""
import json, re, subprocess, sys, tempfile, zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
MOST_BYTES = 40 << 20
# Of every Linux; and of the modules that are linked to their runtime.
SYSTEM = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
# The newest versions of symbols on the systems of the tag.
TAG = "manylinux_2_34"
NEWEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}
RUNTIMES = dict.fromkeys(("libplumbline_training.so", "libplumbline_c10d.so"), r"lib(torch\w*|c10\w*)\.so")
FILES = ["__init__.py", "__main__.py", "adapter.py", "job.py", "torch_job.py", "results/report/templates/report.html.j2", "bin/plumbline", "lib/plumbline/libplumbline_worker.so",
         "lib/plumbline/libplumbline_benchmarks.so", "lib/plumbline/libplumbline_nccl.so", "lib/plumbline/openmpi/libplumbline_mpi.so",
         "lib/plumbline/mpich/libplumbline_mpi.so",
         "lib/plumbline/libplumbline_training.so", "lib/plumbline/libplumbline_c10d.so", "lib/plumbline/libplumbline_plugin.so", "lib/cmake/plumbline/plumblineConfig.cmake", "lib/libplumbline_comm.a",
         "include/plumbline/reference/comm/communicator.hpp", "share/plumbline/schema/run.schema.json",
         "share/plumbline/vectors/collectives/ring_sum.json", "share/plumbline/samples/mpi/CMakeLists.txt",
         "share/plumbline/modules/CMakeLists.txt", "share/plumbline/modules/parts.cmake", "share/plumbline/modules/harness/trainer/module.cpp",
         "share/doc/plumbline/LICENSE", "share/doc/plumbline/README.md"]
LICENCES = "plumbline/share/doc/plumbline/licences/"


def version():
    """The one in CMakeLists.txt."""
    return re.search(r"^project\(plumbline VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text(), re.MULTILINE)[1]


def needed(file):
    words = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", words)


def newer_symbols(file):
    """What a program or module takes from libraries that systems of the tag do not have in that version, such as hypot@GLIBC_2.35."""
    words = subprocess.run(["readelf", "--dyn-syms", "--wide", file], capture_output=True, text=True, check=True).stdout
    found = re.findall(r" UND (\S+)@(GLIBC|GLIBCXX|CXXABI)_([\d.]+)", words)
    return [f"{name}@{library}_{version}" for name, library, version in found
            if tuple(map(int, version.split("."))) > NEWEST[library]]


def programs(archive, folder):
    """The name and the extracted file of each program and module."""
    for name in sorted(archive.namelist()):
        if name.endswith(".so") or name == "plumbline/bin/plumbline":
            yield name, Path(archive.extract(name, folder))


def problems_of_symbols(wheel):
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        for name, file in programs(archive, folder):
            for symbol in newer_symbols(file):
                yield f"{name} uses {symbol}, which {TAG} lacks"


def problems_of_licences(archive, names):
    """What is linked is said, each with its version and the text of its licence."""
    if LICENCES + "linked.json" not in names:
        yield "without licences/linked.json"
        return
    for one in json.loads(archive.read(LICENCES + "linked.json")):
        if not one["version"]:
            yield f"{one['name']} has no version in licences/linked.json"
        if not one["licence"].startswith("LicenseRef-") and not any(name.startswith(f"{LICENCES}{one['name']}/") for name in names):
            yield f"without the licence of {one['name']}"


def problems(wheel):
    if wheel.stat().st_size > MOST_BYTES:
        yield f"{wheel.stat().st_size} bytes; at most {MOST_BYTES} are wanted"
    if not wheel.name.startswith(f"plumbline_suite-{version()}-py3-none-manylinux"):
        yield f"named {wheel.name}; it is version {version()}, of any Python 3, on a manylinux"
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = set(archive.namelist())
        for name in FILES:
            if f"plumbline/{name}" not in names:
                yield f"without {name}"
        yield from problems_of_licences(archive, names)
        for name, file in programs(archive, folder):
            for library in needed(file):
                if library not in SYSTEM and not re.fullmatch(RUNTIMES.get(file.name, "$"), library):
                    yield f"{name} needs {library}"
            if b".debug_info" in file.read_bytes():
                yield f"{name} is not stripped"
            if str(SOURCE).encode() in file.read_bytes():
                yield f"{name} names {SOURCE}"
            if re.search(rb"_(GLOBAL__N|INTERNAL)__[0-9a-f]{8}_\d+_", file.read_bytes()):
                yield f"{name} has names that nvcc made of the folder: its sources have a namespace without a name"
    yield from problems_of_symbols(wheel)


def main(wheel, symbols_alone):
    found = list((problems_of_symbols if symbols_alone else problems)(wheel))
    for problem in found:
        print(f"{wheel.name}: {problem}", file=sys.stderr)
    if not found:
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, as it must be")
    return 1 if found else 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    symbols_alone = arguments[:1] == ["--symbols"]
    arguments = arguments[symbols_alone:]
    if len(arguments) != 1 or not Path(arguments[0]).is_file():
        print(f"check_wheel.py: {' '.join(arguments) or 'nothing'}: it is the file of a wheel", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(Path(arguments[0]), symbols_alone))
