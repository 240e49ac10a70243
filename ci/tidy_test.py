#!/usr/bin/env python3
"""ci/tidy on a project of one source: what it finds, what it leaves out, what it says of bad options.

usage: tidy_test.py [unittest arguments]
"""
import json, shutil, subprocess, sys, tempfile, unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
PINNED = (HERE / "tidy").read_text().split('PIN = "')[1].split('"')[0]


def has_clang_tidy():
    for name in (shutil.which("clang-tidy"), Path(sys.executable).parent / "clang-tidy", HERE.parent / ".venv/bin/clang-tidy"):
        if name and Path(name).exists() and f" {PINNED}" in subprocess.run([name, "--version"], capture_output=True, text=True).stdout:
            return True
    return False


class TidyTest(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        (self.root / "ci").mkdir()
        for file in ("tidy", "clang-tidy.yml"):
            shutil.copy(HERE / file, self.root / "ci" / file)

    def source(self, text, name="reference/one.cpp"):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def build(self, *commands):
        (self.root / "build").mkdir(exist_ok=True)
        (self.root / "build/compile_commands.json").write_text(json.dumps(
            [{"directory": str(self.root), "file": str(file), "command": f"/usr/bin/c++ -std=c++20 {options} -o one.o -c {file}"}
             for file, options in commands]))

    def build_also(self, file, output):
        listed = self.root / "build/compile_commands.json"
        more = {"directory": str(self.root / "build"), "file": str(file), "command": f"/usr/bin/c++ -o {output} -c {file}"}
        listed.write_text(json.dumps([*json.loads(listed.read_text()), more]))

    def tidy(self, *arguments):
        done = subprocess.run([sys.executable, self.root / "ci/tidy", *arguments], capture_output=True, text=True, timeout=280)
        return done.returncode, done.stdout, done.stderr

    def test_bad_options(self):
        for arguments, words in ((["--part", "3/2"], "--part '3/2' is not K/N"), (["--part", "x"], "--part 'x'"),
                                 (["--jobs", "0"], "--jobs 0: at least 1"), (["--faster"], "--faster")):
            status, _, error = self.tidy(*arguments)
            self.assertEqual((status, error.count("\n")), (2, 1), error)
            self.assertIn(words, error)

    def test_no_build(self):
        status, _, error = self.tidy("--build", str(self.root / "none"))
        self.assertEqual(status, 3)
        self.assertIn("configure it first", error)

    def test_lists_sources_once_and_no_woven_copies(self):
        one, two = self.source("int a;\n"), self.source("int b;\n", "harness/two.cpp")
        unity = self.root / "build/x/Unity/unity_0_cxx.cxx"
        unity.parent.mkdir(parents=True)
        unity.write_text(f'#include "{two}"\n')
        outside = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, outside)
        (outside / "x.cpp").write_text("int c;\n")
        self.build((one, ""), (one, "-DTWICE"), (unity, ""), (outside / "x.cpp", ""))
        self.build_also(self.source("int d;\n", "harness/woven.cpp"), "CMakeFiles/some_woven.dir/one.o")
        self.build_also(self.source("int e;\n", "harness/copy.cpp"), "mutation/one.o")
        status, out, _ = self.tidy("--list")
        not_asked = [f"not compiled, and not asked: harness/{name}.cpp" for name in ("copy", "woven")]
        self.assertEqual(out.splitlines()[2:], not_asked)
        out = "\n".join(out.splitlines()[:2])
        self.assertEqual((status, out.split()), (0, ["reference/one.cpp", "harness/two.cpp"]))
        self.assertEqual(self.tidy("--list", "harness/")[1].splitlines(), ["harness/two.cpp", *not_asked])
        self.assertEqual(self.tidy("--list", "two")[1].splitlines(), ["harness/two.cpp"])
        parts = [self.tidy("--list", "--part", f"{k}/2")[1].splitlines()[:1] for k in (1, 2)]
        self.assertEqual(sorted(parts[0] + parts[1]), ["harness/two.cpp", "reference/one.cpp"])

    def test_nothing_chosen_is_no_pass(self):
        self.build((self.source("int a;\n"), ""))
        self.source("int b;\n", "reference/kernels.cu")
        for words, pattern in (("pattern 'nosuch': no source has it in its path", "nosuch"),
                               ("pattern 'kernels': reference/kernels.cu is compiled by no command of", "kernels")):
            status, out, error = self.tidy("--list", "one", pattern)
            self.assertEqual((status, out, error.count("\n")), (2, "", 1), error)
            self.assertIn(words, error)
        other = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, other)
        (other / "x.cpp").write_text("int c;\n")
        self.build((other / "x.cpp", ""))
        status, out, error = self.tidy("--list")
        self.assertEqual((status, out), (3, ""))
        self.assertIn("it is the build of another checkout", error)

    def test_a_checkout_by_another_name(self):
        link = Path(tempfile.mkdtemp()) / "link_woven"
        self.addCleanup(shutil.rmtree, link.parent)
        link.symlink_to(self.root)
        self.source("int a;\n")
        self.build((link / "reference/one.cpp", ""))
        self.assertEqual(self.tidy("--list")[:2], (0, "reference/one.cpp\n"), "by a link, whose name is no woven folder's")
        nested = self.root / "x_woven/mutation"
        nested.mkdir(parents=True)
        shutil.move(self.root / "ci", nested / "ci")
        self.root = nested
        self.build((self.source("int a;\n"), ""))
        self.assertEqual(self.tidy("--list")[:2], (0, "reference/one.cpp\n"), "the checkout's own path is not looked at")

    @unittest.skipUnless(has_clang_tidy(), f"clang-tidy {PINNED} is not installed")
    def test_findings_and_suppressions(self):
        fault = "#include <vector>\nint sum(std::vector<int> all) {%s\n  int sum = 0;\n  for (int each : all) sum += each;\n  return sum;\n}\n"
        one = self.source(fault % "")
        self.build((one, "--param=ggc-min-heapsize=1"))
        status, out, _ = self.tidy()
        self.assertEqual(status, 1, out)
        self.assertIn("reference/one.cpp:2:", out)
        self.assertIn("performance-unnecessary-value-param", out)
        for mark in ("// NOLINT(performance-unnecessary-value-param)", "/* NOLINT */", "/* NOLINT: */", "// all of it NOLINT"):
            self.source(fault % f"  {mark}")
            status, out, _ = self.tidy()
            self.assertEqual((status, "reference/one.cpp:2: NOLINT without a reason" in out), (1, True), out)
        self.source("int a;  // NOLINT\n", "harness/a.c")
        self.source(fault % "  // NOLINT(performance-unnecessary-value-param): a test")
        status, out, _ = self.tidy()
        self.assertEqual((status, "harness/a.c:1: NOLINT without a reason" in out), (1, True), out)
        self.source("int a;  /* NOLINT: a test */\n", "harness/a.c")
        status, out, _ = self.tidy()
        self.assertEqual(status, 0, out)

    @unittest.skipUnless(has_clang_tidy(), f"clang-tidy {PINNED} is not installed")
    def test_source_that_does_not_compile(self):
        self.build((self.source("int a = ;\n"), ""))
        status, out, _ = self.tidy()
        self.assertEqual(status, 1, out)
        self.assertIn("one.cpp:1: expected expression [clang-diagnostic-error]", out)


if __name__ == "__main__":
    unittest.main()
