"""Models: what is told of them, versions, load and unload."""

import concurrent.futures
import random
import time

import numpy as np
import pytest

import contract
import data


@pytest.fixture(scope="module")
def trained(api):
    """A regression model of two versions."""
    X, y = data.regression(90, seed=20)
    dataset = api.upload_npz(X, y)
    jobs = [api.train("twice", dataset, kernel={"name": "gaussian", "bandwidth": width},
                      regularization=1e-4, seed=5, test={"fraction": 0.1}) for width in (1.0, 4.0)]
    return jobs, X


def test_description(api, trained):
    jobs, _ = trained
    model = api.get("/v1/models/twice/versions/2").json()
    assert (model["name"], model["version"]) == ("twice", 2)
    assert model["job"] == jobs[1]["id"] and model["dataset"] == jobs[1]["dataset"]
    assert len(model["sha256"]) == 64 and model["bytes"] > 81 * 4 * 8
    assert jobs[1]["started_at"] <= model["created_at"] <= jobs[1]["finished_at"]
    description = model["description"]
    assert description["kernel"]["name"] == "gaussian"
    assert description["kernel"]["bandwidth"] == 4.0
    assert description["task"] == "regression"
    assert description["features"] == api.get(f"/v1/datasets/{model['dataset']}").json()["features"]
    assert description["result"] == jobs[1]["result"]
    assert (description["seed"], description["regularization"]) == (5, 1e-4)


def test_versions_newest_first(api, trained):
    model = api.get("/v1/models/twice").json()
    assert [v["version"] for v in model["versions"]] == [2, 1]
    assert model["versions"][1] == api.get("/v1/models/twice/versions/1").json()


def test_list_is_by_name_with_the_newest_version(api, name, trained, regression_dataset):
    for suffix in ("b", "a", "c"):
        api.train(f"{name}.{suffix}", regression_dataset, kernel="linear")
    models, after = [], None
    while True:
        page = api.get("/v1/models", params={"limit": 2, "after": after}).json()
        models += page["data"]
        assert len(page["data"]) <= 2
        after = page["last_id"]
        if not page["has_more"]:
            break
    names = [m["name"] for m in models]
    assert names == sorted(set(names))
    assert {f"{name}.a", f"{name}.b", f"{name}.c", "twice"} <= set(names)
    assert [m["version"] for m in models if m["name"] == "twice"] == [2]
    for query in ({"limit": 0}, {"limit": 101}, {"name": "x"}):
        api.get("/v1/models", 422, params=query)
    for after in ("", " ", "a/b", "-a", "a" * 65, "é"):
        refused = api.get("/v1/models", 422, params={"after": after}).json()
        assert refused["errors"][0]["pointer"] == "#/query/after"


def test_load_and_unload(api, trained):
    path = "/v1/models/twice/versions/1"
    api.post(path + "/unload")
    assert api.get(path).json()["state"] == "unloaded"
    assert api.post(path + "/load").json()["state"] == "loaded"
    assert api.post(path + "/load").json()["state"] == "loaded"
    assert api.get(path).json()["state"] == "loaded"
    row = trained[1][:1]
    first = api.predict("twice", row, version=1).text
    assert api.post(path + "/unload").json()["state"] == "unloaded"
    assert api.post(path + "/unload").json()["state"] == "unloaded"
    # The first prediction loads it again, with the same bits.
    assert api.predict("twice", row, version=1).text == first
    assert api.get(path).json()["state"] == "loaded"


@pytest.mark.parametrize("path", [
    "nobody", "nobody/versions/1", "twice/versions/3", "twice/versions/0", "twice/versions/01",
    "twice/versions/-1", "twice/versions/x", "twice/versions/99999999999999999999", "a%2fb",
    "twice'--"])
def test_unknown_models(api, trained, path):
    problem = api.get(f"/v1/models/{path}", 404).json()
    assert problem["code"] == "not_found"
    if "/versions/" in path:
        api.post(f"/v1/models/{path}/load", 404)
        api.post(f"/v1/models/{path}/unload", 404)
        api.request("DELETE", f"/v1/models/{path}", 404)
    api.post(f"/v1/models/{path}/predict", 404, json={"instances": [[1, 2, 3, 4]]})


def test_what_is_missing_is_said(api, trained):
    """The model, or the version of one that there is."""
    row = {"instances": [[1, 2, 3, 4]]}
    path = "/v1/models/twice/versions/99"
    for answer in (api.get(path, 404), api.request("DELETE", path, 404), api.post(f"{path}/predict", 404, json=row),
                   api.post(f"{path}/load", 404), api.request("PUT", "/v1/models/twice/aliases/p", 404,
                                                              json={"version": 99}),
                   api.get("/v2/models/twice/versions/99", 404)):
        assert 'The model "twice" has no version 99.' in answer.text.replace('\\"', '"')
    assert api.get("/v1/models/nobody/versions/99", 404).json()["detail"] == "There is no such model."


def test_delete_versions(api, name, regression_dataset):
    for _ in range(3):
        api.train(name, regression_dataset, kernel="linear")
    row = [[1.0, 2.0, 3.0, 4.0]]
    assert api.predict(name, row).json()["version"] == 3
    api.delete(f"/v1/models/{name}/versions/3")
    api.request("DELETE", f"/v1/models/{name}/versions/3", 404)
    assert api.predict(name, row).json()["version"] == 2
    api.predict(name, row, version=3, expect=404)
    # A number is not used again.
    assert api.train(name, regression_dataset, kernel="linear")["model_version"] == 4
    for version in (1, 2, 4):
        api.delete(f"/v1/models/{name}/versions/{version}")
    api.get(f"/v1/models/{name}", 404)
    api.predict(name, row, expect=404)
    assert api.train(name, regression_dataset, kernel="linear")["model_version"] == 5


def test_a_model_outlives_its_dataset(api, name):
    X, y = data.regression(50, seed=21)
    dataset = api.upload_npz(X, y)
    api.train(name, dataset, kernel="gaussian")
    api.delete(f"/v1/datasets/{dataset}")
    assert api.get(f"/v1/models/{name}/versions/1").json()["dataset"] == dataset
    assert len(api.predict(name, X).json()["predictions"]) == 50


def test_unloading_in_the_midst_of_loading(api, name):
    """A prediction meets the model or its unloading, never a worker that half knows it."""
    X = np.random.default_rng(22).normal(size=(600, 2000))
    path = f"/v1/models/{name}/versions/1"
    api.train(name, api.upload_npz(X, X[:, 0]), kernel="linear", solver="cholesky")
    end = time.monotonic() + 4

    def unload():
        with contract.Session() as session:
            while time.monotonic() < end:
                session.post(api.url(path + "/unload"))
                time.sleep(random.uniform(0, 0.03))

    def ask():
        found = set()
        with contract.Session() as session:
            while time.monotonic() < end:
                answer = session.post(api.url(path + "/predict"), json={"instances": X[:1].tolist()})
                found.add((answer.status_code, answer.json().get("detail")))
        return found

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        pool.submit(unload), pool.submit(unload)
        found = pool.submit(ask).result() | pool.submit(ask).result()
    assert found <= {(200, None), (409, "The model was unloaded.")}
