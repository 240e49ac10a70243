"""plumbline under each launcher that is here: started by it rank by rank, and starting ranks by it.

usage: launchers_test.py PLUMBLINE PLUGIN MODULES [TORCH]: the program, a plugin for --backend plugin:PLUGIN, the folder of its modules,
and the folder of a torch whose torchrun is tried
"""
import json, os, re, shutil, subprocess, sys, tempfile, unittest
from pathlib import Path

ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
ONE = ["--filter", "collectives.all_reduce.exact[dtype=f32,op=sum,world=2]"]


def mpis_in(modules):
    """Each launcher of an MPI for which there is a module, with the words by which one knows its library."""
    for interface, words, names in (("openmpi", "Open MPI", ("mpirun.openmpi", "mpirun")), ("mpich", "MPICH", ("mpiexec.mpich", "mpiexec"))):
        if not (modules / interface / "libplumbline_mpi.so").exists():
            continue
        for name in names:
            program = shutil.which(name)
            if program and words in subprocess.run([program, "--version"], capture_output=True, text=True).stdout.replace("HYDRA", "MPICH"):
                yield program, words
                break


def end(result):
    """Ends a program of tests: 77, which CTest counts as skipped, where all of them were."""
    if result.wasSuccessful() and result.skipped and result.testsRun <= len(result.skipped):
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() and result.testsRun else 1)


def mpis():
    return mpis_in(MODULES)


def needs_mpi(test):
    def run(self):
        if not list(mpis()):
            self.skipTest("no MPI")
        test(self)
    return run


