"""The figures of a reference study, reproduced through the interface on the same rows.

KRRD_REFERENCE_DIR names a folder with the data files (NAME.npz: X, y; higgs7k.libsvm beside it) and
with ref/results.json and ref/ROW_idx.npz (arrays of training and test rows). The data are not part
of this repository, so the test is skipped without it.
"""

import json
import os
import pathlib

import numpy as np
import pytest

import contract
import data

FOLDER = pathlib.Path(os.environ.get("KRRD_REFERENCE_DIR", "/nonexistent"))
RESULTS = FOLDER / "ref" / "results.json"
ROWS = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
# Ridges of 1e-10 a row and less: beyond an iteration in float64, which must say so.
HARD = {name for name in ROWS if name.startswith("qm7")}
KERNELS = {"laplace": "laplacian_l1"}
LABELS = {"binary", "multiclass"}
table = []

pytestmark = pytest.mark.skipif(
    not ROWS, reason="KRRD_REFERENCE_DIR is not set to a folder with ref/results.json")


def source_of(row):
    """The data file of a row: the longest of the names it begins with."""
    names = [p.stem for p in FOLDER.glob("*.npz") if row.startswith(p.stem)]
    return FOLDER / (max(names, key=len) + ".npz")


def index_of(row):
    with np.load(FOLDER / "ref" / f"{row}_idx.npz") as stored:
        keys = {k: stored[k] for k in stored.files}
    train = next(v for k, v in keys.items() if "train" in k or k == "tr")
    test = next(v for k, v in keys.items() if "test" in k or k == "te")
    assert len(train) == ROWS[row]["n_train"] and len(test) == ROWS[row]["n_test"]
    return train, test


def problem(row):
    """X, y of the training rows and of the test rows, in the study's order."""
    with np.load(source_of(row)) as stored:
        X, y = stored["X"], stored["y"].astype(np.float64)
    y = np.log(y) if row == "diamonds_logprice" else y
    train, test = index_of(row)
    return (X[train], y[train]), (X[test], y[test])


def upload(api, X, y, form, task):
    query = {} if task == "regression" else {"task": "classification"}
    if form == "csv":
        # repr of a float64 reads back as the same number; X is float32 and so exact in it.
        return api.upload(data.csv(X.astype(np.float64), y), **query)["id"]
    if form == "libsvm":
        return api.upload(data.libsvm(X.astype(np.float64), y), "text/x-libsvm", **query)["id"]
    return api.upload(data.npz(X, y if task == "regression" else y.astype(np.int64)),
                      "application/x-npz", **query)["id"]


def spec_of(row):
    wanted = ROWS[row]
    return {
        "kernel": {"name": KERNELS.get(wanted["kernel"], wanted["kernel"]),
                   "bandwidth": wanted["sigma"]},
        "regularization": wanted["lam_unscaled"],
        "standardize": {"features": wanted["scaling"] == "std"},
        "device": "cpu",
    }


def compare(row, how, job):
    wanted, metrics = ROWS[row], job["result"]["metrics"]
    figures = {"rmse": "rmse", "mae": "mae", "smape": "smape", "acc": "accuracy", "auc": "auc"}
    wrong = []
    for ours, theirs in ((figures[k], wanted[k]) for k in figures if k in wanted):
        found = metrics[ours]
        close = found is not None and (abs(found - theirs) <= 0.005 if ours in ("accuracy", "auc")
                                       else abs(found - theirs) <= 0.005 * theirs)
        wrong += [] if close else [ours]
        table.append((row, how, ours, theirs, found, "" if close else "DIFFERS"))
    result = job["result"]
    table.append((row, how, "residual", wanted["rel_residual"], result["relative_residual"],
                  f"{job['reason']}, {result['iterations']} steps, {result['seconds']:.1f} s"))
    return wrong


def run(api, row, form, solver, stop=None, budget=900):
    (X, y), (Xt, yt) = problem(row)
    task = ROWS[row]["task"]
    dataset = upload(api, X, y, form, task)
    tested = upload(api, Xt, yt, form, task)
    job = api.train(row, dataset, timeout=budget, test={"dataset": tested}, solver=solver,
                    **({"stop": stop} if stop else {}), **spec_of(row))
    assert job["result"]["train_rows"] == ROWS[row]["n_train"]
    assert job["result"]["test_rows"] == ROWS[row]["n_test"]
    assert job["result"]["ridge"] == pytest.approx(ROWS[row]["lam"], rel=1e-9)
    return job


@pytest.mark.parametrize("row", list(ROWS))
def test_cholesky(api, row):
    job = run(api, row, "npz", "cholesky")
    assert job["device"] == "cpu"
    assert compare(row, "cholesky npz", job) == []
    assert job["reason"] == "converged"


@pytest.mark.parametrize("row, form", [("uci_bike", "csv"), ("higgs7k", "libsvm")])
def test_other_formats(api, row, form):
    assert compare(row, f"cholesky {form}", run(api, row, form, "cholesky")) == []


@pytest.mark.parametrize("row", [row for row in ROWS if row not in HARD])
def test_pcg(api, row):
    job = run(api, row, "npz", {"name": "pcg", "preconditioner": "rpcholesky"})
    assert compare(row, "pcg rpcholesky", job) == []
    assert job["result"]["preconditioner"] == "rpcholesky" and job["result"]["rank"] > 0


@pytest.mark.parametrize("row", sorted(HARD))
def test_pcg_says_how_far_it_came(api, row):
    """A certified residual, and the reason for stopping: not a figure that was hoped for."""
    job = run(api, row, "npz", {"name": "pcg", "preconditioner": "rpcholesky"},
              {"tolerance": 1e-6, "max_iterations": 1000, "time_budget_s": 90})
    compare(row, "pcg rpcholesky", job)
    residual = job["result"]["relative_residual"]
    assert residual is not None and 0 < residual
    if job["reason"] == "converged":
        assert residual <= 1.01e-6
    else:
        assert job["reason"] in ("iteration_limit", "time_budget", "stagnated", "breakdown")
        assert residual > 1e-6 or job["reason"] == "breakdown"


def test_print_the_table(capsys):
    """Not a check: what was found beside what was wanted."""
    with capsys.disabled():
        print()
        for row, how, figure, wanted, found, note in table:
            print(f"{row:18} {how:16} {figure:9} {wanted:12.6g} "
                  f"{'null' if found is None else format(found, '12.6g')} {note}")
    assert contract.exercised or table == []
