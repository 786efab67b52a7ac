"""Requests under an Idempotency-Key are done once, however often they are sent."""

import concurrent.futures
import json
import time

import pytest

import api as interface
import daemon as programs
import data
import wait
from raw import Raw

CSV = b"a,b,y\n" + b"".join(b"%d,%d,%d\n" % (i, i * i % 7, i % 5) for i in range(40))
REPLAYED = "Idempotency-Replayed"
UPLOAD_HEAD = ["Content-Type: text/csv", "Idempotency-Key: slow"]


def keyed(key, **more):
    return {"Idempotency-Key": key, **more}


def post_csv(api, key, body=CSV, expect=201, **query):
    return api.request("POST", "/v1/datasets", expect, data=body, params=query,
                       headers=keyed(key, **{"Content-Type": "text/csv"}))


def jobs_of(api, model):
    return api.get("/v1/jobs", params={"model": model, "limit": 100}).json()["data"]


def test_a_job_is_queued_once(api, name, regression_dataset):
    spec = {"model": name, "dataset": regression_dataset}
    first = api.post("/v1/jobs", 202, json=spec, headers=keyed(name))
    assert REPLAYED not in first.headers
    api.wait(first.json()["id"])
    again = api.post("/v1/jobs", 202, json=spec, headers=keyed(name))
    assert again.headers[REPLAYED] == "true"
    assert again.content == first.content  # as it was then: queued
    assert again.headers["Location"] == first.headers["Location"]
    other = api.post("/v1/jobs", 202, json=spec, headers=keyed(name + "-2"))
    assert other.json()["id"] != first.json()["id"] and REPLAYED not in other.headers
    assert len(jobs_of(api, name)) == 2


def test_the_answer_says_what_a_look_says(daemons):
    """Made before the row, it is the row's."""
    api = daemons(workers="cpu:0", serve_workers=0).api
    X, y = data.regression(30)
    dataset = api.upload_csv(X, y)
    for priority, position in ((0, 0), (0, 1), (5, 0), (-3, 3), (0, 3)):
        job = api.create("m", dataset, priority=priority, metadata={"a": "b"})
        assert job == api.job(job["id"])
        assert job["queue_position"] == position


def test_another_payload_under_the_same_key(api, name, regression_dataset):
    spec = {"model": name, "dataset": regression_dataset}
    api.post("/v1/jobs", 202, json=spec, headers=keyed(name))
    for other in ({**spec, "seed": 1}, {**spec, "model": name + "x"}):
        answer = api.post("/v1/jobs", 422, json=other, headers=keyed(name))
        assert interface.problem_pointers(answer) == ["#/header/idempotency-key"]
    assert len(jobs_of(api, name)) == 1 and jobs_of(api, name + "x") == []


def test_a_refusal_is_not_kept(api, name, regression_dataset):
    spec = {"model": name, "dataset": regression_dataset}
    api.post("/v1/jobs", 422, json={**spec, "seed": -1}, headers=keyed(name))
    answer = api.post("/v1/jobs", 202, json=spec, headers=keyed(name))
    assert REPLAYED not in answer.headers


@pytest.mark.parametrize("key", ["", "two words", "é", "x" * 256])
def test_what_is_no_key(api, name, regression_dataset, key):
    spec = json.dumps({"model": name, "dataset": regression_dataset}).encode()
    with Raw(api.base) as raw:
        raw.request("POST", "/v1/jobs", [f"Idempotency-Key: {key}", "Content-Type: application/json",
                                         f"Content-Length: {len(spec)}"], spec)
        answer = raw.answer()
        assert answer.status == 422
        assert json.loads(answer.body)["errors"][0]["pointer"] == "#/header/idempotency-key"
    assert jobs_of(api, name) == []


def test_the_longest_key_and_two_of_them(api, name, regression_dataset):
    spec = {"model": name, "dataset": regression_dataset}
    api.post("/v1/jobs", 202, json=spec, headers=keyed((name + "!" * 255)[:255]))
    body = json.dumps(spec).encode()
    with Raw(api.base) as raw:
        raw.request("POST", "/v1/jobs", ["Idempotency-Key: a", "Idempotency-Key: b",
                                         f"Content-Length: {len(body)}"], body)
        assert raw.answer().status == 422


