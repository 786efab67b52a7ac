"""bench/claims on tiny problems: the synthetic sets are what they say, and the runs add up."""
import json
import os
import pathlib
import subprocess
import sys

import numpy
import pytest

CLAIMS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "claims"
sys.path.insert(0, str(CLAIMS))
import paper000  # noqa: E402
import paper003  # noqa: E402
import problems  # noqa: E402
import synthetic  # noqa: E402

PROGRAM = os.environ["KRRD_TEST_BENCH"]
WORKER = os.environ["KRRD_TEST_WORKER"]


def kernel(X):
    squares = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
    return numpy.exp(-squares / 18)


@pytest.mark.parametrize("name", synthetic.PROBLEMS)
def test_synthetic_sets_repeat_and_are_standardised(name):
    make = synthetic.PROBLEMS[name]
    X, y = make(400, 1)
    again, other = make(400, 1), make(400, 2)
    assert X.shape[0] == len(y) == 400
    assert numpy.array_equal(X, again[0]) and numpy.array_equal(y, again[1])
    assert not numpy.array_equal(X, other[0])
    assert numpy.allclose(X.mean(axis=0), 0, atol=1e-12) and numpy.allclose(X.std(axis=0), 1)
    assert numpy.isfinite(y).all() and y.std() > 0.1


@pytest.mark.parametrize("name, isolated", [("outliers", 120), ("outliers_and_far_region", 60)])
def test_outliers_see_no_other_row(name, isolated):
    K = kernel(synthetic.PROBLEMS[name](1000, 0)[0])
    numpy.fill_diagonal(K, 0)
    assert (K.max(axis=1) < 1e-3).sum() >= isolated


@pytest.mark.parametrize("name", ["far_region", "outliers_and_far_region"])
def test_the_far_region_holds_much_of_the_spectrum_in_few_rows(name):
    X, _ = synthetic.PROBLEMS[name](1000, 0)
    K = kernel(X)
    crowd = K.sum(axis=1) > 250
    assert 0.85 <= crowd.mean() <= 0.95
    # Few eigenvalues describe the many rows, many the few.
    spectrum = numpy.linalg.eigvalsh(K[numpy.ix_(crowd, crowd)]), numpy.linalg.eigvalsh(K[numpy.ix_(~crowd, ~crowd)])
    assert (spectrum[0] > 0.1).sum() < 40 < (spectrum[1] > 0.1).sum()


def test_paper000_runs_goes_on_and_draws(tmp_path):
    out = tmp_path / "out.json"
    command = [sys.executable, str(CLAIMS / "paper000.py"), "--bench", PROGRAM, "--out", str(out), "--n", "300",
               "--ranks", "20", "60", "--problems", "outliers", "--threads", "1", "--no-builds"]
    first = subprocess.run([*command, "--preconditioners", "rpcholesky"], capture_output=True, text=True, timeout=100)
    assert first.returncode == 0, first.stderr
    results = json.loads(out.read_text())
    assert {(r["preconditioner"], r["rank_wanted"]) for r in results["runs"]} == {("rpcholesky", 20), ("rpcholesky", 60)}
    for r in results["runs"]:
        assert len(r["residuals"]) == r["iterations"] and r["build_cpu_seconds"] > 0
        assert r["solved"] == (r["certified_residual"] <= 1.01e-3) and r["solved"] == (r["residuals"][-1] <= 1e-3)
    second = subprocess.run([*command, "--preconditioners", "none", "rpcholesky"], capture_output=True, text=True,
                            timeout=100)
    assert second.returncode == 0, second.stderr
    more = json.loads(out.read_text())
    assert more["runs"][: len(results["runs"])] == results["runs"]
    assert [r["preconditioner"] for r in more["runs"]][len(results["runs"]) :][0] == "none"
    for rank in (20, 60):
        curve = paper000.share_curve(more, "rpcholesky", rank)
        r = paper000.best_run(more, "outliers", "rpcholesky", rank)
        assert len(curve) == 251 and curve == [float(r["solved"] and t >= r["iterations"]) for t in range(251)]
    table = paper000.markdown_tables(more)
    assert "| rpcholesky |" in table and "| outliers | 300 | 40 |" in table


