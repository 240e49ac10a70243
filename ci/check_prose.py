#!/usr/bin/env python3
"""Fails when a README or a comment of a public header is written in words that a reader has to guess at, or when a comment of any
source says `behind` or `ahead of` where it means after or before.

usage: check_prose.py [ROOT]

Public headers are those of reference/ outside of detail/, and those that a backend is written with. Code, indented or between backticks, is not prose. The help of each command is
held to the same words by harness/cli/cli_test.py.
"""
import ast, io, re, subprocess, sys, tokenize
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import check_requirements

# Of a requirement's words, those that are plain English where no rank is meant: a README has readers, and a message says something.
PLAIN_IN_PROSE = {r"who|whoever|nobody|somebody|one another", r"is told|are told|is said|are said|says|say", r"refuses?|refused|refusal"}
BANNED = {pattern: meant for pattern, meant in check_requirements.BANNED.items() if pattern not in PLAIN_IN_PROSE} | {
    r"whoever|nobody|somebody|one another": "any rank, no rank, a caller, each other",
    r"is told|are told": "receives, is reported",
    r"refus\w+": "rejects, rejected with the error",
    r"that there are|is there": "existing, exists, ready, present",
    r"asked for": "requested",
    r"no numbers?": "NaN, non-finite",
    r"phone books?": "peer list",
    r"encounters?": "exchange, match",
    r"masters": "master weights",
    r"slow buffers": "slow momentum buffers",
}
# What may stand: FairScale's word beside ours, the name of a type, what remains, and what is reached through something else.
ALLOWED = re.compile(r"FairScale: phone book|Throws Refused|(?i:lags behind|(?:leaves?|left|leaving)(?! for)(?: [\w']+){0,3} behind"
                     r"|behind (?:[\w']+ ){1,2}(?:doors?|adapters?|links?|prox(?:y|ies))\b)")
FORMS = {pattern: re.compile(rf"(?i)(?<![\w-])(?:{pattern})(?![\w-])") for pattern in BANNED}
# Comments of all sources are held to these.
IN_SOURCES = {pattern: FORMS[pattern] for pattern in (r"behind|ahead of",)}
CPP = (".c", ".cpp", ".hpp", ".h", ".inc", ".cu", ".cuh")


def problems_of(line, forms=FORMS):
    """What is wrong with a line of prose."""
    plain = ALLOWED.sub("", re.sub(r"`[^`]*`", "", line))
    for pattern, form in forms.items():
        if found := form.search(plain):
            yield f"says '{found[0]}'; write: {BANNED[pattern]}"


def docstrings_of(text):
    """The lines of a Python source's docstrings: (number, line)."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node) is not None:
            yield from enumerate(node.body[0].value.value.splitlines(), node.body[0].value.lineno)


def prose_of(name, text):
    """The lines of a file that are prose: (number, line)."""
    if name.endswith(".py"):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        comments = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
        yield from sorted([*comments, *docstrings_of(text)])
        return
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if name.endswith(CPP):
            if comment := re.search(r"(?:^|\s)(?://|/\*).*|^\s*\* .*", line):
                yield number, comment[0]
            continue
        fence = line.startswith("```")
        fenced ^= fence
        if not fence and not fenced and not line.startswith("    "):
            yield number, line


def is_prose(name):
    """Whether a file has a README's or a public header's text. Records of results are what programs printed."""
    if name.endswith(".md"):
        return not name.startswith("results/")
    if name in ("harness/subject/backend.hpp", "harness/subject/plumbline_backend.h"):
        return True
    return name.startswith("reference/") and name.endswith(".hpp") and "/detail/" not in name and not name.endswith("_test.hpp")


def is_source(name):
    """Whether a file's comments are held to IN_SOURCES."""
    folder, _, file = name.partition("/")
    return folder in ("benchmarks", "ci", "conformance", "harness", "reference") and file.endswith((*CPP, ".py"))


def main(root):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True)
    names = [name for name in listed.stdout.split("\0") if name] or [path.relative_to(root).as_posix() for path in root.rglob("*")]
    files, wrong = 0, 0
    for name in sorted(names):
        if not (is_prose(name) or is_source(name)) or not (root / name).is_file():
            continue
        files += 1
        forms = FORMS if is_prose(name) else IN_SOURCES
        for number, line in prose_of(name, (root / name).read_text(encoding="utf-8")):
            for problem in problems_of(line, forms):
                wrong += 1
                print(f"{name}:{number}: {problem}")
    print(f"{files} files, {wrong} problems")
    return 1 if wrong or files == 0 else 0


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    if len(sys.argv) > 2 or not root.is_dir():
        print(f"check_prose.py: give one folder; got '{' '.join(sys.argv[1:])}'", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(root))
