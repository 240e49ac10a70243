"""ci/gpu without a GPU: what it says of options, of machines that cannot run it, and that it configures what is there.

usage: gpu_test.py WORK [unittest arguments]

WORK is a folder for what is made.
"""
import os, re, shutil, subprocess, sys, tempfile, unittest
from pathlib import Path

GPU = Path(__file__).resolve().parent / "gpu"
WORK = Path(sys.argv[1])
NVCC = shutil.which("nvcc") or next((str(p) for p in [Path("/usr/local/cuda/bin/nvcc")] if p.exists()), None)


class GpuTest(unittest.TestCase):
    def setUp(self):
        WORK.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(dir=WORK))
        self.addCleanup(shutil.rmtree, self.folder)

    def run_gpu(self, *arguments, smi="exit 9"):
        """With a nvidia-smi of ours before the machine's."""
        tool = self.folder / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\n{smi}\n")
        tool.chmod(0o755)
        environment = dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}")
        return subprocess.run([GPU, *arguments], env=environment, capture_output=True, text=True, timeout=280)

    def refused(self, status, words, *arguments, **machine):
        done = self.run_gpu(*arguments, **machine)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stderr, f"ci/gpu: {words}\n")

    def test_bad_options(self):
        self.refused(2, "no option '--nope'; see ci/gpu --help", "--nope")
        self.refused(2, "--out needs a value", "--out")
        self.refused(2, "--jobs '0' is not a whole number from 1 on", "--jobs", "0")
        self.refused(2, "--third-party '/nowhere' is no folder", "--third-party", "/nowhere")
        self.refused(2, "--torch '/nowhere' is no folder", "--torch", "/nowhere")
        self.refused(2, "--torch and --python: give one of them", "--torch", "/tmp", "--python", "python3")
        self.refused(2, "--python 'no-such-python' is no program", "--python", "no-such-python")

    def test_replaces_no_folder_of_others(self):
        (self.folder / "thesis").mkdir()
        self.refused(2, f"--out '{self.folder}/thesis' is there and is no record of ci/gpu; name a new folder",
                     "--out", self.folder / "thesis")

    def test_builds_and_runs_what_there_is(self):
        script, targets = GPU.read_text(), (GPU.parent.parent / "benchmarks/CMakeLists.txt").read_text()
        for target in re.search(r"--target (.*)", script).group(1).split():
            self.assertRegex(targets, rf"add_(executable|library)\({target} ")
        for file in re.findall(r"benchmarks/anchors/\w+\.py", script):
            self.assertTrue((GPU.parent.parent / file).exists(), file)

    def test_without_a_gpu(self):
        self.refused(3, "no GPU here (nvidia-smi names none); nothing was run")
        self.refused(3, "no GPU here (nvidia-smi names none); nothing was run", smi="exit 0")

    def test_multi_on_one_gpu(self):
        self.refused(3, "--multi needs two GPUs at least, and this host has one", "--multi", smi="echo 'NVIDIA H200'")

    def test_help(self):
        done = self.run_gpu("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--third-party DIR", done.stdout)
        self.assertNotIn("#", done.stdout)

    @unittest.skipUnless(NVCC, "nvcc is not here")
    def test_configures_without_mpi_and_with_given_sources(self):
        sources = Path("/usr/src/googletest")
        given = []
        if sources.exists():
            (self.folder / "libraries").mkdir()
            (self.folder / "libraries/googletest").symlink_to(sources)
            given = ["--third-party", self.folder / "libraries"]
        build = self.folder / "build"
        done = self.run_gpu("--configure-only", "--build", build, *given)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("MPI backend FALSE", done.stdout)
        self.assertRegex(done.stdout, r"Plumbline: CUDA \d")
        if given:
            self.assertIn("Plumbline: googletest from", done.stdout)
        self.assertFalse((build / "bin/plumbline").exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:], verbosity=1)
