"""tools/gpu-run, with small programs in the place of those that tools/gpu-bundle brings: a test that
fails, is skipped or hangs is told, and none of them ends in success."""

import os
import pathlib
import shutil
import subprocess

import pytest

RUN = pathlib.Path(__file__).resolve().parents[2] / "tools" / "gpu-run"
SUITE = """#!/bin/sh
case $1 in
--list) printf '%s\\n' good bad absent endless ;;
good) echo fine ;;
bad) echo '[  FAILED  ] test_of_numbers'; exit 1 ;;
absent) echo 'skipped: The library cuBLAS is not there.'; exit 77 ;;
endless) exec sleep 1000 ;;
esac
"""
WORKER = """#!/bin/sh
echo '{"devices": [%s"cpu"], "detail": null}'
"""
BENCH = """#!/bin/sh
echo '{"command":"operator","kernel":"gaussian","n":1,"entries_per_s":5e11,"max_rel_err":1e-7}'
"""


@pytest.fixture
def bundle(tmp_path):
    (tmp_path / "bin").mkdir()
    shutil.copy(RUN, tmp_path / "run")
    for name, text in (("gpu-suite", SUITE), ("krrd-worker-cuda", WORKER % '"cuda:0", '), ("krr-bench-cuda", BENCH)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def run(bundle, *words, **environment):
    done = subprocess.run([bundle / "run", *words], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "OUT": str(bundle / "logs"), "TEST_S": "2", "LIBRARIES": "", **environment})
    return done.returncode, done.stdout.splitlines()


def test_a_test_that_passes(bundle):
    status, said = run(bundle, "tests", "good")
    assert status == 0 and said[-1] == "0 failed" and said[0].startswith("ok     good (")
    assert (bundle / "logs" / "good.log").read_text() == "fine\n"


def test_tests_that_do_not(bundle):
    status, said = run(bundle, "tests")
    assert status == 1 and said[-1] == "3 failed"
    assert any(line.startswith("FAILED bad (") for line in said) and "[  FAILED  ] test_of_numbers" in said
    assert "FAILED absent: skipped: The library cuBLAS is not there." in said
    assert any(line.startswith("FAILED endless: not done in ") for line in said)


def test_check_wants_a_gpu(bundle):
    assert run(bundle, "check")[0] == 0
    (bundle / "bin" / "krrd-worker-cuda").write_text(WORKER % "")
    status, said = run(bundle, "check")
    assert status == 1 and "FAILED there is no cuda:0" in said


def test_bench_keeps_every_line(bundle):
    status, said = run(bundle, "bench")
    lines = (bundle / "logs" / "bench.jsonl").read_text().splitlines()
    assert status == 0 and len(lines) == len(said) - 1 > 20
    assert said[0] == '"kernel":"gaussian" "n":1 "entries_per_s":5e11 "max_rel_err":1e-7}'


@pytest.mark.parametrize("step, script, words", [
    ("peers", "peers/gpu.py", ["--krr-bench", "bin/krr-bench-cuda", "--output", "logs/peers.json", "--n", "9"]),
    ("problems", "gpu_problems.py", ["molecules", "million", "throughput", "growth", "--n", "9", "--programs", "bin", "--output",
                                     "logs"]),
])
def test_scripts_get_programs_and_what_starts_them(bundle, step, script, words):
    path = bundle / "bench" / script
    path.parent.mkdir(parents=True)
    path.write_text("import sys\nprint(*sys.argv[1:], sep='\\n')\nsys.exit(sys.argv[-1] == '--fail')\n")
    status, said = run(bundle, step, "--n", "9")
    assert status == 0 and said[0] == "--launcher" and said[1].startswith("env LD_LIBRARY_PATH=" + str(bundle / "lib"))
    assert said[2:-1] == [w if w in ("--krr-bench",) or "/" not in w and w not in ("bin", "logs") else str(bundle / w)
                          for w in words]
    assert (bundle / "logs" / f"{step}.log").read_text().splitlines() == said[:-1]
    path.write_text("raise SystemExit('no device')\n")
    status, said = run(bundle, step)
    assert status == 1 and "no device" in said and f"FAILED {step}: see {step}.log" in said


def test_single_programs(bundle):
    assert run(bundle, "start", "gpu-suite", "good") == (0, ["fine"])
    assert run(bundle, "start", "gpu-suite", "absent")[0] == 77


def test_other_words_are_refused(bundle):
    assert run(bundle, "meditate")[0] == 2
