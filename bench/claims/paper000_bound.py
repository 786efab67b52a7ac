#!/usr/bin/env python3
"""The bound on the condition number of the preconditioned system, beside that number and what pcg needs.

Diaz, Epperly, Frangella, Tropp, Webber, arXiv:2304.12465, (5.1): with P = F F' + mu I, F of r pivots of
RPCholesky, kappa(P^-1 (A + mu I)) <= 1 + trace(A - F F') / mu. The kernel is that of Figure 1: gaussian with
bandwidth 3 on standardised features, mu = 1e-7 n. The condition number is computed from all eigenvalues, so
n is small, and everything is NumPy's; krr-bench only names the machine. Iterations are those to a relative residual of
1e-3 of y; those promised by a kappa are the least t with 2 ((sqrt(kappa) - 1) / (sqrt(kappa) + 1))^t <= 1e-3,
after (3.2).

The results file is written after every problem; the table is printed from it at the end.
"""
import argparse
import math
import pathlib

import numpy

import problems
import synthetic

BANDWIDTH, MU, TOLERANCE, MOST = 3.0, 1e-7, 1e-3, 2000


def rpcholesky(A, rank, rng):
    F, d = numpy.zeros((len(A), rank)), A.diagonal().copy()
    for i in range(rank):
        s = rng.choice(len(A), p=d / d.sum())
        g = A[:, s] - F[:, :i] @ F[s, :i]
        F[:, i] = g / math.sqrt(g[s])
        d = numpy.maximum(d - F[:, i] ** 2, 0)
        d[s] = 0
    return F, d.sum()


def preconditioned_spectrum(A, F, mu):
    """Of P^-1/2 (A + mu I) P^-1/2, by P's eigenvectors."""
    values, vectors = numpy.linalg.eigh(F @ F.T)
    root = vectors / numpy.sqrt(numpy.maximum(values, 0) + mu)
    return numpy.linalg.eigvalsh(root.T @ (A @ root) + mu * (root.T @ root))


def iterations(A, F, mu, y):
    core = numpy.linalg.inv(mu * numpy.eye(F.shape[1]) + F.T @ F)
    apply = lambda r: (r - F @ (core @ (F.T @ r))) / mu  # noqa: E731
    r, p, omega = y.copy(), numpy.zeros_like(y), 1.0
    for t in range(MOST):
        if numpy.linalg.norm(r) <= TOLERANCE * numpy.linalg.norm(y):
            return t
        z = apply(r)
        before, omega = omega, z @ r
        p = z + (omega / before if t > 0 else 0.0) * p
        v = A @ p + mu * p
        r = r - omega / (p @ v) * v
    return MOST


def promised(kappa):
    rate = (math.sqrt(kappa) - 1) / (math.sqrt(kappa) + 1)
    return math.ceil(math.log(TOLERANCE / 2) / math.log(rate)) if rate > 0 else 1


def measure(options, name):
    if name in problems.REAL:
        X, y, labels = problems.real(options.data, name, options.n, options.seed)
        y = numpy.where(y < y.mean(), -1.0, 1.0) if labels else y.astype(float)
    else:
        X, y = synthetic.PROBLEMS[name](options.n, options.seed)
    X = X.reshape(len(X), -1).astype(float)
    spread = X.std(axis=0)
    X, y = (X - X.mean(axis=0)) / numpy.where(spread > 0, spread, 1), y - y.mean()
    squares = (X * X).sum(axis=1)
    A = numpy.exp(-numpy.maximum(squares[:, None] + squares - 2 * X @ X.T, 0) / (2 * BANDWIDTH**2))
    numpy.fill_diagonal(A, 1)
    mu, runs = MU * len(X), []
    for rank in options.ranks:
        F, left = rpcholesky(A, rank, numpy.random.default_rng(options.seed))
        values = preconditioned_spectrum(A, F, mu)
        bound, kappa = 1 + left / mu, values[-1] / values[0]
        runs.append({"problem": name, "n": len(X), "rank": rank, "bound": float(f"{bound:.3g}"), "kappa": float(f"{kappa:.3g}"),
                     "by_bound": promised(bound), "by_kappa": promised(kappa), "iterations": iterations(A, F, mu, y)})
    return runs


def table(results):
    print("| problem | rank | bound (5.1) | condition number | iterations by the bound | by the condition number | needed |")
    print("| --- |" + " ---: |" * 6)
    for r in results["runs"]:
        print(f"| {r['problem']} | {r['rank']} | {r['bound']:.2g} | {r['kappa']:.2g} | {r['by_bound']:,} | {r['by_kappa']:,} | "
              f"{r['iterations']:,} |")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with the sets as NPZ files")
    parser.add_argument("--bench", type=pathlib.Path, default=root / "build/bench/krr-bench")
    parser.add_argument("--out", default=root / "bench/results/paper-000-bound.json")
    parser.add_argument("--problems", nargs="*", default=[*problems.REAL, *synthetic.PROBLEMS])
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--ranks", type=int, nargs="*", default=(100, 450))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    results = {"command": "bench/claims/paper000_bound.py --data DIR", **problems.machine(options.bench),
               "n": options.n, "bandwidth": BANDWIDTH, "regularization": MU, "tolerance": TOLERANCE,
               "seed": options.seed, "runs": []}
    for name in options.problems:
        results["runs"] += measure(options, name)
        problems.save(options.out, results)
    table(results)


if __name__ == "__main__":
    main()
