"""A soak: short checks of every profile over every door, in random order under changing load, and what each has left or grown by.

A slice is one run of `plumbline check`. Slices of one round are its shards, so that a round that is through can be merged. A steady
slice repeats its cases in one driver, over the same workers, and samples what each of its processes holds.
"""
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import rows
import scene

PROFILES = ("collectives", "topology", "pipeline", "data-parallel", "mixed-precision", "gossip", "full")
LOADS = (0, 0, 1, 2, 4, 8, 16)  # busy processes
SECONDS_OF_A_SLICE = 12
OPEN_ROUNDS = 6
SECONDS_PER_CASE = {"local": 0.1, "mpi": 0.15, "plugin": 0.1, "c10d:gloo": 0.2, "adapter": 0.05, "job": 2}  # until slices were timed
LIMIT_SECONDS = 1800  # of a slice; its cases have limits of their own
SECONDS_OF_A_START = {"c10d:gloo": 8}
SECONDS_BETWEEN_CASES = 0.004
LEAST_REPETITIONS = 6  # of the cases of a steady slice: two in each third

# What a process may hold more in the last third of its life than in the middle third. The smallest values of both are compared:
# what comes and goes with a case is not growth.
MEMORY_KIB, MEMORY_PART = 2048, 0.03
KIB_PER_RESULT = 12  # of the driver, which keeps all results until its reports are written
ENOUGH_SAMPLES = 24


# ---- load ----

BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    for _ in range(10 ** 6): pass"


class Load:
    """Busy processes, of a number that changes now and then, until it is closed."""

    def __init__(self, seed, most=max(LOADS), seconds=(4, 15)):
        self.draw, self.most, self.seconds, self.busy = random.Random(seed), most, seconds, []
        self.seen, self.is_closed, self.lock = [0], threading.Event(), threading.Lock()
        self.thread = threading.Thread(target=self.change, daemon=True)
        self.thread.start()

    def set(self, number):
        with self.lock:
            while len(self.busy) > number:
                one = self.busy.pop()
                one.kill()
                one.wait()
            while len(self.busy) < number:
                self.busy.append(subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())], stdin=subprocess.DEVNULL))
            self.seen.append(number)

    def change(self):
        while not self.is_closed.wait(self.draw.uniform(*self.seconds)):
            self.set(min(self.draw.choice(LOADS), self.most))

    def since(self):
        """The least and the most since the last call."""
        with self.lock:
            seen, self.seen = self.seen, [len(self.busy)]
        return min(seen), max(seen)

    def pids(self):
        with self.lock:
            return {one.pid for one in self.busy}

    def close(self):
        self.is_closed.set()
        self.thread.join()
        self.set(0)


# ---- what processes hold ----

@dataclass
class Held:
    memory: int  # KiB that are the process' own
    descriptors: int
    threads: int


