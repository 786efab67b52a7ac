"""Which job goes to which worker, and when, with GPUs as claimant.py has them."""

import os
import pathlib
import re
import resource
import sqlite3
import time

import pytest

import claimant
import data

MIB = 1 << 20
ENDLESS = {"tolerance": 1e-15, "max_iterations": 10**6}
# Some 60 MB each: kernel values of 4,800 training rows are 46 MB.
LARGE = {"kernel": {"name": "gaussian", "bandwidth": 2.0}, "solver": "pcg", "kernel_cache_bytes": 10**9,
         "regularization": 1e-9, "test": {"fraction": 0.2}}
BEHIND = "A job that comes first waits for memory."
real_memory = pytest.mark.skipif("KRRD_TEST_SANITIZER" in os.environ, reason="a sanitizer's memory is its own")


@pytest.fixture
def start(daemons, tmp_path):
    """start(workers, gpu={}, cpu={}, **settings): a daemon whose programs are claimants."""
    def make(workers, gpu=None, cpu=None, **settings):
        cuda_program = claimant.write(tmp_path / "krrd-worker-cuda", **(gpu or {}))
        program = claimant.write(tmp_path / "krrd-worker", **(cpu or {}))
        daemon = daemons(workers=workers, cuda_worker_program=cuda_program, worker_program=program,
                         **settings)
        wait_idle(daemon.api)
        return daemon
    return make


def wait_idle(api):
    end = time.monotonic() + 60
    while any(w["state"] != "idle" for w in api.workers("train")):
        assert time.monotonic() < end, api.workers("train")
        time.sleep(0.02)


def plan_of(api, dataset, **spec):
    body = {"model": "planned", "dataset": dataset, **spec}
    return api.post("/v1/jobs?validate_only=true", 200, json=body).json()


def code_of(api, job):
    waiting = api.job(job["id"])["waiting_for"]
    return waiting and waiting["code"]


def rows(api):
    return api.upload_npz(*data.regression(6000, 12)), api.upload_csv(*data.regression(100))


