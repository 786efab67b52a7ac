"""bench/gpu_problems.py and bench/peers/gpu.py on tiny problems and the processor: every document has
its figures, and what fails is told."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
PROGRAM = os.environ["KRRD_TEST_BENCH"]
BUILD = pathlib.Path(PROGRAM).parents[1]


def run(script, *words):
    return subprocess.run([sys.executable, str(BENCH / script), "--device", "cpu", *map(str, words)], capture_output=True,
                          text=True, timeout=200, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})


def problem(tmp_path, part, *words):
    done = run("gpu_problems.py", part, "--programs", BUILD, "--output", tmp_path, *words)
    document = json.loads((tmp_path / f"problem-{part}.json").read_text())
    assert json.loads(done.stdout) == document
    return done.returncode, document


def test_molecules_through_the_daemon(tmp_path):
    status, document = problem(tmp_path, "molecules", "--n", 200, "--rank", 50, "--launcher", "env A=b")
    assert status == 0 and document["reason"] == "converged"
    assert (document["n"], document["result"]["train_rows"], document["plan"]["features"]) == (200, 200, 435)
    assert 0 < document["upload_seconds"] < document["seconds"] < document["seconds_to_model"]
    assert document["model_bytes"] > 200 * 435 * 4


def test_two_solvers(tmp_path):
    status, document = problem(tmp_path, "million", "--n", 2000, "--rank", 100, "--budget", 10)
    assert status == 0 and [s["report"]["solver"] for s in document["solves"]] == ["pcg", "askotch2"]
    for solve in document["solves"]:
        assert solve["report"]["metrics"]["r2"] > 0.5 and solve["report"]["train_rows"] == 2000
        assert solve["seconds_per_iteration"] > 0


@pytest.mark.parametrize("part", ["throughput", "growth"])
def test_steps_that_are_cut(tmp_path, part):
    status, document = problem(tmp_path, part, "--n", 30000, "--budget", 2)
    assert status == 0
    rows = document["table"] if part == "growth" else [document["solve"]]
    assert [row["n"] for row in rows] == ([300, 3000, 30000] if part == "growth" else [30000])
    for row in rows[-1:]:  # the smallest are done at once
        assert row["entries_per_s"] > 0 and row["last_step"]["iteration"] > 1 and row["host_memory_bytes"] > 1 << 20


def test_what_fails_is_told(tmp_path):
    status, document = problem(tmp_path, "throughput", "--n", 1000, "--programs", tmp_path)
    assert status == 1 and "there is no krr-bench-cuda" in document["failed"]


def test_products_without_peers(tmp_path):
    output = tmp_path / "peers.json"
    done = run("peers/gpu.py", "--krr-bench", PROGRAM, "--n", 1000, "--cases", "gaussian:3", "laplacian_l1:18", "--output",
               output, "--peers")
    results = json.loads(output.read_text())
    assert done.returncode == 0 and [case["d"] for case in results["cases"]] == [3, 18]
    for case in results["cases"]:
        assert case["krr_bench"]["symmetric"]["entries_per_s"] > 0 and case["krr_bench"]["plain"]["max_rel_err"] < 1e-5


def test_a_program_that_is_not_there(tmp_path):
    done = run("peers/gpu.py", "--krr-bench", tmp_path / "none", "--cases", "gaussian:3", "--peers")
    assert done.returncode == 1 and "none" in json.loads(done.stdout)["left_out"][0]["reason"]
