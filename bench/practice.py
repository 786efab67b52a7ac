#!/usr/bin/env python3
"""What jobs that leave everything open come to, against what a practitioner would try (docs/adr/0068).

    bench/practice.py --url http://127.0.0.1:8080 [--data DIR] [--sets NAME ...] [--rows N] [--draws N] [--keep FILE]
        [--others [NAME ...]]

Makes tables and takes those that scikit-learn has with it; DIR holds further ones as NPZ files with X and y. Of each at
most N rows (1,000) train and 4,000 test, drawn from a seed, three times. Prints
the mean R2 of the test rows, or the share of right classes: of scikit-learn's Gaussian process with one bandwidth a
feature, RBF and Matern 5/2, by marginal likelihood (one for all beyond 32 features), of kernel ridge regression and
support vectors by a search on five folds, of boosted trees, and of the daemon at URL given data and target alone. FILE
keeps what the others came to, which takes an hour.
"""
import argparse
import json
import os
import pathlib
import time
import urllib.request
import warnings

import numpy
from sklearn import datasets

import defaults

TEST_ROWS = 4000


def generated(seed):
    """Name -> X, y, whether y is a class."""
    for name in ("diabetes", "breast_cancer", "digits", "wine", "iris"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield name, (X, y, name != "diabetes")
    for name, noise in (("friedman1", 1), ("friedman2", 50), ("friedman3", 0.1)):
        X, y = getattr(datasets, f"make_{name}")(2000, noise=noise, random_state=seed)
        yield name, (X, y, False)
    X = datasets.make_friedman2(2000, random_state=seed)[0]
    yield "friedman2_log", (X, numpy.exp(X[:, 0] / 20 + numpy.sin(5 * X[:, 2])), False)
    yield "linear", (*datasets.make_regression(1000, 20, n_informative=10, noise=10, random_state=seed), False)
    yield "sparse", (*datasets.make_sparse_uncorrelated(1000, random_state=seed), False)
    yield "swiss_roll", (*datasets.make_swiss_roll(2000, noise=0.3, random_state=seed), False)
    yield "s_curve", (*datasets.make_s_curve(2000, noise=0.1, random_state=seed), False)
    yield "moons", (*datasets.make_moons(1000, noise=0.25, random_state=seed), True)
    yield "circles", (*datasets.make_circles(1000, noise=0.15, factor=0.6, random_state=seed), True)
    yield "classes", (*datasets.make_classification(2000, 20, n_informative=6, n_classes=3, random_state=seed), True)
    shells = datasets.make_gaussian_quantiles(n_samples=2000, n_features=6, n_classes=3, random_state=seed)
    yield "quantiles", (*shells, True)
    yield "hastie", (*datasets.make_hastie_10_2(3000, random_state=seed), True)
    rng = numpy.random.default_rng(seed)
    X = rng.normal(size=(3000, 40))
    yield "needle", (X, numpy.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=3000), False)
    yield "two_needles", (X, numpy.sin(4 * X[:, 0]) * numpy.cos(4 * X[:, 1]) + 0.1 * rng.normal(size=3000), False)
    codes = rng.integers(0, 12, size=(3000, 3))
    effect = rng.normal(size=(3, 12))
    X = numpy.column_stack([numpy.eye(12)[codes[:, j]] for j in range(3)] + [rng.normal(size=(3000, 3))])
    y = effect[0, codes[:, 0]] * numpy.sin(2 * X[:, 36]) + effect[1, codes[:, 1]] + X[:, 37] ** 2
    yield "one_hot", (X, y + 0.1 * rng.normal(size=3000), False)
    X = rng.normal(size=(2500, 800))
    yield "wide", (X, numpy.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=2500), False)
    X = rng.lognormal(0, 1.5, size=(2500, 6))
    yield "log_target", (X, numpy.exp(numpy.log(X[:, 0]) + 0.5 * numpy.log(X[:, 1]) + 0.1 * rng.normal(size=2500)), False)
    X = rng.uniform(size=(2000, 2))
    yield "step", (X, (X[:, 0] > 0.5) + (X[:, 1] > X[:, 0]) * 0.5 + 0.1 * rng.normal(size=2000), False)
    X = rng.uniform(size=(2000, 1))
    yield "wiggles", (X, numpy.sin(60 * X[:, 0] ** 2) + 0.1 * rng.normal(size=2000), False)
    X = rng.uniform(-1, 1, size=(3000, 8))
    y = numpy.cos(X[:, :4].sum(1) * 3) + X[:, 4]
    yield "ridge_function", (X, y + 0.05 * rng.normal(size=3000), False)


