"""What the validator of results/baselines takes, and what it finds."""
import copy, json, sys, unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import validate_baselines

MEASURED = {
    "schema": 1, "device": "a GPU", "gpus": 1, "status": "measured", "date": "2030-01-31", "commit": "0123abc",
    "versions": {"driver": "1", "cuda": "2", "nccl": "3", "torch": "4"}, "clocks": {"memory": 1, "multiprocessors": 2},
    "figures": [{"name": "speed", "unit": "parts", "goal": 0.9, "command": "run", "value": 0.95, "interval": [0.94, 0.96], "launches": 5},
                {"name": "other", "unit": "parts", "goal": 1, "command": "run", "value": None, "why": "one GPU alone"}],
}


def changed(*path_and_value):
    """A copy with one thing set; deleted where the value is ..."""
    *path, last, value = path_and_value
    copied = copy.deepcopy(MEASURED)
    place = copied
    for step in path:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return copied


class BaselinesTest(unittest.TestCase):
    def test_those_here_keep_the_form(self):
        files = sorted(Path(__file__).parent.glob("*.json"))
        self.assertTrue(files)
        for file in files:
            self.assertEqual(validate_baselines.problems(json.loads(file.read_text())), [], file.name)

    def test_a_measured_one_is_taken(self):
        self.assertEqual(validate_baselines.problems(MEASURED), [])
        self.assertEqual(validate_baselines.problems(changed("figures", 1, "gpus", 2)), [], "it needs more than the others")

    def test_what_is_wrong_is_found(self):
        for words, baseline in (
                ("status 'maybe'", changed("status", "maybe")),
                ("status ['x']", changed("status", ["x"])),
                ("versions is missing", changed("versions", ...)),
                ("versions must say", changed("versions", {"driver": "1"})),
                ("clocks must say", changed("clocks", "memory", 0)),
                ("date", changed("date", "yesterday")),
                ("commit", changed("commit", "main")),
                ("schema", changed("schema", 2)),
                ("interval", changed("figures", 0, "interval", [0.96, 0.99])),
                ("interval", changed("figures", 0, "interval", ...)),
                ("launches", changed("figures", 0, "launches", 0)),
                ("goal", changed("figures", 0, "goal", "fast")),
                ("figure 'speed': gpus is no whole number", changed("figures", 0, "gpus", 0)),
                ("gpus is no whole number", changed("gpus", True)),
                ("gpus is 1, no more than the 1 of the others", changed("figures", 0, "gpus", 1)),
                ("no why", changed("figures", 1, "why", ...)),
                ("stands twice", changed("figures", 1, "name", "speed")),
                ("does not belong there", changed("figures", 0, "guess", 1)),
                ("why does not belong", changed("why", "because"))):
            found = validate_baselines.problems(baseline)
            self.assertEqual(len(found), 1, (words, found))
            self.assertIn(words, found[0])

    def test_no_figure_stands_where_nothing_was_run(self):
        baseline = changed("status", "not run")
        for field in ("date", "commit", "versions", "clocks"):
            del baseline[field]
        baseline["why"] = "no GPU"
        self.assertIn("figure 'speed': a value, where nothing was run", validate_baselines.problems(baseline))

    def test_measured_means_that_something_was(self):
        baseline = changed("figures", 0, {"name": "speed", "unit": "parts", "goal": 1, "command": "run", "value": None, "why": "late"})
        self.assertEqual(validate_baselines.problems(baseline), ["nothing was measured: status is 'not run'"])


if __name__ == "__main__":
    unittest.main()
