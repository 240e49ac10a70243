"""Which pictures the measurements of records make: curves over sizes, fusion, bubbles, training; the rest as intervals."""

from collections import defaultdict
from dataclasses import dataclass, field

from . import svg
from .centre import centre_of, centre_of_measurement
from .records import number, table, text
from .words import bytes_text, counted, number_text, percent_text, rate_text, seconds_text, value_text

LIMIT = 7  # the style of what is not measured on the subject: a limit, a reference
LIMIT_BENCHMARK = "memory.copy"
# Labels that a curve is drawn over, the first that varies.
SWEEPS = ("bytes", "bucket_bytes", "gradients", "micro_batches", "world")


@dataclass
class Panel:
    """One picture with its legend."""

    picture: str
    legend: list = field(default_factory=list)  # (swatch, name)


@dataclass
class Figure:
    title: str
    caption: str
    panels: list
    head: list
    rows: list
    notes: list = field(default_factory=list)
    section: str = "measurements"


@dataclass
class Measured:
    """A measurement with the name of its record and its median."""

    record: str
    of: object
    centre: object

    @property
    def labels(self):
        return self.of.labels


def measured_of(records):
    found = []
    for record in records:
        for one in record.measurements:
            centre = centre_of_measurement(one)
            if centre:
                found.append(Measured(record.name, one, centre))
    return found


def figures_of(records):
    """All pictures, in the page's order."""
    measured = measured_of(records)
    taken, figures = set(), []
    for build in (bubbles, idle_ranks, fusion, sizes):
        for figure, used in build([one for one in measured if id(one) not in taken]):
            figures.append(figure)
            taken.update(id(one) for one in used)
    figures += [figure for figure, _ in remaining([one for one in measured if id(one) not in taken])]
    return figures + training(records)


def _point(one, x, centre=None):
    centre = centre or one.centre
    words = f"{value_text(centre.median, one.of.unit)} [{value_text(centre.low, one.of.unit)}, {value_text(centre.high, one.of.unit)}]"
    if centre.count == 1:
        return svg.Point(x, centre.median, words=value_text(centre.median, one.of.unit))
    return svg.Point(x, centre.median, centre.low, centre.high, words)


def _names(group, without):
    """A short name for each measurement: the labels in which those of a group differ, and their record where there are several."""
    values = defaultdict(set)
    for one in group:
        values["record"].add(one.record)
        for key in {key for each in group for key in each.labels} - set(without):
            values[key].add(one.labels.get(key, ""))
    differing = [key for key in sorted(values) if len(values[key]) > 1]
    if (
        "record" in differing
        and len(differing) > 1
        and _is_told_by(group, [key for key in differing if key != "record"])
    ):
        differing.remove("record")

    def name(one):
        parts = [_label_text(key, one.record if key == "record" else one.labels.get(key, "")) for key in differing]
        return ", ".join(part for part in parts if part)

    return {id(one): name(one) or _whole_name(one, without) for one in group}


def _is_told_by(group, keys):
    """Whether those labels alone tell the records of a group apart."""
    records = defaultdict(set)
    for one in group:
        records[tuple(one.labels.get(key, "") for key in keys)].add(one.record)
    return all(len(names) == 1 for names in records.values())


def _label_text(key, value):
    if key in ("record", "backend", "schedule", "device", "dtype"):
        return value
    if key == "world":
        return f"{value} rank" + ("" if value == "1" else "s")
    return f"{key.replace('_', ' ')} {value}" if value else ""


def _whole_name(one, without):
    parts = [
        _label_text(key, one.labels[key])
        for key in ("backend", "world", "device")
        if key in one.labels and key not in without
    ]
    return ", ".join(parts) or one.record


def _float(value):
    try:
        return number(float(value))
    except (TypeError, ValueError):
        return None


def _series(group, sweep, value=None, names=None):
    names = names or _names(group, (sweep,))
    by_name = defaultdict(list)
    for one in group:
        x = _float(one.labels.get(sweep, ""))
        point = None if x is None else value(one, x) if value else _point(one, x)
        if point is not None:
            by_name[names[id(one)]].append(point)
    return [
        svg.Series(name, sorted(points, key=lambda point: point.x), index % LIMIT)
        for index, (name, points) in enumerate(by_name.items())
    ]


def _legend(series):
    return [(svg.swatch(one), one.name) for one in series]


# ---- curves over sizes ----