def test_a_data_set_is_made_once(api, name):
    first = post_csv(api, name, name="once")
    again = post_csv(api, name, name="once")
    assert again.content == first.content and again.headers[REPLAYED] == "true"
    assert again.headers["Location"] == first.headers["Location"]
    for body, query in ((CSV + b"1,2,3\n", {"name": "once"}), (CSV, {"name": "twice"}), (CSV, {})):
        answer = post_csv(api, name, body, 422, **query)
        assert interface.problem_pointers(answer) == ["#/header/idempotency-key"]
    listed = [d for d in api.get("/v1/datasets", params={"limit": 100}).json()["data"]
              if d["name"] == "once"]
    assert [d["id"] for d in listed] == [first.json()["id"]]


def test_the_same_key_for_another_operation(api, name):
    dataset = post_csv(api, name).json()["id"]
    answer = api.post("/v1/jobs", 202, json={"model": name, "dataset": dataset},
                      headers=keyed(name))
    assert REPLAYED not in answer.headers


def test_a_broken_upload_is_not_kept(api, name):
    post_csv(api, name, b"a,y\n1,2\n3,x,4\n", expect=422)
    assert REPLAYED not in post_csv(api, name).headers


# Imports of models.

TENSORS = {"Content-Type": "application/vnd.safetensors"}


@pytest.fixture(scope="module")
def exports(api, regression_dataset):
    """Two models, exported."""
    for count in (40, 50):
        X, y = data.regression(count, seed=count)
        api.train("exported", api.upload_npz(X, y))
    return [api.get(f"/v1/models/exported/versions/{v}/export").content for v in (1, 2)]


def put_model(api, name, key, body, expect=201):
    return api.request("POST", f"/v1/models/{name}/import", expect, data=body,
                       headers=keyed(key, **TENSORS))


def test_a_model_is_imported_once(api, name, exports):
    first = put_model(api, name, name, exports[0])
    assert first.json() == api.get(f"/v1/models/{name}/versions/1").json()
    again = put_model(api, name, name, exports[0])
    assert again.content == first.content and again.headers[REPLAYED] == "true"
    assert again.headers["Location"] == first.headers["Location"] == f"/v1/models/{name}/versions/1"
    for other, body in ((name, exports[1]), (name + "-2", exports[0]), (name, b"broken")):
        answer = put_model(api, other, name, body, 422)
        assert interface.problem_pointers(answer) == ["#/header/idempotency-key"]
    assert len(api.get(f"/v1/models/{name}").json()["versions"]) == 1
    assert REPLAYED not in put_model(api, name, name + "-2", exports[0]).headers  # a version more
    assert len(api.get(f"/v1/models/{name}").json()["versions"]) == 2


def test_the_longest_name_comes_back_whole(api, exports):
    name = "n" * 64
    first, again = (put_model(api, name, "long", exports[0]) for _ in range(2))
    assert again.headers[REPLAYED] == "true"
    assert again.headers["Location"] == first.headers["Location"] == f"/v1/models/{name}/versions/1"


def test_a_refused_import_is_not_kept(api, name, exports):
    put_model(api, name, name, exports[0][:-9], 422)
    assert REPLAYED not in put_model(api, name, name, exports[0]).headers


def test_one_import_at_a_time_under_a_key(daemons, exports):
    daemon = daemons(workers="cpu:0", serve_workers=0)
    api, body = daemon.api, exports[0]
    head = ["Content-Type: application/vnd.safetensors", "Idempotency-Key: k",
            f"Content-Length: {len(body)}"]
    with Raw(api.base) as slow:
        slow.request("POST", "/v1/models/m/import", head, body[:50])
        end = time.monotonic() + 20
        # The first may not have been seen yet: then the second is it, and refused for its body.
        while put_model(api, "m", "k", b"broken", None).status_code != 409:
            assert time.monotonic() < end
        slow.send(body[50:])
        first = slow.answer()
        assert first.status == 201
    daemon.kill()
    daemon.start()
    again = put_model(daemon.api, "m", "k", body)
    assert again.content == first.body and again.headers[REPLAYED] == "true"
    assert len(daemon.api.get("/v1/models/m").json()["versions"]) == 1


def wait_uploads(api, count, headers=None):
    wait.until_metric(api, "krrd_uploads", count, headers)


