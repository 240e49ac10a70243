"""What check_requirements.py finds in a requirement's sentence."""
import subprocess, sys, tempfile, unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parent / "check_requirements.py"
sys.path.insert(0, str(CHECK.parent))
sys.dont_write_bytecode = True

from check_requirements import problems_of, problems_of_terms


class Sentences(unittest.TestCase):
    def problems(self, text, level="must"):
        return list(problems_of(text, level))

    def test_a_plain_sentence_passes(self):
        self.assertEqual(self.problems("Each rank MUST reject a negative count with InvalidArgument."), [])
        self.assertEqual(self.problems("A zero SHOULD keep its sign.", "should"), [])
        self.assertEqual(self.problems("A backend that claims `rank_order` MUST reduce in rank order.", "may"), [])
        self.assertEqual(self.problems("Each rank MUST return: " + "; ".join(10 * ["one item of a list"]) + "."), [], "a list has parts")

    def test_the_level_is_there_in_capitals(self):
        self.assertEqual(self.problems("A zero keeps its sign."), ["has no MUST, and its level is must"])
        self.assertEqual(self.problems("A zero SHOULD keep its sign."), ["has no MUST, and its level is must"])
        self.assertEqual(self.problems("A zero must keep its sign.", "should"), ["has no SHOULD, and its level is should"])

    def test_a_long_sentence_is_found(self):
        (problem,) = self.problems("It MUST hold" + 40 * " very" + " well.")
        self.assertTrue(problem.startswith("has a sentence of 44 words; at most 30: "), problem)

    def test_a_long_text_has_a_list(self):
        cases = ["a count that is negative or that is beyond what the group has", "a dtype that the group does not have at all"]
        many = "Each rank MUST reject: " + "; ".join(2 * cases) + "."
        self.assertEqual(self.problems(many), [f"has {len(many.split())} words and no list; write a main sentence, and lines that begin with '- '"])
        self.assertEqual(self.problems(many.replace("reject", "take")), [])
        self.assertEqual(len(self.problems(many.replace("reject", "take") + 3 * " It MUST wait for each of the others.")), 1)
        self.assertEqual(self.problems("Each rank MUST reject:\n- " + ";\n- ".join(2 * cases) + "."), [])
        self.assertEqual(len(self.problems("Each rank MUST reject:\n- " + 31 * "word " + ".")), 1)

    def test_a_word_of_ours_is_found(self):
        for word in ("behind", "refused", "anew", "nobody", "that there is", "is told"):
            (problem,) = self.problems(f"A rank MUST wait, {word} a barrier.")
            self.assertTrue(problem.startswith(f"says '{word}'; write: "), problem)
        self.assertEqual(self.problems("`arm` MUST name the execution mode."), [], "a name in backticks is nobody's idiom")

    def test_a_word_without_a_measure_is_found(self):
        for word in ("soon", "immediately", "for some time", "without delay", "approximately"):
            (problem,) = self.problems(f"A rank MUST answer {word}.")
            self.assertTrue(problem.startswith(f"says '{word.removeprefix('for ')}'; write: "), problem)
        for text in ("Results MUST be correct.", "A call MUST return the right results."):
            self.assertEqual(len(self.problems(text)), 1, text)
        for text in ("A send MUST start as soon as its input is ready, immediately after it.", "A call MUST return the correct results."):
            self.assertEqual(self.problems(text), [])
        self.assertEqual(list(problems_of("A rank that waits soon stops the job.")), [], "a rationale may")

    def test_a_rationale_is_held_to_the_same_words_without_a_level(self):
        self.assertEqual(list(problems_of("Replicas that get different bits drift apart.")), [])
        self.assertEqual(len(list(problems_of("A rank waits, refused" + 40 * " very" + " long."))), 2)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "requirements.toml")
            row = '[[requirement]]\nid = "TOY-001"\nlevel = "must"\ntext = "A toy MUST hold."\n'
            file.write_text(row + 'rationale = "A toy that breaks is refused."\n')
            done = subprocess.run([sys.executable, "-B", CHECK, file], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout),
                             (1, f"{file}: TOY-001 rationale says 'refused'; write: rejects, rejected with the error\n1 requirements, 1 problems\n"))

    def test_each_form_of_a_term_occurs(self):
        texts = ["Boxes of a play room MUST NOT bring a `ring_id`, a string or earrings.", "A toy MUST be boxed."]
        terms = {"box, boxed": "A case with a lid.", "play room": "Where toys are."}
        self.assertEqual(list(problems_of_terms(terms, texts)), [])
        self.assertEqual(list(problems_of_terms(terms | {"ring": "A torus."}, texts)), ["term 'ring' occurs in no requirement; leave it out"])
        self.assertEqual(list(problems_of_terms({"box, boxing": "A case."}, texts)), ["term 'boxing' occurs in no requirement; leave it out"])
        self.assertEqual(list(problems_of_terms({"box": "A case that is refused."}, texts)),
                         ["term 'box' says 'refused'; write: rejects, rejected with the error"])
        many = {f"word{i}": "A word." for i in range(17)}
        self.assertEqual(list(problems_of_terms(many, [" ".join(many)])), ["has 17 terms; at most 16"])

    def test_a_file_of_terms_is_held_to_its_components_requirements(self):
        with tempfile.TemporaryDirectory() as folder:
            row = 'component = "toys"\n{}[[requirement]]\nid = "{}"\nlevel = "must"\ntext = "A {} MUST hold."\n'
            files = [Path(folder, name) for name in ("requirements.toml", "other_requirements.toml")]
            files[0].write_text(row.format('[terms]\nbox = "A case."\nring = "A torus."\n', "TOY-001", "toy"))
            files[1].write_text(row.format("", "TOY-002", "box"))
            done = subprocess.run([sys.executable, "-B", CHECK, *files], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout),
                             (1, f"{files[0]}: term 'ring' occurs in no requirement; leave it out\n2 requirements, 1 problems\n"))

    def test_files_are_counted_and_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "requirements.toml")
            file.write_text('[[requirement]]\nid = "TOY-001"\nlevel = "must"\ntext = "A toy breaks not."\n')
            done = subprocess.run([sys.executable, "-B", CHECK, file], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout),
                             (1, f"{file}: TOY-001 has no MUST, and its level is must\n1 requirements, 1 problems\n"))
        done = subprocess.run([sys.executable, "-B", CHECK, "nowhere.toml"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr),
                         (2, "check_requirements.py: there is no file 'nowhere.toml'; give a requirements.toml, or the root\n"))


if __name__ == "__main__":
    unittest.main()
