#!/usr/bin/env python3
"""Kernel ridge regression on m centers: krill against scikit-learn's Nystroem with Ridge and Falkon in NumPy.

The flights of Houston 2011 as in bench/claims/hflights.py: 179,099 training rows of 9 features, the
gaussian kernel with the median distance as bandwidth, lambda = 1e-6 a row. Each runs in a process of
its own, in the same run, and says its time, its processor time (all threads), which is the fair
figure where other work has the cores, its largest resident size, and its error on the test rows.

The peers work in float32, which takes them half the time and memory of float64; Falkon also in float64
(falkon64). Its triangular factors are float64 in both. It makes 20 iterations, as its authors'
program does, and where krill ran before, as many more as its test error needs to come within 0.1 % of
krill's, at most 100 in all; the tests are not counted. Nor are, for the peers, imports and the reading
of the data; they are for krr-bench.
"""
import sys

# This file's folder comes first in the path, where operator.py would hide the standard library's.
if __name__ == "__main__":
    sys.path.pop(0)

import argparse
import json
import os
import pathlib
import resource
import subprocess
import tempfile
import time

LAMBDA, ITERATIONS, MOST, EVERY, BLOCK = 1e-6, 20, 100, 10, 4096
EQUAL = 1.001  # times krill's test error


class Clock:
    """Seconds and processor seconds since it was made, without those of its pauses."""

    def __init__(self):
        self.began = self.now()

    @staticmethod
    def now():
        return time.perf_counter(), time.process_time()

    def read(self):
        return [now - began for now, began in zip(self.now(), self.began)]

    def __enter__(self):
        self.paused = self.now()

    def __exit__(self, *_):
        self.began = [began + now - paused for began, now, paused in zip(self.began, self.now(), self.paused)]


def read_data(options):
    """X, y of the training rows and of the test rows, standardised as krrd does; y's scale."""
    import numpy as np

    arrays = np.load(pathlib.Path(options.data) / "hflights.npz")
    X, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.float64)
    order = np.random.default_rng(0).permutation(len(X))
    tested = -(-len(X) // 5)
    test, train = np.sort(order[:tested]), np.sort(order[tested:][: options.n])
    scale = X[train].std(0)
    X = (X - X[train].mean(0)) / np.where(scale > 0, scale, 1)
    mean, deviation = y[train].mean(), y[train].std()
    y = (y - mean) / deviation
    return X[train].astype(np.float32), y[train], X[test].astype(np.float32), y[test], deviation


def solve_sklearn(options, X, y, X_test, clock, error):
    import numpy as np
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge

    features = Nystroem(kernel="rbf", gamma=0.5 / options.bandwidth**2, n_components=options.centers, random_state=options.seed)
    mapped = features.fit_transform(X)
    model = Ridge(alpha=len(X) * LAMBDA, fit_intercept=False, copy_X=False, solver="cholesky")
    model.fit(mapped, y.astype(np.float32))
    del mapped
    return np.concatenate([model.predict(features.transform(X_test[i : i + BLOCK])) for i in range(0, len(X_test), BLOCK)])


class Gaussian:
    """Kernel values with the centers, in their type, by blocks of rows, made afresh each time."""

    def __init__(self, Z, bandwidth):
        import numpy as np

        self.np, self.scale = np, np.float32(bandwidth * 2**0.5)
        self.Z = Z / self.scale
        self.squares = (self.Z**2).sum(1)

    def block(self, X):
        np, X = self.np, X / self.scale
        D = X @ (2 * self.Z.T)
        D -= (X**2).sum(1)[:, None]
        D -= self.squares[None, :]
        np.minimum(D, 0, out=D)
        return np.exp(D, out=D)


def solve_falkon(options, X, y, X_test, clock, error, dtype="float32", jitter=1e-6):
    """Rudi, Carratino, Rosasco, arXiv:1705.10958, Algorithm 1."""
    import numpy as np
    from scipy.linalg import cholesky, solve_triangular

    n, m = len(X), options.centers
    X, X_test = X.astype(dtype), X_test.astype(dtype)
    Z = X[np.sort(np.random.default_rng(options.seed).choice(n, m, replace=False))]
    kernel = Gaussian(Z, options.bandwidth)
    T = kernel.block(Z).astype(np.float64)
    T[np.diag_indices(m)] += jitter * m
    T = cholesky(T, overwrite_a=True, check_finite=False)
    A = T @ T.T / m
    A[np.diag_indices(m)] += LAMBDA
    A = cholesky(A, overwrite_a=True, check_finite=False)

    def solve(R, b, transposed):
        return solve_triangular(R, b, trans=int(transposed), check_finite=False)

    def gradient(u, targets):
        """K_nm' (K_nm u + targets)."""
        total, u = np.zeros(m), u.astype(dtype)
        for i in range(0, n, BLOCK):
            K = kernel.block(X[i : i + BLOCK])
            values = K @ u
            if targets is not None:
                values = values + targets[i : i + BLOCK]
            total += K.T @ values
        return total

    def operator(b):
        v = solve(A, b, False)
        return solve(A, solve(T, gradient(solve(T, v, False), None), True) / n + LAMBDA * v, True)

    r = solve(A, solve(T, gradient(np.zeros(m), y.astype(dtype)), True) / n, True)
    def predict():
        alpha = solve(T, solve(A, b, False), False).astype(dtype)
        return np.concatenate([kernel.block(X_test[i : i + BLOCK]) @ alpha for i in range(0, len(X_test), BLOCK)])

    def enough(iteration):
        if iteration < ITERATIONS or options.until is None:
            return iteration == ITERATIONS
        with clock:
            return iteration == MOST or iteration % EVERY == 0 and error(predict()) <= EQUAL * options.until

    b, p, dots, iteration = np.zeros(m), r.copy(), r @ r, 0
    while not enough(iteration):
        iteration += 1
        q = operator(p)
        length = dots / (p @ q)
        b += length * p
        r -= length * q
        new = r @ r
        p = r + new / dots * p
        dots = new
    options.iterations = iteration
    return predict()


def solve_falkon64(*arguments):
    """The same in float64, with the jitter that its authors use there."""
    return solve_falkon(*arguments, dtype="float64", jitter=1e-13)


PEERS = {"sklearn": solve_sklearn, "falkon": solve_falkon, "falkon64": solve_falkon64}


def run_peer(options):
    import numpy as np
    import scipy.linalg  # noqa: F401: not part of the time
    import sklearn.kernel_approximation  # noqa: F401

    X, y, X_test, y_test, scale = read_data(options)
    def error(predicted):
        return float(np.sqrt(np.mean((predicted - y_test) ** 2)) * scale)

    clock = Clock()
    predicted = PEERS[options.peer](options, X, y, X_test, clock, error)
    seconds, cpu = clock.read()
    print(json.dumps({
        "name": options.peer,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "test_rmse": error(predicted),
        "iterations": options.iterations,
        "load_average": os.getloadavg()[0],
    }))


def claims_module():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "claims"))
    import problems

    return problems


