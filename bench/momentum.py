#!/usr/bin/env python3
"""The momentum of block descent: residuals after so many passes, by problem, number of blocks and setting (docs/adr/0066).

    bench/momentum.py --bench build/bench/krr-bench [--bench OTHER ...] [--data DIR] [--problems NAME ...] [--rows N]
        [--blocks B ...] [--passes P ...] [--solver NAME] [--params JSON ...] [--seed S] [--out FILE]

Runs every problem with every number of blocks by every program of --bench, once with each --params (parameters of the
solver, {} by default, the defaults), float64, one thread, and prints a line a run: the true relative residual after
each number of passes over the rows, which are multiples of 10. --out keeps the lines as JSON; runs that are there
already are not made again. DIR holds the sets bike, diamonds, hflights, higgs7k, letter and qm7 as NPZ files;
without it only the made problems are run.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "claims"))
import problems  # noqa: E402

# name: kernel, bandwidth, regularization a row
MADE = {
    "smooth": ("gaussian", "median", 1e-6),
    "smooth tiny": ("gaussian", "median", 1e-9),
    "noisy": ("gaussian", 3.0, 1e-4),
    "signs": ("gaussian", 1.0, 1e-5),
    "additive": ("laplacian_l1", "median", 1e-6),
    "rough": ("laplacian", "median", 1e-8),
    "waves": ("matern52", "median", 1e-8),
    "plane": ("matern32", "median", 1e-6),
    "wide": ("gaussian", "median", 1e-6),
}
REAL = {
    "bike": ("gaussian", "median", 1e-6),
    "diamonds": ("matern32", "median", 1e-9),
    "hflights": ("gaussian", "median", 1e-5),
    "higgs7k": ("gaussian", "median", 1e-5),
    "letter": ("gaussian", "median", 1e-7),
    "qm7": ("laplacian_l1", "median", 1e-8),
}
CACHE = 8 << 30


def make(name, n, seed):
    rng = numpy.random.default_rng(seed)
    d = {"smooth": 3, "smooth tiny": 3, "noisy": 10, "signs": 10, "additive": 20, "rough": 5, "waves": 4, "plane": 2, "wide": 100}
    X = rng.standard_normal((n, d[name]))
    noise = rng.standard_normal(n)
    if name.startswith("smooth"):
        return X, numpy.sin(X[:, 0]) + numpy.cos(X[:, 1] * X[:, 2]) + .01 * noise
    if name == "noisy":
        return X, .3 * X[:, 0] + noise
    if name == "signs":
        return X, numpy.sign(X @ rng.standard_normal(10))
    if name == "wide":
        return X, numpy.sin(X[:, 0]) + .1 * noise
    return X, numpy.sin({"waves": 2, "plane": 3}.get(name, 1) * X).sum(axis=1) + .1 * noise


def problem(options, name):
    if name in MADE:
        return (*make(name, options.rows, options.seed), MADE[name])
    X, y, labels = problems.real(options.data, name, options.rows, options.seed)
    y = y if labels is None else numpy.where(y < numpy.mean(y), -1.0, 1.0)
    return X.reshape(len(X), -1).astype(float), y.astype(float), REAL[name]


def solve(options, folder, bench, data, blocks, params):
    """Residuals after each number of passes: the least so far at a check, which is what a job would be handed."""
    n, kernel, bandwidth, regularization = data
    order, trace = os.path.join(folder, "order.json"), os.path.join(folder, "trace")
    size = -(-n // blocks)
    problems.write_order(order, os.path.join(folder, "rows.krds"), {
        "kernel": {"name": kernel, "bandwidth": bandwidth},
        "regularization": regularization,
        "solver": {"name": options.solver, "block_size": size, **params},
        "stop": {"tolerance": 1e-14, "max_iterations": max(options.passes) * blocks},
        "precision": "float64",
        "test": {"fraction": 0},
        "seed": options.seed,
    }, kernel_cache_bytes=CACHE)
    report, lines = problems.run(bench, order, trace, 1)
    left = {0: 1.0}
    for line in lines:
        passes, rest = divmod(line["iteration"], blocks)
        if line["iteration"] > 0 and rest == 0 and passes % 10 == 0 and line["relative_residual"] is not None:
            left[passes] = line["relative_residual"]
    best = [min(r for at, r in left.items() if at <= passes) for passes in options.passes]
    return [float(f"{r:.3g}") for r in best], report["stop_reason"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", action="append", required=True)
    parser.add_argument("--data")
    parser.add_argument("--problems", nargs="+")
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--blocks", type=int, nargs="+", default=[2, 10, 50])
    parser.add_argument("--passes", type=int, nargs="+", default=[10, 30, 100, 200])
    parser.add_argument("--solver", default="askotch")
    parser.add_argument("--params", type=json.loads, nargs="+", default=[{}])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out")
    options = parser.parse_args()
    kept = problems.load(options.out) if options.out and os.path.exists(options.out) else {"commands": [], "runs": []}
    kept["commands"].append("bench/momentum.py " + problems.told(sys.argv[1:]))
    kept["machine"] = problems.machine(options.bench[0])
    done = kept["runs"]
    known = [{k: v for k, v in run.items() if k not in ("residuals", "reason")} for run in done]
    for name in options.problems or [*MADE, *(REAL if options.data else [])]:
        X, y, (kernel, bandwidth, regularization) = problem(options, name)
        with tempfile.TemporaryDirectory() as folder:
            problems.write_data_set(os.path.join(folder, "rows.krds"), X, y)
            for blocks in options.blocks:
                for params in options.params:
                    for bench in options.bench:
                        run = {"problem": name, "rows": len(X), "blocks": blocks, "solver": options.solver, "params": params,
                               "bench": pathlib.Path(bench).name, "passes": options.passes, "seed": options.seed}
                        if run in known:
                            continue
                        data = len(X), kernel, bandwidth, regularization
                        run["residuals"], run["reason"] = solve(options, folder, bench, data, blocks, params)
                        done.append(run)
                        print(name, blocks, options.solver, json.dumps(params), bench, *run["residuals"], run["reason"], flush=True)
                        if options.out:
                            problems.save(options.out, kept)


if __name__ == "__main__":
    main()
