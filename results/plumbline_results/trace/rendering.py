"""The report: text for a terminal, Markdown for a CI job, JSON for programs."""

import json
from datetime import datetime, timezone

from .model import ranks_text, stack_of

SCHEMA = "plumbline-trace-1"


def render(judged, form):
    if form == "json":
        return json.dumps(as_json(judged), indent=1, ensure_ascii=False) + "\n"
    return _markdown(judged) if form == "md" else _text(judged)


def as_json(judged):
    return {
        "schema": SCHEMA,
        "dumps": [{"rank": dump.rank, "file": dump.file, "version": dump.version, "entries": len(dump.entries),
                   "first_lost": dump.entries[0].record if dump.lost else 0}
                  for _, dump in sorted(judged.dumps.items())],
        "groups": [{"name": group.name, "description": group.description, "ranks": group.ranks, "source": group.source}
                   for group in judged.groups.values()],
        "collectives": judged.collectives,
        "findings": [_finding_json(judged, finding) for finding in judged.findings],
        "notes": judged.notes,
    }


def _finding_json(judged, finding):
    return {
        "kind": finding.kind,
        "ranks": finding.ranks,
        "is_cause": finding.is_cause,
        "group": finding.group,
        "group_description": _description(judged, finding),
        "seq": finding.seq,
        "op": finding.op,
        "text": finding.text,
        "expected": finding.expected,
        "got": finding.got,
        "site": finding.site,
        "others_site": finding.others_site,
        "waiting": finding.waiting,
        "since_ns": finding.since_ns,
        "frames": stack_of(finding.frames),
    }


def _description(judged, finding):
    group = judged.groups.get(finding.group)
    return group.description if group else ""


def _plain(text):
    """A dump may come from a stranger: what would steer a terminal is shown as a number."""
    return "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text)


def _time(nanoseconds):
    try:
        at = datetime.fromtimestamp(nanoseconds / 1e9, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return f"{nanoseconds} ns"
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d} UTC"


def _head(judged, finding):
    group = judged.groups.get(finding.group)
    where = f"{finding.op + ' ' if finding.op else ''}#{finding.seq} of {group}" if group else finding.op
    return f"{finding.kind}: {ranks_text(finding.ranks)}, {where}: {finding.text}"


def _details(finding):
    yield "expected", finding.expected
    yield "got", finding.got
    if finding.site:
        yield "call site", finding.site
    if finding.others_site and finding.others_site != finding.site:
        yield "others'", finding.others_site
    if finding.waiting:
        yield "held up", ranks_text(finding.waiting) + (f", since {_time(finding.since_ns)}" if finding.since_ns else "")


def _summary(judged):
    causes = sum(finding.is_cause for finding in judged.findings)
    files = len(judged.dumps)
    verdict = "no finding" if not judged.findings else (
        f"{len(judged.findings)} finding{'s' if len(judged.findings) > 1 else ''}, {causes} of them a cause")
    return (f"flight recorder: {files} rank{'s' if files > 1 else ''}, {len(judged.groups)} group"
            f"{'s' if len(judged.groups) != 1 else ''}, {judged.collectives} collectives: {verdict}")


def _text(judged):
    lines = []
    for number, finding in enumerate(judged.findings, 1):
        lines.append(f"{number}. {_head(judged, finding)}")
        lines.extend(f"     {name:<9}  {value}" for name, value in _details(finding))
    lines.extend(f"note: {note}" for note in judged.notes)
    lines.append(_summary(judged))
    return "".join(_plain(line) + "\n" for line in lines)


def _cell(text):
    for sign in "\\`*_[]<>|&#":
        text = text.replace(sign, "\\" + sign)
    return _plain(text)


def _markdown(judged):
    lines = ["## Trace check", "", _summary(judged), ""]
    if judged.findings:
        lines += ["| # | kind | ranks | group | seq | finding | expected | got | call site | held up |", "|" + " --- |" * 10]
    for number, one in enumerate(judged.findings, 1):
        held = ranks_text(one.waiting) if one.waiting else ""
        cells = [str(number), one.kind, ranks_text(one.ranks).partition(" ")[2], str(judged.groups.get(one.group, "")),
                 f"{one.seq}", one.text, one.expected, one.got, one.site, held]
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    lines += [""] + [f"- {_cell(note)}" for note in judged.notes]
    return "\n".join(lines) + "\n"
