"""A device that breaks is taken out of service, and the daemon says so. The workers' device is made
to break by their option --break-device (src/worker/faulty.h)."""

import os
import pathlib
import signal
import time

import pytest

import data
from test_recovery import STOP, check_gapless, lost_events, statuses

WORKER = os.environ.get("KRRD_TEST_WORKER") or \
    pathlib.Path(__file__).resolve().parents[2] / "build/src/worker/krrd-worker"


@pytest.fixture
def fragile(daemons, tmp_path):
    """fragile(…) starts a daemon; its device breaks in the worker that finds the file `trigger`."""
    def start(**options):
        program = tmp_path / "fragile-worker"
        program.write_text(f"#!/bin/sh\nexec {WORKER} \"$@\" --break-device {tmp_path}/trigger\n")
        program.chmod(0o755)
        return daemons(worker_program=program, retry_delay_s=0, **options)

    start.trigger = tmp_path / "trigger"
    return start


def ready(api):
    answer = api.get("/v2/health/ready", None).json()
    return answer["ready"], answer.get("reason")


def wait_worker(api, kind, index, *states, timeout=20):
    end = time.monotonic() + timeout
    while True:
        worker = api.workers(kind)[index]
        if worker["state"] in states:
            return worker
        assert time.monotonic() < end, worker
        time.sleep(0.02)


def break_with_job(fragile, api, **spec):
    """The device of the worker that takes the job breaks. The file lies there before the job comes:
    a job that has begun can be over before the test has seen that."""
    fragile.trigger.touch()
    return api.create("m", stop=STOP, **spec)


def test_the_only_training_device_breaks(fragile, big_spec_for):
    api = fragile(quarantine_s=3).api
    pid = api.worker_pid("train", "idle")
    assert ready(api) == (True, None)
    job = break_with_job(fragile, api, **big_spec_for(api))
    worker = wait_worker(api, "train", 0, "quarantined")
    assert (worker["pid"], worker["job"], worker["restarts"]) == (None, None, 0)
    assert "illegal access" in worker["quarantine_reason"]
    assert worker["quarantined_until"] is not None
    waiting = api.job(job["id"])
    assert (waiting["status"], waiting["reason"], waiting["attempt"]) == \
        ("queued", "worker_lost", 1)
    assert ready(api) == (False, "No training worker is up; the device of one is in quarantine.")
    done = api.wait(job["id"])
    assert (done["status"], done["attempt"]) == ("succeeded", 2)
    assert statuses(api, job) == ["queued", "running", "queued", "running", "succeeded"]
    assert "illegal access" in lost_events(api, job)[0]["message"]
    check_gapless(api, job)
    worker = wait_worker(api, "train", 0, "idle")
    assert worker["pid"] not in (None, pid) and worker["restarts"] == 1
    assert (worker["quarantine_reason"], worker["quarantined_until"]) == (None, None)
    assert ready(api) == (True, None)


def test_another_worker_takes_over(fragile, big_spec_for):
    api = fragile(workers="cpu:2", quarantine_s=60).api
    job = break_with_job(fragile, api, **big_spec_for(api))
    done = api.wait(job["id"])
    assert ready(api) == (True, None)
    assert (done["status"], done["attempt"]) == ("succeeded", 2)
    index = 1 - int(done["worker"].removeprefix("train:"))
    assert api.workers("train")[index]["state"] == "quarantined"


def test_a_serving_device_breaks(fragile):
    """Whoever waits for the prediction gets it from the other worker, to the same bits."""
    api = fragile(serve_workers=2, quarantine_s=60).api
    X, y = data.regression(60)
    api.train("m", api.upload_npz(X, y))
    before = api.predict("m", X).text
    fragile.trigger.touch()
    assert api.predict("m", X).text == before
    assert sorted(w["state"] for w in api.workers("serve")) == ["idle", "quarantined"]
    assert ready(api) == (True, None)


def test_a_device_that_breaks_with_every_job(fragile, big_spec_for):
    """The job ends when its attempts are spent; the quarantine is longer each time."""
    daemon = fragile(quarantine_s=0.2)
    api = daemon.api
    job = break_with_job(fragile, api, max_attempts=2, **big_spec_for(api))
    wait_worker(api, "train", 0, "quarantined")
    fragile.trigger.touch()
    done = api.wait(job["id"])
    assert (done["status"], done["reason"], done["attempt"]) == ("failed", "worker_lost", 2)
    assert "illegal access" in done["error"]["detail"]
    assert done["error"]["cause"]["exit_code"] == 1
    assert any("illegal access" in line for line in done["error"]["cause"]["stderr"])
    assert daemon.log().count("worker.quarantined") == 2


def kill_running(api, job):
    api.wait_running(job["id"])
    os.kill(api.worker_pid("train", "busy"), signal.SIGKILL)


def test_jobs_lost_in_a_row(daemons, big_spec_for):
    api = daemons(retry_delay_s=0, quarantine_after=2, quarantine_s=2).api
    spec = big_spec_for(api)
    first, second, third = (
        api.create(name, stop=STOP, max_attempts=1, **spec) for name in ("a", "b", "c"))
    kill_running(api, first)
    assert api.wait(first["id"])["status"] == "failed"
    kill_running(api, second)
    worker = wait_worker(api, "train", 0, "quarantined")
    assert worker["quarantine_reason"] == "Its worker was lost with 2 jobs in a row."
    assert api.job(third["id"])["status"] == "queued"
    assert not ready(api)[0]
    assert api.wait(third["id"])["status"] == "succeeded"
    assert ready(api) == (True, None)


def test_one_poisonous_job_quarantines_nobody(daemons, big_spec_for):
    api = daemons(retry_delay_s=0, quarantine_after=2, quarantine_s=60).api
    job = api.create("m", stop=STOP, max_attempts=4, **big_spec_for(api))
    for attempt in range(1, 5):
        api.wait(job["id"], lambda j: j["status"] == "running" and j["attempt"] == attempt)
        kill_running(api, job)
    assert api.wait(job["id"])["status"] == "failed"
    X, y = data.regression(40)
    api.train("n", api.upload_npz(X, y))
    assert api.workers("train")[0]["restarts"] == 4
