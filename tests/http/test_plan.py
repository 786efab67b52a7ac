"""What a job would take, before it runs: plans, refusals, and why a job waits."""

import os
import pathlib
import re
import resource
import signal
import sqlite3
import time

import numpy as np
import pytest

import data
from daemon import program

GAUSSIAN = {"name": "gaussian", "bandwidth": 2.0}
real_memory = pytest.mark.skipif("KRRD_TEST_SANITIZER" in os.environ, reason="a sanitizer's memory is its own")


def plan_of(api, dataset, expect=200, **spec):
    return api.post("/v1/jobs?validate_only=true", expect,
                    json={"model": "planned", "dataset": dataset, **spec}).json()


def large(api, rows, columns=2):
    """A data set with many rows, in few bytes."""
    X = np.zeros((rows, columns), dtype=np.float32)
    X[:, 0] = np.arange(rows) % 1000
    return api.upload_npz(X, X[:, 0])


@pytest.fixture(scope="module")
def dataset(api):
    return api.upload_csv(*data.regression(200))


def test_a_plan_stores_nothing(api, dataset):
    before = api.get("/v1/jobs").json()["data"]
    answer = plan_of(api, dataset, solver="pcg", kernel="gaussian", test={"fraction": 0.1})
    assert answer["object"] == "plan"
    assert answer["spec"]["stop"]["max_iterations"] == 1000
    plan = answer["plan"]
    assert (plan["solver"], plan["preconditioner"], plan["precision"]) == ("pcg", "rpcholesky", "mixed")
    assert (plan["train_rows"], plan["test_rows"], plan["features"], plan["targets"]) == (180, 20, 4, 1)
    assert plan["rank"] == 135  # ceil(10 sqrt(180))
    assert not plan["restricted"] and not plan["assumed"]
    assert api.get("/v1/jobs").json()["data"] == before


def test_parts_add_up(api, dataset):
    memory = plan_of(api, dataset)["plan"]["memory"]
    parts = sum(memory["parts"].values())
    assert 0 <= parts - memory["host_bytes"] < len(memory["parts"])
    assert memory["host_bytes"] <= memory["reserved_bytes"] + 1 < memory["host_limit_bytes"]


def test_what_is_chosen_follows_from_the_size(api, dataset):
    assert plan_of(api, dataset)["plan"]["solver"] == "cholesky"
    assert plan_of(api, large(api, 200_000))["plan"]["solver"] == "pcg"
    few = plan_of(api, dataset, centers={"method": "uniform", "count": 50})["plan"]
    assert (few["solver"], few["centers"], few["restricted"]) == ("direct", 50, True)


def test_many_rows_get_a_model_on_centers(api):
    """Where solver and centers are left open; the job says which centers, as if they had been asked for."""
    many = large(api, 400_000)
    api.worker_pid("train")  # which has measured how fast it is, so that plans have seconds
    answer = plan_of(api, many)
    assert answer["spec"]["centers"] == {"method": "uniform", "count": 5657}  # ceil(10 sqrt(320,000))
    assert answer["plan"]["restricted"] and answer["plan"]["centers"] == 5657
    job = api.create("many", dataset=many, kernel=GAUSSIAN, stop={"max_iterations": 1})
    assert job["spec"]["centers"] == answer["spec"]["centers"]
    api.cancel(job["id"])
    api.wait(job["id"])
    full = plan_of(api, many, solver="pcg")
    assert full["spec"]["centers"] is None and not full["plan"]["restricted"]
    searched = plan_of(api, many, regularization="auto", search={"bandwidth": [1, 3]})
    assert searched["spec"]["centers"] == answer["spec"]["centers"]
    assert searched["plan"]["seconds"]["setup"] > answer["plan"]["seconds"]["setup"]


