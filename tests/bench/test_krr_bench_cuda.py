"""krr-bench-cuda, on the simulated GPU: what it prints of a product there."""
import json
import os
import subprocess

import pytest

PROGRAM = os.environ["KRRD_TEST_BENCH"]

# A product is computed by one thread of this machine, far below so many values a second; to ask for one
# takes microseconds.
FASTEST = 3e9


def run(*words, **environment):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=100,
                          env={**os.environ, **environment})


def report(*words):
    done = run("operator", "--device", "cuda", "--repeat", "2", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("words", [("--n", "1500", "--m", "1000", "--d", "5", "--rhs", "2"),
                                   ("--n", "2000", "--d", "5", "--symmetric"),
                                   ("--n", "2000", "--d", "5", "--symmetric", "--cached")])
def test_operator_reports(words):
    r = report(*words)
    assert r["device"] == "cuda" and r["isa"] is None and r["ceilings"] is None
    assert r["limit_entries_per_s"] is r["fraction_of_limit"] is r["fraction_of_limit_best"] is None
    assert r["fraction_of_fma_limit"] is None
    assert 0 <= r["max_rel_err"] < 1e-5
    assert r["n"] * r["m"] / r["seconds_best"] < FASTEST  # the device has done it, not only been asked
    assert ("cached_bytes" in r) == ("--cached" in words)
    assert r.get("fraction_of_bandwidth") is None


def test_without_a_gpu():
    done = run("operator", "--n", "10", "--d", "2", "--device", "cuda", CUDASIM_DEVICES="")
    assert done.returncode == 1 and "no device" in done.stderr


@pytest.mark.parametrize("name, library", [("libcublas.so.13", "cuBLAS"), ("libcusolver.so.12", "cuSOLVER")])
def test_a_library_that_does_not_load(tmp_path, name, library):
    (tmp_path / name).write_text("This is no library, but it is found before the one that is.")
    done = run("operator", "--n", "10", "--d", "2", "--device", "cuda", LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 1
    assert f"The library {library}, " in done.stderr and f"/{name}: " in done.stderr
