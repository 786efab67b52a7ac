"""GET /v1/jobs/{id}/test_predictions: a sample of the test rows, held to the model's own answers."""

import numpy as np
import pytest

import data


def sample_of(api, job, **query):
    return api.get(f"/v1/jobs/{job['id']}/test_predictions", params=query).json()


def test_regression(api, name):
    X, y = data.regression(300)
    dataset = api.upload_csv(X, y)
    job = api.train(name, dataset, test={"fraction": 0.25})
    sample = sample_of(api, job, limit=1000)
    assert (sample["job"], sample["dataset"]) == (job["id"], dataset)
    assert (sample["task"], sample["targets"], sample["classes"]) == ("regression", ["y"], None)
    assert sample["test_rows"] == len(sample["rows"]) == job["result"]["test_rows"] == 75
    rows = sample["rows"]
    assert len(set(rows)) == 75 and rows != sorted(rows)
    assert sample["truth"] == y[rows].tolist()
    # The solver's own predictions and those of the model it made, which are other products.
    served = api.predict(name, X[rows]).json()["predictions"]
    assert np.allclose(sample["predictions"], served, rtol=1e-9, atol=1e-9)
    metrics = job["result"]["metrics"]
    assert data.smape(sample["predictions"], sample["truth"]) == pytest.approx(metrics["smape"], rel=1e-9)


def test_the_beginning_of_a_sample_is_one(api, name, regression_dataset):
    job = api.train(name, regression_dataset)
    whole = sample_of(api, job)
    part = sample_of(api, job, limit=5)
    assert part["test_rows"] == whole["test_rows"] == 24
    for key in ("rows", "truth", "predictions"):
        assert part[key] == whole[key][:5]
    again = api.train(name, regression_dataset)
    assert sample_of(api, again)["rows"] == whole["rows"]  # by the seed


def test_a_sample_is_bounded(api, name):
    X, y = data.regression(3000, d=2)
    job = api.train(name, api.upload_npz(X, y), test={"fraction": 0.5})
    sample = sample_of(api, job, limit=1000)
    assert sample["test_rows"] == 1500 and len(set(sample["rows"])) == 1000


def test_several_targets(api, name):
    X, y = data.regression(120)
    job = api.train(name, api.upload_npz(X, np.column_stack([y, -2 * y, y + 1])))
    sample = sample_of(api, job, limit=1000)
    truth = np.array(sample["truth"])
    assert truth.shape == np.array(sample["predictions"]).shape == (24, 3)
    assert np.array_equal(truth[:, 0], y[sample["rows"]])
    assert len(sample["targets"]) == 3


def of_each(sample):
    """What the metrics of every target have to be, from all of the test rows."""
    truth, found = np.array(sample["truth"]), np.array(sample["predictions"])
    miss = np.abs(found - truth)
    return [{"target": name, "smape": np.mean(2 * miss[:, j] / (np.abs(found[:, j]) + np.abs(truth[:, j]))),
             "rmse": np.sqrt(np.mean(miss[:, j] ** 2)), "mae": np.mean(miss[:, j]),
             "r2": 1 - np.sum(miss[:, j] ** 2) / np.sum((truth[:, j] - truth[:, j].mean()) ** 2)}
            for j, name in enumerate(sample["targets"])]


def test_every_target_has_metrics_of_its_own(api, name):
    """The last one is noise: that all of them together are not bad does not tell of it."""
    X, y = data.regression(120)
    noise = np.random.default_rng(1).normal(size=120)
    job = api.train(name, api.upload_csv(X, np.column_stack([y, 1e6 * y, noise])), target=["y1", "y2", "y0"])
    each, pooled = job["result"]["target_metrics"], job["result"]["metrics"]
    assert [one["target"] for one in each] == ["y1", "y2", "y0"]
    assert each == [pytest.approx(one, rel=1e-9) for one in of_each(sample_of(api, job, limit=1000))]
    assert each[0]["r2"] > 0.9 and each[1]["r2"] < 0.3
    for key in ("smape", "mae", "r2"):
        assert pooled[key] == pytest.approx(np.mean([one[key] for one in each]), rel=1e-9)
    version = api.get(f"/v1/models/{name}/versions/1").json()
    assert version["description"]["result"]["target_metrics"] == each


def test_the_first_64_targets_have_metrics(api, name):
    X, y = data.regression(60)
    job = api.train(name, api.upload_csv(X, y[:, None] + np.arange(70)), target=[f"y{j}" for j in range(70)])
    assert [one["target"] for one in job["result"]["target_metrics"]] == [f"y{j}" for j in range(64)]


def test_a_single_target_and_classes_have_no_more_metrics(api, name):
    X, y = data.regression(60)
    dataset = api.upload_npz(X, np.column_stack([y, -y]))
    assert api.train(name, dataset, test={"fraction": 0})["result"]["target_metrics"] is None
    assert api.train(name, api.upload_csv(X, y))["result"]["target_metrics"] is None
    X, labels = data.classification(60)
    assert api.train(name, api.upload_csv(X, labels))["result"]["target_metrics"] is None


