"""What a report shows beside records: timelines in Chrome's trace format, and scores of ci/mutation-score."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from .records import BadInput, number, rows, table, text
from .svg import Span, Timeline

# Of one timeline; more cannot be told apart on a screen.
MOST_SPANS = 4000


def load_timeline(path):
    """The Timeline in `path`, as `plumbline schedule --format trace` and `train --trace` write it. Throws BadInput."""
    data = _json(path)
    events = rows(data.get("traceEvents") if isinstance(data, dict) else data)
    names, spans = {}, []
    for event in events:
        where = text(event.get("pid")), text(event.get("tid"))
        if event.get("ph") == "M" and event.get("name") in ("process_name", "thread_name"):
            names[where if event["name"] == "thread_name" else where[0]] = text(table(event.get("args")).get("name"))
        start, duration = number(event.get("ts")), number(event.get("dur"))
        if event.get("ph") == "X" and start is not None and duration is not None and duration >= 0:
            spans.append(
                (where, start * 1e-6, (start + duration) * 1e-6, text(event.get("name")), text(event.get("cat")))
            )
    if not spans:
        raise BadInput(
            f"{path}: no events with a start and a duration; --timeline takes what `plumbline schedule --format trace` writes"
        )
    return _timeline(path, names, spans)


def _timeline(path, names, spans):
    several = len({where[0] for where, *_ in spans}) > 1
    one = Timeline(names.get(spans[0][0][0], "") if not several else "")
    one.title = one.title or Path(path).name
    kinds = list(dict.fromkeys(kind for *_, kind in spans))
    one.styles = {kind: style for style, kind in enumerate(kinds[:7]) if kind}
    ordered = sorted(spans, key=lambda span: (span[0], span[1]))[:MOST_SPANS]
    for where, start, end, name, kind in ordered:
        row = names.get(where) or f"row {where[1]}"
        one.spans.append(
            Span(
                f"{names.get(where[0], where[0])} {row}" if several else row, start, end, name, one.styles.get(kind, 7)
            )
        )
    if len(spans) > MOST_SPANS:
        one.title += f", the first {MOST_SPANS} of {len(spans)} events"
    return one


def _json(path):
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; name a file in Chrome's trace format") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not JSON ({str(error)[:80]}); name a file in Chrome's trace format") from None


@dataclass
class Survivor:
    at: str
    function: str
    was: str
    became: str
    needs: str


@dataclass
class Score:
    component: str
    killed: float
    counted: float
    score: str
    survivors: list = field(default_factory=list)


def _reason(survivor):
    """What a check would need to see the change, or why none can."""
    equivalent = text(survivor.get("equivalent"))
    return f"equivalent: {equivalent}" if equivalent else text(survivor.get("needs"))


def load_score(path):
    """The Score in `path`, a file of results/mutation. Throws BadInput."""
    try:
        import tomllib
    except ImportError:  # before Python 3.11
        raise BadInput("--mutation: reading TOML takes Python 3.11; leave the option out") from None
    try:
        data = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; name a file of results/mutation") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not TOML ({str(error)[:80]}); name a file of results/mutation") from None
    killed, counted = number(data.get("killed")), number(data.get("counted"))
    if killed is None or counted is None or not 0 <= killed <= counted or not counted:
        raise BadInput(f"{path}: no counts 'killed' and 'counted'; name a file that ci/mutation-score wrote")
    return Score(
        text(data.get("component")),
        killed,
        counted,
        text(data.get("score")),
        [
            Survivor(*(text(one.get(key)) for key in ("at", "function", "was", "became")), _reason(one))
            for one in rows(data.get("survivor"))
        ],
    )
