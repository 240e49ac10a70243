"""A job's command that hands its start over to a process that has imported torch (bugs.py --warm), and ends when the job ends.

usage: enter.py SOCKET NAME
"""
import json, os, socket, sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as warm:
    warm.connect(sys.argv[1])
    socket.send_fds(warm, [json.dumps({"name": sys.argv[2], "environment": dict(os.environ)}).encode()], [0, 1, 2])
    warm.recv(1)
