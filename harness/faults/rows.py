"""The rows of the fault table: what is done to a run through which door, and how the run must end.

A row acts on a Scene and returns what it saw; `judge` compares that with what the row expects.
"""
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from scene import ROOT, Seen, children_of, command_of, control_port, has_namespaces, is_rank, module_at, state_of, stranger

BACKENDS = ("local", "mpi", "plugin", "c10d:gloo")
DOORS = (*BACKENDS, "adapter", "job")
NEXT = "faults.z_pass[where=one,world=3]"  # of a run that goes on after the fault
FAKETIME = "/usr/lib/*/faketime/libfaketimeMT.so.1"


class Skip(Exception):
    """A row that cannot run here, with the reason."""


@dataclass
class Expect:
    verdicts: dict = field(default_factory=dict)  # case: verdict; of every result
    status: tuple = (1,)
    says: str = ""       # found in the reason or the output of the first case, or in what is printed
    limit: float = 30    # seconds
    complete: bool = True  # the record's last line says so
    reports: bool = True   # run.jsonl and junit.xml are there and valid


@dataclass
class Row:
    fault: str
    door: str
    act: object  # of (scene, build): what was Seen
    expect: Expect

    @property
    def name(self):
        return f"{self.fault}/{self.door}"


@dataclass
class Build:
    """What is run, and which Python has torch."""
    folder: Path
    python: str

    @property
    def plumbline(self):
        return self.folder / "bin" / "plumbline"

    @property
    def misbehaving(self):
        return self.folder / "tests" / "plumbline_faults"

    def backend(self, door):
        return f"plugin:{self.folder}/tests/libunix_sockets.so" if door == "plugin" else door

    def why_not(self, door):
        """Why a door is closed here, or nothing."""
        needs = [self.misbehaving if door in BACKENDS and door != "c10d:gloo" else self.plumbline]
        needs += [self.folder / "tests/libunix_sockets.so"] if door == "plugin" else []
        missing = [str(one) for one in needs if not one.exists()]
        if missing:
            return f"there is no {missing[0]}"
        if door == "mpi" and not (shutil.which("mpirun") and list(self.folder.glob("lib/plumbline/*/libplumbline_mpi.so"))):
            return "no MPI here"
        if door == "c10d:gloo" and not (list(self.folder.glob("lib/plumbline/**/libplumbline_c10d*")) and self.has_torch()):
            return "no torch here"
        if door == "job" and not list(self.folder.glob("lib/plumbline/**/libplumbline_training*")):
            return "the program cannot train: built without LibTorch"
        return ""

    def has_torch(self):
        return subprocess.run([self.python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0


# ---- commands ----

C10D_CASES = ("--filter", "COLL-001", "--world-size", "2,3", "--repeat", "10")


def check(scene, build, door, *filters, options=()):
    """A check of the misbehaving program over a backend. Ranks of c10d are Pythons, in which only the product's checks run."""
    if door == "c10d:gloo":
        return [build.plumbline, "check", "--backend", door, "--no-control", "--out", scene.out, *C10D_CASES, *options]
    command = [build.misbehaving, "check", "--backend", build.backend(door), "--no-control", "--out", scene.out, *options]
    return command + [word for one in filters for word in ("--filter", one)]


def check_adapter(scene, build, fault, options=()):
    adapter = f"{shlex.quote(sys.executable)} -B {shlex.quote(str(ROOT / 'harness/faults/faulty_adapter.py'))} {fault}"
    return [build.plumbline, "check", "--adapter", adapter, "--no-control", "--out", scene.out, "--filter", ADAPTER_CASES, *options]


ADAPTER_CASES = "collectives.adapter.ring_sum*"


def reference(build):
    return f"{build.plumbline} train --spec $PLUMBLINE_SPEC --record $PLUMBLINE_RECORD --backend local --no-judge"


def check_job(scene, build, job, *, launches_ranks=False, options=()):
    command = [build.plumbline, "check", "--profile", "data-parallel", "--job", job, "--no-control", "--out", scene.out, "--filter",
               "*[model=mlp,optimizer=sgd,*,world=2]", *options]
    return command + (["--job-launches-ranks"] if launches_ranks else [])


def torch_python(build):
    return {"PLUMBLINE_PYTHON": build.python}


def plain(door, *filters, options=(), limit=60):
    """A run whose checks make the fault themselves."""
    return lambda scene, build: scene.run(check(scene, build, door, *filters, options=options), limit, **torch_python(build))


# ---- faults of ranks ----

def after_begin(door, act, *filters, options=("--time-limit", "30"), limit=180, case=1):
    """A run to whose first case `act(scene, driver)` happens."""
    def whole(scene, build):
        driver = scene.start(check(scene, build, door, *filters, options=options), **torch_python(build))
        scene.until_case(case)
        act(scene, driver)
        return scene.finish(driver, limit)
    return whole


def stop_and_continue(scene, driver):
    victim = scene.until(lambda: scene.workers(driver))[-1]
    os.kill(victim, signal.SIGSTOP)
    scene.until(lambda: state_of(victim) == "T")
    time.sleep(1)
    os.kill(victim, signal.SIGCONT)


def in_control_group(door, megabytes):
    """The run in a group of processes that has so much memory."""
    def act(scene, build):
        top = Path("/sys/fs/cgroup")
        group, name = (top / "memory", "memory.limit_in_bytes") if (top / "memory").exists() else (top, "memory.max")
        group = group / f"plumbline-{scene.folder.name}"
        try:
            group.mkdir()
            (group / name).write_text(str(megabytes << 20))
        except OSError as error:
            raise Skip(f"no control group of memory can be made: {error.strerror}") from None
        try:
            enter = f'echo $$ > {shlex.quote(str(group / "cgroup.procs"))} && exec "$@"'
            command = check(scene, build, door, "faults.eats_memory[world=2]", NEXT, options=("--time-limit", "20"))
            return scene.run(["sh", "-c", enter, "sh", *command], 90, **torch_python(build))
        finally:
            scene.until(lambda: not (group / "cgroup.procs").read_text().split())
            group.rmdir()
    return act


def hit_a_rank(number):
    """Sends a signal to the last rank."""
    return lambda scene, driver: os.kill(scene.until(lambda: scene.workers(driver))[-1], number)


def c10d_rows():
    """From outside alone; what broke one case passes when it is tried again."""
    door = "c10d:gloo"
    once = {"*": ("pass", "flake")}
    yield Row("killed while cases run", door, after_begin(door, hit_a_rank(signal.SIGKILL)), Expect(once, (1,), "killed by signal 9", 120))
    yield Row("stopped", door, after_begin(door, hit_a_rank(signal.SIGSTOP), options=("--time-limit", "3")), Expect(once, (1,), "stopped", 120))
    yield Row("stopped and continued", door, after_begin(door, stop_and_continue, options=("--time-limit", "20")), Expect({"*": "pass"}, (0,), "", 120))


def ranks_rows():
    for door in BACKENDS[:-1]:
        who = "process of rank" if door == "local" else "rank (1|2)"  # all ranks of local are threads of one process
        def row(fault, case, verdict, says, limit, act=None, **more):
            options = ("--time-limit", more.pop("seconds", "30"))
            verdicts = {case: verdict, NEXT: "pass"}
            expect = Expect(verdicts, status=(0,) if verdict == "pass" else (1,), says=says, limit=limit, **more)
            return Row(fault, door, act or plain(door, case, NEXT, options=options, limit=limit + 30), expect)
        yield row("killed before a collective", "faults.kill[where=one,world=3]", "crash", who, 30)
        yield row("killed inside a collective", "faults.killed_inside[world=2]", "crash", who, 40)
        yield row("killed after a collective", "faults.killed_after[world=2]", "crash", who, 40)
        yield row("stopped", "faults.stop[where=one,world=3]", "hang", "stopped", 60, seconds="1")
        yield row("stopped and continued", "faults.slow_but_calls[world=2]", "pass", "", 60,
                  act=after_begin(door, stop_and_continue, "faults.slow_but_calls[world=2]", NEXT))
        yield row("slowed 1,000 times", "faults.slowed[world=2]", "pass", "", 60)
        yield row("out of address space", "faults.eats_address_space[world=2]", ("fail", "crash"), "rank 1|process of rank", 60)
        yield row("out of memory, control group", "faults.eats_memory[world=2]", "crash", "ignal 9", 90, act=in_control_group(door, 2048))

# ---- faults of the driver and its machine ----

def patience(door):
    """How long a run may take that goes through. Ranks of c10d import torch at each start."""
    return 150 if door == "c10d:gloo" else 60


def within(door):
    """One that is cut off and resumed."""
    return 2 * patience(door) + 30


def resumed(scene, build, first, command, limit):
    """Goes on with a run that was cut off, and says so where results were lost. An `error` of the machine may become a pass."""
    had = {case: result["verdict"] for case, result in scene.results().items() if result["verdict"] != "error"}
    begun = bool(scene.lines())
    problems = scene.problems_of_record() if (scene.out / "run.jsonl").exists() else []
    again = scene.run([*command, "--resume"] if begun else command, limit, **torch_python(build))
    lost = [case for case, verdict in had.items() if scene.results().get(case, {}).get("verdict") != verdict]
    words = f"{first.output}\nfirst status {first.status} after {first.seconds:.0f} s\n"
    words += "".join(f"LOST {case}\n" for case in lost) + "".join(f"INVALID before the second run: {one}\n" for one in problems)
    return Seen(again.status, first.seconds + again.seconds, words + again.output)


PASSES = ("faults.a_pass*", "faults.z_pass*")
ALL_PASS = {f"faults.{name}[where={where},world={world}]": "pass" for name in ("a_pass", "z_pass") for where in ("one", "all") for world in (1, 3)}


def without_descriptors(door):
    """The driver has no descriptor left once its first case runs."""
    def act(scene, build):
        command = check(scene, build, door, "faults.slow_but_calls[world=2]", *PASSES)
        driver = scene.start(command, **torch_python(build))
        scene.until_case()
        used = len(os.listdir(f"/proc/{driver.pid}/fd"))
        resource.prlimit(driver.pid, resource.RLIMIT_NOFILE, (used, used))
        return resumed(scene, build, scene.finish(driver, patience(door)), command, patience(door))
    return act


def needs_mounts():
    if not has_namespaces():
        raise Skip("a small file system needs the superuser and a namespace of mounts")


def small_output(door, options, *filters):
    """The folder of --out is full during the run; then it is enlarged, and the run resumed."""
    def act(scene, build):
        needs_mounts()
        scene.mount(scene.out, options)
        command = check(scene, build, door, *filters)
        first = scene.run(command, patience(door), **torch_python(build))
        scene.enlarge(scene.out)
        return resumed(scene, build, first, command, patience(door))
    return act


def small_scratch(door, options):
    def act(scene, build):
        needs_mounts()
        scene.mount(scene.scratch, options)
        command = check(scene, build, door, *PASSES)
        first = scene.run(command, patience(door), **torch_python(build))
        scene.enlarge(scene.scratch)
        return resumed(scene, build, first, command, patience(door))
    return act


def clock_jumps(door, seconds):
    """The clock of all processes jumps during a case."""
    def act(scene, build):
        libraries = list(Path("/").glob(FAKETIME[1:]))
        if not libraries:
            raise Skip("no libfaketime; apt-get install faketime")
        now = scene.folder / "clock"
        now.write_text("+0")
        driver = scene.start(check(scene, build, door, "faults.slow_but_calls[world=2]", NEXT), LD_PRELOAD=str(libraries[0]), FAKETIME_NO_CACHE="1",
                             FAKETIME_TIMESTAMP_FILE=str(now), FAKETIME_DONT_FAKE_MONOTONIC="1", DONT_FAKE_MONOTONIC="1", **torch_python(build))
        scene.until_case()
        time.sleep(0.5)
        now.write_text(f"{seconds:+d}")
        seen = scene.finish(driver, patience(door) + 30)
        odd = [case for case, result in scene.results().items() if not 0 <= result["seconds"] < 60]
        return Seen(seen.status, seen.seconds, seen.output + "".join(f"LOST the time of {case}\n" for case in odd))
    return act


def left_by_the_killed(scene):
    """What a driver that was killed leaves. Its scratch folder and a record without results are the next run's to remove."""
    return scene.left(but=("scratch plumbline-", "out/run.jsonl.new"))


def kill_driver(door):
    def act(scene, build):
        command = check(scene, build, door, "faults.slow_but_calls[world=2]", *PASSES)
        driver = scene.start(command, **torch_python(build))
        scene.until_case(2)
        driver.kill()
        first = scene.finish(driver, 30)
        left = left_by_the_killed(scene)
        again = resumed(scene, build, first, command, patience(door))
        return Seen(again.status, again.seconds, again.output + "".join(f"LEFT by the first run: {one}\n" for one in left))
    return act


def kill_launcher(scene, driver):
    launchers = [pid for pid in children_of(driver.pid) if b"mpirun" in command_of(pid).split(b"\0")[0]]
    os.kill(launchers[0], signal.SIGKILL)


def machine_rows():
    noise = {"faults.many_failures[where=one,world=1]": "fail", "faults.noise[where=one,world=1]": "fail"}
    for door in BACKENDS:
        is_c10d = door == "c10d:gloo"
        slow = {"*": "pass"} if is_c10d else {"faults.slow_but_calls[world=2]": "pass"}
        every, one = (slow, slow) if is_c10d else (ALL_PASS, slow | {NEXT: "pass"})
        full = Expect(every, (0,)) if is_c10d else Expect(every | noise, (1,))
        yield Row("driver out of descriptors", door, without_descriptors(door), Expect(slow | every, (0,), "first status 3", within(door)))
        yield Row("disk of the record full", door, small_output(door, "size=64k", *PASSES, *noise),
                  Expect(full.verdicts, full.status, "cannot write.*run.jsonl", within(door)))
        yield Row("no inodes for the record", door, small_output(door, "nr_inodes=3", *PASSES), Expect(every, (0,), "first status 3", within(door)))
        yield Row("scratch disk full", door, small_scratch(door, "size=64k"), Expect(every, (0,), "first status 3", within(door)))
        yield Row("no inodes for scratch files", door, small_scratch(door, "nr_inodes=5"), Expect(every, (0,), "first status 3", within(door)))
        for name, seconds in (("a day on", 86400), ("a day back", -86400)):
            yield Row(f"clock jumps {name}", door, clock_jumps(door, seconds), Expect(one, (0,), "", 120))
        yield Row("driver killed", door, kill_driver(door), Expect(slow | every, (0,), "first status -9", within(door)))
    yield Row("launcher killed", "mpi", after_begin("mpi", kill_launcher, "faults.slow_but_calls[world=2]", NEXT),
              Expect({"faults.slow_but_calls[world=2]": "flake", NEXT: "pass"}, (1,), "launcher, which was killed by signal 9", 60))


# ---- the control channel ----

def wrong_token(port):
    with stranger(port) as one:
        one.sendall(b'{"type":"hello","token":"' + b"0" * 32 + b'"}\n')
        if one.recv(10):
            raise AssertionError("a wrong token was answered")


def garbage(port):
    for junk in (b"\xff\xfe\n", b"[" * 100_000, b'{"type":"hello","token":7}\n', b"x" * 1_000_000):
        with stranger(port) as one:
            try:
                one.sendall(junk)
                one.settimeout(5)
                one.recv(10)
            except ConnectionError:
                pass


def slow_writer(port):
    with stranger(port) as one:
        for byte in b'{"type":"hello",':
            one.sendall(bytes([byte]))
            time.sleep(0.1)


def flood(port):
    """300 connections, and 20 MB through one of them."""
    crowd = [stranger(port) for _ in range(300)]
    try:
        for _ in range(100):
            crowd[0].sendall(b"{}\n" * 60_000)
    except ConnectionError:
        pass  # dropped
    for one in crowd:
        one.close()


def attacked(door, attack):
    def act(scene, driver):
        before = resident(driver.pid)
        attack(scene.until(lambda: control_port(driver.pid)))
        if driver.poll() is None and resident(driver.pid) > before + (50 << 10):
            raise AssertionError(f"the driver grew to {resident(driver.pid)} KiB")
    return after_begin(door, act, "faults.slow_but_calls[world=2]", NEXT)


def resident(pid):
    try:
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()).group(1))
    except (OSError, AttributeError):
        return 0


