#!/usr/bin/env python3
"""Table 2 of arXiv:2302.02605, centers by kmeans against uniform ones: on which data, and at which bandwidth?

The paper's table has image data and the laplacian kernel; its text names no bandwidth. Here: the 20,000
letters (16 measures of a glyph, no images; 4,000 for testing), and the 1,797 digits of 8 x 8 pixels that
scikit-learn brings, where it is installed (359 for testing, another split for every seed). Bandwidths are
multiples of the median distance of the rows as they are scaled, lambda = 1e-9 a row, and the solver is `direct`,
so that what differs is the centers. --scaling: `standard` features have mean 0 and deviation 1; `unit_range`
is what the authors' code does to images, each feature less its minimum, then each row over its largest
feature. A seed draws both kinds of centers on the same rows: differences are
paired, with the standard error of their mean.

The results file is written after every run; with one that is there already the program goes on where it
stopped. --table prints the table.
"""
import argparse
import itertools
import os
import pathlib
import sys
import tempfile

import numpy

import problems

FACTORS = {"laplacian": (0.25, 1, 4), "gaussian": (0.25, 0.5, 1, 2)}
SELECTORS = ("uniform", "kmeans")
TESTED = 5  # one row in five


def load_set(options, name):
    """X, y, labels; None where the data are not there."""
    if name == "letter":
        return problems.real(options.data, "letter", 10 ** 9, 0)
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return None
    X, y = load_digits(return_X_y=True)
    return X.astype(numpy.float32), y.astype(numpy.float32), [str(k) for k in range(10)]


def unit_range(X):
    """Features >= 0, the largest one of each row 1."""
    lifted = X.astype(float) - X.astype(float).min(0)
    largest = lifted.max(1, keepdims=True)
    return (lifted / numpy.where(largest > 0, largest, 1)).astype(X.dtype)


def median_distance(X, standard):
    S = X[numpy.random.default_rng(0).permutation(len(X))[:1000]].astype(float)
    deviation = X.astype(float).std(0)
    if standard:
        S = (S - X.astype(float).mean(0)) / numpy.where(deviation > 0, deviation, 1)
    square = (S ** 2).sum(1)[:, None] + (S ** 2).sum(1)[None, :] - 2 * S @ S.T
    return float(numpy.median(numpy.sqrt(numpy.maximum(square[numpy.triu_indices(len(S), 1)], 0))))


def solve(options, folder, data, features, key, bandwidth):
    order, trace = os.path.join(folder, "order.json"), os.path.join(folder, "trace.jsonl")
    problems.write_order(order, data, {
        "kernel": {"name": key["kernel"], "bandwidth": bandwidth}, "regularization": 1e-9, "solver": "direct",
        "centers": {"method": key["selector"], "count": key["count"]}, "features": features,
        "standardize": {"features": key["scaling"] == "standard"},
        "stop": {"tolerance": 1e-6, "max_iterations": 50}, "test": {"mask": "test"}, "seed": key["seed"]})
    report, lines = problems.run(options.bench, order, trace, 1)
    return {"accuracy": report["metrics"]["accuracy"], "relative_residual": report["relative_residual"],
            "bandwidth": bandwidth, "centers": report["centers"], "cpu_seconds": round(lines[-1]["cpu_seconds"], 2)}


def run_seed(options, folder, name, data_set, seed, results):
    X, y, labels = data_set
    X = unit_range(X) if options.scaling == "unit_range" else X
    split = seed if name == "digits" else 0
    mask = numpy.zeros(len(X), numpy.float32)
    mask[numpy.random.default_rng(split).permutation(len(X))[: len(X) // TESTED]] = 1
    data = os.path.join(folder, "data.krds")
    problems.write_data_set(data, X, y, classes=labels, mask=mask)
    median = median_distance(X[mask == 0], options.scaling == "standard")
    settings = [(kernel, factor) for kernel in options.kernels for factor in FACTORS[kernel]]
    for (kernel, factor), count, selector in itertools.product(settings, options.counts, SELECTORS):
        key = {"set": name, "scaling": options.scaling, "kernel": kernel, "factor": factor, "count": count,
               "selector": selector, "seed": seed}
        if any(all(line.get(k, "standard") == v for k, v in key.items()) for line in results["runs"]):
            continue
        line = solve(options, folder, data, [f"x{j}" for j in range(X.shape[1])], key, factor * median)
        results["runs"].append({**key, **line})
        problems.save(options.out, results)


def print_table(runs, counts, scaling):
    runs = [run for run in runs if run.get("scaling", "standard") == scaling]
    print("| data | kernel | bandwidth / median | " +
          " | ".join(f"uniform, p = {p:,} | kmeans | difference" for p in counts) + " |")
    print("| --- | --- | ---: |" + " ---: | ---: | ---: |" * len(counts))
    for name in sorted({run["set"] for run in runs}, reverse=True):
        for kernel, factor in [(kernel, factor) for kernel in FACTORS for factor in FACTORS[kernel]]:
            cells = [name, kernel, f"{factor:g}"]
            for count in counts:
                found = {(run["selector"], run["seed"]): 100 * run["accuracy"] for run in runs
                         if (run["set"], run["kernel"], run["factor"], run["count"]) == (name, kernel, factor, count)}
                seeds = [seed for selector, seed in found if selector == "kmeans" and ("uniform", seed) in found]
                if len(seeds) < 2:
                    cells += ["", "", ""]
                    continue
                uniform, kmeans = (numpy.array([found[selector, seed] for seed in seeds]) for selector in SELECTORS)
                gain = kmeans - uniform
                error = gain.std(ddof=1) / len(gain) ** 0.5
                cells += [f"{uniform.mean():.2f}", f"{kmeans.mean():.2f}", f"{gain.mean():+.2f} ± {error:.2f} ({len(gain)})"]
            if any(cells[3:]):
                print("| " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with letter.npz")
    parser.add_argument("--bench", default="build-rel/bench/krr-bench")
    parser.add_argument("--out", required=True)
    parser.add_argument("--sets", nargs="+", default=["letter", "digits"])
    parser.add_argument("--counts", nargs="+", type=int, default=[100, 1000])
    parser.add_argument("--kernels", nargs="+", default=list(FACTORS), choices=list(FACTORS))
    parser.add_argument("--scaling", default="standard", choices=["standard", "unit_range"])
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    results = problems.load(options.out) if pathlib.Path(options.out).exists() else {"commands": [], "runs": []}
    if options.data is not None:
        results["commands"].append("bench/claims/paper002_centers.py " + problems.told(sys.argv[1:]))
        results["machine"] = problems.machine(options.bench)
        with tempfile.TemporaryDirectory() as folder:
            for name in options.sets:
                data_set = load_set(options, name)
                for seed in range(options.repeat if data_set is not None else 0):
                    run_seed(options, folder, name, data_set, seed, results)
                    print(name, seed, file=sys.stderr)
    if options.table:
        print_table(results["runs"], sorted({run["count"] for run in results["runs"]}), options.scaling)


if __name__ == "__main__":
    main()
