"""plumbline under Slurm: a controller and one node, both of this machine and of this test alone. hosts_test.py has two nodes.

usage: slurm_test.py PLUMBLINE PLUGIN MODULES: the program, a plugin for --backend plugin:PLUGIN, and the folder of its modules
"""
import json, os, shutil, subprocess, sys, tempfile, time, unittest
from pathlib import Path

from launchers_test import ROOT, end, mpis_in

# No cgroups, accounting or keys. The daemons run as the superuser, and take what anyone tells them: they are in network
# namespaces of this test's own, which lead nowhere, and listen at their one address.
CONFIGURATION = """ClusterName=plumbline
SlurmctldHost={host}({address})
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SchedulerType=sched/builtin
JobAcctGatherType=jobacct_gather/none
StateSaveLocation={folder}/{host}/state
SlurmdSpoolDir={folder}/%n/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n/slurmd.pid
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""
DAEMONS = {"slurmctld": "/usr/sbin/slurmctld-wlm", "slurmd": "/usr/sbin/slurmd-wlm"}  # the second is Debian's name
HOST, ADDRESS = "plumbline-node", "10.78.0.1"  # an address of the loopback alone would not be looked up
SECONDS_TO_START = 30
STARTS = 3  # on other ports each time


def program_of(daemon):
    return shutil.which(daemon) or shutil.which(DAEMONS[daemon]) or shutil.which(f"/usr/sbin/{daemon}")


def needs_slurm():
    missing = [name for name in DAEMONS if not program_of(name)] + [name for name in ("srun", "sinfo") if not shutil.which(name)]
    if missing:
        raise unittest.SkipTest(f"no {', '.join(missing)} here: Debian's slurmctld, slurmd and slurm-client")


def mpis_of_srun(host, environment, modules, folder):
    """(words, variables) of each MPI for which there is a module and srun has a plugin: what its ranks have in their environment."""
    found = {words: program for program, words in mpis_in(modules)}
    if not found:
        raise unittest.SkipTest("no MPI")
    types = {"Open MPI": "pmix", "MPICH": "pmi2"}
    known = subprocess.run(host.command("srun", "--mpi=list"), env=environment, capture_output=True, text=True)
    usable = [words for words in found if types[words] in known.stdout + known.stderr]
    if not usable:
        lacks = ", ".join(f"{types[words]} for {words}" for words in found)
        raise unittest.SkipTest(f"srun has no plugin {lacks}; it has: {' '.join((known.stdout + known.stderr).split())}")
    for words in usable:
        # Which MPI's library is taken follows from the launcher in PATH: one folder that has that alone, first.
        first = Path(folder) / types[words]
        first.mkdir()
        for name in ("mpirun", "mpiexec"):
            (first / name).symlink_to(found[words])
        yield words, {"PATH": f"{first}:{os.environ['PATH']}", "SLURM_MPI_TYPE": types[words]}


class Cluster:
    """A controller on the first of some hosts and a node on each, until end(). A host has a name, an address and command(WORD…)."""

    def __init__(self, hosts, environment):
        """Starts the daemons, and returns when all nodes are idle. Where they are installed and never are, the test fails."""
        self.hosts, self.environment, self.daemons, self.folders = hosts, environment, [], []
        why = []
        for attempt in range(STARTS):
            self.start(attempt)
            if not (problem := self.problem_of_nodes()):
                return
            why.append(problem)
            self.end()
        raise AssertionError(f"Slurm is installed, and does not start in {STARTS} attempts: " + " / ".join(why))

    def start(self, attempt):
        self.folders.append(tempfile.TemporaryDirectory(prefix="slurm-"))
        self.folder = Path(self.folders[-1].name)
        first = self.hosts[0]
        nodes = "\n".join(f"NodeName={host.name} NodeAddr={host.address} CPUs={os.cpu_count()} State=UNKNOWN" for host in self.hosts)
        ports = {"controller": 6817 + 2 * attempt, "node": 6818 + 2 * attempt}  # nobody else is in these networks
        # Each daemon has its own: folders of nodes on a disk that they share would be the same.
        for host in self.hosts:
            for name in ("state", "spool"):
                (self.folder / host.name / name).mkdir(parents=True)
        file = self.folder / "slurm.conf"
        file.write_text(CONFIGURATION.format(host=first.name, address=first.address, folder=self.folder, nodes=nodes, **ports))
        self.environment["SLURM_CONF"] = str(file)
        self.daemons = [self.daemon(first, "slurmctld")] + [self.daemon(host, "slurmd") for host in self.hosts]

    def daemon(self, host, name):
        with open(self.folder / f"{name}.{host.name}.log", "w") as log:
            return subprocess.Popen(host.command(program_of(name), "-D"), env=self.environment, stdout=log, stderr=log)

    def end(self):
        for one in self.daemons[::-1]:
            one.terminate()
            one.wait()
        self.daemons = []
        for folder in self.folders:
            folder.cleanup()
        self.folders = []

    def problem_of_nodes(self):
        until = time.monotonic() + SECONDS_TO_START
        ask = self.hosts[0].command("sinfo", "-h", "-N", "-o", "%T")
        while (states := subprocess.run(ask, env=self.environment, capture_output=True, text=True).stdout.split()) != ["idle"] * len(self.hosts):
            if time.monotonic() > until:
                logs = "; ".join(f"{log.stem}: {(log.read_text().splitlines() or ['no word'])[-1]}" for log in sorted(self.folder.glob("*.log")))
                return f"its nodes are {' '.join(states) or 'unknown'}; {logs}"
            time.sleep(0.2)
        return ""


class Network:
    """Namespaces that a sleeping process keeps: a network, and a host name that is known in it, since the daemons listen at its address."""

    name, address = HOST, ADDRESS

    def __init__(self):
        self.names = tempfile.NamedTemporaryFile("w", prefix="slurm-hosts-")
        self.names.write(f"127.0.0.1 localhost\n{ADDRESS} {HOST}\n")
        self.names.flush()
        make = (f"hostname {HOST} && ip link set lo up && ip address add {ADDRESS}/32 dev lo && mount --make-rprivate / && "
                f"mount --bind {self.names.name} /etc/hosts && echo up && exec sleep 3600")
        self.keeper = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-c", make], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.keeper.stdout.readline() != "up\n":
            raise unittest.SkipTest(f"no namespaces here: {self.keeper.communicate()[1].strip()}")

    def command(self, *words, folder="/"):
        return ["nsenter", "--target", str(self.keeper.pid), "--net", "--uts", "--mount", f"--wd={folder}", "--", *words]

    def end(self):
        self.keeper.kill()
        self.keeper.communicate()
        self.names.close()


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("a node of Slurm wants the superuser")
        needs_slurm()
        for program in ("unshare", "nsenter", "ip"):
            if not shutil.which(program):
                raise unittest.SkipTest(f"no {program} here")
        cls.network = Network()
        cls.addClassCleanup(cls.network.end)
        of_launchers = ("OMPI_", "PMI", "SLURM_", "TORCHELASTIC_", "MASTER_", "RANK", "WORLD_SIZE")
        cls.environment = {name: value for name, value in os.environ.items() if not name.startswith(of_launchers)} | ROOT
        cls.addClassCleanup(Cluster([cls.network], cls.environment).end)

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="slurm-run-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def run_here(self, *command, **variables):
        done = subprocess.run(self.network.command(*command, folder=self.folder), env=self.environment | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
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
        for words, variables in mpis_of_srun(self.network, self.environment, MODULES, self.folder):
            with self.subTest(words):
                started = ["srun", "-n", "2", "--overcommit", f"--mpi={variables['SLURM_MPI_TYPE']}", *self.check("mpi")]
                for command in (started, self.check("mpi", "--launcher", "srun")):
                    self.assertEqual(self.run_here(*command, **variables), 0, self.words)
                    self.assert_passed()
                    self.assertIn(words, (self.folder / "out/run.jsonl").read_text())

    def test_a_wrong_result_is_found(self):
        wrong = self.check(f"plugin:{PLUGIN}", "--mutant", "col.drop_last_element")
        self.assertNotEqual(self.run_here("srun", "-n", "2", "--overcommit", *wrong), 0, self.words)
        self.assertEqual([row["verdict"] for row in self.results()], ["fail"], self.words)


if __name__ == "__main__":
    PLUMBLINE, PLUGIN, MODULES = sys.argv[1], os.path.abspath(sys.argv[2]), Path(sys.argv[3])
    end(unittest.main(argv=sys.argv[:1], exit=False).result)
