"""What a wheel does once it is installed: the commands of ci/README.md, and a check by each door. Takes minutes, a compiler and CMake.

usage: installed_test.py WHEEL [--torch PYTHON] [unittest arguments]

PYTHON imports a torch of the version that the wheel was built with, and numpy; without it what needs torch is left out. What needs
an MPI is left out where there is none. PLUMBLINE_OTHER_TORCH names a Python with a torch of another minor version, for which
modules are built; that takes minutes more.
"""
import json, os, re, shutil, subprocess, sys, tempfile, unittest, venv
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
README = (SOURCE / "ci/README.md").read_text()
WHEEL = Path(sys.argv[1]).resolve()
TORCH = sys.argv[3] if sys.argv[2:3] == ["--torch"] else ""


def commands(title):
    """The lines of the code blocks of a section, without comments."""
    section = re.search(rf"(?ms)^## {title}\n(.*?)(^## |\Z)", README)[1]
    return [line.split("  #")[0].strip() for line in re.findall(r"(?m)^    (\S.*)$", section)]


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        shutil.copy(WHEEL, cls.folder)
        venv.create(cls.folder / "venv", with_pip=True)
        cls.environment = {**os.environ, "PATH": f"{cls.folder / 'venv/bin'}:{os.environ['PATH']}", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        cls.environment.pop("PLUMBLINE_PYTHON", None)
        done = cls.shell("pip install --quiet --no-index plumbline_suite-*.whl")
        assert done.returncode == 0, done.stderr

    @classmethod
    def shell(cls, command, **variables):
        return subprocess.run(["bash", "-c", command], cwd=cls.folder, env={**cls.environment, **variables}, capture_output=True, text=True, timeout=900)

    def do(self, command, status=0, **variables):
        done = self.shell(command, **variables)
        self.assertEqual(done.returncode, status, f"{command}\n{done.stdout}{done.stderr}")
        return done

    def check(self, *arguments, **variables):
        words = " ".join(arguments)
        done = self.do(f"plumbline check {words} --out out", **variables)
        self.assertRegex(done.stdout, r"(?m)^OK: .* pass")

    def test_commands_of_the_readme(self):
        listed = commands("A wheel")
        self.assertEqual(len(listed), 9)
        for command in listed:
            if command.startswith("pip install") or "build-module" in command:
                continue  # done; below, in test_modules_for_another_torch
            if command.startswith("prefix="):
                prefix = self.do(command + "; echo $prefix").stdout.strip()
                continue
            if "acme" in command and not (shutil.which("cmake") and shutil.which("mpicc")):
                continue
            with self.subTest(command):
                self.do(command.replace("$prefix", prefix) if "$prefix" in command else command)

    def test_version(self):
        words = self.do("python -c 'import plumbline; print(plumbline.__version__)'; plumbline --version").stdout.split()
        self.assertEqual(words, [words[0], "plumbline", words[0]])
        self.assertTrue(WHEEL.name.startswith(f"plumbline_suite-{words[0]}-"))

    def test_a_reader_that_goes_is_no_error(self):
        self.assertEqual(self.do("plumbline requirements | head -1").stderr, "")

    def test_local(self):
        self.check("--backend local --filter 'collectives.barrier*'")

    def test_adapter(self):
        (self.folder / "mine.py").write_text((SOURCE / "harness/subject/adapter/python/sample_adapter.py").read_text()
                                             .replace("from plumbline_adapter", "from plumbline.adapter"))
        self.check("--adapter 'python mine.py'")
        self.check("--adapter 'plumbline adapter' --filter SCALER-001")

    def test_plugin(self):
        if not shutil.which("cc"):
            self.skipTest("no cc")
        prefix = self.do("python -c 'import plumbline; print(plumbline.__path__[0])'").stdout.strip()
        self.do(f"cp -r {prefix}/share/plumbline/samples/plugin plugin && make -C plugin INCLUDE={prefix}/include/plumbline")
        self.check("--backend plugin:plugin/libunix_sockets.so --filter 'collectives.barrier*'")

    def test_each_mpi(self):
        for launcher in map(shutil.which, ("mpirun.openmpi", "mpirun.mpich")):
            if launcher:
                with self.subTest(launcher):
                    self.check(f"--backend mpi --launcher {launcher} --filter 'collectives.barrier*' --world-size 2")

    @unittest.skipUnless(os.environ.get("PLUMBLINE_SBOM_PYTHON"), "PLUMBLINE_SBOM_PYTHON names no Python with cyclonedx-python-lib")
    def test_bill_of_materials(self):
        texts = []
        for name in ("a.json", "b.json"):
            self.do(f"{SOURCE}/ci/package/sbom --out {name} plumbline_suite-*.whl")
            texts.append((self.folder / name).read_text())
        self.assertEqual(*texts)
        bill = json.loads(texts[0])
        self.assertEqual(bill["metadata"]["component"]["name"], "plumbline-suite")
        names = {one["name"]: one for one in bill["components"]}
        for name in ("fmt", "json", "tomlplusplus", "CLI11", "googletest", "benchmark", "prometheus-cpp", "digits"):
            self.assertTrue(names[name]["version"] and names[name]["licenses"], name)
            self.do(f"test -n \"$(ls $(python -c 'import plumbline; print(plumbline.__path__[0])')/share/doc/plumbline/licences/{name})\"")
        self.assertEqual(names["torch"]["scope"], "optional")

    def test_without_torch_one_line_says_so(self):
        done = self.do("plumbline train", 3)
        self.assertRegex(done.stderr, r"^plumbline: train needs LibTorch: .*; pip install torch==[\d.]+, .*\n$")

    @unittest.skipUnless(TORCH, "no Python with torch is named")
    def test_with_torch(self):
        self.do("plumbline train --steps 2 --out out", PLUMBLINE_PYTHON=TORCH)
        self.check("--backend c10d:gloo --world-size 2 --filter 'collectives.barrier*'", PLUMBLINE_PYTHON=TORCH)
        self.check("--profile data-parallel --world-size 2 --filter TRAIN-005 --job-launches-ranks --job "
                   "'plumbline train --spec \"$PLUMBLINE_SPEC\" --record \"$PLUMBLINE_RECORD\" --backend local --no-judge'", PLUMBLINE_PYTHON=TORCH)

    @unittest.skipUnless(os.environ.get("PLUMBLINE_OTHER_TORCH"), "PLUMBLINE_OTHER_TORCH names no Python with another torch")
    def test_modules_for_another_torch(self):
        python = os.environ["PLUMBLINE_OTHER_TORCH"]
        done = self.do("plumbline train", 3, PLUMBLINE_PYTHON=python)
        self.assertRegex(done.stderr, r"^plumbline: train needs LibTorch: .* is \d[^;]*; pip install torch==.*, or plumbline build-module training\n$")
        for module in "training", "c10d":
            done = self.do(f"plumbline build-module {module} --torch {python}")
            self.assertLess(int(re.search(r"(?m)^OK: .* in (\d+) s;", done.stdout)[1]), 300)
        self.do("plumbline train --steps 2 --out out", PLUMBLINE_PYTHON=python)
        self.check("--backend local --profile data-parallel --filter TRAIN-001 --world-size 2", PLUMBLINE_PYTHON=python)
        self.check("--backend c10d:gloo --world-size 2 --filter 'collectives.barrier*'", PLUMBLINE_PYTHON=python)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[4 if TORCH else 2:], verbosity=2)
