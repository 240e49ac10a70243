"""`plumbline vectors --vary`: questions beside the recorded ones, answered by a framework and by the reference. What is
recorded can be learned by heart; what is drawn cannot."""

import collections
import contextlib
import copy
import functools
import json
import os
import random

from .adapter_process import MISSING, Adapter, Gone
from .options import Failed

ENDS = ("equal", "refused by both", "differ", "refused by the framework alone", "refused by the reference alone", "unsupported", "the framework ended or was silent")
SHOWN = 3  # of each way in which they disagree
LINE = 400  # characters
LONGEST = 20000  # characters of a question
ALLOWANCE = 10  # times the tolerance of recorded answers: what was drawn may cancel more


def varied_number(draw, value):
    if isinstance(value, bool):
        return draw.random() < 0.5
    if isinstance(value, int):
        return draw.choice((value - 1, value + 1, 2 * value, value // 2, draw.randint(0, max(8, value)), draw.choice((0, -1, 1, 3, 5, 7))))
    if isinstance(value, float):
        return draw.choice((2 * value, value / 2, value + 1, -value, 0.0, 1.0, 1.5 * value))
    return value


def varied(draw, value):
    """The value with one change somewhere: another number, or a list with an element less, more or elsewhere."""
    if isinstance(value, dict) and value:
        name = draw.choice(list(value))
        return {**value, name: varied(draw, value[name])}
    if not isinstance(value, list) or not value:
        return varied_number(draw, value)
    value, place, way = list(value), draw.randrange(len(value)), draw.random()
    if way < 0.2:
        value.pop(place)
    elif way < 0.4:
        value.insert(place, copy.deepcopy(draw.choice(value)))
    elif way < 0.5:
        draw.shuffle(value)
    else:
        value[place] = varied(draw, value[place])
    return value


def questions(recorded, count, seed):
    """`count` questions, none twice, each a recorded (operation, arguments, answer) with one to three changes of its arguments; fewer
    where they repeat. With them the answer's fields."""
    draw, seen = random.Random(seed), set()
    for _ in range(20 * count if recorded else 0):
        operation, args, answer = draw.choice(recorded)
        for _ in range(draw.choice((1, 1, 2, 3))):
            name = draw.choice([name for name in args if name != "convention"] or ["convention"])
            if name != "convention":
                args = {**args, name: varied(draw, args[name])}
        text = json.dumps([operation, args], sort_keys=True)
        if text not in seen and len(text) <= LONGEST:
            seen.add(text)
            yield operation, args, tuple(answer or ())
        if len(seen) == count:
            return


def bare(value, left_out):
    """Without the words of errors, which are each system's own, and without fields to be left out."""
    if isinstance(value, list):
        return [bare(one, left_out) for one in value]
    if isinstance(value, dict):
        return {name: name == "error" or bare(one, left_out) for name, one in value.items() if name not in left_out}
    return value


def names_in(value):
    """The names of all fields, at any depth."""
    if isinstance(value, dict):
        yield from value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from names_in(one)


def without_more(ours, theirs, known):
    """Without what the reference says beside what is recorded and what the framework says, and without its empty lists that the
    framework leaves out."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {name: without_more(one, theirs.get(name), known) for name, one in ours.items() if name in theirs or (name in known and one not in ([], {}, None))}
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [without_more(*pair, known) for pair in zip(ours, theirs)]
    return ours


def compared(theirs, ours, fields, difference, left_out=(), known=()):
    """(how it ended, in words where they disagree), of the replies of framework and reference. Of the whole answers the fields are
    compared that the recorded one has; of a recorded refusal, those that both have."""
    refusals = [reply.get("error") for reply in (theirs, ours)]
    if "unsupported" in [refusal.get("kind") for refusal in refusals if refusal]:
        return "unsupported", ""
    if all(refusals):
        return "refused by both", ""
    if any(refusals):
        alone = "the framework" if refusals[0] else "the reference"
        return f"refused by {alone} alone", str((refusals[0] or refusals[1]).get("message", ""))[:120]
    answers = [bare(reply["result"], left_out) for reply in (ours, theirs)]
    answers[0] = without_more(*answers, known)
    looked_at = [name for name in fields if name not in left_out] if fields else [name for name in answers[0] if name in answers[1]]
    words = difference(*({name: answer.get(name, MISSING) for name in looked_at} for answer in answers)) if looked_at else "they share no field"
    return ("differ" if words else "equal"), words


def replies(adapter, start, asked):
    """(operation, arguments, fields, reply) of what a framework claims; no reply where it ended or was silent, after which another is
    started."""
    try:
        for operation, args, fields in asked:
            if not adapter.claims(operation, args):
                continue
            try:
                yield operation, args, fields, adapter.ask(operation, args)
            except Gone:
                yield operation, args, fields, None
                adapter.close()
                adapter = start()
    finally:
        adapter.close()


def reference():
    """The reference's adapter: nothing that it is asked may end it."""
    command = [os.environ.get("PLUMBLINE_EXECUTABLE", "plumbline"), "adapter"]
    try:
        return Adapter(command)
    except Gone as why:
        raise Failed(f"the reference, {' '.join(command)}: {why}") from None


def vary(adapter, start, recorded, options, difference_of, left_out):
    """Prints what a framework and the reference say of drawn questions; returns how many were asked, how many answers are equal and how many differ."""
    counts, lines = collections.Counter(), collections.defaultdict(list)
    known = {name for *_, answer in recorded for name in names_in(answer)}
    with contextlib.closing(reference()) as ours:
        for operation, args, fields, theirs in replies(adapter, start, questions(recorded, options.vary, options.seed)):
            difference = functools.partial(difference_of, operation)
            try:
                end, words = compared(theirs, ours.ask(operation, args), fields, difference, left_out.get(operation, ()), known) if theirs else (ENDS[-1], operation)
            except Gone as why:
                raise Failed(f"the reference: {why}; asked {json.dumps({'op': operation, 'args': args})}") from None
            counts[end] += 1
            if words:
                lines[end].append(f"    {end}: {words}: {json.dumps({'op': operation, 'args': args})}")
    print(f"  varied with seed {options.seed}: " + ", ".join(f"{counts[end]} {end}" for end in ENDS if counts[end]))
    for line in (line for end in ENDS for line in lines[end][:SHOWN]):
        print(line if len(line) < LINE else line[:LINE] + "...")
    return {"asked": sum(counts.values()), **{end: counts[end] for end in ("equal", "differ")}}
