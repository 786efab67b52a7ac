"""Training jobs: what comes out of them, in what order they run, how they stop."""

import re
import time
from datetime import datetime

import numpy as np
import pytest

import contract
import data

KERNELS = [k for k in contract.resolve(contract.component("KernelName"))["enum"] if k != "auto"]
TIGHT = {"tolerance": 1e-12, "max_iterations": 5000}


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def messages(api, job):
    return [e["message"] for e in api.events(job["id"]) if e["type"] == "message"]


# What a job gives.


def test_model_and_dataset_are_enough(api, name):
    X, y = data.regression(150, seed=1)
    dataset = api.upload_csv(X, y)
    answer = api.post("/v1/jobs", 202, json={"model": name, "dataset": dataset})
    job = answer.json()
    assert answer.headers["Location"] == f"/v1/jobs/{job['id']}"
    assert re.fullmatch(r"job_[0-9A-Z]{26}", job["id"])
    assert job["attempt"] == 0 and job["result"] is None and job["error"] is None
    assert job["status"] == "queued" and job["model_version"] is None
    spec = job["spec"]
    assert spec["regularization"] is None and spec["test"] == {"fraction": 0.2}
    assert spec["standardize"] == {"features": True, "target": True}
    assert spec["kernel"]["name"] == "auto" and spec["kernel"]["bandwidth"] == "auto"
    assert spec["solver"]["name"] == "auto" and spec["precision"] == "auto"
    assert spec["stop"] == {"tolerance": 1e-6, "max_iterations": 1000, "time_budget_s": None}
    assert (spec["seed"], spec["priority"], spec["max_attempts"]) == (0, 0, 3)

    done = api.wait(job["id"])
    assert (done["status"], done["reason"], done["error"]) == ("succeeded", "converged", None)
    assert (done["attempt"], done["worker"], done["device"]) == (1, "train:0", "cpu")
    assert done["model_version"] == 1 and done["queue_position"] is None
    times = [done[k] for k in ("created_at", "queued_at", "started_at", "finished_at")]
    assert times == sorted(times) and moment(times[3]) > moment(times[2])
    assert done["progress"]["phase"] and done["progress"]["elapsed_s"] > 0
    result = done["result"]
    assert (result["train_rows"], result["test_rows"], result["centers"]) == (120, 30, 120)
    assert result["stop_reason"] == "converged" and result["solver"] == "cholesky"
    assert result["ridge"] == pytest.approx(120 * result["regularization"], rel=1e-12)
    assert 0 <= result["relative_residual"] < 1e-6
    assert result["whitened_residual"] is None  # of models on centers
    assert 0 < result["seconds"] < 60 and result["peak_memory_bytes"] > 1 << 20
    assert result["kernel_cache_bytes"] >= 0
    phases = result["phases"]
    assert phases["iterations_s"] == 0 and min(phases["setup_s"], phases["finish_s"]) > 0
    whole = phases["setup_s"] + phases["iterations_s"] + phases["finish_s"]
    assert whole == pytest.approx(result["seconds"], rel=1e-9)
    assert 0 <= phases["choice_s"] <= phases["setup_s"] and not phases["choice_cut_off"]
    metrics = result["metrics"]
    assert metrics["accuracy"] is None and metrics["auc"] is None
    assert metrics["r2"] > 0.9 and 0 < metrics["smape"] < 1
    assert 0 < metrics["mae"] <= metrics["rmse"]
    said = messages(api, done)
    assert any(m.startswith("Kernel chosen") for m in said), said
    assert any(m.startswith("Bandwidths learned") for m in said), said
    assert any(m.startswith("Solver chosen") for m in said), said


