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


def report(*words, device="cuda", **environment):
    done = run("operator", "--device", device, "--repeat", "2", *words, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("words", [("--n", "1500", "--m", "1000", "--d", "5", "--rhs", "2"),
                                   ("--n", "2000", "--d", "5", "--symmetric"),
                                   ("--n", "2000", "--d", "5", "--symmetric", "--cached")])
def test_operator_reports(words):
    r = report(*words)
    assert r["device"] == "cuda" and r["isa"] is None and r["ceilings"] is None
    assert r["limit_entries_per_s"] is r["fraction_of_limit"] is r["fraction_of_limit_best"] is None
    assert r["fraction_of_fma_limit"] is r["bound_by"] is None
    assert 0 <= r["max_rel_err"] < 1e-5
    assert r["n"] * r["m"] / r["seconds_best"] < FASTEST  # the device has done it, not only been asked
    assert ("cached_bytes" in r) == ("--cached" in words)
    assert r.get("fraction_of_bandwidth") is None


# Of device_ceiling_fixed.c; 2 features by lanes, 90 by tensor cores where there are any.
@pytest.mark.parametrize("words, without, bound_by, limit", [
    (("--d", "2"), None, "mufu", 16e9), (("--d", "2", "--precision", "float64"), "mma", "lanes", 64e9 / 15),
    (("--d", "90"), None, "tensor", 2048e9 / 288), (("--d", "90"), "mma", "lanes", 128e9 / 93),
    (("--d", "90", "--symmetric"), None, "tensor", 4096e9 / 288)])
def test_limit_of_a_device(words, without, bound_by, limit):
    environment = {"KRR_GPU_WITHOUT": without} if without else {}
    r = report("--n", "1000", *words, KRRD_TEST_DEVICE_CEILING="1", **environment)
    tensor = 0 if without else 2048e9
    assert r["isa"] is r["fraction_of_fma_limit"] is r["fraction_of_limit_paced"] is None and r["bound_by"] == bound_by
    assert r["ceilings"]["float32"] == {"fma_per_s": 128e9, "ex2_per_s": 16e9, "tensor_per_s": tensor}
    assert r["ceilings"]["float64"] == {"fma_per_s": 64e9, "tensor_per_s": tensor / 16}
    assert r["ceilings"]["copy_bytes_per_s"] == 15e9
    assert r["limit_entries_per_s"] == pytest.approx(limit)
    assert r["fraction_of_limit"] == pytest.approx(r["entries_per_s"] / limit)
    assert r["fraction_of_limit_best"] == pytest.approx(1e6 / r["seconds_best"] / limit)


def test_limit_of_kept_values():
    r = report("--n", "1000", "--d", "5", "--symmetric", "--cached", KRRD_TEST_DEVICE_CEILING="1")
    assert r["bound_by"] == "memory"
    assert r["limit_entries_per_s"] == pytest.approx(1e6 * 15e9 / (r["cached_bytes"] + 8000))
    assert r["fraction_of_bandwidth"] == pytest.approx(r["cached_bytes_per_s"] / 15e9)


def test_several_devices_have_no_limit():
    r = report("--n", "1000", "--d", "5", device="cuda:0,1", KRRD_TEST_DEVICE_CEILING="1", CUDASIM_DEVICES="9.0,9.0")
    assert r["ceilings"] is r["limit_entries_per_s"] is r["bound_by"] is None


def test_without_a_gpu():
    done = run("operator", "--n", "10", "--d", "2", "--device", "cuda", CUDASIM_DEVICES="")
    assert done.returncode == 1 and "no device" in done.stderr


@pytest.mark.parametrize("name, library", [("libcublas.so.13", "cuBLAS"), ("libcusolver.so.12", "cuSOLVER")])
def test_a_library_that_does_not_load(tmp_path, name, library):
    (tmp_path / name).write_text("This is no library, but it is found before the one that is.")
    done = run("operator", "--n", "10", "--d", "2", "--device", "cuda", LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 1
    assert f"The library {library}, " in done.stderr and f"/{name}: " in done.stderr
