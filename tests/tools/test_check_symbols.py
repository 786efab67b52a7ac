"""Runs tools/check-symbols on small archives: of data, of functions that are local, and of each kind of function that
the linker sees."""
import pathlib
import subprocess
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check-symbols"

TABLE = "extern const struct loops { int (*run)(int); } loops; const struct loops loops = {run};\n"
HIDDEN = "static int run(int x) { return x; }\n"
TEMPLATE = "template <typename T> __attribute__((noinline)) T twice(T x) { return x + x; }\n"
RUN_TWICE = "static int run(int x) { return twice(x); }\n"


class CheckSymbols(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)

    def archive(self, text, *options, name="a"):
        source, thing, archive = (self.root / (name + end) for end in (".cpp", ".o", ".a"))
        source.write_text(text)
        subprocess.run(["c++", "-O2", *options, "-c", source, "-o", thing], check=True)
        subprocess.run(["ar", "rcs", archive, thing], check=True)
        return archive

    def check(self, *archives):
        done = subprocess.run([TOOL, *archives], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_data_that_points_at_local_functions_is_clean(self):
        code, output = self.check(self.archive(HIDDEN + TABLE))
        self.assertEqual(code, 0, output)
        self.assertIn("1 archives, 0 errors", output)

    def test_a_function_of_its_own_is_found(self):
        code, output = self.check(self.archive(HIDDEN + TABLE), self.archive("int f() { return 1; }\n", name="b"))
        self.assertEqual(code, 1)
        self.assertIn("b.a: f() is seen by the linker (T)", output)

    def test_a_function_of_a_template_is_found(self):
        code, output = self.check(self.archive(TEMPLATE + RUN_TWICE + TABLE))
        self.assertEqual(code, 1)
        self.assertIn("int twice<int>(int) is seen by the linker (W)", output)

    def test_without_weak_names_it_is_clean(self):
        code, output = self.check(self.archive(TEMPLATE + RUN_TWICE + TABLE, "-fno-weak"))
        self.assertEqual(code, 0, output)

    def test_nothing_to_check_is_an_error(self):
        self.assertNotEqual(self.check()[0], 0)
        self.assertNotEqual(self.check(self.archive(HIDDEN.replace("int run", "inline int run")))[0], 0)
        self.assertNotEqual(self.check(self.root / "missing.a")[0], 0)


if __name__ == "__main__":
    unittest.main()