def held_by(pid):
    """What a process holds now; nothing where it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        return Held(int(re.search(r"RssAnon:\s+(\d+)", status)[1]), len(os.listdir(f"/proc/{pid}/fd")), int(re.search(r"Threads:\s+(\d+)", status)[1]))
    except (OSError, TypeError):
        return None


class Sampler:
    """Looks at all processes of a scene at equal intervals, from `with` to its end."""

    def __init__(self, place, interval, ignored=lambda: ()):
        self.place, self.interval, self.ignored, self.samples, self.names = place, interval, ignored, {}, {}
        self.begun = False
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()

    def look(self):
        while not self.is_over.wait(self.interval):
            if not self.has_begun():
                continue
            for pid in set(self.place.processes()) - set(self.ignored()):
                held = held_by(pid)
                if held:
                    self.samples.setdefault(pid, []).append(held)
                    self.names.setdefault(pid, scene.command_of(pid).split(b"\0")[0].decode(errors="replace").rpartition("/")[2])


    def has_begun(self):
        """Whether the run has a result: what starts, grows."""
        self.begun = self.begun or any(line["type"] == "result" for line in self.place.lines())
        return self.begun


@dataclass
class Growth:
    memory: int
    descriptors: int
    threads: int
    base: int  # KiB in the middle third


def growth_of(samples):
    """How much more a process held in the last third of its samples than in the second; nothing where there are too few."""
    if len(samples) < ENOUGH_SAMPLES:
        return None
    third = len(samples) // 3
    middle, last = samples[third:-third], samples[-third:]
    least = lambda part, name: min(getattr(one, name) for one in part)
    grown = {name: least(last, name) - least(middle, name) for name in ("memory", "descriptors", "threads")}
    return Growth(**grown, base=least(middle, "memory"))


def problems_of_growth(name, growth, results=0):
    """What of it is a leak. `results` of a driver: how many it has written meanwhile."""
    allowed = max(MEMORY_KIB, growth.base * MEMORY_PART) + results * KIB_PER_RESULT
    found = [f"{name} grew by {growth.memory} KiB, from {growth.base}"] if growth.memory > allowed else []
    found += [f"{name} holds {growth.descriptors} descriptors more"] if growth.descriptors > 0 else []
    return found + ([f"{name} has {growth.threads} threads more"] if growth.threads > 0 else [])


# ---- doors ----

def door_words(build, door):
    """The options of `check` that name the subject."""
    if door == "adapter":
        return ["--adapter", "reference"]
    if door == "job":
        return ["--job", rows.reference(build).replace(str(build.plumbline), shlex.quote(str(build.plumbline))), "--job-launches-ranks"]
    return ["--backend", build.backend(door)]


def lines_of(build, *words):
    """What a command prints, or nothing where it is not a success."""
    done = subprocess.run([str(build.plumbline), *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.stdout.splitlines() if done.returncode == 0 else []


class Plan:
    """Draws rounds: which requirements of a profile, in which worlds, over which door."""

    def __init__(self, build, doors, draw):
        self.build, self.doors, self.draw, self.deck, self.number = build, doors, draw, [], 0
        self.measured, self.closed, self.requirements = {}, set(), {}

    def seconds(self, door, profile):
        """Of a case."""
        return self.measured.get((door, profile), SECONDS_PER_CASE[door])

    def learn(self, outcome):
        """How long a case took, from a slice that is through."""
        one, cases = outcome.slice, sum(outcome.verdicts.values())
        if cases and not outcome.is_cut:
            spent = max(0.001, outcome.seconds - SECONDS_OF_A_START.get(one.door, 0.3)) / cases
            self.measured[one.door, one.profile] = (self.seconds(one.door, one.profile) + spent) / 2

    def next_pair(self):
        """A door and a profile; each pair once before any comes again."""
        if not self.deck:
            self.deck = [(door, profile) for door in self.doors for profile in PROFILES if (door, profile) not in self.closed]
            self.draw.shuffle(self.deck)
        return self.deck.pop() if self.deck else None

    def ids(self, profile, cases):
        """Requirements of a profile that have a check among the cases."""
        if profile not in self.requirements:
            self.requirements[profile] = json.loads("\n".join(lines_of(self.build, "requirements", "--profile", profile, "--format", "json")) or "[]")
        checks = {case.partition("[")[0] for case in cases}
        return [one["id"] for one in self.requirements[profile] if checks.intersection(one["checks"])]

    def words_of_round(self, door, profile, steady):
        """(options, number of cases), or nothing where this door has no case of the profile."""
        subject = [*door_words(self.build, door), "--profile", profile]
        cases = lines_of(self.build, "check", *subject, "--list")
        ids = self.ids(profile, cases)
        worlds = sorted({int(world) for case in cases for world in re.findall(r"\bworld=(\d+)", case)})
        for _ in range(20 if ids else 0):
            words = [*subject, "--seed", self.draw.randrange(1, 2**31), "--shuffle", self.draw.randrange(1, 2**31)]
            for one in self.draw.sample(ids, min(len(ids), 1 if steady else self.draw.randint(2, 8))):
                words += ["--filter", one]
            if worlds and door != "adapter":
                chosen = self.draw.sample(worlds, min(len(worlds), 1 if steady else self.draw.randint(1, 3)))
                words += ["--world-size", ",".join(map(str, sorted(chosen)))]
            count = len([line for line in lines_of(self.build, "check", *words, "--list") if line.strip()])
            if count:
                return words, count
        self.closed.add((door, profile))
        return None

    def round(self):
        """The slices of the next round."""
        while pair := self.next_pair():
            found = self.words_of_round(*pair, steady=False)
            if found:
                words, count = found
                self.number += 1
                parts = max(1, min(count, 40, round(count * self.seconds(*pair) / SECONDS_OF_A_SLICE)))
                shards = [["--shard", f"{part}/{parts}"] for part in range(1, parts + 1)] if parts > 1 else [[]]
                return [Slice(*pair, [*words, *shard], self.number, parts) for shard in shards]
        return []

    def steady(self, door):
        """A slice that repeats few cases twice in one driver, of which `longer` makes a long one; nothing where a door has none."""
        profiles = [profile for profile in PROFILES if (door, profile) not in self.closed]
        for profile in self.draw.sample(profiles, len(profiles)):
            found = [one for _ in range(3) if (one := self.words_of_round(door, profile, steady=True))]
            if found:
                words, _ = min(found, key=lambda one: one[1])  # many repetitions of few cases
                return Slice(door, profile, [*words, "--repeat", 2], 0, 1)
        return None


def longer(outcome, seconds):
    """The slice once more, so many times that its cases take about so many seconds; nothing where that is too seldom to tell growth from
    cases of different sizes, or where all cases were skipped."""
    one, cases = outcome.slice, sum(outcome.verdicts.values())
    if cases == outcome.verdicts.get("skip", 0) or outcome.is_cut:
        return None
    spent = (outcome.case_seconds + cases * SECONDS_BETWEEN_CASES) / 2
    times = max(LEAST_REPETITIONS, min(10000, int(seconds / spent)))
    return Slice(one.door, one.profile, [*one.words[:-1], times], 0, 1, steady=seconds) if times * spent <= 3 * seconds else None


# ---- slices ----

@dataclass
class Slice:
    door: str
    profile: str
    words: list
    round: int
    parts: int
    steady: float = 0  # seconds that it is meant to take


@dataclass
class Outcome:
    slice: Slice
    seconds: float = 0
    case_seconds: float = 0
    verdicts: dict = field(default_factory=dict)
    problems: list = field(default_factory=list)
    grown: dict = field(default_factory=dict)  # process: Growth
    record: object = None
    load: tuple = (0, 0)
    is_cut: bool = False


def is_expected(result):
    """Whether a result needs nobody's attention."""
    due = result.get("expectation", {}).get("verdict")
    return result["verdict"] == due if due else result["verdict"] in ("pass", "skip")