def test_features_as_they_are(api, name):
    """A sum of waves in all directions alike, of features whose spreads differ: standardised ones would matter alike. Of
    so many none is learned by itself."""
    rng = np.random.default_rng(0)
    spread = 20. / np.arange(1, 521) ** 2
    waves, phases = rng.normal(size=(520, 40)) / 15, rng.uniform(0, 6, 40)

    def rows(n):
        X = rng.normal(size=(n, 520)) * spread
        return X, np.cos(X @ waves + phases).sum(axis=1)

    X, y = rows(750)
    job = api.train(name, api.upload_csv(X, y), kernel={"name": "gaussian", "bandwidth": "auto"})
    said = messages(api, job)
    assert any(m.startswith("Features are not standardised in effect") for m in said), said
    bandwidths = np.array(api.get(f"/v1/models/{name}/versions/1").json()["description"]["kernel"]["bandwidth"])
    np.testing.assert_allclose(bandwidths * spread, bandwidths[0] * spread[0], rtol=.2)
    X, y = rows(50)
    found = np.array(api.predict(name, X).json()["predictions"])
    assert np.abs(found.ravel() - y).mean() < .05 * np.abs(y).mean()


def test_empty_objects_are_the_defaults(api, name, regression_dataset):
    spec = api.train(name, regression_dataset, kernel={}, test={}, stop={}, standardize={},
                     solver={})["spec"]
    assert spec["kernel"]["name"] == spec["solver"]["name"] == "auto"
    assert spec["test"] == {"fraction": 0.2}
    job = api.train(name, regression_dataset, kernel={"bandwidth": 2.5},
                    solver={"name": "pcg", "preconditioner": {}})
    assert job["spec"]["kernel"]["bandwidth"] == 2.5
    assert job["spec"]["solver"]["preconditioner"]["name"] == "rpcholesky"


def test_text_labels_become_classes(api, name):
    X, labels = data.classification(150)
    described = api.upload(data.csv(X, labels, target="colour"))
    assert described["task"] == "classification"
    assert sorted(described["classes"]) == ["black", "red", "white"]
    job = api.train(name, described["id"])
    metrics = job["result"]["metrics"]
    assert metrics["accuracy"] > 0.9
    assert metrics["auc"] is None  # of two classes only
    assert metrics["rmse"] is None and metrics["smape"] is None


def test_two_classes_have_an_auc(api, name):
    X, labels = data.classification(160, labels=("no", "yes"))
    job = api.train(name, api.upload_csv(X, labels), kernel="gaussian")
    assert job["result"]["metrics"]["auc"] > 0.9
    assert job["result"]["metrics"]["accuracy"] > 0.8


def settled(api, job):
    """What the event says of the model before it is solved for, or None; at most one does."""
    told = [e["data"] for e in api.events(job["id"]) if e["type"] == "message" and "kernel" in (e["data"] or {})]
    assert len(told) <= 1
    return told[0] if told else None


def test_what_was_left_open_is_told_and_kept(api, name):
    """Kernel, bandwidth and regularization of the model, whoever chose them."""
    X, y = data.regression(150, seed=1)
    dataset = api.upload_csv(X, y)
    fixed = {"name": "matern32", "bandwidth": 2.5}
    for open_spec in ({}, {"kernel": {"name": "gaussian", "bandwidth": "median"}, "regularization": 1e-4},
                      {"kernel": fixed, "search": {"regularization": [1e-5, 1e-3]}}):
        job = api.train(name, dataset, **open_spec)
        result = job["result"]
        assert settled(api, job) == {"kernel": result["kernel"], "regularization": result["regularization"]}, open_spec
        kernel = api.get(f"/v1/models/{name}/versions/{job['model_version']}").json()["description"]["kernel"]
        assert result["kernel"]["name"] == kernel["name"]
        one = kernel.get("bandwidth")
        assert result["kernel"]["bandwidth"] == (None if isinstance(one, list) else one)
    job = api.train(name, dataset, kernel={"name": "linear"})  # the default regularization, as the job says
    assert job["result"]["kernel"] == {"name": "linear", "bandwidth": None} and settled(api, job) is None
    job = api.train(name, dataset, kernel=fixed, regularization=1e-4)
    assert settled(api, job) is None
    assert (job["result"]["kernel"], job["result"]["regularization"]) == (fixed, 1e-4)