def test_a_time_budget_takes_fewer_centers(api):
    """So many that the job comes to its end in it; more than the rows alone would give it are never taken."""
    many = large(api, 400_000)
    usual = plan_of(api, many, kernel=GAUSSIAN)["plan"]["centers"]
    seconds = plan_of(api, many, kernel=GAUSSIAN)["plan"]["seconds"]
    budget = {"time_budget_s": seconds["setup"]}  # of which setup may take a half
    answer = plan_of(api, many, kernel=GAUSSIAN, stop=budget)
    few = answer["plan"]["centers"]
    assert 10 <= few < usual and answer["spec"]["centers"] == {"method": "uniform", "count": few}
    assert answer["plan"]["seconds"]["setup"] <= budget["time_budget_s"] / 2 and answer["plan"]["warnings"] == []
    ample = plan_of(api, many, kernel=GAUSSIAN, stop={"time_budget_s": 100 * seconds["total"]})["plan"]
    assert ample["centers"] == usual and ample["warnings"] == []


def test_a_time_budget_that_is_too_short_is_told_of(api, dataset):
    """In the answer, and as the job's first events: what its fits have to say comes after them."""
    stop = {"time_budget_s": 1e-6}
    planned = plan_of(api, dataset, solver="pcg", stop=stop)["plan"]["warnings"]
    job = api.create("hurried", dataset=dataset, solver="pcg", stop=stop)
    assert job["plan"]["warnings"][0]["code"] == planned[0]["code"] == "time_budget"
    assert "without a model" in job["plan"]["warnings"][0]["detail"]
    events = api.get(f"/v1/jobs/{job['id']}/events").json()["data"]
    told = [w["detail"] for w in job["plan"]["warnings"]]
    warnings = [e["message"] for e in events if (e["level"], e["type"]) == ("warning", "message")]
    assert warnings[:len(told)] == told
    assert api.wait(job["id"])["reason"] == "time_budget"
    assert plan_of(api, dataset)["plan"]["warnings"] == []


def test_a_plan_is_checked_as_a_job_is(api, dataset):
    problem = plan_of(api, dataset, expect=422, solver={"name": "magic"})
    assert problem["errors"][0]["pointer"] == "#/solver/name"
    assert plan_of(api, "ds_none", expect=422)["errors"][0]["pointer"] == "#/dataset"
    answer = api.post("/v1/jobs?validate_only=yes", 422, json={"model": "m", "dataset": dataset})
    assert answer.json()["errors"][0]["pointer"] == "#/query/validate_only"


def test_an_idempotency_key_is_of_no_use_to_a_plan(api, dataset):
    headers = {"Idempotency-Key": "a-plan"}
    body = {"model": "planned", "dataset": dataset}
    for _ in range(2):
        answer = api.post("/v1/jobs?validate_only=true", 200, json=body, headers=headers)
        assert "Idempotency-Replayed" not in answer.headers
    job = api.post("/v1/jobs", 202, json=body, headers=headers).json()
    api.wait(job["id"])


@real_memory
def test_what_earlier_jobs_left_is_planned(daemons):
    """The library keeps its buffers: a small job is larger after others."""
    api = daemons().api
    small, large = (api.upload_npz(*data.regression(n, d=18)) for n in (400, 3000))
    jobs = [api.train("m", small, kernel=GAUSSIAN, solver="pcg")]
    bless = {"method": "bless", "count": 800}
    api.train("m", large, kernel=GAUSSIAN, solver="falkon_bless", centers=bless, stop={"max_iterations": 2})
    jobs.append(api.train("m", small, kernel=GAUSSIAN, solver="pcg"))
    planned = [job["plan"]["memory"]["host_bytes"] for job in jobs]
    used = [job["result"]["peak_memory_bytes"] for job in jobs]
    assert used[1] > 1.1 * used[0]
    assert all(1 / 1.2 <= p / u <= 1.2 for p, u in zip(planned, used)), (planned, used)


