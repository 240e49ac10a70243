"""Values of a record, which may be hostile, in Markdown: no HTML, no link, no mention of anyone, no other table than ours."""

import re

from .records import text

MOST_TEXT = 1500


def cut(value, most=MOST_TEXT):
    value = text(value)
    return value if len(value) <= most else f"{value[:most]} … ({len(value) - most} more characters)"


def anchor(value):
    return re.sub(r"[^A-Za-z0-9]+", "-", value).strip("-").lower()[:80] or "x"


def plain(value, most=300):
    """On one line, with nothing that Markdown or GitHub gives a meaning."""
    value = re.sub(r"\s+", " ", cut(value, most)).strip()
    value = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    value = re.sub(r"([\\`*_{}\[\]()#+!|~$])", r"\\\1", value)
    # Addresses become links, @names and #numbers mentions, unless something stands between.
    return value.replace("@", "@&#8203;").replace("://", ":&#8203;//").replace("www.", "www&#8203;.")


def listed(value):
    """A requirement's main sentence, then the items of its list, which are lines that begin with `- `."""
    return [" ".join(part.split()) for part in value.split("\n- ")]


def sentence(value, most=MOST_TEXT):
    """A requirement's text in a cell of a table, with each item of its list on a line."""
    return "<br>- ".join(plain(part, most) for part in listed(cut(value, most)))


def raw(value, most=300):
    """Within tags, where Markdown may or may not have a meaning: signs that have one as entities."""
    value = re.sub(r"\s+", " ", cut(value, most)).strip().replace("&", "&amp;")
    value = re.sub(r"[<>|`*_\[\]()$~\\#!]", lambda sign: f"&#{ord(sign[0])};", value)
    return value.replace("@", "@&#8203;").replace("://", ":&#8203;//").replace("www.", "www&#8203;.")


def code(value, most=300):
    value = raw(value, most)
    return f"<code>{value}</code>" if value else ""
