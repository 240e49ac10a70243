"""The lines of digits.jsonl, or the rows of README.md's tables, from what `plumbline train --averaging` left.

usage: record.py [--table] ["PREFIX: ="]averaging.json ...

PREFIX, such as float16, goes with its colon before the algorithms' names. The single device is taken from the first file alone,
which all must agree with. Python's standard library is enough. Exit status 2 for a file that is none of these.
"""
import json
import sys
from statistics import mean


def refuse(words):
    print(f"record.py: {words}", file=sys.stderr)
    sys.exit(2)


def line_of(run, prefix):
    """A run in numbers: accuracies as shares, distances in the 2-norm."""
    line = {"algorithm": prefix + run["algorithm"], "seed": run["seed"], "accuracy": round(run["accuracy"], 6),
            "worst_rank": round(min(run["rank_accuracies"]), 6) if run["rank_accuracies"] else None,
            "last_loss": round(run["loss"][-1], 5)}
    if run["distance_largest"]:
        line |= {"distance_largest": round(max(run["distance_largest"]), 4),
                 "distance_mean": round(mean(run["distance_mean"]), 4),
                 "distance_last": round(run["distance_largest"][-1], 4)}
    return line


def lines_of(arguments):
    lines, alone = [], []
    for argument in arguments:
        before, colon, behind = argument.partition(": =")
        prefix, file = (before + ": ", behind) if colon else ("", argument)
        try:
            with open(file) as text:
                runs = json.load(text)
            named = [run["algorithm"] for run in runs]
        except (OSError, ValueError, TypeError, KeyError) as error:
            refuse(f"{file}: no averaging.json of `plumbline train --averaging`: {error}")
        if "one device" not in named:
            refuse(f"{file}: no run on one device")
        device = [line_of(run, "") for run in runs if run["algorithm"] == "one device"]
        if not alone:
            lines += (alone := device)
        elif device != alone:
            refuse(f"{file}: the single device is another one than in the files before")
        lines += [line_of(run, prefix) for run in runs if run["algorithm"] != "one device"]
    return lines


def percent(values, digits=2):
    values = [100 * value for value in values]
    return f"{mean(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def table_of(lines):
    alone = mean(line["accuracy"] for line in lines if line["algorithm"] == "one device")
    rows = []
    for name in dict.fromkeys(line["algorithm"] for line in lines):
        own = [line for line in lines if line["algorithm"] == name]
        cells = [name, percent([line["accuracy"] for line in own])]
        if name == "one device":
            cells += [""] * 4
        else:
            cells += [f"{100 * (mean(line['accuracy'] for line in own) - alone):+.2f}",
                      f"{100 * min(line['worst_rank'] for line in own):.2f}",
                      f"{max(line['distance_largest'] for line in own):.3f}",
                      f"{mean(line['distance_mean'] for line in own):.3f}"]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


if __name__ == "__main__":
    files = [argument for argument in sys.argv[1:] if argument != "--table"]
    if not files:
        sys.exit(__doc__)
    found = lines_of(files)
    print("\n".join(table_of(found) if "--table" in sys.argv else map(json.dumps, found)))
