"""Jobs that begin with the coefficients of an earlier model."""

import contextlib
import os
import signal
import sqlite3

import numpy as np
import pytest

import data

SOLVER = {"name": "pcg", "preconditioner": "none"}


def spec_of(dataset, **more):
    return {"dataset": dataset, "solver": SOLVER, "kernel": {"name": "gaussian", "bandwidth": 2.0},
            "regularization": 1e-4, "stop": {"tolerance": 1e-8}, "test": {"fraction": 0}, **more}


def said(api, job):
    return " ".join(e["message"] for e in api.events(job["id"]) if e["type"] == "message")


def pointer(job):
    return job["error"]["errors"][0]["pointer"]


def test_the_same_problem_again(api, name):
    X, y = data.regression(300, seed=60)
    dataset = api.upload_npz(X, y)
    first = api.train(name, **spec_of(dataset))
    assert first["result"]["iterations"] > 10
    assert first["spec"]["warm_start"] is None
    again = api.train(name, **spec_of(dataset, warm_start=name))
    assert again["spec"]["warm_start"] == {"model": name, "version": 1}
    assert again["result"]["iterations"] <= 1
    assert again["reason"] == "converged" and again["result"]["relative_residual"] <= 1.01e-8
    assert "300 of 300 training rows" in said(api, again)
    assert (api.predict(name, X[:9], version=2).json()["predictions"] ==
            pytest.approx(api.predict(name, X[:9], version=1).json()["predictions"], rel=1e-6))


@pytest.mark.parametrize("precision", ["float64", "mixed", "float32"])
def test_a_smaller_ridge(api, name, precision):
    X, y = data.regression(400, seed=61)
    dataset = api.upload_npz(X, y)
    tolerance = {"tolerance": 1e-4 if precision == "float32" else 1e-5}
    common = {"precision": precision, "stop": tolerance}
    api.train(name, **spec_of(dataset, **common, regularization=1e-3))
    cold = api.train(f"{name}-cold", **spec_of(dataset, **common, regularization=8e-4))
    warm = api.train(f"{name}-warm", **spec_of(dataset, **common, regularization=8e-4,
                                               warm_start={"model": name, "version": 1}))
    assert warm["reason"] == cold["reason"] == "converged"
    assert 0 < warm["result"]["iterations"] < cold["result"]["iterations"]
    assert (api.predict(f"{name}-warm", X[:9]).json()["predictions"] ==
            pytest.approx(api.predict(f"{name}-cold", X[:9]).json()["predictions"], rel=1e-2))


def test_more_rows_in_another_order(api, name):
    X, y = data.regression(400, seed=62)
    api.train(name, **spec_of(api.upload_csv(X[:350], y[:350])))
    order = np.random.default_rng(0).permutation(400)
    grown = api.upload_csv(X[order], y[order])
    exact = {"precision": "float64"}  # in float32 the steps of either go by the rounding
    cold = api.train(f"{name}-cold", **spec_of(grown, **exact))
    warm = api.train(f"{name}-warm", **spec_of(grown, **exact, warm_start=name))
    assert "350 of 400 training rows" in said(api, warm)
    assert warm["result"]["iterations"] < cold["result"]["iterations"]


def test_classes(api, name):
    X, labels = data.classification(200)
    dataset = api.upload_csv(X, labels)
    api.train(name, **spec_of(dataset))
    again = api.train(name, **spec_of(dataset, warm_start=name))
    assert again["result"]["iterations"] <= 1
    # Two of the three classes: another problem.
    two = api.upload_csv(X[labels != "red"], labels[labels != "red"])
    refused = api.post("/v1/jobs", 422, json={"model": name, **spec_of(two, warm_start=name)}).json()
    assert refused["errors"][0]["pointer"] == "#/warm_start" and "3 classes" in refused["detail"]


def test_a_model_of_several_pieces(api, name):
    """More than one frame's worth, and more than one store's chunk."""
    X, y = data.regression(6000, d=110, seed=63)
    dataset = api.upload_npz(X, y)
    short = {"stop": {"tolerance": 1e-8, "max_iterations": 3}, "regularization": 1e-2}
    api.train(name, **spec_of(dataset, **short))
    assert api.get(f"/v1/models/{name}/versions/1").json()["bytes"] > 5 << 20
    warm = api.train(name, **spec_of(dataset, **short, warm_start=name))
    assert "6000 of 6000" in said(api, warm)
    # What is asked of a job while its model travels is answered too.
    job = api.create(name, **spec_of(dataset, warm_start=name, stop={
        "tolerance": 1e-15, "max_iterations": 10**6}))
    api.wait(job["id"], lambda j: j["status"] == "running")
    api.post(f"/v1/jobs/{job['id']}/pause")
    api.wait(job["id"], ("paused",))
    api.post(f"/v1/jobs/{job['id']}/resume")
    api.wait(job["id"], lambda j: j["status"] == "running")
    api.cancel(job["id"])
    assert api.wait(job["id"])["status"] == "cancelled"


