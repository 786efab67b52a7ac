"""Aliases: names that stand for a version, moved in one step, with history and rollback."""

import concurrent.futures
import threading

import pytest

import contract
import data
import raw


@pytest.fixture(scope="module")
def versions(api):
    """Four versions of a model that predict differently, and rows to ask with."""
    X, y = data.regression(60, seed=31)
    dataset = api.upload_npz(X, y)
    for width in (0.5, 1.0, 2.0, 4.0):
        api.train("aliased", dataset, kernel={"name": "gaussian", "bandwidth": width},
                  regularization=1e-3)
    return X[:3].tolist()


@pytest.fixture
def alias(name):
    return f"/v1/models/aliased/aliases/{name}"


def put(api, alias, version, expect=200, **headers):
    return api.request("PUT", alias, expect, json={"version": version},
                       headers={k.replace("_", "-"): v for k, v in headers.items()})


def test_a_life(api, versions, alias):
    name = alias.rsplit("/", 1)[1]
    api.get(alias, 404)
    made = put(api, alias, 2, 201)
    assert made.headers["Location"] == alias
    assert made.json() == {"object": "alias", "model": "aliased", "alias": name, "version": 2,
                           "moves": 1, "moved_at": made.json()["moved_at"]}
    assert api.get("/v1/models/aliased/versions/2").json()["state"] == "loaded"
    assert put(api, alias, 2).json() == made.json()  # It stands there already.
    moved = put(api, alias, 4, X_Request_Id="the-one-who-moved-it")
    assert moved.json()["version"] == 4
    shown = api.get(alias)
    assert shown.headers["ETag"] == moved.headers["ETag"] == '"2"'
    history = shown.json()["history"]
    assert [(m["number"], m["kind"], m["from"], m["to"]) for m in history] == [
        (2, "set", 2, 4), (1, "set", None, 2)]
    assert history[0]["request"] == "the-one-who-moved-it"
    assert history[1]["request"] == made.headers["X-Request-Id"]
    assert name in [a["alias"] for a in api.get("/v1/models/aliased/aliases").json()["data"]]
    assert name in [a["alias"] for a in api.get("/v1/models/aliased").json()["aliases"]]
    assert name in api.get("/v1/models/aliased/versions/4").json()["aliases"]
    assert name not in api.get("/v1/models/aliased/versions/2").json()["aliases"]
    api.delete(alias)
    api.get(alias, 404)
    api.request("DELETE", alias, 404)
    api.post(alias + "/rollback", 404)
    assert put(api, alias, 1, 201).json()["moves"] == 4
    assert [m["kind"] for m in api.get(alias).json()["history"]] == ["set", "delete", "set", "set"]


def test_predictions_by_alias(api, versions, alias):
    api.post(alias + "/predict", 404, json={"instances": versions})
    for version in (1, 3):
        put(api, alias, version, None)
        answer = api.post(alias + "/predict", json={"instances": versions}).json()
        assert answer == api.predict("aliased", versions, version=version).json()
        assert answer["version"] == version


def test_rollbacks(api, versions, alias):
    for version in (1, 2, 3):
        put(api, alias, version, None)
    assert api.post(alias + "/rollback").json()["version"] == 2
    tag = api.get(alias).headers["ETag"]
    answer = api.post(alias + "/rollback", headers={"If-Match": tag})
    assert (answer.json()["version"], answer.headers["ETag"]) == (1, '"5"')
    assert "no earlier version" in api.post(alias + "/rollback", 409).json()["detail"]
    api.post(alias + "/rollback", 412, headers={"If-Match": tag})
    assert api.get(alias).json()["history"][0]["kind"] == "rollback"


def test_compare_and_swap(api, versions, alias):
    put(api, alias, 1, 412, If_Match="*")
    put(api, alias, 1, 412, If_Match='"1"')
    put(api, alias, 1, 201, If_None_Match="*")
    put(api, alias, 2, 412, If_None_Match="*")
    put(api, alias, 2, 412, If_Match='"2"')
    put(api, alias, 2, 412, If_Match='1')
    put(api, alias, 2, 412, If_Match='W/"1"')
    assert put(api, alias, 2, If_Match='"0", "1"').headers["ETag"] == '"2"'
    assert put(api, alias, 3, If_Match="*").headers["ETag"] == '"3"'
    api.request("DELETE", alias, 412, headers={"If-Match": '"2"'})
    problem = put(api, alias, 1, 412, If_Match='"2"').json()
    assert "not what the request expects" in problem["detail"]
    api.delete(alias, headers={"If-Match": '"3"'})


