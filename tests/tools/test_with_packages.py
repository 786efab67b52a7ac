"""Runs tests/with-packages: with an interpreter, and where none has the packages."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "with-packages"


def run(program, *args, python=None):
    environment = {k: v for k, v in os.environ.items() if k != "KRRD_TEST_PYTHON"}
    if python:
        environment["KRRD_TEST_PYTHON"] = str(python)
    return subprocess.run([str(program), *args], env=environment, capture_output=True, text=True)


class WithPackagesTests(unittest.TestCase):
    def test_a_named_interpreter_runs(self):
        done = run(PROGRAM, "-c", "print(6 * 7); raise SystemExit(3)", python=sys.executable)
        self.assertEqual((done.returncode, done.stdout), (3, "42\n"))

    def test_without_packages_it_is_a_skip_that_says_why(self):
        done = run(PROGRAM, "-c", "print('ran')", python="/nonexistent/python")
        self.assertEqual(done.returncode, 77)
        self.assertIn("not installed", done.stdout)
        self.assertNotIn("ran", done.stdout.split())

    def test_a_broken_installation_is_a_skip_with_its_reason(self):
        with tempfile.TemporaryDirectory() as clone:
            tests = pathlib.Path(clone, "tests")
            cache = pathlib.Path(clone, ".cache", "python", "bin")
            tests.mkdir()
            cache.mkdir(parents=True)
            shutil.copy(PROGRAM, tests)
            cache.joinpath("python").symlink_to(sys.executable)  # and no stamp: half installed
            pathlib.Path(clone, ".cache", "python.log").write_text("first\nno route to PyPI\n")
            done = run(tests / "with-packages", "-c", "print('ran')")
        self.assertEqual(done.returncode, 77)
        self.assertIn("no route to PyPI", done.stdout)


if __name__ == "__main__":
    unittest.main()