def all_sets(folder, seed):
    yield from generated(seed)
    rng = numpy.random.default_rng(seed)
    for name, (X, y) in defaults.made(rng):
        yield name, (X, y, False)
    for name, (X, y) in defaults.loaded(folder, 1 << 40, rng) if folder else []:
        yield name, (X, y, name in ("letter", "higgs7k"))


def split(X, y, most, draw):
    order = numpy.random.default_rng(draw).permutation(len(X))
    train = min(most, 2 * len(X) // 3)
    return order[:train], order[train:train + TEST_ROWS]


def score(classes, truth, predicted):
    if classes:
        return float(numpy.mean(truth == predicted))
    return float(1 - numpy.sum((truth - predicted) ** 2) / numpy.sum((truth - truth.mean()) ** 2))


# The others.

def process(kernel):
    from sklearn import gaussian_process as gp
    from sklearn.gaussian_process import kernels

    def fit(X, y, classes):
        lengths = numpy.full(X.shape[1], numpy.sqrt(X.shape[1])) if X.shape[1] <= 32 else numpy.sqrt(X.shape[1])
        one = kernels.RBF(lengths, (1e-2, 1e4)) if kernel == "rbf" else kernels.Matern(lengths, (1e-2, 1e4), nu=2.5)
        whole = kernels.ConstantKernel(1, (1e-3, 1e5)) * one + kernels.WhiteKernel(0.1, (1e-8, 1e2))
        if not classes:
            return gp.GaussianProcessRegressor(whole, normalize_y=True).fit(X, y).predict
        names = numpy.unique(y)  # as krrd has them: a target a class
        model = gp.GaussianProcessRegressor(whole, normalize_y=True).fit(X, numpy.where(y[:, None] == names, 1.0, -1.0))
        return lambda Z: names[numpy.argmax(model.predict(Z).reshape(len(Z), -1), 1)]
    return fit


def searched(kind):
    from sklearn import kernel_ridge, model_selection, svm

    def fit(X, y, classes):
        d = X.shape[1]
        gammas = [g / d for g in (0.01, 0.1, 0.5, 2, 10)]
        if kind == "krr":
            grid = {"kernel": ["rbf", "laplacian"], "gamma": gammas, "alpha": [1e-4, 1e-2, 0.1, 1, 10]}
            targets = numpy.where(y[:, None] == numpy.unique(y), 1.0, -1.0) if classes else y
            names, center = numpy.unique(y), targets.mean(0)
            model = model_selection.GridSearchCV(kernel_ridge.KernelRidge(), grid, cv=5).fit(X, targets - center)
            if classes:
                return lambda Z: names[numpy.argmax(model.predict(Z) + center, 1)]
            return lambda Z: model.predict(Z) + center
        grid = {"C": [0.1, 1, 10, 100], "gamma": gammas}
        scale, shift = (1, 0) if classes else (y.std(), y.mean())
        model = model_selection.GridSearchCV(svm.SVC() if classes else svm.SVR(), grid, cv=5)
        model.fit(X, y if classes else (y - shift) / scale)
        return model.predict if classes else lambda Z: model.predict(Z) * scale + shift
    return fit


def trees(X, y, classes):
    from sklearn import ensemble
    kind = ensemble.HistGradientBoostingClassifier if classes else ensemble.HistGradientBoostingRegressor
    return kind(random_state=0).fit(X, y).predict


OTHERS = {"gp rbf": process("rbf"), "gp matern": process("matern"), "krr cv": searched("krr"), "svm cv": searched("svm"),
          "trees": trees}


def other(name, X, y, classes, train, test):
    mean, scale = X[train].mean(0), X[train].std(0)
    Z = (X - mean) / numpy.where(scale > 0, scale, 1)
    return score(classes, y[test], OTHERS[name](Z[train], y[train], classes)(Z[test]))


# krrd.

def ask(url, path, body, kind="application/json"):
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url + path, data, {"Content-Type": kind})) as answer:
        return json.load(answer)


