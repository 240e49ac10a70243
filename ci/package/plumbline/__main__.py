"""The command `plumbline`: the program that lies beside this file."""
import os
import signal
import sys


def main():
    # Where LibTorch is not beside us, this interpreter is asked for its torch.
    os.environ.setdefault("PLUMBLINE_PYTHON", sys.executable)
    # Python ignores these, and what it becomes would: `plumbline … | head` would end with an error.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "plumbline")
    os.execv(program, ["plumbline", *sys.argv[1:]])


if __name__ == "__main__":
    main()