def _sweep_of(group):
    for key in SWEEPS:
        values = {_float(one.labels.get(key, "")) for one in group} - {None}
        if len(values) > 1 and min(values) > 0:
            return key
    return None


def sizes(measured):
    """A figure for each benchmark that was measured at several sizes."""
    groups = defaultdict(list)
    for one in measured:
        groups[one.of.benchmark].append(one)
    limits = groups.get(LIMIT_BENCHMARK, [])
    for benchmark, group in groups.items():
        sweep = _sweep_of(group)
        if sweep:
            yield _curve_figure(benchmark, group, sweep, limits if benchmark != LIMIT_BENCHMARK else []), group


def _x_axis(sweep, title=None):
    if "bytes" in sweep:
        return svg.Axis(title or ("message size" if sweep == "bytes" else sweep.replace("_", " ")), bytes_text, log=2)
    return svg.Axis(title or {"world": "ranks"}.get(sweep, sweep.replace("_", "-")), lambda value: f"{value:g}", log=2)


def _limit_series(limits, group, sweep):
    worlds = {one.labels.get("world") for one in group}
    records = {one.record for one in group}
    devices = {one.labels.get("device") for one in group}
    # A limit is of the machine and the moment: only of the records that the curves are of.
    fitting = [
        one
        for one in limits
        if one.labels.get("world") in worlds and one.record in records and one.labels.get("device") in devices
    ]
    if sweep != "bytes" or not fitting:
        return []
    series = _series(fitting, sweep)
    for one in series:
        one.name = "limit: copying" + (f", {one.name}" if len(series) > 1 else "")
        one.style, one.dashed, one.marks = LIMIT, True, False
        one.points = [svg.Point(point.x, point.y) for point in one.points]
    return series


def _bandwidth(key):
    def point(one, x):
        if key not in one.of.derived or not one.centre.median > 0 or not one.centre.low > 0:
            return None
        # What was moved over a median: with the bounds of the time come those of the rate.
        moved = one.of.derived[key] * one.centre.median
        if one.centre.count == 1:
            return svg.Point(x, moved / one.centre.median)
        return svg.Point(x, moved / one.centre.median, moved / one.centre.high, moved / one.centre.low)

    return point


def _curve_figure(benchmark, group, sweep, limits):
    names = _names(group, (sweep,))
    series = _series(group, sweep, names=names)
    limit = _limit_series(limits, group, sweep)
    ticks = sorted({point.x for one in series for point in one.points})
    unit = group[0].of.unit
    title = f"{benchmark}: time" if unit == "seconds" else benchmark
    time = svg.curves(
        title,
        f"Median and interval over the {sweep.replace('_', ' ')}.",
        limit + series,
        _x_axis(sweep),
        svg.Axis("time" if unit == "seconds" else unit, lambda value: value_text(value, unit), log=10),
        ticks,
    )
    panels = [Panel(time, _legend(series + limit))]
    rates = [one for one in _series(group, sweep, _bandwidth("busbw_bytes_per_second"), names) if one.points]
    if rates:
        panels.append(Panel(_rate_picture(benchmark, rates, limit, sweep, ticks), _legend(rates + limit)))
    head, rows = _table(group, sweep, names)
    return Figure(
        benchmark, _capital(_confidence(group)) + ".", panels, head, rows, _notes(group), _section_of(benchmark)
    )


def _section_of(benchmark):
    return {"pipeline_bubble": "pipelines", "allreduce_fusion": "fusion"}.get(benchmark.split(".")[0], "measurements")


def _capital(words):
    return words[:1].upper() + words[1:]


def _rate_picture(benchmark, rates, limit, sweep, ticks):
    copying = [
        svg.Series(
            one.name, [svg.Point(point.x, point.x / point.y) for point in one.points if point.y > 0], LIMIT, True, False
        )
        for one in limit
    ]
    return svg.curves(
        f"{benchmark}: bus bandwidth",
        "Bus bandwidth as nccl-tests defines it.",
        copying + rates,
        _x_axis(sweep),
        svg.Axis("bus bandwidth", rate_text, log=10),
        ticks,
    )


def _confidence(group):
    words = sorted({one.centre.words for one in group})
    return words[0] if len(words) == 1 else "intervals of a confidence that the table states"


def _notes(group):
    notes = []
    noisy = [one for one in group if one.of.noisy]
    if noisy:
        notes.append(f"{counted(len(noisy), 'series', 'series')} of {len(group)} noisy: {noisy[0].of.noisy}")
    unchecked = sum(not one.of.answer_checked for one in group)
    if unchecked:
        notes.append(f"the answers of {unchecked} of {counted(len(group), 'measurement')} were not checked")
    return notes


