#!/usr/bin/env python3
"""Weaves small sources, compiles them, and sees that each mutant does what its edit says, and none what the source says."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
WEAVE = [sys.executable, "-B", str(HERE / "weave.py")]

FORMS = """#include <cstdio>
#include <functional>
#include <numeric>
#include <vector>
struct Counter {
  explicit Counter(int first) : count_(first) { count_ += 1; }
  int next() {
    if (const int step = 2; step > 1) count_ += step;
    return count_;
  }
  int count_;
};
template <class T>
T twice(T value) { return value + value; }
constexpr int area(int side) { return side * side; }
static_assert(area(3) == 9);
int sum(const std::vector<int>& list) {
  const auto add = [](int a, int b) {
    return a + b;
  };
  return std::accumulate(list.begin(), list.end(), 0, add);
}
void silent(int& value) { value = 1; }
int main() {
  Counter counter(1);
  counter.next();
  int value = 0;
  silent(value);
  volatile int side = 4;
  std::printf("%d %d %d %d %d\\n", counter.next(), twice(2), area(side), sum({1, 2, 3}), value);
}
"""
RIGHT = "6 4 16 6 1"


class Weave(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def weave(self, mutants, *more, **sources):
        for name, text in sources.items():
            (self.root / f"{name}.cpp").write_text(text)
        (self.root / "mutants.toml").write_text(mutants)
        return subprocess.run([*WEAVE, "--root", self.root, "--out", self.root / "woven", *more, self.root / "mutants.toml"],
                              capture_output=True, text=True)

    def built(self, mutants, **sources):
        done = self.weave(mutants, **sources)
        self.assertEqual(done.returncode, 0, done.stderr)
        program = self.root / "program"
        subprocess.run(["c++", "-std=c++20", "-w", f"-I{HERE.parent.parent}", "-o", program, HERE / "woven.cpp",
                        *(self.root / "woven" / f"{name}.cpp" for name in sources)], check=True)
        return lambda mutant="": subprocess.run([program], env={**os.environ, "PLUMBLINE_WOVEN": mutant}, capture_output=True,
                                                text=True, check=True).stdout.strip()

    def refused(self, edit, *words, forms=FORMS):
        done = self.weave('[[mutant]]\nid = "a.b"\n' + edit, forms=forms)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in ("'a.b'", *words):
            self.assertIn(word, done.stderr)

    def test_each_form(self):
        said = self.built("".join(f'[[mutant]]\nid = "{name}"\n{"".join(edits)}' for name, edits in {
            "constructor": [edit("Counter", "count_ += 1;", "count_ += 2;")],
            "if_header": [edit("next", "step = 2", "step = 3")],
            "state": [edit("next", "return count_;", "return count_ += plumbline::woven::state<int>(this)++;")],
            "template": [edit("twice", "value + value", "value")],
            "constexpr": [edit("area", "side * side", "side + side")],
            "lambda": [edit("sum", "a + b", "a - b")],
            "void": [edit("silent", "value = 1;", "value = 2;")],
            "left_out": ['at = "forms.cpp: silent"\nfind = "value = 1;"\n'],  # in the mutant itself
            "two": [edit("twice", "value + value", "value"), edit("silent", "= 1", "= 3")],
        }.items()), forms=FORMS)
        self.assertEqual(said(), RIGHT)
        self.assertEqual(said("no such mutant"), RIGHT)
        self.assertEqual(said("constructor"), "7 4 16 6 1")
        self.assertEqual(said("if_header"), "8 4 16 6 1")
        self.assertEqual(said("state"), "7 4 16 6 1")
        self.assertEqual(said("template"), "6 2 16 6 1")
        self.assertEqual(said("constexpr"), "6 4 8 6 1")
        self.assertEqual(said("lambda"), "6 4 16 -6 1")
        self.assertEqual(said("void"), "6 4 16 6 2")
        self.assertEqual(said("left_out"), "6 4 16 6 0")
        self.assertEqual(said("two"), "6 2 16 6 3")

    def test_one_mutant_of_two_files(self):
        said = self.built('[[mutant]]\nid = "both"\n' + edit("main", "= 1", "= 2", "first") + edit("", "10", "20", "second"),
                          first='#include <cstdio>\nint more(); int main() { int one = 1; std::printf("%d\\n", one + more()); }\n',
                          second="int more() { return 10; }\n")
        self.assertEqual(said(), "11")
        self.assertEqual(said("both"), "22")

    def test_what_it_refuses(self):
        self.refused(edit("next", "step"), "forms.cpp: next", "3 times")
        self.refused(edit("", "no such text"), "0 times")
        self.refused(edit("nowhere", "step"), "no function 'nowhere'")
        self.refused(edit("", "count_(first)"), "not in the body of a function")
        self.refused(edit("", "x", file="missing"), "no file missing.cpp")
        self.refused(edit("next", "step = 2") + edit("next", "= 2;"), "overlap")
        self.refused('[[mutant.edit]]\nat = "forms.cpp: next"\n', "no 'find'")
        self.refused('at = "forms.cpp: next"\n', "no 'find'")
        self.refused("", "no 'at'")
        self.refused('at = "forms.cpp"\n' + edit("next", "step = 2"), "'at' beside [[mutant.edit]]")
        self.refused(edit("next", "step = 2") + 'id = "swallowed"\n', "a field 'id'")

    def test_lists_the_sources(self):
        done = self.weave('[[mutant]]\nid = "a"\n' + edit("", "a", file="z") + edit("", "b", file="b"), "--list")
        self.assertEqual(done.stdout.split(), ["b.cpp", "z.cpp"])

    def test_what_is_new_alone_is_written(self):
        mutants = '[[mutant]]\nid = "a"\n' + edit("", "value = 1", "value = 2")
        self.weave(mutants, forms=FORMS)
        before = (self.root / "woven/forms.cpp").stat().st_mtime_ns
        self.weave(mutants, forms=FORMS)
        self.assertEqual((self.root / "woven/forms.cpp").stat().st_mtime_ns, before)


def edit(function, find, replace="", file="forms"):
    return (f'[[mutant.edit]]\nat = "{file}.cpp{": " + function if function else ""}"\nfind = "{find}"\n'
            + (f'replace = "{replace}"\n' if replace else ""))


if __name__ == "__main__":
    unittest.main()
