#!/usr/bin/env python3
"""Block descent on the synthetic problem: how far f is from its minimum after so many passes.

After Rathore, Frangella, Udell, arXiv:2407.10070, version 1, C.4 to C.6: 10,000 normal points of 10
features, targets sign(X w), gaussian kernel of bandwidth 1, ridge 0.1, blocks of 1,000 rows (10
blocks), rank 100, float64. Claims: linear convergence; askotch ahead of skotch; a preconditioner
ahead of none.

Relative suboptimality is (f(w) - f*) / |f*| with f(w) = w'(K + ridge I) w / 2 - y'w, computed here
from the coefficients in the model that `krrd-worker --job --model` writes after so many block steps:
runs repeat to the bit, so a shorter run is the beginning of a longer one. f* is that of pcg with a
tolerance of 1e-12.

The results file is written after every run; runs that are in it already are not made again.
--figures writes the plot and prints the table.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

import numpy

import problems

N, D, RIDGE, BLOCK = 10000, 10, 0.1, 1000
STEPS = (10, 25, 50, 100, 200, 400)
METHODS = {
    "askotch2": {"name": "askotch2", "block_preconditioner": "nystrom"},
    "askotch": {"name": "askotch", "block_preconditioner": "nystrom"},
    "skotch": {"name": "skotch", "block_preconditioner": "nystrom"},
    "askotch2, exact blocks": {"name": "askotch2", "block_preconditioner": "cholesky"},
    "askotch2, none": {"name": "askotch2", "block_preconditioner": "none"},
    "askotch, none": {"name": "askotch", "block_preconditioner": "none"},
    "skotch, none": {"name": "skotch", "block_preconditioner": "none"},
}


def make_problem(seed):
    rng = numpy.random.default_rng(seed)
    X = rng.standard_normal((N, D))
    return X, numpy.sign(X @ rng.standard_normal(D))


def read_coefficients(path):
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        begin, end = header["coef"]["data_offsets"]
        file.seek(8 + size + begin)
        return numpy.frombuffer(file.read(end - begin), "<f8")


def objective(X, y, w):
    """f(w), with the kernel made a thousand rows at a time."""
    squares = (X * X).sum(axis=1)
    product = numpy.empty(len(X))
    for first in range(0, len(X), 1000):
        rows = slice(first, first + 1000)
        distances = squares[rows, None] + squares - 2 * X[rows] @ X.T
        product[rows] = numpy.exp(-0.5 * numpy.maximum(distances, 0)) @ w
    return float(0.5 * w @ (product + RIDGE * w) - y @ w)


def train(options, folder, solver, stop):
    order, model = os.path.join(folder, "order.json"), os.path.join(folder, "model")
    problems.write_order(order, os.path.join(folder, "synthetic.krds"), {
        "kernel": {"name": "gaussian", "bandwidth": 1.0},
        "regularization": RIDGE / N,
        "solver": solver,
        "stop": stop,
        "precision": "float64",
        "standardize": {"features": False, "target": False},
        "test": {"fraction": 0},
        "seed": options.seed,
    })
    command = [str(options.worker), "--job", order, "--model", model, "--threads", str(options.threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout.strip()} {done.stderr.strip()}")
    return read_coefficients(model)


def measure(options, results, folder):
    X, y = make_problem(options.seed)
    problems.write_data_set(os.path.join(folder, "synthetic.krds"), X, y)
    if "minimum" not in results:
        w = train(options, folder, {"name": "pcg"}, {"tolerance": 1e-12, "max_iterations": 2000})
        results["minimum"] = objective(X, y, w)
    for steps in options.steps:
        for name, solver in METHODS.items():
            runs = results["runs"].setdefault(name, {})
            if str(steps) not in runs:
                w = train(options, folder, {**solver, "block_size": BLOCK}, {"tolerance": 1e-15, "max_iterations": steps})
                gap = objective(X, y, w) - results["minimum"]
                runs[str(steps)] = float(f"{abs(gap / results['minimum']):.4g}")
                problems.save(options.out, results)
                print(f"{name}: {steps} steps, {runs[str(steps)]:.2e}", flush=True)


def table(results):
    steps = sorted({int(s) for runs in results["runs"].values() for s in runs})
    print("| method |" + "".join(f" {s * BLOCK / N:g} |" for s in steps))
    print("| --- |" + " --- |" * len(steps))
    for name, runs in results["runs"].items():
        print(f"| {name} |" + "".join(f" {runs[str(s)]:.1e} |" if str(s) in runs else " |" for s in steps))


def plot(results, path):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "krrd"
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name, runs in results["runs"].items():
        points = sorted((int(s) * BLOCK / N, value) for s, value in runs.items())
        style = ":" if name.endswith("none") else "--" if name.endswith("blocks") else "-"
        axes.semilogy(*zip(*points), style, marker="o", markersize=3, label=name)
    axes.set_xlabel("passes over the rows (10 blocks each)")
    axes.set_ylabel("(f(w) - f*) / |f*|")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=pathlib.Path, default=root / "build/bench/krr-bench")
    parser.add_argument("--worker", type=pathlib.Path, default=root / "build/src/worker/krrd-worker")
    parser.add_argument("--out", default=root / "bench/results/paper-001-synthetic.json")
    parser.add_argument("--steps", type=int, nargs="*", default=STEPS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figures", metavar="DIR", help="write paper-001-synthetic.svg there and print the table")
    options = parser.parse_args()
    results = problems.load(options.out) if os.path.exists(options.out) else {
        "command": "bench/claims/paper001.py", "n": N, "d": D, "ridge": RIDGE, "block_size": BLOCK,
        "seed": options.seed, "machine": problems.machine(options.bench), "runs": {}}
    with tempfile.TemporaryDirectory() as folder:
        measure(options, results, folder)
    if options.figures:
        table(results)
        plot(results, os.path.join(options.figures, "paper-001-synthetic.svg"))


if __name__ == "__main__":
    main()