def test_a_job_keeps_its_plan(api, dataset):
    wanted = plan_of(api, dataset, kernel=GAUSSIAN)["plan"]
    job = api.train("planned", dataset, kernel=GAUSSIAN)
    assert job["plan"]["solver"] == wanted["solver"] == job["result"]["solver"]
    assert job["plan"]["train_rows"] == job["result"]["train_rows"]
    assert job["waiting_for"] is None


def as_schema_15(path):
    """The database as version 15 wrote it, whose plans did not tell of kept kernel values."""
    with sqlite3.connect(path) as db:
        db.executescript("""
            DROP INDEX webhooks_pending; ALTER TABLE webhooks DROP COLUMN receiver;
            CREATE INDEX webhooks_pending ON webhooks (next_ms) WHERE state = 'pending';
            ALTER TABLE datasets DROP COLUMN summary;
            DROP TABLE model_holds; ALTER TABLE jobs DROP COLUMN spent; ALTER TABLE jobs DROP COLUMN spared;
            ALTER TABLE jobs DROP COLUMN checkpoint;
            DROP TRIGGER model_limits_end; DROP TABLE model_limits; DROP TABLE plan_experience;
            DROP TRIGGER queue_blocks_insert; DROP TRIGGER queue_blocks_leave;
            DROP TRIGGER queue_blocks_enter; DROP TRIGGER queue_blocks_delete;
            DROP TABLE queue_blocks;
            DROP INDEX jobs_claims; DROP INDEX jobs_retries; DROP INDEX jobs_queue;
            ALTER TABLE jobs DROP COLUMN wanted_device;
            ALTER TABLE jobs DROP COLUMN host_bytes;
            CREATE INDEX jobs_queue ON jobs (priority DESC, key) WHERE status = 'queued';
            UPDATE jobs SET plan = json_remove(plan, '$.kernel_cache_bytes');
            PRAGMA user_version = 15;""")
    db.close()


def test_plans_of_an_earlier_version(daemons):
    daemon = daemons(workers="cpu:0")
    api = daemon.api
    ds = api.upload_npz(*data.regression(600, 3))
    made = [api.create("m", ds, solver="pcg", kernel="gaussian", kernel_cache_bytes=keeps)["id"]
            for keeps in (0, 10**9)]
    before = [api.job(job)["plan"] for job in made]
    daemon.stop()
    as_schema_15(daemon.data_dir / "krrd.db")
    daemon.start(workers="cpu:1")
    api = daemon.api
    for job, plan in zip(made, before):
        now = api.job(job)["plan"]  # held to the contract
        assert now["kernel_cache_bytes"] == plan["memory"]["parts"]["kernel_cache"]
        assert {**now, "kernel_cache_bytes": 0} == {**plan, "kernel_cache_bytes": 0}
        assert api.wait(job)["status"] == "succeeded"


@real_memory
def test_what_can_never_fit_is_refused_at_once(daemons):
    api = daemons(worker_memory_bytes=1_000_000_000).api
    ds = large(api, 60_000)
    answer = api.post("/v1/jobs", 422, json={"model": "m", "dataset": ds, "regularization": 0,
                                             "solver": {"name": "cholesky", "factor": "float64"}}).json()
    assert answer["code"] == "does_not_fit"
    assert answer["errors"][0]["pointer"] == "#/solver"
    assert "18.5 GB" in answer["detail"] and "a worker has 1 GB" in answer["detail"]
    assert 'The solver "pcg" would take' in answer["detail"]
    assert "centers would take" in answer["detail"]
    assert api.get("/v1/jobs").json()["data"] == []

    centers = {"method": "uniform", "count": 20_000}
    answer = plan_of(api, ds, expect=422, solver="falkon", centers=centers)
    assert answer["errors"][0]["pointer"] == "#/centers"
    assert "A model on 5000 centers would take" in answer["detail"]

    # One that fits is taken, and says within what.
    plan = plan_of(api, ds, solver="falkon", centers={"method": "uniform", "count": 5000})["plan"]
    assert plan["memory"]["host_limit_bytes"] == 1_000_000_000
    assert 400_000_000 < plan["memory"]["host_bytes"] < 1_000_000_000