def write_data_set(options, path):
    import numpy as np

    problems = claims_module()

    X, y = problems.load_arrays(options.data, "hflights")
    order = np.random.default_rng(0).permutation(len(X))
    tested = -(-len(X) // 5)
    rows = np.sort(order[: tested + options.n] if options.n else order)
    mask = np.zeros(len(X), np.float32)
    mask[order[:tested]] = 1
    problems.write_data_set(path, X[rows], y[rows], mask=mask[rows])
    return problems


def run_krill(options):
    with tempfile.TemporaryDirectory() as folder:
        data, order, trace_path = (os.path.join(folder, name) for name in ("data.krds", "order.json", "trace.jsonl"))
        problems = write_data_set(options, data)
        spec = {
            "kernel": {"name": "gaussian", "bandwidth": options.bandwidth},
            "regularization": LAMBDA,
            "solver": "krill",
            "centers": {"method": "uniform", "count": options.centers},
            "stop": {"tolerance": options.tolerance},
            "precision": "float64",
            "target": "y",
            "test": {"mask": "test"},
            "seed": options.seed,
        }
        problems.write_order(order, data, spec)
        report, trace = problems.run(options.bench, order, trace_path, options.threads)
    return {
        "name": "krill",
        "seconds": round(trace[-1]["seconds"], 2),
        "cpu_seconds": round(trace[-1]["cpu_seconds"], 2),
        "build_cpu_seconds": round(problems.phase_span(trace, "preconditioner", "cpu_seconds"), 2),
        "peak_memory_bytes": report["peak_memory_bytes"],
        "test_rmse": report["metrics"]["rmse"],
        "iterations": report["iterations"],
        "certified_residual": report["relative_residual"],
        "stop_reason": report["stop_reason"],
        "train_rows": report["train_rows"],
        "load_average": os.getloadavg()[0],
    }


def start_peer(options, name, until):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(options.threads), "OMP_NUM_THREADS": str(options.threads)}
    command = [options.python, __file__, *sys.argv[1:], "--peer", name]
    command += ["--until", str(until)] if until is not None else []
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{name}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def krills_error(results):
    return next((r["test_rmse"] for r in results["runs"] if r["name"] == "krill"), None)


def summary(results):
    krill = next(r for r in results["runs"] if r["name"] == "krill")
    lines = ["| | wall s | CPU s | CPU s / krill's | peak MiB | test RMSE |", "| --- |" + " ---: |" * 5]
    for r in results["runs"]:
        lines.append(f"| {r['name']} | {r['seconds']:.0f} | {r['cpu_seconds']:.0f} | "
                     f"{r['cpu_seconds'] / krill['cpu_seconds']:.1f} | {r['peak_memory_bytes'] / 2**20:,.0f} | "
                     f"{r['test_rmse']:.4f} |")
    m = results["centers"]
    lines += ["", f"Three matrices of m = {m:,} centers and 256 MiB are {(3 * m * m * 8) / 2**20 + 256:,.0f} MiB."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with hflights.npz")
    parser.add_argument("--bench", default="build/bench/krr-bench", help="the program (default: %(default)s)")
    parser.add_argument("--python", default=sys.executable, help="with NumPy, SciPy and scikit-learn (default: this one)")
    parser.add_argument("--out", type=pathlib.Path, help="results file (JSON)")
    parser.add_argument("--n", type=int, help="training rows, for a trial (default: all)")
    parser.add_argument("--centers", type=int, default=5000)
    parser.add_argument("--bandwidth", type=float, default=3.6, help="about the median distance (default: %(default)s)")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="of krill (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", nargs="+", choices=("krill", *PEERS), default=["krill", *PEERS])
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    parser.set_defaults(iterations=None)
    options = parser.parse_args()
    if options.peer:
        run_peer(options)
        return
    problems = claims_module()
    results = {"command": f"bench/peers/restricted.py {problems.told(sys.argv[1:])}", **problems.machine(options.bench),
               "centers": options.centers, "bandwidth": options.bandwidth, "regularization": LAMBDA,
               "tolerance": options.tolerance, "threads": options.threads, "runs": []}
    for name in options.runs:
        results["runs"].append(run_krill(options) if name == "krill" else start_peer(options, name, krills_error(results)))
        print(json.dumps(results["runs"][-1]), flush=True)
        if options.out:
            options.out.write_text(json.dumps(results, indent=1) + "\n")
    if "krill" in options.runs:
        print(summary(results))


if __name__ == "__main__":
    main()
