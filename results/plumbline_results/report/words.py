"""Figures as people read them."""


def seconds_text(value):
    for unit, factor in (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3)):
        if abs(value) < 999.5 * factor:
            return f"{_three(value / factor)} {unit}" if value else "0"
    return f"{_three(value)} s"


def _three(value):
    """Three significant digits, without an exponent."""
    if value == 0:
        return "0"
    size = abs(value)
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3
    shown = f"{value:.{digits}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def bytes_text(value):
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= factor:
            return f"{_three(value / factor)} {unit}"
    return f"{value:g} B"


def rate_text(value):
    for unit, factor in (("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if value >= factor:
            return f"{_three(value / factor)} {unit}"
    return f"{_three(value)} B/s"


def number_text(value):
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        return _three(value)
    return f"{value:.3g}".replace("e-0", "e-").replace("e+0", "e")


def percent_text(value):
    return f"{_three(100 * value)} %"


def counted(count, name, plural=None):
    return f"{count:,} {name if count == 1 else plural or name + 's'}"


def value_text(value, unit):
    return seconds_text(value) if unit == "seconds" else f"{number_text(value)} {unit}".strip()
