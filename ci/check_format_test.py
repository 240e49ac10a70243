"""What check_format.py makes of comments, and what it says where there is no clang-format."""
import contextlib, io, sys, tempfile, unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check_format
from check_format import COLUMNS, PIN, wrapped

SIXTY = "word " * 11 + "words"  # columns
LONG = f"{SIXTY} {SIXTY}"       # 121


class Comments(unittest.TestCase):
    def becomes(self, before, after):
        self.assertEqual(wrapped(before).split("\n"), after.split("\n"))
        self.assertEqual(wrapped(after), after)
        self.assertLessEqual(max(map(len, after.split("\n"))), COLUMNS)

    def test_what_is_too_long_goes_to_the_next_line(self):
        words = LONG.rsplit(" ", 1)[0]
        self.becomes(f"// {LONG}\n// and more", f"// {words}\n// words and more")
        self.becomes(f"// {LONG}\nint a;", f"// {words}\n// words\nint a;")

    def test_text_beside_a_label_stays_beside_it(self):
        words, *_ = LONG.rsplit(" ", 3)
        self.becomes(f"// Model   {LONG}\n//         and more\n// Cost    none",
                     f"// Model   {words}\n//         word word words and more\n// Cost    none")
        self.becomes(f"// Devices {LONG}\n//         and more", f"// Devices {words}\n//         word word words and more")
        self.becomes(f"//   - {LONG}\n//   - next", f"//   - {LONG.rsplit(' ', 2)[0]}\n//     word words\n//   - next")

    def test_new_text_stays_on_a_line_of_its_own(self):
        for below in ("// Cost    none", "//   further in", "/// of another kind", "//", "int a;  // trailing"):
            self.becomes(f"// {LONG}\n{below}", f"// {LONG.rsplit(' ', 1)[0]}\n// words\n{below}")
        self.becomes(f"// {LONG}.\n// A sentence", f"// {LONG.rsplit(' ', 1)[0]}\n// words.\n// A sentence")

    def test_what_is_no_comment_or_has_no_blank_stays(self):
        for text in (f'  "// {LONG}"', f"int a;  // {LONG}", "// " + "x" * 130):
            self.assertEqual(wrapped(text), text)


class Gate(unittest.TestCase):
    def check(self, text):
        """What the gate says of a file, on a machine without clang-format."""
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "reference").mkdir()
            Path(folder, "reference/a.cpp").write_text(text)
            with mock.patch.object(check_format, "clang_format", return_value=None), mock.patch.object(sys, "argv", ["", folder]), \
                    contextlib.redirect_stdout(said):
                return check_format.main(), said.getvalue()

    def test_long_comment(self):
        self.assertEqual(self.check(f"// {LONG}\n"), (1, "reference/a.cpp:1: a comment of 124 columns; at most 120\n"))

    def test_without_clang_format(self):
        self.assertEqual(self.check("int a;\n"), (77, f"skipped: clang-format {PIN} is not installed (pip install clang-format=={PIN})\n"))


if __name__ == "__main__":
    unittest.main()
