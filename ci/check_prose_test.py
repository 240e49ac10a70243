"""What check_prose.py finds in READMEs and in comments of public headers and of other sources."""
import subprocess, sys, tempfile, unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parent / "check_prose.py"
sys.path.insert(0, str(CHECK.parent))
sys.dont_write_bytecode = True

from check_prose import is_prose, is_source, problems_of, prose_of


class Prose(unittest.TestCase):
    def test_plain_english_passes(self):
        for line in ("A bucket closes after the gradient that reaches its limit.", "The message says which field is wrong.",
                     "There are two runtimes.", "peer lists (FairScale: phone books)", "What a rank leaves behind is removed.",
                     "Leaves the signal's number behind.", "Gossip lags behind the optimizer.", "DeepSpeed's own topology behind the adapter door"):
            self.assertEqual(list(problems_of(line)), [], line)

    def test_a_word_of_ours_is_found(self):
        for word in ("behind", "Ahead of", "anew", "nobody", "that there are", "is told", "refused", "alike", "so many", "masters", "goes on"):
            (problem, *_) = problems_of(f"A bucket {word} it")
            self.assertTrue(problem.startswith(f"says '{word}'; write: "), problem)

    def test_code_is_no_prose(self):
        self.assertEqual(list(problems_of("`--arm behind` names the mode")), [])
        self.assertEqual(list(prose_of("README.md", "    behind\n```\nbehind\n```\nafter\n")), [(5, "after")])
        self.assertEqual([line.strip() for _, line in prose_of("a.hpp", "int behind = 0;  // after it\n/// Before it.\nint alike;\n")],
                         ["// after it", "/// Before it."])
        self.assertEqual([line.strip() for _, line in prose_of("a.h", "/* One.\n * Two.\n */\nint x; /* three */\n")], ["/* One.", "* Two.", "/* three */"])

    def test_comments_and_docstrings_are_prose_and_strings_are_not(self):
        self.assertEqual([line.strip() for _, line in prose_of("a.cpp", 'f(2 * behind);  // one\nf("behind");\n/* two\n * three */\n')],
                         ["// one", "/* two", "* three */"])
        source = '"""One,\ntwo."""\ndef behind():\n    """Three."""\n    return "# behind"  # four\n'
        self.assertEqual(list(prose_of("a.py", source)), [(1, "One,"), (2, "two."), (4, "Three."), (5, "# four")])

    def test_comments_of_sources_are_held_to_before_and_after_alone(self):
        for name in ("reference/comm/call.cpp", "conformance/a_test.cpp", "ci/a.py", "reference/scaler/unscale_cuda.cu"):
            self.assertTrue(is_source(name), name)
        for name in ("results/record.py", "README.md", "ci/setup.sh"):
            self.assertFalse(is_source(name), name)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "harness").mkdir()
            source = Path(folder, "harness/a.cpp")
            source.write_text("// It leaves nothing behind anew.\nint behind = 0;\n// A wait behind it leaves for its ring behind it.\n")
            done = self.run_check(folder)
            words = "harness/a.cpp:3: says 'behind'; write: after, before, further along\n1 files, 1 problems\n"
            self.assertEqual((done.returncode, done.stdout), (1, words))
            source.write_text("// A wait after it.\nint behind = 0;\n")
            self.assertEqual(self.run_check(folder).returncode, 0)

    def test_public_headers_and_readmes_are_looked_at(self):
        for name in ("README.md", "conformance/STATEMENTS.md", "reference/comm/call.hpp", "reference/comm/local/group.hpp", "harness/subject/plumbline_backend.h"):
            self.assertTrue(is_prose(name), name)
        for name in ("results/latest/report.md", "reference/comm/detail/a.hpp", "reference/comm/samples_test.hpp", "reference/comm/call.cpp", "harness/a.hpp"):
            self.assertFalse(is_prose(name), name)

    def run_check(self, *arguments):
        return subprocess.run([sys.executable, str(CHECK), *map(str, arguments)], capture_output=True, text=True)

    def test_a_problem_fails_with_its_line(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "README.md").write_text("It waits.\nIt begins anew.\n")
            done = self.run_check(folder)
            self.assertEqual((done.returncode, done.stdout), (1, "README.md:2: says 'anew'; write: again\n1 files, 1 problems\n"))
            Path(folder, "README.md").write_text("It begins again.\n")
            self.assertEqual(self.run_check(folder).returncode, 0)

    def test_no_file_is_a_failure_and_no_folder_is_usage(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_check(folder).returncode, 1)
            done = self.run_check(Path(folder, "nowhere"))
            self.assertEqual(done.returncode, 2)
            self.assertEqual(len(done.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
