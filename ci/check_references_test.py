"""Which names check_references.py takes for files that are not there."""
import subprocess, sys, tempfile, unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parent / "check_references.py"


class References(unittest.TestCase):
    def check(self, **texts):
        """What it prints of reference/part/here.hpp and these: NAME of a text by its kind."""
        files = {"reference/part/here.hpp": "#pragma once\n"}
        files.update({{"cpp": "reference/part/a.cpp", "test": "reference/part/a_test.cpp", "py": "ci/a.py", "readme": "README.md",
                       "cmake": "CMakeLists.txt", "toml": "ci/rows.toml",
                       "questions": "reference/QUESTIONS.md", "answers": "reference/part/README.md"}[kind]: text for kind, text in texts.items()})
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
                Path(folder, name).write_text(text)
            done = subprocess.run([sys.executable, "-B", CHECK, folder], capture_output=True, text=True)
            return done.returncode, [line.split(";")[0] for line in done.stdout.splitlines()[:-1]]

    def test_a_name_is_a_path_or_its_end(self):
        for name in ("reference/part/here.hpp", "part/here.hpp", "here.hpp"):
            self.assertEqual(self.check(cpp=f"// {name}: as there.\n", readme=f"See `{name}`.\n"), (0, []))

    def test_a_name_of_no_file_is_found(self):
        gone = "there is no file 'part/gone.hpp'"
        for kind, text, where in (("cpp", "int a;  // as part/gone.hpp has it", "reference/part/a.cpp:1"),
                                  ("cpp", 'const char* a = "part/gone.hpp lacks it";', "reference/part/a.cpp:1"),
                                  ("test", "// part/gone.hpp", "reference/part/a_test.cpp:1"),
                                  ("py", '"""Reads part/gone.hpp."""', "ci/a.py:1"), ("py", "a = 1  # part/gone.hpp", "ci/a.py:1"),
                                  ("readme", "One.\n`part/gone.hpp`", "README.md:2"), ("cmake", "# part/gone.hpp", "CMakeLists.txt:1"),
                                  ("toml", "# part/gone.hpp", "ci/rows.toml:1")):
            self.assertEqual(self.check(**{kind: text + "\n"}), (1, [f"{where}: {gone}"]), text)
        self.assertEqual(self.check(readme="`reference/part`, `reference/gone/`\n"), (1, ["README.md:1: there is no file 'reference/gone'"]))
        self.assertEqual(self.check(cpp="// gone.hpp\n"), (1, ["reference/part/a.cpp:1: there is no file 'gone.hpp'"]))

    def test_what_is_no_file_of_ours_passes(self):
        for text in ("// megatron/core/tensor.py", "// train.py", 'f("gone.hpp");', "// part/*_gone.hpp, part/<kind>_gone.hpp"):
            self.assertEqual(self.check(cpp=text + "\n"), (0, []), text)
        self.assertEqual(self.check(test='f("part/gone.hpp");\n'), (0, []), "a test makes files up")

    def test_a_question_names_the_section_that_answers_it(self):
        ten = "## part\n" + "".join(f"{number}. Why? [{'start' if number < 10 else 'Cost'}]\n" for number in range(1, 11))
        self.assertEqual(self.check(questions=ten, answers="# part\n## Cost\n"), (0, []))
        self.assertEqual(self.check(questions=ten, answers="# part\n## Costs\n"),
                         (1, ["reference/QUESTIONS.md:11: part has no section 'Cost'"]))
        self.assertEqual(self.check(questions=ten[:ten.index("10.")], answers="## Cost\n"),
                         (1, ["reference/QUESTIONS.md:1: part has 9 questions, it has ten"]))

    def test_no_folder(self):
        done = subprocess.run([sys.executable, "-B", CHECK, "nowhere"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (2, "check_references.py: give one folder; got 'nowhere'\n"))


if __name__ == "__main__":
    unittest.main()