def _table(group, sweep, names):
    has_rate = any("busbw_bytes_per_second" in one.of.derived for one in group)
    head = [
        "series",
        {"bytes": "size", "world": "ranks"}.get(sweep, (sweep or "").replace("_", " ")),
        "median",
        "interval",
        "minimum",
        "of",
    ]
    head += ["bus bandwidth"] if has_rate else []
    rows = []
    for one in sorted(group, key=lambda each: (names[id(each)], _float(each.labels.get(sweep, "")) or 0)):
        x = _float(one.labels.get(sweep, ""))
        row = [
            names[id(one)],
            "" if x is None else bytes_text(x) if "bytes" in sweep else f"{x:g}",
            value_text(one.centre.median, one.of.unit),
            f"{value_text(one.centre.low, one.of.unit)} to {value_text(one.centre.high, one.of.unit)}",
            value_text(min(one.of.samples), one.of.unit),
            f"{one.centre.words}{', noisy' if one.of.noisy else ''}",
        ]
        rate = one.of.derived.get("busbw_bytes_per_second")
        rows.append(row + ([rate_text(rate) if rate is not None else ""] if has_rate else []))
    return head, rows


# ---- fusion ----

# What a step with buckets is held against, of the same record: its name in a legend.
UNFUSED = {
    "rounds": "a bucket for each gradient",
    "rounds_per_tensor": "an all-reduce for each gradient",
    "per_tensor": "an all-reduce for each gradient",
    "copy_alone": "the copies alone",
    "backward": "the back-propagation alone",
}
NO_LIMIT = 2.0**60  # a limit of buckets that nothing reaches: all gradients are in one


def fusion(measured):
    """A figure for each model: the time of a step over the size of its buckets, beside an all-reduce for each gradient."""
    models = defaultdict(list)
    for one in measured:
        parts = one.of.benchmark.split(".")
        if parts[0] == "allreduce_fusion" and len(parts) == 3 and not parts[2].startswith("beside_"):
            models[parts[1]].append(one)
    for model, group in models.items():
        bucketed = [
            one for one in group if _float(one.labels.get("bucket_bytes")) and _kind(one) != "rounds_per_tensor"
        ]
        if len({one.labels["bucket_bytes"] for one in bucketed}) > 1:
            yield _fusion_figure(model, group, bucketed), group


def _fusion_figure(model, group, bucketed):
    several = len({one.record for one in group}) > 1
    names = {id(one): _fusion_name(one, one in bucketed) + (f", {one.record}" if several else "") for one in group}
    most = max((x for x in (_float(one.labels["bucket_bytes"]) for one in bucketed) if x < NO_LIMIT), default=1.0)
    # What has no limit stands to the right of all that have one.
    place = lambda x: x if x < NO_LIMIT else 8 * most
    series = _series(bucketed, "bucket_bytes", lambda one, x: _point(one, place(x)), names)
    xs = sorted({point.x for one in series for point in one.points})
    unfused = [
        svg.Series(
            names[id(one)], [svg.Point(x, one.centre.median) for x in (xs[0], xs[-1])], LIMIT - index, True, False
        )
        for index, one in enumerate(each for each in group if each not in bucketed)
    ]
    axis = svg.Axis("bucket size", lambda x: "all in one" if x == 8 * most else bytes_text(x), log=2)
    picture = svg.curves(
        f"All-reduce fusion, {model}",
        "Time of a step over the size of the buckets.",
        series + unfused,
        axis,
        svg.Axis("time of a step", seconds_text, log=10),
        xs,
    )
    return Figure(
        f"All-reduce fusion: {model}",
        _fusion_caption(group, bucketed),
        [Panel(picture, _legend(series + unfused))],
        *_fusion_table(group, names),
        _notes(group),
        "fusion",
    )


def _fusion_name(one, is_bucketed):
    kind = _kind(one)
    return UNFUSED.get(kind, kind.replace("_", " ")) if not is_bucketed else "in buckets" if kind == "rounds" else kind


def _fusion_caption(group, bucketed):
    words = f"Time of a step over the size of its buckets, median and interval ({_confidence(group)}); dashed: without fusion."
    chosen = [one.labels["bucket_bytes"] for one in bucketed if one.of.derived.get("chosen") == 1]
    return words + (f" --bucket-size auto chooses {_bucket_text(chosen[0])}." if chosen else "")


