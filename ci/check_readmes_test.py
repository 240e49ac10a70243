"""check_readmes.py finds commands, outputs, pictures, options and words that are wrong, and lets right ones pass."""
import contextlib, io, sys, tempfile, unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check_readmes

PROGRAM = """#!/bin/sh
case "$*" in
  frobnicate*) echo "plumbline: no command"; exit 2;;
  *--help) echo "Usage: --name --out";;
  "draw --out "*) echo "<svg/>" > "$3"; echo "written: $3";;
  "show "*) cat "$2"; echo "took $$ s";;
  slow) echo first; echo "x has been running for 30 s (0 of 1 done)"; echo last;;
  judge) echo "NOT OK: 1 fail"; exit 1;;
  hint) echo "else: pip install torch"; echo "more";;
  bare) echo "plumbline: train needs LibTorch"; exit 3;;
  *) echo "plumbline: unknown"; exit 2;;
esac
"""


class CheckReadmes(unittest.TestCase):
    def setUp(self):
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory())) if hasattr(self, "enterContext") else Path(tempfile.mkdtemp())
        self.program = self.root / "build/bin/plumbline"
        self.program.parent.mkdir(parents=True)
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)

    def check(self, text, update=False, long=False):
        (self.root / "README.md").write_text(text)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = check_readmes.main(self.program, self.root, update, [], long)
        return status, printed.getvalue()

    def test_what_is_shown_is_printed(self):
        self.assertEqual(self.check("    $ cat a.txt\n    one\n\n    two\n\n    $ plumbline show a.txt\n    one\n\n    two\n    took ... s\n")[0], 0)

    def test_lines_left_out_are_any(self):
        self.assertEqual(self.check("    $ cat a.txt\n    one\n    two\n\n    $ plumbline show a.txt\n    ...\n    two\n    ...\n")[0], 0)

    def test_lines_of_a_slow_machine_count_for_nothing(self):
        self.assertEqual(self.check("    $ plumbline slow\n    first\n    last\n")[0], 0)

    def test_what_takes_long_is_run_by_long_alone(self):
        text = "    $ plumbline gone  # not run in tests: takes hours\n    $ plumbline gone  # not run in tests: needs a GPU\n    $ plumbline slow\n"
        self.assertEqual(self.check(text)[0], 0)
        status, printed = self.check(text, long=True)
        self.assertEqual((status, printed.count("ends with status 2")), (1, 1), printed)
        self.assertIn(" s  $ plumbline slow", printed)

    def test_another_output_is_found(self):
        for shown in ("    three\n    ...\n", "    two\n    ...\n", "    one\n", "    one\n    took ... s\n    more\n"):
            status, printed = self.check(f"    $ cat a.txt\n    one\n\n    $ plumbline show a.txt\n{shown}")
            self.assertEqual(status, 1, shown)
            self.assertIn("README.md:4: 'plumbline show a.txt' does not print what is shown", printed)

    def test_a_command_that_does_not_run_is_found(self):
        status, printed = self.check("    $ plumbline gone\n")
        self.assertEqual(status, 1)
        self.assertIn("'plumbline gone' ends with status 2", printed)

    def test_status_1_is_a_failure_that_is_shown_or_marked(self):
        for right in ("plumbline judge\n    NOT OK: ...", "plumbline judge\n    ...1 fail", "plumbline judge  # exits with 1", "plumbline judge  # of a; exits with 1", "false  # exits with 1",
                      "build/bin/plumbline judge\n    NOT OK: ..."):
            self.assertEqual(self.check(f"    $ plumbline slow\n\n    $ {right}\n")[0], 0, right)
        for wrong, status in (("false", 1), ("plumbline judge", 1), ("plumbline judge\n    ...", 1), ("echo NOT OK && false\n    NOT OK", 1),
                              ("plumbline slow  # exits with 1", 0), ("plumbline gone  # exits with 1", 2)):
            ended, printed = self.check(f"    $ plumbline slow\n\n    $ {wrong}\n")
            self.assertEqual(ended, 1, wrong)
            self.assertIn(f"ends with status {status}", printed)

    def test_words_of_what_is_missing_skip_no_command_that_ran(self):
        status, printed = self.check("    $ plumbline hint\n    something else\n")
        self.assertEqual(status, 1)
        self.assertIn("'plumbline hint' does not print what is shown", printed)

    def test_options_of_lines_that_continue_a_command(self):
        for mark in ("", "  # not run in tests: needs a key"):
            status, printed = self.check(f"    $ plumbline slow\n\n    $ plumbline draw \\\n        --name x \\\n        --bogus y{mark or ' > none || true'}\n")
            self.assertEqual((status, printed.count("README.md:3: 'plumbline draw' has no option --bogus")), (1, 1), printed)

    def test_what_is_missing_is_skipped(self):
        status, printed = self.check("    $ plumbline slow\n\n    $ plumbline bare\n\n    $ build/woven/bin/plumbline mutants\n")
        self.assertEqual(status, 0)
        self.assertIn("1 commands run, 0 marked as not run in tests, 2 skipped", printed)

    def test_a_command_that_cannot_be_run_is_marked_with_the_reason(self):
        status, printed = self.check("    $ plumbline slow\n\n    $ nowhere --x  # not run in tests: needs a GPU\n    never printed\n")
        self.assertEqual(status, 0, printed)
        self.assertIn("1 commands run, 1 marked as not run in tests, 0 skipped", printed)
        for command, words in (("nowhere --x", "ends with status 127"), ("nowhere  # not run in tests:", "has another mark than"),
                               ("nowhere  # not run: needs a GPU", "has another mark than"), ("nowhere # not run in tests: GPU", "has another mark than"),
                               ("nowhere 'x  # not run in tests: needs a GPU", "is no command of sh")):
            status, printed = self.check(f"    $ plumbline slow\n\n    $ {command}\n")
            self.assertEqual(status, 1, command)
            self.assertIn("README.md:3: ", printed)
            self.assertIn(words, printed)

    def test_a_command_without_a_sign_is_found(self):
        for text in ("    plumbline show a\n", "      ci/soak 2 --seed 7\n", "    ci/test      # all\n", "```\npip install x\n```\n", "    X=1 mpirun -n 2 y\n",
                     "    $ plumbline slow\n\nand\n\n    plumbline slow\n"):
            status, printed = self.check(f"    $ plumbline slow\n\nText.\n\n{text}")
            self.assertEqual(status, 1, text)
            self.assertIn("stands without '$ ', so that no test runs it", printed)
        for text in ("    ci/            quickstart, test\n", "```python\nplumbline = 1\n```\n", "    printed by others\n"):
            self.assertEqual(self.check(f"    $ plumbline slow\n\nText.\n\n{text}")[0], 0, text)

    def test_commands_of_every_readme_run_in_their_order_with_what_they_leave(self):
        (self.root / "results/tests").mkdir(parents=True)
        (self.root / "results/runs").mkdir()
        (self.root / "harness/subject/plugin/samples").mkdir(parents=True)
        text = ("1. In a list:\n\n       $ mkdir made && echo \\\n           one > made/a\n       $ cd made\n       $ cat *\n       one\n\nText.\n\n"
                "    $ test -d ../results/tests && test ! -e ../results/runs && test -d $PREFIX/share/plumbline/samples/plugin && touch $PREFIX/share/plumbline/samples/plugin/x && echo yes\n    yes\n")
        (self.root / "harness/README.md").write_text(text)
        self.assertEqual(self.check("    $ plumbline slow\n")[0], 0)
        self.assertEqual(list((self.root / "harness/subject/plugin/samples").iterdir()), [], "an installation is a copy")
        (self.root / "harness/README.md").write_text(text.replace("       one\n", "       two\n"))
        status, printed = self.check("    $ plumbline slow\n")
        self.assertEqual(status, 1)
        self.assertIn("harness/README.md:6: 'cat *' does not print what is shown: expected 'two'", printed)

    def test_options_are_those_of_the_help(self):
        self.assertEqual(self.check("Run `plumbline draw --name x`.\n\n    $ plumbline slow\n")[0], 0)
        status, printed = self.check("Run `plumbline draw --nmae x`.\n\n    $ plumbline slow\n")
        self.assertEqual(status, 1)
        self.assertIn("README.md:1: 'plumbline draw' has no option --nmae", printed)

    def test_a_picture_is_what_its_command_draws(self):
        shown = "    $ plumbline draw --out a.svg\n    written: a.svg\n"
        status, printed = self.check(shown)
        self.assertEqual(status, 1)
        self.assertIn("a.svg is not what", printed)
        self.assertEqual(self.check(shown, update=True)[0], 0)
        self.assertEqual((self.root / "a.svg").read_text(), "<svg/>\n")
        self.assertEqual(self.check(shown)[0], 0)

    def test_a_command_that_does_not_exist_is_found(self):
        status, printed = self.check("Run `plumbline frobnicate x`.\n\n    $ plumbline slow\n")
        self.assertEqual(status, 1)
        self.assertIn("README.md:1: there is no command 'plumbline frobnicate'", printed)

    def test_nothing_run_is_no_pass(self):
        self.assertEqual(self.check("Nothing.\n")[0], 1)


if __name__ == "__main__":
    unittest.main()
