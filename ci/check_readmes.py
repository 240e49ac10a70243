#!/usr/bin/env python3
"""Fails when a README shows a command that does not run, an option that does not exist, output that differs from the output
shown, or a picture that is not the one its command draws.

usage: check_readmes.py [--update] [--only README] PLUMBLINE [ROOT]

  --only     this README alone, by its path below ROOT; may be given several times
  --update   write the pictures that differ in place of reporting them

In README.md and the READMEs of reference/ each block that is indented by four blanks is read: `$ cat FILE` is followed by the
file's content, which is written; `$ plumbline ...` is run and followed by what it prints, where `...` stands for any text, and on
a line of its own for any lines. Everything runs in a folder with links to the folders of sources, and to build. A command that
needs LibTorch, torch or the woven program is skipped where that is missing. Of all READMEs the options are checked that a command
in a block or between backticks names.
"""
import argparse, os, re, subprocess, sys, tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check_references

OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
# A command, and of `bench` and `expectations` also what they do.
COMMAND = re.compile(r"(?:^|[\s/])plumbline ((?:bench |expectations |results )?[a-z][a-z_-]+)(?=\s|$)(.*)")
MISSING = re.compile(r"needs LibTorch|LibTorch is not|No module named 'torch'")
PROGRESS = re.compile(r" has been running for \d+ s")  # printed on a slow machine alone
SOURCES = ("conformance", "harness", "reference")
TIME_LIMIT = 300  # seconds a command may take


def blocks_of(text):
    """(line number, command, lines below it), of each command in an indented block."""
    found, fenced = [], False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.startswith("```")
        if fenced or not line.startswith("    "):
            if found and line:
                found[-1][3] = True
            elif found and not found[-1][3]:
                found[-1][2].append("")  # it may be a part of what is printed
        elif line.startswith("    $ "):
            found.append([number, line[6:], [], False])
        elif found and not found[-1][3]:
            found[-1][2].append(line[4:])
    return [(number, command, lines) for number, command, lines, _ in found]


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


class Commands:
    """Runs what a README shows; `update` writes pictures."""

    def __init__(self, plumbline, root, update):
        self.plumbline, self.root, self.update, self.helps, self.run_count, self.skipped = plumbline, root, update, {}, 0, 0

    def run(self, command, folder):
        environment = os.environ | {"PATH": f"{self.plumbline.parent}:{os.environ['PATH']}", "COLUMNS": "200"}
        return subprocess.run(["timeout", str(TIME_LIMIT), "sh", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)

    def problems_of_run(self, readme, text):
        """(line number, problem) of each command that a README shows with what it prints."""
        with tempfile.TemporaryDirectory() as folder:
            for name in SOURCES:
                (Path(folder) / name).symlink_to(self.root / name)
            (Path(folder) / "build").symlink_to(self.plumbline.parent.parent)
            for number, command, lines in blocks_of(text):
                while lines and not lines[-1]:
                    lines.pop()
                if re.fullmatch(r"cat [\w.-]+", command):
                    (Path(folder) / command[4:]).write_text("\n".join(lines) + "\n")
                elif command.startswith("build/woven/") and not (Path(folder) / command.split()[0]).exists():
                    self.skipped += 1
                elif re.search(r"(?:^|\| |^build/\S*/)plumbline ", command):
                    yield from ((number, problem) for problem in self.problem_of(readme, command, lines, folder))

    def problem_of(self, readme, command, lines, folder):
        done = self.run(command, folder)
        if MISSING.search(done.stdout):
            self.skipped += 1
            return
        self.run_count += 1
        printed = "".join(line.rstrip() + "\n" for line in done.stdout.splitlines() if not PROGRESS.search(line))
        if done.returncode not in (0, 1):
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
        for number, line in enumerate(text.splitlines(), 1):
            codes = [line] if line.startswith("    ") else re.findall(r"`([^`]+)`", line)
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


def main(plumbline, root, update, only):
    commands, wrong = Commands(plumbline, root, update), 0
    readmes = sorted(name for name in check_references.files_under(root) if name.endswith(("README.md", "DECISIONS.md")))
    if unknown := sorted(set(only) - set(readmes)):
        sys.exit(f"check_readmes.py: there is no README '{unknown[0]}' below {root}")
    readmes = sorted(only) or readmes
    for name in readmes:
        text = (root / name).read_text(encoding="utf-8")
        problems = list(commands.problems_of_options(text))
        if name == "README.md" or name.startswith("reference/"):
            problems += commands.problems_of_run(root / name, text)
        for number, problem in sorted(problems):
            print(f"{name}:{number}: {problem}")
        wrong += len(problems)
    print(f"{len(readmes)} READMEs, {commands.run_count} commands run, {commands.skipped} skipped for what is missing, {wrong} problems")
    return 1 if wrong or commands.run_count == 0 else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("plumbline", type=Path)
    parser.add_argument("root", type=Path, nargs="?", default=Path(__file__).resolve().parent.parent)
    given = parser.parse_args()
    for path, what in ((given.plumbline, "program"), (given.root / "README.md", "README")):
        if not path.is_file():
            print(f"check_readmes.py: there is no {what} '{path}'; give the built plumbline, then the root", file=sys.stderr)
            sys.exit(2)
    sys.exit(main(given.plumbline.resolve(), given.root.resolve(), given.update, given.only))