def _bucket_text(label):
    x = _float(label)
    return "" if x is None else "one for each" if x == 0 else "all in one" if x >= NO_LIMIT else bytes_text(x)


def _fusion_table(group, names):
    head = ["series", "bucket size", "median", "interval", "of", "all-reduces", "speed-up", "bus bandwidth"]
    rows = []
    for one in sorted(group, key=lambda each: (names[id(each)], _float(each.labels.get("bucket_bytes", "")) or 0)):
        show = lambda key, words: words(one.of.derived[key]) if key in one.of.derived else ""
        rows.append(
            [
                names[id(one)],
                _bucket_text(one.labels.get("bucket_bytes", "")),
                seconds_text(one.centre.median),
                f"{seconds_text(one.centre.low)} to {seconds_text(one.centre.high)}",
                one.centre.words,
                show("launches", number_text),
                show("speed_up", number_text),
                show("busbw_bytes_per_second", rate_text),
            ]
        )
    return head, rows


def _kind(one):
    return one.of.benchmark.split(".")[-1]


# ---- bubbles ----

PIPELINE = "pipeline_bubble"
IDLE = ("fill", "drain", "dependency", "transfer", "imbalance", "straggler", "overhead", "sent_late")


def _pipeline_of(one):
    return one.record, tuple(sorted((key, value) for key, value in one.labels.items() if key != "rank"))


def bubbles(measured):
    """A figure of all schedules: the bubble's part of the makespan over the micro-batches."""
    group = [one for one in measured if one.of.benchmark == PIPELINE and "bubble_of_makespan_ratio" in one.of.derived]
    if not group:
        return
    ranks = _ranks_of_pipelines(measured)
    schedules = defaultdict(list)
    for one in group:
        schedules[one.labels.get("schedule", "")].append(one)
    worlds = sorted({one.labels.get("world", "") for one in group}, key=lambda world: _float(world) or 0)
    most = max(_bubble(one, ranks).high for one in group)
    panels, legend = [], {}
    for schedule, of_schedule in sorted(schedules.items()):
        series = _bubble_series(of_schedule, worlds, ranks)
        picture = svg.curves(
            f"Bubble of {schedule}",
            "The bubble's part of the makespan over the micro-batches.",
            series
            + [
                svg.Series(
                    "",
                    [svg.Point(_float(of_schedule[0].labels.get("micro_batches")) or 1, most)],
                    marks=False,
                    line=False,
                )
            ],
            svg.Axis("micro-batches", lambda value: f"{value:g}", log=2),
            svg.Axis(f"bubble of {schedule}", percent_text, zero=True),
            sorted({point.x for one in series for point in one.points}),
        )
        panels.append(Panel(picture))
        legend.update({one.name: svg.swatch(one) for one in series})
    panels[0].legend = [(swatch, name) for name, swatch in legend.items()]
    caption = (
        "The mean bubble of the ranks, as a part of the makespan: points are measured, with the interval of the median over the repetitions; "
        "dashed lines are simulated; hollow triangles are the closed form, where there is one."
    )
    yield Figure(
        "Bubbles of pipeline schedules", caption, panels, *_bubble_table(group, ranks), _notes([]), "pipelines"
    ), group


def _ranks_of_pipelines(measured):
    ranks = defaultdict(list)
    for one in measured:
        if one.of.benchmark == PIPELINE + ".rank":
            ranks[_pipeline_of(one)].append(one)
    return ranks


def _bubble(one, ranks):
    """The bubble's part of each repetition's makespan; of a record without its ranks, the median alone."""
    of_ranks = ranks.get(_pipeline_of(one), [])
    spans = one.of.samples
    if of_ranks and all(len(each.of.samples) == len(spans) for each in of_ranks) and all(span > 0 for span in spans):
        return centre_of(
            [sum(each.of.samples[i] for each in of_ranks) / len(of_ranks) / span for i, span in enumerate(spans)]
        )
    ratio = one.of.derived["bubble_of_makespan_ratio"]
    centre = centre_of([ratio])
    return centre