def test_several_targets_at_once(api, name):
    X, y = data.regression(130, seed=2)
    Y = np.column_stack([y, -3.0 * y, y * y])
    dataset = api.upload_npz(X, Y)
    job = api.train(name, dataset, kernel={"name": "gaussian", "bandwidth": 3.0},
                    regularization=1e-4, test={"fraction": 0})
    found = np.array(api.predict(name, X[:20]).json()["predictions"])
    reference = data.Ridge(X, Y, "gaussian", 3.0, 1e-4).predict(X[:20])
    np.testing.assert_allclose(found, reference, rtol=1e-7, atol=1e-9)
    assert job["result"]["test_rows"] == 0
    assert set(job["result"]["metrics"].values()) == {None}


def warnings(api, job):
    return [e["message"] for e in api.events(job["id"]) if e["level"] == "warning"]


def test_a_target_that_is_not_learned_is_named(api, name):
    """Even where the mean over all targets looks good; with advice that the job has not followed yet."""
    X, y = data.regression(200, seed=3)
    noise = np.random.default_rng(4).normal(size=200)
    dataset = api.upload_csv(X, np.column_stack([y, noise, 2 * y]))
    targets = {"target": ["y0", "y1", "y2"]}
    fixed = {"kernel": {"name": "gaussian", "bandwidth": 3.0}, "regularization": 1e-6}
    job = api.train(name, dataset, **targets, **fixed)
    said = [w for w in warnings(api, job) if "worse than the mean" in w]
    assert job["result"]["metrics"]["r2"] < 0.7 and len(said) == 1
    r2 = job["result"]["target_metrics"][1]["r2"]
    assert f'for the target "y1" (R2 {r2:.3g}). Leave kernel and bandwidth open' in said[0]
    only_noise = api.upload_csv(np.ones((60, 2)), np.random.default_rng(5).normal(size=60))
    for spec, advice in (({}, "Look whether"), ({"kernel": {"name": "gaussian", "bandwidth": "auto"}, "regularization": 1e-6},
                                                "Search for the regularization, or look whether")):
        for seed in range(20):
            said = [w for w in warnings(api, api.train(name, only_noise, seed=seed, **spec)) if "worse than the mean" in w]
            if said:
                break
        assert advice in said[0]


def test_constant_targets_are_counted(api, name):
    X, y = data.regression(60)
    job = api.train(name, api.upload_csv(X, np.column_stack([y, 0 * y, 0 * y + 1])), target=["y0", "y1", "y2"])
    assert 'The target "y1" is constant on the training rows: the model predicts that constant always. ' \
        "So are 1 more." in warnings(api, job)


def test_of_a_constant_target_nothing_more_is_said(api, name):
    """One training row has one value, and the mean of the test rows is another."""
    X, y = data.regression(60)
    job = api.train(name, api.upload_csv(X, y), test={"fraction": 0.999}, kernel={"name": "gaussian", "bandwidth": 2.0})
    assert job["result"]["metrics"]["r2"] < 0
    assert len(warnings(api, job)) == 1 and "is constant on the training rows" in warnings(api, job)[0]


def test_advice_on_a_large_residual(api, name):
    """Float64 is no advice for a job that has it."""
    X, y = data.regression(300)
    dataset = api.upload_csv(X, y)
    for precision in ("float32", "float64"):
        job = api.train(name, dataset, kernel={"name": "laplacian", "bandwidth": 0.5}, regularization=1e-9,
                        solver={"name": "pcg", "preconditioner": "none"}, stop={"max_iterations": 1, "tolerance": 1e-9}, precision=precision)
        said = [w for w in warnings(api, job) if "certified relative residual" in w]
        assert len(said) == 1 and ("take precision" in said[0]) == (precision == "float32")


