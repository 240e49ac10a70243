"""What check_layers.py finds of components that harness/ names, and of their private headers."""
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

    def test_private_headers_are_included_inside_alone(self):
        for include in ("reference/scaler/detail/a.hpp", "reference/scaler/cpu/a.hpp"):
            self.assertEqual(self.problems("reference/scaler/a_test.cpp", include), [])
            for file in ("reference/gossip/a.cpp", "conformance/scaler/a_checks.cpp", "benchmarks/a.cpp"):
                self.assertEqual(self.problems(file, include), [f"{file}: {include} is private to reference/scaler"])
        self.assertEqual(self.problems("harness/trainer/a.cpp", "reference/training/pipeline/a.hpp"), [])

    def test_public_headers_include_no_private_ones(self):
        include = "reference/scaler/detail/a.hpp"
        self.assertEqual(self.problems("reference/scaler/b.hpp", include),
                         [f"reference/scaler/b.hpp: a public header includes {include}, which is private and not installed"])
        self.assertEqual(self.problems("reference/scaler/detail/b.hpp", include), [])
        self.assertEqual(self.problems("reference/scaler/b_test.hpp", include), [])

    def test_public_headers_are_few(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("1.hpp", "2.hpp", "3.hpp", "4.hpp", "5.hpp", "6.hpp", "7.hpp", "8.cuh", "9_test.hpp", "detail/9.hpp"):
                path = Path(folder, "reference/scaler", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("#pragma once\n")
            words = [sys.executable, "-B", CHECK, folder]
            self.assertNotIn("public headers", subprocess.run(words, capture_output=True, text=True).stdout)
            Path(folder, "reference/scaler/9.hpp").write_text("#pragma once\n")
            self.assertIn("reference/scaler: 9 public headers; at most 8 may stand outside of detail/",
                          subprocess.run(words, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    unittest.main()