def test_builds_are_timed(tmp_path):
    options = paper000.read_options(["--out", str(tmp_path / "out.json"), "--bench", PROGRAM, "--n", "1200",
                                     "--problems", "outliers", "--repeat", "1"])
    results = {"builds": []}
    problem = paper000.make_problem(options, "outliers", str(tmp_path))
    paper000.run_builds(options, results, str(tmp_path), problem)
    (build,) = results["builds"]
    assert build["n"] == 1200 and build["rank"] == 1000
    assert build["ratio"] > 0 and all(300 < build[way]["rank"] <= 1000 for way in ("simple", "accelerated"))


def test_real_sets_are_drawn_and_labelled(tmp_path):
    rng = numpy.random.default_rng(0)
    numpy.savez(tmp_path / "letter.npz", X=rng.normal(size=(50, 3)).astype("f4"), y=rng.integers(1, 4, 50).astype("f4"))
    numpy.savez(tmp_path / "diamonds.npz", X=rng.normal(size=(9, 2)).astype("f4"), y=numpy.full(9, numpy.e, "f4"))
    X, y, labels = problems.real(tmp_path, "letter", 20, 0)
    assert X.shape == (20, 3) and labels == ["1", "2", "3"] and set(y) <= {0.0, 1.0, 2.0}
    X, y, labels = problems.real(tmp_path, "diamonds", 20, 0)
    assert X.shape == (9, 2) and labels is None and numpy.allclose(y, 1)