def krrd(url, X, y, classes, train, test, more):
    mask = numpy.zeros(len(X))
    mask[test] = 1
    rows = numpy.concatenate([train, test])
    names = [f"x{j}" for j in range(X.shape[1])] + ["held", "target"]
    text = [",".join(names)] + [",".join("%.9g" % v for v in row) for row in numpy.column_stack([X, mask, y])[rows]]
    task = "classification" if classes else "regression"
    ds = ask(url, f"/v1/datasets?name=practice&target=target&task={task}", "\n".join(text).encode(), "text/csv")
    job = ask(url, "/v1/jobs", {"model": "practice", "dataset": ds["id"], "test": {"mask": "held"}, **more})
    while job["status"] not in ("succeeded", "failed", "cancelled"):
        time.sleep(0.05)
        job = ask(url, f"/v1/jobs/{job['id']}", None)
    if job["status"] != "succeeded":
        raise SystemExit(json.dumps(job["error"]))
    said = ask(url, f"/v1/jobs/{job['id']}/events?limit=1000", None)
    version = ask(url, f"/v1/models/practice/versions/{job['model_version']}", None)
    metrics = job["result"]["metrics"]
    return metrics["accuracy" if classes else "r2"], job["result"], version, said


def chosen(result, version, said):
    kernel = version["description"]["kernel"]
    messages = [event.get("message", "") for event in said["data"]]
    wide = [m for m in messages if "times the median" in m or "median rule" in m]
    learned = any("Bandwidths learned" in m for m in messages)
    bandwidth = "learned" if learned else (wide[0].split(", ")[1].split(" ")[0] if wide and "times" in wide[0] else "1")
    return f"{kernel.get('name')}, {bandwidth}, {result['regularization']:.2g}, {result['seconds']:.1f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("KRR_URL"))
    parser.add_argument("--data")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--others", nargs="*", default=list(OTHERS))
    parser.add_argument("--job", type=json.loads, default={})
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    kept = json.loads(args.keep.read_text()) if args.keep and args.keep.exists() else {}
    columns = list(OTHERS)
    print("| | rows |", " | ".join(columns), "| krrd | chosen |\n|" + " --- |" * (len(columns) + 4), flush=True)
    for name, (X, y, classes) in all_sets(args.data, args.seed):
        if args.sets and name not in args.sets:
            continue
        parts = [split(X, y, args.rows, draw + args.seed) for draw in range(args.draws)]
        cells = []
        for column in columns:
            key = f"{name}/{column}/{args.rows}/{args.seed}/{args.draws}"
            if key not in kept and column in args.others:
                kept[key] = float(numpy.mean([other(column, X, y, classes, *p) for p in parts]))
                if args.keep:
                    args.keep.write_text(json.dumps(kept, indent=0))
            cells.append(f"{kept[key]:.4f}" if key in kept else "")
        ours, said = "", ""
        if args.url:
            runs = [krrd(args.url, X, y, classes, *p, args.job) for p in parts]
            ours, said = f"{numpy.mean([r[0] for r in runs]):.4f}", "; ".join(chosen(*r[1:]) for r in runs)
        print(f"| {name} | {len(parts[0][0])} |", " | ".join(cells), f"| {ours} | {said} |", flush=True)


if __name__ == "__main__":
    main()
