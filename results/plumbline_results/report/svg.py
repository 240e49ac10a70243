"""Pictures as SVG: curves with intervals, intervals on a line, stacked bars and timelines.

Colours are classes of the page's style, so that a picture follows the page from light to dark and onto paper. Series differ by
the shape of their points, too, for those who see no colours. Every text that comes from a record is escaped here."""

import math
from dataclasses import dataclass, field

from markupsafe import Markup, escape

MOST = 1e250
SERIES = 8  # classes s0 to s7
WIDTH, HEIGHT = 440, 280
LEFT, RIGHT, TOP, BOTTOM = 76, 14, 12, 44


@dataclass
class Point:
    x: float
    y: float
    low: float = None
    high: float = None
    words: str = ""


@dataclass
class Series:
    name: str
    points: list
    style: int = 0
    dashed: bool = False  # what is not measured: a model, a limit
    marks: bool = True
    line: bool = True
    shape: int = None  # of its points; default by the style
    hollow: bool = False


@dataclass
class Axis:
    title: str
    format: object = str
    log: int = 0  # its base; 0: linear
    zero: bool = False  # it begins at 0


class Scale:
    """From values to pixels."""

    def __init__(self, axis, values, first, last):
        self.axis, self.first, self.last = axis, first, last
        values = [one for one in values if one is not None and math.isfinite(one) and (not axis.log or one > 0)]
        # Beyond these the arithmetic leaves what a float holds; they are drawn at the edge.
        values = [min(MOST, max(1 / MOST if axis.log else -MOST, one)) for one in values]
        low, high = min(values, default=1), max(values, default=1)
        if axis.log:
            self.low, self.high = math.log(low, axis.log), math.log(high, axis.log)
        else:
            self.low, self.high = (min(0.0, low), max(0.0, high)) if axis.zero else (low, high)
        if self.high - self.low < 1e-12 * max(1, abs(self.high)):
            self.low, self.high = (
                (self.low - 0.5, self.high + 0.5)
                if axis.log or not self.high
                else (min(0, self.low), self.high * 1.2 if self.high > 0 else 0)
            )
        margin = 0.05 * (self.high - self.low)
        self.low -= 0 if axis.zero and not axis.log and self.low == 0 else margin
        self.high += margin

    def __call__(self, value):
        if self.axis.log:
            value = math.log(value, self.axis.log) if value > 0 else self.low
        part = (value - self.low) / (self.high - self.low)
        return self.first + min(1.0, max(0.0, part)) * (self.last - self.first)

    def ticks(self, most=6):
        if self.axis.log:
            first, last = math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9)
            step = max(1, math.ceil((last - first + 1) / most))
            if last - first >= 1:
                return [float(self.axis.log) ** power for power in range(first, last + 1, step)]
            low, high = self.axis.log**self.low, self.axis.log**self.high
            return round_ticks(low, high, 3)
        return round_ticks(self.low, self.high, most)


def round_ticks(low, high, most):
    raw = high / most - low / most  # the difference itself may be more than a float holds
    if not 1e-300 < raw < math.inf or raw < 1e-13 * max(abs(low), abs(high)):  # no steps that floats tell apart
        return [low]
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((power * part for part in (1, 2, 5) if power * part >= raw * 0.999), power * 10)
    return [step * index for index in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _picture(width, height, title, description, parts, size=""):
    """`size`: attributes of a picture that keeps its size, whatever there is room for."""
    return Markup(
        f'<svg viewBox="0 0 {width:g} {height:g}"{size} role="img" class="chart"><title>{escape(title)}</title>'
        f'<desc>{escape(description)}</desc>{"".join(parts)}</svg>'
    )


def _text(x, y, words, anchor="start", cls=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{f" class={chr(34)}{cls}{chr(34)}" if cls else ""}>{escape(words)}</text>'


def _mark(shape, x, y):
    """Circle, square, triangle or diamond."""
    size = 3.6
    if shape % 4 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}"/>'
    if shape % 4 == 1:
        return f'<rect x="{x - size:.1f}" y="{y - size:.1f}" width="{2 * size}" height="{2 * size}"/>'
    if shape % 4 == 2:
        return f'<path d="M{x:.1f} {y - 4.8:.1f}l4.6 8.2h-9.2z"/>'
    return f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z"/>'


def _shape_of(series):
    return series.style if series.shape is None else series.shape


def swatch(series):
    """What stands beside a series' name in a legend."""
    dash = ' class="dashed"' if series.dashed else ""
    line = f'<path d="M1 8h28"{dash}/>' if series.line else ""
    mark = _mark(_shape_of(series), 15, 8) if series.marks else ""
    hollow = " hollow" if series.hollow else ""
    return Markup(
        f'<svg viewBox="0 0 30 16" width="30" height="16" aria-hidden="true" class="chart s{series.style % SERIES}{hollow}">{line}{mark}</svg>'
    )


def _grid(x, y, x_ticks):
    parts = []
    for tick in y.ticks():
        at = y(tick)
        parts.append(
            f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>'
            + _text(LEFT - 7, at + 4, y.axis.format(tick), "end")
        )
    for tick in x_ticks:
        at = x(tick)
        parts.append(
            f'<path class="grid" d="M{at:.1f} {HEIGHT - BOTTOM}v5"/>'
            + _text(at, HEIGHT - BOTTOM + 18, x.axis.format(tick), "middle")
        )
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x.axis.title, "middle", "of-axis"))
    parts.append(
        f'<text transform="translate(13 {(TOP + HEIGHT - BOTTOM) / 2:.1f}) rotate(-90)" text-anchor="middle" class="of-axis">'
        f"{escape(y.axis.title)}</text>"
    )
    return parts


