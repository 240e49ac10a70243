"""One HTML file of records, which needs nothing from anywhere: its style, script and pictures are inside.

A record may be hostile, as one that a vendor submits: the templates escape every value, links are http(s) alone, and a policy in
the page runs no script and applies no style but those whose hashes it names."""

import base64
import functools
import hashlib
import re
from pathlib import Path

from markupsafe import Markup, escape

from . import svg
from .escaping import anchor, cut, listed
from .figures import figures_of
from .records import table, text, texts
from .verdicts import (
    badness,
    causes_first,
    failing,
    kills_of,
    outcome_of,
    profile_of,
    requirements_of,
    subject_shown,
    tone,
)
from .words import bytes_text, counted, percent_text, seconds_text

TEMPLATES = Path(__file__).parent / "templates"
# A page has at most so much of each, so that the record of a subject that fails everything still opens.
MOST_DETAILED = 40  # cases in full, of a record
MOST_LISTED = 400  # cases as a line, of a requirement and a record
MOST_RANKS = 8
MOST_FAILURES = 3  # of a rank
MOST_MUTANTS = 1500
MOST_ROWS_OF_MATRIX, MOST_COLUMNS_OF_MATRIX = 160, 140
# What differs between any two runs.
OF_EACH_RUN = ("subject", "arguments", "started", "seed", "plan hash", "load before", "slowness", "mutant")
SECTIONS = (
    ("failures", "Failures"),
    ("changes", "Changes"),
    ("requirements", "Requirements"),
    ("measurements", "Measurements"),
    ("fusion", "Fusion"),
    ("pipelines", "Pipelines"),
    ("timelines", "Timelines"),
    ("training", "Training"),
    ("mutants", "Mutants"),
    ("scores", "Mutation scores"),
    ("environment", "Environment"),
)


def with_code(value):
    """A sentence whose `names` are set as code."""
    parts = re.split(r"`([^`\n]+)`", cut(value))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part) for index, part in enumerate(parts)
    )


def with_items(value):
    """A requirement's text, with its list as one."""
    first, *items = listed(cut(value))
    entries = Markup("").join(Markup("<li>{}</li>").format(with_code(item)) for item in items)
    return with_code(first) + (Markup("<ul>{}</ul>").format(entries) if items else "")


def with_breaks(value):
    """The same where no list may stand: each item on a line."""
    return Markup("<br>– ").join(with_code(part) for part in listed(cut(value)))


def link_or_text(value):
    value = cut(value, 500)
    if re.fullmatch(r"https?://[^\s\"'<>`]+", value):
        return Markup('<a href="{}" rel="noopener noreferrer nofollow">{}</a>').format(value, value)
    return escape(value)


def message_of(failure):
    return cut(failure.message.removeprefix("Failed\n"))


class Run:
    """A record as the page shows it."""

    def __init__(self, record):
        self.record, self.name = record, record.name
        self.subject = cut(subject_shown(record), 200)
        self.whole_subject = cut(record.header.get("subject"), 400)
        self.outcome = outcome_of(record)
        self.profile = cut(record.header.get("profile"), 80)
        self.profile_version = cut(record.header.get("profile_version"), 20)
        self.started = cut(record.header.get("started"), 40)
        self.suite_version = cut(record.header.get("suite_version"), 40)
        self.shard = table(record.header.get("shard"))
        self.labels = {cut(key, 60): cut(value, 120) for key, value in table(record.header.get("labels")).items()}
        self.duration = seconds_text(record.seconds) if record.seconds is not None else ""
        self.warnings = _warnings_of(record)
        self.notes = [cut(note, 300) for note in record.notes[:5]]

    @property
    def facts(self):
        words = [
            self.record.command,
            counted(len(self.record.measurements), "measurement") if self.record.measurements else "",
            f"profile {self.profile} {self.profile_version}".strip() if self.profile else "",
            f"shard {text(self.shard.get('index'))} of {text(self.shard.get('count'))}" if self.shard else "",
            *(f"{key}={value}" for key, value in self.labels.items()),
            self.started,
            self.duration,
        ]
        return [word for word in words if word]

    @property
    def bar(self):
        """(tone, judgement, count, part) for the bar of verdicts, from bad to good."""
        whole = sum(self.outcome.counts.values()) or 1
        lost = {} if self.record.complete else {"missing": "warn"}
        return [(lost.get(name, tone(name)), name, count, count / whole) for name, count in self.outcome.counts.items()]


def _warnings_of(record):
    words = []
    if record.torn:
        words.append("The last line of the record is torn: the run was killed while it wrote.")
    if record.stopped:
        words.append(f"The run was stopped: {cut(record.stopped, 300)}.")
    elif not record.complete:
        words.append("The record has no end: the run is still going on, or was killed.")
    noisy = sum(bool(one.noisy) for one in record.measurements)
    if noisy:
        words.append(f"{counted(noisy, 'measurement')} of {len(record.measurements)} noisy: the host was too busy.")
    return words


