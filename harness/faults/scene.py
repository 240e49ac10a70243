"""A place of its own for one run of Plumbline that meets a fault: its folders, its processes, and what is left of both.

Everything that a scene starts carries a marker in its environment, and writes into folders of the scene. In namespaces of
its own (`enter_namespaces`) a scene also sees what took the marker off, and shared memory and sockets that nobody else has.
"""
import glob
import importlib.util
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
OF_LAUNCHERS = ("OMPI_", "PMI", "SLURM_", "TORCHELASTIC_", "MASTER_", "RANK", "WORLD_SIZE")
NAMESPACES = "PLUMBLINE_FAULTS_NAMESPACES"
MOUNTS = "mount --make-rprivate / && mount -t tmpfs none /dev/shm"  # what the first process of the namespaces begins with
SECONDS_TO_VANISH = 8


def module_at(path):
    """A Python file of the checkout that lies in no package."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def namespaces_command():
    """What a command is put after to run where mounts, network, shared memory and processes are its own; nothing where that cannot be done."""
    unshare = ["unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if os.geteuid() != 0 or not shutil.which("unshare") or subprocess.run([*unshare, "sh", "-c", MOUNTS], stderr=subprocess.DEVNULL).returncode != 0:
        return None
    return [*unshare, "sh", "-c", f'{MOUNTS} || exit 3; ip link set lo up; "$@"; exit $?', "sh"]


def enter_namespaces():
    """Starts this program again in namespaces of its own; returns where that cannot be done."""
    command = None if has_namespaces() else namespaces_command()
    if not command:
        return
    os.environ[NAMESPACES] = "1"
    sys.stdout.flush()
    os.execvp(command[0], [*command, sys.executable, "-B", *sys.argv])


def has_namespaces():
    """Whether processes, and so all else, are this program's own: a variable that somebody set is not enough to kill them all."""
    return NAMESPACES in os.environ and MOUNTS.encode() in Path("/proc/1/cmdline").read_bytes()


@dataclass
class Seen:
    """How a command ended."""
    status: int
    seconds: float
    output: str