def _curve(series, x, y):
    parts = [f'<g class="s{series.style % SERIES}{" hollow" if series.hollow else ""}">']
    points = [one for one in series.points if not y.axis.log or one.y > 0]
    if series.line and len(points) > 1:
        corners = " ".join(f"{x(one.x):.1f},{y(one.y):.1f}" for one in points)
        parts.append(
            f'<polyline points="{corners}"{" class=" + chr(34) + "dashed" + chr(34) if series.dashed else ""}/>'
        )
    for one in points if series.marks else []:
        interval = ""
        if one.low is not None and one.high is not None:
            low, high, at = y(one.low), y(one.high), x(one.x)
            interval = f'<path class="interval" d="M{at:.1f} {low:.1f}V{high:.1f}M{at - 4:.1f} {low:.1f}h8M{at - 4:.1f} {high:.1f}h8"/>'
        words = one.words or f"{x.axis.format(one.x)}: {y.axis.format(one.y)}"
        parts.append(
            f'<g class="point"><title>{escape(series.name)}, {escape(words)}</title>{interval}'
            f"{_mark(_shape_of(series), x(one.x), y(one.y))}</g>"
        )
    return "".join(parts) + "</g>"


def _apart(ticks, scale, least=46):
    """Those of the ticks whose words do not overlap."""
    kept = []
    for tick in ticks:
        if not kept or scale(tick) - scale(kept[-1]) >= least:
            kept.append(tick)
    return kept


def curves(title, description, series, x_axis, y_axis, x_ticks=None):
    """Series over one another."""
    points = [one for each in series for one in each.points]
    x = Scale(x_axis, [one.x for one in points], LEFT, WIDTH - RIGHT)
    y = Scale(y_axis, [value for one in points for value in (one.y, one.low, one.high)], HEIGHT - BOTTOM, TOP)
    return _picture(
        WIDTH,
        HEIGHT,
        title,
        description,
        _grid(x, y, _apart(x_ticks, x) if x_ticks else x.ticks()) + [_curve(one, x, y) for one in series],
    )


def intervals(title, description, rows, axis, beside=()):
    """A row for each (name, Point), as a point with its interval, on one scale with the rows of other pictures beside it."""
    step, left = 34, 10
    width, height = WIDTH, len(rows) * step + 46
    scale = Scale(axis, [value for _, one in [*rows, *beside] for value in (one.x, one.low, one.high)], left, width - 12)
    parts = []
    for tick in scale.ticks(5):
        parts.append(
            f'<path class="grid" d="M{scale(tick):.1f} 4V{height - 40}"/>'
            + _text(scale(tick), height - 24, axis.format(tick), "middle")
        )
    parts.append(_text(width / 2, height - 6, axis.title, "middle", "of-axis"))
    for index, (name, one) in enumerate(rows):
        y = 10 + index * step
        words = one.words or axis.format(one.x)
        parts.append(
            f'<g class="s0 point"><title>{escape(name)}: {escape(words)}</title>{_text(left, y + 5, name)}'
            f"{_text(width - 12, y + 5, words, 'end')}"
        )
        if one.low is not None and one.high is not None:
            parts.append(
                f'<path class="interval" d="M{scale(one.low):.1f} {y + 15}H{scale(one.high):.1f}'
                f'M{scale(one.low):.1f} {y + 11}v8M{scale(one.high):.1f} {y + 11}v8"/>'
            )
        parts.append(_mark(0, scale(one.x), y + 15) + "</g>")
    return _picture(width, height, title, description, parts)