def control_rows():
    for door in BACKENDS:
        for name, attack in (("wrong token", wrong_token), ("garbage", garbage), ("slow writer", slow_writer), ("flood", flood)):
            yield Row(f"control channel: {name}", door, attacked(door, attack),
                      Expect({"*": "pass"}, (0,), "control channel: dropped a connection", 120))


# ---- two hosts ----

def on_two_hosts(door, act, case, options=("--time-limit", "5"), limit=150):
    """A rank on each of two hosts, which are namespaces; `act(hosts)` happens once the case runs."""
    def whole(scene, build):
        if not has_namespaces() or not shutil.which("nsenter"):
            raise Skip("namespaces of the network need the superuser")
        sys.path.insert(0, str(ROOT / "harness/launch"))
        hosts_test = module_at("harness/launch/hosts_test.py")
        hosts_test.MODULES, hosts_test.PYTHON = build.folder / "lib/plumbline", build.python
        try:
            hosts_test.Hosts.setUpClass()
        except hosts_test.unittest.SkipTest as reason:
            hosts_test.Hosts.doClassCleanups()
            raise Skip(str(reason)) from None
        try:
            return run_on_hosts(scene, build, hosts_test.Hosts("test_an_mpi_launcher_places_ranks_that_it_started_itself"), door, act, case, options, limit)
        finally:
            hosts_test.Hosts.doClassCleanups()
    return whole


