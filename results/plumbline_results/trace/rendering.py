"""The report: text for a terminal, Markdown for a CI job, JSON for programs."""

import json
from datetime import datetime, timezone

from .model import ranks_text, stack_of

SCHEMA = "plumbline-trace-1"


def render(judged, form):
    """Of a list of Judged: dumps, profiles, or both."""
    if form == "json":
        return json.dumps(as_json(judged), indent=1, ensure_ascii=False) + "\n"
    return "".join(map(_markdown if form == "md" else _text, judged))


def as_json(judged):
    result = {"schema": SCHEMA, "dumps": [], "profiles": [], "pipeline": [], "groups": [], "collectives": 0, "findings": [], "notes": []}
    for one in judged:
        result[one.kind + "s"] = _files_json(one)
        result["groups"] += [{"from": one.kind, "name": group.name, "description": group.description, "ranks": group.ranks,
                              "source": group.source} for group in one.groups.values()]
        result["pipeline"] += [{"rank": idle.rank, "steps": idle.steps, "bubble": idle.bubble,
                                **{f"{name}_us": getattr(idle, name) for name in IDLE}} for idle in one.idles]
        result["collectives"] += one.collectives
        result["findings"] += [{"from": one.kind, **_finding_json(one, finding)} for finding in one.findings]
        result["notes"] += one.notes
    return result


def _files_json(judged):
    if judged.kind == "dump":
        return [{"rank": rank, "file": dump.file, "version": dump.version, "entries": len(dump.entries),
                 "first_lost": dump.entries[0].record if dump.lost else 0} for rank, dump in sorted(judged.files.items())]
    return [{"rank": one.rank, "file": judged.files[one.rank].file, "calls": len(judged.files[one.rank].entries),
             "span_us": one.span, "computation_us": one.computation, "communication_us": one.communication,
             "overlapped_us": one.overlapped, "waiting_us": one.waiting} for one in judged.measured]


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


def _others_site(finding):
    return finding.others_site if finding.others_site != finding.site else ""


def _details(finding):
    if finding.expected:
        yield "expected", finding.expected
    yield "got", finding.got
    if finding.site:
        yield "call site", finding.site
    if _others_site(finding):
        yield "others'", _others_site(finding)
    if finding.waiting:
        yield "held up", ranks_text(finding.waiting) + (f", since {_time(finding.since_ns)}" if finding.since_ns else "")


def _summary(judged):
    causes = sum(finding.is_cause for finding in judged.findings)
    files = len(judged.files)
    verdict = "no finding" if not judged.findings else (
        f"{len(judged.findings)} finding{'s' if len(judged.findings) > 1 else ''}, {causes} of them a cause")
    return (f"{judged.title}: {files} rank{'s' if files > 1 else ''}, {len(judged.groups)} group"
            f"{'s' if len(judged.groups) != 1 else ''}, {judged.collectives} collectives: {verdict}")


def _text(judged):
    lines = []
    for number, finding in enumerate(judged.findings, 1):
        lines.append(f"{number}. {_head(judged, finding)}")
        lines.extend(f"     {name:<9}  {value}" for name, value in _details(finding))
    lines.extend(_measured_text(judged))
    lines.extend(_idle_text(judged))
    lines.extend(f"note: {note}" for note in judged.notes)
    lines.append(_summary(judged))
    return "".join(_plain(line) + "\n" for line in lines)


TIMES = ("span", "computation", "communication", "overlapped", "waiting")


IDLE = ("window", "computation", "waiting", "transfer", "other")


def _times(one, names=TIMES):
    return [f"{getattr(one, name) / 1000:.3f} ms" for name in names]


def _measured_text(judged):
    if judged.measured:
        yield "rank" + "".join(f"{name:>16}" for name in TIMES)
    for one in judged.measured:
        yield f"{one.rank:>4}" + "".join(f"{text:>16}" for text in _times(one))


def _idle_text(judged):
    if judged.idles:
        yield "rank" + "".join(f"{name:>16}" for name in IDLE) + "    bubble"
    for one in judged.idles:
        yield f"{one.rank:>4}" + "".join(f"{text:>16}" for text in _times(one, IDLE)) + f"{one.bubble:>10.1%}"


def _cell(text):
    for sign in "\\`*_[]<>|&#":
        text = text.replace(sign, "\\" + sign)
    return _plain(text)


def _markdown(judged):
    lines = [f"## Trace check: {judged.title}", "", _summary(judged), ""]
    if judged.findings:
        lines += ["| # | kind | ranks | group | seq | finding | expected | got | call site | others' call site | held up |", "|" + " --- |" * 11]
    for number, one in enumerate(judged.findings, 1):
        held = ranks_text(one.waiting) if one.waiting else ""
        cells = [str(number), one.kind, ranks_text(one.ranks).partition(" ")[2], str(judged.groups.get(one.group, "")),
                 f"{one.seq}", one.text, one.expected, one.got, one.site, _others_site(one), held]
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    if judged.measured:
        lines += ["", "| rank | " + " | ".join(TIMES) + " |", "|" + " --- |" * (len(TIMES) + 1)]
        lines += [f"| {one.rank} | " + " | ".join(_times(one)) + " |" for one in judged.measured]
    if judged.idles:
        lines += ["", "| rank | " + " | ".join(IDLE) + " | bubble |", "|" + " --- |" * (len(IDLE) + 2)]
        lines += [f"| {one.rank} | " + " | ".join(_times(one, IDLE)) + f" | {one.bubble:.1%} |" for one in judged.idles]
    lines += [""] + [f"- {_cell(note)}" for note in judged.notes]
    return "\n".join(lines) + "\n"
