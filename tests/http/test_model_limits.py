"""Limits of a model's predictions: its own, and the daemon's where it has none."""

import time

import pytest

import api as interface
import data
from asking import Asker, Stopped, predict

USUAL = {"batch_rows": 64, "batch_delay_us": 7, "queue": 50, "deadline_s": None, "own": []}


@pytest.fixture
def served(daemons):
    """A daemon with the models "m" and "other"."""
    daemon = daemons(serve_batch_rows=64, serve_batch_delay_us=7, serve_model_queue=50)
    X, y = data.regression(60, seed=50)
    dataset = daemon.api.upload_npz(X, y)
    for model in ("m", "other"):
        daemon.api.train(model, dataset, kernel={"name": "gaussian", "bandwidth": 2.0})
    return daemon


def row(seed=1):
    return data.regression(1, seed=seed)[0].tolist()


def put(api, limits, model="m", expect=200):
    return api.request("PUT", f"/v1/models/{model}/limits", expect, json=limits)


def expected(model="m", **own):
    return {"object": "model_limits", "model": model, **USUAL, **own,
            "own": [key for key in USUAL if key in own]}


def test_what_is_not_set_is_the_daemons(served):
    api = served.api
    assert api.get("/v1/models/m/limits").json() == expected()
    for limits in ({"queue": 3}, {"batch_rows": 5, "batch_delay_us": 0, "deadline_s": 0.25}, {"deadline_s": 1.1}):
        assert put(api, limits).json() == expected(**limits)
        assert api.get("/v1/models/m/limits").json() == expected(**limits)
        assert api.get("/v1/models/m").json()["limits"] == expected(**limits)
    assert api.get("/v1/models/other/limits").json() == expected("other")
    assert put(api, {"queue": None}).json() == expected()


def test_they_stay(served):
    """Over a restart, and with new versions, until the model is gone."""
    put(served.api, {"queue": 3, "deadline_s": 2.5})
    served.kill()
    served.start()
    api = served.api
    assert api.get("/v1/models/m/limits").json() == expected(queue=3, deadline_s=2.5)
    content = api.get("/v1/models/m/versions/1/export").content
    again = {"data": content, "headers": {"Content-Type": "application/vnd.safetensors"}}
    api.post("/v1/models/m/import", 201, **again)
    api.delete("/v1/models/m/versions/1")
    assert api.get("/v1/models/m/limits").json()["queue"] == 3
    api.delete("/v1/models/m/versions/2")
    api.get("/v1/models/m/limits", 404)
    api.post("/v1/models/m/import", 201, **again)
    assert api.get("/v1/models/m/limits").json() == expected()


def test_the_protocol_tells_them(served):
    api = served.api
    put(api, {"batch_rows": 9, "batch_delay_us": 11, "queue": 13, "deadline_s": 0.5})
    for path in ("/v2/models/m/config", "/v2/models/m/versions/1/config"):
        assert api.get(path).json()["dynamic_batching"] == {
            "preferred_batch_size": [9], "max_queue_delay_microseconds": 11,
            "default_queue_policy": {"timeout_action": "REJECT", "default_timeout_microseconds": 500_000,
                                     "allow_timeout_override": True, "max_queue_size": 13}}
    policy = api.get("/v2/models/other/config").json()["dynamic_batching"]["default_queue_policy"]
    assert policy["default_timeout_microseconds"] == 0 and policy["max_queue_size"] == 50


@pytest.mark.parametrize("limits, pointer", [
    ({"batch_rows": 0}, "#/batch_rows"),
    ({"batch_rows": 1048577}, "#/batch_rows"),
    ({"batch_rows": 1.5}, "#/batch_rows"),
    ({"batch_rows": "9"}, "#/batch_rows"),
    ({"batch_delay_us": -1}, "#/batch_delay_us"),
    ({"batch_delay_us": 10000001}, "#/batch_delay_us"),
    ({"queue": 0}, "#/queue"),
    ({"queue": True}, "#/queue"),
    ({"deadline_s": 0}, "#/deadline_s"),
    ({"deadline_s": 86401}, "#/deadline_s"),
    ({"deadline_s": "1"}, "#/deadline_s"),
    ({"priority": 1}, "#/priority"),
    ([], "#"),
])
def test_bad_limits_change_nothing(api, name, regression_dataset, limits, pointer):
    api.train(name, regression_dataset)
    put(api, {"queue": 5}, name)
    answer = put(api, limits, name, 422)
    assert interface.problem_pointers(answer) == [pointer]
    assert api.get(f"/v1/models/{name}/limits").json()["own"] == ["queue"]


def test_no_such_model(api):
    put(api, {"queue": 5}, "nobody", 404)
    api.get("/v1/models/nobody/limits", 404)


@pytest.mark.parametrize("queue", [1, 50])
def test_a_queue_of_its_own(served, queue):
    """What is loaded already has the new limits at once; the other model keeps the daemon's. It is the model's limit that
    is met, also where the daemon's is the same number."""
    api = served.api
    for model in ("m", "other"):
        api.predict(model, row())
    put(api, {"queue": queue})
    with Asker(api) as asker:
        with Stopped(api, asker, "m") as stopped:
            asked = [asker.ask(predict, "m", row()) for _ in range(queue)]
            stopped.until_asked(1 + queue)
            refused = api.predict("m", row(), expect=429)
            assert '(its limit "queue")' in refused.json()["detail"]
            others = [asker.ask(predict, "other", row()) for _ in range(2)]
            stopped.until_asked(3 + queue)
        for one in (stopped.away, *asked, *others):
            one.result()


def test_a_deadline_of_its_own(served):
    api = served.api
    for model in ("m", "other"):
        api.predict(model, row())
    put(api, {"deadline_s": 0.2})
    with Asker(api) as asker:
        with Stopped(api, asker, "other") as stopped:
            began = time.monotonic()
            api.predict("m", row(), expect=504)
            assert time.monotonic() - began >= 0.2
        stopped.away.result()
    put(api, {})
    api.predict("m", row())


def test_rows_of_a_batch(served):
    """Twelve questions that wait together go in batches of at most four rows."""
    api = served.api
    put(api, {"batch_rows": 4, "batch_delay_us": 0})

    def executions():
        return api.get("/v2/models/m/stats").json()["model_stats"][0]["execution_count"]

    with Asker(api) as asker:
        with Stopped(api, asker, "m") as stopped:
            before = executions()
            asked = [asker.ask(predict, "m", row()) for _ in range(12)]
            stopped.until_asked(13)
        for one in asked:
            one.result()
    assert executions() - before == 3
