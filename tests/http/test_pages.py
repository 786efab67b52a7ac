"""Lists of what describes much: a page ends where it has grown large, and its cursor gives the rest."""

import json
import os
import subprocess

import numpy as np
import pytest

import daemon as daemon_module
import data

MIB = 2**20
COLUMNS = 12_000
JOBS = 7
NAMES = [f"column-{'x' * 40}-{i}" for i in range(COLUMNS)]  # 0.6 MB


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    daemon = daemon_module.Daemon(tmp_path_factory.mktemp("pages"))
    yield daemon.api
    daemon.close()


@pytest.fixture(scope="module")
def wide(api):
    """A data set of many columns."""
    X = np.random.default_rng(1).integers(0, 9, size=(8, COLUMNS))
    return api.upload_csv(X, X[:, 0] + 0.5, names=NAMES)


def train(api, dataset, count, **spec):
    body = {"kernel": {"name": "linear"}, "regularization": 1e-3, "solver": {"name": "cholesky"}, "test": {"fraction": 0},
            "standardize": {"features": False}, **spec}
    return [api.create("wide", dataset, features=NAMES, **body)["id"] for _ in range(count)]


@pytest.fixture(scope="module")
def jobs(api, wide):
    ids = train(api, wide, JOBS, metadata={"team": "red"})
    for job in ids:
        api.wait(job)
    return ids


def pages(api, path, **query):
    answers, after = [], None
    while True:
        answer = api.get(path, params={**query, "after": after})
        answers.append(answer)
        page = answer.json()
        if not page["has_more"]:
            return answers
        after = page["last_id"]


@pytest.mark.parametrize("query", [{}, {"status": ["succeeded", "failed"]}, {"model": "wide"},
                                   {"metadata.team": "red"}], ids=["all", "status", "model", "metadata"])
def test_a_page_of_jobs_ends_when_it_is_large(api, jobs, query):
    answers = pages(api, "/v1/jobs", limit=100, **query)
    found = [job for answer in answers for job in answer.json()["data"]]
    assert [job["id"] for job in found] == jobs[::-1]
    assert all(job["spec"]["features"] == NAMES for job in found)
    one = len(json.dumps(found[0]))
    assert len(answers) > 1 and all(len(answer.content) <= MIB + one for answer in answers)
    assert all(len(answer.json()["data"]) > 1 for answer in answers[:-1])


def test_versions_come_in_pages(api, jobs):
    for job in jobs:
        assert api.job(job)["status"] == "succeeded"
    path, versions, sizes, after = "/v1/models/wide", [], [], None
    while True:
        answer = api.get(path, params={"after": after})
        versions += answer.json()["versions"]
        sizes.append(len(answer.content))
        if not answer.json()["has_more"]:
            break
        after = versions[-1]["version"]
    assert [one["version"] for one in versions] == list(range(JOBS, 0, -1))
    assert len(sizes) > 1 and max(sizes) < MIB + MIB
    # None are older than the first; what never was is not found, whatever was asked.
    assert api.get(path, params={"after": 1}).json()["versions"] == []
    assert not api.get(path, params={"after": 1}).json()["has_more"]
    api.get("/v1/models/none", 404, params={"after": 1})
    for bad in ("0", "x", "-1"):
        assert api.get(path, 422, params={"after": bad}).json()["errors"][0]["pointer"] == "#/query/after"
    # Those who only number versions have them all.
    assert api.get("/v2/models/wide").json()["versions"] == [str(i + 1) for i in range(JOBS)]
    index = api.post("/v2/repository/index").json()
    assert [one["version"] for one in index if one["name"] == "wide"] == [str(i + 1) for i in range(JOBS)]


def test_small_entries_fill_their_page(api):
    X, y = data.regression(30)
    dataset = api.upload_csv(X, y)
    ids = [api.create("small", dataset)["id"] for _ in range(25)]
    page = api.get("/v1/jobs", params={"model": "small", "limit": 25}).json()
    assert [job["id"] for job in page["data"]] == ids[::-1] and not page["has_more"]


def test_the_client_says_where_the_versions_go_on(api, jobs):
    krr = daemon_module.program("KRRD_TEST_CLIENT", "src/client/krr")
    first = subprocess.run([krr, "models", "wide"], capture_output=True, text=True, check=True,
                           env={**os.environ, "KRR_URL": api.base})
    shown = [line for line in first.stdout.splitlines() if line.startswith("wide")]
    assert first.stderr.strip() == f"more: --after {JOBS - len(shown) + 1}"
    rest = subprocess.run([krr, "models", "wide", *first.stderr.split()[1:]], capture_output=True, text=True,
                          check=True, env={**os.environ, "KRR_URL": api.base})
    assert len(rest.stdout.splitlines()) > 1
