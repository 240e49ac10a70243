"""What the commands share: options, errors in one line, and the exit status that they mean."""
import argparse
import sys
import textwrap


class BadInput(Exception):
    """One line: where, what is wrong with the value, and what would be right. Exit status 2."""


class Failed(Exception):
    """The machine, a program or a file stood in the way. One line; exit status 3."""


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise BadInput(f"{message} (see {self.prog} --help)")


class Help(argparse.RawDescriptionHelpFormatter):
    """The form of all help: paragraphs in 100 columns, examples as they are written."""

    def __init__(self, prog):
        super().__init__(prog, width=100)

    def _fill_text(self, text, width, indent):
        paragraphs = []
        for line in text.splitlines():
            is_kept = not line or line.startswith((" ", "Example:", "Exit status:"))
            if is_kept or not paragraphs or paragraphs[-1].startswith((" ", "Example:")):
                paragraphs.append(line)
            else:
                paragraphs[-1] += " " + line
        return "\n".join("\n".join(textwrap.wrap(one, 100, subsequent_indent=" " * (len(one) - len(one.removeprefix("Example:").lstrip())),
                                                 break_on_hyphens=False, break_long_words=False)) for one in paragraphs)


def parser(name, description, example):
    """Of `plumbline NAME`, whose help ends with an example and the exit statuses."""
    return _Parser(prog=f"plumbline {name}", description=description, epilog=example, allow_abbrev=False,
                   formatter_class=Help)


def whole(name, least, most=(1 << 63) - 1):
    """A whole number from `least` on."""
    def convert(text):
        if not text.isascii() or not text.isdigit() or len(text) > 19 or not least <= int(text) <= most:
            to = "on" if most >> 62 else f"to {most}"
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from {least} {to}")
        return int(text)
    convert.__name__ = name
    return convert


def share(text):
    """'5%' or '0.05', above 0 and below 1."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = 0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a share such as 5% or 0.05")
    return value


MOST_TEXT = 500


def in_one_line(text):
    """Of an error, for a terminal. It may have words of a stranger: what would steer the terminal is shown as a number, and of a long one
    the middle is left out."""
    text = "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in " ".join(text.split()))
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT * 2 // 3]} ... {text[-MOST_TEXT // 3:]}"


def status_of(name, body):
    """What body() returns; an error becomes one line on standard error, and its status."""
    try:
        return body()
    except BadInput as error:
        status, why = 2, str(error)
    except Failed as error:
        status, why = 3, str(error)
    except OSError as error:
        status, why = 3, f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    print(f"plumbline: {name}: {in_one_line(why)}", file=sys.stderr)
    return status
