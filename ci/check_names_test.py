"""What check_names.py finds in files that are compiled together, and what it lets pass."""
import subprocess, sys, tempfile, unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parent / "check_names.py"


class Names(unittest.TestCase):
    def check(self, **sources):
        with tempfile.TemporaryDirectory() as folder:
            unit = Path(folder, "part.dir/Unity/unity_0_cxx.cxx")
            unit.parent.mkdir(parents=True)
            for name, source in sources.items():
                Path(folder, f"{name}.cpp").write_text(source)
            unit.write_text("".join(f'#include "{folder}/{name}.cpp"\n' for name in sources))
            return subprocess.run([sys.executable, "-B", CHECK, folder], capture_output=True, text=True)

    @staticmethod
    def own(*functions):
        return "\n".join(["namespace part {", "namespace {", *functions, "}  // namespace", "}  // namespace part", ""])

    def test_names_are_their_own(self):
        done = self.check(one=self.own("int first(int a) {", "}"), other=self.own("int second(int a) {", "}"))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_another_signature_is_the_same_name(self):
        for result in ("int", "std::function<void(int)>", "const std::map<std::string, void (*)(int)>&", "std::vector<int>"):
            done = self.check(one=self.own("int at(int a) {", "}"), other=self.own(f"{result} at(const char* a) {{", "}"))
            self.assertEqual(done.returncode, 1, result)
            self.assertIn("one.cpp and other.cpp have a function 'at' of their own each", done.stdout)

    def test_what_others_may_call_is_not_looked_at(self):
        done = self.check(one="int at(int a) {\n}\n", other=self.own("int at(char a) {", "}"))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_no_units_where_there_should_be_some(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "CMakeCache.txt").write_text("PLUMBLINE_UNITY:BOOL=ON\n")
            self.assertEqual(subprocess.run([sys.executable, "-B", CHECK, folder], capture_output=True).returncode, 1)

    def test_no_folder(self):
        done = subprocess.run([sys.executable, "-B", CHECK, "nowhere"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (2, "check_names.py: give one build folder; got 'nowhere'\n"))


if __name__ == "__main__":
    unittest.main()
