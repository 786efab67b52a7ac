"""Jobs whose rows lie on a grid: products go by it, and nothing else is different."""

import numpy as np
import pytest

import data


def series(n=6000, seed=81):
    """A series with gaps: one feature."""
    rng = np.random.default_rng(seed)
    t = np.arange(n)[rng.random(n) > 0.05]
    t = t[(t < n // 3) | (t > n // 3 + 500)] * 0.1 + 17.0
    return t[:, None], np.sin(t / 9) + 0.1 * rng.standard_normal(len(t))


def raster(rows=60, columns=40, seed=82):
    """Two features and one that is always the same; some places have two rows."""
    rng = np.random.default_rng(seed)
    a, b = (x.ravel() for x in np.meshgrid(np.arange(rows) * 2.5, np.arange(columns) - 7.0))
    X = np.column_stack([a, np.full(len(a), 3.0), b])
    X = np.vstack([X, X[:100]])
    return X, np.sin(X[:, 0] / 20) * np.cos(X[:, 2] / 7) + 0.1 * rng.standard_normal(len(X))


def train(api, name, X, y, solver, precision="float64", **more):
    spec = {"test": {"fraction": 0.2}, **more}
    job = api.train(name, api.upload_npz(X, y), kernel={"name": "matern52", "bandwidth": 0.3},
                    regularization=1e-4, precision=precision, solver=solver,
                    stop={"tolerance": 1e-10, "max_iterations": 500}, **spec)
    said = [e["message"] for e in api.get(f"/v1/jobs/{job['id']}/events?limit=1000").json()["data"] if e["type"] == "message"]
    return job, any("regular grid" in text for text in said)


@pytest.mark.parametrize("make, places", [(series, 1), (raster, 2)])
@pytest.mark.parametrize("solver", [{"name": "pcg"}, {"name": "pcg", "preconditioner": "none"},
                                    {"name": "kmcg", "directions": 60, "probes": 3}])
def test_the_model_is_the_same(api, name, make, places, solver):
    X, y = make()
    on, told = train(api, name, X, y, solver)
    assert told and len(on["result"]["grid"]) == places
    moved = X.copy()
    moved[:20, 0] += 1e-3 * np.pi  # on no grid
    off, told = train(api, name + "-off", moved, y, solver)
    assert not told
    assert (off["result"]["grid"] is None) == (make is raster)  # one feature goes by places around the rows
    Q = X[::7] + 0.3
    a, b = (np.array(api.predict(model, Q).json()["predictions"]) for model in (name, name + "-off"))
    assert np.abs(a - b).max() < 0.05 * np.abs(a).max()  # a few rows of many moved
    for key in ("rmse", "r2"):
        assert on["result"]["metrics"][key] == pytest.approx(off["result"]["metrics"][key], rel=1e-2)


def test_the_rank_knows_what_products_take(api, name):
    """A preconditioner that saves cheap iterations may take less itself (adr/0076)."""
    X, y = raster(100, 80)
    moved = X.copy()
    moved[:20, 0] += 1e-3 * np.pi  # on no grid
    on, off = (train(api, name + end, rows, y, {"name": "pcg"})[0]["result"]
               for end, rows in (("", X), ("-off", moved)))
    assert on["grid"] == [100, 80] and off["grid"] is None
    assert 100 <= on["rank"] < 0.75 * off["rank"]
    assert on["metrics"]["rmse"] == pytest.approx(off["metrics"]["rmse"], rel=1e-2)


@pytest.mark.parametrize("precision", ["float32", "mixed", "float64"])
@pytest.mark.parametrize("make", [series, raster])
def test_the_system_is_solved(api, name, make, precision):
    """Against NumPy."""
    X, y = make()
    _, told = train(api, name, X, y, {"name": "pcg"}, precision, test={"fraction": 0})
    assert told
    reference = data.Ridge(X, y[:, None], "matern52", 0.3, 1e-4)
    Q = X[::7] + 0.3
    wanted = reference.predict(Q)[:, 0]
    found = np.array(api.predict(name, Q).json()["predictions"])
    limit = 1e-3 if precision == "float32" else 1e-7 if precision == "mixed" else 1e-8
    assert np.abs(found - wanted).max() < limit * np.abs(wanted).max()


def test_rows_that_are_nearly_on_a_grid(api, name):
    """Float32 does not tell them from it; the model is that of the rows."""
    X, y = series()
    X = X + 1e-4 * np.random.default_rng(3).standard_normal(X.shape)
    _, told = train(api, name, X, y, {"name": "pcg"}, "mixed", test={"fraction": 0})
    assert not told
    Q = X[::7] + 0.3
    wanted = data.Ridge(X, y[:, None], "matern52", 0.3, 1e-4).predict(Q)[:, 0]
    found = np.array(api.predict(name, Q).json()["predictions"])
    assert np.abs(found - wanted).max() < 1e-7 * np.abs(wanted).max()


def test_test_rows_beside_the_grid(api, name):
    """The training rows are multiplied by it all the same."""
    X, y = series()
    test = api.upload_npz(X[::10] + 0.0437, y[::10])
    job, told = train(api, name, X, y, {"name": "pcg"}, test={"dataset": test})
    assert told and job["result"]["metrics"]["r2"] > 0.9


def test_what_is_learned_from_others(api, name):
    """Seconds on a grid teach nothing of those elsewhere."""
    X, y = series()
    job, told = train(api, name, X, y, {"name": "pcg"})
    assert told
    again, _ = train(api, name, X, y, {"name": "pcg"})
    seen = [j["plan"]["seconds"]["experience"] for j in (job, again)]
    assert (seen[0] or {}).get("jobs") == (seen[1] or {}).get("jobs")


def test_steps_of_any_length(api):
    """Two features of 50 and 40 values each, and a kernel that is a product over them."""
    rng = np.random.default_rng(84)
    a, b = (x.ravel() for x in np.meshgrid(np.sort(rng.normal(size=50)), np.sort(rng.random(40))))
    X, y = np.column_stack([a, b]), np.sin(2 * a) * np.cos(3 * b) + 0.1 * rng.standard_normal(len(a))
    dataset = api.upload_npz(X, y)
    spec = {"kernel": {"name": "gaussian", "bandwidth": 0.5}, "regularization": 1e-4, "test": {"fraction": 0.2},
            "stop": {"tolerance": 1e-10, "max_iterations": 500}}
    on = api.train("uneven", dataset, solver={"name": "pcg"}, **spec)
    said = [e["message"] for e in api.get(f"/v1/jobs/{on['id']}/events?limit=1000").json()["data"] if e["type"] == "message"]
    assert any("on a grid of 50 x 40 places" in text and "a matrix for each feature" in text for text in said)
    assert on["result"]["grid"] == [50, 40] and on["reason"] == "converged"
    off = api.train("uneven", dataset, solver={"name": "cholesky"}, **spec)
    assert off["result"]["grid"] is None
    assert on["result"]["metrics"]["rmse"] == pytest.approx(off["result"]["metrics"]["rmse"], rel=1e-6)


@pytest.mark.parametrize("precision", ["mixed", "float64"])
def test_few_features_anywhere(api, name, precision):
    """Against NumPy: places on a map, that lie on no grid."""
    rng = np.random.default_rng(85)
    X = np.column_stack([rng.normal(size=5000), np.full(5000, 3.0), rng.random(5000) * 4])
    y = np.sin(2 * X[:, 0]) * np.cos(X[:, 2]) + 0.1 * rng.standard_normal(len(X))
    job = api.train(name, api.upload_npz(X, y), kernel={"name": "gaussian", "bandwidth": 0.5}, regularization=1e-5, precision=precision,
                    solver={"name": "pcg"}, test={"fraction": 0}, stop={"tolerance": 1e-9, "max_iterations": 500})
    said = [e["message"] for e in api.get(f"/v1/jobs/{job['id']}/events?limit=1000").json()["data"] if e["type"] == "message"]
    assert any("few features" in text for text in said)
    assert len(job["result"]["grid"]) == 2 and job["reason"] == "converged"
    Q = X[::7] + 0.03
    wanted = data.Ridge(X, y[:, None], "gaussian", 0.5, 1e-5).predict(Q)[:, 0]
    found = np.array(api.predict(name, Q).json()["predictions"])
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("kernel", ["matern12", "matern52", "laplacian_l1"])
def test_one_feature_anywhere(api, name, kernel):
    """Against NumPy: pairs that are near are taken apart."""
    rng = np.random.default_rng(86)
    X = np.column_stack([np.full(8000, 3.0), rng.normal(size=8000)])
    y = np.sin(3 * X[:, 1]) + 0.1 * rng.standard_normal(len(X))
    job = api.train(name, api.upload_npz(X, y), kernel={"name": kernel, "bandwidth": 0.5}, regularization=1e-5, precision="float64",
                    solver={"name": "pcg"}, test={"fraction": 0}, stop={"tolerance": 1e-9, "max_iterations": 500})
    assert len(job["result"]["grid"]) == 1 and job["reason"] == "converged"
    Q = X[::7] + 0.03
    wanted = data.Ridge(X, y[:, None], kernel, 0.5, 1e-5).predict(Q)[:, 0]
    found = np.array(api.predict(name, Q).json()["predictions"])
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_test_rows_that_would_make_the_grid_much_larger(api):
    """Every test row has values of its own: the grid of all would have six times the places of the training rows."""
    rng = np.random.default_rng(85)
    a, b = (x.ravel() for x in np.meshgrid(np.sort(rng.normal(size=30)), np.sort(rng.random(30))))
    X, y = np.column_stack([a, b]), np.sin(2 * a) * np.cos(3 * b) + 0.1 * rng.standard_normal(len(a))
    T = np.column_stack([rng.normal(size=40), rng.random(40)])
    test = api.upload_npz(T, np.sin(2 * T[:, 0]) * np.cos(3 * T[:, 1]))
    job = api.train("beside", api.upload_npz(X, y), solver={"name": "pcg"}, test={"dataset": test}, regularization=1e-4,
                    kernel={"name": "gaussian", "bandwidth": 0.5}, stop={"tolerance": 1e-8, "max_iterations": 500})
    assert job["result"]["grid"] == [30, 30] and job["result"]["metrics"]["r2"] > 0.9


def product_grid(seed=86, share=0.9):
    """Uneven places of two features, of which a tenth has no row and some have two."""
    rng = np.random.default_rng(seed)
    a, b = (x.ravel() for x in np.meshgrid(np.sort(rng.normal(size=40)), np.sort(rng.random(35))))
    X = np.column_stack([a, b])[rng.random(len(a)) < share]
    X = np.vstack([X, X[:50]])
    return X, np.sin(2 * X[:, 0]) * np.cos(3 * X[:, 1]) + 0.1 * rng.standard_normal(len(X))


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian_l1"])
@pytest.mark.parametrize("precision", ["float32", "mixed", "float64"])
def test_the_preconditioner_of_grids(api, name, kernel, precision):
    """Chosen where nothing is named: the model is NumPy's, after a few iterations."""
    X, y = product_grid()
    job = api.train(name, api.upload_npz(X, y), kernel={"name": kernel, "bandwidth": 0.5}, regularization=1e-4, precision=precision,
                    solver="pcg", test={"fraction": 0}, stop={"tolerance": 1e-5 if precision == "float32" else 1e-10})
    assert job["spec"]["solver"]["preconditioner"] == {"name": "auto"} and job["plan"]["preconditioner"] == "rpcholesky"
    result = job["result"]
    assert result["preconditioner"] == "kronecker" and result["rank"] == 0 and result["grid"] == [40, 35] and job["reason"] == "converged"
    assert result["iterations"] <= (5 if precision == "float64" else 30)
    said = [e["message"] for e in api.get(f"/v1/jobs/{job['id']}/events?limit=1000").json()["data"] if e["type"] == "message"]
    assert any("fill a grid: kronecker" in text for text in said)
    Q = X[::7] + 0.01
    wanted = data.Ridge(X, y[:, None], kernel, 0.5, 1e-4).predict(Q)[:, 0]
    found = np.array(api.predict(name, Q).json()["predictions"])
    assert np.abs(found - wanted).max() < (1e-3 if precision == "float32" else 1e-7) * np.abs(wanted).max()


def test_rows_that_do_not_fill_a_grid(api, name):
    """A tenth of the places has a row, or an axis has nearly as many places as there are rows; nor is a name given away."""
    X, y = product_grid(share=0.1)
    common = {"kernel": {"name": "gaussian", "bandwidth": 0.5}, "regularization": 1e-4, "test": {"fraction": 0}}
    dataset = api.upload_npz(X, y)
    assert api.train(name, dataset, solver="pcg", **common)["result"]["preconditioner"] == "rpcholesky"
    line = np.sort(np.random.default_rng(6).normal(size=(500, 1)), axis=0)  # a grid of its own, as dear as a direct solver
    assert api.train(name, api.upload_npz(line, np.sin(line[:, 0])), solver="pcg", **common)["result"]["preconditioner"] == "rpcholesky"
    X, y = product_grid()
    crowd = np.vstack([X, np.tile(X[:1], (len(X), 1))]), np.concatenate([y, np.full(len(y), y[0])])  # half of all rows in one place
    assert api.train(name, api.upload_npz(*crowd), solver="pcg", **common)["result"]["preconditioner"] == "rpcholesky"
    full = api.upload_npz(*product_grid())
    for given in ("rpcholesky", {"rank": 50}):
        job = api.train(name, full, solver={"name": "pcg", "preconditioner": given}, **common)
        assert job["result"]["preconditioner"] == "rpcholesky"
    job = api.train(name, full, solver={"name": "pcg", "preconditioner": "kronecker"}, **common)
    assert job["result"]["preconditioner"] == job["plan"]["preconditioner"] == "kronecker"


@pytest.mark.parametrize("kernel, rows", [("matern52", False), ("gaussian", True)])
def test_what_the_preconditioner_of_grids_refuses(api, name, kernel, rows):
    X, y = product_grid()
    X = X + 1e-3 * np.random.default_rng(4).standard_normal(X.shape) if rows else X
    job = api.train(name, api.upload_npz(X, y), expect="failed", kernel={"name": kernel, "bandwidth": 0.5}, regularization=1e-4,
                    solver={"name": "pcg", "preconditioner": "kronecker"})
    problem = job["error"]["errors"][0]
    assert problem["pointer"] == "#/solver/preconditioner" and "kronecker" in problem["detail"]
