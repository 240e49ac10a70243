"""`plumbline results push`: the metrics.prom of runs to a Prometheus Pushgateway."""

import base64
import http.client
import os
import urllib.parse
from pathlib import Path

from .options import BadInput, Failed, parser, status_of
from .serve import LATEST, runs_of

SECONDS = 10
HELP = """Send the metrics of runs to a Prometheus Pushgateway, for jobs that end before Prometheus would ask
them. Each run replaces what was sent for it before: its metrics stand under job and run, the name of its folder."""
EXAMPLE = """Example: plumbline results push results/latest/check-local --gateway http://pushgateway:9091
Exit status: 0 sent; 2 a bad option or folder, or metrics that the gateway rejects; 3 it cannot be reached."""


def path_of(prefix, job, run):
    """Where the gateway keeps a group. What a path has no room for is in base64, as its documentation says."""

    def part(name, value):
        if value and "/" not in value and value not in (".", ".."):
            return f"/{name}/{urllib.parse.quote(value, safe='')}"
        coded = base64.urlsafe_b64encode(value.encode()).decode().rstrip("=")
        return f"/{name}@base64/{coded or '='}"

    return f"{prefix.rstrip('/')}/metrics{part('job', job)}{part('run', run)}"


def gateway_of(url):
    """Its parts, and the header that has the user and password of the URL. They are never printed."""
    try:
        parts = urllib.parse.urlsplit(url)
        is_right = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) and not parts.query and "#" not in url
        url.encode()
    except ValueError:  # the port, half an address in brackets, half a character
        is_right = False
    if not is_right:
        shown = url.rpartition("@")[2]
        raise BadInput(f"--gateway '{shown}' is not the URL of a Pushgateway, such as http://127.0.0.1:9091")
    headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return parts, headers


def send(parts, headers, path, text):
    """Raises BadInput where the gateway rejects it, Failed where there is none."""
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    connection = kind(parts.hostname, parts.port, timeout=SECONDS)
    try:
        connection.request("PUT", path, text.encode("utf-8"), headers)
        answer = connection.getresponse()
        words = answer.read(1000).decode("utf-8", "replace").strip()
    except TimeoutError:
        raise Failed(f"{where} gave no answer in {SECONDS} s") from None
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        raise Failed(f"cannot reach {where}: {getattr(error, 'strerror', None) or error}") from None
    finally:
        connection.close()
    if answer.status == 400:
        raise BadInput(f"{where} rejects the metrics: {words}")
    if answer.status not in (200, 202):
        raise Failed(f"{where}{path} answers {answer.status} {answer.reason}: it is no Pushgateway, or not for everybody")


def main(arguments):
    """Returns the exit status."""
    one = parser("results push", HELP, EXAMPLE)
    one.add_argument("folder", nargs="*", metavar="DIR", type=Path, help=f"folder of a run (default: all in {LATEST})")
    one.add_argument(
        "--gateway",
        default=os.environ.get("PLUMBLINE_PUSHGATEWAY"),
        metavar="URL",
        help="URL of the gateway, with user and password where it asks for them (default $PLUMBLINE_PUSHGATEWAY)",
    )
    one.add_argument("--job", default="plumbline", metavar="NAME", help="value of label job (default plumbline)")
    return status_of("results push", lambda: _run(one.parse_args(arguments)))


def _named(folders):
    """By the last part of their paths; that of a link, as in results/latest, and not of where it leads."""
    named = {}
    for folder in folders:
        name = os.path.basename(os.path.abspath(folder))
        if name in named:
            raise BadInput(f"'{folder}' and '{named[name]}' have one name, under which the gateway keeps the last one alone; push them one by one "
                           "with other values of --job")
        named[name] = folder
    return named


def _run(options):
    if not options.gateway:
        raise BadInput("--gateway is missing: the URL of a Pushgateway, such as http://127.0.0.1:9091")
    if not options.job:
        raise BadInput("--job '' is not a name")
    try:
        options.job.encode()
    except UnicodeError:
        raise BadInput("--job is no text; a name such as nightly would be right") from None
    parts, headers = gateway_of(options.gateway)
    texts = {}
    for name, folder in _named(options.folder or runs_of([]).values()).items():
        try:
            texts[name] = (folder / "metrics.prom").read_text("utf-8")
        except (OSError, UnicodeError) as error:
            if not options.folder:  # a run that has not written yet
                continue
            raise BadInput(f"'{folder}' has no metrics.prom that can be read; name the --out of a run") from error
    if not texts:
        raise BadInput(f"no run with metrics in {LATEST}; name the --out of a run")
    for name, text in texts.items():
        send(parts, headers, path_of(parts.path, options.job, name), text)
        print(f"sent: {name}", flush=True)
    return 0
