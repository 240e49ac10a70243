#!/usr/bin/env python3
"""Fails when C++ is not as clang-format writes it (.clang-format), or a comment is longer than 120 columns.

usage: check_format.py [--write] [ROOT]

--write puts both right. Without clang-format of the pinned version the formatting is skipped, in one line and with status 77.
"""
import argparse, os, re, shutil, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PIN = "23.1.5"  # other versions break lines in other places
COLUMNS = 120
SUFFIXES = {".cpp", ".hpp", ".h", ".inc", ".cu", ".cuh"}
COMMENT = re.compile(r"( *//[/!]?)( .*)$")
# "// Model   text", "// name  text", "//  - text": what the next lines of the same text stand under.
LABEL = re.compile(r" *(?:[-*] +|\d+\. +|\S(?:.{0,38}?\S)? {2,})(?=\S)")
# "// Devices text": seven letters fill the column of labels.
FULL_LABEL = re.compile(r"// [A-Z][a-z]{6} (?=\S)")
AMONG_LABELS = re.compile(r"// ( {8}| ?[A-Z]\w+ {2,})(?=\S)")


def sources(root):
    return sorted(file for folder in ("benchmarks", "ci", "conformance", "harness", "reference")
                  for file in (root / folder).rglob("*") if file.suffix in SUFFIXES)


def clang_format(root):
    """The pinned version: on the path, or in the project's environment."""
    for name in (shutil.which("clang-format"), Path(sys.executable).parent / "clang-format", root / ".venv/bin/clang-format"):
        if name and Path(name).exists():
            said = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            if f" {PIN}" in said:
                return str(name)
    return None


def is_continued(line, following, column):
    """Whether the text of a comment goes on in the comment below it, rather than something new beginning there."""
    text = following.lstrip()
    if not text or LABEL.match(following) or len(following) - len(text) != column:
        return False
    return not (line.rstrip()[-1] in ".:;" and text[0].isupper())


def wrapped(text):
    """Comments on lines of their own, with what is beyond the last column moved to the next line of the same text."""
    lines, result = text.split("\n"), []
    while lines:
        line = lines.pop(0)
        found = COMMENT.match(line) if len(line) > COLUMNS else None
        if found:
            marker, words = found[1], found[2]
            label = LABEL.match(words)
            if not label and FULL_LABEL.match(line) and any(
                    (at := AMONG_LABELS.match(near)) and at.end() == 11 for near in result[-9:] + lines[:9]):
                label = re.match(" .{7} ", words)
            column = label.end() if label else len(words) - len(words.lstrip())
            end = line.rfind(" ", len(marker) + column + 1, COLUMNS + 1)
            if end > 0:
                rest = line[end:].strip()
                below = COMMENT.match(lines[0]) if lines else None
                if below and below[1] == marker and is_continued(line, below[2], column):
                    lines[0] = f"{marker}{' ' * column}{rest} {below[2].strip()}"
                else:
                    lines.insert(0, f"{marker}{' ' * column}{rest}")
                line = line[:end].rstrip()
        result.append(line)
    return "\n".join(result)


def long_comments(root, files, write):
    problems = []
    for file in files:
        text = file.read_text(encoding="utf-8")
        if write:
            new = wrapped(text)
            if new != text:
                file.write_text(new, encoding="utf-8")
            text = new
        problems += [f"{file.relative_to(root)}:{number}: a comment of {len(line)} columns; at most {COLUMNS}"
                     for number, line in enumerate(text.split("\n"), 1)
                     if len(line) > COLUMNS and COMMENT.match(line) and " " in line.strip()[4:COLUMNS]]
    return problems


def formatting(root, files, tool, write):
    """What clang-format finds, a line a file, at most; with `write` it is put right."""
    mode = ["-i"] if write else ["--dry-run", "-Werror", "--ferror-limit=1"]

    def look(part):
        done = subprocess.run([tool, *mode, *map(str, part)], cwd=root, capture_output=True, text=True)
        found = re.findall(r"^(\S+?:\d+):\d+: error: ", done.stderr, re.M)
        return found or ([done.stderr.strip()] if done.returncode else [])
    parts = [files[at:at + 40] for at in range(0, len(files), 40)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [place for places in pool.map(look, parts) for place in places]
    return [f"{place.removeprefix(f'{root}/')}: not as clang-format writes it; run ci/check_format.py --write" for place in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="put it right")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    asked = parser.parse_args()
    root = asked.root.resolve()
    files, tool = sources(root), clang_format(root)
    if not files:
        print(f"no source in {root}")
        return 1
    problems = formatting(root, files, tool, asked.write) if tool else []
    problems += long_comments(root, files, asked.write)
    if problems:
        print("\n".join(problems))
        return 1
    if not tool:
        print(f"skipped: clang-format {PIN} is not installed (pip install clang-format=={PIN})")
        return 77
    print(f"{len(files)} files are formatted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
