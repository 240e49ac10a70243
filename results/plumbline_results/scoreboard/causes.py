"""The table of causes: why a framework and the suite disagree, in TOML.

    [[disagreement]]
    id = "pushsum-two-peers"            # unique
    framework = "FairScale"             # the subject's name in its record
    versions = ["0.4.13"]               # that were seen to disagree; another version has to be looked at
    kind = "defect"                     # convention, defect (of the framework), adapter (a limit of its adapter) or ours
    title = "PushSum frees messages that are still being sent"
    cases = ["gossip.trace.fair*"]      # ids of cases with * and ?; none: a defect that no case asks, shown beside the others
    requirements = ["GOSSIP-0*"]        # where there are cases: what of them it explains
    verdict = ["fail", "crash"]         # optional: fail, refuse, hang, crash, flake, warn; without it fail and warn, so no crash
    what = "* is not a tree*"           # optional: the first words of the failure, with * and ?
    recorded = ["groups/graphs[args.size=4]: peers*"]  # optional: what `plumbline vectors` finds different, as FILE: DIFFERENCE with * and ?,
                                        # in brackets the arguments of the questions, by their paths; one that is null has no value
    text = "…"                          # what differs and why
    suite = "…"                         # of a convention: the source of the suite's rule
    framework_source = "…"              # of a convention or a defect: the source of the framework's
    reproduction = "defects/fairscale_push_sum.py"  # of a defect: a program without Plumbline, beside the table
"""

import fnmatch
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from ..options import BadInput, Failed

KINDS = {
    "convention": ("title", "text", "suite", "framework_source"),
    "defect": ("title", "text", "framework_source", "reproduction"),
    "adapter": ("title", "text"),
    "ours": ("title", "text"),
}
TEXTS = ("id", "framework", "kind", "title", "text", "suite", "framework_source", "reproduction", "what")
LISTS = ("versions", "cases", "requirements", "verdict", "recorded")
RECORDED = re.compile(r"(?P<file>[^\[\]: ]+)(\[(?P<asked>[^\[\]]+)\])?: (?P<difference>.+)")
VERDICTS = ("fail", "refuse", "hang", "crash", "flake", "warn")


@dataclass
class Cause:
    id: str
    framework: str
    kind: str
    versions: list
    cases: list = field(default_factory=list)
    requirements: list = field(default_factory=list)
    verdict: list = field(default_factory=lambda: ["fail", "warn"])
    what: str = "*"
    title: str = ""
    text: str = ""
    suite: str = ""
    framework_source: str = ""
    reproduction: str = ""
    recorded: list = field(default_factory=list)
    matches: int = 0

    def is_of(self, framework, version):
        return self.framework == framework and any(fnmatch.fnmatchcase(version, one) for one in self.versions)

    def explains(self, framework, version, found):
        return (
            self.is_of(framework, version)
            and any(_fits(found.case, one) for one in self.cases)
            and any(_fits(found.requirement, one) for one in self.requirements)
            and found.judgement in self.verdict
            and _fits(found.what, self.what)
        )

    def explains_recorded(self, framework, version, file, args, difference):
        return self.is_of(framework, version) and any(_fits_recorded(RECORDED.fullmatch(one), file, args, difference) for one in self.recorded)


def _fits_recorded(pattern, file, args, difference):
    asked = [one.partition("=") for one in (pattern["asked"] or "").split(",") if one]
    return _fits(file, pattern["file"]) and _fits(difference, pattern["difference"]) and all(_has(args, name, value) for name, _, value in asked)


def _has(args, path, value):
    """Whether a question has an argument of this value: init.max_scale is field max_scale of argument init."""
    for name in path.split("."):
        args = args.get(name) if isinstance(args, dict) else None
    return args is not None and _fits(args if isinstance(args, str) else json.dumps(args), value)


def _fits(value, pattern):
    """* and ? alone have a meaning."""
    return fnmatch.fnmatchcase(value, pattern.replace("[", "[[]"))


def _cause(where, row, folder):
    if not isinstance(row, dict):
        raise BadInput(f"{where}: not a table; write [[disagreement]]")
    unknown = sorted(set(row) - {*TEXTS, *LISTS})
    if unknown:
        raise BadInput(f"{where}: unknown key '{unknown[0]}'; there are {', '.join((*TEXTS, *LISTS))}")
    for name in TEXTS:
        if name in row and (not isinstance(row[name], str) or not row[name].strip()):
            raise BadInput(f"{where}: {name} is not a text")
    for name in LISTS:
        if name in row and (not isinstance(row[name], list) or not row[name] or not all(isinstance(one, str) for one in row[name])):
            raise BadInput(f"{where}: {name} is not a list of texts")
    kind = row.get("kind", "")
    if kind not in KINDS:
        raise BadInput(f"{where}: kind '{kind}'; it is {', '.join(KINDS)}")
    asked = ("cases", "requirements") if kind != "defect" or "cases" in row else ()
    for name in ("id", "framework", "versions", *asked, *KINDS[kind]):
        if name not in row:
            raise BadInput(f"{where}: {name} is missing; kind {kind} has {', '.join((*asked, *KINDS[kind]))}")
    for one in row.get("recorded", []):
        found = RECORDED.fullmatch(one)
        if not found or not all("=" in condition for condition in (found["asked"] or "=").split(",")):
            raise BadInput(f"{where}: recorded '{one}'; it is FILE: DIFFERENCE or FILE[ARGUMENT=VALUE,...]: DIFFERENCE")
    for one in row.get("verdict", []):
        if one not in VERDICTS:
            raise BadInput(f"{where}: verdict '{one}'; it is {', '.join(VERDICTS)}")
    if "reproduction" in row and not (folder / row["reproduction"]).is_file():
        raise BadInput(f"{where}: reproduction '{row['reproduction']}' is no file beside the table")
    return Cause(**row)


def load_causes(path):
    """The entries of the table at `path`. Throws BadInput."""
    try:
        import tomllib
    except ModuleNotFoundError:
        raise Failed("a table of causes is TOML, which Python reads from 3.11 on") from None
    path = Path(path)
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; --causes names a table in TOML") from None
    except ValueError as error:
        raise BadInput(f"{path}: not TOML: {error}") from None
    if set(data) - {"disagreement"} or not isinstance(data.get("disagreement", []), list):
        raise BadInput(f"{path}: it has [[disagreement]] alone")
    causes = [_cause(f"{path}: entry {at}", row, path.parent) for at, row in enumerate(data.get("disagreement", []), 1)]
    for at, cause in enumerate(causes):
        if cause.id in [one.id for one in causes[:at]]:
            raise BadInput(f"{path}: id '{cause.id}' twice; an id is unique")
    return causes
