"""`python3 -m plumbline_results COMMAND …`: what `plumbline COMMAND …` becomes for commands that read records."""
import importlib
import os
import signal
import sys

# A command's module beside this file. Its main(arguments) returns the exit status.
COMMANDS = {
    "compare": "compare",
    "gate": "gate",
    "calibrate": "calibrate",
    "results": "history",
    "trend": "trend",
    "selftest": "selftest",
    "report": "report",
    "serve": "serve",
    "scoreboard": "scoreboard",
    "trace": "trace",
    "vectors": "vectors",
}
# Words after a command that have a module of their own.
SUBCOMMANDS = {("results", "export"): "exports", ("results", "import"): "imports", ("results", "push"): "push"}


def _missing(name, module):
    module = {"markupsafe": "jinja2"}.get(module, module)  # the one comes with the other
    print(f"plumbline: {name}: {sys.executable} has no {module}; pip install {module} (or 'plumbline-suite[results]', with all), "
          "or set PLUMBLINE_PYTHON to a Python that has it", file=sys.stderr)
    return 3


def main(words):
    if not words or words[0] not in COMMANDS:
        print(f"plumbline: no command '{words[0] if words else ''}'; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    name = words[0]
    own = SUBCOMMANDS.get(tuple(words[:2]))
    try:
        module = importlib.import_module(f".{own or COMMANDS[name]}", __package__)
        return module.main(words[2 if own else 1:])
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(__package__):
            raise
        return _missing(name, error.name)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        return 130


if __name__ == "__main__":
    status = main(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"plumbline: cannot write to standard output: {error.strerror}", file=sys.stderr)
        status = 3
    sys.exit(status)
