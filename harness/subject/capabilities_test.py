"""README.md's table of capabilities is what the backends claim. A backend that cannot start here is left out, and named.

usage: capabilities_test.py PLUMBLINE PLUGIN NCCL_DOUBLE [unittest arguments]
"""
import json, os, re, subprocess, sys, tempfile, unittest
from pathlib import Path

PLUMBLINE, PLUGIN, NCCL_DOUBLE = (str(Path(path).resolve()) for path in sys.argv[1:4])
README = (Path(__file__).resolve().parent / "README.md").read_text()
CANNOT_START = 3
# Cells that depend on the library; the backend that is asked here has what True says, None where that depends on the machine.
CONDITIONAL = {("mpi", "equal_results"): ("Open MPI", None), ("mpi", "thread_multiple"): ("by MPI", None),
               ("nccl", "dtype f8_e4m3"): ("from 2.24", True), ("nccl", "dtype f8_e5m2"): ("from 2.24", True),
               ("nccl", "registered_memory"): ("from 2.19", True)}
# How the reasons call a backend.
NAMES = {"mpi": "MPI", "nccl": "NCCL", "c10d:gloo": "gloo", "sample plugin": "sample"}
HOW = {
    "local": ["--backend", "local"],
    "mpi": ["--backend", "mpi"],
    "nccl": ["--backend", "nccl", "--backend-option", f"library={NCCL_DOUBLE}", "--backend-option", "runtime=emulated"],
    "c10d:gloo": ["--backend", "c10d:gloo"],
    "sample plugin": ["--backend", f"plugin:{PLUGIN}"],
}


def table():
    """{backend: {row: cell}}"""
    lines = README.split("\n\n| capability |")[1].split("\n\n")[0].split("\n")
    backends = [name.strip().strip("`") for name in lines[0].strip(" |").split("|")]
    columns = {backend: {} for backend in backends}
    for line in lines[2:]:
        row, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        assert len(cells) == len(backends), line
        for backend, cell in zip(backends, cells):
            columns[backend][row.replace("`", "")] = cell
    return columns


def claims_of(backend):
    """What it claims, with its dtypes as rows of the table have them; None where it cannot start here."""
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([PLUMBLINE, "check", *HOW[backend], "--world-size", "2", "--filter", "COLL-049", "--plain", "--out", out],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
        if done.returncode == CANNOT_START:
            return None
        assert done.returncode == 0, done.stdout
        for line in (Path(out) / "run.jsonl").read_text().splitlines():
            if (row := json.loads(line))["type"] == "subject":
                capabilities = row["capabilities"]
                return set(capabilities["claims"]) | {f"dtype {dtype}" for dtype in capabilities["dtypes"]}
    raise AssertionError(f"{backend}: the record has no subject")


def is_claimed(backend, row, cell):
    """Whether a cell says so; None where the machine decides."""
    return CONDITIONAL[backend, row][1] if (backend, row) in CONDITIONAL else cell == "yes"


class Table(unittest.TestCase):
    def test_each_cell_is_yes_or_no_or_says_when(self):
        for backend, column in table().items():
            for row, cell in column.items():
                with self.subTest(backend=backend, row=row):
                    said = CONDITIONAL.get((backend, row))
                    self.assertIn(cell, ["yes", "no"] if said is None else [said[0]])

    def test_it_has_what_each_backend_claims(self):
        columns = table()
        self.assertEqual(sorted(columns), sorted(HOW))
        asked = []
        for backend, column in columns.items():
            claims = claims_of(backend)
            if claims is None:
                print(f"{backend} cannot start here")
                continue
            asked.append(backend)
            with self.subTest(backend=backend):
                self.assertEqual({row for row, cell in column.items() if is_claimed(backend, row, cell)} - claims, set(), "claimed by the table alone")
                self.assertEqual({row for row, cell in column.items() if is_claimed(backend, row, cell) is False} & claims, set(), "claimed by the backend alone")
        self.assertIn("local", asked)
        self.assertIn("sample plugin", asked)

    def test_it_has_every_capability(self):
        self.assertEqual({row for row in table()["local"] if not row.startswith("dtype")} ^ {
            claim for claim in claims_of("local") if not claim.startswith("dtype")}, set())

    def test_each_no_has_a_reason(self):
        reasons = {}
        for line in README.split("\n## Why not\n")[1].split("\n\n")[0].split("\n")[2:]:
            rows, reason = line.strip("| ").split(" | ")
            reasons |= {row: reason for row in re.findall(r"`(\w+)`", rows)}
        for backend, column in table().items():
            for row, cell in column.items():
                if cell == "no":
                    with self.subTest(backend=backend, row=row):
                        reason = reasons.get(row.removeprefix("dtype "), "")
                        self.assertTrue("only `local`" in reason or NAMES[backend].lower() in reason.lower(), reason)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
