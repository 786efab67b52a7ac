"""Asking again cheaply: Prefer: wait, and entity tags."""

import concurrent.futures
import json
import re
import time

import pytest

import data
import wait
from raw import Raw

APPLIED = "Preference-Applied"
NO_WORKERS = {"workers": "cpu:0", "serve_workers": 0}


def wait_for(api, job, seconds, expect=200, **headers):
    start = time.monotonic()
    answer = api.get(f"/v1/jobs/{job}", expect, headers={"Prefer": f"wait={seconds}", **headers})
    return answer, time.monotonic() - start


@pytest.fixture
def queued(daemons):
    """A daemon whose jobs stay where they are, and one of them."""
    daemon = daemons(max_waits=3, max_wait_s=4, **NO_WORKERS)
    X, y = data.regression(30)
    return daemon, daemon.api.create("m", daemon.api.upload_csv(X, y))["id"]


def test_the_end_of_a_job_is_told_at_once(api, name, regression_dataset):
    job = api.create(name, regression_dataset)["id"]
    answer, took = wait_for(api, job, 30)
    assert answer.json()["status"] == "succeeded" and took < 20
    assert answer.headers[APPLIED] == "wait=30"
    answer, took = wait_for(api, job, 30)
    assert took < 20 and answer.headers[APPLIED] == "wait=30"


def test_a_wait_ends_in_time(queued):
    daemon, job = queued
    answer, took = wait_for(daemon.api, job, 1)
    assert answer.json()["status"] == "queued" and 0.9 < took < 3.9
    answer, took = wait_for(daemon.api, job, 0)
    assert took < 3.5 and answer.headers[APPLIED] == "wait=0"
    answer, took = wait_for(daemon.api, job, 600)
    assert answer.headers[APPLIED] == "wait=4" and 3.5 < took < 60


@pytest.mark.parametrize("prefer", ["wait", "wait=soon", "respond-async", "wait=-1", ""])
def test_other_preferences_are_ignored(queued, prefer):
    daemon, job = queued
    answer = daemon.api.get(f"/v1/jobs/{job}", headers={"Prefer": prefer})
    assert APPLIED not in answer.headers


def test_a_second_header_counts(queued):
    daemon, job = queued
    with Raw(daemon.base) as raw:
        raw.request("GET", f"/v1/jobs/{job}", ["Prefer: respond-async", "Prefer: wait=1"])
        assert raw.answer().headers[APPLIED] == "wait=1"


def test_no_such_job(api):
    _, took = wait_for(api, "job_00000000000000000000000000", 30, 404)
    assert took < 10


def start_waits(pool, daemon, job, count, seconds):
    waits = [pool.submit(wait_for, daemon.api, job, seconds, None) for _ in range(count)]
    wait.until_metric(daemon.api, "krrd_job_waiters", count)
    return waits


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_waiting_blocks_nobody_and_all_hear_of_the_end(queued, how):
    daemon, job = queued
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        waits = start_waits(pool, daemon, job, 3, 4)
        start = time.monotonic()
        for _ in range(20):
            daemon.api.get("/health", None)
        assert time.monotonic() - start < 3.5 and not any(w.done() for w in waits)
        daemon.api.cancel(job)
        if how == "delete":
            daemon.api.delete(f"/v1/jobs/{job}")
        for one in waits:
            answer, took = one.result()
            assert answer.json()["status"] == "cancelled" and took < 3.9


def test_one_wait_too_many(queued):
    daemon, job = queued
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        waits = start_waits(pool, daemon, job, 3, 2)
        assert wait_for(daemon.api, job, 2, 503)[0].json()["code"] == "busy"
        daemon.api.get(f"/v1/jobs/{job}")  # without waiting
        assert [w.result()[0].status_code for w in waits] == [200] * 3
    assert wait_for(daemon.api, job, 1)[0].status_code == 200


def test_who_leaves_makes_room(queued):
    daemon, job = queued
    for _ in range(3):
        with Raw(daemon.base) as raw:
            raw.request("GET", f"/v1/jobs/{job}", ["Prefer: wait=4"])
            wait.until_metric(daemon.api, "krrd_job_waiters", lambda count: count >= 1)
    end = time.monotonic() + 3.5
    while wait_for(daemon.api, job, 1, None)[0].status_code == 503:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_stopping_daemon_waits_for_nobody(queued):
    daemon, job = queued
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waits = start_waits(pool, daemon, job, 1, 4)
        start = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - start < 3
        assert waits[0].result()[0].json()["status"] == "queued"


# Entity tags.


def test_tags_of_what_does_not_change(api, name, regression_dataset):
    job = api.train(name, regression_dataset)["id"]
    for path in (f"/v1/jobs/{job}", f"/v1/datasets/{regression_dataset}", f"/v1/models/{name}",
                 f"/v1/models/{name}/versions/1"):
        first = api.get(path)
        tag = first.headers["ETag"]
        assert re.fullmatch(r'"[0-9a-f]{32}"', tag)
        assert first.headers["Cache-Control"] == "private, no-cache"
        for asked in (tag, f'"other", {tag}', f"W/{tag}", "*"):
            answer = api.get(path, 304, headers={"If-None-Match": asked})
            assert answer.content == b"" and answer.headers["ETag"] == tag
        assert api.get(path, headers={"If-None-Match": '"other"'}).content == first.content
        assert api.request("HEAD", path, 304, headers={"If-None-Match": tag}).content == b""


def test_tags_follow_what_changes(api, name, regression_dataset):
    api.train(name, regression_dataset)
    path = f"/v1/models/{name}/versions/1"
    tags = {api.get(path).headers["ETag"]}
    api.post(path + "/load")
    tags.add(api.get(path).headers["ETag"])
    assert len(tags) == 2
    api.post(path + "/unload")
    assert api.get(path).headers["ETag"] in tags


def test_waiting_with_a_tag(queued):
    daemon, job = queued
    tag = daemon.api.get(f"/v1/jobs/{job}").headers["ETag"]
    answer, took = wait_for(daemon.api, job, 1, 304, **{"If-None-Match": tag})
    assert took > 0.9 and answer.headers[APPLIED] == "wait=1"
    daemon.api.cancel(job)
    answer, took = wait_for(daemon.api, job, 4, **{"If-None-Match": tag})
    assert took < 3.9 and answer.headers["ETag"] != tag


def test_a_connection_goes_on_after_304(queued):
    daemon, job = queued
    with Raw(daemon.base) as raw:
        raw.request("GET", f"/v1/jobs/{job}")
        first = raw.answer()
        for _ in range(3):
            raw.request("GET", f"/v1/jobs/{job}", [f"If-None-Match: {first.headers['ETag']}"])
            answer = raw.answer(head_only=True)
            assert answer.status == 304
            assert answer.headers["Content-Length"] == first.headers["Content-Length"]
        raw.request("GET", f"/v1/jobs/{job}")
        assert json.loads(raw.answer().body)["id"] == job