def test_conflict_while_the_first_is_under_way(daemons):
    api = daemons(workers="cpu:0", serve_workers=0).api
    with Raw(api.base) as slow:
        slow.request("POST", "/v1/datasets", [*UPLOAD_HEAD, f"Content-Length: {len(CSV)}"], CSV[:50])
        wait_uploads(api, 1)
        post_csv(api, "slow", expect=409)
        slow.send(CSV[50:])
        first = slow.answer()
        assert first.status == 201
    assert post_csv(api, "slow").content == first.body
    assert len(api.get("/v1/datasets").json()["data"]) == 1


def test_a_client_that_leaves_frees_its_key(daemons):
    api = daemons(workers="cpu:0", serve_workers=0).api
    with Raw(api.base) as slow:
        slow.request("POST", "/v1/datasets", [*UPLOAD_HEAD, f"Content-Length: {len(CSV)}"], CSV[:50])
        wait_uploads(api, 1)
        post_csv(api, "slow", expect=409)
    end = time.monotonic() + 20
    while (answer := post_csv(api, "slow", expect=None)).status_code != 201:
        assert answer.status_code == 409 and time.monotonic() < end, answer.text
        time.sleep(0.05)
    assert len(api.get("/v1/datasets").json()["data"]) == 1


def test_keys_survive_a_kill(daemons):
    daemon = daemons(workers="cpu:0", serve_workers=0)
    dataset = post_csv(daemon.api, "upload")
    spec = {"model": "m", "dataset": dataset.json()["id"]}
    job = daemon.api.post("/v1/jobs", 202, json=spec, headers=keyed("k"))
    daemon.kill()
    daemon.start()
    again = daemon.api.post("/v1/jobs", 202, json=spec, headers=keyed("k"))
    assert again.content == job.content and again.headers[REPLAYED] == "true"
    assert post_csv(daemon.api, "upload").content == dataset.content
    assert len(jobs_of(daemon.api, "m")) == 1


def test_keys_of_others(daemons, tmp_path):
    """What one client was answered is nobody else's answer, and keeps nobody's key from him."""
    file = tmp_path / "keys"
    alice, bob = ({"Authorization": f"Bearer {programs.make_key(file, name, 'train')}"}
                  for name in ("alice", "bob"))
    daemon = daemons(workers="cpu:0", serve_workers=0, api_keys=file)
    api = daemon.api

    def post(who, **more):
        return api.post("/v1/jobs", 202, json={"model": "m", "dataset": dataset, **more},
                        headers=keyed("k", **who))

    dataset = api.request("POST", "/v1/datasets", 201, data=CSV,
                          headers=keyed("k", **{"Content-Type": "text/csv"}, **alice)).json()["id"]
    first = post(alice)
    second = post(bob, seed=7)  # another payload under a key that is his own
    assert REPLAYED not in second.headers and second.json()["id"] != first.json()["id"]
    daemon.kill()
    daemon.start()
    api = daemon.api
    assert post(alice).content == first.content
    assert post(bob, seed=7).content == second.content
    length = f"Content-Length: {len(CSV)}"
    with Raw(daemon.base) as slow:
        slow.request("POST", "/v1/datasets", [*UPLOAD_HEAD, length, f"Authorization: {alice['Authorization']}"],
                     CSV[:50])

        def upload(who):
            return api.request("POST", "/v1/datasets", data=CSV,
                               headers=keyed("slow", **{"Content-Type": "text/csv"}, **who))

        wait_uploads(api, 1, alice)
        assert upload(alice).status_code == 409
        assert upload(bob).status_code == 201


def test_keys_expire(daemons):
    api = daemons(workers="cpu:0", serve_workers=0, idempotency_ttl_s=1).api
    dataset = post_csv(api, "d").json()["id"]
    spec = {"model": "m", "dataset": dataset}
    api.post("/v1/jobs", 202, json=spec, headers=keyed("k"))
    assert len(jobs_of(api, "m")) == 1
    wait.until(lambda: REPLAYED not in api.post("/v1/jobs", 202, json=spec, headers=keyed("k")).headers)
    assert len(jobs_of(api, "m")) == 2


def test_many_at_once_make_one_job(daemons):
    daemon = daemons(workers="cpu:0", serve_workers=0)
    X, y = data.regression(30)
    body = {"model": "m", "dataset": daemon.api.upload_csv(X, y)}

    def send(_):
        return daemon.api.post("/v1/jobs", 202, json=body, headers=keyed("k")).content

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(send, range(40)))) == 1
    assert len(jobs_of(daemon.api, "m")) == 1
