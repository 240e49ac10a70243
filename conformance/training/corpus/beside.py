#!/usr/bin/env python3
"""Prints what spmd_types and TrainCheck find of the corpus, beside what Plumbline found in a run of corpus.py.

usage: beside.py [--records DIR] [--only ID]... [--without TOOL]... [--out FILE] [--plumbline FILE] [--python FILE]

A tool that --python does not have is left out, with a line that says so. Exits with 0, or with 2 on misuse.
"""
import argparse, contextlib, json, os, shutil, socket, subprocess, sys, tempfile
from pathlib import Path

import corpus
from corpus import HERE, SAMPLES, matches, misuse, read_table

NOTHING = "-"  # not run, or not to be expressed
# A script that TrainCheck changes names the program that it changes; it runs a rank for each, and leaves a trace for each.
RANKS = """for rank in $(seq 0 $((WORLD_SIZE - 1))); do
  RANK=$rank {python} -B {folder}/traced.py {program} &
done
wait
"""


def has(python, module):
    return subprocess.run([python, "-c", f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)"]).returncode == 0


def said_by_types(python):
    """By the id of each bug that spmd_types can express: what it said, and nothing where it passed."""
    done = subprocess.run([python, "-B", str(HERE / "spmd_programs.py")], capture_output=True, text=True)
    if done.returncode:
        misuse(f"spmd_programs.py ended with status {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout)


class TrainCheck:
    """Learns invariants from a right program's run on one seed, and checks runs on another with them."""

    def __init__(self, python, plumbline, folder):
        self.python, self.plumbline, self.folder = python, plumbline, folder
        self.tools = Path(python).parent
        self.programs = folder / "programs/of/corpus"  # TrainCheck writes beside the script
        self.programs.mkdir(parents=True)
        for file in (*HERE.glob("*.py"), *SAMPLES.glob("*.py")):
            shutil.copy(file, self.programs)
        self.learned = {}  # by right program and case: the invariants, and which of them a right run violates

    def run(self, tool, *words, **environment):
        done = subprocess.run([str(self.tools / tool), *map(str, words)], env={**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}", **environment},
                              cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{tool} ended with status {done.returncode}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")

    def specification(self, bug, seed):
        """The folder with the specification of the bug's case, as the job door writes it."""
        kept = Path(tempfile.mkdtemp(dir=self.folder))
        subprocess.run([self.plumbline, "check", "--profile", bug["profile"], "--job-launches-ranks", "--no-control", "--seed", str(seed), "--out", str(kept / "out"),
                        "--filter", bug["shows"], "--job", f'echo $WORLD_SIZE > {kept}/world; cp -r "$(dirname "$PLUMBLINE_SPEC")" {kept}/run; exit 1'],
                       capture_output=True, stdin=subprocess.DEVNULL)
        return kept

    def traced(self, program, bug, seed):
        kept = self.specification(bug, seed)
        (kept / "ranks.sh").write_text(RANKS.format(python=self.python, folder=self.programs, program=program))
        (kept / "record").mkdir()
        self.run("traincheck-collect", "--pyscript", self.programs / "traced.py", "--shscript", kept / "ranks.sh", "--models-to-track", "model",
                 "--output-dir", kept / "trace", WORLD_SIZE=(kept / "world").read_text().strip(), PLUMBLINE_SPEC=str(kept / "run" / "spec.toml"),
                 PLUMBLINE_RECORD=str(kept / "record"), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), OMP_NUM_THREADS="1")
        if "exited with code 0" not in (kept / "trace/program_output.txt").read_text() or not any((kept / "record").iterdir()):
            raise RuntimeError(f"{program} did not train under TrainCheck")
        return kept / "trace"

    def violated(self, trace, invariants):
        """The invariants that a trace violates, as TrainCheck names them."""
        out = trace.parent / "checked"
        self.run("traincheck-check", "-f", trace, "-i", invariants, "-o", out, "--no-html-report")
        (summary,) = out.glob("*/violations_summary.json")
        return {one["display_name"] for one in json.loads(summary.read_text())["violations"]}

    def judge(self, bug):
        """(invariants that the bug violates and a right run does not, those that a right run violates, both on another seed)."""
        program = bug["id"].split(".")[0]
        if (key := (program, bug["profile"], bug["shows"])) not in self.learned:
            trace = self.traced(program, bug, seed=1)
            self.run("traincheck-infer", "-f", trace, "-o", trace.parent / "invariants.json")
            right = self.violated(self.traced(program, bug, seed=2), trace.parent / "invariants.json")
            self.learned[key] = trace.parent / "invariants.json", right
        invariants, of_right = self.learned[key]
        found = self.violated(self.traced(bug["id"], bug, seed=2), invariants)
        return sorted(found - of_right), sorted(of_right)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def judged_by_traces(check, bug):
    """A cell of the table."""
    try:
        found, of_right = check.judge(bug)
    except (RuntimeError, OSError, ValueError) as wrong:
        return {"verdict": "not traced", "why": str(wrong)}
    return {"verdict": "found" if found else "passed", "violated": found, "of_right_runs": of_right}


# ---- the command

def arguments():
    parser = argparse.ArgumentParser(prog="beside.py", description="What spmd_types and TrainCheck find of the corpus, beside Plumbline")
    parser.add_argument("--records", metavar="DIR", type=Path, default=corpus.ROOT / "results/latest/corpus",
                        help="records of a run of corpus.py (default results/latest/corpus)")
    parser.add_argument("--only", metavar="ID", action="append", default=[], help="only these bugs; * and ? are taken; may be repeated")
    parser.add_argument("--without", metavar="TOOL", action="append", default=[], choices=("spmd_types", "traincheck"), help="leave a tool out")
    parser.add_argument("--out", metavar="FILE", type=Path, help="also write what the table is made of, as JSON")
    parser.add_argument("--plumbline", metavar="FILE", default=str(corpus.ROOT / "build/bin/plumbline"), help="the executable")
    parser.add_argument("--python", metavar="FILE", default=sys.executable, help="an interpreter with torch, spmd_types and traincheck")
    return parser.parse_args()


def ours(records):
    try:
        return {row["id"]: row["by"] if row["found"] else "not found" for row in json.loads((records / "corpus.json").read_text())["bugs"]}
    except (OSError, ValueError) as wrong:
        misuse(f"--records {records}: its corpus.json cannot be read ({wrong}); corpus.py writes it")


def main():
    chosen = arguments()
    mine, bugs = ours(chosen.records), corpus.chosen_bugs(read_table(), chosen.only)
    tools = [tool for tool in ("spmd_types", "traincheck") if tool not in chosen.without]
    for tool in [tool for tool in tools if not has(chosen.python, tool)]:
        print(f"{tool} is left out: {chosen.python} does not have it; pip install {tool} brings it")
        tools.remove(tool)
    types, written = said_by_types(chosen.python) if "spmd_types" in tools else {}, {}
    print("| bug | Plumbline | spmd_types | TrainCheck |\n| --- | --- | --- | --- |")
    with contextlib.ExitStack() as stack:
        check = TrainCheck(chosen.python, chosen.plumbline, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plb.")))) if "traincheck" in tools else None
        for bug in bugs:
            name = bug["id"]
            traces = judged_by_traces(check, bug) if check else {"verdict": NOTHING}
            said = NOTHING if name not in types else "found" if types[name] else "passed"
            written[name] = {"plumbline": mine.get(name, NOTHING), "spmd_types": types.get(name), "traincheck": traces}
            print(f"| {name} | {mine.get(name, NOTHING)} | {said} | {traces['verdict']} |", flush=True)
            if chosen.out:
                chosen.out.write_text(json.dumps(written, indent=1) + "\n")
    for name in [name for name in types if "." not in name]:
        print(f"right: {name}, spmd_types: {types[name] or 'passed'}")


if __name__ == "__main__":
    main()
