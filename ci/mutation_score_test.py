"""Tests of ci/mutation-score that need no built folder: what is drawn, what is left out, and the score."""
import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

SCRIPT = Path(__file__).with_name("mutation-score")
loader = importlib.machinery.SourceFileLoader("mutation_score", str(SCRIPT))
score = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutation_score", loader))
sys.modules["mutation_score"] = score
loader.exec_module(score)

SOURCE = b"""
int larger(int a, int b) {
  if (a < 0) throw InvalidArgument("a is " + name(a + b));
  return std::max(std::move(a), b);
}
"""


def mutant_of(data, was, became, name="m1"):
    function, body = next(score.weave.functions_of(score.weave.parse(data)))
    begin = data.index(was)
    one = score.Mutant("toy.cpp", data[:begin].count(b"\n") + 1, begin, begin + len(was), became, function, body)
    one.name = name
    return one


class MutationScore(unittest.TestCase):
    def left_out(self, text):
        begin = SOURCE.index(text)
        return score.is_left_out(score.weave.parse(SOURCE), SOURCE, begin, begin + len(text))

    def test_words_of_errors_and_what_is_for_speed_are_left_out(self):
        self.assertTrue(self.left_out(b"a is "))
        self.assertTrue(self.left_out(b"a + b"))
        self.assertTrue(self.left_out(b"std::move"))

    def test_conditions_results_and_whole_statements_are_drawn(self):
        self.assertFalse(self.left_out(b"a < 0"))
        self.assertFalse(self.left_out(b"max"))
        self.assertFalse(self.left_out(b'throw InvalidArgument("a is " + name(a + b));'))

    def test_a_body_must_stay_one(self):
        self.assertTrue(score.parses(mutant_of(SOURCE, b"a < 0", b"a > 0"), SOURCE))
        self.assertFalse(score.parses(mutant_of(SOURCE, b"(a < 0)", b"(a < 0"), SOURCE))

    def test_comparisons_that_mean_the_same_are_no_change(self):
        loop = b"for (std::size_t i = 0; i < x.size(); ++i) a(i);"
        for old, new, body, same in ((loop, loop.replace(b"<", b"!="), loop, True), (loop, loop.replace(b"<", b"!="), loop + b" ++i;", False),
                                     (loop, loop.replace(b"<", b"<="), loop, False), (loop, loop.replace(b"++i", b"--i"), loop, False),
                                     (loop.replace(b"std::size_t", b"char"), loop.replace(b"std::size_t", b"char").replace(b"<", b"!="), loop, False),
                                     (b"if (x.size() > 0)", b"if (x.size() != 0)", b"", True), (b"if (x.size() > 0)", b"if (x.size() >= 0)", b"", False),
                                     (b"if (std::ranges::count(x, f(y)) == 0)", b"if (std::ranges::count(x, f(y)) <= 0)", b"", True),
                                     (b"if (count > 0)", b"if (count != 0)", b"", False), (b"if (size.size() > 0.5)", b"if (size.size() != 0.5)", b"", False),
                                     (b"if (at == x.end())", b"if (at >= x.end())", b"", True), (b"if (at == x.end())", b"if (at <= x.end())", b"", False),
                                     (b"if (p != nullptr)", b"if (p > nullptr)", b"", True), (b"if (p != nullptr)", b"if (p < nullptr)", b"", False)):
            with self.subTest(old=old, new=new, body=body):
                self.assertEqual(score.means_the_same(old, new, body), same)

    def test_a_loop_of_ints_counts_to_a_signed_size(self):
        loop = b"for (int i = 0; i < std::ssize(x); ++i) a(i);"
        for new, same in ((loop.replace(b"<", b"!="), True), (loop.replace(b"<", b"<="), False), (loop.replace(b"= 0", b"= 1"), False)):
            self.assertEqual(score.means_the_same(loop, new, loop), same)
        count = loop.replace(b"std::ssize(x)", b"count")  # which may be below 0
        self.assertFalse(score.means_the_same(count, count.replace(b"<", b"!="), count))

    def test_no_value_is_beyond_the_ends_of_an_enumeration(self):
        ends = score.same_by_ends([b"enum class Kind : char { first, /* or */ second, // of three\n last, };\nusing Sort = of::Kind;",
                                   b"enum class Mode { a = 2, b = 1 }; enum class Two { a, b };", b"enum class Two { b, a };"])
        for line, new, same in ((b"x == Kind::first", b"x <= Kind::first", True), (b"x != Kind::first", b"x > Kind::first", True),
                                (b"x == my::Sort::last", b"x >= my::Sort::last", True), (b"x != Kind::last", b"x < Kind::last", True),
                                (b"x == Kind::first", b"x >= Kind::first", False), (b"x == Kind::first", b"x < Kind::first", False),
                                (b"x == Kind::second", b"x <= Kind::second", False), (b"x == Kind::last", b"x <= Kind::last", False),
                                (b"x == Mode::a", b"x <= Mode::a", False), (b"x == Two::a", b"x <= Two::a", False)):
            with self.subTest(line=line, new=new):
                self.assertEqual(score.means_the_same(line, new, b"", ends), same)

    def test_continuing_at_a_loops_end_is_no_change(self):
        for body, at_end in ((b"for (;;) {\n a();\nHERE }", True), (b"for (;;) {\nHERE a();\n }", False), (b"for (;;)\n if (a()) {\n b();\nHERE }", True),
                             (b"while (a()) {\n if (b()) {\nHERE }\n c();\n }", False), (b"for (int x : y) {\n if (a()) b();\n else {\nHERE } }", True),
                             (b"for (;;) {\n switch (a()) {\n case 1:\nHERE }\n b(); }", False)):
            data = b"void f() {\n" + body.replace(b"HERE", b"") + b"\n}\n"
            function, whole = next(score.weave.functions_of(score.weave.parse(data)))
            begin = len(b"void f() {\n") + body.index(b"HERE")
            for words, same in ((b" continue;\n", at_end), (b" break;\n", False)):
                one = score.Mutant("toy.cpp", 1, begin, begin, words, function, whole)
                self.assertEqual(score.continues_at_the_end(one, data), same, body)

    def drops(self, body, was, became):
        data = b"int larger(int a, int b) {\n" + body + b"\n}\n"
        return score.drops_last_return(mutant_of(data, was, became), data)

    def test_a_change_that_loses_the_last_return_is_left_out(self):
        plain = b"  return a < b ? b : a;"
        self.assertTrue(self.drops(plain, b"return a < b", b"(0==1) || b"))
        self.assertTrue(self.drops(plain, b"return a < b ? b : a;", b"/*return a < b ? b : a;*/"))
        self.assertFalse(self.drops(plain, b"a < b", b"(0==1) || b"))
        self.assertFalse(self.drops(plain, b"a < b ? b", b"b ? b"))

    def test_so_is_one_that_loses_it_in_a_branch_at_the_end(self):
        branches = b"  if (a < b) {\n    return b;\n  } else {\n    return a;\n  }"
        for was in (b"return a;", b"return b;"):
            self.assertTrue(self.drops(branches, was, b""))
        self.assertTrue(self.drops(branches, b"else", b"if (b)"))
        self.assertFalse(self.drops(branches + b"\n  return 0;", b"return b;", b""))
        one_line = b"  if (a < b) return b; else return a;"
        self.assertTrue(self.drops(one_line, b"return a;", b";"))
        self.assertFalse(self.drops(one_line, b"return a;", b"return b;"))
        cases = b"  switch (a) {\n    case 1: return b;\n    case 2: return a;\n    default: throw a;\n  }"
        self.assertTrue(self.drops(cases, b"throw a;", b""))
        self.assertTrue(self.drops(cases, b"return b;", b"break;"))
        self.assertFalse(self.drops(cases, b"return b;", b""))  # it falls through
        self.assertFalse(self.drops(cases + b"\n  return 0;", b"throw a;", b""))
        self.assertTrue(self.drops(b"  try { return f(a); } catch (int) { return b; }", b"return b;", b""))

    def test_so_is_one_in_a_lambda_and_none_where_there_is_no_value(self):
        inner = b"  const auto f = [&](int x) { return x < b; };\n  return f(a);"
        self.assertTrue(self.drops(inner, b"return x", b"x"))
        self.assertFalse(self.drops(inner, b"x < b", b"x > b"))
        self.assertFalse(self.drops(b"  if (a) throw b;\n  return;", b"return;", b""))
        self.assertFalse(self.drops(b"  throw b;", b"throw b;", b""))

    def test_what_does_not_compile_is_told_by_its_name(self):
        data = b"int larger(int a, int b) {\n  return a < b ? b : a;\n}\n"
        with tempfile.TemporaryDirectory() as folder:
            program = score.Program.__new__(score.Program)
            program.build = program.folder = Path(folder)
            program.entries = {"toy.cpp": ["c++", "-std=c++20", f"-I{score.ROOT}"]}
            program.root = Path(folder)
            (Path(folder) / "toy.cpp").write_bytes(data)
            mutants = [mutant_of(data, b"a < b", b"a > b", "m1"), mutant_of(data, b"a < b", b"a < *b", "m2"),
                       mutant_of(data, b"? b", b"? c", "m3")]
            self.assertEqual(score.refusals(program, "toy.cpp", mutants), {"m2", "m3"})

    def checks_that_say(self, folder, says):
        checks = score.Checks.__new__(score.Checks)
        checks.program = score.Program.__new__(score.Program)
        checks.program.folder = Path(folder)
        checks.command = lambda door, name, filters, *more: (["sh", "-c", says, "sh", *filters, *more], {"PATH": "/usr/bin:/bin"})
        return checks

    def test_a_filter_without_checks_of_a_door_leaves_the_others(self):
        says = r'''
case "$*" in *component:none*) echo "--filter 'component:none' matches nothing in profile full" >&2; exit 2;; esac
case "$*" in *TOPO-*) echo "--filter 'TOPO-001' matches nothing in profile full; with --adapter it does" >&2; exit 2;; esac
echo 'toy.one[world=1]'
echo 'toy.one[world=2]  skip: it is not claimed'
echo 'toy.two.words'
'''
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(score.ASKED_BESIDE, {"toy": ["TOPO-001"]}):
            checks = self.checks_that_say(folder, says)
            checks.component = "toy"
            self.assertEqual(checks.listed("local"), ["toy.one", "toy.two.words"])
            checks.component = "none"
            self.assertEqual(checks.listed("local"), [])

    def test_a_check_is_run_once_to_know_its_time_and_what_it_enters(self):
        says = r'''
out=$(echo "$*" | sed 's/.*--out //')
mkdir -p "$out"
case "$*" in *busy*) verdict=warn;; *) verdict=pass;; esac
case "$*" in *skipped*) echo "nothing ran"; exit 3;; esac
for i in 1 2; do echo '{"type": "result", "check": "toy.one", "seconds": 2, "verdict": "'$verdict'"}'; done > "$out/run.jsonl"
echo '{"type": "complete"}' >> "$out/run.jsonl"
echo m1 >> "$out/../local/toy.$1"
'''
        with tempfile.TemporaryDirectory() as folder:
            checks = self.checks_that_say(folder, says.replace("toy.$1", "$1"))
            self.assertEqual(checks.entered("local", "toy.one"), (4, {"m1"}))
            self.assertIsNone(checks.entered("local", "toy.busy"))
            self.assertEqual(checks.entered("local", "toy.skipped"), (0, set()))

    def test_a_worker_without_a_greeting_is_asked_again(self):
        """What ends before its greeting once was the machine's doing; with no change chosen too, it says nothing of the mutant."""
        says = """
out=$(echo "$*" | sed 's/.*--out //')
name=$(basename "$(dirname "$out")")
echo "$name" >> FOLDER/asked
case $name in once) [ "$(grep -c once FOLDER/asked)" = 2 ] && exit 0;; no_change) [ -e FOLDER/busy ] || exit 0;; esac
echo "hello: it closed its output"
exit 3
"""
        with tempfile.TemporaryDirectory() as folder:
            checks = self.checks_that_say(folder, says.replace("FOLDER", folder))
            checks.of_door = {"local": {"toy.one": (0.1, {"always", "once"})}}
            self.assertEqual(checks.verdict("once"), "")
            self.assertEqual(checks.verdict("always"), "local: no greeting")
            self.assertEqual(Path(folder, "asked").read_text().split(), ["once", "no_change", "once", "always", "no_change", "always"])
            Path(folder, "busy").touch()
            with unittest.mock.patch.object(score.sys, "stderr"), self.assertRaises(SystemExit):
                checks.verdict("always")

    def test_the_interval_is_wilsons(self):
        share, low, high = score.wilson(45, 60)
        self.assertAlmostEqual(share, 0.75)
        self.assertAlmostEqual(low, 0.6277, places=4)
        self.assertAlmostEqual(high, 0.8422, places=4)
        self.assertEqual(score.wilson(0, 0), (0, 0, 1))

    def test_what_a_survivor_needs_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "toy.toml"
            one = mutant_of(SOURCE, b"a < 0", b"a <= 0")
            score.write(path, {"component": "toy"}, [one], {"toy.cpp": SOURCE})
            path.write_text(path.read_text().replace('needs = ""', 'needs = "a case with 0"'))
            score.write(path, {"component": "toy"}, [one, mutant_of(SOURCE, b"max", b"min")], {"toy.cpp": SOURCE})
            survivors = score.tomllib.loads(path.read_text())["survivor"]
            self.assertEqual([s["needs"] for s in survivors], ["a case with 0", ""])
            self.assertEqual(survivors[0]["became"], 'if (a <= 0) throw InvalidArgument("a is " + name(a + b));')

    def test_what_is_equivalent_is_kept_and_counted_apart(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "toy.toml"
            survivors = [mutant_of(SOURCE, b"a < 0", b"a <= 0"), mutant_of(SOURCE, b"max", b"min")]
            for _ in range(2):  # the second draw meets the same survivors
                score.write(path, {"component": "toy", "killed": 8, "counted": 10}, survivors, {"toy.cpp": SOURCE})
                path.write_text(path.read_text().replace('needs = ""', 'equivalent = "a is never 0"', 1))
            first, second = score.tomllib.loads(path.read_text())["survivor"]
            self.assertEqual((first["equivalent"], "needs" in first), ("a is never 0", False))
            self.assertEqual(second["equivalent"], "a is never 0")
            path.write_text(path.read_text().replace('equivalent', 'needs', 1))
            said = score.read(path)
            self.assertIn("8 of 10 killed: 80.0 %", said)
            self.assertIn("1 of the survivors are equivalent, without them 8 of 9 killed: 88.9 %", said)
            self.assertTrue(said.endswith("; 0 are unexplained"), said)

    def test_the_files_kept_say_what_each_survivor_is(self):
        for path in sorted(SCRIPT.parent.parent.glob("results/mutation/*.toml")):
            result = score.tomllib.loads(path.read_text())
            survivors = result.get("survivor", [])
            lines = {name: {line.strip() for line in (score.ROOT / name).read_text().splitlines()} for name in {s["at"].split(":")[0] for s in survivors}}
            self.assertEqual(result["counted"] - result["killed"], len(survivors), path)
            for survivor in survivors:
                self.assertEqual(sum(bool(survivor.get(field)) for field in ("needs", "equivalent")), 1, f"{path}: {survivor}")
                self.assertTrue("sources" in result or survivor["was"] in lines[survivor["at"].split(":")[0]], f"{path}: {survivor['at']} is not as it was: draw anew")

    def test_a_survivor_of_one_statement_more_shows_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "toy.toml"
            one = mutant_of(SOURCE, b"  return std::max", b"  return b;\n  return std::max")
            one.begin, one.end, one.became = one.begin, one.begin, b"  return b;\n"
            one.line -= 1  # that after which it stands
            score.write(path, {"component": "toy"}, [one], {"toy.cpp": SOURCE})
            survivor = score.tomllib.loads(path.read_text())["survivor"][0]
            self.assertEqual(survivor["became"], survivor["was"] + "\nreturn b;")

    def test_a_file_that_no_draw_wrote_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "topology.toml"
            for text in (b'killed = "x"\ncounted = 2', b"killed = 3\ncounted = 2", b"killed = 1\ncounted = 2\nsurvivor = 3", b"killed = 1\ncounted = 2\nsurvivor = [3]",
                         b"killed = 1", b"# \xff", b"killed = "):
                path.write_bytes(text)
                made = subprocess.run([sys.executable, "-B", str(SCRIPT), "topology", "--read", "--out", folder], capture_output=True, text=True)
                self.assertEqual((made.returncode, made.stdout, made.stderr.count("\n")), (2, "", 1), made.stderr)
                self.assertIn("not a file that a draw wrote", made.stderr)

    @unittest.skipIf(sys.version_info < (3, 11), "tomllib is from Python 3.11 on")
    def test_reading_a_score_needs_nothing_else(self):
        made = subprocess.run([sys.executable, "-B", "-S", str(SCRIPT), "topology", "--read"], capture_output=True, text=True)  # -S: no site-packages
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        self.assertRegex(made.stdout, r"^topology: \d+ of \d+ killed")

    def test_bad_options_are_refused(self):
        for arguments in (["nothing"], ["topology", "--sample", "0"], ["topology", "--build", "/nonexistent"]):
            made = subprocess.run([sys.executable, "-B", str(SCRIPT), *arguments], capture_output=True, text=True)
            self.assertEqual(made.returncode, 2, made.stderr)
            self.assertNotIn("Traceback", made.stderr)


if __name__ == "__main__":
    unittest.main()