def run_on_hosts(scene, build, test, door, act, case, options, limit):
    test.setUp()
    first, second = test.hosts
    command = check(scene, build, door, case, options=[*options, "--control-address", first.address])
    variables = test.needs_gloo() if door != "mpi" else {}
    if door == "mpi":
        program, words = test.needs_mpi()[0]
        started = [scene.start(first.command(*test.mpirun(program, words), *map(str, command)))]
    else:
        variables |= {"MASTER_ADDR": first.address, "MASTER_PORT": "29544", "WORLD_SIZE": "2"}
        started = [scene.start(host.command(*map(str, command)), RANK=str(rank), **variables) for rank, host in enumerate(test.hosts)]
    scene.until_case()
    time.sleep(0.5)
    act(first, second)
    left = living_ranks(scene, build, limit)
    seconds = time.monotonic() - started[0].begin
    seen = [scene.finish(process, 10) for process in started]
    for host in test.hosts:
        end_all_of(host)  # a launcher waits for its part on the host that is gone
    for folder in scene.temporary.glob("ompi.*"):
        shutil.rmtree(folder)  # of the mpirun that was killed here
    test.doCleanups()
    words = seen[0].output + "".join(f"LEFT on a host that nobody reaches: {command_of(pid)}\n" for pid in left)
    return Seen(LAUNCHER_WAITS if seen[0].status is None else seen[0].status, seconds, words)


