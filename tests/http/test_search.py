"""The search for regularization and bandwidth, as a client sees it."""

import time

import numpy as np
import pytest

import data

GRID = [1e-8, 1e-5, 1e-3, 1e-1]


def noisy(rows=140, seed=3):
    X, y = data.regression(rows, seed=seed)
    return X, y + 0.3 * np.std(y) * np.random.default_rng(seed).standard_normal(rows)


def refit_errors(X, y, regularization, bandwidth):
    """Left-out errors with the means and the absolute ridge of all rows: one refit a row."""
    Z, target = (X - X.mean(0)) / X.std(0), y - y.mean()
    K, errors = data.kernel_matrix("gaussian", Z, Z, bandwidth), []
    for i in range(len(X)):
        rest = np.delete(np.arange(len(X)), i)
        G = K[np.ix_(rest, rest)] + len(X) * regularization * np.eye(len(rest))
        errors.append(K[i, rest] @ np.linalg.solve(G, target[rest]) - target[i])
    return np.array(errors)


def test_whole_path_is_told(api, name):
    X, y = noisy()
    dataset = api.upload_npz(X, y)
    job = api.train(name, dataset, test={"fraction": 0}, kernel="gaussian",
                    search={"regularization": GRID, "bandwidth": [1.0, 4.0]})
    assert job["spec"]["regularization"] == "auto"
    assert job["spec"]["search"] == {"regularization": GRID, "bandwidth": [1.0, 4.0],
                                     "metric": "auto", "folds": "loo", "max_rows": 4000}
    result = job["result"]
    search = result["search"]
    assert (search["metric"], search["folds"], search["sampled"]) == ("rmse", "loo", False)
    assert search["rows"] == len(X)
    assert [(p["bandwidth"], p["regularization"]) for p in search["path"]] == [
        (b, l) for b in (1.0, 4.0) for l in GRID]
    best = min(search["path"], key=lambda p: p["rmse"])
    assert search["path"][search["best"]] == best
    assert result["regularization"] == best["regularization"]
    assert result["ridge"] == pytest.approx(len(X) * best["regularization"], rel=1e-12)
    assert result["solver"] == "eigendecomposition" and result["relative_residual"] < 1e-8
    told = [e for e in api.events(job["id"]) if e["type"] == "message" and "path" in (e["data"] or {})]
    assert [len(e["data"]["path"]) for e in told] == [4, 8]
    assert told[-1]["data"] == search
    description = api.get(f"/v1/models/{name}/versions/1").json()["description"]
    assert description["regularization"] == best["regularization"]
    assert description["kernel"]["bandwidth"] == best["bandwidth"]
    assert description["result"]["search"] == search


def watch(api, job):
    """What a job has said of its progress until its end, without repetitions, and the job then."""
    seen = []
    while True:
        now = api.get(f"/v1/jobs/{job['id']}").json()
        if now["progress"] and (not seen or seen[-1] != now["progress"]):
            seen.append(now["progress"])
        if now["status"] not in ("queued", "running"):
            assert now["status"] == "succeeded", now
            return seen, now
        time.sleep(0.01)


