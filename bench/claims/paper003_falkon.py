#!/usr/bin/env python3
"""FALKON with uniform centers against FALKON-BLESS, test error after 5 and 20 iterations.

After Rudi, Calandriello, Carratino, Rosasco, arXiv:1810.13258, section 4: with as many centers drawn
by leverage scores, and their weights in the preconditioner, five iterations are to be as good as
twenty with uniform centers. Gaussian kernel of bandwidth 3 on standardised features, a fifth of the
rows for testing, the first of a permutation with seed 0. Other seeds draw other centers.

A run is SOLVER:ITERATIONS or, with leverage scores at another lambda, falkon_bless:ITERATIONS:Q2. The
results file is written after every run; with one that is there already the program goes on where it
stopped. Tables: with one seed the test rmse, with more the difference to falkon:20 with as many centers
of the same seed, mean and its standard error (seeds). Without --data: of what is in the file.
"""
import argparse
import itertools
import os
import pathlib
import sys
import tempfile

import numpy

import problems

SETS = {"hflights": 25000, "bike": 10 ** 9, "higgs7k": 10 ** 9}
RUNS = ("falkon:5", "falkon:20", "falkon_bless:5", "falkon_bless:20")
BASE = "falkon:20"


def run_name(line):
    return f"{line['solver']}:{line['iterations']}" + (f":{line['q2']:g}" if "q2" in line else "")


def solve(options, folder, data, lam, seed, run):
    solver, iterations, *q2 = run.split(":")
    more = {"q2": float(q2[0])} if q2 else {}
    method = "bless" if solver == "falkon_bless" else "uniform"
    order = os.path.join(folder, "order.json")
    problems.write_order(order, data, {
        "solver": solver, "centers": {"method": method, "count": options.centers, **more}, "seed": seed,
        "kernel": {"name": "gaussian", "bandwidth": 3.0}, "regularization": lam, "test": {"mask": "test"},
        "stop": {"tolerance": 1e-12, "max_iterations": int(iterations)}})
    report, _ = problems.run(options.bench, order, os.path.join(folder, "trace"), 1)
    return {"solver": solver, "iterations": int(iterations), **more, "rmse": report["metrics"]["rmse"],
            "relative_residual": report["relative_residual"]}


def run_set(options, folder, name, results):
    X, y, labels = problems.real(options.data, name, SETS[name], 0)
    mask = numpy.zeros(len(X), numpy.float32)
    mask[numpy.random.default_rng(0).permutation(len(X))[:len(X) // 5]] = 1
    data = os.path.join(folder, name)
    problems.write_data_set(data, X, y, labels, mask)
    for lam, seed, run in itertools.product(options.lambdas, options.seeds, options.runs):
        done = {(line["set"], line["lambda"], line["seed"], run_name(line)) for line in results["runs"]}
        if (name, lam, seed, run) not in done:
            line = {"set": name, "lambda": lam, "seed": seed, **solve(options, folder, data, lam, seed, run)}
            results["runs"].append(line)
            problems.save(options.output, results)
            print(line, file=sys.stderr)


def cell(found, run, seeds):
    """The rmse of one seed; of more, the difference to BASE."""
    if len(seeds) == 1:
        return f"{found[run, seeds[0]]:.4f}" if (run, seeds[0]) in found else ""
    both = [seed for seed in seeds if (run, seed) in found and (BASE, seed) in found]
    if len(both) < 2:
        return ""
    base = numpy.array([found[BASE, seed] for seed in both])
    apart = 100 * (numpy.array([found[run, seed] for seed in both]) - base) / base.mean()
    if run == BASE:
        return f"{base.mean():.4f} ({len(both)})"
    return f"{apart.mean():+.2f} ± {apart.std(ddof=1) / len(apart) ** 0.5:.2f} % ({len(apart)})"


def print_table(options, lines):
    print("| data | lambda | " + " | ".join(run.replace(":", ", ") for run in options.runs) + " |")
    print("| --- | ---: |" + " ---: |" * len(options.runs))
    for name, lam in itertools.product(options.sets, options.lambdas):
        found = {(run_name(line), line["seed"]): line["rmse"] for line in lines
                 if (line["set"], line["lambda"]) == (name, lam)}
        cells = [cell(found, run, options.seeds) for run in options.runs]
        print(f"| {name} | {lam:g} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with NAME.npz")
    parser.add_argument("--bench", default="build-rel/bench/krr-bench")
    parser.add_argument("--centers", type=int, default=2000)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--lambdas", nargs="+", type=float, default=[1e-4, 1e-5])
    parser.add_argument("--runs", nargs="+", default=list(RUNS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    new = {"commands": [], "centers": options.centers, "runs": []}
    results = problems.load(options.output) if pathlib.Path(options.output).exists() else new
    if options.data is not None:
        results["commands"].append("bench/claims/paper003_falkon.py " + problems.told(sys.argv[1:]))
        results["machine"] = problems.machine(options.bench)
        with tempfile.TemporaryDirectory() as folder:
            for name in options.sets:
                run_set(options, folder, name, results)
    print_table(options, results["runs"])


if __name__ == "__main__":
    main()
