"""`plumbline results`: a history of records, a folder that anybody can copy.

Model   A record is a file NAME.jsonl, as it was written. NAME begins with the run's start and ends with a hash of the content: the same
        record is there once, whoever adds it, and a name never means another one. A file takes its name only when it is whole and on the
        disk, by a link that fails where the name is taken: writers at the same time do not wait for each other, and one that is killed,
        or finds the disk full, leaves nothing that a reader would see.
"""
import fnmatch
import hashlib
import json
import os
import re
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from . import options, series as series_of
from .options import BadInput, Failed

HELP = "Keep a history of records, for `plumbline trend` and `plumbline compare`. It is a folder: of $PLUMBLINE_HISTORY, or results/history."
EXAMPLE = """Example: plumbline results add results/latest/bench
         plumbline results list --label commit=3f2a9c1
         plumbline compare $(plumbline results list --command bench --paths | tail -2)
         plumbline results prune --keep 200
Further parts have a --help of their own: `plumbline results export` and `import`, other tools' forms, and `push`, to a Pushgateway.
Exit status: 0 done; 2 usage, or no such record; 3 the history cannot be read or written: what was in it stays."""

UNFINISHED = ".unfinished-"  # begins the names of files that are being written, which do not end in .jsonl
ABANDONED_AFTER = 3600  # seconds after which one of those belongs to no writer any more


@dataclass
class Kept:
    """A record in the history."""
    path: Path
    header: dict
    complete: bool

    @property
    def id(self):
        return self.path.stem.rsplit("-", 1)[-1]

    @property
    def started(self):
        return str(self.header.get("started", ""))

    @property
    def labels(self):
        return {**self.header.get("facts", {}), **self.header.get("labels", {})}

    @property
    def group(self):
        """What runs of the same kind have in common."""
        environment = self.header.get("environment", {})
        return self.header.get("command"), self.header.get("subject"), environment.get("cpu"), environment.get("cores")

    def told(self):
        """A line, with what somebody gave the run to be known by."""
        labels = " ".join(f"{key}={value}" for key, value in self.header.get("labels", {}).items())
        return f"{self.id} ({self.started}{', ' + labels if labels else ''})"


def default_store():
    return os.environ.get("PLUMBLINE_HISTORY") or "results/history"


def name_of(header, content):
    started = re.sub(r"[^0-9TZ]", "", str(header.get("started", "")))[:16] or "undated"
    command = re.sub(r"[^a-z]", "", str(header.get("command", "")))[:16] or "run"
    return f"{started}-{command}-{hashlib.sha256(content).hexdigest()[:12]}.jsonl"


def _sync(folder):
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def add(store, path):
    """Adds the record at `path`. Returns its file, and whether it is new. Throws BadInput for what is no record, Failed where it cannot
    be written."""
    file = Path(path) / "run.jsonl" if Path(path).is_dir() else Path(path)
    header = next(series_of.lines_of(file))[1]
    for _ in series_of.lines_of(file):  # damage in the middle is refused here, not found in a year
        pass
    series_of.read_record(file)
    try:
        content = file.read_bytes()
        Path(store).mkdir(parents=True, exist_ok=True)
        kept = Path(store) / name_of(header, content)
        if kept.exists():
            return kept, False
        unfinished = Path(store) / f"{UNFINISHED}{kept.stem}-{os.getpid()}-{time.time_ns()}"
        try:
            with open(unfinished, "xb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            try:
                os.link(unfinished, kept)
            except FileExistsError:  # another writer was first, with the same content
                return kept, False
        finally:
            unfinished.unlink(missing_ok=True)
        _sync(store)
        return kept, True
    except OSError as error:
        raise Failed(f"'{store}': {path} cannot be added: {error.strerror or error}") from None


def _read(path):
    """What a listing shows; None for a file that is no record."""
    try:
        with open(path, "rb") as file:
            header = json.loads(file.readline())
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 65536))
            last = file.read().rstrip(b"\n").rsplit(b"\n", 1)[-1]
    except FileNotFoundError:  # pruned meanwhile
        return None
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("type") != "header":
        raise Failed(f"{path}: no record; move it away")
    return Kept(path, header, last.startswith(b"{") and b'"type":"complete"' in last.replace(b" ", b""))


def records(store):
    """By their start. Throws BadInput where there is no history."""
    if not Path(store).is_dir():
        raise BadInput(f"'{store}' is no folder; `plumbline results add RECORD --store {store}` begins a history")
    found = [_read(path) for path in sorted(Path(store).glob("*.jsonl"))]
    return sorted((one for one in found if one), key=lambda one: (one.started, one.path.name))


def find(store, identity):
    found = [one for one in records(store) if one.id.startswith(identity) or one.path.stem == identity]
    if len(found) != 1:
        raise BadInput(f"'{identity}' is the beginning of {len(found)} records in '{store}'; `plumbline results list` shows them")
    return found[0]


def _add(given):
    for path in given.record:
        kept, is_new = add(given.store, path)
        print(f"{'added' if is_new else 'already there'}: {kept}")
    return 0


