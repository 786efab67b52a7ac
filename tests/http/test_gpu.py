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
export %s
for word; do
    shift
    [ "$word" = --measure ] || set -- "$@" "$word"
done
exec {WORKER} "$@"
"""


def unmeasured(tmp_path, environment="CUDASIM_FAULT="):
    path = tmp_path / "krrd-worker-cuda"
    path.write_text(UNMEASURED % environment)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def worker(tmp_path):
    return unmeasured(tmp_path)


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


@pytest.mark.parametrize("trap, title", [("wgmma-trap", "groups of warps (wgmma)"), ("mma-trap", "tensor cores (mma)")])
def test_a_gpu_that_an_instruction_breaks_does_without(daemons, tmp_path, trap, title):
    """No process goes on with a GPU after an illegal instruction: the worker begins anew, the same to the daemon."""
    daemon = daemons(cuda_worker_program=unmeasured(tmp_path, f"CUDASIM_FAULT={trap}"), workers="cuda:0")
    X, y = data.regression(120)
    job = daemon.api.train("m", daemon.api.upload_csv(X, y), seed=1)
    assert (job["device"], job["attempt"]) == ("cuda:0", 1)
    warnings = [e["message"] for e in daemon.api.events(job["id"]) if e.get("level") == "warning"]
    assert warnings == [f"The device cuda:0 does without products by {title}, and others are slower: "
                        "so says the environment variable KRR_GPU_WITHOUT."]


@pytest.mark.parametrize("name, value, code, said", [
    ("CUDASIM_FAULT", "cublas", "device_error", "cuBLAS failed on the GPU: "),
    ("CUDASIM_MEMORY", str(40 << 20), "out_of_memory", "The GPU has 0.042 GB of memory free"),
])
def test_a_gpu_that_does_not_open_is_no_reason_to_do_without(tmp_path, name, value, code, said):
    """One whose memory is full, say: cuSOLVER makes no handle then. Another process would find the same, or run slowly
    for good."""
    done = subprocess.run([WORKER, "--job", tmp_path, "--device", "cuda"], capture_output=True, text=True, timeout=100,
                          env={**os.environ, name: value})
    assert done.returncode == 1
    assert code in done.stderr and said in done.stderr and "worker.begins_anew" not in done.stderr


def test_what_a_gpu_cannot_do_without(tmp_path):
    done = subprocess.run([WORKER, "--job", tmp_path, "--device", "cuda"], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "KRR_GPU_WITHOUT": "memory"})
    assert done.returncode == 1
    assert 'is \\"memory\\"; what a GPU can be told to do without is \\"wgmma\\" or \\"mma\\".' in done.stderr
