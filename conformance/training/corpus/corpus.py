#!/usr/bin/env python3
"""Judges programs with the silent bugs of real training frameworks, and the right programs beside them, at the job door.

usage: corpus.py [--list] [--samples] [--only ID]... [--twins N] [--jobs N] [--cold] [--out DIR] [--plumbline FILE] [--python FILE]

Exits with 0 if each bug is found by the requirements that name its kind and no right program fails, 1 if not, 2 on misuse.
"""
import sys

if sys.version_info < (3, 11):
    print("corpus.py: it needs Python 3.11 or newer, for tomllib", file=sys.stderr)
    sys.exit(2)

import argparse, contextlib, json, os, re, shlex, shutil, subprocess, tempfile, time, tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path += [str(ROOT / "results"), str(ROOT / "harness/subject/job/warm")]
from plumbline_results.run_folder import new_folder
from warm import warmed

FIELDS = ("id", "sources", "what", "requirements", "profile", "shows")
OPTIONAL = ("hides",)
FIELDS_BEYOND = ("sources", "what", "needs")
FIELDS_OF_SAMPLES = ("id", "what", "requirements", "profile", "shows")
SAMPLES = ROOT / "harness/subject/job/python"
PROFILES = ("data-parallel", "mixed-precision", "pipeline")
SOURCE = re.compile(r"[\w.-]+/[\w.-]+(#[1-9]\d*|@[0-9a-f]{7,40})")
NEEDED = "import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in ('torch', 'numpy', 'tomllib')))"


def misuse(problem):
    print(f"{Path(sys.argv[0]).name}: {problem}", file=sys.stderr)
    sys.exit(2)


# ---- the table

def known_requirements():
    """The ids of all requirements that conformance/ has."""
    return {one["id"] for file in ROOT.glob("conformance/**/*requirements.toml") for one in tomllib.loads(file.read_text())["requirement"]}


def names_in(file):
    """The ids that bugs.py or programs.py has, without importing torch; or those of faulty.py, which may have more than are in the table."""
    text = (SAMPLES / file if file == "faulty.py" else HERE / file).read_text()
    if file == "faulty.py":
        return re.findall(r'"(\w+\.\w+)": [A-Z]', text[text.index("FAULTS = "):])
    return re.findall(r'^@bug\("([\w.]+)"\)', text, re.M) if file == "bugs.py" else re.findall(r'"(\w+)": [A-Z]', text[text.index("PROGRAMS = "):])


def problems_of_samples(table, requirements, faults):
    """What is wrong with the table of samples, a line each."""
    ids = [one.get("id", "") for one in table["fault"]]
    for one in table["fault"]:
        name = one.get("id", "")
        for field in {*FIELDS_OF_SAMPLES} ^ {*one}:
            yield f"{name}: {field} is {'missing' if field in FIELDS_OF_SAMPLES else 'unknown'}"
        if name not in faults:
            yield f"{name}: faulty.py does not have it"
        if not (SAMPLES / f"{name.split('.')[0]}_gloo.py").exists():
            yield f"{name}: there is no sample {name.split('.')[0]}_gloo.py"
        yield from problems_of_entry(one, requirements)
    for name in sorted({name for name in ids if ids.count(name) > 1}):
        yield f"{name}: two entries have this id"


def problems_of_entry(one, requirements):
    name = one.get("id", "")
    for requirement in one.get("requirements", []) or ["none"]:
        if requirement not in requirements:
            yield f"{name}: requirement '{requirement}' does not exist"
    if one.get("profile") not in PROFILES:
        yield f"{name}: profile '{one.get('profile')}' must be one of {', '.join(PROFILES)}"


def problems_of(table, requirements, bugs, programs):
    """What is wrong with the table, a line each."""
    for place, fields, entries in (("bug", (*FIELDS, *OPTIONAL), table.get("bug", [])), ("beyond", FIELDS_BEYOND, table.get("beyond", []))):
        for number, one in enumerate(entries, 1):
            name = one.get("id", f"{place} {number}")
            for field in {*fields} ^ {*one}:
                if field not in OPTIONAL:
                    yield f"{name}: {field} is {'missing' if field in fields else 'unknown'}"
            for source in one.get("sources", [""]) or [""]:
                if not SOURCE.fullmatch(source):
                    yield f"{name}: source '{source}' must be owner/name#number or owner/name@commit"
    for one in table.get("bug", []):
        name = one.get("id", "")
        yield from problems_of_entry(one, requirements)
        if name.split(".")[0] not in programs:
            yield f"{name}: programs.py has no program '{name.split('.')[0]}'"
    ids = [one.get("id") for one in table.get("bug", [])]
    for name in sorted({*map(str, ids)} ^ {*bugs}):
        yield f"{name}: only {'bugs.toml' if name in ids else 'bugs.py'} has it"
    for name in sorted({str(name) for name in ids if ids.count(name) > 1}):
        yield f"{name}: two entries have this id"


