#!/usr/bin/env python3
"""Preconditioners of pcg for rows on a grid (adr/0070): processor seconds of whole jobs to 1e-10, and their iterations.

    python3 bench/grid_preconditioners.py --worker build/src/worker/krrd-worker

Grids have uneven steps; `share` of their places have a row, and `twice` of these a second one.
"""
import argparse
import os
import resource
import sys
import tempfile

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "claims"))
import gaussian
import problems

CASES = [("gaussian", 4.0, 1e-6, 1.0, 0.0), ("gaussian", 4.0, 1e-6, 0.8, 0.0), ("gaussian", 4.0, 1e-6, 0.5, 0.0),
         ("gaussian", 4.0, 1e-6, 0.8, 0.2), ("gaussian", 4.0, 1e-8, 1.0, 0.0), ("gaussian", 4.0, 1e-8, 0.8, 0.0),
         ("laplacian_l1", 10.0, 1e-6, 1.0, 0.0), ("laplacian_l1", 10.0, 1e-6, 0.8, 0.0)]
BLOCK = ("gaussian", 4.0, 1e-6, "block", 0.0)  # a corner of half each axis is missing


def rows(size, share, twice, seed=0):
    rng = numpy.random.default_rng(seed)
    axes = [numpy.arange(size) + 1e-3 * rng.normal(size=size) for _ in range(3)]
    index = numpy.stack(numpy.meshgrid(*[numpy.arange(size)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    keep = (index >= size // 2).any(axis=1) if share == "block" else rng.random(len(index)) < share
    X = numpy.stack(axes, axis=-1)[index[keep], numpy.arange(3)]
    X = numpy.vstack([X, X[rng.random(len(X)) < twice]])
    y = numpy.sin(X[:, 0] / 3) * numpy.cos(X[:, 1] / 4) + numpy.sin(X[:, 2] / 5) + 0.1 * rng.normal(size=len(X))
    return X, y


def seconds_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", default="build/src/worker/krrd-worker", help="the program (default: %(default)s)")
    parser.add_argument("--size", type=int, default=40, help="places along each of three axes (default: %(default)s)")
    parser.add_argument("--preconditioners", nargs="+", default=["rpcholesky", "kronecker"])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print("| kernel | regularization | share | twice | rows | preconditioner | iterations | processor s | residual | |\n"
          "| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for kernel, bandwidth, regularization, share, twice in [*CASES, BLOCK]:
            X, y = rows(options.size, share, twice)
            path = os.path.join(folder, "grid.krds")
            problems.write_data_set(path, X, y)
            for name in options.preconditioners:
                before = seconds_of_children()
                done, _ = gaussian.train(options.worker, folder, path, {
                    "kernel": {"name": kernel, "bandwidth": bandwidth}, "regularization": regularization,
                    "standardize": {"features": False}, "solver": {"name": "pcg", "preconditioner": name},
                    "stop": {"tolerance": 1e-10, "max_iterations": 2000}}, threads=options.threads)
                result = done["result"]
                print(f"| {kernel} | {regularization:g} | {share} | {twice:g} | {len(X):,} | {name} | {result['iterations']} | "
                      f"{seconds_of_children() - before:.2f} | {result['relative_residual']:.1e} | {done['reason']} |", flush=True)


if __name__ == "__main__":
    main()
