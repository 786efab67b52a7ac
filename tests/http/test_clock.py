"""A wall clock that jumps by days: what waits, runs, expires or is kept takes as long as it should."""

import glob
import os
import signal
import time

import pytest

import data
from prometheus import scrape

DAY = 86400
LIBRARIES = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")


@pytest.fixture
def jump(tmp_path, monkeypatch):
    """jump(days) moves the wall clock of what is started after it, forward or backward, from then on, and jump.stop()
    lets it stand still; the monotonic clock goes on."""
    if not LIBRARIES:
        pytest.skip("libfaketime is not installed (package faketime)")
    if os.environ.get("KRRD_TEST_SANITIZER"):
        pytest.skip("a sanitizer's runtime must come first; libfaketime cannot")
    path = tmp_path / "clock"
    total = 0

    def write(text):
        fresh = tmp_path / "clock.new"
        fresh.write_text(text + "\n")
        fresh.rename(path)

    def by(days):
        nonlocal total
        total += days * DAY
        write(f"{total:+d}s")

    by.stop = lambda: write(time.strftime("%Y-%m-%d %H:%M:%S"))
    by(0)
    for name, value in {"LD_PRELOAD": LIBRARIES[0], "FAKETIME_TIMESTAMP_FILE": str(path),
                        "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}.items():
        monkeypatch.setenv(name, value)
    return by


def long_spec(api, seconds):
    X, y = data.regression(500, d=6, seed=99)
    return {"dataset": api.upload_npz(X, y), "regularization": 1e-13, "test": {"fraction": 0},
            "solver": {"name": "pcg", "preconditioner": "none"},
            "kernel": {"name": "gaussian", "bandwidth": 3.0},
            "stop": {"tolerance": 1e-15, "max_iterations": 10**6, "time_budget_s": seconds}}


def wait_noticed(daemon, jumps):
    """So many in all."""
    end = time.monotonic() + 60
    while daemon.log().count('"clock.jumped"') < jumps:
        assert time.monotonic() < end, daemon.log()[-2000:]
        time.sleep(0.05)


def check_gapless(api, job):
    ids = [e["id"] for e in api.events(job["id"])]
    assert ids == list(range(1, len(ids) + 1))


def test_jumps_while_a_job_runs(daemons, jump):
    """Its budget, its lease and its worker are none of the wall clock's business."""
    daemon = daemons(worker_lease_s=20)
    api = daemon.api
    job = api.create("m", **long_spec(api, 8))
    api.wait_running(job["id"])
    pid = api.worker_pid("train")
    for i, days in enumerate((2, -5, 400, -390)):
        jump(days)
        wait_noticed(daemon, i + 1)
    done = api.wait(job["id"])
    assert (done["status"], done["reason"], done["attempt"]) == ("succeeded", "time_budget", 1)
    assert 7.5 < done["result"]["seconds"] < 120
    assert api.worker_pid("train") == pid
    check_gapless(api, job)


@pytest.mark.parametrize("days", [2, -5], ids=["forward", "backward"])
def test_a_jump_while_an_attempt_waits(daemons, jump, days):
    daemon = daemons(retry_delay_s=16)
    api = daemon.api
    job = api.create("m", **long_spec(api, 5))
    api.wait_running(job["id"])
    os.kill(api.worker_pid("train", "busy"), signal.SIGKILL)
    api.wait(job["id"], ("queued",))
    began = time.monotonic()
    jump(days)
    wait_noticed(daemon, 1)
    waiting = api.job(job["id"])
    assert waiting["status"] == "queued"
    stamp = time.strptime(waiting["next_attempt_at"][:19], "%Y-%m-%dT%H:%M:%S")
    ahead = time.mktime(stamp) - time.mktime(time.gmtime(time.time() + days * DAY))
    assert -1 <= ahead <= 16, ahead  # in the new time
    api.wait(job["id"], ("running",))
    assert 6 <= time.monotonic() - began
    assert api.wait(job["id"])["attempt"] == 2


def test_nothing_expires_by_a_jump(daemons, jump):
    """Neither the answer to a request that is repeated, nor the events of a finished job, of which the
    newest five are kept."""
    daemon = daemons(keep_events_s=3600, keep_events=5, idempotency_ttl_s=3600)
    api = daemon.api
    X, y = data.regression(30)
    body = {"model": "m", "dataset": api.upload_npz(X, y)}
    key = {"Idempotency-Key": "once"}
    job = api.post("/v1/jobs", 202, json=body, headers=key).json()
    api.wait(job["id"])
    for i, days in enumerate((3, -10, 800)):
        jump(days)
        wait_noticed(daemon, i + 1)
        again = api.post("/v1/jobs", 202, json=body, headers=key)
        assert again.headers["Idempotency-Replayed"] == "true" and again.json()["id"] == job["id"]
    later = api.train("n", body["dataset"])
    assert len(api.events(later["id"])) > 5
    end = time.monotonic() + 60
    while len(api.events(later["id"])) > 5:  # until events are removed again
        assert time.monotonic() < end
        time.sleep(0.1)
    assert len(api.events(job["id"])) == 5
    assert api.post("/v1/jobs", 202, json=body, headers=key).json()["id"] == job["id"]
    # Ids go on ascending, whatever the clock says.
    ids = [api.create("m", body["dataset"])["id"] for _ in range(3)]
    assert ids == sorted(ids) and ids[0] > job["id"]


def test_ids_go_on_after_a_restart_with_the_clock_set_back(daemons, jump):
    """Lists show the newest first."""
    daemon = daemons(workers="cpu:0")
    api = daemon.api
    X, y = data.regression(30)
    datasets = [api.upload_csv(X, y)]
    jobs = [api.create("m", datasets[0])["id"]]
    for days in (-30, 2):
        daemon.stop()
        jump(days)
        daemon.start()
        api = daemon.api
        jobs.append(api.create("m", datasets[0])["id"])
        datasets.append(api.upload_csv(X, y + len(jobs)))
    for path, ids in (("/v1/jobs", jobs), ("/v1/datasets", datasets)):
        assert [one["id"] for one in api.get(path).json()["data"]] == ids[::-1]
        assert ids == sorted(ids)


def test_an_alias_that_stands_there_does_not_move(daemons, jump):
    """Also where it came there in the same millisecond."""
    api = daemons().api
    X, y = data.regression(60)
    dataset = api.upload_npz(X, y)
    for _ in range(2):
        api.train("m", dataset)
    jump.stop()
    path = "/v1/models/m/aliases/prod"
    moved = [api.request("PUT", path, None, json={"version": version}) for version in (1, 1, 2, 2, 1)]
    assert [answer.status_code for answer in moved] == [201, 200, 200, 200, 200]
    assert [answer.json()["moves"] for answer in moved] == [1, 1, 2, 2, 3]
    shown = api.get(path).json()
    assert len(shown["history"]) == shown["moves"] == 3
    assert len({move["moved_at"] for move in shown["history"]}) == 1
    assert scrape(api).value("krrd_alias_moves_total", kind="set") == 3
