"""Runs scripts/count-tests.jq on made-up logs of the kinds of test programs that there are."""
import json
import pathlib
import subprocess
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "count-tests.jq"

CMOCKA = "[==========] 3 test(s) run.\n"


def count(*tests):
    log = "\n".join(json.dumps(test) for test in tests)
    done = subprocess.run(["jq", "-rnf", str(PROGRAM)], input=log, capture_output=True, text=True, check=True)
    *remarks, totals = done.stdout.splitlines()
    return remarks, tuple(int(word) for word in totals.split())


def entry(result, stdout="", stderr="", name="thing"):
    return {"name": name, "result": result, "stdout": stdout, "stderr": stderr}


class CountTests(unittest.TestCase):
    def test_cmocka_cases_count_one_by_one(self):
        remarks, totals = count(entry("OK", CMOCKA, "[  PASSED  ] 3 test(s).\n"))
        self.assertEqual((remarks, totals), ([], (3, 0, 0)))

    def test_cmocka_failures_and_skips(self):
        text = "[  PASSED  ] 1 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n[  FAILED  ] 1 test(s), listed below:\n"
        remarks, totals = count(entry("FAIL", CMOCKA, text))
        self.assertEqual((remarks, totals), (["FAIL: thing"], (1, 1, 1)))

    def test_pytest_cases(self):
        text = "1 failed earlier in 3.0s\n===== 2 failed, 40 passed, 1 skipped, 1 error in 12.34s =====\n"
        self.assertEqual(count(entry("FAIL", text))[1], (40, 1, 3))

    def test_quiet_pytest_cases(self):
        text = "..s.\n2 passed is not a summary\n4 passed, 1 skipped in 0.10s\n"
        self.assertEqual(count(entry("OK", text)), (["skipped: thing: 1 of its cases"], (4, 1, 0)))
        self.assertEqual(count(entry("OK", "73 passed in 75.01s (0:01:15)\n"))[1], (73, 0, 0))

    def test_unittest_cases(self):
        self.assertEqual(count(entry("OK", "", "\nRan 22 tests in 1.0s\n\nOK (skipped=2)\n"))[1], (20, 2, 0))
        self.assertEqual(count(entry("FAIL", "", "\nRan 5 tests in 1s\n\nFAILED (failures=1, errors=1)\n"))[1], (3, 0, 2))

    def test_another_program_counts_once(self):
        self.assertEqual(count(entry("OK", "fine\n"), entry("FAIL", "bad\n"))[1], (1, 0, 1))

    def test_a_crash_after_good_cases_is_a_failure(self):
        for result in ("FAIL", "TIMEOUT", "ERROR"):
            self.assertEqual(count(entry(result, CMOCKA, "[  PASSED  ] 3 test(s).\n"))[1], (2, 0, 1))

    def test_a_skipped_program_says_why(self):
        remarks, totals = count(entry("SKIP", "first\nno such device\n"))
        self.assertEqual((remarks, totals), (["skipped: thing: no such device"], (0, 1, 0)))

    def test_totals_add_up(self):
        one = entry("OK", CMOCKA, "[  PASSED  ] 3 test(s).\n")
        self.assertEqual(count(one, one, entry("OK"), entry("SKIP"))[1], (7, 1, 0))

    def test_an_empty_log_counts_nothing(self):
        self.assertEqual(count(), ([], (0, 0, 0)))


if __name__ == "__main__":
    unittest.main()
