"""The folders of runs without --out: none is written twice, and the link leads to the last."""
import os
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from plumbline_results.run_folder import new_folder


class Folders(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = Path(folder.name) / "results"
        self.link = self.results / "latest/corpus"

    def test_each_run_has_a_folder_and_the_link_leads_to_the_last(self):
        first, second = new_folder("corpus", self.results), new_folder("corpus", self.results)
        self.assertRegex(first.name, r"^20\d{6}T\d{6}Z-corpus$")
        self.assertNotEqual(first, second)
        self.assertEqual(sorted((self.results / "runs").iterdir()), sorted([first, second]))
        self.assertEqual(os.readlink(self.link), f"../runs/{second.name}")

    def test_runs_at_one_time_have_a_folder_each(self):
        with ThreadPoolExecutor(16) as pool:
            made = list(pool.map(lambda _: new_folder("corpus", self.results), range(64)))
        self.assertEqual(len(set(made)), 64)
        self.assertIn(self.link.resolve(), [one.resolve() for one in made])
        self.assertEqual(os.listdir(self.results / "latest"), ["corpus"])

    def test_a_folder_in_the_place_of_the_link_is_kept(self):
        self.link.mkdir(parents=True)
        (self.link / "corpus.json").write_text("{}")
        os.utime(self.link, (1767323045, 1767323045))
        made = new_folder("corpus", self.results)
        self.assertEqual((self.results / "runs/20260102T030405Z-corpus/corpus.json").read_text(), "{}")
        self.assertEqual(self.link.resolve(), made.resolve())
        self.assertEqual(list(made.iterdir()), [])

    def test_nothing_is_made_where_a_link_leads(self):
        planted = self.results / "planted"
        planted.mkdir(parents=True)
        self.link.parent.mkdir()
        self.link.symlink_to(planted)
        (self.results / "runs").mkdir()
        for ahead in range(60):
            (self.results / "runs" / time.strftime("%Y%m%dT%H%M%SZ-corpus", time.gmtime(time.time() + ahead))).symlink_to(planted)
        self.assertFalse(new_folder("corpus", self.results).is_symlink())
        self.assertEqual(list(planted.iterdir()), [])

    def test_what_is_in_the_way_is_named(self):
        self.link.parent.mkdir(parents=True)
        self.link.touch()
        with self.assertRaisesRegex(OSError, "a file is where a link would be"):
            new_folder("corpus", self.results)
        self.assertEqual(list((self.results / "runs").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