def test_a_direct_method_says_that_it_has_no_use_for_it(api, name, regression_dataset):
    api.train(name, regression_dataset, kernel="gaussian", test={"fraction": 0})
    job = api.train(name, regression_dataset, kernel="gaussian", solver="cholesky",
                    warm_start=name)
    assert "no use" in said(api, job)


def test_nothing_in_common(api, name):
    X, y = data.regression(100, seed=64)
    api.train(name, **spec_of(api.upload_npz(X, y)))
    job = api.train(name, **spec_of(api.upload_npz(X + 0.25, y), warm_start=name))
    warnings = [e["message"] for e in api.events(job["id"]) if e["level"] == "warning"]
    assert any("0 of 100 training rows" in w for w in warnings)
    assert job["reason"] == "converged"


def test_refusals(api, name, regression_dataset):
    api.train(name, regression_dataset, kernel="gaussian")
    for warm_start in ("no-such-model", {"model": "no-such-model", "version": 1},
                       {"model": name, "version": 2}):
        answer = api.post("/v1/jobs", 422, json={"model": name, "dataset": regression_dataset,
                                                 "warm_start": warm_start})
        assert answer.json()["errors"][0]["pointer"] == "#/warm_start"
        missing = "no version 2" if isinstance(warm_start, dict) and warm_start["model"] == name else "no such model"
        assert missing in answer.json()["detail"]
    for warm_start, where in ((7, ""), ("", ""), ({"version": 1}, "/model"),
                              ({"model": name, "version": 0}, "/version"),
                              ({"model": name, "alias": "x"}, "/alias")):
        answer = api.post("/v1/jobs", 422, json={"model": name, "dataset": regression_dataset,
                                                 "warm_start": warm_start})
        assert answer.json()["errors"][0]["pointer"] == "#/warm_start" + where
    for solver in (SOLVER, "auto", "cholesky"):
        spec = {**spec_of(regression_dataset, features=["x1", "x0"], warm_start=name), "solver": solver}
        answer = api.post("/v1/jobs", 422, json={"model": name, **spec}).json()
        assert answer["errors"][0]["pointer"] == "#/warm_start" and "4 features" in answer["detail"]


@pytest.mark.parametrize("solver, key, clash, fit", [
    ("falkon_bless", "start", "zero", "centers"),
    ("eigenpro3", "plain_epochs", 2, 0),
    ("eigenpro4", "plain_epochs", 7, 1),
])
def test_a_model_takes_the_place_of_another_start(api, name, regression_dataset, solver, key, clash, fit):
    api.train(name, regression_dataset, kernel="gaussian")
    spec = {"model": name, "dataset": regression_dataset, "kernel": "gaussian"}
    asked, wanted = "/v1/jobs?validate_only=true", {"name": solver, key: clash}
    answer = api.post(asked, 422, json={**spec, "warm_start": name, "solver": wanted}).json()
    assert answer["errors"][0]["pointer"] == f"#/solver/{key}" and '"warm_start"' in answer["detail"]
    api.post(asked, 200, json={**spec, "solver": wanted})
    api.post(asked, 200, json={**spec, "warm_start": name, "solver": {"name": solver, key: fit}})


def release_model(daemon):
    """As in a database from before models were kept for the jobs that begin with them."""
    with contextlib.closing(sqlite3.connect(daemon.data_dir / "krrd.db")) as db:
        db.execute("DELETE FROM model_holds")
        db.commit()


def test_the_model_is_kept_for_the_job(daemons):
    api = daemons().api
    X, y = data.regression(3000, d=6, seed=66)
    spec = spec_of(api.upload_npz(X, y), regularization=1e-13, stop={"tolerance": 1e-15, "max_iterations": 10**6})
    api.train("m", **{**spec, "stop": {"tolerance": 1e-15, "max_iterations": 20}})
    job = api.create("n", **spec, warm_start="m")
    api.wait(job["id"], ("running",))
    refused = api.request("DELETE", "/v1/models/m/versions/1", 409).json()
    assert refused["code"] == "conflict" and job["id"] in refused["detail"]
    api.cancel(job["id"])
    api.wait(job["id"])
    api.delete("/v1/models/m/versions/1")


def test_the_model_is_deleted_before_the_start(daemons):
    daemon = daemons()
    X, y = data.regression(200, seed=65)
    dataset = daemon.api.upload_npz(X, y)
    daemon.api.train("m", **spec_of(dataset))
    assert daemon.stop() == 0
    daemon.start(workers="cpu:0")
    job = daemon.api.create("n", **spec_of(dataset, warm_start="m"))
    daemon.api.request("DELETE", "/v1/models/m/versions/1", 409)
    release_model(daemon)
    daemon.api.delete("/v1/models/m/versions/1")
    assert daemon.stop() == 0
    daemon.start(workers="cpu:1")
    failed = daemon.api.wait(job["id"])
    assert (failed["status"], failed["reason"]) == ("failed", "invalid_spec")
    assert pointer(failed) == "#/warm_start"
    assert '"m" (version 1)' in failed["error"]["detail"]