class Launchers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="launchers-")
        self.addCleanup(self.folder.cleanup)
        of_launchers = ("OMPI_", "PMI", "SLURM_", "TORCHELASTIC_", "MASTER_", "RANK", "WORLD_SIZE")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(of_launchers)} | ROOT

    def check(self, *arguments, backend="mpi"):
        return [PLUMBLINE, "check", "--backend", backend, *ONE, "--out", "out", *arguments]

    def started(self, commands):
        """Runs commands side by side; the statuses, and what they print."""
        processes = [subprocess.Popen(command, cwd=self.folder.name, env=self.environment | variables, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True) for command, variables in commands]
        words = [process.communicate(timeout=240)[0] for process in processes]
        return [process.returncode for process in processes], "".join(words)

    def record(self):
        return [json.loads(line) for line in Path(self.folder.name, "out/run.jsonl").read_text().splitlines()]

    def passed(self, commands, words):
        statuses, output = self.started(commands)
        self.assertEqual(set(statuses), {0}, output)
        rows = self.record()
        (result,) = [row for row in rows if row["type"] == "result"]
        self.assertEqual((result["verdict"], result["parameters"]["world"]), ("pass", "2"), output)
        self.assertIn(words, json.dumps(rows), output)
        return output

    @needs_mpi
    def test_mpi_starts_its_ranks_by_the_launcher_that_is_named(self):
        for program, words in mpis():
            with self.subTest(program):
                self.passed([(self.check("--launcher", program), {})], words)

    @needs_mpi
    def test_mpi_inside_its_own_launcher(self):
        for program, words in mpis():
            more = ["--oversubscribe"] if words == "Open MPI" else []
            with self.subTest(program):
                self.passed([([program, "-n", "2", *more, *self.check()], {})], words)

    def test_processes_that_somebody_starts_with_ranks(self):
        pairs = {"plain": ("RANK", "WORLD_SIZE"), "PMI without PMI_FD": ("PMI_RANK", "PMI_SIZE")}
        for name, (rank, size) in pairs.items():
            with self.subTest(name):
                ranks = [(self.check(backend=f"plugin:{PLUGIN}"), {rank: str(number), size: "2"}) for number in range(2)]
                self.passed(ranks, "unix")
        # A number of each process' own: what Hydra sets.
        ranks = [(self.check(backend=f"plugin:{PLUGIN}"), {"PMI_RANK": str(n), "PMI_SIZE": "2", "PMI_FD": str(9 + 2 * n)}) for n in range(2)]
        self.passed(ranks, "unix")

    def test_torchrun(self):
        if not TORCH:
            self.skipTest("built without LibTorch")
        # After the standard library, of which that folder may have an old copy.
        start = "import runpy, site, sys; site.addsitedir(sys.argv.pop(1)); runpy.run_module('torch.distributed.run', run_name='__main__')"
        torchrun = [sys.executable, "-c", start, str(Path(TORCH).parent), "--nproc-per-node", "2", "--no-python"]
        self.passed([([*torchrun, *self.check(backend=f"plugin:{PLUGIN}")], {})], "unix")

    @needs_mpi
    def test_what_is_no_job_of_mpi_is_refused(self):
        statuses, output = self.started([(self.check(), {"RANK": "1", "WORLD_SIZE": "2"})])
        self.assertEqual(statuses, [2], output)
        self.assertIn("plumbline: backend mpi: the processes that somebody started (RANK=1, WORLD_SIZE=2) are no MPI job; start them with "
                      "mpirun, or give --launcher mpirun to one of them\n", output)

    def test_one_of_several_that_would_all_start_ranks_is_refused(self):
        of_torchrun = {"RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "a"}
        statuses, output = self.started([(self.check(backend="local"), of_torchrun)])
        self.assertEqual(statuses, [2], output)
        self.assertEqual(output, "plumbline: backend local starts the ranks itself, and torchrun started this process as one of 2 "
                                 "(RANK=1, WORLD_SIZE=2): run it outside of that\n")

    def test_a_pair_that_may_be_a_whole_containers_stops_nobody_who_starts_ranks_himself(self):
        for size in "2", "x":
            statuses, output = self.started([(self.check(backend="local"), {"RANK": "1", "WORLD_SIZE": size})])
            self.assertEqual(statuses, [0 if size == "2" else 2], output)

    def test_a_lonely_rank_is_no_job(self):
        statuses, output = self.started([(self.check(backend="local"), {"RANK": "0", "WORLD_SIZE": "1"})])
        self.assertEqual(statuses, [0], output)

    def test_numbers_that_make_no_rank(self):
        statuses, output = self.started([(self.check(backend=f"plugin:{PLUGIN}"), {"RANK": "2", "WORLD_SIZE": "2"})])
        self.assertEqual(statuses, [2], output)
        self.assertIn("the environment has RANK=2, WORLD_SIZE=2: a rank is a whole number from 0 to the size less one; correct or unset them\n", output)

    def fake_launcher(self, version, body):
        file = Path(self.folder.name, "launch")
        file.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && {{ echo '{version}'; exit 0; }}\n{body}\n")
        file.chmod(0o755)
        return str(file)

    @needs_mpi
    def test_a_launcher_that_dies_says_why(self):
        for words, telling in (("It looks like MPI_INIT failed for some reason", "It looks like MPI_INIT failed for some reason"),
                               ("A component was not found.  This\nmeans that it is missing", "A component was not found."),
                               ("A component was not found, or was\nunable to be opened.  This", "A component was not found, or was unable to be opened."),
                               ("plumbline: no memory\nplumbline: no memory", "plumbline: no memory")):
            with self.subTest(words):
                dies = self.fake_launcher("mpirun (Open MPI) 4.1.4", f"echo ----; echo '{words}'; exit 1")
                statuses, output = self.started([(self.check("--launcher", dies), {})])
                self.assertEqual(statuses, [3], output)
                self.assertRegex(output, f"(?m)it says: {re.escape(telling)}$")

    @needs_mpi
    def test_what_is_no_launcher(self):
        other = self.fake_launcher("frobnicate 3.0", "exit 1")
        for launcher, status, words in ((other, 2, "--version prints 'frobnicate 3.0'"), ("/nonexistent/mpirun", 3, "there is no such program"),
                                        ("mpirum", 2, "it must be auto, fork, mpirun, mpiexec, srun, another launcher in PATH or a path; did you mean mpirun?"),
                                        ("fork", 2, "ranks of backend mpi are started by mpirun, mpiexec or srun")):
            with self.subTest(launcher):
                statuses, output = self.started([(self.check("--launcher", launcher), {})])
                self.assertEqual(statuses, [status], output)
                self.assertIn(words, output)


if __name__ == "__main__":
    PLUMBLINE, PLUGIN, MODULES, TORCH = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else ""
    unittest.main(argv=sys.argv[:1])
