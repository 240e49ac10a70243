#!/usr/bin/env python3
"""Fails when a comment, a README, a message or a CMake text names a source file or folder that is not
there: files move, and what is said of them stays. Fails, too, when a question of reference/QUESTIONS.md names a section that its
component's README does not have, or a component has not ten of them.

usage: check_references.py [ROOT]

A name stands for a file if it is the end of its path. A name without a folder counts in comments and READMEs alone, and one
whose first folder is nowhere in ROOT is of another project.
"""
import ast, io, re, subprocess, sys, tokenize
from pathlib import Path

NAME = re.compile(r"(?<![\w./*<>{}$@-])((?:[\w-]+/)*[\w-]+(?:\.[\w-]+)*\.(?:hpp|cpp|cuh?|py|md|cmake|toml))(?![\w/(*-])(?!\.\w)")
FOLDER = re.compile(r"(?<![\w./*<>{}$@-])((?:benchmarks|ci|conformance|harness|reference)(?:/[\w-]+)+)/?(?![\w/.*<{(-])")
TEXTS = (".cpp", ".hpp", ".cu", ".inc", ".py", ".md", ".cmake", ".toml", "CMakeLists.txt")
# What users write, other projects have, or a build or a test makes.
ELSEWHERE = {"FILE.py", "STATEMENT.md", "SUBJECT.toml", "a.py", "adapter.py", "common.toml", "digits.md", "job.py", "my_adapter.py",
             "p2p_communication.py", "parts.cmake",
             "pipeline_parallel_layer_layout.py", "plumblineConfig.cmake", "plumblineConfigVersion.cmake", "plumblineTargets.cmake",
             "schedules.py", "spec.toml", "topology.py", "torch_job.py", "train.py", "transformer_config.py",
             "version.py"}


def comments_of(name, text):
    """The parts of a text in which files are named, a line each: (number, line)."""
    if name.endswith((".cpp", ".hpp", ".cu", ".inc")):
        return [(number, line[line.index("//"):]) for number, line in enumerate(text.splitlines(), 1) if re.search(r"(^|\s)//", line)]
    if name.endswith(".py"):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        found = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
        return found + list(enumerate((ast.get_docstring(ast.parse(text), clean=False) or "").splitlines(), 1))
    if name.endswith(".toml"):
        return [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.startswith("#")]
    return list(enumerate(text.splitlines(), 1))


def files_under(root):
    """Those that git does not ignore, or all where there is no git."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        return [name for name in listed.stdout.split("\0") if name and (root / name).exists()]
    return [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]


def stale(name, text, there, folders):
    """The names in a text that are no file's: (number, name). `there` has all ends of paths, `folders` all folders' paths and names."""
    all_lines = [] if "_test." in name else enumerate(text.splitlines(), 1)  # a test makes files up
    lines = [(number, found) for number, line in all_lines for found in NAME.findall(line) if "/" in found]
    lines += [(number, found) for number, line in comments_of(name, text) for found in NAME.findall(line)]
    lines += [(number, found) for number, line in comments_of(name, text) for found in FOLDER.findall(line) if found not in folders]
    for number, found in sorted(set(lines)):
        first, *rest = found.split("/")
        if found not in there and (first in folders if rest else found not in ELSEWHERE):
            yield number, found


def unanswered(root):
    """What is wrong with the questions: (line, words)."""
    questions = root / "reference/QUESTIONS.md"
    asked, sections, component = {}, set(), None
    for number, line in enumerate(questions.read_text(encoding="utf-8").splitlines() if questions.exists() else [], 1):
        if line.startswith("## "):
            component = line[3:]
            readme = root / "reference" / component / "README.md"
            text = readme.read_text(encoding="utf-8") if readme.exists() else ""
            sections = {"start", *(one[3:] for one in text.splitlines() if one.startswith("## "))}
            asked[component] = [number, 0]
        elif one := re.match(r"\d+\. .*\?.* \[(.*)\]$", line):
            asked[component][1] += 1
            if one[1] not in sections:
                yield number, f"{component} has no section '{one[1]}'"
    for component, (number, count) in asked.items():
        if count != 10:
            yield number, f"{component} has {count} questions, it has ten"


def main(root):
    files = [name.split("/") for name in files_under(root)]
    there = {"/".join(parts[at:]) for parts in files for at in range(len(parts))}
    folders = {name for parts in files for at, part in enumerate(parts[:-1]) for name in ("/".join(parts[:at + 1]), part)}
    looked_at, wrong = 0, 0
    for name in sorted("/".join(parts) for parts in files):
        if not name.endswith(TEXTS):
            continue
        looked_at += 1
        for number, found in stale(name, (root / name).read_text(encoding="utf-8"), there, folders):
            wrong += 1
            print(f"{name}:{number}: there is no file '{found}'; name it as it is, or put it into ELSEWHERE if it is none of ours")
    for number, words in unanswered(root):
        wrong += 1
        print(f"reference/QUESTIONS.md:{number}: {words}")
    print(f"{looked_at} files, {wrong} names of files that are not there")
    return 1 if wrong or looked_at == 0 else 0


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    if len(sys.argv) > 2 or not root.is_dir():
        print(f"check_references.py: give one folder; got '{' '.join(sys.argv[1:])}'", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(root))