def test_the_model_is_deleted_after_a_checkpoint(daemons):
    """A paused job has what it needs in its checkpoint; its bits are those of the whole job."""
    daemon = daemons()
    api = daemon.api
    X, y = data.regression(3000, d=6, seed=66)
    dataset = api.upload_npz(X, y)
    spec = spec_of(dataset, regularization=1e-13, stop={"tolerance": 1e-15, "max_iterations": 200})
    api.train("m", **{**spec, "stop": {"tolerance": 1e-15, "max_iterations": 20}})
    api.train("whole", **spec, warm_start="m")
    job = api.create("parts", **spec, warm_start="m")
    api.wait(job["id"], lambda j: (j["progress"] or {}).get("iteration", 0) >= 20)
    api.post(f"/v1/jobs/{job['id']}/pause")
    api.wait(job["id"], ("paused",))
    release_model(daemon)
    api.delete("/v1/models/m/versions/1")
    api.post(f"/v1/jobs/{job['id']}/resume")
    assert api.wait(job["id"])["status"] == "succeeded"
    digests = {api.get(f"/v1/models/{m}/versions/1").json()["sha256"] for m in ("whole", "parts")}
    assert len(digests) == 1


# Workers, and models, that fail while a model is sent.


@pytest.fixture
def pieces(daemons):
    """A daemon with the models "m", in two pieces, and "small"; specifications that begin with the one and the other."""
    daemon = daemons(retry_delay_s=0)
    api = daemon.api
    X, y = data.regression(5000, d=130, seed=67)
    short = {"stop": {"tolerance": 1e-8, "max_iterations": 2}, "regularization": 1e-2}
    large = spec_of(api.upload_npz(X, y), **short)
    api.train("m", **large)
    assert 4 << 20 < api.get("/v1/models/m/versions/1").json()["bytes"] < 8 << 20
    little = spec_of(api.upload_npz(*data.regression(100, seed=68)), **short)
    api.train("small", **little)
    return daemon, {**large, "warm_start": "m"}, {**little, "warm_start": "small"}


def test_the_worker_is_lost_while_the_model_is_sent(pieces):
    """Both jobs begin with their models at the next worker."""
    daemon, large, little = pieces
    api = daemon.api
    pid = api.worker_pid("train", "idle")
    os.kill(pid, signal.SIGSTOP)
    first, second = api.create("a", **large), api.create("b", **little)
    assert api.job(first["id"])["status"] == "running" and api.job(second["id"])["status"] == "queued"
    os.kill(pid, signal.SIGKILL)
    first, second = api.wait(first["id"]), api.wait(second["id"])
    assert [(job["status"], job["attempt"]) for job in (first, second)] == [("succeeded", 2), ("succeeded", 1)]
    assert "5000 of 5000" in said(api, first) and "100 of 100" in said(api, second)


def damage_piece(path, number):
    """Of the first model that has so many, this piece cannot be read any more: a page in its middle names a next one
    that is not there. Changes the database, so that who has read that page reads it again."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        blob = db.execute("SELECT data FROM model_chunks WHERE number = ? ORDER BY model", (number,)).fetchone()[0]
        page, version = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "user_version"))
        middle = len(blob) // 2
        with open(path, "r+b") as file:
            at = file.read().index(blob[middle:middle + 64])
            file.seek(at - at % page)
            file.write(b"\xff\xff\xff\xf0")
        db.execute(f"PRAGMA user_version = {version}")


@pytest.mark.parametrize("number", [0, 1])
def test_a_piece_of_the_model_cannot_be_read(pieces, number):
    """Its job fails; the next one, which waited for the same worker, has it at once, and none of the pieces sent."""
    daemon, large, little = pieces
    assert daemon.stop() == 0
    daemon.start()
    damage_piece(daemon.data_dir / "krrd.db", number)
    api = daemon.api
    pid = api.worker_pid("train", "idle")
    os.kill(pid, signal.SIGSTOP)
    jobs = [api.create(name, **spec) for name, spec in (("a", large), ("b", little), ("c", large), ("d", little))]
    os.kill(pid, signal.SIGCONT)
    ended = [api.wait(job["id"]) for job in jobs]
    assert [job["status"] for job in ended] == ["failed", "succeeded"] * 2
    assert all("damaged" in job["error"]["detail"] for job in ended[::2])
    assert all("100 of 100" in said(api, job) for job in ended[1::2])
    assert api.worker_pid("train", "idle") == pid
