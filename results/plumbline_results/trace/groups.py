"""Which ranks are in which process group: what dumps say, what the caller says, or what was seen."""

import re

from ..options import BadInput
from .fields import MOST_RANKS
from .model import Group, ranks_text

OPTION = re.compile(r"([^=]+)=(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)")
DEFAULT = "default_pg"


def parse_option(text):
    """`NAME=0,2-4` as (name, ranks). Throws BadInput."""
    found = OPTION.fullmatch(text)
    if not found:
        raise BadInput(f"--group '{text}'; NAME=RANKS would be right, as 1=0,2-3")
    ranks = []
    for word in found.group(2).split(","):
        first, _, last = word.partition("-")
        last = last or first
        if len(last) > 7 or int(last) >= MOST_RANKS:
            raise BadInput(f"--group '{text}': {word} is more than there may be; ranks 0 to {MOST_RANKS - 1} would be right")
        ranks.extend(range(int(first), int(last) + 1))
    if not ranks or len(set(ranks)) != len(ranks):
        raise BadInput(f"--group '{text}'; each rank once would be right")
    return found.group(1), ranks


def separate(files):
    """Groups of several memberships under one name, as of a mesh whose processes each count their own: each gets a name of its own."""
    for name in {name for one in files.values() for name in one.configured}:
        of_rank = {rank: frozenset(one.configured[name]) for rank, one in files.items() if name in one.configured}
        several = set(of_rank.values())
        if len(several) > 1 and sum(map(len, several)) == len(frozenset().union(*several)):
            for rank, members in of_rank.items():
                _rename(files[rank], name, f"{name} of {ranks_text(members)}")


def _rename(one, name, new):
    one.entries = [entry._replace(group=new) if entry.group == name else entry for entry in one.entries]
    for table in one.configured, one.descriptions, one.enqueued:
        if name in table:
            table[new] = table.pop(name)
    if hasattr(one, "calls"):
        one.calls = [(new if group == name else group, *rest) for group, *rest in one.calls]


def find_groups(dumps, named, world):
    """Of all dumps (rank -> Dump): name -> Group. `named` is what the caller said, `world` the number of ranks or 0."""
    descriptions, configured, seen = {}, {}, {}
    for dump in dumps.values():
        descriptions.update({name: text for name, text in dump.descriptions.items() if text})
        configured.update(dump.configured)
        for name in {entry.group for entry in dump.entries} | set(dump.enqueued):
            seen.setdefault(name, set()).add(dump.rank)
    size = world or max([max(dumps) + 1] + [max(ranks) + 1 for ranks in configured.values()])
    groups = {}
    for name in sorted(set(seen) | set(configured) - {""} | set(named)):
        ranks, source = _ranks_of(name, descriptions.get(name, ""), named, configured, seen, size)
        groups[name] = Group(name, descriptions.get(name, ""), ranks, source)
    unknown = [name for name in named if name not in seen and name not in configured]
    if unknown:
        raise BadInput(f"--group '{unknown[0]}': no dump has a group of that name; their groups are {', '.join(sorted(seen))}")
    return groups


def _ranks_of(name, description, named, configured, seen, size):
    if name in named:
        return named[name], "option"
    if name in configured:
        return configured[name], "dump"
    if description == DEFAULT:
        # Gloo gives the ranks of the default group without its name.
        whole = configured.get("", [])
        return list(range(max(size, len(whole)))), "default"
    return sorted(seen.get(name, ())), "seen"