def _chosen(given):
    wanted = []
    for label in given.label:
        if "=" not in label:
            raise BadInput(f"--label '{label}' is not KEY=VALUE")
        wanted.append(label.split("=", 1))
    return [one for one in records(given.store) if (given.command is None or one.header.get("command") == given.command)
            and all(fnmatch.fnmatchcase(str(one.labels.get(key, "")), value) for key, value in wanted)]


def _list(given):
    found = _chosen(given)
    if given.paths:
        print("".join(f"{one.path}\n" for one in found), end="")
    elif given.format == "json":
        print(json.dumps([{"id": one.id, "path": str(one.path), "started": one.started, "command": one.header.get("command"),
                           "subject": one.header.get("subject"), "labels": one.labels, "complete": one.complete} for one in found], indent=1))
    else:
        rows = [[one.id, one.started, str(one.header.get("command")), str(one.header.get("subject")), "" if one.complete else "unfinished",
                 " ".join(f"{key}={value}" for key, value in one.header.get("labels", {}).items())] for one in found]
        if rows:
            rows = [[series_of.printable(cell) for cell in row] for row in rows]
            print("\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                            for widths in [[max(map(len, column)) for column in zip(*rows)]] for row in rows))
        print(f"{len(found)} records in {given.store}")
    return 0


def _show(given):
    from . import tables
    kept = find(given.store, given.id)
    record = series_of.read_record(kept.path)
    facts = [kept.told(), f"file: {kept.path}", f"subject: {kept.header.get('subject')}",
             f"command: {' '.join(map(str, kept.header.get('arguments', [])))}",
             f"machine: {', '.join(f'{key} {value}' for key, value in record.machine.items())}",
             "complete" if kept.complete else "unfinished"]
    print("\n".join(map(series_of.printable, facts)))
    rows = [[one.name, tables.value_text(_center(one), one.unit), str(len(one.launches)), one.noisy] for one in
            sorted(record.series.values(), key=series_of.order)]
    if rows:
        print("\n".join(tables.aligned(["series", "median", "launches", "noisy"], rows)))
    return 0


def _center(series):
    import statistics
    return statistics.median(series.medians)


def _too_old(found, keep, days):
    """Those that go: all but the newest `keep` of each kind, and what is older than `days`."""
    gone = set()
    if keep is not None:
        groups = {}
        for one in found:
            groups.setdefault(one.group, []).append(one)
        gone |= {one.path for group in groups.values() for one in group[:max(0, len(group) - keep)]}
    if days is not None:
        limit = (datetime.now(timezone.utc) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
        gone |= {one.path for one in found if one.started < limit}
    return [one for one in found if one.path in gone]


def _prune(given):
    if given.keep is None and given.days is None:
        raise BadInput("neither --keep nor --days; one of them says what goes")
    gone = _too_old(records(given.store), given.keep, given.days)
    for one in gone:
        if not given.dry_run:
            one.path.unlink(missing_ok=True)
        print(f"{'would remove' if given.dry_run else 'removed'}: {one.path}")
    if not given.dry_run:
        for left in Path(given.store).glob(UNFINISHED + "*"):  # of writers that were killed
            if time.time() - left.stat().st_mtime > ABANDONED_AFTER:
                left.unlink(missing_ok=True)
    print(f"{len(gone)} of {len(gone) + len(records(given.store)) - (len(gone) if given.dry_run else 0)} records")
    return 0


def _parser():
    parser = options.parser("results", HELP, EXAMPLE)
    parts = parser.add_subparsers(dest="part", metavar="add|list|show|prune|export|import|push", required=True, parser_class=type(parser))

    def part(name, words, body):
        one = parts.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".", epilog=EXAMPLE,
                               formatter_class=parser.formatter_class, allow_abbrev=False)
        one.add_argument("--store", default=default_store(), metavar="DIR", help="the history (default $PLUMBLINE_HISTORY, or results/history)")
        one.set_defaults(body=body)
        return one
    one = part("add", "add records; existing ones stay as they are", _add)
    one.add_argument("record", nargs="+", metavar="RECORD", help="a run.jsonl, or the folder that has one")
    one = part("list", "list records, the oldest first", _list)
    one.add_argument("--command", metavar="NAME", help="only of bench, check, train or mutants")
    one.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help="only with this label, with * and ?; may be repeated")
    one.add_argument("--format", default="text", choices=("text", "json"), metavar="FORMAT", help="text or json (default text)")
    one.add_argument("--paths", action="store_true", help="print their files alone, one a line")
    one = part("show", "show one record", _show)
    one.add_argument("id", metavar="ID", help="of `plumbline results list`, or the beginning of one")
    one = part("prune", "remove old records", _prune)
    one.add_argument("--keep", type=options.whole("count", 1), metavar="N", help="the newest N of each command, subject and machine stay")
    one.add_argument("--days", type=options.whole("count", 1), metavar="N", help="what began longer ago goes")
    one.add_argument("--dry-run", action="store_true", help="print what would go, and remove nothing")
    return parser


def main(words):
    def body():
        given = _parser().parse_args(words)
        return given.body(given)
    return options.status_of("results", body)