def read_table(file="bugs.toml"):
    """The bugs, under "bug", and those beyond the job door, under "beyond"."""
    try:
        table = tomllib.loads((HERE / file).read_text())
    except (OSError, tomllib.TOMLDecodeError) as wrong:
        misuse(f"{file} cannot be read ({wrong})")
    problems = (problems_of_samples(table, known_requirements(), names_in("faulty.py")) if file == "samples.toml" else
                problems_of(table, known_requirements(), names_in("bugs.py"), names_in("programs.py")))
    if problem := next(problems, None):
        misuse(f"{file}: {problem}")
    return {"bug": table["fault"], "beyond": []} if file == "samples.toml" else table


# ---- runs

@dataclass
class Runner:
    plumbline: str
    python: str
    out: Path
    start: list = None  # of a program's command: of one that starts by itself, or enters a process that has imported torch
    samples: bool = False  # whether programs are those of the job door, and not of this folder

    def words_of(self, program):
        """The words of a program's command after the interpreter, by the id of a bug or the name of a right program."""
        if not self.samples:
            return [str(HERE / "bugs.py"), program]
        return [str(SAMPLES / "faulty.py"), program] if "." in program else [str(SAMPLES / f"{program}_gloo.py")]

    def check(self, name, profile, program, filters, *options):
        """The results of a check of a program, and its seconds."""
        begin, out = time.time(), self.out / name
        shutil.rmtree(out, ignore_errors=True)
        job = shlex.join([*(self.start or [self.python, "-B"]), *self.words_of(program)])
        command = [self.plumbline, "check", "--profile", profile, "--job", job, "--job-serves-ranks", "--no-control", "--out", str(out), *options]
        for one in filters:
            command += ["--filter", one]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
        try:
            lines = [json.loads(line) for line in (out / "run.jsonl").read_text().splitlines()]
        except (OSError, json.JSONDecodeError):
            lines = []
        results = [line for line in lines if line["type"] == "result" and line["attempt"] == 1]
        if not results:
            raise RuntimeError(f"plumbline ended with {done.returncode} and no result: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
        return results, time.time() - begin


def matches(name, pattern):
    """As --filter takes it: * and ? alone have a meaning."""
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), name) is not None


def judged(bug, results):
    """(whether it was found as it must be, by what)."""
    shown = [one for one in results if matches(one["case"], bug["shows"])]
    hidden = [one for one in results if "hides" in bug and matches(one["case"], bug["hides"])]
    if len(shown) != 1 or len(hidden) != ("hides" in bug):
        return False, f"{len(shown)} cases where it must show, {len(hidden)} where it cannot"
    violated = shown[0].get("violated", [])
    missing = [one for one in bug["requirements"] if one not in violated]
    if shown[0]["verdict"] != "fail" or missing:
        said = " ".join([shown[0]["verdict"], *violated, *([] if violated else [shown[0].get("reason", "")])]).strip()
        return False, f"{said}; not {', '.join(missing or bug['requirements'])}"
    if hidden and hidden[0]["verdict"] != "pass":
        return False, f"{hidden[0]['verdict']} where it cannot show: {hidden[0]['case']}"
    return True, ", ".join(bug["requirements"])


def run_bug(runner, bug):
    filters = [bug["shows"], *([bug["hides"]] if "hides" in bug else [])]
    try:
        results, seconds = runner.check(bug["id"], bug["profile"], bug["id"], filters)
    except RuntimeError as broken:
        return bug, False, str(broken), 0
    return bug, *judged(bug, results), seconds


def twins_of(bugs):
    """{(right program, profile): the cases that its bugs are judged by}."""
    twins = {}
    for bug in bugs:
        cases = twins.setdefault((bug["id"].split(".")[0], bug["profile"]), {})
        cases.update({bug[field]: None for field in ("shows", "hides") if field in bug})
    return twins


def run_twin(runner, twin, filters, repeat):
    program, profile = twin
    try:
        results, seconds = runner.check(f"twin.{program}.{profile}", profile, program, filters, "--repeat", str(repeat))
    except RuntimeError as broken:
        return twin, 0, [str(broken)], 0
    ran = [one for one in results if one["verdict"] != "skip"]
    return twin, len(ran), [f"{one['verdict']} {one['case']}, seed {one['seed']}" for one in ran if one["verdict"] != "pass"], seconds


def run_all(runner, bugs, twins, repeat, jobs):
    """(a row for each bug, the number of runs of right programs, those that failed), printed as they come."""
    rows, failed, ran = [], [], 0
    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(run_bug, runner, bug) for bug in bugs]
        beside = [pool.submit(run_twin, runner, twin, filters, repeat) for twin, filters in twins.items()]
        for bug, found, by, seconds in (one.result() for one in running):
            rows.append({"id": bug["id"], "found": found, "by": by, "seconds": round(seconds, 1)})
            print(f"{bug['id']:<42} {'found' if found else 'NOT FOUND':<10} {seconds:5.1f} s  {by}", flush=True)
        for (program, profile), runs, wrong, seconds in (one.result() for one in beside):
            ran, failed = ran + runs, failed + [f"{program}: {one}" for one in wrong]
            print(f"right: {program + ', ' + profile:<35} {'FAILED' if wrong else 'passed':<10} {seconds:5.1f} s  {runs} runs", flush=True)
    return rows, ran, failed