def bytes_of(pid, field):
    return 1024 * int(re.search(field + r":\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))


def leave(daemon, size):
    """So many bytes are free, as the daemon's own limit has it; None: as many as there are."""
    pid = daemon.process.pid
    hard = resource.prlimit(pid, resource.RLIMIT_DATA)[1]
    soft = hard if size is None else bytes_of(pid, "VmData") + size
    resource.prlimit(pid, resource.RLIMIT_DATA, (soft, hard))


# ---- what a plan counts ----

@real_memory
def test_each_worker_counts_for_its_own_process(start):
    """The limit of a plan is what the processes of the other workers leave, and a GPU's is larger."""
    api = start("cpu:1,cuda:0", gpu={"ballast_bytes": 200 * MIB}, train_memory_bytes=500 * MIB).api
    few = api.upload_csv(*data.regression(100))
    base = {w["device"]: bytes_of(w["pid"], "VmRSS") for w in api.workers("train")}
    assert base["cuda:0"] > 200 * MIB > 100 * MIB > base["cpu"]
    for device, other in (("cpu", "cuda:0"), ("cuda", "cpu")):
        limit = plan_of(api, few, device=device)["plan"]["memory"]["host_limit_bytes"]
        assert abs(limit - (500 * MIB - base[other])) < 8 * MIB, (device, limit / MIB, base)


def test_the_first_plan_is_made_when_every_device_has_told_of_itself(daemons, tmp_path):
    slow = claimant.write(tmp_path / "krrd-worker-cuda", device_bytes=10**9, first="sleep 1")
    api = daemons(workers="cpu:1,cuda:0", cuda_worker_program=slow).api
    few = api.upload_csv(*data.regression(100))
    answer = plan_of(api, few)
    assert answer["spec"]["device"] == "cuda" and answer["plan"]["seconds"] is not None
    assert answer["plan"]["memory"]["device_limit_bytes"] == 10**9


# ---- devices ----

def test_a_job_planned_for_a_gpu_is_kept_to_gpus(start, big_spec_for):
    api = start("cpu:1,cuda:0,cuda:1", gpu={"device_bytes": 10**9}).api
    endless = dict(big_spec_for(api), stop=ENDLESS)
    jobs = [api.create("m", **endless) for _ in range(3)]
    assert [job["spec"]["device"] for job in jobs] == ["cuda"] * 3
    assert {api.wait_running(job["id"])["device"] for job in jobs[:2]} == {"cuda:0", "cuda:1"}
    assert next(w for w in api.workers("train") if w["device"] == "cpu")["state"] == "idle"
    third = api.job(jobs[2]["id"])
    assert (third["status"], third["queue_position"]) == ("queued", 0)
    assert third["waiting_for"]["detail"] == "2 of 2 training workers are at work; 0 jobs come first."
    # What fits the GPU only beside itself goes where it fits.
    cpu = api.create("m", api.upload_csv(*data.regression(100)), device="cpu")
    assert api.wait(cpu["id"])["device"] == "cpu"
    for job in jobs:
        api.cancel(job["id"])


def test_gpus_together_are_a_device_of_their_own(start):
    """A job that names them runs there; one for any GPU may; one for one of them alone may not."""
    api = start("cpu:1,cuda:0+1").api
    few = api.upload_csv(*data.regression(100))
    assert [w["device"] for w in api.workers("train")] == ["cuda:0,1", "cpu"]
    for asked in ("cuda:0,1", "cuda", "auto"):
        job = api.create("m", few, device=asked)
        assert api.wait(job["id"])["device"] == "cuda:0,1"
    for asked in ("cuda:0", "cuda:1", "cuda:0,1,2"):
        body = {"model": "m", "dataset": few, "device": asked}
        problem = api.post("/v1/jobs", 422, json=body).json()
        assert problem["errors"][0]["pointer"] == "#/device" and asked in problem["detail"], problem


def test_places_are_among_jobs_for_the_same_workers(start, big_spec_for):
    api = start("cpu:1,cuda:0", gpu={"device_bytes": 10**9}).api
    few, endless = api.upload_csv(*data.regression(100)), dict(big_spec_for(api), stop=ENDLESS)
    running = [api.create("m", device=device, **endless) for device in ("cpu", "cuda")]
    for job in running:
        api.wait_running(job["id"])
    made = [(device, priority, api.create("m", few, device=device, priority=priority))
            for device, priority in (("cuda", 0), ("cuda", 5), ("cpu", 0), ("cuda", 1), ("cpu", 9), ("cpu", 0))]
    assert [job["queue_position"] for _, _, job in made] == [0, 0, 0, 1, 0, 2]
    placed = [api.job(job["id"]) for _, _, job in made]
    assert [job["queue_position"] for job in placed] == [2, 0, 1, 1, 0, 2]
    listed = {job["id"]: job["queue_position"]
              for job in api.get("/v1/jobs", params={"status": "queued"}).json()["data"]}
    assert [listed[job["id"]] for job in placed] == [2, 0, 1, 1, 0, 2]
    assert placed[5]["waiting_for"]["detail"] == "1 of 1 training workers are at work; 2 jobs come first."
    api.cancel(running[0]["id"])  # jobs of the CPU behind others for the GPU do not wait for those
    ended = [api.wait(placed[i]["id"]) for i in (4, 2, 5)]
    assert [job["started_at"] for job in ended] == sorted(job["started_at"] for job in ended)
    assert [api.job(placed[i]["id"])["queue_position"] for i in (1, 3, 0)] == [0, 1, 2]
    api.cancel(running[1]["id"])
    ended = [api.wait(placed[i]["id"]) for i in (1, 3, 0)]
    assert [job["started_at"] for job in ended] == sorted(job["started_at"] for job in ended)


# ---- memory ----

@real_memory
def test_none_overtakes_one_that_jobs_at_work_will_make_room_for(start):
    """Not on another device either, unless it comes first in the queue."""
    api = start("cpu:1,cuda:0,cuda:1", train_memory_bytes=160 * MIB).api
    large, few = rows(api)
    first = api.create("first", large, device="cpu", stop=ENDLESS, **LARGE)
    api.wait_running(first["id"])
    held = api.create("held", large, device="cuda:1", stop={"max_iterations": 2}, **LARGE)
    behind = api.create("behind", few, device="cuda:0")
    urgent = api.train("urgent", few, device="cuda:0", priority=1)
    held, behind = api.job(held["id"]), api.job(behind["id"])
    assert held["waiting_for"]["code"] == behind["waiting_for"]["code"] == "memory"
    assert held["waiting_for"]["detail"].endswith("jobs at work have the rest.")
    assert behind["waiting_for"]["detail"] == BEHIND
    api.cancel(first["id"])
    ended = [urgent] + [api.wait(job["id"]) for job in (held, behind)]
    assert [job["status"] for job in ended] == ["succeeded"] * 3
    assert ended[0]["started_at"] < ended[1]["started_at"] <= ended[2]["started_at"]


def occupy(api, big_spec_for, devices):
    """Jobs without an end, on each of the devices."""
    spec = dict(big_spec_for(api), stop=ENDLESS)
    jobs = [api.create("endless", device=device, **spec) for device in devices]
    for job in jobs:
        api.wait_running(job["id"])
    return jobs


def free(api, jobs):
    for job in jobs:
        api.cancel(job["id"])
    for job in jobs:
        api.wait(job["id"])


@real_memory
def test_each_job_that_waits_for_memory_says_its_own(start, big_spec_for):
    """Something else has the memory: jobs of both devices wait, and what fits goes first."""
    daemon = start("cpu:1,cuda:0")
    api = daemon.api
    large, few = rows(api)
    endless = occupy(api, big_spec_for, ("cuda", "cpu"))
    waiting = [api.create("m", large, device=device, stop={"max_iterations": 2}, **LARGE)
               for device in ("cuda", "cpu")]
    leave(daemon, 30 * MIB)
    free(api, endless)
    for device in ("cuda", "cpu"):
        assert api.train("m", few, device=device)["device"].startswith(device)
    for job in waiting:
        said = api.job(job["id"])["waiting_for"]
        assert said["code"] == "memory" and said["detail"].endswith("GB are free."), said
    leave(daemon, None)
    assert [api.wait(job["id"])["status"] for job in waiting] == ["succeeded"] * 2


@real_memory
def test_the_worker_that_has_the_memory_already_takes_the_job(start, big_spec_for):
    """Each idle worker is asked, and what it holds counts."""
    daemon = start("cpu:1,cuda:0", cpu={"ballast_bytes": 150 * MIB})
    api = daemon.api
    large, few = rows(api)
    endless = occupy(api, big_spec_for, ("cuda", "cpu"))
    job = api.create("m", large, stop={"max_iterations": 2}, **LARGE)
    leave(daemon, 30 * MIB)
    free(api, endless)
    job = api.wait(job["id"])
    assert (job["status"], job["device"]) == ("succeeded", "cpu")


@real_memory
def test_a_job_behind_hundreds_that_do_not_fit(start, big_spec_for):
    daemon = start("cpu:1")
    api = daemon.api
    large, few = rows(api)
    endless = occupy(api, big_spec_for, ["cpu"])
    for _ in range(150):
        api.create("m", large, stop={"max_iterations": 2}, **LARGE)
    leave(daemon, 30 * MIB)
    free(api, endless)
    job = api.create("m", few)
    assert job["queue_position"] == 150
    assert api.wait(job["id"])["status"] == "succeeded"
    assert daemon.kill() == -9  # of the others each one would have its turn


def largest(api, limit):
    """A data set of as many rows as a job may have that asks for nearly all of the limit."""
    low, high, best = 1000, 8000, None
    while high - low > 10:
        n = (low + high) // 2
        dataset = api.upload_npz(*data.regression(n, 2))
        answer = api.request("POST", "/v1/jobs?validate_only=true",
                             json={"model": "m", "dataset": dataset, **DENSE})
        if answer.ok:
            low, best = n, dataset
        else:
            high = n
    memory = plan_of(api, best, **DENSE)["plan"]["memory"]
    assert 0 <= limit - memory["reserved_bytes"] < 2 * MIB, memory
    return best


DENSE = {"solver": {"name": "cholesky", "factor": "float64"}, "kernel": "gaussian", "test": {"fraction": 0}}


@real_memory
def test_a_job_near_the_limit_has_its_turn_after_others(start):
    """Idle workers give back what jobs left with them."""
    api = start("cpu:2", train_memory_bytes=120 * MIB).api
    large, few = rows(api)
    limit = plan_of(api, few)["plan"]["memory"]["host_limit_bytes"]
    all_of_it = largest(api, limit)
    spec = {"solver": "direct", "kernel": "gaussian", "centers": {"method": "uniform", "count": 700}}
    jobs = [api.create("m", large, **spec) for _ in range(4)]
    ended = [api.wait(job["id"]) for job in jobs]
    assert {(job["status"], job["worker"]) for job in ended} == {("succeeded", "train:0"), ("succeeded", "train:1")}
    kept = [bytes_of(w["pid"], "VmRSS") for w in api.workers("train")]
    assert max(kept) < 120 * MIB - limit + 8 * MIB, kept
    assert api.train("m", all_of_it, **DENSE)["status"] == "succeeded"


# ---- failures ----

def test_a_job_that_cannot_begin_holds_up_no_other(start, big_spec_for):
    """Its worker is idle again at once, and the next job is its."""
    daemon = start("cpu:1")
    api = daemon.api
    first = api.create("first", stop=ENDLESS, **big_spec_for(api))
    api.wait_running(first["id"])
    few, lost = [api.upload_csv(*data.regression(n)) for n in (100, 90)]
    broken, last = api.create("broken", lost), api.create("last", few)
    with sqlite3.connect(daemon.data_dir / "krrd.db", timeout=30) as db:
        db.execute("DELETE FROM datasets WHERE id = ?", (lost,))
    db.close()
    api.cancel(first["id"])
    assert api.wait(last["id"])["status"] == "succeeded"
    assert api.get("/v1/jobs", params={"status": "failed"}).json()["data"][0]["id"] == broken["id"]
