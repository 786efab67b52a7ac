"""Query parameters: what is not understood is refused, whatever the route."""

import re

import pytest

import contract
import data


def parameters_of(operation, template):
    item = contract.DOCUMENT["paths"][template]
    both = [contract.resolve(p) for p in item.get("parameters", []) + operation.get("parameters", [])]
    return [p for p in both if p["in"] == "query"]


def refused(api, method, path, query, pointer):
    answer = api.request(method, path + "?" + query, 422)
    assert answer.json()["errors"][0]["pointer"] == pointer, (method, path, query)
    return answer.json()["detail"]


@pytest.mark.parametrize("method, template", sorted(contract.operations()))
def test_unknown_and_repeated(api, method, template):
    path = re.sub(r"\{\w+\}", "1", template)
    assert '"nonsense"' in refused(api, method, path, "nonsense=1", "#/query/nonsense")
    for parameter in parameters_of(contract.operations()[(method, template)], template):
        name, schema = parameter["name"], contract.resolve(parameter["schema"])
        if schema.get("type") == "object":
            name += ".k"
        twice = f"{name}=1&{name}=1"
        if schema.get("type") != "array":
            assert "once" in refused(api, method, path, twice, f"#/query/{name}")
        refused(api, method, path, f"{twice}&other=1",
                "#/query/other" if schema.get("type") == "array" else f"#/query/{name}")
        refused(api, method, path, f"{name}x=1".replace(".kx", "x"), f"#/query/{name}x".replace(".kx", "x"))


def test_names_that_do_not_fit_are_cut(api):
    for name in ("x" * 4000, "é" * 600, "😀" * 300):
        answer = api.get("/v1/jobs", 422, params={name: "1"})
        assert answer.json()["errors"][0]["pointer"].startswith("#/query/" + name[:10])


@pytest.fixture(scope="module")
def some_jobs(tmp_path_factory):
    """Jobs that stay queued, paused or cancelled: {name: id}, and the interface to them."""
    import daemon as daemon_module

    daemon = daemon_module.Daemon(tmp_path_factory.mktemp("queries"), workers="cpu:0",
                                  serve_workers=0)
    api = daemon.api
    X, y = data.regression(30)
    dataset = api.upload_csv(X, y)
    wanted = {
        "a": ("m", {"team": "red", "run": "1"}),
        "b": ("m", {"team": "red", "run": "2"}),
        "c": ("m", {"team": "blue", "run": "1", "é \"'\\%_": "ü \"x\""}),
        "d": ("n", {"team": "red", "run": "1"}),
        "e": ("n", {}),
    }
    ids = {key: api.create(model, dataset, metadata=metadata)["id"]
           for key, (model, metadata) in wanted.items()}
    api.cancel(ids["b"])
    for key in ("c", "e"):
        api.post(f"/v1/jobs/{ids[key]}/pause")
    yield api, ids
    daemon.close()


def listed(some_jobs, *pairs, limit=None):
    api, ids = some_jobs
    names = {job_id: key for key, job_id in ids.items()}
    page = api.get("/v1/jobs", params=[*pairs, *([("limit", limit)] if limit else [])]).json()
    found = [job["id"] for job in page["data"]]
    while page["has_more"]:
        page = api.get("/v1/jobs", params=[*pairs, ("limit", limit), ("after", page["last_id"])]).json()
        found += [job["id"] for job in page["data"]]
    return "".join(names[job_id] for job_id in found)


@pytest.mark.parametrize("limit", [None, 1, 2])
def test_filters(some_jobs, limit):
    def found(*pairs):
        return listed(some_jobs, *pairs, limit=limit)

    queued, paused = ("status", "queued"), ("status", "paused")
    assert found() == "edcba"
    assert found(queued) == "da" and found(paused) == "ec"
    assert found(queued, paused) == "edca" and found(paused, queued, queued) == "edca"
    assert found(queued, ("status", "cancelled"), ("status", "running")) == "dba"
    assert found(paused, queued, ("model", "m")) == "ca"
    assert found(("model", "n")) == "ed" and found(("model", "n"), paused) == "e"
    assert found(("metadata.team", "red")) == "dba"
    assert found(("metadata.team", "red"), ("metadata.run", "1")) == "da"
    assert found(("metadata.run", "1"), ("metadata.team", "red"), ("model", "m")) == "a"
    assert found(("metadata.team", "red"), ("status", "cancelled"), paused) == "b"
    assert found(("metadata.team", "Red")) == found(("metadata.tea", "red")) == ""
    assert found(("metadata.team", "red"), ("metadata.none", "1")) == ""
    assert found(("metadata.é \"'\\%_", "ü \"x\"")) == "c"


def test_filters_that_are_refused(some_jobs):
    api, _ = some_jobs
    for pairs, pointer in [
            ([("status", "queued"), ("status", "done")], "#/query/status"),
            ([("status", "")], "#/query/status"),
            ([("metadata", "x")], "#/query/metadata"),
            ([("metadata.", "x")], "#/query/metadata."),
            ([("after", "m")], "#/query/after"),
            ([("after", "ds_00000000000000000000000000")], "#/query/after"),
            ([(f"metadata.k{i}", "x") for i in range(17)], "#/query/metadata")]:
        problem = api.get("/v1/jobs", 422, params=pairs).json()
        assert problem["errors"][0]["pointer"] == pointer
    api.get("/v1/jobs", params=[(f"metadata.k{i}", "x") for i in range(16)])


def test_deleted_jobs_are_not_found(daemons):
    api = daemons(workers="cpu:0", serve_workers=0).api
    X, y = data.regression(30)
    job = api.create("m", api.upload_csv(X, y), metadata={"k": "v"})["id"]
    found = {"metadata.k": "v"}
    assert [j["id"] for j in api.get("/v1/jobs", params=found).json()["data"]] == [job]
    api.cancel(job)
    api.delete(f"/v1/jobs/{job}")
    assert api.get("/v1/jobs", params=found).json()["data"] == []


def test_the_queue_in_its_own_order(daemons):
    api = daemons(workers="cpu:0", serve_workers=0).api
    X, y = data.regression(30)
    dataset = api.upload_csv(X, y)
    ids = [api.create("m", dataset, priority=priority)["id"] for priority in (0, 5, 0, -3, 5)]
    wanted = [ids[i] for i in (1, 4, 0, 2, 3)]

    def found(limit, *more):
        seen, after, jobs = [], {}, []
        while not seen or seen[-1]["has_more"]:
            seen.append(api.get("/v1/jobs", params={"order": "queue", "limit": limit, **dict(more), **after}).json())
            after = {"after": seen[-1]["last_id"]}
            jobs += seen[-1]["data"]
        assert [job["queue_position"] for job in jobs] == list(range(len(jobs)))
        return [job["id"] for job in jobs]

    assert found(100) == found(2) == found(1, ("status", "queued")) == wanted
    assert [job["id"] for job in api.get("/v1/jobs?order=newest").json()["data"]] == ids[::-1]
    api.cancel(wanted[1])
    rest = api.get("/v1/jobs", params={"order": "queue", "after": wanted[1]}).json()["data"]
    assert [job["id"] for job in rest] == wanted[2:]
    api.delete(f"/v1/jobs/{wanted[1]}")
    refused(api, "GET", "/v1/jobs", f"order=queue&after={wanted[1]}", "#/query/after")
    for query in ("order=oldest", "order=", "order=queue&model=m", "order=queue&status=failed", "order=queue&metadata.a=b",
                  "order=queue&status=queued&status=running"):
        refused(api, "GET", "/v1/jobs", query, "#/query/order")