class Scene:
    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="pf."))
        self.out, self.scratch, self.temporary = self.folder / "out", self.folder / "s", self.folder / "t"
        self.scratch.mkdir()
        self.temporary.mkdir()
        self.marker = f"PLUMBLINE_FAULTS_SCENE={self.folder}"
        self.mounts, self.started, self.before = [], [], self.shared_memory()
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(OF_LAUNCHERS) and name != NAMESPACES}
        self.environment |= {"PLUMBLINE_FAULTS_SCENE": str(self.folder), "PLUMBLINE_TMPDIR": str(self.scratch), "TMPDIR": str(self.temporary),
                             "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    # ---- commands ----

    def start(self, command, **environment):
        log = open(self.folder / f"log{len(self.started)}", "wb")
        process = subprocess.Popen([str(word) for word in command], cwd=self.folder, env=self.environment | environment, stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=subprocess.STDOUT)
        process.log, process.begin = log.name, time.monotonic()
        log.close()
        self.started.append(process)
        return process

    def finish(self, process, limit):
        """Waits for its end; after `limit` seconds it is killed, and its status is None."""
        try:
            status = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = None
        return Seen(status, time.monotonic() - process.begin, Path(process.log).read_text(errors="replace"))

    def run(self, command, limit, **environment):
        return self.finish(self.start(command, **environment), limit)

    def until(self, condition, limit=120):
        """What `condition` returns once it is true; raises where that takes too long."""
        end = time.monotonic() + limit
        while not (found := condition()):
            if time.monotonic() > end:
                raise TimeoutError("the fault could not be planted: the run did not come to the place for it")
            time.sleep(0.02)
        return found

    def until_case(self, number=1):
        """Until a driver has handed out its n-th case."""
        return self.until(lambda: any(int(Path(one).name[3:]) >= number for one in glob.glob(f"{self.scratch}/*/g*/run*")))

    # ---- processes ----

    def processes(self):
        """Ids of the living processes of this scene."""
        found = []
        for folder in glob.glob("/proc/[0-9]*"):
            pid = int(folder.split("/")[2])
            if not has_namespaces() and not self.is_marked(folder):
                continue
            if pid not in (1, os.getpid()) and state_of(pid) not in ("", "Z"):
                found.append(pid)
        return found

    def is_marked(self, folder):
        try:
            return self.marker.encode() in Path(folder, "environ").read_bytes().split(b"\0")
        except OSError:
            return False

    def workers(self, driver):
        """Ranks' processes on this host, in the order of their ids."""
        return sorted(pid for pid in self.processes() if pid != driver.pid and is_rank(pid))

    # ---- what is left ----

    def shared_memory(self):
        return set(os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else [])

    def sockets(self):
        """Listening TCP sockets and bound ones of files, where the network is ours alone."""
        if not has_namespaces():
            return []
        rows = [line.split() for file in ("tcp", "tcp6") for line in Path("/proc/net", file).read_text().splitlines()[1:]]
        listening = [f"listens on {row[1]}" for row in rows if row[3] == "0A"]
        return listening + [row[7] for row in (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]) if len(row) > 7]

    def left_now(self):
        left = [f"process {pid} ({command_of(pid).replace(bytes(1), b' ').decode(errors='replace')[:60]})" for pid in self.processes()]
        left += [f"shared memory {name}" for name in sorted(self.shared_memory() - self.before)] if has_namespaces() else []
        left += [f"scratch {name}" for name in sorted(os.listdir(self.scratch))] + [f"temporary {name}" for name in sorted(os.listdir(self.temporary))]
        left += [f"socket {name}" for name in self.sockets()]
        return left + [f"out/{name}" for name in sorted(os.listdir(self.out) if self.out.exists() else []) if name.startswith(".control") or name.endswith(".new")]

    def left(self, limit=SECONDS_TO_VANISH, but=None):
        """What the run has left behind, once it had its time to vanish, without what begins with one of `but`."""
        end = time.monotonic() + limit
        while (found := [one for one in self.left_now() if not but or not one.startswith(but)]) and time.monotonic() < end:
            time.sleep(0.05)
        return found

    # ---- the record ----

    def lines(self):
        file = self.out / "run.jsonl"
        text = file.read_text() if file.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def results(self):
        """The last result of each case."""
        return {line["case"]: line for line in self.lines() if line["type"] == "result" and line.get("role") != "control"}

    def problems_of_record(self):
        """What is wrong with run.jsonl and junit.xml. A last line without an end is a write that was cut off: readers leave it out."""
        missing = [f"there is no {name}" for name in ("run.jsonl", "junit.xml") if not (self.out / name).exists()]
        if missing:
            return missing
        words = io.StringIO()
        with redirect_stdout(words), redirect_stderr(words):
            text = (self.out / "run.jsonl").read_bytes()
            whole = self.folder / "whole.jsonl"
            whole.write_bytes(text[:text.rfind(b"\n") + 1])
            bad = module_at("results/schema/validate_record.py").main([str(whole)]) or module_at("ci/check_junit.py").main([str(self.out / "junit.xml")])
        return words.getvalue().strip().splitlines()[-1:] if bad else []

    # ---- the machine ----

    def mount(self, folder, options):
        """A small file system over a folder, of the size or the number of files in `options`."""
        folder.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)
        self.mounts.append(folder)

    def enlarge(self, folder):
        subprocess.run(["mount", "-o", "remount,size=64m,nr_inodes=10000", folder], check=True)

    def close(self):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        for process in self.started:
            process.kill()
            process.wait()
        for folder in self.mounts:
            subprocess.run(["umount", "-l", folder])
        for name in self.shared_memory() - self.before if has_namespaces() else ():
            shutil.rmtree(Path("/dev/shm", name), ignore_errors=True)
            Path("/dev/shm", name).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def is_rank(pid):
    """Whether a driver has started it as a rank: no launcher."""
    try:
        started = b"\0PLUMBLINE_CONTROL=" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    program = command_of(pid).split(b"\0")[0]
    return started and not program.endswith((b"mpirun", b"mpiexec", b"orted", b"mpirun.openmpi", b"sh"))


def state_of(pid):
    """The letter of /proc: R, S, T, Z; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def children_of(pid):
    found = []
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            fields = Path(stat).read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.split("/")[2]))
    return found


def control_port(pid):
    """Where a driver listens."""
    inodes = set()
    for descriptor in glob.glob(f"/proc/{pid}/fd/*"):
        try:
            target = os.readlink(descriptor)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            return int(fields[1].split(":")[1], 16)
    return 0


def stranger(port):
    return socket.create_connection(("127.0.0.1", port), timeout=5)
