"""Runs the commands of README.md in their order, as from an installed package, and compares what they print: each line that the README
shows must be printed, whatever the numbers in it.

usage: readme_test.py PLUMBLINE HEADER SAMPLES README [--whole]

  --whole  run all of the run for a statement, and print each command with its time (ci/diary); without it that run ends after some
           seconds, and there must be nothing to submit
"""
import os, re, shutil, subprocess, sys, tempfile, time, unittest
from pathlib import Path

PLUMBLINE, HEADER, SAMPLES, README = (Path(argument).resolve() for argument in sys.argv[1:5])
WHOLE = sys.argv[5:] == ["--whole"]
BUDGET = 5  # seconds of a run for a statement that is not whole


def steps():
    """(command, lines that it prints), as indented by four blanks."""
    found = []
    for line in README.read_text().splitlines():
        if line.startswith("    $ "):
            found.append((line[6:], []))
        elif line.startswith("    "):
            found[-1][1].append(line[4:])
    return found


def without_numbers(line):
    return re.sub(r"\d+([.-]\d+)*", "N", line)


def without_whole_run(command, shown):
    """The command, the status that it ends with, and what it prints, where the run for a statement is cut."""
    if " --statement " in command:
        return f"{command} --budget {BUDGET}", 3, []
    if command.startswith("plumbline submit run "):
        return command, 1, ["NOT OK: there is nothing to submit: 1 problem"]
    if command.startswith("plumbline verify "):
        return command, 2, []
    return command, 1 if any(line.startswith("NOT OK") for line in shown) else 0, shown


class Readme(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder, self.begin = Path(temporary.name), time.monotonic()
        prefix = self.folder / "prefix"
        (prefix / "include/plumbline").mkdir(parents=True)
        shutil.copy(HEADER, prefix / "include/plumbline")
        shutil.copytree(SAMPLES, prefix / "share/plumbline/samples/plugin")
        self.environment = os.environ | {"PREFIX": str(prefix), "PATH": f"{PLUMBLINE.parent}:{os.environ['PATH']}"}

    def run_step(self, command, status, shown):
        begin = time.monotonic()
        done = subprocess.run(command, shell=True, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=None if WHOLE else 300)
        if WHOLE:
            print(f"{time.monotonic() - self.begin:7.1f} s  $ {command}  ({time.monotonic() - begin:.1f} s)", flush=True)
        self.assertEqual(done.returncode, status, f"{command}\n{done.stdout}")
        printed = {without_numbers(line) for line in done.stdout.splitlines()}
        for line in shown:
            self.assertIn(without_numbers(line), printed, f"{command}\n{done.stdout}")
        if command.startswith("cd "):
            self.folder = self.folder / command[3:]

    def test_every_command_does_what_it_shows(self):
        commands = [command for command, _ in steps()]
        for part in (" --statement ", "plumbline submit run ", "plumbline verify "):
            self.assertEqual(sum(part in command for command in commands), 1, part)
        for command, shown in steps():
            fails = any(line.startswith("NOT OK") for line in shown)
            self.run_step(*((command, 1 if fails else 0, shown) if WHOLE else without_whole_run(command, shown)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
