"""krr-json reports what it measured; no test depends on the time."""
import json
import os
import pathlib
import subprocess
import unittest

PROGRAM = os.environ.get("KRRD_TEST_JSON_BENCH") or str(
    pathlib.Path(__file__).resolve().parents[2] / "build" / "bench" / "krr-json")


class KrrJsonTests(unittest.TestCase):
    def test_report(self):
        done = subprocess.run([PROGRAM, "300", "7", "2"], capture_output=True, text=True, check=True)
        report = json.loads(done.stdout)
        self.assertEqual((report["rows"], report["columns"], report["repeats"]), (300, 7, 2))
        self.assertEqual(report["command"], "krr-json 300 7 2")
        for workload in ("all_digits", "six_decimals", "three_decimals", "one_decimal_rows_of_4",
                         "integers_to_three_decimals"):
            self.assertGreater(report[workload]["body_bytes"], 300 * 7 * 2)
            for contender in ("krrd", "cJSON"):
                found = report[workload][contender]
                self.assertGreater(found["read_mb_per_s"], 0, found)
                self.assertGreater(found["print_mb_per_s"], 0, found)
        lengths = {c: report["six_decimals"][c]["printed_bytes"] for c in ("krrd", "cJSON")}
        self.assertLessEqual(lengths["krrd"], lengths["cJSON"])


if __name__ == "__main__":
    unittest.main()