class FailedRequirement:
    def __init__(self, record, name, results, allowed):
        sentence = record.sentence(name)
        self.name, self.level, self.text = name, text(sentence.get("level")), cut(sentence.get("text"))
        self.results = sorted(results, key=lambda one: (-badness(one.judgement), one.case))
        self.judgement = self.results[0].judgement
        self.tone = tone(self.judgement)
        self.detailed = [FailedCase(one) for one in self.results[:allowed]]
        self.listed = [
            (one.judgement, one.case, one.mode, cut(one.reason, 160))
            for one in self.results[allowed : allowed + MOST_LISTED]
        ]
        self.left_out = len(self.results) - len(self.detailed) - len(self.listed)


class FailedCase:
    def __init__(self, result):
        self.result = result
        self.tone = tone(result.judgement)
        self.reason = cut(result.reason)
        ranks = causes_first(result)
        self.causes = [FailedRank(rank, index == 0) for index, rank in enumerate(ranks[:MOST_RANKS])]
        self.more_ranks = len(ranks) - len(self.causes)
        # The driver quotes the cause, which stands below.
        if ranks and ranks[0].failures and ranks[0].failures[0].message.removeprefix("Failed\n")[:200] in self.reason:
            self.reason = ""
        self.output = result.output[-4000:]
        self.repeat = cut(result.repeat)
        self.facts = [
            word
            for word in (
                f"mode {result.mode}" if result.mode != "plain" else "",
                f"mutant {result.mutant}" if result.mutant else "",
                f"seed {result.seed}" if result.seed else "",
                seconds_text(result.seconds) if result.seconds else "",
                f"tries: {', '.join(result.tries)}" if result.tries else "",
            )
            if word
        ]


class FailedRank:
    def __init__(self, rank, is_cause):
        self.rank, self.verdict, self.tone = cut(rank.rank, 20), cut(rank.verdict, 40), tone(rank.verdict)
        self.is_cause = is_cause and rank.verdict not in ("pass", "skip", "aborted")
        self.seconds, self.last_event, self.host = (
            seconds_text(rank.seconds),
            cut(rank.last_event, 300),
            cut(rank.host, 100),
        )
        self.failures = rank.failures[: MOST_FAILURES if self.is_cause else 1]
        self.more = len(rank.failures) - len(self.failures)


def failures_of(records):
    """[(run's name, [FailedRequirement], how many cases)] of the records that have some."""
    found = []
    for record in records:
        groups, left = [], MOST_DETAILED
        for name, results in failing(record).items():
            allowed = min(2, left)
            groups.append(FailedRequirement(record, name, results, allowed))
            left -= allowed
        if groups:
            found.append((record.name, groups, sum(len(one.results) for one in groups)))
    return found


def tolerated_of(records):
    """What is not as it should be and does not fail the run: (run, judgement, case, why, link)."""
    found = []
    for record in records:
        for one in record.results:
            if (
                not one.bad
                and one.judgement in ("warn", "waived", "expected-fail", "flake", "unexpected-pass")
                and record.command != "mutants"
            ):
                found.append(
                    (
                        record.name,
                        one.judgement,
                        one.case,
                        cut(one.expectation.get("reason") or one.reason, 300),
                        cut(one.expectation.get("link"), 300),
                    )
                )
    return found


def profiles_of(records):
    """[(profile, [Requirement])]."""
    groups = {}
    for row in requirements_of(records).values():
        groups.setdefault(profile_of(row.id), []).append(row)
    return sorted(groups.items(), key=lambda group: (-max(badness(one.worst) for one in group[1]), group[0]))


def environment_of(records):
    """[(name, [value by record], whether they differ)]."""
    flat = [_flat_environment(record) for record in records]
    names = list(dict.fromkeys(name for one in flat for name in one))
    return [
        (name, values, len(set(filter(None, values))) > 1 and name not in OF_EACH_RUN)
        for name in names
        for values in [[one.get(name, "") for one in flat]]
    ]


def _flat_environment(record):
    found = {
        "subject": text(record.header.get("subject")),
        "arguments": " ".join(texts(record.header.get("arguments"))),
        "suite version": text(record.header.get("suite_version")),
        "started": text(record.header.get("started")),
        "seed": text(record.header.get("seed")),
        "plan hash": text(record.header.get("plan_hash")),
    }
    for source, values in (
        ("", record.header.get("environment")),
        ("runtime ", record.subject.get("environment")),
        ("", record.header.get("facts")),
    ):
        for key, value in table(values).items():
            if isinstance(value, dict):
                found.update({f"{source}{text(key)} {text(inner)}": cut(one, 400) for inner, one in value.items()})
            else:
                found[source + text(key).replace("_", " ").replace(" bytes", "")] = (
                    bytes_text(value)
                    if str(key).endswith("_bytes") and isinstance(value, (int, float)) and 0 < value < 1e18
                    else cut(" ".join(texts(value)) if isinstance(value, list) else value, 400)
                )
    for key, value in table(record.subject.get("capabilities")).items():
        found[f"capability {text(key)}"] = cut(" ".join(texts(value)) if isinstance(value, list) else value, 600)
    return {cut(key, 100): value for key, value in found.items() if value}


