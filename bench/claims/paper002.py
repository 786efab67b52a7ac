#!/usr/bin/env python3
"""Models on few centers by EigenPro 3 and 4: which centers, how many, how many rows, and how fast.

After Abedsoltan, Belkin, Pandit, arXiv:2302.02605, on the 20,000 letters (16 features, 26 classes), a
fifth of them for testing; laplacian kernel with the median distance as bandwidth, lambda = 1e-9 a row in
place of the paper's 0. Parts:

  selectors   Table 2: kmeans against uniform centers, p = 100 and 1,000; with the gaussian kernel as well
  rows        Figure 1, section 6: more rows at the same 1,000 centers (a data set given as the centers)
  centers     more centers on the same 16,000 rows
  augmented   Figure 4: 1,000 letters as centers; the training rows are these, or copies with noise
  time        eigenpro4 against eigenpro3 (arXiv:2411.16658): two epochs as published, q = 100, by
              processor time of one thread, with exact and inexact projections

The results file is written after every run; with one that is there already the program goes on where it
stopped. --table prints the tables, from the results alone when there is nothing left to run.
"""
import argparse
import itertools
import os
import pathlib
import sys
import tempfile

import numpy

import problems

REGULARIZATION = 1e-9
SELECTORS = ("uniform", "kmeans")
KERNELS = ("laplacian", "gaussian")
FIXED = 1000
NOISE = 0.6  # standard deviation, of features that are integers from 0 to 15


class Letters:
    """The rows: test rows apart, the others in a random order, so that the first k are a sample."""

    def __init__(self, options):
        X, y, self.labels = problems.real(options.data, "letter", 10 ** 9, 0)
        order = numpy.random.default_rng(options.seed).permutation(len(X))[: options.n]
        tested = len(order) // 5
        self.tests = X[order[:tested]], y[order[:tested]]
        self.X, self.y = X[order[tested:]], y[order[tested:]]

    def write(self, path, X, y):
        """Training rows with the test rows behind them."""
        mask = numpy.concatenate([numpy.zeros(len(X)), numpy.ones(len(self.tests[0]))]).astype(numpy.float32)
        problems.write_data_set(path, numpy.concatenate([X, self.tests[0]]), numpy.concatenate([y, self.tests[1]]),
                                classes=self.labels, mask=mask)

    def augmented(self, copies):
        """The first FIXED rows once, then copies with noise."""
        X, y = self.X[:FIXED], self.y[:FIXED]
        rng = numpy.random.default_rng(copies)
        noisy = [X + rng.normal(0, NOISE, X.shape).astype(X.dtype) for _ in range(copies - 1)]
        return numpy.concatenate([X, *noisy]), numpy.tile(y, copies)


def solve(options, folder, data, solver, centers, iterations, seed=0, kernel="laplacian", **parameters):
    order, trace = os.path.join(folder, "order.json"), os.path.join(folder, "trace.jsonl")
    file = centers.pop("path", None)
    if file is not None:
        centers = {"method": "file", "dataset": "ds_00000000000000000000000002"}
    problems.write_order(order, data, {
        "kernel": kernel,
        "regularization": REGULARIZATION,
        "solver": {"name": solver, **parameters},
        "centers": centers,
        "features": [f"x{j}" for j in range(16)],
        "stop": {"tolerance": 1e-8, "max_iterations": iterations},
        "precision": "mixed",
        "test": {"mask": "test"},
        "seed": seed,
    }, **({"centers_dataset_path": str(file)} if file is not None else {}))
    report, lines = problems.run(options.bench, order, trace, 1)
    return {
        "rows": report["train_rows"],
        "centers": report["centers"],
        "solver": solver,
        "iterations": report["iterations"],
        "relative_residual": report["relative_residual"],
        "accuracy": report["metrics"]["accuracy"],
        "cpu_seconds": round(lines[-1]["cpu_seconds"], 2),
        "kernel_entries": report["kernel_entries"],
    }


def selectors(options, letters, folder):
    data = os.path.join(folder, "letters.krds")
    letters.write(data, letters.X, letters.y)
    for kernel, count, selector in itertools.product(KERNELS, options.counts, SELECTORS):
        for seed in range(options.repeat):
            yield {"kernel": kernel, "selector": selector, "count": count, "seed": seed}, lambda key: solve(
                options, folder, data, "eigenpro3", {"method": key["selector"], "count": key["count"]},
                options.iterations, key["seed"], key["kernel"])


def rows(options, letters, folder):
    data, chosen = os.path.join(folder, "letters.krds"), os.path.join(folder, "centers.krds")
    problems.write_data_set(chosen, letters.X[:FIXED], letters.y[:FIXED], classes=letters.labels)
    for count in (FIXED, 2 * FIXED, 4 * FIXED, 8 * FIXED, 16 * FIXED):
        if count <= len(letters.X):
            def run(key, count=count):
                letters.write(data, letters.X[:count], letters.y[:count])
                return solve(options, folder, data, "eigenpro3", {"path": chosen}, options.iterations)
            yield {"count": count}, run