def all_skipped(outcome):
    """Which ends with status 3: nothing ran."""
    return set(outcome.verdicts) == {"skip"}


def results_in(lines):
    """The last result of each case, seed and mode."""
    found = {}
    for line in lines:
        if line["type"] == "result" and line.get("role") != "control":
            found[tuple(str(line.get(name)) for name in ("case", "arm", "seed", "repetition"))] = line
    return list(found.values())


class Runner:
    def __init__(self, build, out, load=None, options=()):
        self.build, self.out, self.load, self.options, self.number = build, out, load, list(options), 0
        self.is_over, self.driver = threading.Event(), None

    def interrupt(self):
        """Ends the slice that runs; it is not judged by how it ended."""
        self.is_over.set()
        if self.driver and self.driver.returncode is None:
            self.driver.send_signal(signal.SIGINT)

    def busy(self):
        return self.load.pids() if self.load else set()

    def run(self, one, program=None):
        """Runs a slice and judges it."""
        self.number += 1
        place, outcome = scene.Scene(), Outcome(one)
        processes = place.processes
        place.processes = lambda: [pid for pid in processes() if pid not in self.busy()]
        try:
            command = [program or self.build.plumbline, "check", *one.words, "--out", place.out, *self.options]
            limit = LIMIT_SECONDS + 10 * one.steady
            with Sampler(place, min(2, max(0.05, one.steady / 150)) if one.steady else 3600) as sampler:
                driver = self.driver = place.start(command, **rows.torch_python(self.build))
                seen = place.finish(driver, limit)
            outcome.seconds, outcome.is_cut = seen.seconds, self.is_over.is_set()
            self.judge(outcome, place, seen, limit)
            self.judge_growth(outcome, driver.pid, sampler)
            outcome.record = self.keep(place, one)
        finally:
            place.close()
        outcome.load = self.load.since() if self.load else (0, 0)
        return outcome

    def judge(self, outcome, place, seen, limit):
        results = results_in(place.lines())
        for result in results:
            outcome.verdicts[result["verdict"]] = outcome.verdicts.get(result["verdict"], 0) + 1
        outcome.case_seconds = sum(result.get("seconds", 0) for result in results)
        odd = [result for result in results if not is_expected(result)]
        outcome.problems += [f"{result['case']} ({result.get('arm')}, seed {result.get('seed')}): {result['verdict']}: "
                             f"{result.get('reason', '')[:200]}" for result in odd]
        if outcome.is_cut:
            return
        if seen.status is None:
            outcome.problems.append(f"no end within {limit:.0f} s")
        elif seen.status != 0 and not odd and not (seen.status == 3 and all_skipped(outcome)):
            outcome.problems.append(f"status {seen.status}: {' '.join(seen.output.strip().splitlines()[-1:])[:200]}")
        outcome.problems += place.problems_of_record()
        outcome.problems += [f"left: {name}" for name in place.left()]

    def judge_growth(self, outcome, driver, sampler):
        ranks = 0
        longest = max(map(len, sampler.samples.values()), default=0)
        for pid, samples in sampler.samples.items():
            growth = growth_of(samples)
            if not growth or len(samples) < longest / 2:  # the process of a case, not of them all
                continue
            ranks += pid != driver
            name = "the driver" if pid == driver else f"{sampler.names[pid]} ({ranks})"
            outcome.grown[name] = growth
            outcome.problems += problems_of_growth(name, growth, sum(outcome.verdicts.values()) // 3 if pid == driver else 0)

    def keep(self, place, one):
        """Moves the record to the soak's own folder."""
        if not (place.out / "run.jsonl").exists():
            return None
        folder = self.out / "slices" / f"{self.number:05}-{one.door.replace(':', '_')}-{one.profile}"
        folder.mkdir(parents=True)
        shutil.move(place.out / "run.jsonl", folder / "run.jsonl")
        return folder


# ---- merging and reporting ----

def command(build, *words):
    """(status, last line that it printed) of one of Plumbline's own commands."""
    done = subprocess.run([str(build.plumbline), *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env=os.environ | rows.torch_python(build))
    return done.returncode, ([""] + (done.stdout + done.stderr).strip().splitlines())[-1]


def merge_and_report(build, out, outcomes, say):
    """Merges the rounds that are through, and writes one page of everything; what went wrong with that."""
    rounds, problems, shown = {}, [], [one.record for one in outcomes if one.record and (not one.slice.round or one.is_cut)]
    for one in outcomes:
        if one.record and one.slice.round and not one.is_cut:
            rounds.setdefault(one.slice.round, []).append(one)
    merged = 0
    for number, shards in rounds.items():
        if len(shards) < shards[0].slice.parts or len(shards) == 1:
            shown += [one.record for one in shards]
            continue
        folder = out / "rounds" / f"{number:05}"
        status, line = command(build, "merge", *(one.record for one in shards), "--out", folder)
        merged += 1
        shown.append(folder)
        is_due = status == 3 and all(map(all_skipped, shards))
        if status != 0 and not is_due and not any(one.problems for one in shards):
            problems.append(f"merge of round {number}: status {status}: {line}")
    if shown:
        begin = time.monotonic()
        status, line = command(build, "report", *shown, "--out", out / "report.html", "--title", "soak")
        if status == 0:
            say(f"{merged} rounds merged; {len(shown)} records reported in {time.monotonic() - begin:.1f} s: {out / 'report.html'}")
        elif status == 3 and "jinja2" in line:
            say(f"{merged} rounds merged; no report: {line}")
        else:
            problems.append(f"report: status {status}: {line}")
    return problems


def table(outcomes):
    """Lines of a table, one for each door."""
    lines = ["| door | slices | cases | unexpected verdicts | other problems | steady | driver KiB | largest worker KiB | descriptors | threads |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for door in dict.fromkeys(one.slice.door for one in outcomes):
        own = [one for one in outcomes if one.slice.door == door]
        cases = sum(sum(one.verdicts.values()) for one in own)
        unexpected = sum(is_about_verdict(problem) for one in own for problem in one.problems)
        others = sum(len(one.problems) for one in own) - unexpected
        grown = [(name, growth) for one in own for name, growth in one.grown.items()]
        most = lambda values: f"{max(values):+d}" if values else "-"
        lines.append(f"| {door} | {len(own)} | {cases} | {unexpected} | {others} | {sum(one.slice.steady > 0 for one in own)} | "
                     f"{most([g.memory for n, g in grown if n == 'the driver'])} | {most([g.memory for n, g in grown if n != 'the driver'])} | "
                     f"{most([g.descriptors for _, g in grown])} | {most([g.threads for _, g in grown])} |")
    return lines


def is_about_verdict(problem):
    return re.search(r"\(\w*(:\w+)?, seed \d+\): ", problem) is not None
