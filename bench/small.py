#!/usr/bin/env python3
"""Few rows, default parameters: does every solver reach its tolerance, and the exact model?

    bench/small.py --worker build/src/worker/krrd-worker [--data DIR] [--jobs 2000] [--seed 0] [--solvers NAME ...]
        [--rows N ...] [--out FILE] [--page FILE ...]

Draws jobs from sets x rows x features x kernels x regularizations x precisions x tolerances x solvers, as many as --jobs, and
runs each with everything else at its default, on one thread, on all rows. Every model is held against the exact one in float64 by
numpy, on points near the rows: that of all rows, or of the centers the model has. `error` is the largest difference of two
predictions, divided by the largest prediction; `slower` the job's seconds over those of cholesky (full models) or direct. Prints
the jobs that are not as they should be and a table by solver; --out keeps all of them, a JSON object a line, and --page prints the
tables of such files. DIR holds further sets as NPZ files with X and y.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "claims"))
import problems  # noqa: E402

FULL = ("cholesky", "pcg", "askotch", "askotch2", "skotch", "eigenpro2", "kmcg")
RESTRICTED = ("direct", "falkon", "falkon_bless", "krill", "cg", "inducing", "kmcg_restricted", "eigenpro3", "eigenpro4",
              "sketchysaga", "sketchykatyusha")
ROWS = (5, 20, 50, 100, 150, 400, 1500)
FEATURES = (1, 5, 30)
KERNELS = ("gaussian", "laplacian", "laplacian_l1", "matern32", "matern52", "linear", "polynomial")
REGULARIZATIONS = (1e-3, 1e-6, 1e-9)
PRECISIONS = ("auto", "float64", "mixed", "float32")
TOLERANCES = (None, 1e-9)
MADE = ("normal", "clustered", "duplicates", "integers", "heavy")
POINTS = 50
WRONG = 1e-2  # an error that a converged job is listed for
SLOW = 100
BUDGET = 20  # seconds of a job, which are enough for any of these
SECONDS = .1  # below, nobody minds


def make(name, n, d, rng):
    X = rng.standard_normal((n, d))
    if name == "clustered":
        X = rng.standard_normal((1 + n // 20, d))[rng.integers(0, 1 + n // 20, n)] * 3 + .05 * X
    elif name == "duplicates":
        X = X[rng.integers(0, max(2, n // 3), n)]
    elif name == "integers":
        X = numpy.round(2 * X)
    elif name == "heavy":
        X = rng.standard_t(2, (n, d))
    return X, numpy.sin(X[:, 0]) + .3 * X.sum(1) / math.sqrt(d) + .1 * rng.standard_normal(n)


def rows_of(options, name, n, d, seed):
    """X, y and test points."""
    rng = numpy.random.default_rng(seed)
    if name in MADE:
        X, y = make(name, n + POINTS, d, rng)
    else:
        X, y, labels = problems.real(options.data, name, n + POINTS, seed)
        X, y = X.reshape(len(X), -1).astype(float), y.astype(float)
        y = y if labels is None else numpy.where(y < y.mean(), -1.0, 1.0)
    order = rng.permutation(len(X))
    return X[order[:n]], y[order[:n]], X[order[n:]]


def kernel_values(kernel, P, Q):
    name = kernel["name"]
    if name in ("linear", "polynomial"):
        inner = kernel["gamma"] * P @ Q.T + kernel["coef0"]
        return inner ** (kernel["degree"] if name == "polynomial" else 1)
    if name == "laplacian_l1":
        r = numpy.abs(P[:, None, :] - Q[None, :, :]).sum(2) / kernel["bandwidth"]
    else:
        r = numpy.sqrt(((P[:, None, :] - Q[None, :, :]) ** 2).sum(2)) / kernel["bandwidth"]
    if name == "gaussian":
        return numpy.exp(-r * r / 2)
    if name.startswith("laplacian"):
        return numpy.exp(-r)
    s = math.sqrt(3 if name == "matern32" else 5) * r
    return (1 + s + (s * s / 3 if name == "matern52" else 0)) * numpy.exp(-s)


def exact(kernel, ridge, X, y, Z, points):
    """Predictions of the exact model on the centers Z (None: all rows): by least squares in whitened variables."""
    if Z is None:
        K = kernel_values(kernel, X, X)
        return kernel_values(kernel, points, X) @ numpy.linalg.solve(K + ridge * numpy.eye(len(X)), y)
    values, vectors = numpy.linalg.eigh(kernel_values(kernel, Z, Z))
    kept = values > 1e-14 * values[-1]
    white = vectors[:, kept] / numpy.sqrt(values[kept])
    F = kernel_values(kernel, X, Z) @ white
    A = numpy.vstack([F, math.sqrt(ridge) * numpy.eye(F.shape[1])])
    b = numpy.linalg.lstsq(A, numpy.concatenate([y, numpy.zeros(F.shape[1])]), rcond=None)[0]
    return kernel_values(kernel, points, Z) @ (white @ b)


def run(options, folder, spec):
    order, model = os.path.join(folder, "order.json"), os.path.join(folder, "model")
    problems.write_order(order, os.path.join(folder, "rows.krds"), spec)
    pathlib.Path(model).write_bytes(b"")
    command = [options.worker, "--job", order, "--model", model, "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = [json.loads(line) for line in done.stdout.strip().splitlines()]
    if not lines:
        return {"reason": "refused", "error": {"message": done.stderr.strip()}}, [], None
    said = [line["message"] for line in lines if line.get("level") == "warning"]
    return lines[-1], said, problems.read_model(model) if os.path.getsize(model) > 0 else None


def spec_of(job):
    spec = {"kernel": {"name": job["kernel"]}, "solver": job["solver"], "regularization": job["regularization"],
            "precision": job["precision"], "test": {"fraction": 0}, "seed": job["seed"]}
    if job["kernel"] not in ("linear", "polynomial"):
        spec["kernel"]["bandwidth"] = "median"
    spec["stop"] = {"time_budget_s": BUDGET} | ({"tolerance": job["tolerance"]} if job["tolerance"] is not None else {})
    if job["solver"] == "falkon_bless":
        spec["centers"] = {"method": "bless"}
    return spec


def compare(job, ended, model, data):
    """The model's error, and that of the targets' size."""
    X, y, points = data
    scale = model["feature_scale"] if "feature_scale" in model else 1.0
    mean = model["feature_mean"] if "feature_mean" in model else 0.0
    shift, size = (float(numpy.ravel(model[key])[0]) for key in ("target_mean", "target_scale"))
    kernel = {**ended["model"]["kernel"]}
    S, P = (X - mean) / scale, (points - mean) / scale
    Z = model["centers"].astype(float)
    there = kernel_values(kernel, P, Z) @ model["coef"][:, 0]
    wanted = exact(kernel, ended["result"]["ridge"], S, (y - shift) / size, None if job["solver"] in FULL else Z, P)
    return float(numpy.abs(there - wanted).max() / max(numpy.abs(wanted).max(), 1e-300))


def measure(options, folder, job, baseline):
    data = rows_of(options, job["set"], job["n"], job["d"], job["seed"])
    problems.write_data_set(os.path.join(folder, "rows.krds"), data[0], data[1])
    ended, said, model = run(options, folder, spec_of(job))
    result = ended.get("result") or {}
    line = {**job, "reason": ended["reason"], "residual": result.get("relative_residual"), "whitened": result.get("whitened_residual"),
            "iterations": result.get("iterations"), "seconds": result.get("seconds"), "warnings": said,
            "message": (ended.get("error") or {}).get("message")}
    if model is not None:
        line["error"] = compare(job, ended, model, data)
    if line["seconds"] is not None and line["seconds"] > SECONDS:
        first, _, _ = run(options, folder, {**spec_of(job), "solver": baseline, "precision": "float64"})
        least = (first.get("result") or {}).get("seconds")
        line["slower"] = line["seconds"] / least if least else None
    return line


def judged(line):
    """What is not as it should be, in words."""
    out = [] if line["reason"] == "converged" else [line["reason"]]
    told = any("solution" in text for text in line["warnings"])
    if line.get("error") is not None and line["error"] > WRONG and line["reason"] == "converged" and not told:
        out.append("wrong")
    if (line.get("slower") or 0) > SLOW:
        out.append("slow")
    return out


def text(line):
    what = " ".join(f"{line[key]}" for key in ("solver", "set", "n", "d", "kernel", "regularization", "precision", "tolerance", "seed"))
    figures = " ".join(f"{key} {line[key]:.1e}" for key in ("residual", "whitened", "error", "seconds", "slower") if line.get(key) is not None)
    return f"{'+'.join(judged(line))}: {what}: {figures} iterations {line['iterations']} {line['message'] or ''} {line['warnings'] or ''}"


def page(lines):
    reasons = sorted({line["reason"] for line in lines}) + ["wrong", "slow"]
    counts = collections.defaultdict(collections.Counter)
    for line in lines:
        counts[line["solver"]].update([line["reason"], "all", *(word for word in judged(line) if word in ("wrong", "slow"))])
    out = ["| solver | jobs | " + " | ".join(reasons) + " |", "| --- " * (len(reasons) + 2) + "|"]
    for solver in (*FULL, *RESTRICTED):
        if solver in counts:
            out.append(f"| {solver} | {counts[solver]['all']} | " + " | ".join(str(counts[solver][word]) for word in reasons) + " |")
    return "\n".join(out)


def draw(options, sets):
    """Jobs without end."""
    rng = numpy.random.default_rng(options.seed)

    def one(values):
        return values[rng.integers(len(values))]

    while True:
        job = {"set": one(sets), "n": one(options.rows), "d": one(FEATURES), "kernel": one(options.kernels), "regularization": one(REGULARIZATIONS),
               "precision": one(options.precisions), "tolerance": one(options.tolerances), "seed": int(rng.integers(1000)), "solver": one(options.solvers)}
        if job["precision"] != "mixed" or job["kernel"] not in ("linear", "polynomial"):
            yield job


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", default="build/src/worker/krrd-worker")
    parser.add_argument("--data")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--solvers", nargs="+", default=[*FULL, *RESTRICTED])
    parser.add_argument("--kernels", nargs="+", default=KERNELS)
    parser.add_argument("--precisions", nargs="+", default=PRECISIONS)
    parser.add_argument("--tolerances", nargs="+", default=TOLERANCES, type=lambda word: None if word == "default" else float(word))
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--out")
    parser.add_argument("--page", nargs="+")
    options = parser.parse_args()
    if options.page:
        lines = [json.loads(line) for path in options.page for line in open(path)]
        print(page(lines))
        return
    sets = options.sets or [*MADE, *(problems.REAL if options.data else [])]
    lines, jobs = [], draw(options, sets)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.jobs):
            job = next(jobs)
            line = measure(options, folder, job, "cholesky" if job["solver"] in FULL else "direct")
            lines.append(line)
            if judged(line):
                print(text(line), flush=True)
            if options.out:
                with open(options.out, "a") as out:
                    out.write(json.dumps(line) + "\n")
    print(page(lines))


if __name__ == "__main__":
    main()
