#!/usr/bin/env python3
"""Iterations against the rank of the preconditioner, on energies of molecules.

After Diaz, Epperly, Frangella, Tropp, Webber, arXiv:2304.12465, Figure 7: the laplacian kernel of the
1-norm on Coulomb matrices as they are, rpcholesky, iterations until |(K + n lambda I) a - y| <= 1e-3 |y|.
There 100,000 rows of QM9 and ranks of 1,000 to 10,000; here the 7,101 of QM7, and ranks that fit those.
Counts come from `krr-bench solve`, in float64, and "solved" is its certificate's word.

The results file is written after every run; runs that are in it already are not made again. The table is
printed from it at the end.
"""
import argparse
import os
import pathlib
import tempfile

import problems

BANDWIDTH, REGULARIZATION, TOLERANCE, ITERATIONS = 5120.0, 1e-8, 1e-3, 1000
RANKS = (50, 100, 200, 500, 1000)


def solve(options, folder, rank):
    order, trace = os.path.join(folder, "order.json"), os.path.join(folder, "trace.jsonl")
    problems.write_order(order, os.path.join(folder, "qm7.krds"), {
        "kernel": {"name": "laplacian_l1", "bandwidth": BANDWIDTH},
        "regularization": REGULARIZATION,
        "solver": {"name": "pcg", "preconditioner": {"name": "rpcholesky", "rank": rank}},
        "stop": {"tolerance": TOLERANCE, "max_iterations": ITERATIONS},
        "precision": "float64",
        "standardize": {"features": False},
        "test": {"fraction": 0},
        "seed": options.seed,
    })
    report, _ = problems.run(options.bench, order, trace, options.threads)
    return {"rank_wanted": rank, "rank": report["rank"], "stop_reason": report["stop_reason"],
            "iterations": report["iterations"], "certified_residual": report["relative_residual"]}


def table(results):
    print("| rank | iterations | certified residual |\n| ---: | ---: | ---: |")
    for r in sorted(results["runs"], key=lambda r: r["rank_wanted"]):
        print(f"| {r['rank']:,} | {r['iterations']} | {r['certified_residual']:.1e} |")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with qm7.npz")
    parser.add_argument("--bench", type=pathlib.Path, default=root / "build/bench/krr-bench")
    parser.add_argument("--out", default=root / "bench/results/paper-000-ranks.json")
    parser.add_argument("--ranks", type=int, nargs="*", default=RANKS)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    X, y, _ = problems.real(options.data, "qm7", 100000, options.seed)
    results = problems.load(options.out) if os.path.exists(options.out) else {
        "command": "bench/claims/paper000_ranks.py --data DIR", **problems.machine(options.bench), "n": len(X),
        "bandwidth": BANDWIDTH, "regularization": REGULARIZATION, "tolerance": TOLERANCE, "seed": options.seed,
        "runs": []}
    with tempfile.TemporaryDirectory() as folder:
        problems.write_data_set(os.path.join(folder, "qm7.krds"), X, y)
        for rank in options.ranks:
            if all(r["rank_wanted"] != rank for r in results["runs"]):
                results["runs"].append(solve(options, folder, rank))
                problems.save(options.out, results)
    table(results)


if __name__ == "__main__":
    main()