def stacked(title, description, rows, axis):
    """A bar for each row (name, [(style, part's name, value)]), its parts one after the other."""
    step, left = 24, 62
    width, height = WIDTH, len(rows) * step + 46
    scale = Scale(
        Axis(axis.title, axis.format, zero=True),
        [sum(part[2] for part in parts) for _, parts in rows],
        left,
        width - 12,
    )
    out = []
    for tick in scale.ticks(5):
        out.append(
            f'<path class="grid" d="M{scale(tick):.1f} 4V{height - 40}"/>'
            + _text(scale(tick), height - 24, axis.format(tick), "middle")
        )
    out.append(_text((left + width) / 2, height - 6, axis.title, "middle", "of-axis"))
    for index, (name, parts) in enumerate(rows):
        y, at = 6 + index * step, 0.0
        out.append(_text(left - 7, y + 12, name, "end"))
        for style, part, value in (each for each in parts if each[2] > 0):
            out.append(
                f'<g class="s{style % SERIES} bar"><title>{escape(name)}, {escape(part)}: {escape(axis.format(value))}</title>'
                f'<rect x="{scale(at):.1f}" y="{y}" width="{scale(at + value) - scale(at):.2f}" height="16"/></g>'
            )
            at += value
    return _picture(width, height, title, description, out)


@dataclass
class Span:
    """Something that a row of a timeline does."""

    row: str
    start: float
    end: float
    name: str
    style: int = 0


@dataclass
class Timeline:
    title: str
    spans: list = field(default_factory=list)
    unit: str = "s"
    styles: dict = field(default_factory=dict)  # name of a style: number


def timeline(one, format_time, most_words=300):
    """A row for each rank, a box for what it does; names in the boxes where there is room."""
    rows = list(dict.fromkeys(span.row for span in one.spans))
    step, left = 26, 62
    width, height = 920, len(rows) * step + 46
    first = min(span.start for span in one.spans)
    axis = Axis("time", format_time, zero=True)
    scale = Scale(axis, [span.end - first for span in one.spans], left, width - 12)
    out = []
    for tick in scale.ticks(9):
        out.append(
            f'<path class="grid" d="M{scale(tick):.1f} 4V{height - 40}"/>'
            + _text(scale(tick), height - 24, format_time(tick), "middle")
        )
    out.append(_text((left + width) / 2, height - 6, "time", "middle", "of-axis"))
    for index, row in enumerate(rows):
        out.append(_text(left - 7, 6 + index * step + 14, row, "end"))
    for span in one.spans:
        y, at = 6 + rows.index(span.row) * step, scale(span.start - first)
        wide = scale(span.end - first) - at
        words = f"{span.row}: {span.name}, {format_time(span.start - first)} to {format_time(span.end - first)}"
        named = wide > 7 * len(span.name) + 2 and len(one.spans) <= most_words
        out.append(
            f'<g class="s{span.style % SERIES} bar"><title>{escape(words)}</title><rect x="{at:.1f}" y="{y}" '
            f'width="{max(wide - 0.6, 0.5):.1f}" height="20"/>'
            + (_text(at + wide / 2, y + 14, span.name, "middle", "inside") if named else "")
            + "</g>"
        )
    return _picture(width, height, one.title, f"What each of {len(rows)} rows does when.", out)


def matrix(title, description, rows, columns, cells):
    """A square for each (row, column) of `cells`, which has the words for it; rows are (name, class)."""
    step, top = 13, 78
    left = 14 + 6 * max(map(len, (row for row, _ in rows)), default=0)  # as wide as the longest name, 6 a letter
    width, height = left + len(columns) * step + 44, top + len(rows) * step + 8
    out = []
    for index, column in enumerate(columns):
        at = left + (index + 0.5) * step
        out.append(
            f'<path class="grid" d="M{at:.1f} {top}V{height - 8}"/><text transform="translate({at + 4:.1f} {top - 6}) rotate(-60)">'
            f"{escape(column)}</text>"
        )
    for index, (row, tone) in enumerate(rows):
        y = top + (index + 0.5) * step
        out.append(
            f'<path class="grid" d="M{left} {y:.1f}H{width - 44}"/><g class="{escape(tone)}">{_text(left - 8, y + 4, row, "end")}</g>'
        )
        for place, column in enumerate(columns):
            if (row, column) in cells:
                out.append(
                    f'<g class="cell"><title>{escape(row)}, {escape(column)}: {escape(cells[row, column])}</title>'
                    f'<rect x="{left + place * step + 2}" y="{y - step / 2 + 2:.1f}" width="{step - 4}" height="{step - 4}"/></g>'
                )
    return _picture(width, height, title, description, out, f' width="{width:g}" height="{height:g}"')
