"""plumbline over two hosts: namespaces of this machine, each with its own name, network and shared memory, joined by a cable.

usage: hosts_test.py PLUMBLINE PLUGIN MODULES [PYTHON]: the program, a plugin for --backend plugin:PLUGIN, the folder of its modules, and a
Python that has torch, for backend c10d:gloo
"""
import json, os, shutil, signal, subprocess, sys, tempfile, time, unittest
from pathlib import Path

import slurm_test
from launchers_test import ROOT, mpis_in

ADDRESSES = {"plumb-a": "10.77.0.1", "plumb-b": "10.77.0.2"}
MAKE_HOST = """hostname {name} && ip link set lo up && mount --make-rprivate / && mount -t tmpfs none /dev/shm && exec sleep 3600"""


class Host:
    """Namespaces that a sleeping process keeps."""

    def __init__(self, name):
        self.name, self.address = name, ADDRESSES[name]
        self.keeper = subprocess.Popen(["unshare", "--uts", "--net", "--mount", "sh", "-c", MAKE_HOST.format(name=name)], stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 20
        while not self.is_ready():
            if self.keeper.poll() is not None or time.monotonic() > until:
                self.keeper.kill()  # where it takes too long
                raise unittest.SkipTest(f"no namespaces here: {self.keeper.communicate()[1].strip()}")
            time.sleep(0.02)

    def is_ready(self):
        try:
            return Path(f"/proc/{self.keeper.pid}/comm").read_text() == "sleep\n"
        except OSError:
            return False

    def command(self, *words):
        return ["nsenter", "--target", str(self.keeper.pid), "--uts", "--net", "--mount", f"--wd={os.getcwd()}", "--", *words]

    def end(self):
        self.keeper.kill()
        self.keeper.communicate()


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise unittest.SkipTest(f"no cable between namespaces here: {' '.join(command)}: {done.stderr.strip()}")


class Hosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("network namespaces want the superuser")
        for program in ("unshare", "nsenter", "ip"):
            if not shutil.which(program):
                raise unittest.SkipTest(f"no {program} here")
        cls.hosts = []
        cls.addClassCleanup(lambda: [host.end() for host in cls.hosts])
        for name in ADDRESSES:
            cls.hosts.append(Host(name))
        first, second = cls.hosts
        run("ip", "link", "add", "plumb0", "netns", str(first.keeper.pid), "type", "veth", "peer", "name", "plumb0", "netns", str(second.keeper.pid))
        for host in cls.hosts:
            run(*host.command("ip", "address", "add", f"{host.address}/24", "dev", "plumb0"))
            run(*host.command("ip", "link", "set", "plumb0", "up"))
        names = tempfile.NamedTemporaryFile("w", prefix="hosts-")
        cls.addClassCleanup(names.close)
        names.write(Path("/etc/hosts").read_text() + "".join(f"{address} {name}\n" for name, address in ADDRESSES.items()))
        names.flush()
        for host in cls.hosts:
            run(*host.command("mount", "--bind", names.name, "/etc/hosts"))

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="hosts-")
        self.addCleanup(self.folder.cleanup)
        of_launchers = ("OMPI_", "PMI", "SLURM_", "TORCHELASTIC_", "MASTER_", "RANK", "WORLD_SIZE")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(of_launchers)} | ROOT
        # What ssh is elsewhere. Launchers give it options first; the words after the host are for a shell.
        self.ssh = Path(self.folder.name, "ssh")
        keepers = "".join(f"    {host.name}|{host.address}) process={host.keeper.pid};;\n" for host in self.hosts)
        self.ssh.write_text('#!/bin/sh\nwhile :; do case "$1" in -*) shift;; *) break;; esac; done\ncase "$1" in\n' + keepers +
                            '    *) echo "no host $1" >&2; exit 255;;\nesac\nshift\n'
                            'exec nsenter --target "$process" --uts --net --mount --wd="$PWD" -- sh -c "$*"\n')
        self.ssh.chmod(0o755)

    def on(self, host, *command, **variables):
        return subprocess.Popen(host.command("env", f"--chdir={self.folder.name}", *command), env=self.environment | variables,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def finished(self, processes, limit=240):
        try:
            words = "".join(process.communicate(timeout=limit)[0] for process in processes)
        except subprocess.TimeoutExpired:
            for process in processes:
                os.killpg(process.pid, signal.SIGKILL)
            words = "".join(process.communicate()[0] for process in processes)
            self.fail(f"still running after {limit} s:\n{words}")
        return [process.returncode for process in processes], words

    def check(self, *arguments, backend="mpi"):
        return [PLUMBLINE, "check", "--backend", backend, "--filter", "collectives.all_reduce.exact[dtype=f32,op=sum,world=2]", "--out", "out", *arguments]

    def results(self):
        rows = [json.loads(line) for line in Path(self.folder.name, "out/run.jsonl").read_text().splitlines()]
        return [row for row in rows if row["type"] == "result"]

    def assert_on_both(self, result, verdict="pass"):
        self.assertEqual(result["verdict"], verdict)
        self.assertEqual([rank["host"] for rank in result["ranks"]], list(ADDRESSES))

    def mpirun(self, program, words):
        """The launcher with the options that start a rank on each host."""
        hosts = ",".join(ADDRESSES)
        if words == "Open MPI":
            agent = "plm_rsh_agent" if "4." in subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split("\n")[0] else "plm_ssh_agent"
            return [program, "-n", "2", "--host", hosts, "--map-by", "node", "--mca", agent, str(self.ssh)]
        return [program, "-n", "2", "-ppn", "1", "-hosts", hosts, "-launcher", "ssh", "-launcher-exec", str(self.ssh)]

    def needs_mpi(self):
        found = list(mpis_in(MODULES))
        if not found:
            self.skipTest("no MPI")
        return found

    def needs_gloo(self):
        if not PYTHON:
            self.skipTest("no Python with the torch that this is built for")
        return {"PLUMBLINE_PYTHON": PYTHON, "GLOO_SOCKET_IFNAME": "plumb0"}

    def test_an_mpi_launcher_places_ranks_that_it_started_itself(self):
        for program, words in self.needs_mpi():
            with self.subTest(program):
                first = self.hosts[0]
                command = [*self.mpirun(program, words), *self.check("--control-address", first.address)]
                (status,), output = self.finished([self.on(first, *command)])
                self.assertEqual(status, 0, output)
                (result,) = self.results()
                self.assert_on_both(result)

    def test_an_address_that_other_hosts_cannot_see_is_one_line(self):
        program, words = self.needs_mpi()[0]
        (status,), output = self.finished([self.on(self.hosts[0], *self.mpirun(program, words), *self.check())])
        self.assertNotEqual(status, 0, output)
        self.assertRegex(output, r"\nplumbline worker: cannot reach the driver at 127.0.0.1:\d+: Connection refused; ranks on other hosts reach it where")

    def test_srun_places_ranks_on_its_nodes(self):
        slurm_test.needs_slurm()
        cluster, first = slurm_test.Cluster(self.hosts, self.environment), self.hosts[0]
        self.addCleanup(cluster.end)
        srun = ["srun", "--nodes=2", "--ntasks=2"]
        # Slurm's PMIx makes a folder of one name on each node, and /tmp is one for both here.
        self.environment["SLURM_PMIX_TMPDIR"] = "/dev/shm"
        address = ["--control-address", first.address]
        ways = []
        with self.subTest("MPI"):  # the others need none
            ways = [(words, [*srun, f"--mpi={variables['SLURM_MPI_TYPE']}", *self.check(*address)], variables)
                    for words, variables in slurm_test.mpis_of_srun(first, self.environment, MODULES, self.folder.name)]
        # Its sockets are files, which these hosts share as well as the folder.
        ways.append(("plugin", [*srun, *self.check(*address, backend=f"plugin:{PLUGIN}")], {"PLUMBLINE_TMPDIR": self.folder.name}))
        if PYTHON:
            variables = self.needs_gloo() | {"MASTER_ADDR": first.address, "MASTER_PORT": "29546"}
            ways.append(("gloo", [*srun, *self.check(*address, backend="c10d:gloo")], variables))
        for what, command, variables in ways:
            with self.subTest(what):
                (status,), output = self.finished([self.on(first, *command, **variables)])
                self.assertEqual(status, 0, output)
                (result,) = self.results()
                self.assert_on_both(result)

    def test_a_plugin_whose_hosts_share_no_folder_is_one_line(self):
        first = self.hosts[0]
        ranks = [self.on(host, *self.check("--control-address", first.address, backend=f"plugin:{PLUGIN}"), RANK=str(rank), WORLD_SIZE="2")
                 for rank, host in enumerate(self.hosts)]
        statuses, output = self.finished(ranks)
        self.assertEqual(statuses, [3, 3], output)
        self.assertRegex(output, r"backend plugin: PLUMBLINE_SCRATCH='/dev/shm/\S+' is no folder of this host; for ranks on several hosts set PLUMBLINE_TMPDIR")

    def test_gloo_between_processes_that_somebody_started(self):
        first = self.hosts[0]
        variables = self.needs_gloo() | {"MASTER_ADDR": first.address, "MASTER_PORT": "29544", "WORLD_SIZE": "2"}
        ranks = [self.on(host, *self.check("--control-address", first.address, backend="c10d:gloo"), RANK=str(rank), **variables)
                 for rank, host in enumerate(self.hosts)]
        statuses, output = self.finished(ranks)
        self.assertEqual(statuses, [0, 0], output)
        (result,) = self.results()
        self.assert_on_both(result)

    def test_gloo_inside_torchrun(self):
        first = self.hosts[0]
        variables = self.needs_gloo()
        torchrun = [PYTHON, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "--master-addr", first.address,
                    "--master-port", "29545", "--no-python"]
        agents = [self.on(host, *torchrun, "--node-rank", str(rank), *self.check("--control-address", first.address, backend="c10d:gloo"), **variables)
                  for rank, host in enumerate(self.hosts)]
        statuses, output = self.finished(agents)
        self.assertEqual(statuses, [0, 0], output)
        (result,) = self.results()
        self.assert_on_both(result)


if __name__ == "__main__":
    PLUMBLINE, PLUGIN, MODULES, PYTHON = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), Path(os.path.abspath(sys.argv[3])), (sys.argv[4:] or [""])[0]
    unittest.main(argv=sys.argv[:1], verbosity=2)
