"""A job's command that hands a Python program over to a process that has imported torch (warm.py), and ends when the program ends.

usage: enter.py SOCKET PROGRAM [ARGUMENT]...
"""
import json, os, socket, sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as warm:
    warm.connect(sys.argv[1])
    asked = {"program": sys.argv[2:], "folder": os.getcwd(), "environment": dict(os.environ)}
    socket.send_fds(warm, [json.dumps(asked).encode()], [0, 1, 2])
    warm.recv(1)