def centers(options, letters, folder):
    data = os.path.join(folder, "letters.krds")
    letters.write(data, letters.X, letters.y)
    for count in (125, 250, 500, 1000, 2000):
        if count <= len(letters.X) // 2:
            yield {"count": count}, lambda key: solve(
                options, folder, data, "eigenpro3", {"method": "uniform", "count": key["count"]}, options.iterations)


def augmented(options, letters, folder):
    data, chosen = os.path.join(folder, "letters.krds"), os.path.join(folder, "centers.krds")
    problems.write_data_set(chosen, letters.X[:FIXED], letters.y[:FIXED], classes=letters.labels)
    for copies in (1, 4, 16):
        for solver in ("eigenpro3", "eigenpro4"):
            def run(key, copies=copies, solver=solver):
                letters.write(data, *letters.augmented(copies))
                return solve(options, folder, data, solver, {"path": chosen}, options.iterations)
            yield {"copies": copies, "solver": solver}, run


def time(options, letters, folder):
    data = os.path.join(folder, "letters.krds")
    letters.write(data, letters.X, letters.y)
    for count in options.timed:
        for projection in ("exact", "inexact"):
            for solver in ("eigenpro3", "eigenpro4"):
                yield {"count": count, "projection": projection, "solver": solver}, lambda key: solve(
                    options, folder, data, key["solver"], {"method": "uniform", "count": key["count"]}, 2,
                    projection=key["projection"], plain_epochs=2, eigenvectors=100, subsample=2000,
                    subsample_centers=1000, batch_size=options.batch)


PARTS = {"selectors": selectors, "rows": rows, "centers": centers, "augmented": augmented, "time": time}


def run_all(options, results):
    letters = Letters(options)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.parts:
            done = results["parts"].setdefault(name, [])
            for key, run in PARTS[name](options, letters, folder):
                if any(all(line[k] == v for k, v in key.items()) for line in done):
                    continue
                done.append({**key, **run(key)})
                print(name, done[-1], file=sys.stderr)
                problems.save(options.out, results)


# ---- tables ----

def table(head, body):
    cells = [[str(cell) for cell in line] for line in body]
    right = [all(line[i][:1].isdigit() for line in cells if line[i]) for i in range(len(head))]
    lines = [head, ["---:" if r else "---" for r in right], *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def percent(value):
    return f"{100 * value:.2f}"


def selector_table(lines):
    counts = sorted({line["count"] for line in lines})
    body = []
    for kernel, selector in itertools.product(KERNELS, reversed(SELECTORS)):
        cells = [kernel, selector]
        for count in counts:
            wanted = {"kernel": kernel, "selector": selector, "count": count}
            found = 100 * numpy.array([l["accuracy"] for l in lines if all(l[k] == v for k, v in wanted.items())])
            cells.append(f"{found.mean():.2f} ± {found.std():.2f} ({len(found)})" if len(found) else "")
        body.append(cells)
    return table(["kernel", "centers", *(f"p = {count:,}" for count in counts)], body)


def line_table(lines, *columns):
    form = {"accuracy": percent, "relative_residual": lambda v: f"{v:.1e}", "kernel_entries": lambda v: f"{v:.2e}",
            "cpu_seconds": lambda v: f"{v:.2f}", "rows": lambda v: f"{v:,}", "centers": lambda v: f"{v:,}"}
    names = {"cpu_seconds": "CPU s", "kernel_entries": "kernel values"}
    head = [names.get(column, column.replace("_", " ")) for column in columns]
    return table(head, [[form.get(c, str)(line[c]) for c in columns] for line in lines])


def print_tables(parts):
    columns = {
        "rows": ("rows", "centers", "accuracy", "relative_residual"),
        "centers": ("rows", "centers", "accuracy", "relative_residual"),
        "augmented": ("solver", "rows", "centers", "accuracy", "relative_residual"),
        "time": ("centers", "projection", "solver", "accuracy", "cpu_seconds", "kernel_entries"),
    }
    for name, lines in parts.items():
        print(f"\n{name}\n")
        print(selector_table(lines) if name == "selectors" else line_table(lines, *columns[name]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with letter.npz")
    parser.add_argument("--bench", default="build-rel/bench/krr-bench")
    parser.add_argument("--out", required=True)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--n", type=int, default=20000, help="letters, test rows included")
    parser.add_argument("--counts", nargs="+", type=int, default=[100, 1000], help="centers of Table 2")
    parser.add_argument("--timed", nargs="+", type=int, default=[1000, 4000], help="centers of the timed runs")
    parser.add_argument("--batch", type=int, default=250, help="rows of a batch of the timed runs")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    results = problems.load(options.out) if pathlib.Path(options.out).exists() else {"parts": {}}
    if options.data is not None:
        results["command"] = "bench/claims/paper002.py " + problems.told(sys.argv[1:])
        results["machine"] = problems.machine(options.bench)
        run_all(options, results)
        problems.save(options.out, results)
    if options.table:
        print_tables(results["parts"])


if __name__ == "__main__":
    main()
