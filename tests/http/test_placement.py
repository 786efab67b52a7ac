"""Which workers a daemon has, and which jobs they take, with GPUs as claimant.py has them."""

import subprocess
import time

import pytest

import api as interface
import claimant as claimants
import daemon as daemon_module
import wait

STOP = {"tolerance": 1e-15, "max_iterations": 10**6}

WORKER = daemon_module.program("KRRD_TEST_WORKER", "src/worker/krrd-worker")

@pytest.fixture
def claimant(tmp_path):
    """claimant(answer) is the path of a worker program that so tells of its devices."""
    return lambda *answer: claimants.write(tmp_path / "krrd-worker-cuda", *answer)


def start(daemons, program, workers):
    return daemons(cuda_worker_program=program, workers=workers).api


def refused(api, dataset, device):
    answer = api.post("/v1/jobs", 422, json={"model": "m", "dataset": dataset, "device": device})
    assert interface.problem_pointers(answer) == ["#/device"]
    return answer.json()["errors"][0]["detail"]


def test_every_gpu_has_a_worker(daemons, claimant):
    daemon = daemons(cuda_worker_program=claimant(), workers="cpu:1,cuda:all",
                     serve_workers="cuda:1")
    api = daemon.api
    assert [(w["name"], w["device"]) for w in api.workers("train")] == \
        [("train:0", "cuda:0"), ("train:1", "cuda:1"), ("train:2", "cpu")]
    assert [w["device"] for w in api.workers("serve")] == ["cuda:1"]


def test_devices_are_those_of_the_places(daemons, claimant):
    daemon = daemons(cuda_worker_program=claimant(), workers="cpu:1,cuda:all", serve_workers="cuda:1")
    end = time.monotonic() + 60
    while len(devices := daemon.api.get("/v1/devices").json()["data"]) < 3 or len(devices[1]["workers"]) < 2:
        assert time.monotonic() < end, devices
        time.sleep(0.02)
    assert {d["name"]: sorted(d["workers"]) for d in devices} == {
        "cuda:0": ["train:0"], "cuda:1": ["serve:0", "train:1"], "cpu": ["train:2"]}


def test_jobs_go_where_they_ask(daemons, claimant, big_spec_for):
    api = start(daemons, claimant(), "cpu:1,cuda:0,cuda:1")
    wait.until(lambda: all(w["state"] == "idle" for w in api.workers("train")))  # a GPU that is up goes first
    spec = dict(big_spec_for(api), stop=STOP)
    jobs = {}
    for device, runs_on in (("cuda:1", "cuda:1"), ("auto", "cuda:0"), ("cpu", "cpu")):
        jobs[device] = api.create("m", device=device, **spec)["id"]
        running = api.wait_running(jobs[device])
        assert running["device"] == runs_on and running["spec"]["device"] == device
    waiting = api.create("m", device="cuda", **spec)["id"]
    cpu = api.create("m", device="cpu", **spec)["id"]
    assert api.job(waiting)["waiting_for"]["code"] == "worker_busy"
    assert "2 of 2 training workers" in api.job(waiting)["waiting_for"]["detail"]
    api.cancel(jobs["cpu"])  # its worker passes over the job that asks for a GPU
    assert api.wait_running(cpu)["device"] == "cpu"
    assert api.job(waiting)["status"] == "queued"
    api.cancel(jobs["cuda:1"])
    assert api.wait_running(waiting)["device"] == "cuda:1"
    for job in (jobs["auto"], cpu, waiting):
        api.cancel(job)


def test_the_first_gpu_goes_first(daemons, claimant, tmp_path, big_spec_for):
    """Whichever process has more pages: here that of cuda:1 has 64 MiB more."""
    larger = 'case "$*" in *cuda:1*) export KRRD_TEST_BALLAST_BYTES=67108864 ;; esac'
    program = claimants.write(tmp_path / "krrd-worker-cuda", ballast_bytes="${KRRD_TEST_BALLAST_BYTES:-0}", first=larger)
    api = start(daemons, program, "cpu:1,cuda:0,cuda:1")
    wait.until(lambda: all(w["state"] == "idle" for w in api.workers("train")))
    job = api.create("m", device="auto", **dict(big_spec_for(api), stop=STOP))["id"]
    assert api.wait_running(job)["device"] == "cuda:0"
    api.cancel(job)


def test_devices_that_are_not_there(daemons, claimant, big_spec_for):
    api = start(daemons, claimant(), "cuda:1")
    dataset = big_spec_for(api)["dataset"]
    assert "GPUs alone" in refused(api, dataset, "cpu")
    detail = refused(api, dataset, "cuda:0")
    assert "cuda:0" in detail and '"cpu"' not in detail
    api.post("/v1/jobs?validate_only=true", 200, json={"model": "m", "dataset": dataset,
                                                       "device": "cuda:1"})


@pytest.mark.parametrize("answer, workers, said", [
    ('{"devices": ["cpu"], "detail": "There is no NVIDIA driver."}', "cuda:all",
     "There is no NVIDIA driver."),
    ('{"devices": ["cuda:0"], "detail": null}', "cuda:0,cuda:2", "There is no cuda:2"),
    ("none of your business", "cuda:all", "without telling"),
    ("", "cpu:1,cuda:0", "without telling"),
])
def test_a_daemon_without_its_gpus_does_not_start(tmp_path, claimant, answer, workers, said):
    done = subprocess.run(
        [daemon_module.program("KRRD_TEST_DAEMON", "src/server/krrd"), "--listen", "127.0.0.1:0",
         "--data-dir", tmp_path / "data", "--workers", workers, "--worker-program", WORKER,
         "--cuda-worker-program", claimant(answer)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "--workers" in done.stderr and said in done.stderr


def test_a_missing_program_is_named(tmp_path):
    done = subprocess.run(
        [daemon_module.program("KRRD_TEST_DAEMON", "src/server/krrd"), "--listen", "127.0.0.1:0",
         "--data-dir", tmp_path / "data", "--workers", "cuda:all", "--worker-program", WORKER,
         "--cuda-worker-program", tmp_path / "nowhere"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and str(tmp_path / "nowhere") in done.stderr