def test_tags_over_several_lines(api, versions, alias):
    put(api, alias, 1, 201)
    body = b'{"version": 2}'
    length = f"Content-Length: {len(body)}"
    with raw.Raw(api.base) as c:
        for tags, status in [(['"7"', '"8"'], 412), (['"7"', '"1"'], 200), (['"2", "3"', '"4"'], 200)]:
            c.request("PUT", alias, [f"If-Match: {tag}" for tag in tags] + [length], body)
            assert c.answer().status == status, tags


def test_of_those_who_saw_the_same_one_moves_it(api, versions, alias):
    put(api, alias, 1, 201)
    start = threading.Barrier(8)

    def move(i):
        with contract.Session() as session:
            start.wait()
            return session.put(api.url(alias), json={"version": 2 + i % 3},
                               headers={"If-Match": '"1"'}).status_code

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = sorted(pool.map(move, range(8)))
    assert found == [200] + 7 * [412]
    assert api.get(alias).json()["moves"] == 2


def test_refusals(api, versions, alias):
    put(api, alias, 5, 404)
    api.request("PUT", alias.replace("aliased", "nobody"), 404, json={"version": 1})
    api.get("/v1/models/nobody/aliases", 404)
    for body in ({}, {"version": 0}, {"version": -1}, {"version": "1"}, {"version": 1.5},
                 {"version": None}, {"version": 1, "x": 2}, [1], 3):
        problem = api.request("PUT", alias, 422, json=body).json()
        assert problem["errors"], body
    api.request("PUT", alias, 400, data="{", headers={"Content-Type": "application/json"})
    api.request("PUT", alias, 415, data="version=1", headers={"Content-Type": "text/plain"})
    for bad in ("-a", "a%20b", "x" * 65, "%C3%A9"):
        api.request("PUT", f"/v1/models/aliased/aliases/{bad}", 422, json={"version": 1})
    api.get(alias, 404)


def test_a_version_with_an_alias_stays(api, name, regression_dataset):
    for _ in range(2):
        api.train(name, regression_dataset, kernel="linear")
    alias = f"/v1/models/{name}/aliases/prod"
    put(api, alias, 1, 201)
    put(api, alias, 2)
    problem = api.request("DELETE", f"/v1/models/{name}/versions/2", 409).json()
    assert '"prod"' in problem["detail"]
    api.post(alias + "/rollback")
    api.delete(f"/v1/models/{name}/versions/2")
    api.request("DELETE", f"/v1/models/{name}/versions/1", 409)
    api.delete(alias)
    api.delete(f"/v1/models/{name}/versions/1")
    api.get(f"/v1/models/{name}/aliases", 404)


def test_aliases_and_their_versions_survive_a_kill(daemons):
    daemon = daemons()
    api = daemon.api
    X, y = data.regression(60, seed=32)
    dataset = api.upload_npz(X, y)
    for _ in range(3):
        api.train("m", dataset, kernel="linear")
    put(api, "/v1/models/m/aliases/prod", 1, 201)
    put(api, "/v1/models/m/aliases/prod", 2)
    before = api.get("/v1/models/m/aliases/prod").json()
    daemon.kill()
    daemon.start()
    api = daemon.api
    assert api.get("/v1/models/m/aliases/prod").json() == before
    api.worker_pid("serve", "idle")
    states = {}
    for _ in range(200):
        states = {v["version"]: v["state"] for v in api.get("/v1/models/m").json()["versions"]}
        if states[2] == "loaded":
            break
    assert states == {1: "unloaded", 2: "loaded", 3: "unloaded"}


def test_a_move_where_nothing_can_be_loaded(daemons, tmp_path):
    """The version's bytes are damaged in the store: it cannot be loaded, and the alias stays."""
    import sqlite3

    daemon = daemons()
    api = daemon.api
    X, y = data.regression(60, seed=33)
    dataset = api.upload_npz(X, y)
    for _ in range(2):
        api.train("m", dataset, kernel="linear")
    put(api, "/v1/models/m/aliases/prod", 1, 201)
    with sqlite3.connect(daemon.data_dir / "krrd.db") as database:
        database.execute("UPDATE model_chunks SET data = zeroblob(length(data)) WHERE model = "
                         "(SELECT key FROM models WHERE version = 2)")
    problem = put(api, "/v1/models/m/aliases/prod", 2, 409).json()
    assert "version 2 cannot be loaded" in problem["detail"]
    assert api.get("/v1/models/m/aliases/prod").json()["version"] == 1
    assert api.post("/v1/models/m/aliases/prod/predict",
                    json={"instances": X[:2].tolist()}).json()["version"] == 1
