#!/usr/bin/env python3
"""Fails when a README shows a command that does not run and is not marked as one that cannot be run here, an option that does not
exist, output that differs from the output shown, or a picture that is not the one its command draws.

usage: check_readmes.py [--update] [--long] [--only README] PLUMBLINE [ROOT]

  --only     this README alone, by its path below ROOT; may be given several times
  --update   write the pictures that differ in place of reporting them
  --long     run also what takes long, and print the time of each command

Of every README each block that is indented by four blanks or more is read. `$ cat FILE` is followed by the file's content, which is
written. `$ COMMAND` is run by sh, and followed by what it prints, where `...` stands for any text, and on a line of its own for any
lines; a backslash at the end of a line continues the command. A command that a test cannot run, since it needs a GPU, a subject of
the reader's own, the network or hours, ends in `# not run in tests: REASON`; one whose reason begins with "takes" is run by --long. A command without `$` is a fault, also in a fenced block
without a language. Everything runs in the order of the README in a folder with links to the sources and to build; $PREFIX is a folder
with what these commands need of an installation. A command has to end with status 0, one whose comment ends in "exits with 1" with 1, and
one of plumbline's below which a failure is shown ("NOT OK", "fail") with 0 or 1. A command that needs LibTorch, torch, mpirun or the
woven program is skipped where that is missing. The options are checked that a command in a block or between backticks names, also where it is not run.
"""
import argparse, os, re, shutil, subprocess, sys, tempfile, time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check_references

OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
# A command, and of `bench` and `expectations` also what they do.
COMMAND = re.compile(r"(?:^|[\s/])plumbline ((?:bench |expectations |results )?[a-z][a-z_-]+)(?=\s|$)(.*)")
MISSING = re.compile(r"needs LibTorch|LibTorch is not|No module named 'torch'|pip install torch|with torch and numpy|libplumbline_c10d.so' is missing|backend mpi: not part of this build")
RUNS_PLUMBLINE = re.compile(r"(?:^|[\s/])plumbline\s")
FAILURE = re.compile(r"NOT OK|\bfail", re.IGNORECASE)
ENDS_WITH_1 = re.compile(r"  # (?:.*[ ;])?exits with 1$")
PROGRESS = re.compile(r" has been running for \d+ s")  # printed on a slow machine alone
SOURCES = ("benchmarks", "ci", "conformance", "harness", "reference")
OF_RUNS = ("history", "latest", "runs")  # folders of results/, which commands write
# Of an installation, by the path there.
INSTALLED = {"include/plumbline/plumbline_backend.h": "harness/subject/plumbline_backend.h",
             "share/plumbline/c10d": "harness/subject/c10d", "share/plumbline/samples/plugin": "harness/subject/plugin/samples"}
MARK = "# not run in tests:"
# What begins a command, where no `$` says so.
BARE = re.compile(r"(?:[A-Z_]+=\S+ )*(?:plumbline|(?:build|ci)/[\w/.-]*\w|pip|cmake|ctest|python3?|mpirun|srun|torchrun|podman|spack|sudo|make"
                  r"|cp|mv|export)(?: +(?:[\w\"'$./-]|#|&&).*)?$")
TIME_LIMIT = 300  # seconds a command may take
LONG_LIMIT = 4 * 3600  # the same with --long
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # without which Open MPI's mpirun rejects the superuser


class Command:
    """A command of a README, and the lines that are shown below it."""

    def __init__(self, number, indent, text):
        self.number, self.indent, self.text, self.lines, self.is_open = number, indent, text, [], True
        self.last_number = number  # with the lines that continue it

    def takes(self, line):
        """Whether the line is a part of the command, or of what it prints."""
        if self.text.endswith("\\") and not self.lines:
            self.text = self.text[:-1].rstrip() + " " + line.strip()
            self.last_number += 1
        elif not line or line.startswith(" " * self.indent):
            self.lines.append(line[self.indent:])  # also a blank one: it may be a part of what is printed
        else:
            self.is_open = False
        return self.is_open

    def shown(self):
        """The lines, without the blank ones at their end."""
        return "\n".join(self.lines).rstrip("\n").split("\n") if any(self.lines) else []

    def statuses(self):
        """The exit statuses that it may have."""
        if ENDS_WITH_1.search(self.text):
            return (1,)
        return (0, 1) if RUNS_PLUMBLINE.search(self.text) and any(map(FAILURE.search, self.lines)) else (0,)


