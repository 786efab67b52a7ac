"""krr-tiles reports what it measured; no test depends on the time."""
import os
import pathlib
import subprocess
import unittest

PROGRAM = os.environ.get("KRRD_TEST_TILES_BENCH") or str(
    pathlib.Path(__file__).resolve().parents[2] / "build" / "bench" / "krr-tiles")


def run(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True)


class KrrTilesTests(unittest.TestCase):
    def test_every_case_has_shares(self):
        done = run("portable", "0.0001")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split() for line in done.stdout.splitlines()]
        cases = {tuple(words[:5]) for words in lines}
        self.assertEqual((len(lines), len(cases)), (40, 40))
        for words in lines:
            shares = [float(word) for word in words[5:]]
            self.assertEqual(len(shares), 6, words)
            self.assertTrue(all(0 <= share < float("inf") for share in shares), words)

    def test_bad_arguments(self):
        self.assertIn("instruction set nope", run("nope").stderr)
        for words in (["portable", "0"], ["portable", "soon"], ["portable", "1", "2"]):
            done = run(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("usage", done.stderr)


if __name__ == "__main__":
    unittest.main()
