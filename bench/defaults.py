#!/usr/bin/env python3
"""What jobs that leave everything open come to (docs/adr/0047), against gaussian and laplacian as they are.

    KRR_URL=http://127.0.0.1:8080 bench/defaults.py --krr build/src/client/krr [--data DIR] [--sets NAME ...]
        [--rows N] [--seed S]

Makes tables, has each trained three times by the daemon at KRR_URL (`krr train`) and prints the metric of the test
rows, R2 or the share of right classes: gaussian and laplacian with the median bandwidth and 1e-6 a row, and with
kernel, bandwidth and regularization left open, and what was chosen then. DIR holds further sets as NPZ files with X and
y, of which at most N rows are taken (5,000), drawn from the seed as the made sets are.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy

PLAIN = ["--bandwidth", "median", "--regularization", "1e-6"]


def made(rng):
    """Name -> X, y."""

    def normal(n, d, target, noise):
        X = rng.normal(size=(n, d))
        return X, target(X) + noise * rng.normal(size=n)

    yield "additive", normal(3000, 12, lambda X: sum(numpy.sin((j % 4 + 1) * X[:, j]) for j in range(12)), .1)
    yield "irrelevant", normal(4000, 50, lambda X: numpy.sin(2 * X[:, 0]) + X[:, 1] ** 2, .1)
    yield "smooth", normal(3000, 3, lambda X: numpy.sin(X[:, 0]) + numpy.cos(X[:, 1] * X[:, 2]), .01)
    yield "noise4", normal(3000, 4, lambda X: .3 * numpy.sin(X[:, 0]), 1)
    yield "noise30", normal(3000, 30, lambda X: .3 * X[:, 0] + .2 * X[:, 1], 1)
    X = rng.lognormal(size=(4000, 10))
    yield "skewed", (X, numpy.log(X[:, 0]) * numpy.sqrt(X[:, 1]) + .1 * rng.normal(size=4000))


def loaded(folder, most, rng):
    for path in sorted(pathlib.Path(folder).glob("*.npz")):
        with numpy.load(path) as z:
            X, y = z["X"], z["y"]
        rows = rng.permutation(len(X))[:most]
        yield path.stem, (X[rows].reshape(len(rows), -1), y[rows].reshape(len(rows), -1)[:, 0])


def write(path, X, y):
    names = [f"x{j}" for j in range(X.shape[1])] + ["target"]
    numpy.savetxt(path, numpy.column_stack([X, y]), delimiter=",", header=",".join(names), comments="", fmt="%.9g")


def train(krr, path, options):
    """The metric, and the sentences that say what was chosen."""
    done = subprocess.run([krr, "train", path, "--target", "target", "--model", "defaults", *options],
                          capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    found = re.search(r"^(?:accuracy|r2) +(\S+)", said, re.MULTILINE)
    if done.returncode != 0 or not found:
        sys.exit(f"{path}: {said}")
    kernel = re.search(r"Kernel chosen on held-out training rows(?:, one at a time)?: (\w+)", said)
    wide = re.search(r"Bandwidth, (\S+) times", said)
    learned = "Bandwidths learned" in said
    as_is = "Features are not standardised" in said
    width = "learned" if learned else f"{wide[1] if wide else 1}{' as they are' if as_is else ''}"
    ridge = re.search(r"The model: .*regularization (\S+) a row", said)
    chosen = kernel and f"{kernel[1]}, {width}, {ridge[1] if ridge else '1e-06'}"
    return float(found[1]), chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--krr", default="krr")
    parser.add_argument("--data")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = numpy.random.default_rng(args.seed)
    sets = dict(made(rng)) | (dict(loaded(args.data, args.rows, rng)) if args.data else {})
    print("| | gaussian | laplacian | open | chosen: kernel, medians or learned, regularization |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for name in args.sets or sets:
            path = f"{folder}/{name}.csv"
            write(path, *sets[name])
            plain = [train(args.krr, path, ["--kernel", k, *PLAIN])[0] for k in ("gaussian", "laplacian")]
            best, chosen = train(args.krr, path, [])
            print(f"| {name} | {plain[0]:.3f} | {plain[1]:.3f} | {best:.3f} | {chosen} |", flush=True)


if __name__ == "__main__":
    main()