def commands_of(text):
    """(commands, [(line number, line)] of those that stand in a block without `$`)."""
    found, bare, fence = [], [], None
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fence = (line.strip()[3:] or "sh") if fence is None else None
        elif fence is not None:
            if fence == "sh" and BARE.match(line.strip()):
                bare.append((number, line.strip()))
        elif begins := re.match(r"( {4,})\$ (.*)", line):
            found.append(Command(number, len(begins[1]), begins[2]))
        elif found and found[-1].is_open and found[-1].takes(line):
            pass
        elif line.startswith("    ") and BARE.match(line.strip()):
            bare.append((number, line.strip()))
    return found, bare


def printed_as(lines):
    """A pattern of the output that these lines show."""
    parts = [r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()).replace(r"\.\.\.", ".*") + r"\n" for line in lines]
    return re.compile("".join(parts))


def first_difference(lines, printed):
    """The first line shown that the output does not continue with."""
    for count in range(1, len(lines) + 1):
        if not printed_as(lines[:count]).match(printed):
            return lines[count - 1]
    return None if printed_as(lines).fullmatch(printed) else "the end of the output; '...' stands for further lines"


def problems_of_mark(text):
    command, mark, reason = text.partition("  " + MARK)
    if not mark or not reason.startswith(" ") or not reason.strip():
        yield f"'{text}' has another mark than '  {MARK} REASON'"
    elif subprocess.run(["sh", "-n", "-c", command], stderr=subprocess.DEVNULL).returncode != 0:
        yield f"'{command.strip()}' is no command of sh"


