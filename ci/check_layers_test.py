"""What check_layers.py finds of components that harness/ names."""
import subprocess, sys, tempfile, unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parent / "check_layers.py"


class Layers(unittest.TestCase):
    def problems(self, file, include):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, file)
            path.parent.mkdir(parents=True)
            path.write_text(f'#include "{include}"\n')
            done = subprocess.run([sys.executable, "-B", CHECK, folder], capture_output=True, text=True)
            return [line for line in done.stdout.splitlines() if line.startswith(file)]

    def test_harness_names_no_component(self):
        found = ["harness/run/a.cpp: harness names no component, and reference/scaler/a.hpp is of one"]
        self.assertEqual(self.problems("harness/run/a.cpp", "reference/scaler/a.hpp"), found)
        self.assertEqual(self.problems("harness/run/a.cpp", "reference/comm/a.hpp"), [])

    def test_what_shows_and_trains_components_names_them(self):
        for file in ("harness/cli/scaler.cpp", "harness/cli/schedule_svg.hpp", "harness/cli/train_size.cpp", "harness/trainer/a/b.cpp"):
            self.assertEqual(self.problems(file, "reference/scaler/a.hpp"), [])
        self.assertEqual(len(self.problems("harness/cli/check.cpp", "reference/scaler/a.hpp")), 1)

    def test_a_row_that_is_not_needed_is_an_error(self):
        file = "harness/worker/worker.cpp"
        self.assertEqual(self.problems(file, "reference/training/a.hpp"), [])
        self.assertEqual(self.problems(file, "reference/comm/a.hpp"),
                         [f"{file} names no component any more; take it out of STILL_NAMED"])


if __name__ == "__main__":
    unittest.main()
