#!/usr/bin/env python3
"""Fails when a requirement's text is not written as conformance/README.md says: without its level in capitals, in a sentence of
more than 30 words, in words that only we understand, or in words without a measure. A rationale, and the meaning of a term, are held
to the same, except that they have no level and may have words without a measure. Each term of a component occurs in one of its
requirements; a component has at most 16.

usage: check_requirements.py [ROOT | FILE…]
"""
import re, sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.9 and 3.10
    import tomli as tomllib

MOST_WORDS = 30
MOST_TERMS = 16
# A text with more words than these has a list, whose items are lines that begin with "- "; the second is for what is rejected.
MOST_UNLISTED = 60, 45
LEVELS = {"must": ("MUST",), "should": ("SHOULD",), "may": ("MAY", "MUST", "SHOULD")}  # of what is claimed, a MUST
# What a reader has to guess at, and what is meant.
BANNED = {
    r"behind|ahead of": "after, before, further along",
    r"in turns?": "alternately",
    r"anew|over again": "again",
    r"going round|goes round|in a circle|circles?": "cycle, wrap-around",
    r"no number|is none|are none": "NaN, non-finite; what it is instead",
    r"how many|how-manieth": "the number of; n-th",
    r"that there is|there is one|that is there|are there": "existing, present",
    r"where it is asked for|is asked for": "requested",
    r"so often|so many|as many|so long": "the number",
    r"of now|at present": "current",
    r"shared out": "sharded",
    r"is told|are told|is said|are said|says|say": "reports, returns",
    r"refuses?|refused|refusal": "rejects, rejected with the error",
    r"the same of|that holds for|as above|likewise|all the same|by the way": "the whole sentence again",
    r"alike": "identical, equal",
    r"goes on|go on": "continues",
    r"who|whoever|nobody|somebody|one another": "the rank, the process, each other",
    r"phone book": "peer list",
    r"kin|arm|arms": "variants, execution mode",
}
# What has no measure, so that no vendor can tell what violates it. "As soon as" and "immediately after" give an order.
UNMEASURED = {
    r"(?<!as )soon|promptly|quickly|immediately(?! (?:after|before))|without delay|some time": "within N seconds, or before what",
    r"correctly|correct(?! results?)|right results?|properly|appropriate(?:ly)?|reasonabl[ey]|suitabl[ey]": "the rule; correct result, where a term defines it",
    r"usually|normally|typically|approximately|roughly|nearly": "when; within what error",
}


def problems_of(text, level=None):
    """What is wrong with a requirement's text; without a level, with its rationale."""
    if level and not re.search(rf"\b({'|'.join(LEVELS[level])})\b", text):
        yield f"has no {LEVELS[level][0]}, and its level is {level}"
    if level and (words := len(text.split())) > MOST_UNLISTED["reject" in text] and "\n- " not in text:
        yield f"has {words} words and no list; write a main sentence, and lines that begin with '- '"
    text = re.sub(r"(?m)^- ", "", text)
    for sentence in re.split(r"[.;:](?=\s|$)", text):
        if (words := len(sentence.split())) > MOST_WORDS:
            yield f"has a sentence of {words} words; at most {MOST_WORDS}: '{' '.join(sentence.split()[:6])} …'"
    plain = re.sub(r"`[^`]*`", "", text)
    for pattern, meant in (BANNED | UNMEASURED if level else BANNED).items():
        if found := re.search(rf"(?i)(?<![\w-])({pattern})(?![\w-])", plain):
            yield f"says '{found[0]}'; write: {meant}"


def has_word(text, word):
    """Whether the word stands in the text, also in the plural; a sentence may begin with it. As RequirementTable::terms_in does."""
    return re.search(rf"(?i)(?<![A-Za-z0-9_]){re.escape(word)}(es|s)?(?![A-Za-z0-9_])", text) is not None


def problems_of_terms(terms, texts):
    """What is wrong with a component's terms, by forms ("claim, claims") their meaning, beside its requirements' texts."""
    if len(terms) > MOST_TERMS:
        yield f"has {len(terms)} terms; at most {MOST_TERMS}"
    for forms, meaning in terms.items():
        for form in forms.split(", "):
            if not any(has_word(text, form) for text in texts):
                yield f"term '{form}' occurs in no requirement; leave it out"
        yield from (f"term '{forms}' {problem}" for problem in problems_of(meaning))


def main(files):
    rows, wrong = 0, 0
    terms, texts = {}, {}
    for file in files:
        parsed = tomllib.loads(file.read_text(encoding="utf-8"))
        if "terms" in parsed:
            terms[parsed["component"]] = file, parsed["terms"]
        for row in parsed["requirement"]:
            texts.setdefault(parsed.get("component"), []).append(row["text"])
            rows += 1
            found = [*problems_of(row["text"], row["level"]), *(f"rationale {problem}" for problem in problems_of(row.get("rationale", "")))]
            wrong += len(found)
            for problem in found:
                print(f"{file}: {row['id']} {problem}")
    for component, (file, own) in terms.items():
        for problem in problems_of_terms(own, texts[component]):
            wrong += 1
            print(f"{file}: {problem}")
    print(f"{rows} requirements, {wrong} problems")
    return 1 if wrong or rows == 0 else 0


if __name__ == "__main__":
    given = [Path(argument) for argument in sys.argv[1:]] or [Path(__file__).resolve().parent.parent]
    if len(given) == 1 and given[0].is_dir():
        given = sorted(given[0].glob("conformance/*/*requirements.toml")) + [given[0] / "harness/requirements.toml"]
    for file in given:
        if not file.is_file():
            print(f"check_requirements.py: there is no file '{file}'; give a requirements.toml, or the root", file=sys.stderr)
            sys.exit(2)
    sys.exit(main(given))