def test_scales_do_not_choose_the_kernel(api, name):
    """Who has bandwidths searched has features standardised: as they are they do not take part before."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 8))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.sin(1.5 * X[:, 0]) + .05 * rng.normal(size=600)
    found = [api.train(f"{name}-{i}", api.upload_npz(X * scales, y), search={"bandwidth": [1, 4]})["result"]
             for i, scales in enumerate((np.ones(8), np.array([32] + [1] * 7)))]
    assert found[0]["kernel"] == found[1]["kernel"]
    assert abs(found[0]["metrics"]["r2"] - found[1]["metrics"]["r2"]) < 1e-6


@pytest.mark.parametrize("kind", ["full", "folds", "centers", "evidence"])
def test_progress_is_told(api, name, kind):
    """How many of the pairs are tried, and the best of them, while the search runs and when it has ended."""
    X, y = noisy(1200)
    bandwidths = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    search = {"regularization": GRID, "bandwidth": bandwidths}
    more = {"full": {}, "folds": {}, "centers": {"centers": {"count": 300}}, "evidence": {"solver": "kmcg"}}[kind]
    search.update({"folds": {"folds": 3}, "evidence": {"metric": "evidence"}}.get(kind, {}))
    seen, job = watch(api, api.create(name, api.upload_npz(X, y), kernel="gaussian", search=search, **more))
    path, pairs = job["result"]["search"]["path"], len(GRID) * len(bandwidths)
    metric, sign = ("evidence", -1) if kind == "evidence" else ("rmse", 1)
    searching = [p for p in seen if p["phase"] == "searching"]
    assert len({p["search"]["tried"] for p in searching}) >= 3, searching
    for p in searching:
        told = p["search"]
        assert (told["pairs"], told["metric"], p["iteration"]) == (pairs, metric, 0)
        assert abs(p["step_fraction"] - told["tried"] / pairs) <= 1 / len(bandwidths) + 1e-9
        assert (told["best"] is None) == (told["tried"] == 0)
        if told["best"]:
            of = {k: told["best"][k] for k in ("regularization", "bandwidth")}
            at = [{k: q[k] for k in of} for q in path[:told["tried"]]].index(of)
            assert told["best"]["value"] == path[at][metric]
            least = min(sign * q[metric] for q in path[:told["tried"]])
            assert sign * path[at][metric] <= least + 1e-3 * abs(least)
    for key in (lambda p: p["search"]["tried"], lambda p: p["step_fraction"], lambda p: p["elapsed_s"]):
        assert [key(p) for p in searching] == sorted(map(key, searching))
    best = path[job["result"]["search"]["best"]]
    end = {"tried": pairs, "pairs": pairs, "metric": metric,
           "best": {"regularization": best["regularization"], "bandwidth": best["bandwidth"], "value": best[metric]}}
    after = seen[seen.index(searching[-1]) + 1:]
    assert after and all(p["search"] == end for p in after) and job["progress"]["search"] == end
    assert all(p["search"] is None for p in seen[:seen.index(searching[0])])


def test_without_a_search_none_is_told(api, name):
    X, y = noisy()
    assert api.train(name, api.upload_npz(X, y), kernel="gaussian")["progress"]["search"] is None


def test_left_out_errors_are_those_of_refits(api, name):
    X, y = noisy(60)
    job = api.train(name, api.upload_npz(X, y), test={"fraction": 0}, kernel="gaussian",
                    search={"regularization": [1e-3, 1e-1], "bandwidth": [2.0], "metric": "mae"})
    for point in job["result"]["search"]["path"]:
        errors = refit_errors(X, y, point["regularization"], 2.0)
        assert point["mae"] == pytest.approx(np.abs(errors).mean(), rel=1e-6)
        assert point["rmse"] == pytest.approx(np.sqrt((errors ** 2).mean()), rel=1e-6)


def test_auto_takes_the_default_grid_and_a_sample(api, name):
    X, y = noisy(300)
    job = api.train(name, api.upload_npz(X, y), test={"fraction": 0}, regularization="auto",
                    search={"max_rows": 150, "folds": 5})
    search = job["result"]["search"]
    assert len(search["path"]) == 23 and search["path"][0]["regularization"] == 1e-12
    assert (search["rows"], search["sampled"], search["folds"]) == (150, True, 5)
    assert job["result"]["solver"] == "cholesky" and job["result"]["train_rows"] == 300
    said = [e["message"] for e in api.events(job["id"]) if e["type"] == "message"]
    assert any("sample of 150 of the 300" in m for m in said), said


def test_a_model_on_centers_takes_what_is_found(api, name):
    X, y = noisy(1000)
    job = api.train(name, api.upload_npz(X, y), kernel="gaussian", centers={"count": 60},
                    search={"regularization": GRID, "bandwidth": [1.0, 4.0], "max_rows": 200})
    search, result = job["result"]["search"], job["result"]
    best = search["path"][search["best"]]
    assert (search["rows"], search["sampled"], search["centers"], len(search["path"])) == (800, False, 60, 8)
    assert result["centers"] == 60 and result["regularization"] == best["regularization"]
    description = api.get(f"/v1/models/{name}/versions/1").json()["description"]
    assert description["kernel"]["bandwidth"] == best["bandwidth"]
    assert result["metrics"]["r2"] > 0.5


def test_centers_of_a_file_are_counted(api, name):
    X, y = noisy(1000)
    centers = api.upload_npz(*noisy(30, seed=8))
    job = api.train(name, api.upload_npz(X, y), kernel="gaussian", regularization="auto",
                    centers={"method": "file", "dataset": centers})
    assert job["result"]["search"]["centers"] == job["result"]["centers"] == 30


def test_nothing_judged_is_an_error_with_a_pointer(api, name):
    X, y = noisy(60)
    job = api.train(name, api.upload_npz(X, y), "failed", kernel={"name": "sigmoid", "coef0": -1},
                    search={"regularization": [1e-10]})
    assert job["error"]["errors"][0]["pointer"] == "#/search"


def evidence(X, y, regularization, bandwidth, amplitude=None):
    """ln N(y; 0, s² (K + ridge)) of standardised rows, with the likeliest s² where there is none."""
    Z, target = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    n = len(y)
    C = data.kernel_matrix("gaussian", Z, Z, bandwidth) + n * regularization * np.eye(n)
    quadratic = target @ np.linalg.solve(C, target)
    s2 = quadratic / n if amplitude is None else amplitude
    return -0.5 * (quadratic / s2 + n * np.log(2 * np.pi * s2) + np.linalg.slogdet(C)[1])


@pytest.mark.parametrize("solver, centers, amplitude", [
    ({"name": "kmcg"}, None, None),
    ({"name": "kmcg", "amplitude": 2.5}, None, 2.5),
    ({"name": "inducing"}, {"count": 140}, None),
    ({"name": "inducing", "approximation": "dtc"}, {"count": 140}, None),
    ({"name": "kmcg_restricted"}, {"count": 140}, None),
], ids=["kmcg", "amplitude", "vfe", "dtc", "kmcg_restricted"])
def test_the_evidence_chooses_what_it_is_largest_for(api, name, solver, centers, amplitude):
    """With all rows as centers, or none: ln p(y) itself."""
    X, y = noisy()
    job = api.train(name, api.upload_npz(X, y), test={"fraction": 0}, kernel="gaussian", solver=solver,
                    search={"regularization": GRID, "bandwidth": [0.5, 1.0, 2.0, 4.0], "metric": "evidence"},
                    **({"centers": centers} if centers else {}))
    search, result = job["result"]["search"], job["result"]
    exact = [evidence(X, y, p["regularization"], p["bandwidth"], amplitude) for p in search["path"]]
    assert search["metric"] == "evidence" and len(exact) == 16 and search["rows"] == len(X)
    found = [p["evidence"] for p in search["path"]]
    near = [i for i, p in enumerate(search["path"]) if p["regularization"] >= 1e-5]  # below rounding weighs a little
    np.testing.assert_allclose(np.array(found)[near], np.array(exact)[near], rtol=1e-5)
    assert search["best"] == np.argmax(exact) == np.argmax(found)
    assert result["solver"] == solver["name"]
    assert result["regularization"] == search["path"][search["best"]]["regularization"]
    assert result["log_evidence"] == pytest.approx(max(exact), rel=1e-5)


def test_the_noise_of_a_sample_is_that_of_all_rows(api, name):
    """By the evidence: the ridge n lambda stands for it, and does not depend on how many rows are looked at."""
    rng = np.random.default_rng(91)
    X = rng.uniform(-3, 3, (25_600, 2))
    y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.standard_normal(len(X))
    grid = [float(f"{1e-7 * 2 ** k:.4g}") for k in range(13)]
    search = {"regularization": grid, "bandwidth": [1.0], "metric": "evidence"}
    spec = {"test": {"fraction": 0}, "kernel": "gaussian", "solver": "inducing", "centers": {"method": "uniform", "count": 150}}
    dataset = api.upload_npz(X, y)
    all_rows, some = (api.train(name, dataset, **spec, search={**search, "max_rows": most})["result"] for most in (2000, 250))
    assert all_rows["search"]["rows"] == 25_600 and some["search"]["rows"] < 25_600 / 4
    assert 0.4 < some["regularization"] / all_rows["regularization"] < 2.5, (some["regularization"], all_rows["regularization"], some["search"]["rows"])


def test_without_being_asked_there_is_no_evidence(api, name):
    X, y = noisy(60)
    job = api.train(name, api.upload_npz(X, y), kernel="gaussian", solver="kmcg", search={"regularization": [1e-3, 1e-1]})
    assert [p["evidence"] for p in job["result"]["search"]["path"]] == [None, None]
