"""An adapter of the protocol as a process: it is asked, and answers in time or is gone."""

import contextlib
import json
import queue
import subprocess
import tempfile
import threading

from .options import Failed

PATIENCE = 120  # seconds for an answer; the first import of torch on a cold disk takes one of them
MISSING = object()  # a field that an answer lacks, which is not one that is null


def short(value):
    text = "nothing" if value is MISSING else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Gone(Exception):
    """The adapter ended, or is silent."""


class Adapter:
    """A framework's adapter, a process."""

    def __init__(self, command):
        self._count, self._replies, self._complaints = 0, queue.Queue(), tempfile.TemporaryFile("w+", errors="replace")
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints, text=True, errors="replace")
        except OSError as error:
            raise Gone(f"it does not start: {error.strerror or error}") from None
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        try:
            self._take_greeting(self.ask("hello", {"protocol": 1}))
        except (Gone, Failed):
            self.close()
            raise

    def _take_greeting(self, reply):
        greeting = reply.get("result")
        if greeting is None:
            raise Failed(f"it greets with an error: {short(reply['error'].get('message', ''))}")
        operations, options = greeting.get("ops", []), greeting.get("options", {})
        if not isinstance(operations, list) or not all(isinstance(one, str) for one in operations):
            raise Failed(f"its greeting has other 'ops' than a list of names: {short(operations)}")
        if not isinstance(options, dict) or not all(isinstance(one, dict) and all(isinstance(values, list) for values in one.values()) for one in options.values()):
            raise Failed(f"its greeting has other 'options' than lists of values by operation and argument: {short(options)}")
        self.framework = str(greeting.get("name", "unnamed"))
        self.name = f"{self.framework} {greeting.get('version', '')}".rstrip()
        self.version, self._operations, self._options = str(greeting.get("version", "")), set(operations), options

    def _listen(self):
        try:
            for line in self._process.stdout:
                self._replies.put(line)
        finally:
            self._replies.put(None)

    def claims(self, operation, args):
        """Whether it has the operation, and the values of options that a question asks for."""
        def has(values, given):
            return all(str(one).partition(":")[0] in values for one in (given if isinstance(given, list) else [given]))
        return operation in self._operations and all(has(values, args[name]) for name, values in self._options.get(operation, {}).items() if name in args)

    def ask(self, operation, args):
        self._count += 1
        try:
            self._process.stdin.write(json.dumps({"id": self._count, "op": operation, "args": args}) + "\n")
            self._process.stdin.flush()
            line = self._replies.get(timeout=PATIENCE)
        except OSError:
            line = None
        except queue.Empty:
            raise Gone(f"{operation}: no answer in {PATIENCE} s") from None
        if line is None:
            raise Gone(f"it ended{self._last_complaint()}")
        try:
            reply = json.loads(line)
        except ValueError:
            raise Gone(f"its reply is no JSON: {line[:80]!r}") from None
        parts = [reply[name] for name in ("result", "error") if reply.get(name) is not None] if isinstance(reply, dict) else []
        if len(parts) != 1 or not isinstance(parts[0], dict):
            raise Gone(f"{operation}: its reply has no object as 'result' or 'error', or has both: {line.strip()[:80]!r}")
        if reply.get("id") != self._count:
            raise Gone(f"{operation}: its reply is to question {short(reply.get('id', MISSING))}, and {self._count} was asked")
        return reply

    def _last_complaint(self):
        with contextlib.suppress(subprocess.TimeoutExpired):  # of one that only closed its output
            self._process.wait(10)
        self._complaints.seek(0)
        said = [line.strip() for line in self._complaints if line.strip()]
        return f" and said last: {said[-1][:120]}" if said else "; its command by hand shows why"

    def close(self):
        with contextlib.suppress(OSError):  # of what it did not read
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()
        self._process.stdout.close()
        self._complaints.close()
