#!/usr/bin/env python3
"""Drives a report in headless Chromium and photographs it: light, dark, as wide as a phone, and on paper.

usage: report_browser_test.py [FOLDER]     FOLDER: where the pictures go (default: none are kept)
Exit status 77 where there is no Chromium, or no jinja2."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import browser  # noqa: E402
import made_records as made  # noqa: E402

if not browser.find():
    print("skipped: no Chromium here (apt-get install chromium)")
    sys.exit(77)
try:
    import jinja2  # noqa: F401
except ImportError:
    print("skipped: no jinja2 here (pip install jinja2)")
    sys.exit(77)

from plumbline_results import report  # noqa: E402
import report_test  # noqa: E402

PICTURES = Path(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
# WCAG's for text: the least contrast of every word that is to be seen with what is behind it.
LEAST_CONTRAST = 4.5
CONTRASTS = """(() => {
  const parts = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = (node) => { for (let at = node; at; at = at.parentElement) { const of = getComputedStyle(at).backgroundColor;
    if (of.startsWith('rgb') && (parts(of)[3] ?? 1) === 1) return parts(of); } return [255, 255, 255]; };
  const poor = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !node.checkVisibility() || ['SCRIPT', 'STYLE', 'OPTION', 'title', 'desc'].includes(node.tagName) || node.closest('.bar')) continue;
    const style = getComputedStyle(node);
    const pair = [light(parts(node.closest('svg') ? style.fill : style.color)), light(behind(node.closest('svg')?.parentElement || node))].sort((a, b) => b - a);
    const contrast = (pair[0] + .05) / (pair[1] + .05);
    if (contrast < %s) poor.push(node.tagName + '.' + (node.className.baseVal ?? node.className) + ' ' + contrast.toFixed(2) + ': ' + node.textContent.trim().slice(0, 30));
  }
  return poor;
})()""" % LEAST_CONTRAST


class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.here = Path(cls.folder.name)
        records = [
            made.write(cls.here / name, *lines)
            for name, lines in (
                ("check", made.failing_run()),
                ("bench", made.measured_run()),
                ("mutants", cls.mutants()),
                ("before", made.measured_run(1.5)),
            )
        ]
        cls.page = cls.here / "report.html"
        status = report.main([*map(str, records[:3]), "--baseline", str(records[3]), "--out", str(cls.page)])
        assert status == 0, status
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    @staticmethod
    def mutants():
        must = {"kind": "expectation", "verdict": "fail", "reason": "it drops one", "origin": "mutant m"}
        return [
            made.header(command="mutants"),
            made.result("shows", ["COLL-001"]),
            made.result("shows", ["COLL-001"], "fail", mutant="col.drops_one", expectation=must),
            made.COMPLETE,
        ]

    def tearDown(self):
        self.assertEqual(self.browser.messages, [])

    def photograph(self, name, selector="body"):
        if PICTURES:
            self.browser.photograph(PICTURES / f"{name}.png", selector)

    def test_light_dark_and_phone_are_legible_and_as_wide_as_the_window(self):
        backgrounds = {}
        for name, width, dark in (
            ("light", 1280, False),
            ("dark", 1280, True),
            ("phone", 390, False),
            ("phone-dark", 390, True),
        ):
            with self.subTest(name):
                self.browser.show(self.page, width, 900, dark)
                self.browser.eval("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
                self.assertLessEqual(self.browser.eval("document.documentElement.scrollWidth"), width)
                self.assertEqual(self.browser.eval(CONTRASTS), [])
                mutant = "document.querySelector('.matrix svg g text').getBoundingClientRect()"
                self.assertTrue(0 <= self.browser.eval(f"{mutant}.left") < self.browser.eval(f"{mutant}.right") <= width, "seen without scrolling")
                backgrounds[name] = self.browser.eval("getComputedStyle(document.body).backgroundColor")
                self.photograph(name)
        self.assertNotEqual(backgrounds["light"], backgrounds["dark"])

    def test_keys(self):
        self.browser.show(self.page)
        self.browser.press("/")
        self.assertEqual(self.browser.eval("document.activeElement.id"), "filter")
        for key in "coll-002":
            self.browser.press(key)
        rows = "[...document.querySelectorAll('tr.row')].filter((row) => row.checkVisibility()).map((row) => row.querySelector('th').textContent)"
        self.assertEqual(self.browser.eval(rows), ["COLL-002"])
        self.assertEqual(self.browser.eval("document.getElementById('shown').textContent"), "1 of 3")
        self.photograph("filtered", "#requirements")
        self.browser.press("Escape")
        self.assertEqual(self.browser.eval("document.getElementById('filter').value"), "")
        self.browser.press("n")
        self.assertEqual(
            self.browser.eval("document.activeElement.tagName + ' ' + document.activeElement.parentElement.open"),
            "SUMMARY true",
        )
        self.browser.press("Enter")
        self.assertFalse(self.browser.eval("document.activeElement.parentElement.open"))
        before = self.browser.eval("getComputedStyle(document.body).backgroundColor")
        self.browser.press("t")
        self.assertNotEqual(self.browser.eval("getComputedStyle(document.body).backgroundColor"), before)

    def test_the_first_key_goes_past_the_sections(self):
        self.browser.show(self.page)
        self.browser.press("Tab")
        self.assertEqual(self.browser.eval("document.activeElement.className"), "skip")

    def test_filter_by_verdict(self):
        self.browser.show(self.page)
        self.browser.eval(
            "(() => { const one = document.getElementById('verdict'); one.value = 'bad'; one.dispatchEvent(new Event('input')); })()"
        )
        self.assertEqual(
            self.browser.eval("[...document.querySelectorAll('tr.row:not([hidden])')].map((row) => row.dataset.tone)"),
            ["bad"],
        )

    def test_a_link_to_a_requirement_opens_what_it_is_in(self):
        self.browser.show(self.page)
        self.browser.eval("location.hash = 'req-topo-001'")
        self.browser.wait("document.getElementById('req-topo-001').checkVisibility()")

    def test_on_paper_everything_is_open_and_nothing_is_for_the_screen_alone(self):
        self.browser.show(self.page, media="print")
        self.assertEqual(self.browser.eval("getComputedStyle(document.querySelector('nav')).display"), "none")
        self.browser.eval("dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(self.browser.eval("document.querySelectorAll('details:not([open])').length"), 0)
        self.browser.eval("dispatchEvent(new Event('afterprint'))")
        self.assertGreater(self.browser.eval("document.querySelectorAll('details:not([open])').length"), 0)
        # Whoever reads in the dark prints on white paper.
        self.browser.show(self.page, dark=True, media="print")
        self.assertEqual(self.browser.eval(CONTRASTS), [])
        self.assertEqual(self.browser.eval("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
        paper = self.here / "report.pdf"
        self.browser.print(paper)
        self.assertTrue(paper.read_bytes().startswith(b"%PDF"))
        self.browser.call("Emulation.setEmulatedMedia", media="", features=[])

    def test_without_scripts_it_is_whole(self):
        self.browser.call("Emulation.setScriptExecutionDisabled", value=True)
        try:
            self.browser.show(self.page)
            self.assertFalse(self.browser.eval("document.querySelector('.filter').checkVisibility()"))
            self.assertTrue(self.browser.eval("document.querySelector('#failures .ranks').checkVisibility()"))
        finally:
            self.browser.call("Emulation.setScriptExecutionDisabled", value=False)

    def test_a_hostile_record_runs_nothing(self):
        maker = report_test.HostileTest()
        maker.here = self.here / "hostile"
        maker.here.mkdir()
        for index, payload in enumerate(report_test.PAYLOADS):
            page = maker.here / f"{index}.html"
            page.write_text(maker.reports(payload, "html"), "utf-8")
            self.browser.show(page)
            self.assertEqual(self.browser.eval("typeof window.hacked"), "undefined", payload)
            self.assertEqual(
                self.browser.eval(
                    "document.querySelectorAll('script').length + document.querySelectorAll('iframe, img, object').length"
                ),
                1,
            )
            if index == 0:
                self.photograph("hostile")


if __name__ == "__main__":
    unittest.main()