class Commands:
    """Runs what a README shows; `update` writes pictures, `long` runs what takes long and prints times."""

    def __init__(self, plumbline, root, update, long):
        self.plumbline, self.root, self.update, self.long, self.helps = plumbline, root, update, long, {}
        self.run_count, self.marked, self.skipped = 0, 0, 0

    def run(self, command, folder, prefix=""):
        environment = os.environ | {"PATH": f"{self.plumbline.parent}:{os.environ['PATH']}", "COLUMNS": "200", "PREFIX": str(prefix)} | AS_ROOT
        begin = time.monotonic()
        done = subprocess.run(["timeout", str(LONG_LIMIT if self.long else TIME_LIMIT), "sh", "-c", command], cwd=folder,
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if self.long:
            print(f"{time.monotonic() - begin:7.1f} s  $ {command}", flush=True)
        return done

    def problems_of_run(self, readme, text):
        """(line number, problem) of each command that a README shows with what it prints."""
        commands, bare = commands_of(text)
        for number, line in bare:
            yield number, f"'{line}' stands without '$ ', so that no test runs it"
        with tempfile.TemporaryDirectory() as base:
            folder, prefix = self.folders(Path(base))
            for one in commands:
                command, _, reason = one.text.partition("  " + MARK)
                if self.long and reason.startswith(" takes "):
                    one.text = command.rstrip()
                if "# not run" in one.text:
                    self.marked += 1
                    yield from ((one.number, problem) for problem in problems_of_mark(one.text))
                elif change := re.fullmatch(r"cd ([\w./-]+)", one.text):
                    folder = folder / change[1]
                elif re.fullmatch(r"cat [\w.-]+", one.text):
                    (folder / one.text[4:]).write_text("\n".join(one.shown()) + "\n")
                elif (one.text.startswith("build/woven/") and not (folder / one.text.split()[0]).exists()) or (one.text.startswith("mpirun ") and not shutil.which("mpirun")):
                    self.skipped += 1
                else:
                    yield from ((one.number, problem) for problem in self.problems_of(readme, one, folder, prefix))

    def folders(self, base):
        """That in which commands run, and one like that of an installation."""
        folder, prefix = base / "run", base / "prefix"
        links = {folder / name: self.root / name for name in SOURCES} | {folder / "build": self.plumbline.parent.parent}
        links |= {folder / "results" / one.name: one for one in (self.root / "results").glob("*") if one.name not in OF_RUNS}
        for link, file in links.items():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file)
        for name, source in INSTALLED.items():  # copies: an installation is nobody's source
            if (self.root / source).exists():
                (prefix / name).parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if (self.root / source).is_dir() else shutil.copy)(self.root / source, prefix / name)
        return folder, prefix

    def problems_of(self, readme, one, folder, prefix):
        command, lines = one.text, one.shown()
        done = self.run(command, folder, prefix)
        if done.returncode != 0 and MISSING.search(done.stdout):
            self.skipped += 1
            return
        self.run_count += 1
        printed = "".join(line.rstrip() + "\n" for line in done.stdout.splitlines() if not PROGRESS.search(line))
        if done.returncode not in one.statuses():
            yield f"'{command}' ends with status {done.returncode}: {printed.strip()}"
        elif lines and (line := first_difference(lines, printed)) is not None:
            yield f"'{command}' does not print what is shown: expected {line!r}, got\n{printed}"
        for name in re.findall(r"--out (\S+\.svg)", command):
            shown, file = readme.parent / name, Path(folder) / name
            made = file.read_text() if file.exists() else ""
            if shown.exists() and shown.read_text() == made:
                continue
            if self.update and made:
                shown.write_text(made)
            else:
                yield f"{name} is not what '{command}' draws; draw it by check_readmes.py --update"

    def problems_of_options(self, text):
        """(line number, problem) of each command that does not exist or lacks an option which is named with it."""
        commands = {one.number: one.text for one in commands_of(text)[0]}
        continued = {number for one in commands_of(text)[0] for number in range(one.number + 1, one.last_number + 1)}
        for number, line in enumerate(text.splitlines(), 1):
            if number in continued:
                continue
            line = "    " + commands[number] if number in commands else line
            codes = [line.partition("  #")[0]] if line.startswith("    ") else re.findall(r"`([^`]+)`", line)
            for match in filter(None, map(COMMAND.search, codes)):
                command, rest = match[1], re.split(r"\s[|#]|&&| -- ", match[2])[0]
                if self.help_of(command) is None:
                    yield number, f"there is no command 'plumbline {command}'"
                    continue
                for option in OPTION.findall(re.sub(r"'[^']*'", "", rest)):
                    if not re.search(rf"(?<![\w-]){option}(?![\w-])", self.help_of(command)):
                        yield number, f"'plumbline {command}' has no option {option}"

    def help_of(self, command):
        if command not in self.helps:
            done = self.run(f"plumbline {command} --help", ".")
            self.helps[command] = done.stdout if done.returncode == 0 else None
        return self.helps[command]


def main(plumbline, root, update, only, long=False):
    commands, wrong = Commands(plumbline, root, update, long), 0
    readmes = sorted(name for name in check_references.files_under(root) if name.endswith(("README.md", "DECISIONS.md")))
    if unknown := sorted(set(only) - set(readmes)):
        sys.exit(f"check_readmes.py: there is no README '{unknown[0]}' below {root}")
    readmes = sorted(only) or readmes
    for name in readmes:
        text = (root / name).read_text(encoding="utf-8")
        problems = list(commands.problems_of_options(text))
        problems += commands.problems_of_run(root / name, text)
        for number, problem in sorted(problems):
            print(f"{name}:{number}: {problem}")
        wrong += len(problems)
    print(f"{len(readmes)} READMEs, {commands.run_count} commands run, {commands.marked} marked as not run in tests, "
          f"{commands.skipped} skipped for what is missing, {wrong} problems")
    return 1 if wrong or commands.run_count == 0 else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("plumbline", type=Path)
    parser.add_argument("root", type=Path, nargs="?", default=Path(__file__).resolve().parent.parent)
    given = parser.parse_args()
    for path, what in ((given.plumbline, "program"), (given.root / "README.md", "README")):
        if not path.is_file():
            print(f"check_readmes.py: there is no {what} '{path}'; give the built plumbline, then the root", file=sys.stderr)
            sys.exit(2)
    sys.exit(main(given.plumbline.resolve(), given.root.resolve(), given.update, given.only, given.long))