def _bubble_series(group, worlds, ranks):
    series = []
    for style, world in enumerate(worlds):
        mine = sorted(
            (one for one in group if one.labels.get("world", "") == world),
            key=lambda one: _float(one.labels.get("micro_batches")) or 0,
        )
        at = [(one, _float(one.labels.get("micro_batches"))) for one in mine]
        measured = [(x, _bubble(one, ranks)) for one, x in at if x]
        simulated = [
            svg.Point(x, one.of.derived["simulated_bubble_of_makespan_ratio"])
            for one, x in at
            if x and "simulated_bubble_of_makespan_ratio" in one.of.derived
        ]
        closed = [
            svg.Point(x, one.of.derived["closed_form_bubble_of_makespan_ratio"])
            for one, x in at
            if x and "closed_form_bubble_of_makespan_ratio" in one.of.derived
        ]
        name = _label_text("world", world)
        if simulated:
            series.append(svg.Series(f"{name}, simulated", simulated, style, True, False))
        if closed:
            series.append(svg.Series(f"{name}, closed form", closed, style, False, True, False, 2, True))
        if measured:
            points = [
                svg.Point(x, one.median, one.low, one.high, f"{x:g} micro-batches: {percent_text(one.median)}")
                for x, one in measured
            ]
            series.append(svg.Series(f"{name}, measured", points, style, False, True, False))
    return series


def _bubble_table(group, ranks):
    head = [
        "schedule",
        "ranks",
        "micro-batches",
        "makespan",
        "of simulated",
        "bubble",
        "interval",
        "simulated",
        "closed form",
    ]
    rows = []
    for one in sorted(
        group,
        key=lambda each: (
            each.labels.get("schedule", ""),
            _float(each.labels.get("world")) or 0,
            _float(each.labels.get("micro_batches")) or 0,
        ),
    ):
        bubble, derived = _bubble(one, ranks), one.of.derived
        ratio = derived.get("ratio_to_simulated")
        rows.append(
            [
                one.labels.get("schedule", ""),
                one.labels.get("world", ""),
                one.labels.get("micro_batches", ""),
                seconds_text(one.centre.median),
                "" if ratio is None else f"{ratio:.3f}",
                percent_text(bubble.median),
                f"{percent_text(bubble.low)} to {percent_text(bubble.high)}",
                *(
                    percent_text(derived[key]) if key in derived else ""
                    for key in ("simulated_bubble_of_makespan_ratio", "closed_form_bubble_of_makespan_ratio")
                ),
            ]
        )
    return head, rows


def idle_ranks(measured):
    """What the ranks of a pipeline were idle for: of each schedule its largest pipeline."""
    ranks = _ranks_of_pipelines(measured)
    largest = {}
    for key, of_ranks in ranks.items():
        labels = dict(key[1])
        size = (_float(labels.get("world")) or 0, _float(labels.get("micro_batches")) or 0)
        if size > largest.get((key[0], labels.get("schedule", "")), ((-1, -1), None))[0]:
            largest[key[0], labels.get("schedule", "")] = size, of_ranks
    if not largest:
        return
    panels, rows = [], []
    for (_, schedule), (size, of_ranks) in sorted(largest.items()):
        bars = []
        for one in sorted(of_ranks, key=lambda each: _float(each.labels.get("rank")) or 0):
            parts = [
                (style, name, max(0.0, one.of.derived.get(f"idle_{name}_seconds", 0.0)))
                for style, name in enumerate(IDLE)
            ]
            bars.append((f"rank {one.labels.get('rank', '')}", parts))
            rows.append([schedule, one.labels.get("rank", ""), *(seconds_text(value) for _, _, value in parts)])
        title = f"{schedule}, {size[1]:g} micro-batches"
        panels.append(
            Panel(
                svg.stacked(
                    f"Idle time of {title}",
                    "What each rank was idle for.",
                    bars,
                    svg.Axis(f"idle: {title}", seconds_text),
                )
            )
        )
    # Only of what is there to be seen.
    seen = [style for style in range(len(IDLE)) if any(row[2 + style] != "0" for row in rows)]
    panels[0].legend = [(_box(style), IDLE[style]) for style in seen]
    used = [one for of_ranks in ranks.values() for one in of_ranks]
    yield Figure(
        "What ranks were idle for",
        "Of one repetition, the one with the median bubble; each schedule at its most ranks and micro-batches.",
        panels,
        ["schedule", "rank", *IDLE],
        rows,
        [],
        "pipelines",
    ), used


def _box(style):
    return svg.Markup(
        f'<svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" class="chart s{style}"><g class="bar">'
        '<rect x="1" y="1" width="14" height="14"/></g></svg>'
    )


# ---- what has one size ----