LAUNCHER_WAITS = -1


def end_all_of(host):
    """Kills every process on it but the one that keeps it."""
    space = os.readlink(f"/proc/{host.keeper.pid}/ns/net")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "ns/net") == space and int(folder.name) != host.keeper.pid:
                os.kill(int(folder.name), signal.SIGKILL)
        except OSError:
            pass


def living_ranks(scene, build, limit):
    """Our processes on both hosts, once they had `limit` seconds to notice that nobody reaches them."""
    end, names = time.monotonic() + limit, (build.misbehaving.name.encode(), build.plumbline.name.encode())
    while (found := [pid for pid in scene.processes() if command_of(pid).split(b"\0")[0].endswith(names) or is_rank(pid)]) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def cut(first, second):
    subprocess.run(second.command("ip", "link", "set", "plumb0", "down"), check=True)


def cut_for_a_second(first, second):
    cut(first, second)
    time.sleep(1)
    subprocess.run(second.command("ip", "link", "set", "plumb0", "up"), check=True)


def slow_link(first, second):
    # A burst holds a packet of 1,514 bytes: one of less lets no such packet pass, and is a cut.
    done = subprocess.run(second.command("tc", "qdisc", "add", "dev", "plumb0", "root", "tbf", "rate", "1mbit", "burst", "16kbit", "latency", "800ms"),
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise Skip(f"no slow link: tc: {done.stderr.strip()}")


def host_gone(first, second):
    """All of its processes, at once, after its link was cut, so that no farewell arrives."""
    cut(first, second)
    end_all_of(second)


def host_rows():
    case = "faults.slow_but_calls[world=2]"
    for door in ("mpi", "c10d:gloo"):
        ends = (1, 3, 9, LAUNCHER_WAITS) if door == "mpi" else (1, 3)  # mpirun's own, or it waits for its part on the other host
        bad, good = ("hang", "crash", "fail"), {case: "pass"}
        if door != "mpi":
            bad, good = (*bad, "pass", "error"), {"*": "pass"}
        broken = Expect({case if door == "mpi" else "*": bad}, ends, "rank", 150, complete=False)
        yield Row("link cut", door, on_two_hosts(door, cut, case), broken)
        yield Row("link cut for a second", door, on_two_hosts(door, cut_for_a_second, case), Expect(good, (0,), "", 120))
        yield Row("link slowed", door, on_two_hosts(door, slow_link, case), Expect(good, (0,), "", 120))
        yield Row("host gone", door, on_two_hosts(door, host_gone, case), broken)


# ---- adapters ----

def adapter_row(fault, verdict, says, limit, options=("--time-limit", "20")):
    """Cases of three ranks meet the fault, the others pass."""
    def act(scene, build):
        return scene.run(check_adapter(scene, build, fault.replace(" ", "_"), options), limit + 60)
    return Row(fault, "adapter", act, Expect({"*ranks=3*": verdict, "*": "pass"}, (0,) if verdict == "pass" else (1,), says, limit))


def adapter_without_descriptors(scene, build):
    command = check_adapter(scene, build, "slowed", ("--time-limit", "60"))
    driver = scene.start(command)
    scene.until(lambda: len(scene.results()) >= 1)
    used = len(os.listdir(f"/proc/{driver.pid}/fd"))
    resource.prlimit(driver.pid, resource.RLIMIT_NOFILE, (used, used))
    return resumed(scene, build, scene.finish(driver, patience("adapter")), command, patience("adapter"))


def adapter_driver_killed(scene, build):
    command = check_adapter(scene, build, "slowed", ("--time-limit", "60"))
    driver = scene.start(command)
    scene.until(lambda: len(scene.results()) >= 1)
    driver.kill()
    first = scene.finish(driver, 30)
    left = left_by_the_killed(scene)
    again = resumed(scene, build, first, command, patience("adapter"))
    return Seen(again.status, again.seconds, again.output + "".join(f"LEFT by the first run: {one}\n" for one in left))


def adapter_rows():
    slow = ("--time-limit", "60")
    yield adapter_row("killed before a reply", "crash", "status 137|signal 9", 60)
    yield adapter_row("killed inside a reply", "crash", "status 137|signal 9", 60)
    yield adapter_row("killed after a reply", ("crash", "pass"), "", 60)
    yield adapter_row("stopped", "hang", "gave no answer", 150, options=("--time-limit", "15"))
    yield adapter_row("stopped and continued", "pass", "", 120, options=slow)
    yield adapter_row("slowed 1,000 times", "pass", "", 120, options=slow)
    yield adapter_row("out of address space", ("fail", "crash"), "rank 0", 60)
    yield adapter_row("leaves processes", "pass", "", 60)
    yield Row("driver out of descriptors", "adapter", adapter_without_descriptors, Expect({"*": "pass"}, (0,), "first status (0|1|3)", 120))
    yield Row("driver killed", "adapter", adapter_driver_killed, Expect({"*": "pass"}, (0,), "first status -9", 120))


# ---- jobs ----

def job_row(fault, script, verdict, says, limit, launches_ranks=False, options=("--time-limit", "8")):
    def act(scene, build):
        job = script.replace("REFERENCE", reference(build))
        return scene.run(check_job(scene, build, job, launches_ranks=launches_ranks, options=options), limit + 60)
    return Row(fault, "job", act, Expect({"*": verdict}, (0,) if verdict == "pass" else (1,), says, limit))


def job_launcher_killed(scene, build):
    """The program that starts the ranks is killed, and not its ranks."""
    job = "sh -c 'sleep 90 & sleep 90 & wait'; exit 1"
    driver = scene.start(check_job(scene, build, job, launches_ranks=True, options=("--time-limit", "60")))
    launcher = scene.until(lambda: [pid for pid in scene.processes() if b"wait" in command_of(pid) and command_of(pid).startswith(b"sh\0-c\0sleep 90")])
    os.kill(launcher[0], signal.SIGKILL)
    scene.until(lambda: state_of(launcher[0]) in ("", "Z"))
    again = scene.until(lambda: [pid for pid in scene.processes() if pid not in launcher and command_of(pid).startswith(b"sh\0-c\0sleep 90")])
    os.kill(again[0], signal.SIGKILL)  # of the second try
    return scene.finish(driver, 60)


def job_driver_killed(scene, build):
    job = f"sleep 1; exec {reference(build)}"
    command = check_job(scene, build, job, launches_ranks=True)
    driver = scene.start(command)
    scene.until(lambda: [pid for pid in scene.processes() if command_of(pid).startswith(b"sleep\0")])
    driver.kill()
    first = scene.finish(driver, 30)
    left = left_by_the_killed(scene)
    again = resumed(scene, build, first, command, patience("job"))
    return Seen(again.status, again.seconds, again.output + "".join(f"LEFT by the first run: {one}\n" for one in left))


def job_rows():
    patient = ("--time-limit", "60")
    yield job_row("killed before a collective", "[ $RANK = 1 ] && kill -KILL $$; exec sleep 60", "crash", "rank 1 was killed by signal 9", 40)
    yield job_row("killed after a collective", "REFERENCE; kill -KILL $$", "crash", "killed by signal 9", 120, launches_ranks=True, options=patient)
    yield job_row("stopped", "[ $RANK = 1 ] && kill -STOP $$; exec sleep 60", "hang", "rank 0", 60, options=("--time-limit", "4"))
    yield job_row("stopped and continued", "( sleep 1; kill -CONT $$ ) & kill -STOP $$; exec REFERENCE", "pass", "", 120, launches_ranks=True, options=patient)
    yield job_row("out of address space", "ulimit -v 200000; exec REFERENCE", "crash", "", 60, launches_ranks=True)
    yield job_row("leaves processes", "setsid sleep 90 & REFERENCE", "pass", "", 120, launches_ranks=True, options=patient)
    yield Row("launcher killed", "job", job_launcher_killed, Expect({"*": "crash"}, (1,), "status 1|signal 9", 60))
    yield Row("driver killed", "job", job_driver_killed, Expect({"*": "pass"}, (0,), "first status -9", 90))


def all_rows():
    return [*ranks_rows(), *c10d_rows(), *machine_rows(), *control_rows(), *host_rows(), *adapter_rows(), *job_rows()]


# ---- judging ----

def verdicts_in(scene, expected):
    """Problems of the verdicts. A name with * is for what no other names."""
    results, problems = scene.results(), []
    for case, result in results.items():
        due = next((verdict for name, verdict in expected.items() if name == case or ("*" in name and matches(name, case))), None)
        if due is None:
            problems.append(f"a result of {case}")
        elif result["verdict"] not in (due if isinstance(due, tuple) else (due,)):
            problems.append(f"{case}: {result['verdict']}, not {due}: {result.get('reason', '')[:160]}")
    return problems + [f"no result of {name}" for name in expected if not any(name == case or ("*" in name and matches(name, case)) for case in results)]


def matches(pattern, case):
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), case) is not None


def said(scene, seen):
    return seen.output + "".join(f"{result.get('reason', '')}\n{result.get('output', '')}\n" for result in scene.results().values())


def judge(row, scene, seen):
    """What is not as it must be."""
    due, problems = row.expect, []
    if seen.status is None:
        problems.append(f"no end within {due.limit:.0f} s")
    elif seen.status not in due.status:
        problems.append(f"status {seen.status}, not {' or '.join(map(str, due.status))}: {seen.output.strip().splitlines()[-1:]}")
    if seen.seconds > due.limit:
        problems.append(f"it took {seen.seconds:.0f} s, more than {due.limit:.0f}")
    problems += verdicts_in(scene, due.verdicts)
    if due.says and not re.search(due.says, said(scene, seen)):
        problems.append(f"nothing says '{due.says}'")
    problems += re.findall(r"^(?:LOST|LEFT|INVALID).*", seen.output, re.MULTILINE)
    problems += scene.problems_of_record() if due.reports else []
    if due.complete and (not scene.lines() or scene.lines()[-1]["type"] != "complete"):
        problems.append("the record is not complete")
    return problems + [f"left: {one}" for one in scene.left()]
