"""`plumbline serve`: the metrics.prom of runs as one page for Prometheus."""

import re
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .options import BadInput, Failed, parser, status_of

LATEST = Path("results/latest")
HELP = """Serve the metrics of runs to Prometheus, also of a check under way, which brings its metrics.prom up to date
while it runs. Each request reads the files anew; label "run" has the folder. Ctrl-C ends it."""
EXAMPLE = """Example: plumbline serve
         plumbline serve nightly/check nightly/bench --listen 0.0.0.0:9469
Exit status: 0 ended by Ctrl-C; 2 a bad option or folder; 3 it cannot listen there."""
SAMPLE = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")


def merged(texts):
    """One exposition of those of several runs, by their names: the samples of a metric together, with its HELP once. Runs of
    one subject may have the same labels otherwise."""
    families = {}
    for run, lines in texts:
        own = 'run="' + run.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        for line in lines.splitlines():
            words = line.split(" ", 3)
            if words[0] == "#" and len(words) > 2 and words[1] in ("HELP", "TYPE"):
                families.setdefault(words[2], {}).setdefault(words[1], line)
            elif sample := SAMPLE.match(line):
                name, rest = sample[0], line[sample.end() :]
                labels = f"{{{own},{rest[1:]}" if rest.startswith("{") else f"{{{own}}}{rest}"
                families.setdefault(name, {}).setdefault("samples", []).append(name + labels)
    lines = []
    for family in families.values():
        lines += [family[kind] for kind in ("HELP", "TYPE") if kind in family] + family.get("samples", [])
    return "".join(line + "\n" for line in lines)


def runs_of(folders):
    """By their names: the folders as they were given, or else all of the last runs."""
    return {str(one): one for one in folders} if folders else {one.name: one for one in sorted(LATEST.glob("[!.]*"))}


def metrics_of(folders):
    texts = []
    for name, folder in runs_of(folders).items():
        try:
            texts.append((name, (folder / "metrics.prom").read_text("utf-8", "replace")))
        except OSError:  # no run has written there yet, or one has just moved it
            continue
    return merged(texts)


def server(address, folders):
    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # of a client that does not send its request

        def do_GET(self):
            found = self.path.partition("?")[0] == "/metrics"
            page = metrics_of(folders) if found else "see /metrics\n"
            content = page.encode("utf-8")
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        daemon_threads = True

    return Server(address, Handler)


def _address(text):
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise BadInput(f"--listen '{text}' is not an address and a port, such as 127.0.0.1:9469 or [::1]:9469")
    return host, int(port)


def main(arguments):
    """Returns the exit status."""
    one = parser("serve", HELP, EXAMPLE)
    one.add_argument("folder", nargs="*", metavar="DIR", type=Path, help=f"folder of a run (default: all in {LATEST})")
    one.add_argument(
        "--listen",
        default="127.0.0.1:9469",
        metavar="ADDRESS:PORT",
        help="where it listens (default 127.0.0.1:9469: this machine alone; port 0: any that is free)",
    )
    return status_of("serve", lambda: _run(one.parse_args(arguments)))


def _run(options):
    for folder in options.folder:
        if not folder.is_dir():
            raise BadInput(f"'{folder}' is no folder; name the --out of a run")
    address = _address(options.listen)
    try:
        listening = server(address, options.folder)
    except (OSError, UnicodeError) as error:
        raise Failed(f"cannot listen at {options.listen}: {getattr(error, 'strerror', None) or error}") from None
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    print(f"serving http://{host}:{listening.server_address[1]}/metrics", flush=True)
    with listening:
        try:
            listening.serve_forever()
        except KeyboardInterrupt:
            return 0