def test_columns_by_name(api, name):
    """Targets and features other than the data set's own."""
    X, y = data.regression(110, d=5, seed=3)
    dataset = api.upload_csv(X, y)
    api.train(name, dataset, target="x1", features=["y", "x3"], test={"fraction": 0},
              kernel={"name": "laplacian_l1", "bandwidth": 2.0}, regularization=1e-3)
    inputs = np.column_stack([y, X[:, 3]])
    found = api.predict(name, inputs).json()["predictions"]
    reference = data.Ridge(inputs, X[:, 1], "laplacian_l1", 2.0, 1e-3).predict(inputs)
    np.testing.assert_allclose(found, reference, rtol=1e-8, atol=1e-9)


def test_mask_and_test_dataset_measure_the_same(api, name):
    X, y = data.regression(140, seed=4)
    mask = (np.arange(140) % 4 == 1).astype(float)
    train, test = mask == 0, mask == 1
    spec = {"kernel": {"name": "matern52", "bandwidth": 2.5}, "regularization": 1e-5}
    masked = api.upload_csv(np.column_stack([X, mask]), y,
                            names=["x0", "x1", "x2", "x3", "held_out"])
    one = api.train(f"{name}-1", masked, test={"mask": "held_out"}, **spec)["result"]
    parts = [api.upload_csv(X[rows], y[rows]) for rows in (train, test)]
    two = api.train(f"{name}-2", parts[0], test={"dataset": parts[1]}, **spec)["result"]
    predicted = data.Ridge(X[train], y[train], "matern52", 2.5, 1e-5).predict(X[test])
    error = predicted - y[test]
    wanted = {
        "rmse": np.sqrt(np.mean(error**2)),
        "mae": np.mean(np.abs(error)),
        "smape": data.smape(predicted, y[test]),
        "r2": 1 - np.sum(error**2) / np.sum((y[test] - y[test].mean()) ** 2),
    }
    for result in (one, two):
        assert (result["train_rows"], result["test_rows"]) == (105, 35)
        for key, value in wanted.items():
            assert result["metrics"][key] == pytest.approx(value, rel=1e-6), key
    assert one["metrics"] == two["metrics"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_trains(api, name, regression_dataset, kernel):
    # A sigmoid's matrix is indefinite; a ridge above its smallest eigenvalue makes it trainable.
    ridge = 1.0 if kernel == "sigmoid" else 1e-6
    job = api.train(name, regression_dataset, kernel=kernel, regularization=ridge)
    assert job["result"]["relative_residual"] < 1e-6
    description = api.get(f"/v1/models/{name}/versions/1").json()["description"]
    assert description["kernel"]["name"] == kernel
    # The noise of the target is 0.01, its deviation about 1.
    limit = {"linear": 1.0, "sigmoid": 1.5}.get(kernel, 0.5)
    assert job["result"]["metrics"]["rmse"] < limit


@pytest.mark.parametrize("solver", [
    "cholesky",
    {"name": "cholesky", "block_size": 64},
    {"name": "pcg", "preconditioner": "none"},
    {"name": "pcg", "preconditioner": "rpcholesky"},
    {"name": "pcg", "preconditioner": {"name": "rpcholesky", "rank": 40, "block_size": 1}},
    {"name": "pcg", "preconditioner": "nystrom_uniform"},
    {"name": "pcg", "preconditioner": {"name": "nystrom_gaussian", "rank": 60}},
    {"name": "pcg", "preconditioner": {"name": "cholesky_greedy", "rank": "auto"}},
], ids=lambda s: s if isinstance(s, str) else "-".join(map(str, s.values()))[:40])
def test_every_solver_finds_the_same_model(api, name, solver):
    X, y = data.regression(220, seed=5)
    dataset = api.upload_npz(X, y)
    job = api.train(name, dataset, solver=solver, stop=TIGHT, test={"fraction": 0},
                    kernel={"name": "gaussian", "bandwidth": 2.0}, regularization=1e-4)
    assert job["reason"] == "converged"
    assert job["result"]["relative_residual"] <= 1.01e-12
    found = api.predict(name, X[:50]).json()["predictions"]
    reference = data.Ridge(X, y, "gaussian", 2.0, 1e-4).predict(X[:50])
    np.testing.assert_allclose(found, reference, rtol=1e-8)


def test_precision_left_open(api, name):
    """A small ridge: float32 kernel values alone would not reach the tolerance."""
    X, y = data.regression(500, seed=8)
    dataset = api.upload_npz(X, y)
    common = {"kernel": {"name": "gaussian", "bandwidth": 2.0}, "regularization": 1e-7, "test": {"fraction": 0}}
    chosen = {"pcg": "mixed", "cholesky": "float64"}
    for solver, precision in chosen.items():
        job = api.train(name, dataset, solver=solver, **common)
        assert (job["reason"], job["spec"]["precision"]) == ("converged", "auto")
        assert job["result"]["relative_residual"] <= 1.01e-6
        assert job["result"]["precision"] == precision
        version = api.get(f"/v1/models/{name}/versions/{job['model_version']}").json()
        assert version["description"]["precision"] == "float64"
        assert version["description"]["result"]["precision"] == precision
        events = api.get(f"/v1/jobs/{job['id']}/events").text
        assert f"Precision chosen for {solver}: {precision}." in events
        found = api.predict(name, X[:50]).json()["predictions"]
        reference = data.Ridge(X, y, "gaussian", 2.0, 1e-7).predict(X[:50])
        np.testing.assert_allclose(found, reference, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("precision", ["float32", "mixed"])
def test_lower_precision(api, name, precision):
    X, y = data.regression(200, seed=6)
    job = api.train(name, api.upload_npz(X, y), precision=precision, test={"fraction": 0},
                    kernel={"name": "gaussian", "bandwidth": 2.0}, regularization=1e-3,
                    stop={"tolerance": 1e-3})
    assert job["result"]["relative_residual"] < 1e-3
    found = api.predict(name, X[:50]).json()["predictions"]
    reference = data.Ridge(X, y, "gaussian", 2.0, 1e-3).predict(X[:50])
    np.testing.assert_allclose(found, reference, rtol=1e-3, atol=1e-3)


def test_same_seed_same_bits(api, name):
    X, y = data.regression(200, seed=7)
    dataset = api.upload_npz(X, y)
    spec = {"solver": "pcg", "stop": {"tolerance": 1e-8}, "kernel": "gaussian"}
    jobs = [api.train(name, dataset, seed=seed, **spec) for seed in (11, 11, 12)]
    digests = [api.get(f"/v1/models/{name}/versions/{j['model_version']}").json()["sha256"]
               for j in jobs]
    assert [j["model_version"] for j in jobs] == [1, 2, 3]
    assert digests[0] == digests[1] != digests[2]
    assert jobs[0]["result"]["metrics"] == jobs[1]["result"]["metrics"]


def test_metadata_and_one_bandwidth_a_feature(api, name):
    X, y = data.regression(100, seed=8)
    widths = [1.0, 2.0, 3.5, 8.0]
    job = api.train(name, api.upload_npz(X, y), metadata={"who": "ä", "why": ""},
                    kernel={"name": "gaussian", "bandwidth": widths}, regularization=1e-4,
                    test={"fraction": 0}, standardize={"features": False})
    assert job["spec"]["metadata"] == {"who": "ä", "why": ""}
    found = api.predict(name, X[:30]).json()["predictions"]
    reference = data.Ridge(X / widths, y, "gaussian", 1.0, 1e-4, standardize=False)
    np.testing.assert_allclose(found, reference.predict(X[:30] / widths), rtol=1e-8, atol=1e-9)


# How a job stops.


def test_constant_target_trains_with_a_warning(api, name):
    X, _ = data.regression(60, seed=9)
    dataset = api.upload(data.csv(X, np.full(60, 7.25)))["id"]
    job = api.train(name, dataset)
    warnings = [e for e in api.events(job["id"]) if e["level"] == "warning"]
    assert any("constant" in e["message"] for e in warnings), warnings
    predictions = api.predict(name, X[:5] + 100).json()["predictions"]
    assert predictions == pytest.approx([7.25] * 5, rel=1e-12)


def far_values(api, X, y, **spec):
    job = api.train("far", api.upload_csv(X, y), test={"fraction": 0}, **spec)
    return [e["message"] for e in api.events(job["id"]) if e["level"] == "warning" and "far out" in e["message"]]


@pytest.mark.parametrize("value", [1e6, -1e300])
def test_few_values_far_out_are_told(api, value):
    """A wrong unit or a mark of what is missing makes all other values of its column nearly equal."""
    X, y = data.regression(300, seed=9)
    assert far_values(api, X, y) == []
    rare = X.copy()
    rare[:, 1] = 0
    rare[7, 1] = value  # what a column has to say may be in few rows
    assert far_values(api, rare, y) == []
    X[7, 1] = value
    [told] = far_values(api, X, y)
    assert '"x1"' in told and "more" not in told
    assert far_values(api, X, y, standardize={"features": False}) == []
    X[9, 2] = value
    [told] = far_values(api, X, y, solver="direct", centers={"method": "uniform", "count": 20})
    assert '"x1"' in told and "for 1 more" in told


def test_few_values_of_the_target_far_out_are_told(api):
    X, y = data.regression(300, seed=9)
    y[7] = 1e9
    [told] = far_values(api, X, y)
    assert 'target "y"' in told


def test_duplicate_rows_with_zero_ridge(api, name):
    X, y = data.regression(40, seed=10)
    dataset = api.upload(data.csv(np.vstack([X, X]), np.concatenate([y, y])))["id"]
    job = api.train(name, dataset, "failed", regularization=0, solver="cholesky",
                    kernel={"name": "gaussian", "bandwidth": 1.0}, test={"fraction": 0})
    assert job["reason"] == "not_positive_definite"
    assert job["error"]["code"] == "not_positive_definite"
    assert "not positive definite" in job["error"]["detail"]
    assert "regularization" in job["error"]["detail"]  # what to do about it
    assert "not positive definite" in job["error"]["title"]
    assert job["model_version"] is None
    api.get(f"/v1/models/{name}", 404)
    last = api.events(job["id"])[-1]
    assert (last["type"], last["level"]) == ("status", "error")
    assert last["message"] == job["error"]["detail"]


def test_tolerance_that_is_not_reached(api, name, regression_dataset):
    job = api.train(name, regression_dataset, stop={"tolerance": 1e-14, "max_iterations": 3},
                    solver={"name": "pcg", "preconditioner": "none"}, kernel="gaussian")
    assert job["reason"] == "iteration_limit"
    assert job["result"]["iterations"] == 3
    assert job["result"]["relative_residual"] > 1e-14
    assert job["result"]["metrics"]["rmse"] is not None
    api.predict(name, [[0.0, 0.0, 0.0, 0.0]])


def test_time_budget(api, name, big_spec):
    start = time.monotonic()
    job = api.train(name, stop={"tolerance": 1e-15, "max_iterations": 1000000,
                                "time_budget_s": 0.8}, **big_spec)
    assert job["reason"] == "time_budget"
    assert job["result"]["iterations"] >= 1
    assert job["result"]["relative_residual"] > 1e-15
    assert time.monotonic() - start < 30
    assert job["model_version"] == 1


def test_budget_too_small_for_any_coefficients(api, name, big_spec):
    job = api.train(name, expect="failed", **{**big_spec, "solver": "cholesky",
                                              "stop": {"time_budget_s": 1e-6}})
    assert job["reason"] == job["error"]["code"] == "time_budget"
    assert job["model_version"] is None and job["result"]["stop_reason"] == "time_budget"
    assert "time budget" in job["error"]["detail"]
    assert job["error"]["errors"][0]["pointer"] == "#/stop/time_budget_s"


def test_cancel_while_running(api, name, big_job):
    job = api.wait_running(big_job(name)["id"])
    assert job["status"] == "running" and job["started_at"] and job["finished_at"] is None
    answer = api.cancel(job["id"])
    assert answer["status"] == "cancelling"
    again = api.request("POST", f"/v1/jobs/{job['id']}/cancel")  # asking twice is no error
    assert again.status_code == 200 or api.job(job["id"])["status"] == "cancelled"
    start = time.monotonic()
    job = api.wait(job["id"])
    assert time.monotonic() - start < 20
    assert (job["status"], job["reason"], job["error"]) == ("cancelled", "cancelled", None)
    assert job["finished_at"]
    api.get(f"/v1/models/{name}", 404)
    statuses = [e["data"]["status"] for e in api.events(job["id"]) if e["type"] == "status"]
    assert statuses == ["queued", "running", "cancelling", "cancelled"]
    assert api.cancel(job["id"], 409)["code"] == "conflict"


def test_delete(api, name, big_job):
    job = api.wait_running(big_job(name)["id"])
    assert "running" in api.request("DELETE", f"/v1/jobs/{job['id']}", 409).json()["detail"]
    api.request("DELETE", f"/v1/datasets/{job['dataset']}", 409)
    api.cancel(job["id"])
    api.wait(job["id"])
    api.delete(f"/v1/jobs/{job['id']}")
    for method, path in [("GET", ""), ("DELETE", ""), ("GET", "/events"), ("POST", "/cancel")]:
        api.request(method, f"/v1/jobs/{job['id']}{path}", 404)
    assert api.get("/v1/jobs", params={"model": name}).json()["data"] == []


def test_models_outlive_their_job(api, name, regression_dataset):
    job = api.train(name, regression_dataset, kernel="gaussian")
    before = api.predict(name, [[1.0, 2.0, 3.0, 4.0]]).text
    api.delete(f"/v1/jobs/{job['id']}")
    assert api.get(f"/v1/models/{name}/versions/1").json()["job"] == job["id"]
    assert api.predict(name, [[1.0, 2.0, 3.0, 4.0]]).text == before


def test_one_row_is_refused(api):
    answer = api.request("POST", "/v1/datasets", 422, data="a,b\n1,2\n",
                         headers={"Content-Type": "text/csv"})
    assert "one data row" in answer.json()["detail"]
    assert answer.json()["errors"][0]["pointer"] == "#/rows"


def test_unknown_jobs(api):
    for job_id in ("job_00000000000000000000000000", "job_x", "ds_00000000000000000000000000"):
        assert api.get(f"/v1/jobs/{job_id}", 404).json()["code"] == "not_found"
        api.request("DELETE", f"/v1/jobs/{job_id}", 404)
        api.cancel(job_id, 404)


# The queue. A daemon without training workers keeps every job where it is.


def test_centers_of_a_data_set_are_kept(daemons):
    """A job's echo says what centers it has, and their data set stays as long as the job needs it."""
    api = daemons(workers="cpu:0").api
    X, y = data.regression(60)
    dataset, rows = api.upload_csv(X, y), api.upload_csv(X[:, ::-1], y, ["x3", "x2", "x1", "x0"])
    job = api.create("restricted", dataset, centers={"method": "file", "dataset": rows})
    assert job["spec"]["centers"] == {"method": "file", "dataset": rows, "count": "auto"}
    problem = api.delete(f"/v1/datasets/{rows}", 409).json()
    assert problem["code"] == "conflict" and job["id"] in problem["detail"]
    api.cancel(job["id"])
    api.delete(f"/v1/datasets/{rows}")

    # Only the job's own features are looked for.
    few = api.upload_csv(X[:, :2], y)
    api.create("restricted", dataset, features=["x1"], centers={"method": "file", "dataset": few})
    counted = api.create("restricted", dataset, centers={"method": "uniform", "count": 25})
    assert counted["spec"]["centers"]["count"] == 25
    named = api.create("restricted", dataset, solver="auto", centers="uniform")["spec"]["centers"]
    assert (named["method"], named["count"]) == ("uniform", "auto")
    assert api.create("full", dataset)["spec"]["centers"] is None


def test_queue_order_filters_and_pages(daemons):
    daemon = daemons(workers="cpu:0")
    api = daemon.api
    X, y = data.regression(40)
    dataset = api.upload_npz(X, y)
    wanted = {"low": -5, "first": 0, "second": 0, "high": 100, "gone": 100}
    ids = {model: api.create(model, dataset, priority=p, kernel="gaussian")["id"]
           for model, p in wanted.items()}

    def positions():
        return {m: api.job(ids[m])["queue_position"] for m in wanted}

    assert positions() == {"high": 0, "gone": 1, "first": 2, "second": 3, "low": 4}
    gone = api.cancel(ids["gone"])
    assert (gone["status"], gone["reason"]) == ("cancelled", "cancelled")
    assert gone["started_at"] is None and gone["attempt"] == 0 and gone["finished_at"]
    assert api.cancel(ids["gone"], 409)["code"] == "conflict"
    assert positions() == {"high": 0, "gone": None, "first": 1, "second": 2, "low": 3}

    def listed(**query):
        return [j["id"] for j in api.get("/v1/jobs", params=query).json()["data"]]

    newest_first = list(reversed(list(ids.values())))
    assert listed() == newest_first
    assert listed(status="cancelled") == [ids["gone"]]
    assert listed(status="queued", model="low") == [ids["low"]]
    assert listed(status="succeeded") == [] and listed(model="none") == []
    pages, after = [], None
    while True:
        page = api.get("/v1/jobs", params={"limit": 2, "after": after}).json()
        assert page["first_id"] == page["data"][0]["id"]
        assert page["last_id"] == page["data"][-1]["id"]
        pages.append([j["id"] for j in page["data"]])
        after = page["last_id"]
        if not page["has_more"]:
            break
    assert [len(p) for p in pages] == [2, 2, 1] and sum(pages, []) == newest_first
    empty = api.get("/v1/jobs", params={"after": ids["low"]}).json()
    assert empty["data"] == [] and empty["first_id"] is None and not empty["has_more"]
    for query, pointer in [({"limit": 0}, "#/query/limit"), ({"limit": 101}, "#/query/limit"),
                           ({"limit": "x"}, "#/query/limit"), ({"status": "x"}, "#/query/status"),
                           ({"state": "queued"}, "#/query/state")]:
        problem = api.get("/v1/jobs", 422, params=query).json()
        assert problem["errors"][0]["pointer"] == pointer

    # The data set is needed; with a worker the jobs then run in the order of the queue.
    api.request("DELETE", f"/v1/datasets/{dataset}", 409)
    assert daemon.stop() == 0
    daemon.start(workers="cpu:1")
    api = daemon.api
    jobs = [api.wait(ids[m]) for m in ("high", "first", "second", "low")]
    assert [j["status"] for j in jobs] == ["succeeded"] * 4
    started = [j["started_at"] for j in jobs]
    assert started == sorted(started)
    api.delete(f"/v1/datasets/{dataset}")


def test_full_queue(daemons):
    api = daemons(workers="cpu:0", max_queue=2).api
    X, y = data.regression(30)
    dataset = api.upload_npz(X, y)
    kept = [api.create("m", dataset)["id"] for _ in range(2)]
    answer = api.post("/v1/jobs", 429, json={"model": "m", "dataset": dataset})
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.json()["code"] == "busy"
    api.cancel(kept[0])
    api.create("m", dataset)


def test_a_full_queue_takes_no_paused_job_back(daemons):
    api = daemons(workers="cpu:0", max_queue=1).api
    X, y = data.regression(30)
    dataset = api.upload_npz(X, y)
    held = api.create("m", dataset)["id"]
    api.post(f"/v1/jobs/{held}/pause")
    waiting = api.create("m", dataset)["id"]
    answer = api.post(f"/v1/jobs/{held}/resume", 429)
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.json()["code"] == "busy" and "--max-queue" in answer.json()["detail"]
    assert api.job(held)["status"] == "paused"
    api.post(f"/v1/jobs/{waiting}/resume", 409)  # what keeps it is not the queue
    api.cancel(waiting)
    assert api.post(f"/v1/jobs/{held}/resume").json()["status"] == "queued"