def test_hflights_compares_times_to_the_exact_error(tmp_path):
    rng = numpy.random.default_rng(0)
    X = rng.normal(size=(501, 3)).astype("f4")
    numpy.savez(tmp_path / "hflights.npz", X=X, y=numpy.sin(X[:, 0]) + X[:, 1] ** 2)
    out = tmp_path / "out.json"
    command = [sys.executable, str(CLAIMS / "hflights.py"), "--data", str(tmp_path), "--bench", PROGRAM, "--out",
               str(out), "--threads", "1", "--n", "300"]
    for name in ("exact", "askotch2"):
        done = subprocess.run([*command, "--runs", name], capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    assert [r["name"] for r in results["runs"]] == ["exact", "askotch2"] and len(results["commands"]) == 2
    assert str(tmp_path) not in out.read_text()
    for r in results["runs"]:
        assert r["train_rows"] == 300 and r["test_rows"] == 101
        assert r["evaluations"][-1]["rmse"] == r["metrics"]["rmse"]
        assert 0 < r["first_iteration_cpu_seconds"] <= r["evaluations"][-1]["cpu_seconds"] <= r["cpu_seconds"]
    assert "| askotch2 | float32 |" in done.stdout and "Exact test RMSE" in done.stdout


def test_paper002_runs_goes_on_and_prints(tmp_path):
    rng = numpy.random.default_rng(0)
    y = numpy.arange(3000) % 3
    X = (4 * y[:, None] + rng.normal(size=(3000, 16))).astype("f4")
    numpy.savez(tmp_path / "letter.npz", X=X, y=y.astype("f4"))
    out = tmp_path / "out.json"
    command = [sys.executable, str(CLAIMS / "paper002.py"), "--data", str(tmp_path), "--bench", PROGRAM, "--out",
               str(out), "--n", "1600", "--counts", "20", "--repeat", "1", "--timed", "40", "--iterations", "2"]
    first = subprocess.run([*command, "--parts", "selectors", "time"], capture_output=True, text=True, timeout=100)
    assert first.returncode == 0, first.stderr
    parts = json.loads(out.read_text())["parts"]
    assert [(r["kernel"], r["selector"]) for r in parts["selectors"]] == [
        (k, s) for k in ("laplacian", "gaussian") for s in ("uniform", "kmeans")]
    assert [(r["projection"], r["solver"]) for r in parts["time"]] == [
        (p, s) for p in ("exact", "inexact") for s in ("eigenpro3", "eigenpro4")]
    assert all(r["accuracy"] > 0.9 and r["iterations"] == 2 for r in parts["time"])
    again = subprocess.run([*command, "--parts", "rows", "--table"], capture_output=True, text=True, timeout=100)
    assert again.returncode == 0, again.stderr
    results = json.loads(out.read_text())
    assert results["parts"]["time"] == parts["time"] and results["parts"]["rows"][0]["rows"] == 1000
    assert str(tmp_path) not in out.read_text()
    assert "| gaussian | kmeans |" in again.stdout and "| 40 | inexact | eigenpro4 |" in again.stdout


def test_paper003_runs_goes_on_and_prints(tmp_path):
    out = tmp_path / "out.json"
    command = [sys.executable, str(CLAIMS / "paper003.py"), "--bench", PROGRAM, "--out", str(out), "--regularization",
               "1e-2", "--repeat", "1", "--sizes", "300", "--growth-repeat", "1", "--synthetic-n", "400", "--problems",
               "far_region", "--growing", "outliers"]
    first = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert first.returncode == 0, first.stderr
    results = json.loads(out.read_text())
    assert [r["selector"] for r in results["accuracy"]] == list(paper003.SELECTORS)
    assert [r["selector"] for r in results["growth"]] == list(paper003.GROWING)
    by_name = {r["selector"]: r for r in results["accuracy"]}
    assert by_name["uniform"]["m"] == by_name["bless"]["m"]
    assert all(0.5 < r["ratio_mean"] < 2 for r in results["accuracy"])
    again = subprocess.run([*command, "--table"], capture_output=True, text=True, timeout=100)
    assert again.returncode == 0 and json.loads(out.read_text()) == results
    assert again.stdout.count("\n| bless") == 2 and "| 300 |" in again.stdout


def test_paper003_learning_goes_on_and_prints(tmp_path):
    rng = numpy.random.default_rng(1)
    X = rng.normal(size=(500, 3)).astype("f4")
    numpy.savez(tmp_path / "hflights.npz", X=X, y=(numpy.sin(X[:, 0]) + 0.3 * rng.normal(size=500)).astype("f4"))
    out = tmp_path / "out.json"
    command = [sys.executable, str(CLAIMS / "paper003.py"), "--data", str(tmp_path), "--bench", PROGRAM, "--out", str(out),
               "--parts", "learning", "--learning-n", "300", "--learning-seeds", "1"]
    first = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert first.returncode == 0, first.stderr
    runs = json.loads(out.read_text())["learning"]
    pairs = {(r["lam"], r["scores"], r["solver"]): r["centers"] for r in runs if r["table"] == "apart"}
    assert pairs[1e-5, 1e-3, "falkon_bless"] == pairs[1e-5, 1e-3, "falkon"] < pairs[1e-5, 1e-5, "falkon_bless"]
    assert pairs[1e-6, 1e-3, "falkon_bless"] == pairs[1e-5, 1e-3, "falkon_bless"]  # the scores are not the solver's
    again = subprocess.run([*command, "--table"], capture_output=True, text=True, timeout=100)
    assert again.returncode == 0 and json.loads(out.read_text())["learning"] == runs
    assert again.stdout.count("\n| falkon_bless |") == 4 and "| 1e-06 | 0.001 |" in again.stdout


def test_stochastic_is_held_to_the_direct_solution(tmp_path):
    rng = numpy.random.default_rng(0)
    X = rng.normal(size=(1000, 3)).astype("f4")
    numpy.savez(tmp_path / "uci_bike.npz", X=X, y=(numpy.sin(X[:, 0]) + rng.normal(size=1000)).astype("f4"))
    out = tmp_path / "out.json"
    command = [sys.executable, str(CLAIMS / "stochastic.py"), "--data", str(tmp_path), "--bench", PROGRAM, "--out",
               str(out), "--runs", "bike-200", "--regularization", "1e-3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    assert [r["solver"] for r in results["runs"]] == ["direct", "falkon", "sketchysaga", "sketchykatyusha"]
    assert str(tmp_path) not in out.read_text()
    exact = results["runs"][0]["metrics"]["rmse"]
    for r in results["runs"]:
        assert r["stop_reason"] == "converged" and r["relative_residual"] <= 1.01e-6
        assert abs(r["metrics"]["rmse"] - exact) < 1e-3 * exact
        assert all(0 < at["relative_residual"] < 1 for at in r["residuals"])
    assert done.stdout.count("| bike-200 |") == 4


@pytest.mark.parametrize("name", ["gaussian", "matern52"])
def test_the_gradient_of_the_evidence_is_its_difference_quotient(name):
    import gaussian

    rng = numpy.random.default_rng(0)
    X, at = rng.normal(size=(60, 2)), numpy.log([0.7, 1.5, 2.0, 0.1])
    y = numpy.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=60)
    value, gradient = gaussian.log_evidence_and_gradient(name, X, y, at)
    for j, step in enumerate(1e-5 * numpy.eye(4)):
        ends = [gaussian.log_evidence_and_gradient(name, X, y, at + sign * step)[0] for sign in (1, -1)]
        assert abs((ends[0] - ends[1]) / 2e-5 - gradient[j]) < 1e-6 * abs(gradient).max()
    exact = gaussian.Exact(name, X, y, numpy.array([0.7, 1.5]), 0.05, 2.0)
    assert abs(exact.log_evidence - value) < 1e-9 * abs(value)
    # The most likely amplitude is the one with the largest evidence.
    likely = gaussian.Exact(name, X, y, numpy.array([0.7, 1.5]), 0.05)
    for factor in (0.9, 1.1):
        other = gaussian.Exact(name, X, y, numpy.array([0.7, 1.5]), 0.05, factor * likely.amplitude)
        assert other.log_evidence < likely.log_evidence


def noisy_sets(folder, names, rows=260):
    for seed, name in enumerate(names):
        rng = numpy.random.default_rng(seed)
        X = rng.normal(size=(rows, 2)).astype("f4")
        y = numpy.exp(numpy.sin(2 * X[:, 0]) + X[:, 1] / 2 + 0.2 * rng.normal(size=rows))
        numpy.savez(folder / f"{name}.npz", X=X, y=y.astype("f4"))


def test_paper004_holds_krrd_to_the_papers_formulas(tmp_path):
    out = tmp_path / "out.json"
    command = [sys.executable, str(CLAIMS / "paper004.py"), "--out", str(out), "--sets", "toy", "--kernels", "matern52"]
    run = [*command, "--data", str(tmp_path), "--worker", WORKER, "--bench", PROGRAM, "--repeat", "2", "--jobs", "1"]
    first = subprocess.run([*run, "--parts", "curves", "limits", "centers"], capture_output=True, text=True, timeout=100)
    assert first.returncode == 0, first.stderr
    results = json.loads(out.read_text())
    (curve,) = results["curves"]
    by_method = {(x["method"], x["steps"]): x for x in curve["lines"]}
    assert by_method["kmcg", 20]["apart_from_numpy"] < 1e-8
    assert by_method["kmcg", 100]["mean"] < 1e-8 < 1e-3 < by_method["kmcg", 10]["mean"]
    probed = by_method["kmcg, probes", 10]
    assert probed["directions"] > 100 and all(abs(probed[e]) < 1e-6 for e in ("mean", "variance", "evidence"))
    assert by_method["fitc", 100]["draws"] == 2 and by_method["fitc", 100]["centers"] == 141
    assert [x["method"] for x in results["limits"]] == ["kmcg", "kmcg, probes", "dtc", "fitc", "vfe"]
    assert all(max(x["mean_norm"], x["variance"], abs(x["evidence"])) < 1e-6 for x in results["limits"])
    among = {(x["method"], x.get("asked")): x for x in results["centers"][0]["lines"]}
    for error in ("mean_norm", "variance", "evidence"):
        assert abs(among["kmcg", 50][error] - among["dtc", None][error]) < 1e-4 * abs(among["dtc", None][error])
        assert abs(among["kmcg", 5][error]) > abs(among["kmcg", 50][error])
    again = subprocess.run([*command, "--table"], capture_output=True, text=True, timeout=100)
    assert again.returncode == 0, again.stderr
    assert json.loads(out.read_text()) == results and "| toy | matern52 | kmcg | 200 of 200 |" in again.stdout


def test_paper004_practice_judges_by_held_out_rows(tmp_path):
    noisy_sets(tmp_path, ["diamonds"])
    out = tmp_path / "out.json"
    command = [sys.executable, str(CLAIMS / "paper004_practice.py"), "--out", str(out), "--data", str(tmp_path), "--worker",
               WORKER, "--bench", PROGRAM, "--sets", "diamonds", "--kernels", "gaussian", "--rows", "200", "--table"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    lines = {x["method"]: x for x in results["coverage"][0]["lines"]}
    assert all(0.8 < x["coverage"] <= 1 for x in lines.values())
    assert abs(lines["kmcg, probes, p = 500"]["rmse"] - lines["exact"]["rmse"]) < 1e-4
    (judge,) = results["judge"]
    best = {m: max((x for x in judge["lines"] if x["method"] == m), key=lambda x: x["log_evidence"])
            for m in ("exact", "fitc, M = 300")}
    assert best["exact"]["bandwidth"] == best["fitc, M = 300"]["bandwidth"]
    for x in results["continuation"][0]["lines"]:
        assert x["mean_norm"] < 1e-5 and x["relative_residual"] < 1e-7
    assert "| pcg, none |" in done.stdout
