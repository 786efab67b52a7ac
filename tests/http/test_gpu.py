"""The worker program for GPUs, as it is but for the GPU, which is simulated (tests/cudasim)."""

import json
import os
import stat
import subprocess

import numpy
import pytest

import data
from daemon import program

WORKER = program("KRRD_TEST_CUDASIM", "tests/http/krrd-worker-cudasim")
# Its rates are of no use, and to measure them takes minutes.
UNMEASURED = f"""#!/bin/sh
for word; do
    shift
    [ "$word" = --measure ] || set -- "$@" "$word"
done
exec {WORKER} "$@"
"""


@pytest.fixture
def worker(tmp_path):
    path = tmp_path / "krrd-worker-cuda"
    path.write_text(UNMEASURED)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def devices(**environment):
    done = subprocess.run([WORKER, "--devices"], capture_output=True, text=True, timeout=100, check=True,
                          env={**os.environ, **environment})
    return json.loads(done.stdout)


def test_devices():
    assert devices(CUDASIM_DEVICES="9.0,7.0,8.0") == {"devices": ["cuda:0", "cuda:2", "cpu"], "detail": None}
    assert devices(CUDASIM_DEVICES="") == {
        "devices": ["cpu"], "detail": "The NVIDIA driver shows no device to this program."}
    assert "7.0" in devices(CUDASIM_DEVICES="7.0")["detail"]


@pytest.mark.parametrize("name, library", [("libcublas.so.13", "cuBLAS"), ("libcusolver.so.12", "cuSOLVER")])
def test_a_gpu_without_libraries_is_none(tmp_path, name, library):
    (tmp_path / name).write_text("This is no library, but it is found before the one that is.")
    told = devices(LD_LIBRARY_PATH=str(tmp_path))
    assert told["devices"] == ["cpu"]
    assert told["detail"].startswith(f"The library {library}, ") and f"/{name}: " in told["detail"]


def test_jobs_and_predictions(daemons, worker):
    """A job on either kind of device, and their models served by the GPU."""
    api = daemons(cuda_worker_program=worker, workers="cpu:1,cuda:0", serve_workers="cuda:0").api
    assert {(w["device"], w["kind"]) for kind in ("train", "serve") for w in api.workers(kind)} == {
        ("cuda:0", "train"), ("cpu", "train"), ("cuda:0", "serve")}
    X, y = data.regression(120)
    dataset, predicted = api.upload_csv(X, y), {}
    for device in ("cuda:0", "cpu"):
        job = api.train("m-" + device[:3], dataset, device=device, seed=1)
        assert job["device"] == device
        predicted[device] = api.predict("m-" + device[:3], X[:7]).json()["predictions"]
    assert numpy.allclose(predicted["cuda:0"], predicted["cpu"], atol=1e-3)
    gpu = {d["name"]: d for d in api.get("/v1/devices").json()["data"]}["cuda:0"]
    assert sorted(gpu["workers"]) == ["serve:0", "train:0"]