@pytest.mark.parametrize("targets", [1, 2])
def test_predictions_beyond_float64_are_null(api, name, targets):
    """And a prediction that is asked for is refused, which is not for features that are too large."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    Y = np.column_stack([np.where(rng.random(60) < 0.5, 1.7e308, -1.7e308), X])[:, :targets]
    job = api.train(name, api.upload_npz(X, Y, task="regression"), standardize={"target": False},
                    test={"fraction": 0.7}, kernel={"name": "gaussian", "bandwidth": 3.0},
                    regularization=1e-15, solver="cholesky", task="regression")
    sample = sample_of(api, job)
    first = [np.ravel(row)[0] for row in sample["predictions"]]
    lost = [i for i, value in enumerate(first) if value is None]
    assert 0 < len(lost) < len(first) and all(abs(np.ravel(row)[0]) == 1.7e308 for row in sample["truth"])
    detail = api.predict(name, X[sample["rows"]][lost], expect=422).json()["detail"]
    assert "not a finite number" in detail and "targets" in detail


def test_classes(api, name):
    X, labels = data.classification(150)
    job = api.train(name, api.upload_csv(X, labels))
    sample = sample_of(api, job, limit=1000)
    assert sample["task"] == "classification" and sample["classes"] == ["black", "red", "white"]
    assert sample["truth"] == labels[sample["rows"]].tolist()
    assert sample["predictions"] == api.predict(name, X[sample["rows"]]).json()["predictions"]
    right = np.mean([a == b for a, b in zip(sample["truth"], sample["predictions"])])
    assert right == pytest.approx(job["result"]["metrics"]["accuracy"])


def test_rows_of_another_data_set(api, name):
    X, labels = data.classification(90)
    test = api.upload_csv(X[:20], labels[:20])
    job = api.train(name, api.upload_csv(X, labels), test={"dataset": test})
    sample = sample_of(api, job, limit=1000)
    assert sample["dataset"] == test and sorted(sample["rows"]) == list(range(20))
    assert sample["truth"] == labels[sample["rows"]].tolist()


def test_rows_that_it_was_trained_on(api, name, regression_dataset):
    """Nobody is left to believe those metrics."""
    spec = {"model": name, "dataset": regression_dataset, "kernel": "laplacian"}
    tested = {**spec, "test": {"dataset": regression_dataset},
              "promote": {"alias": "prod", "if": {"r2": {"gt": 0.9}}}}
    plan = api.post("/v1/jobs?validate_only=true", 200, json=tested).json()["plan"]
    assert [w["code"] for w in plan["warnings"]] == ["tested_on_training_data"]
    assert "promotion" in plan["warnings"][0]["detail"]
    job = api.wait(api.post("/v1/jobs", 202, json=tested).json()["id"])
    assert job["plan"]["warnings"] == plan["warnings"]
    warned = [e["message"] for e in api.events(job["id"]) if e["level"] == "warning"]
    assert plan["warnings"][0]["detail"] in warned
    assert api.post("/v1/jobs?validate_only=true", 200, json=spec).json()["plan"]["warnings"] == []


def test_restricted_models_have_one(api, name):
    X, y = data.regression(400)
    job = api.train(name, api.upload_npz(X, y), solver="falkon", centers={"method": "uniform", "count": 60})
    sample = sample_of(api, job, limit=1000)
    served = api.predict(name, X[sample["rows"]]).json()["predictions"]
    assert np.allclose(sample["predictions"], served, rtol=1e-8, atol=1e-8)


def test_entity_tag(api, name, regression_dataset):
    job = api.train(name, regression_dataset)
    path = f"/v1/jobs/{job['id']}/test_predictions"
    tag = api.get(path).headers["ETag"]
    api.get(path, 304, headers={"If-None-Match": tag})


def test_where_there_is_none(api, name, regression_dataset, big_job):
    without = api.train(name, regression_dataset, test={"fraction": 0})
    api.get(f"/v1/jobs/{without['id']}/test_predictions", 404)
    running = big_job(name)
    api.get(f"/v1/jobs/{running['id']}/test_predictions", 404)
    api.get("/v1/jobs/job_00000000000000000000000000/test_predictions", 404)
    for limit in (0, 1001, "x"):
        problem = api.get(f"/v1/jobs/{without['id']}/test_predictions", 422, params={"limit": limit})
        assert problem.json()["errors"][0]["pointer"] == "#/query/limit"


def test_it_goes_with_its_job_and_survives_a_restart(daemons):
    daemon = daemons()
    X, y = data.regression(60)
    job = daemon.api.train("m", daemon.api.upload_npz(X, y))
    before = sample_of(daemon.api, job)
    daemon.kill()
    daemon.start()
    assert sample_of(daemon.api, job) == before
    daemon.api.delete(f"/v1/jobs/{job['id']}")
    daemon.api.get(f"/v1/jobs/{job['id']}/test_predictions", 404)
