"""`plumbline trace check DIR`: what is wrong in what a distributed run left."""

import argparse

from ..options import BadInput, parser, status_of, whole
from ..writing import write
from .fields import MOST_RANKS

FORMATS = ("text", "md", "json")
HELP = """Read the flight-recorder dumps or the profiles of all ranks of a PyTorch job, and name the ranks that made it hang or go wrong: calls
that one rank skipped, made too often or made with another size, dtype or operation; groups entered in crossed order; ranks that never
entered what others wait in; sends without receives. Findings that are causes come first. Dumps are files PREFIX and the rank,
pickled or as JSON (.json), of version 2.x; a pickle that is more than plain data is rejected. Profiles are what torch.profiler's
export_chrome_trace wrote (.json, .json.gz); of those, time in communication, how much of it computation overlaps, and waiting are listed for
each rank."""
EXAMPLE = """Example: plumbline trace check /tmp/dumps --format md --out findings.md
         plumbline trace check /tmp/profiles --plan schedule.csv
Exit status: 0 nothing found; 1 findings; 2 a bad option, folder, dump or profile; 3 the report could not be written."""


def _seconds(text):
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds above 0")
    return value


def _options():
    one = parser("trace check", HELP, EXAMPLE)
    one.add_argument("folder", metavar="DIR", help="folder with the dumps or profiles of all ranks")
    one.add_argument("--prefix", default="", metavar="PREFIX", help="read only files whose name begins so (default: all)")
    one.add_argument("--group", action="append", default=[], metavar="NAME=RANKS",
                     help="members of a process group, as 1=0,2-3, where dumps lack them (gloo); may be repeated")
    one.add_argument("--world-size", "--world", dest="world", type=whole("world", 1, MOST_RANKS), default=0, metavar="N",
                     help="number of ranks of the job (default: what the dumps show)")
    one.add_argument("--late", type=_seconds, default=60.0, metavar="SECONDS",
                     help="a rank is late when it enters a collective so long after most others (default 60 s)")
    one.add_argument("--plan", metavar="FILE",
                     help="CSV of a pipeline schedule, a line a rank: compare the order of actions in the profiles with it, and measure "
                     "the bubble")
    one.add_argument("--format", default="text", metavar="FORMAT", help="text, md (Markdown) or json (default text)")
    one.add_argument("--out", default="-", metavar="FILE", help="where it goes (default -, standard output)")
    return one


def _run(arguments):
    if arguments[:1] in (["--help"], ["-h"]) or not arguments or arguments[0] != "check":
        if arguments and arguments[0] not in ("--help", "-h"):
            raise BadInput(f"no command '{arguments[0]}'; it is plumbline trace check DIR")
        if not arguments:
            raise BadInput("no command; it is plumbline trace check DIR (see plumbline trace check --help)")
        arguments = ["check", "--help"]
    from .folder import read_folder
    from .groups import parse_option
    from .judge import Judged, JudgedProfiles
    from .plan import read_plan
    from .rendering import render

    options = _options().parse_args(arguments[1:])
    if options.format not in FORMATS:
        raise BadInput(f"--format '{options.format}'; it is text, md or json")
    named = dict(map(parse_option, options.group))
    plan = read_plan(options.plan) if options.plan else None
    dumps, profiles = read_folder(options.folder, options.prefix)
    if plan and not profiles:
        raise BadInput(f"--plan {options.plan}: {options.folder} has no profile to compare it with")
    last = max([*dumps, *profiles])
    if options.world and last >= options.world:
        raise BadInput(f"--world-size {options.world}: there is a file of rank {last}, {(dumps.get(last) or profiles[last]).file}")
    judged = [Judged(dumps, named, options.world, options.late)] if dumps else []
    if profiles:
        judged.append(JudgedProfiles(profiles, named, options.world, plan))
    write(options.out, render(judged, options.format))
    return 1 if any(one.findings for one in judged) else 0


def main(arguments):
    """Returns the exit status."""
    return status_of("trace", lambda: _run(arguments))