def test_a_waiting_job_says_why(daemons, big_spec_for):
    api = daemons(retry_delay_s=60).api
    ds = api.upload_csv(*data.regression(100))
    first = api.create("first", stop={"tolerance": 1e-15, "max_iterations": 10**6}, **big_spec_for(api))
    api.wait_running(first["id"])
    second = api.create("second", ds)
    third = api.create("third", ds)
    assert second["waiting_for"]["code"] == "worker_busy"
    assert (second["queue_position"], third["queue_position"]) == (0, 1)
    assert "1 of 1 training workers are at work; 1 job comes first." == third["waiting_for"]["detail"]
    assert api.job(first["id"])["waiting_for"] is None

    worker = next(w for w in api.get("/v1/workers").json()["data"] if w["kind"] == "train")
    api.post(f"/v1/jobs/{second['id']}/cancel")
    api.post(f"/v1/jobs/{third['id']}/cancel")
    os.kill(worker["pid"], signal.SIGKILL)
    job = api.wait(first["id"], lambda job: job["status"] == "queued")
    assert job["waiting_for"]["code"] == "retry_delay"
    assert job["waiting_for"]["until"] == job["next_attempt_at"]
    api.post(f"/v1/jobs/{first['id']}/cancel")


def rlimit(daemon, data_bytes):
    """The daemon's own limit is part of what it takes to be free."""
    hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_DATA)[1]
    resource.prlimit(daemon.process.pid, resource.RLIMIT_DATA, (data_bytes, hard))


def data_bytes(daemon):
    status = pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text()
    return 1024 * int(re.search(r"VmData:\s+(\d+)", status).group(1))


MIB = 1 << 20
ENDLESS = {"tolerance": 1e-15, "max_iterations": 10**6}
# Some 100 MB each: kernel values of 4,800 training rows are 46 MB.
LARGE = {"kernel": GAUSSIAN, "solver": "pcg", "kernel_cache_bytes": 10**9, "regularization": 1e-9}


@real_memory
def test_a_job_waits_until_there_is_memory(daemons):
    """A worker is idle, and the memory for both jobs is not there: no other overtakes the one that waits."""
    api = daemons(workers="cpu:2", train_memory_bytes=160 * MIB).api
    while sum(w["kind"] == "train" and w["state"] == "idle" for w in api.get("/v1/workers").json()["data"]) < 2:
        time.sleep(0.02)
    ds, few = api.upload_npz(*data.regression(6000, 12)), api.upload_csv(*data.regression(100))
    first = api.create("first", ds, stop=ENDLESS, **LARGE)
    assert 80 * MIB < first["plan"]["memory"]["reserved_bytes"] < 140 * MIB
    api.wait_running(first["id"])
    second = api.create("second", ds, stop={"max_iterations": 2}, **LARGE)
    third = api.create("third", few)
    second, third = api.job(second["id"]), api.job(third["id"])
    assert (second["status"], second["queue_position"]) == ("queued", 0)
    assert second["waiting_for"]["code"] == "memory"
    assert "jobs at work have the rest" in second["waiting_for"]["detail"]
    assert (third["status"], third["queue_position"]) == ("queued", 1)
    assert third["waiting_for"]["code"] == "memory"
    assert third["waiting_for"]["detail"] == "A job that comes first waits for memory."
    api.post(f"/v1/jobs/{first['id']}/cancel")
    ended = [api.wait(job["id"]) for job in (first, second, third)]
    assert [job["status"] for job in ended] == ["cancelled", "succeeded", "succeeded"]
    assert ended[0]["finished_at"] <= ended[1]["started_at"] <= ended[2]["started_at"]


