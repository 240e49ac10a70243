"""A report in Markdown: whole, or as the summary of a CI job, which has what is wrong or changed, alone.

Every value is escaped: no HTML, no link, no mention of anyone, no other table than ours."""

from .escaping import code, cut, plain, raw, sentence
from .figures import figures_of
from .page import MOST_FAILURES, kills_of, profiles_of
from .verdicts import causes_first, failing, outcome_of, subject_shown, tone
from .words import counted, percent_text, seconds_text

# GitHub takes a summary of at most 1 MiB, and people read less.
MOST_BYTES = 900_000
MOST_ROWS = 60
MARK = {"good": "✅", "bad": "❌", "warn": "⚠️"}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def _runs(records):
    rows = []
    for record in records:
        outcome = outcome_of(record)
        counts = ", ".join(f"{count:,} {plain(name, 40)}" for name, count in outcome.counts.items())
        rows.append(
            [
                MARK.get(outcome.tone, ""),
                plain(subject_shown(record), 100),
                plain(record.command, 20),
                plain(record.header.get("profile"), 40),
                f"**{outcome.word}**",
                counts or plain(outcome.why, 100),
                seconds_text(record.seconds) if record.seconds else "",
                code(record.name, 120),
            ]
        )
    return table(["", "subject", "command", "profile", "verdict", "cases", "time", "record"], rows)


def _notes(records):
    lines = []
    for record in records:
        if record.torn or not record.complete:
            why = f"stopped: {plain(record.stopped)}" if record.stopped else "still going on, or killed"
            lines.append(f"⚠️ {code(record.name)} has no end ({why}).\n")
    return lines


def _failures(records):
    lines = []
    for record in records:
        groups = failing(record) if record.command != "mutants" else {}
        if not groups:
            continue
        lines.append(f"### Failures: {plain(subject_shown(record), 100)}, {counted(len(groups), 'requirement')}\n")
        for name, results in list(groups.items())[:MOST_ROWS]:
            lines += _failed_requirement(record, name, results)
        if len(groups) > MOST_ROWS:
            lines.append(f"and {counted(len(groups) - MOST_ROWS, 'further requirement')}: see the whole report.\n")
    return lines


def _failed_requirement(record, name, results):
    worst = results[0]
    sentence = record.sentence(name)
    words = f"{raw(worst.judgement, 40)}, {counted(len(results), 'case')}" + (
        f": {raw(sentence['text'])}" if sentence.get("text") else ""
    )
    lines = [
        f"<details><summary>{MARK.get(tone(worst.judgement), '')} <b>{raw(name, 100)}</b> {words}</summary>\n",
        f"{code(worst.case)}\n",
    ]
    ranks = causes_first(worst)
    quoted = ranks and ranks[0].failures and ranks[0].failures[0].message.removeprefix("Failed\n")[:200] in worst.reason
    if worst.reason and not quoted:
        lines.append(f"{plain(worst.reason, 600)}\n")
    for index, rank in enumerate(ranks[:3]):
        messages = rank.failures[: MOST_FAILURES if index == 0 else 1]
        words = [plain(one.message.removeprefix("Failed\n"), 240) for one in messages] + [plain(rank.last_event, 160)]
        cause = " (cause)" if index == 0 else ""
        lines.append(f"- rank {plain(rank.rank, 20)} **{plain(rank.verdict, 20)}**{cause} {'; '.join(filter(None, words))}".rstrip())
    if worst.repeat:
        lines.append(f"\nRepeat it alone: {code(worst.repeat, 600)}")
    return lines + ["\n</details>\n"]


def _changes(comparison):
    if comparison is None:
        return []
    lines = ["### Changes since the baseline\n"]
    other = (
        f" {counted(comparison.new, 'case or series', 'cases or series')} new, {comparison.gone} gone."
        if comparison.new or comparison.gone
        else ""
    )
    if comparison.is_empty:
        return lines + [f"Nothing that both have changed.{other}\n"]
    lines += [other.strip() + "\n"] if other else []
    for head, changes in (("requirement", comparison.requirements), ("case", comparison.cases)):
        if changes:
            rows = [
                [
                    "❌" if one.worse else "✅",
                    code(one.name),
                    plain(one.before, 40),
                    plain(one.after, 40),
                    plain(one.words, 160),
                ]
                for one in changes[:MOST_ROWS]
            ]
            lines += table(["", head, "before", "now", ""], rows)
            if len(changes) > MOST_ROWS:
                lines.append(f"and {len(changes) - MOST_ROWS} more\n")
    shifts = comparison.changed_shifts
    if shifts:
        rows = [[MARK.get(one.tone, ""), one.word, *map(plain, one.cells())] for one in shifts[:MOST_ROWS]]
        lines += table(["", "verdict", "series", "labels", "baseline", "now", "now / baseline"], rows)
        if comparison.machine:
            lines.append(f"⚠️ These times say nothing about the subject: {plain(comparison.machine)}.\n")
        lines.append(
            "Slower and faster are verdicts of `plumbline compare` on launches; longer and shorter are of times alone, of too few launches.\n"
        )
    return lines


def _survivors(records):
    lines = []
    for record in records:
        if record.command != "mutants":
            continue
        kills = kills_of(record)
        killed = sum(one.word == "killed" for one in kills)
        lines.append(f"### Mutants: {killed} of {len(kills)} killed\n")
        rest = [one for one in kills if one.word != "killed"]
        if rest:
            lines += table(
                ["mutant", "outcome", "what is wrong with it"],
                [[code(one.mutant), one.word, plain(one.what)] for one in rest[:MOST_ROWS]],
            )
    return lines


def summary(records, comparison):
    """For a CI job: the runs, what failed, what changed, what survived. Nothing that is as it was."""
    return _bounded(
        ["## Plumbline\n"]
        + _runs(records)
        + _notes(records)
        + _failures(records)
        + _changes(comparison)
        + _survivors(records)
    )


def whole(records, comparison, scores=()):
    lines = ["# Plumbline report\n"] + _runs(records) + _notes(records) + _failures(records) + _changes(comparison)
    for profile, rows in profiles_of(records):
        lines.append(f"## Profile {plain(profile, 60)}\n")
        names = list(dict.fromkeys(name for row in rows for name in row.tallies))
        body = [
            [
                code(row.id, 60),
                plain(row.level, 20),
                sentence(row.text),
                plain("; ".join(row.sources), 300),
                *(
                    (
                        f"{plain(row.tallies[name].judgement, 40)} ({row.tallies[name].shown_cases})"
                        if name in row.tallies
                        else ""
                    )
                    for name in names
                ),
            ]
            for row in rows
        ]
        lines += table(["id", "level", "requirement", "source", *(code(name, 60) for name in names)], body)
    for figure in figures_of(records):
        lines += [f"## {plain(figure.title)}\n", f"{plain(figure.caption, 600)}\n"]
        lines += table([plain(one) for one in figure.head], [[plain(cell) for cell in row] for row in figure.rows])
    lines += _survivors(records)
    if scores:
        lines += ["## Mutation scores\n"] + table(
            ["component", "killed", "score"],
            [
                [plain(one.component), f"{one.killed:g} of {one.counted:g}", percent_text(one.killed / one.counted)]
                for one in scores
            ],
        )
    return "\n".join(lines)


def _bounded(lines):
    text, size = [], 0
    for index, line in enumerate(lines):
        size += len(line.encode("utf-8")) + 1
        if size > MOST_BYTES:
            text.append("\nThe rest does not fit here: see the whole report.\n")
            break
        text.append(line)
    return "\n".join(text)
