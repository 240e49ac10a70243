"""plumbline under Slurm: a controller and one node, both of this machine and of this test alone.

usage: slurm_test.py PLUMBLINE PLUGIN MODULES: the program, a plugin for --backend plugin:PLUGIN, and the folder of its modules
"""
import json, os, shutil, socket, subprocess, sys, tempfile, time, unittest
from pathlib import Path

from launchers_test import ROOT, mpis_in

# No cgroups, accounting or keys: a cluster of one machine that its owner alone can reach.
CONFIGURATION = """ClusterName=plumbline
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SchedulerType=sched/builtin
JobAcctGatherType=jobacct_gather/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""
DAEMONS = {"slurmctld": "/usr/sbin/slurmctld-wlm", "slurmd": "/usr/sbin/slurmd-wlm"}  # the second is Debian's name
SECONDS_TO_START = 30


def program_of(daemon):
    return shutil.which(daemon) or shutil.which(DAEMONS[daemon]) or shutil.which(f"/usr/sbin/{daemon}")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("a node of Slurm wants the superuser")
        missing = [name for name in DAEMONS if not program_of(name)] + [name for name in ("srun", "sinfo") if not shutil.which(name)]
        if missing:
            raise unittest.SkipTest(f"no {', '.join(missing)} here: Debian's slurmctld, slurmd and slurm-client")
        temporary = tempfile.TemporaryDirectory(prefix="slurm-")
        cls.addClassCleanup(temporary.cleanup)
        cls.cluster = Path(temporary.name)
        for name in ("state", "spool"):
            (cls.cluster / name).mkdir()
        host = socket.gethostname().split(".")[0]
        configuration = cls.cluster / "slurm.conf"
        configuration.write_text(CONFIGURATION.format(host=host, controller=free_port(), node=free_port(), folder=cls.cluster, cpus=os.cpu_count()))
        of_launchers = ("OMPI_", "PMI", "SLURM_", "TORCHELASTIC_", "MASTER_", "RANK", "WORLD_SIZE")
        cls.environment = {name: value for name, value in os.environ.items() if not name.startswith(of_launchers)} | ROOT
        cls.environment["SLURM_CONF"] = str(configuration)
        for name in DAEMONS:
            cls.start(name, configuration)
        cls.await_node()

    @classmethod
    def start(cls, name, configuration):
        log = open(cls.cluster / f"{name}.log", "w")
        cls.addClassCleanup(log.close)
        daemon = subprocess.Popen([program_of(name), "-D", "-f", str(configuration)], env=cls.environment, stdout=log, stderr=log)
        cls.addClassCleanup(daemon.wait)
        cls.addClassCleanup(daemon.terminate)

    @classmethod
    def await_node(cls):
        until = time.monotonic() + SECONDS_TO_START
        while "idle" not in (state := subprocess.run(["sinfo", "-h", "-o", "%T"], env=cls.environment, capture_output=True, text=True).stdout):
            if time.monotonic() > until:
                logs = "; ".join(f"{name}: {((cls.cluster / (name + '.log')).read_text().splitlines() or ['no word'])[-1]}" for name in DAEMONS)
                raise unittest.SkipTest(f"Slurm does not start here: its node is {state.strip() or 'unknown'}; {logs}")
            time.sleep(0.2)

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="slurm-run-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def run_here(self, *command, **variables):
        done = subprocess.run(command, cwd=self.folder, env=self.environment | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=240)
        self.words = done.stdout
        return done.returncode

    def check(self, backend, *arguments, filter="collectives.all_reduce.exact[dtype=f32,op=sum,world=2]"):
        return [PLUMBLINE, "check", "--backend", backend, "--filter", filter, "--out", "out", *arguments]

    def results(self):
        rows = [json.loads(line) for line in (self.folder / "out/run.jsonl").read_text().splitlines()]
        return [row for row in rows if row["type"] == "result" and "role" not in row]

    def assert_passed(self):
        self.assertEqual([(row["verdict"], len(row["ranks"])) for row in self.results()], [("pass", 2)], self.words)

    def test_ranks_that_srun_started(self):
        self.assertEqual(self.run_here("srun", "-n", "2", "--overcommit", *self.check(f"plugin:{PLUGIN}")), 0, self.words)
        self.assert_passed()

    def test_ranks_of_mpi(self):
        found = {words: program for program, words in mpis_in(MODULES)}
        if not found:
            self.skipTest("no MPI")
        types = {"Open MPI": "pmix", "MPICH": "pmi2"}
        known = subprocess.run(["srun", "--mpi=list"], env=self.environment, capture_output=True, text=True)
        for words in found:
            if types[words] not in known.stdout + known.stderr:
                continue
            with self.subTest(words):
                # Which MPI's library is taken follows from the launcher in PATH: one folder that has that alone, first.
                first = self.folder / types[words]
                first.mkdir()
                for name in ("mpirun", "mpiexec"):
                    (first / name).symlink_to(found[words])
                path = f"{first}:{os.environ['PATH']}"
                for command in (["srun", "-n", "2", "--overcommit", f"--mpi={types[words]}", *self.check("mpi")], self.check("mpi", "--launcher", "srun")):
                    self.assertEqual(self.run_here(*command, PATH=path, SLURM_MPI_TYPE=types[words]), 0, self.words)
                    self.assert_passed()
                    self.assertIn(words, (self.folder / "out/run.jsonl").read_text())

    def test_a_wrong_result_is_found(self):
        wrong = self.check(f"plugin:{PLUGIN}", "--mutant", "col.drop_last_element")
        self.assertNotEqual(self.run_here("srun", "-n", "2", "--overcommit", *wrong), 0, self.words)
        self.assertEqual([row["verdict"] for row in self.results()], ["fail"], self.words)


if __name__ == "__main__":
    PLUMBLINE, PLUGIN, MODULES = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    unittest.main(argv=sys.argv[:1])