@real_memory
def test_others_go_first_where_memory_is_not_for_jobs_to_give_back(daemons, big_spec_for):
    daemon = daemons(workers="cpu:1")
    api = daemon.api
    ds, few = api.upload_npz(*data.regression(6000, 12)), api.upload_csv(*data.regression(100))
    api.wait(api.create("warm", few)["id"])
    first = api.create("first", stop=ENDLESS, **big_spec_for(api))
    api.wait_running(first["id"])
    second = api.create("second", ds, stop={"max_iterations": 2}, **LARGE)
    rlimit(daemon, data_bytes(daemon) + 60 * MIB)  # for 100 rows it does
    api.post(f"/v1/jobs/{first['id']}/cancel")
    api.wait(first["id"])
    second = api.wait(second["id"], lambda job: job["waiting_for"] and job["waiting_for"]["code"] != "worker_busy")
    assert second["waiting_for"]["code"] == "memory"
    assert second["waiting_for"]["detail"].endswith("GB are free.")
    third = api.train("third", few)
    assert third["status"] == "succeeded"
    second = api.job(second["id"])
    assert (second["status"], second["queue_position"]) == ("queued", 0)
    rlimit(daemon, resource.RLIM_INFINITY)
    assert api.wait(second["id"])["status"] == "succeeded"


def test_no_worker_is_no_plan_without_seconds(daemons):
    api = daemons(workers="cpu:0").api
    ds = api.upload_csv(*data.regression(100))
    job = api.create("m", ds)
    assert job["waiting_for"]["code"] == "no_worker"
    assert job["plan"]["seconds"] is None
    assert job["plan"]["memory"]["host_bytes"] > 0


def test_seconds_are_measured_by_the_worker(api, dataset):
    small = plan_of(api, dataset, solver="pcg")["plan"]["seconds"]["total"]
    many = plan_of(api, large(api, 100_000), solver="pcg")["plan"]["seconds"]
    assert 0 < small < many["total"]
    assert many["total"] == pytest.approx(
        many["setup"] + many["iteration"] * many["iterations"] + many["finish"])


# Meson lets malloc fill what it hands out, which touches pages that nobody would have.
os.environ.pop("MALLOC_PERTURB_", None)

def test_the_very_first_plan_holds(daemons, tmp_path):
    """Requests are answered once a worker has told of itself, however long it takes to start."""
    slow = tmp_path / "slow-worker"
    slow.write_text(f"#!/bin/sh\nsleep 1\nexec {program('KRRD_TEST_WORKER', 'src/worker/krrd-worker')} \"$@\"\n")
    slow.chmod(0o755)
    api = daemons(worker_program=slow).api
    plan = plan_of(api, api.upload_csv(*data.regression(100)), solver="pcg")["plan"]
    worker = next(w for w in api.get("/v1/workers").json()["data"] if w["kind"] == "train")
    status = pathlib.Path(f"/proc/{worker['pid']}/status").read_text()
    resident = 1024 * int(re.search(r"VmRSS:\s+(\d+)", status).group(1))
    assert plan["seconds"] is not None
    assert 0.8 * resident <= plan["memory"]["parts"]["process"] <= 1.2 * resident


def test_a_worker_that_never_starts_holds_up_no_daemon(daemons, tmp_path):
    broken = tmp_path / "broken-worker"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    api = daemons(worker_program=broken).api
    assert plan_of(api, api.upload_csv(*data.regression(100)))["plan"]["seconds"] is None


