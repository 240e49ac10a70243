"""A job's command that hands a Python program over to a process that has imported torch (warm.py), and ends as the program ends.

usage: enter.py SOCKET PROGRAM [ARGUMENT]...
"""
import json, os, resource, signal, socket, sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as warm:
    warm.connect(sys.argv[1])
    asked = os.memfd_create("asked")  # an environment may be longer than a packet
    with open(asked, "w", closefd=False) as file:
        json.dump({"program": sys.argv[2:], "folder": os.getcwd(), "environment": dict(os.environ)}, file)
    socket.send_fds(warm, [b"asked"], [asked, 0, 1, 2])
    status = warm.recv(16)
if not status:
    sys.exit("enter.py: warm.py ended before the program")
if int(status) >= 0:
    sys.exit(int(status))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program's own core is enough
if -int(status) != signal.SIGKILL:
    signal.signal(-int(status), signal.SIG_DFL)
os.kill(os.getpid(), -int(status))