def kill_matrices(kills):
    """[(component, mutants, picture)]: which requirement's checks found which mutant. Survivors are rows without a square."""
    by_component = {}
    for kill in kills:
        component = next((profile_of(one) for one in kill.requirements), "") or "found by none"
        by_component.setdefault(component, []).append(kill)
    return [
        (component, len(group), _kill_matrix(group))
        for component, group in sorted(by_component.items())
        if component != "found by none"
    ]


def _kill_matrix(group):
    rows = group[:MOST_ROWS_OF_MATRIX]
    columns = sorted({one for kill in rows for one in kill.requirements})[:MOST_COLUMNS_OF_MATRIX]
    cells = {
        (cut(kill.mutant, 34), cut(one, 20)): kill.verdict
        for kill in rows
        for one in kill.requirements
        if one in columns
    }
    return svg.matrix(
        "Kill matrix",
        "A square where the checks of a requirement find a mutant.",
        [(cut(kill.mutant, 34), "bad" if kill.word == "survived" else "") for kill in rows],
        [cut(one, 20) for one in columns],
        cells,
    )


def timeline_figures(timelines):
    return [
        (one.title, svg.timeline(one, seconds_text), [(_box(style), name) for name, style in one.styles.items()])
        for one in timelines
    ]


def _box(style):
    return Markup(
        '<svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" class="chart s{}"><g class="bar">'
        '<rect x="1" y="1" width="14" height="14"/></g></svg>'
    ).format(style)


def score_rows(scores):
    return [
        (one.component, one.killed / one.counted, f"{one.killed:g} of {one.counted:g}", one.score, one.survivors)
        for one in scores
    ]


@functools.lru_cache(maxsize=1)
def _template():
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        cut=cut,
        with_code=with_code,
        with_items=with_items,
        with_breaks=with_breaks,
        link=link_or_text,
        seconds=seconds_text,
        percent=percent_text,
        tone=tone,
        anchor=anchor,
        message=message_of,
    )
    environment.globals.update(counted=counted)
    return environment.get_template("report.html.j2")


def render(records, baselines=(), comparison=None, timelines=(), scores=(), title=""):
    """The page's text."""
    template = _template()
    context = _context(records, baselines, comparison, timelines, scores)
    style, script = (Markup((TEMPLATES / name).read_text("utf-8").strip()) for name in ("report.css", "report.js"))
    present = [(name, words) for name, words in SECTIONS if context["has"][name]]
    return template.render(
        **context,
        title=cut(title, 200) or _title(records),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        sections=present,
    )


def _context(records, baselines, comparison, timelines, scores):
    figures = figures_of(records)
    by_section = {
        name: [one for one in figures if one.section == name]
        for name in ("measurements", "fusion", "pipelines", "training")
    }
    mutants = [
        (record.name, kills, kill_matrices(kills))
        for record in records
        if record.command == "mutants"
        for kills in [kills_of(record)[:MOST_MUTANTS]]
    ]
    context = {
        "runs": [Run(record) for record in records],
        "baselines": [Run(record) for record in baselines],
        "failures": failures_of([record for record in records if record.command != "mutants"]),
        "tolerated": tolerated_of(records)[:MOST_LISTED],
        "comparison": comparison,
        "profiles": profiles_of(records),
        "figures": by_section,
        "mutants": mutants,
        "scores": score_rows(scores),
        "timelines": timeline_figures(timelines),
        "environment": environment_of([*records, *baselines]),
        "columns": [
            record.name
            for record in records
            if record.command != "mutants" and any(one.requirements for one in record.results)
        ],
    }
    context["has"] = {
        "failures": context["failures"] or context["tolerated"],
        "changes": comparison is not None,
        "requirements": context["profiles"],
        "mutants": any(kills for _, kills, _ in mutants),
        "scores": scores,
        "timelines": timelines,
        "environment": True,
        **by_section,
    }
    return context


def _title(records):
    return " · ".join(dict.fromkeys(cut(subject_shown(record), 80) for record in records)) or "records"


def _hash(content):
    return "sha256-" + base64.b64encode(hashlib.sha256(str(content).encode("utf-8")).digest()).decode("ascii")
