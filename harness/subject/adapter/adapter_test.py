#!/usr/bin/env python3
"""Tests of an adapter as a process: adapter_test.py VECTORS COMMAND [ARGUMENT...]

VECTORS is the file of recorded answers to comm.ring_sum. The adapter must have that operation.
"""
import json
import random
import resource
import subprocess
import sys
import threading
import time
import unittest

LONGEST_LINE = 64 << 20
KINDS = ("invalid_argument", "out_of_range", "not_found", "unsupported", "state", "failed")
ARGS = {"world_size": 3, "elements": 2, "dtype": "float32", "op": "all_reduce", "inputs": [[1, 2], [3, 4], [5, 6]]}


class Adapter:
    def __init__(self):
        self.process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.watchdog = threading.Timer(120, self.process.kill)  # a hang is a failure
        self.watchdog.start()

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.watchdog.cancel()

    def line(self, line):
        """The reply to one raw line."""
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def ask(self, op, args, number=1):
        return self.line(json.dumps({"id": number, "op": op, "args": args}).encode())

    def lines(self, lines):
        """The replies to many lines, sent without waiting."""
        sender = threading.Thread(target=self._send, args=(b"".join(line + b"\n" for line in lines),))
        sender.start()
        replies = [json.loads(self.process.stdout.readline()) for _ in lines]
        sender.join()
        return replies

    def _send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def peak_memory(self):
        with open("/proc/%d/status" % self.process.pid) as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def changed(**fields):
    return {**ARGS, **fields}


def without(*names):
    return {name: value for name, value in ARGS.items() if name not in names}


def ring_sum_line(number=1, **fields):
    return json.dumps({"id": number, "op": "comm.ring_sum", "args": changed(**fields)}).encode()


