"""Where a run without --out writes: a folder of its own, as harness/cli/output_folder.hpp has it for the commands in C++."""
import errno
import os
import sys
import time
from pathlib import Path


def new_folder(name, results=Path("results")):
    """Makes results/runs/<UTC time>-NAME for this run alone, and has the link results/latest/NAME lead there. A folder in the place of
    the link, as earlier versions left it, is kept in results/runs under its own time. Throws OSError."""
    runs, link = Path(results) / "runs", Path(results) / "latest" / name
    runs.mkdir(parents=True, exist_ok=True)
    link.parent.mkdir(exist_ok=True)
    if not link.is_symlink() and link.exists():
        _keep(link, runs, name)
    folder = _dated(runs, name, time.time())
    try:
        _point(link, folder)
    except OSError:
        folder.rmdir()
        raise
    return folder


def _dated(runs, name, seconds):
    """mkdir() is for one alone: of two runs of one second, the later is dated at the next, so that names sort by age."""
    while True:
        folder = runs / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(seconds))}-{name}"
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            seconds += 1


def _keep(older, runs, name):
    if not older.is_dir():
        raise FileExistsError(errno.EEXIST, "a file is where a link would be; move it away, or give --out", str(older))
    try:
        kept = _dated(runs, name, older.stat().st_mtime)
        try:
            older.rename(kept)
        except OSError:
            kept.rmdir()
            raise
    except FileNotFoundError:
        return  # another run has moved it before
    print(f"'{older}' is a link from now on; what was there is in '{kept}'", file=sys.stderr)


def _point(link, folder):
    """At once: whoever looks finds the one folder or the other."""
    fresh = link.with_name(f".{folder.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(os.path.relpath(folder.resolve(), link.parent.resolve()))
    try:
        fresh.replace(link)
    except OSError:
        fresh.unlink()
        raise
