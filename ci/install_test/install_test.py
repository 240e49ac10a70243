"""What is installed works from anywhere: the executable, its modules, the package for other CMake projects; and what is
missing of optional runtimes costs one line.

usage: install_test.py BUILD MODULES [unittest arguments]

BUILD is a complete build folder, MODULES those of the optional modules that it must have made: "mpi,training", or "".
"""
import os, re, shutil, subprocess, sys, tempfile, unittest
from pathlib import Path

BUILD = Path(sys.argv[1]).resolve()
MODULES = [module for module in sys.argv[2].split(",") if module]
SOURCE = Path(__file__).resolve().parents[2]
CACHE = dict(re.findall(r"^(\w+):\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE))
CMAKE = CACHE["CMAKE_COMMAND"]

needs_mpi = unittest.skipUnless("mpi" in MODULES, "built without MPI")
needs_training = unittest.skipUnless("training" in MODULES, "built without LibTorch")


def run(*command, cwd=None, **variables):
    return subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=120,
                          env={**os.environ, **variables})


class Installed(unittest.TestCase):
    consumers = {}  # build folders of the other project, by the prefix and the components that it asks for

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.prefix = cls.folder / "prefix"
        done = run(CMAKE, "--install", BUILD, "--prefix", cls.prefix)
        assert done.returncode == 0, done.stdout + done.stderr
        # The same without any optional module.
        cls.bare = cls.folder / "bare"
        shutil.copytree(cls.prefix, cls.bare)
        for module in ("mpi", "training"):
            for file in cls.modules(cls.bare, module):
                file.unlink()

    def setUp(self):
        elsewhere = tempfile.TemporaryDirectory(dir=self.folder)
        self.addCleanup(elsewhere.cleanup)
        self.elsewhere = Path(elsewhere.name)

    @staticmethod
    def module(prefix, name):
        return prefix / "lib" / "plumbline" / f"libplumbline_{name}.so"

    @classmethod
    def modules(cls, prefix, name):
        """The files of a module; mpi has one for each binary interface."""
        return [file for file in (prefix / "lib/plumbline").rglob(cls.module(prefix, name).name)]

    def without_library(self, module, library):
        """An installation in which `module` needs a `library` that no machine has: its name is changed in the file."""
        broken = self.elsewhere / "broken"
        shutil.copytree(self.bare, broken)
        content = self.module(self.prefix, module).read_bytes()
        changed, count = re.subn(library + rb"[.\w]*\0", lambda found: b"X" * (len(found[0]) - 1) + b"\0", content)
        self.assertEqual(count, 1, f"{module} does not name {library} once")
        self.module(broken, module).write_bytes(changed)
        return broken

    def plumbline(self, *arguments, prefix=None, status=0, **variables):
        done = run((prefix or self.prefix) / "bin" / "plumbline", *arguments, cwd=self.elsewhere, **variables)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def check_barrier(self, backend, prefix=None):
        self.plumbline("check", "--backend", backend, "--world-size", "2", "--filter", "collectives.barrier*", "--out",
                       self.elsewhere / "out", prefix=prefix)
        self.assertIn('"type":"complete"', (self.elsewhere / "out" / "run.jsonl").read_text())

    def refusal(self, *arguments, prefix, **variables):
        """The one line with which a command says what the machine lacks."""
        done = self.plumbline(*arguments, "--out", self.elsewhere / "out", prefix=prefix, status=3, **variables)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("plumbline: "), done.stderr)
        return done.stderr

    def configure_consumer(self, build, prefix, components=""):
        return run(CMAKE, "-S", SOURCE / "ci" / "install_test", "-B", build, "-G",
                   CACHE["CMAKE_GENERATOR"], f"-DCMAKE_CXX_COMPILER={CACHE['CMAKE_CXX_COMPILER']}",
                   f"-DCMAKE_PREFIX_PATH={prefix}", f"-DVERSION={CACHE['CMAKE_PROJECT_VERSION']}",
                   f"-DCOMPONENTS={components}")

    def built_consumer(self, prefix, components=""):
        """The other project's build folder; it is built once for all tests that ask for the same."""
        if (prefix, components) not in self.consumers:
            build = self.folder / f"consumer{len(self.consumers)}"
            for step in (lambda: self.configure_consumer(build, prefix, components), lambda: run(CMAKE, "--build", build)):
                done = step()
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.consumers[prefix, components] = build
        return self.consumers[prefix, components]

    def run_consumer(self, prefix, components=""):
        done = run(self.built_consumer(prefix, components) / "consumer", self.elsewhere / "run")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    # ---- what is there ----

    def test_files(self):
        for file in ("share/plumbline/schema/run.schema.json", "share/plumbline/vectors/collectives/ring_sum.json",
                     "share/doc/plumbline/LICENSE", "share/doc/plumbline/digits.md"):
            self.assertTrue((self.prefix / file).is_file(), file)
        self.assertIn("CC BY 4.0", (self.prefix / "share/doc/plumbline/digits.md").read_text())
        for module in ("worker", "benchmarks", *MODULES):
            self.assertTrue(self.modules(self.prefix, module), module)

    def test_private_headers_are_not_installed(self):
        headers = self.prefix / "include/plumbline/reference"
        self.assertEqual([], [str(file) for file in headers.rglob("*.hpp") if len(file.relative_to(headers).parts) != 2])
        for component in headers.iterdir():
            self.assertLessEqual(len(list(component.iterdir())), 8, component.name)

    def test_package_names_nothing_of_the_build(self):
        for file in (self.prefix / "lib/cmake/plumbline").iterdir():
            for folder in (SOURCE, BUILD):
                self.assertNotIn(f"{folder}/", file.read_text(), file)

    def test_executable_from_elsewhere(self):
        self.assertRegex(self.plumbline("--version").stdout, r"^plumbline \d+\.\d+\.\d+\n$")
        self.assertIn("COLL-001", self.plumbline("requirements").stdout)
        self.check_barrier("local")

    def test_doctor_finds_all_modules(self):
        words = self.plumbline("doctor").stdout
        optional = {"mpi": "backend mpi", "training": "LibTorch"}
        for finding in ("backend local", *(optional[module] for module in MODULES)):
            self.assertRegex(words, rf"(?m)^ok +{finding}")

    @unittest.skipUnless(shutil.which("dpkg-shlibdeps") and shutil.which("cpack"), "no dpkg-shlibdeps or no cpack")
    def test_debian_package(self):
        done = run(SOURCE / "ci/package/deb", "--build", BUILD, "--out", self.elsewhere / "deb")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        (package,) = (self.elsewhere / "deb").glob("*.deb")
        needed = run("dpkg-deb", "--field", package, "Depends").stdout
        self.assertIn("libc6", needed)
        self.assertNotRegex(needed, "mpi|torch")  # found when they are asked for
        done = run("dpkg-deb", "--extract", package, self.elsewhere / "root")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_barrier("local", prefix=self.elsewhere / "root/usr")
        for file in ("doc/plumbline/README.md", "doc/plumbline/harness/subject/plugin/README.md", "plumbline/python/plumbline_adapter.py"):
            self.assertTrue((self.elsewhere / "root/usr/share" / file).is_file(), file)

    def test_plugin_sample(self):
        sample = self.elsewhere / "sample"
        shutil.copytree(self.prefix / "share/plumbline/samples/plugin", sample)
        done = run("make", f"INCLUDE={self.prefix / 'include/plumbline'}", cwd=sample)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.check_barrier(f"plugin:{sample / 'libunix_sockets.so'}")

    @needs_mpi
    def test_mpi(self):
        self.check_barrier("mpi")

    @needs_training
    def test_training(self):
        self.plumbline("train", "--steps", "2", "--out", self.elsewhere / "out")

    # ---- another project ----

    def test_consumer_never_needs_torch(self):
        self.assertEqual(self.run_consumer(self.bare), "3 ranks added up\ncomponents answered\n")

    def test_each_example_is_what_its_readme_shows(self):
        build = self.built_consumer(self.bare)
        examples = sorted((SOURCE / "reference").glob("*/example.cpp"))
        self.assertEqual(len(examples), 9)
        for example in examples:
            with self.subTest(example.parent.name):
                shown = re.findall(r"(?ms)^```(?:cpp)?\n(.*?)^```", (example.parent / "README.md").read_text())
                done = run(build / f"example_{example.parent.name}")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(shown, [example.read_text(), done.stdout])

    @needs_training
    def test_consumer_with_training(self):
        self.assertEqual(self.run_consumer(self.prefix, "training"), "3 ranks added up\ncomponents answered\n2 ranks trained 4 steps\n")

    def check_component_refused(self, prefix, words):
        done = self.configure_consumer(self.elsewhere / "build", prefix, "training")
        self.assertNotEqual(done.returncode, 0)
        # CMake wraps what packages say.
        errors = " ".join(done.stderr.split())
        self.assertEqual(errors.count("CMake Error"), 1, done.stderr)
        self.assertIn(words, errors)
        self.assertIn(str(self.module(prefix, "training")), errors)

    def test_component_without_module(self):
        self.check_component_refused(self.bare, "component training: this plumbline was built without LibTorch")

    @needs_training
    def test_component_without_libtorch(self):
        broken = self.without_library("training", rb"libtorch_cpu\.so")
        self.check_component_refused(broken, "component training: LibTorch is not on this machine")

    # ---- optional runtimes that are not there ----

    def test_without_modules(self):
        words = self.refusal("check", "--backend", "mpi", prefix=self.bare)
        self.assertIn("backend mpi: not part of this build", words)
        self.assertIn("needs LibTorch", self.refusal("train", prefix=self.bare))
        self.check_barrier("local", prefix=self.bare)

    @needs_mpi
    def test_without_the_library_of_mpi(self):
        # The module is linked to none: who opens it loads one by its name.
        broken = self.elsewhere / "broken"
        shutil.copytree(self.prefix, broken)
        for file in (broken / "bin/plumbline", self.module(broken, "worker")):
            content, count = re.subn(rb"lib(mpi|mpich)(\.so\.\d\d\0)", lambda found: b"lib" + b"X" * len(found[1]) + found[2], file.read_bytes())
            self.assertEqual(count, 3, file)
            file.write_bytes(content)
        self.assertIn("is not on this machine", self.refusal("check", "--backend", "mpi", prefix=broken))
        self.check_barrier("local", prefix=broken)

    @needs_training
    def test_without_libtorch(self):
        broken = self.without_library("training", rb"libtorch_cpu\.so")
        self.assertIn("is not on this machine", self.refusal("train", prefix=broken))

    def torch(self):
        """The folder of the torch that the build took."""
        words = run("readelf", "-d", self.module(self.prefix, "training")).stdout
        folders = re.search(r"R(?:UN)?PATH.*\[(.*)\]", words)[1].split(":")
        (folder,) = [Path(folder) for folder in folders if (Path(folder) / "libtorch_cpu.so").exists()]
        return folder.parent

    @needs_training
    def test_torch_of_python(self):
        torch, moved = self.torch(), self.elsewhere / "moved"
        shutil.copytree(self.bare, moved)
        name = str(torch / "lib").encode()
        content = self.module(self.prefix, "training").read_bytes()
        self.assertIn(name, content)
        self.module(moved, "training").write_bytes(content.replace(name, b"/" + b"X" * (len(name) - 1)))
        python = self.elsewhere / "python"
        for answer, status in ((f"echo '{torch}'", 0), ("exit 1", 3), ("echo /nowhere", 3)):
            python.write_text(f"#!/bin/sh\n{answer}\n")
            python.chmod(0o755)
            done = self.plumbline("train", "--steps", "2", "--out", self.elsewhere / "out", prefix=moved, status=status,
                                  PLUMBLINE_PYTHON=str(python))
            if status == 3:
                self.assertRegex(done.stderr, r"^plumbline: .*'?libtorch_cpu\.so'? is not on this machine; pip install torch==[\d.]+, .*\n$")

    @needs_training
    def test_torch_of_another_version(self):
        other = self.elsewhere / "torch"
        other.mkdir()
        (other / "lib").symlink_to(self.torch() / "lib")
        (other / "version.py").write_text("__version__ = '1.2.3+cpu'\n")
        words = self.refusal("train", "--steps", "2", prefix=self.prefix, LD_LIBRARY_PATH=str(other / "lib"))
        self.assertRegex(words, rf"the torch in '{other}' is 1\.2\.3\+cpu; pip install torch==[\d.]+, for which it was built, or plumbline build-module training\n$")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:], verbosity=1)
