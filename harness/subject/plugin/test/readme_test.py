"""Runs the commands of README.md in their order, as from an installed package, and compares what they print: each line that the README
shows must be printed, whatever the numbers in it.

usage: readme_test.py PLUMBLINE HEADER SAMPLES README
"""
import os, re, shutil, subprocess, sys, tempfile, unittest
from pathlib import Path

PLUMBLINE, HEADER, SAMPLES, README = (Path(argument).resolve() for argument in sys.argv[1:5])


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
    return re.sub(r"\d+(\.\d+)?", "N", line)


class Readme(unittest.TestCase):
    def test_every_command_does_what_it_shows(self):
        with tempfile.TemporaryDirectory() as name:
            folder, prefix = Path(name), Path(name) / "prefix"
            (prefix / "include/plumbline").mkdir(parents=True)
            shutil.copy(HEADER, prefix / "include/plumbline")
            shutil.copytree(SAMPLES, prefix / "share/plumbline/samples/plugin")
            environment = os.environ | {"PREFIX": str(prefix), "PATH": f"{PLUMBLINE.parent}:{os.environ['PATH']}"}
            for command, shown in steps():
                done = subprocess.run(command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      text=True, timeout=300)
                fails = any(line.startswith("NOT OK") for line in shown)
                self.assertEqual(done.returncode, 1 if fails else 0, f"{command}\n{done.stdout}")
                printed = {without_numbers(line) for line in done.stdout.splitlines()}
                for line in shown:
                    self.assertIn(without_numbers(line), printed, f"{command}\n{done.stdout}")
                if command.startswith("cd "):
                    folder = folder / command[3:]


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