# Each is held to what the worker's process then took. Batches and ranks that depend on the data are
# left to bench/plan.py.
CASES = {
    "cholesky": {"solver": "cholesky"},
    "cholesky_float32": {"solver": "cholesky", "precision": "float32"},
    "chosen": {"kernel": "gaussian", "regularization": 1e-6},
    "pcg": {"solver": "pcg", "kernel_cache_bytes": 0},
    "pcg_float64": {"solver": "pcg", "precision": "float64", "kernel_cache_bytes": 0},
    "pcg_kept": {"solver": "pcg", "kernel_cache_bytes": 1_000_000_000},
    "nystrom_gaussian": {"solver": {"name": "pcg", "preconditioner": "nystrom_gaussian"},
                         "kernel_cache_bytes": 0},
    "askotch2": {"solver": {"name": "askotch2", "block_size": 1500}},
    "skotch": {"solver": {"name": "skotch", "block_size": 1500}},
    "eigenpro2": {"solver": "eigenpro2"},
    "krill": {"solver": "krill", "centers": {"method": "uniform", "count": 1200}},
    "falkon": {"solver": "falkon", "centers": {"method": "uniform", "count": 1500}},
    "direct": {"solver": "direct", "centers": {"method": "uniform", "count": 1000}},
    "sketchysaga": {"solver": "sketchysaga", "centers": {"method": "uniform", "count": 1200}},
    "sketchykatyusha": {"solver": "sketchykatyusha", "centers": {"method": "uniform", "count": 1200}},
    "eigenpro3": {"solver": "eigenpro3", "centers": {"method": "uniform", "count": 1000}},
    "eigenpro4": {"solver": "eigenpro4", "centers": {"method": "uniform", "count": 1000}},
    "search": {"regularization": "auto", "search": {"regularization": [1e-7, 1e-6], "max_rows": 1000}},
}


@pytest.fixture(scope="module")
def rows(api):
    return api.upload_npz(*data.regression(4000, 12))


@real_memory
@pytest.mark.parametrize("case", CASES)
def test_memory_is_as_planned(api, rows, case):
    # The workspace of a decomposition for all 1,000 centers: only the plan counts the library's.
    workspace = 16 * 1000**2 if case in ("eigenpro3", "eigenpro4") else 0
    check_memory(api, rows, {"stop": {"max_iterations": 3}, **CASES[case]}, workspace)


@real_memory
def test_memory_is_as_planned_where_float32_gives_way(api, rows):
    """Values kept in float64 take no more than was planned for those in float32."""
    spec = {"solver": "pcg", "kernel_cache_bytes": 10**9, "regularization": 1e-11, "stop": {"max_iterations": 3}}
    job = check_memory(api, rows, spec)
    assert (job["plan"]["precision"], job["result"]["precision"]) == ("mixed", "float64")
    kept = job["result"]["kernel_cache_bytes"]
    assert 0 < kept <= job["plan"]["kernel_cache_bytes"] < 10**9, kept


# Where a job leaves it open, the plan decides by measured rates whether kernel values are kept: with many features always,
# with few never.
SIZES = [(2000, 3), (2500, 90), (6000, 3), (6000, 18), (10000, 18), (8000, 90)]


@real_memory
@pytest.mark.parametrize("n,d", SIZES)
def test_memory_of_pcg_is_as_planned(daemons, n, d):
    api = daemons().api  # a library's buffers stay with a worker that has done other things
    rows = api.upload_npz(*data.regression(n, d))
    kept = set()
    for kernel in ("gaussian", "laplacian_l1", "matern52"):
        spec = {"solver": "pcg", "kernel": kernel, "stop": {"max_iterations": 20, "tolerance": 0.1}}
        job = check_memory(api, rows, spec)
        assert job["plan"]["keeps_kernel_values"] == (job["result"]["kernel_cache_bytes"] > 0)
        kept.add(job["plan"]["keeps_kernel_values"])
    assert d != 90 or True in kept
    assert d != 3 or False in kept


def check_memory(api, rows, spec, workspace=0):
    job = api.train("measured", rows, timeout=300, **{"kernel": "gaussian", "regularization": 1e-6, **spec})
    planned = job["plan"]["memory"]["host_bytes"]
    used = job["result"]["peak_memory_bytes"]
    assert 0.8 * used - MIB <= planned <= 1.2 * used + workspace + MIB, (planned, used, job["plan"]["memory"])
    return job