class AnAdapter(unittest.TestCase):
    def setUp(self):
        self.adapter = Adapter()
        self.addCleanup(self.adapter.end)

    def assert_refused(self, reply, kinds, number):
        self.assertEqual(sorted(reply), ["error", "id"], reply)
        self.assertEqual(reply["id"], number, reply)
        self.assertIn(reply["error"]["kind"], kinds, reply)
        self.assertTrue(reply["error"]["message"], reply)

    def assert_alive(self):
        self.assertEqual(self.adapter.ask("comm.ring_sum", ARGS)["result"], {"output": [9.0, 12.0]})

    def test_says_hello(self):
        result = self.adapter.ask("hello", {"protocol": 1})["result"]
        self.assertEqual(result["protocol"], 1)
        self.assertTrue(result["name"] and result["version"])
        self.assertIn("comm.ring_sum", result["ops"])
        self.assertEqual(result["ops"], sorted(result["ops"]))

    def test_refuses_another_protocol(self):
        self.assert_refused(self.adapter.ask("hello", {"protocol": 2}, 7), ["unsupported"], 7)

    def test_gives_every_recorded_answer(self):
        for case in CASES:
            args = {name: case[name] for name in case if name not in ("name", "output")}
            reply = self.adapter.ask("comm.ring_sum", {**args, "convention": "gloo"}, case["name"])
            self.assertEqual(reply.get("result"), {"output": case["output"]}, (case["name"], reply))

    def test_takes_defaults_for_what_is_left_out_or_null(self):
        wanted = {"output": [9.0, 12.0]}
        for args in (ARGS, changed(dst=None, group=None), changed(convention=None), changed(convention="plumbline")):
            self.assertEqual(self.adapter.ask("comm.ring_sum", args).get("result"), wanted, args)

    def test_echoes_ids_that_are_numbers_or_texts(self):
        for number in (0, -1, 2**53, 1.5, "", "a \"b\" \\ \u00e9 \U0001f600", "null"):
            self.assertEqual(self.adapter.ask("comm.ring_sum", ARGS, number)["id"], number)

    def test_refuses_other_ids(self):
        for number in (None, True, [], {}, [1]):
            self.assert_refused(self.adapter.ask("comm.ring_sum", ARGS, number), ["invalid_argument"], None)
        self.assert_refused(self.adapter.line(b'{"op":"hello","args":{}}'), ["invalid_argument"], None)

    def test_refuses_what_is_no_request(self):
        for line in (b"", b" ", b"hello", b"{", b"}", b"[]", b"1", b"null", b'"x"', b"{}", b'{"id":1', b'{"id":1}}',
                     b'{"id":01}', b"{'id':1}", b'{"id":NaN}', b'{"id":Infinity}', b'{"id":1e400}', b"\x00", b"\xff\xfe",
                     b'{"id":"\xff","op":"hello"}', b'{"id":"\xc3\x28","op":"hello"}', b'{"id":1,"op":"hello"}\x00',
                     b'{"id":1,"op":"hello"} {"id":2,"op":"hello"}', b'{"id":' + b"9" * 5000 + b"}"):
            self.assert_refused(self.adapter.line(line), ["invalid_argument"], None)
        self.assert_alive()

    def test_refuses_requests_that_lack_or_have_fields(self):
        for line in (b'{"id":5}', b'{"id":5,"op":1}', b'{"id":5,"op":null}', b'{"id":5,"op":"hello","args":[]}',
                     b'{"id":5,"op":"hello","args":"x"}', b'{"id":5,"op":"hello","arg":{}}'):
            self.assert_refused(self.adapter.line(line), ["invalid_argument"], 5)

    def test_refuses_unknown_operations(self):
        for op in ("", "comm", "comm.ring", "COMM.RING_SUM", "x" * 100000, "\u0000"):
            self.assert_refused(self.adapter.ask(op, {}, 3), ["unsupported"], 3)

    def test_refuses_unknown_and_missing_fields_by_name(self):
        for name in ("World_size", "worldsize", "x"):
            reply = self.adapter.ask("comm.ring_sum", changed(**{name: 1}), 3)
            self.assert_refused(reply, ["invalid_argument"], 3)
            self.assertIn(name, reply["error"]["message"])
        for name in ARGS:
            for args in (without(name), changed(**{name: None})):
                reply = self.adapter.ask("comm.ring_sum", args, 3)
                self.assert_refused(reply, ["invalid_argument"], 3)
                self.assertIn(name, reply["error"]["message"])

    def test_refuses_wrong_types_and_values(self):
        invalid, out_of_range = ["invalid_argument"], ["out_of_range"]
        for kinds, fields in (
                (invalid, {"world_size": "3"}), (invalid, {"world_size": 3.0}), (invalid, {"world_size": True}),
                (invalid, {"world_size": 0}), (invalid, {"world_size": -1}), (invalid, {"world_size": 4}),
                (invalid + out_of_range, {"world_size": 10**30}), (invalid + out_of_range, {"elements": 2**64}),
                (invalid, {"elements": 3}), (invalid, {"elements": -1}), (invalid, {"elements": [2]}),
                (invalid, {"dtype": "float8"}), (invalid, {"dtype": 32}), (invalid, {"dtype": ["float32"]}),
                (invalid, {"op": "sum"}), (invalid, {"op": {}}), (["unsupported"], {"convention": "nccl"}),
                (invalid, {"inputs": []}), (invalid, {"inputs": {}}), (invalid, {"inputs": "123"}),
                (invalid, {"inputs": 1}), (invalid, {"inputs": [[1, 2], [[3], 4], [5, 6]]}),
                (invalid, {"inputs": [[1, 2], [3, 4]]}), (invalid, {"inputs": [[1, 2], [3, 4], [5]]}),
                (invalid, {"inputs": [[1, 2], [3, 4], 5]}), (invalid, {"inputs": [[1, 2], [3, "4"], [5, 6]]}),
                (invalid, {"inputs": [[1, 2], [3, True], [5, 6]]}), (invalid, {"inputs": [[1, 2], [3, None], [5, 6]]}),
                (invalid, {"inputs": [[1, 2], [3, "Infinity"], [5, 6]]}),
                (out_of_range, {"inputs": [[1, 2], [3, 1e39], [5, 6]]}),
                (out_of_range, {"inputs": [[1, 2], [3, -65520], [5, 6]], "dtype": "float16"}),
                (invalid, {"dst": 0}), (invalid, {"op": "reduce"}), (invalid, {"op": "reduce", "dst": "0"}),
                (out_of_range, {"op": "reduce", "dst": 3}), (out_of_range, {"op": "reduce", "dst": -1}),
                (out_of_range, {"op": "reduce", "dst": 0, "group": [1, 2]}), (invalid, {"group": []}),
                (out_of_range, {"group": [0, 3]}), (out_of_range, {"group": [-1]}), (invalid, {"group": [1, 1]}),
                (invalid, {"group": 1}), (invalid, {"group": ["1"]}), (invalid, {"group": [0.5]})):
            self.assert_refused(self.adapter.ask("comm.ring_sum", changed(**fields), 3), kinds, 3)
        self.assert_alive()

    def test_takes_no_elements(self):
        reply = self.adapter.ask("comm.ring_sum", changed(elements=0, inputs=[[], [], []]))
        self.assertEqual(reply.get("result"), {"output": []})

    def test_writes_and_reads_numbers_that_are_not_finite(self):
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            inputs = [["inf", "-inf", "nan", "inf"], [1, 2, 3, "-inf"]]
            reply = self.adapter.ask("comm.ring_sum", changed(world_size=2, elements=4, dtype=dtype, inputs=inputs))
            self.assertEqual(reply.get("result"), {"output": ["inf", "-inf", "nan", "nan"]}, dtype)

    def test_keeps_the_sign_of_zero_and_writes_the_shortest_decimals(self):
        inputs = [[-0.0, 0.1, 1e22, 5e-324, 1e16]]
        self.adapter.process.stdin.write(ring_sum_line(world_size=1, elements=5, dtype="float64", inputs=inputs) + b"\n")
        self.adapter.process.stdin.flush()
        line = self.adapter.process.stdout.readline().replace(b" ", b"")
        self.assertIn(b"[-0.0,0.1,1e+22,5e-324,1e+16]", line)

    def test_rounds_inputs_once(self):
        just_above_the_middle = 1 + 2**-11 + 2**-40  # of 1 and the next binary16
        for dtype, value, rounded in (
                ("float16", just_above_the_middle, 1 + 2**-10), ("float32", 0.1, 0.10000000149011612),
                ("bfloat16", 1 + 2**-8 + 2**-40, 1 + 2**-7), ("float16", 65519, 65504)):
            args = changed(world_size=1, elements=1, dtype=dtype, inputs=[[value]])
            reply = self.adapter.ask("comm.ring_sum", args)
            self.assertEqual(reply.get("result"), {"output": [rounded]}, dtype)

    def test_refuses_deep_nesting(self):
        for line in (b"[" * 10**6, b"[" * 10**6 + b"]" * 10**6, b'{"a":' * 10**6, b'{"a":' * 10**6 + b"1" + b"}" * 10**6,
                     b'{"id":1,"op":"hello","args":' + b"[" * 10**6 + b"]" * 10**6 + b"}"):
            self.assert_refused(self.adapter.line(line), ["invalid_argument"], None)
        self.assert_alive()

    def test_refuses_a_line_that_is_too_long_without_keeping_it(self):
        megabyte = b"1" * (1 << 20)
        before = self.adapter.peak_memory()
        for _ in range(400):
            self.adapter.process.stdin.write(megabyte)
        self.assert_refused(self.adapter.line(b""), ["invalid_argument"], None)
        self.assertLess(self.adapter.peak_memory() - before, 3 * LONGEST_LINE)
        self.assert_alive()

    def test_answers_a_line_of_the_greatest_length(self):
        line = ring_sum_line()
        self.assertIn("result", self.adapter.line(line + b" " * (LONGEST_LINE - len(line))))
        self.assert_refused(self.adapter.line(line + b" " * (LONGEST_LINE + 1 - len(line))), ["invalid_argument"], None)
        self.assert_alive()

    def test_answers_when_memory_runs_out(self):
        def limit_memory():
            resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))

        lists = b",".join([b"[]"] * 12000000)
        first = b'{"id":1,"op":"comm.ring_sum","args":{"inputs":[' + lists + b"]}}\n"
        hello = b'{"id":2,"op":"hello"}\n'
        if subprocess.run(COMMAND, input=hello, capture_output=True, preexec_fn=limit_memory).returncode != 0:
            self.skipTest("this build does not start in so little memory")
        run = subprocess.run(COMMAND, input=first + hello, stdout=subprocess.PIPE, preexec_fn=limit_memory, timeout=60)
        replies = [json.loads(line) for line in run.stdout.splitlines()]
        self.assertEqual(run.returncode, 0)
        self.assert_refused(replies[0], ["failed", "invalid_argument"], replies[0]["id"])
        self.assertEqual(replies[1]["id"], 2)

    def test_answers_in_order_however_the_bytes_arrive(self):
        lines = [ring_sum_line(number) for number in range(50)]
        data = b"\r\n".join(lines) + b"\r\n"
        for position in range(0, len(data), 7):
            self.adapter.process.stdin.write(data[position:position + 7])
            self.adapter.process.stdin.flush()
        self.assertEqual([json.loads(self.adapter.process.stdout.readline())["id"] for _ in lines], list(range(50)))

    def test_ends_with_status_0_at_the_end_of_input_and_answers_an_unfinished_last_line(self):
        for data, ids in ((b"", []), (ring_sum_line(1), [1]), (ring_sum_line(1) + b"\n" + ring_sum_line(2), [1, 2])):
            run = subprocess.run(COMMAND, input=data, stdout=subprocess.PIPE, timeout=60)
            self.assertEqual([json.loads(line)["id"] for line in run.stdout.splitlines()], ids)
            self.assertEqual(run.returncode, 0)

    def test_gives_one_reply_to_each_of_ten_thousand_broken_lines(self):
        generator = random.Random(1)
        valid = [ring_sum_line(), ring_sum_line(op="reduce", dst=1, group=[1, 2], convention="gloo"),
                 b'{"id":"a","op":"hello","args":{"protocol":1}}',
                 ring_sum_line(dtype="float16", inputs=[["nan", 2.5], [-0.0, 1e-7], ["inf", 6]])]
        lines = [mutated(generator, generator.choice(valid)) for _ in range(10000)]
        for reply in self.adapter.lines(lines):
            self.assertIn(sorted(reply), (["error", "id"], ["id", "result"]), reply)
            if "error" in reply:
                self.assert_refused(reply, KINDS, reply["id"])
        self.assert_alive()

    def test_reports_its_throughput(self):
        lines = [ring_sum_line(number) for number in range(20000)]
        begin = time.monotonic()
        replies = self.adapter.lines(lines)
        print("%d requests a second" % (len(lines) / (time.monotonic() - begin)), file=sys.stderr)
        self.assertEqual([reply["id"] for reply in replies], list(range(20000)))


def mutated(generator, line):
    """The line with a few bytes removed, repeated, swapped or replaced; still one line."""
    data = bytearray(line)
    for _ in range(generator.choice((1, 1, 1, 2, 4, 16))):
        begin = generator.randrange(len(data) + 1)
        end = min(len(data), begin + generator.choice((0, 1, 1, 2, 5, 30)))
        piece = data[begin:end]
        data[begin:end] = generator.choice((
            b"", piece + piece, piece[::-1], bytes(generator.randrange(256) for _ in piece),
            generator.choice((b"null", b"[", b"]", b"{", b"}", b'"', b"-", b"1e999", b"18446744073709551616", b"\\u0000",
                              b"\\ud800", b"\xc3", b"true", b",", b":", b"\\", b"-1", b"0.5", b'"nan"', b"[[]]"))))
    return bytes(data).replace(b"\n", b" ")


if __name__ == "__main__":
    VECTORS, *COMMAND = sys.argv[1:]
    with open(VECTORS) as file:
        CASES = json.load(file)["cases"]
    unittest.main(argv=sys.argv[:1])
