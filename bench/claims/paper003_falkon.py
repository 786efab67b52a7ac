#!/usr/bin/env python3
"""FALKON with uniform centers against FALKON-BLESS, test error after 5 and 20 iterations.

After Rudi, Calandriello, Carratino, Rosasco, arXiv:1810.13258, section 4: with as many centers drawn
by leverage scores, and their weights in the preconditioner, five iterations are to be as good as
twenty with uniform centers. Gaussian kernel of bandwidth 3 on standardised features, a fifth of the
rows for testing, the first of a permutation with seed 0.
"""
import argparse
import os
import pathlib
import json
import sys
import tempfile

import numpy

import problems

SETS = {"hflights": 25000, "bike": 10 ** 9, "higgs7k": 10 ** 9}
RUNS = (("falkon", "uniform", 5), ("falkon", "uniform", 20), ("falkon_bless", "bless", 5), ("falkon_bless", "bless", 20))


def solve(options, folder, data, lam, solver, method, iterations):
    order = os.path.join(folder, "order.json")
    problems.write_order(order, data, {
        "solver": solver, "centers": {"method": method, "count": options.centers}, "seed": options.seed,
        "kernel": {"name": "gaussian", "bandwidth": 3.0}, "regularization": lam, "test": {"mask": "test"},
        "stop": {"tolerance": 1e-12, "max_iterations": iterations}})
    report, _ = problems.run(options.bench, order, os.path.join(folder, "trace"), 1)
    return {"solver": solver, "iterations": iterations, "rmse": report["metrics"]["rmse"],
            "relative_residual": report["relative_residual"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with NAME.npz")
    parser.add_argument("--bench", default="build-rel/bench/krr-bench")
    parser.add_argument("--centers", type=int, default=2000)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--lambdas", nargs="+", type=float, default=[1e-4, 1e-5])
    parser.add_argument("--more", nargs="+", type=int, default=[], help="further iterations of falkon_bless")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    results = {"command": "bench/claims/paper003_falkon.py " + problems.told(sys.argv[1:]),
               "machine": problems.machine(options.bench), "centers": options.centers, "runs": []}
    wanted = RUNS + tuple(("falkon_bless", "bless", count) for count in options.more)
    print("| data | lambda | " + " | ".join(f"{solver}, {count}" for solver, _, count in wanted) + " |")
    print("| --- | ---: |" + " ---: |" * len(wanted))
    with tempfile.TemporaryDirectory() as folder:
        for name in options.sets:
            X, y, labels = problems.real(options.data, name, SETS[name], 0)
            mask = numpy.zeros(len(X), numpy.float32)
            mask[numpy.random.default_rng(0).permutation(len(X))[:len(X) // 5]] = 1
            data = os.path.join(folder, name)
            problems.write_data_set(data, X, y, labels, mask)
            for lam in options.lambdas:
                runs = [solve(options, folder, data, lam, *run) for run in wanted]
                results["runs"] += [{"set": name, "lambda": lam, **run} for run in runs]
                print(f"| {name} | {lam:g} | " + " | ".join(f"{run['rmse']:.4f}" for run in runs) + " |", flush=True)
    pathlib.Path(options.output).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