def remaining(measured):
    """Intervals side by side, of benchmarks whose names begin the same, in one unit."""
    groups = defaultdict(list)
    for one in measured:
        parts = one.of.benchmark.split(".")
        groups[".".join(parts[: min(2, len(parts) - 1)]) or parts[0], one.of.unit].append(one)
    for (prefix, unit), group in groups.items():
        names = _names(group, ())
        lines = []
        for one in group:
            short = (
                one.of.benchmark[len(prefix) + 1 :] if one.of.benchmark.startswith(prefix + ".") else one.of.benchmark
            )
            differs = names[id(one)] if len(set(names.values())) > 1 else ""
            lines.append((", ".join(part for part in (short, differs) if part), _flat(one)))
        axis = svg.Axis(
            "time" if unit == "seconds" else unit,
            lambda value, unit=unit: value_text(value, unit),
            log=10 if all(one.centre.low > 0 for one in group) else 0,
            zero=True,
        )
        panels = [
            Panel(svg.intervals(prefix, "Median and interval of each.", lines[at : at + 12], axis, lines))
            for at in range(0, len(lines), 12)
        ]
        rows = [
            [name, point.words, f"{value_text(point.low, unit)} to {value_text(point.high, unit)}", one.centre.words]
            for (name, point), one in zip(lines, group)
        ]
        yield Figure(
            prefix,
            _capital(_confidence(group)) + ".",
            panels,
            ["benchmark", "median", "interval", "of"],
            rows,
            _notes(group),
            _section_of(prefix),
        ), group


def _flat(one):
    return svg.Point(one.centre.median, 0, one.centre.low, one.centre.high, value_text(one.centre.median, one.of.unit))


# ---- training ----


def training(records):
    """Loss over the steps, a curve a record, and each other value that a step has."""
    runs = [(record.name, record.steps) for record in records if record.steps]
    if not runs:
        return []
    names = [
        "loss",
        *dict.fromkeys(
            text(key) for _, steps in runs for step in steps for key in table(step.get("values")) if key != "loss"
        ),
    ]
    by_name = {name: _of_steps(runs, name) for name in names}
    panels = [
        _training_panel(group, by_name, len(runs) > 1)
        for group in _with_bounds(names)
        if any(len(one.points) > 1 for one in by_name[group[0]])
    ]
    rows = [
        [name, one.name, f"{one.points[0].y:.6g}", f"{one.points[-1].y:.6g}", str(len(one.points))]
        for name in names
        for one in by_name[name]
    ]
    odd = sum(number(step.get("loss")) is None for _, steps in runs for step in steps)
    notes = [f"{counted(odd, 'step')} with a loss that is not finite"] if odd else []
    return [
        Figure(
            "Training",
            "Values of each step.",
            panels,
            ["value", "run", "first", "last", "steps"],
            rows,
            notes,
            "training",
        )
    ]


def _of_steps(runs, name):
    series = []
    for style, (run, steps) in enumerate(runs):
        values = [
            (
                number(step.get("step")),
                number(step.get("loss") if name == "loss" else table(step.get("values")).get(name)),
            )
            for step in steps
        ]
        points = [svg.Point(x, y) for x, y in values if x is not None and y is not None]
        if points:
            series.append(svg.Series(run, points, style % LIMIT))
    return series


def _with_bounds(names):
    """A difference and its bound belong into one picture: (difference, bound), and (name,) of each other value."""
    pairs = {
        name: name.replace("difference", "bound")
        for name in names
        if "difference" in name and name.replace("difference", "bound") in names
    }
    return [(name, pairs[name]) if name in pairs else (name,) for name in names if name not in pairs.values()]


def _training_panel(group, by_name, several):
    series = []
    for index, name in enumerate(group):
        for one in by_name[name]:
            words = ", ".join(
                part for part in (name.replace("_", " ") if len(group) > 1 else "", one.name if several else "") if part
            )
            points = _thinned([point for point in one.points if len(group) == 1 or point.y > 0])
            series.append(svg.Series(words, points, LIMIT if index else one.style, bool(index), marks=False))
    axis = svg.Axis(group[0].replace("_", " "), number_text, log=10 if len(group) > 1 else 0)
    picture = svg.curves(
        f"{group[0]} over the steps",
        f"The {group[0]} of each step.",
        series,
        svg.Axis("step", lambda value: f"{value:g}"),
        axis,
    )
    return Panel(picture, _legend(series) if len(series) > 1 else [])


def _thinned(points, most=600):
    step = max(1, len(points) // most)
    return points[::step] + ([points[-1]] if (len(points) - 1) % step else [])