# ---- the command

def arguments():
    class Parser(argparse.ArgumentParser):
        def error(self, message):
            misuse(f"{message}; see --help")

    parser = Parser(prog="corpus.py", description="Judge programs with the silent bugs of real training frameworks, and right ones, at the job door")
    parser.add_argument("--list", action="store_true", help="print the table without running anything")
    parser.add_argument("--samples", action="store_true", help="the job door's sample programs with two faults each, in place of the corpus")
    parser.add_argument("--only", metavar="ID", action="append", default=[], help="run only these bugs; * and ? are taken; may be repeated")
    parser.add_argument("--twins", metavar="N", type=int, help="run the right programs N times in all, or a few more (default each case once; 0: none)")
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count(), help="programs that run at once (default one a core)")
    parser.add_argument("--cold", action="store_true", help="start each program by itself, in place of forks of one that has imported torch")
    parser.add_argument("--out", metavar="DIR", type=Path,
                        help="folder of the records (default: a dated folder under results/runs; results/latest/corpus links to it)")
    parser.add_argument("--plumbline", metavar="FILE", help="the executable (default build/bin/plumbline, or the one on the path)")
    parser.add_argument("--python", metavar="FILE", default=sys.executable, help="an interpreter that has torch (default the one that runs this)")
    chosen = parser.parse_args()
    for name, least in (("jobs", 1), ("twins", 0)):
        value = getattr(chosen, name)
        if value is not None and value < least:
            misuse(f"--{name} {value}: it must be {least} or more")
    return chosen


def require_writable(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as wrong:
        misuse(f"--out {folder}: {wrong.strerror}; it is a folder that can be written to")


def usual_folder():
    try:
        return new_folder("corpus")
    except OSError as wrong:
        misuse(f"{wrong.filename}: {wrong.strerror}; --out names another folder")


def runner_of(chosen):
    plumbline = chosen.plumbline or next((str(file) for file in (ROOT / "build/bin/plumbline",) if file.exists()), shutil.which("plumbline"))
    if not plumbline or not shutil.which(plumbline):
        misuse(f"{chosen.plumbline or 'plumbline'} is no executable; --plumbline FILE says where it is")
    if chosen.out:
        require_writable(chosen.out)
    if not shutil.which(chosen.python) or subprocess.run([chosen.python, "-c", NEEDED]).returncode:
        misuse(f"--python {chosen.python}: it must be Python 3.11 or newer with torch and numpy")
    chosen.out = chosen.out or usual_folder()
    return Runner(os.path.abspath(shutil.which(plumbline)), chosen.python, chosen.out, samples=chosen.samples)


def warm_start(stack, python):
    try:
        return stack.enter_context(warmed(python))[0]
    except RuntimeError as broken:
        misuse(broken)


def chosen_bugs(table, only):
    for pattern in only:
        if not any(matches(bug["id"], pattern) for bug in table["bug"]):
            misuse(f"--only {pattern}: no bug has this id; --list prints them")
    return [bug for bug in table["bug"] if not only or any(matches(bug["id"], pattern) for pattern in only)]


def print_list(table, bugs):
    for bug in bugs:
        print(f"{bug['id']:<42} {', '.join(bug['requirements']):<22} {', '.join(bug.get('sources', []))}".rstrip() + f"\n    {bug['what']}")
    print(f"{len(bugs)} bugs" + ("; beyond the job door:" if table["beyond"] else ""))
    for one in table["beyond"]:
        print(f"needs {one['needs']}: {', '.join(one['sources'])}\n    {one['what']}")


def main():
    chosen = arguments()
    table = read_table(*(["samples.toml"] if chosen.samples else []))
    bugs = chosen_bugs(table, chosen.only)
    if chosen.list:
        return print_list(table, bugs)
    runner = runner_of(chosen)
    twins = twins_of(bugs) if chosen.twins != 0 else {}
    repeat = -(-(chosen.twins or 1) // max(1, sum(map(len, twins.values()))))
    with contextlib.ExitStack() as stack:
        if not chosen.cold:
            runner.start = warm_start(stack, runner.python)
        rows, ran, failed = run_all(runner, bugs, twins, repeat, chosen.jobs)
    for line in failed:
        print(line)
    found = sum(row["found"] for row in rows)
    (chosen.out / "corpus.json").write_text(json.dumps({"bugs": rows, "right_runs": ran, "right_failed": failed}, indent=1) + "\n")
    print(f"{'OK' if found == len(rows) and not failed else 'NOT OK'}: {found} of {len(rows)} bugs found; "
          f"{len(failed)} of {ran} runs of right programs failed" + (f"; {len(table['beyond'])} more bugs are beyond the job door" if table["beyond"] else ""))
    print(f"records: {chosen.out}")
    return int(found < len(rows) or bool(failed))


if __name__ == "__main__":
    sys.exit(main())
