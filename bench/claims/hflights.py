#!/usr/bin/env python3
"""askotch2 in float32 against pcg on the flights of Houston 2011: 179,099 training rows of 9 features.

After Rathore, Frangella, Udell, arXiv:2407.10070, section 6: full kernel ridge regression by block
descent against preconditioned conjugate gradients, by the error on test rows against time. Kernel
and ridge are krrd's defaults, chosen without a look at the test rows: gaussian, the median distance
as bandwidth, lambda = 1e-6 a row. The first fifth of numpy.random.default_rng(0).permutation tests.

`exact` is pcg to 1e-6 in mixed precision; its last test error is called exact. Each method's time is
that of its first evaluation at 1.05 times that error or below, its own start (data, bandwidth,
preconditioner) included, both by the clock and as processor time of all threads, which other programs
on the machine change less; its memory is the process's largest resident size. Evaluations are at most
a twentieth of a run's time, so a method may have been there earlier than it is told.

The results file is written after every run; with one that is there already the program adds the
runs asked for.
"""
import argparse
import os
import pathlib
import sys
import tempfile

import numpy

import problems

WITHIN = 1.05
RUNS = {
    # name: solver, precision, tolerance, iterations
    "exact": ({"name": "pcg"}, "mixed", 1e-6, 300),
    "pcg_one_step": ({"name": "pcg", "preconditioner": {"name": "rpcholesky", "rank": 500}}, "float32", 1e-6, 1),
    "askotch2": ({"name": "askotch2"}, "float32", 1e-6, 300),
}


def make_data(options, folder):
    X, y = problems.load_arrays(options.data, "hflights")
    order = numpy.random.default_rng(0).permutation(len(X))
    tested = -(-len(X) // 5)
    mask = numpy.zeros(len(X), numpy.float32)
    mask[order[:tested]] = 1
    train = order[tested:][: options.n]
    rows = numpy.sort(numpy.concatenate([order[:tested], train]))
    path = os.path.join(folder, "hflights.krds")
    problems.write_data_set(path, X[rows], y[rows], mask=mask[rows])
    return path


def reduce_trace(trace):
    """The lines where the test error changed."""
    kept = []
    for line in trace:
        if line["rmse"] is not None and (not kept or line["rmse"] != kept[-1]["rmse"]):
            kept.append({"seconds": round(line["seconds"], 3), "cpu_seconds": round(line["cpu_seconds"], 3),
                         **{key: line[key] for key in ("iteration", "relative_residual", "rmse")}})
    return kept


def first_iteration(trace):
    """Seconds of processor time until there were coefficients, looked at or not."""
    return next((round(line["cpu_seconds"], 3) for line in trace if line["iteration"] > 0), None)


def make_run(options, folder, data, name):
    solver, precision, tolerance, iterations = RUNS[name]
    order, trace_path = os.path.join(folder, "order.json"), os.path.join(folder, "trace.jsonl")
    spec = {
        "kernel": "gaussian",
        "regularization": 1e-6,
        "solver": solver,
        "stop": {"tolerance": tolerance, "max_iterations": iterations, "time_budget_s": options.budget},
        "precision": precision,
        "target": "y",
        "test": {"mask": "test"},
    }
    problems.write_order(order, data, spec)
    report, trace = problems.run(options.bench, order, trace_path, options.threads, quiet=options.lock)
    kept = ("stop_reason", "solver", "preconditioner", "rank", "iterations", "relative_residual", "train_rows", "test_rows",
            "metrics", "seconds", "peak_memory_bytes", "precision", "threads", "load_average", "date")
    return {"name": name, **{key: report[key] for key in kept},
            "build_cpu_seconds": round(problems.phase_span(trace, "preconditioner", "cpu_seconds"), 3),
            "first_iteration_cpu_seconds": first_iteration(trace),
            "cpu_seconds": round(trace[-1]["cpu_seconds"], 3), "evaluations": reduce_trace(trace)}


def reached(run, error, key):
    """`seconds` or `cpu_seconds` of the first evaluation at `error` or below, as text."""
    at = next((e[key] for e in run["evaluations"] if e["rmse"] <= error), None)
    return "not reached" if at is None else f"{at:.1f}"


def summary(results):
    exact = next((r for r in results["runs"] if r["name"] == "exact"), None)
    if exact is None:
        return "no exact run yet"
    error = exact["metrics"]["rmse"]
    lines = [f"Exact test RMSE {error:.4f} (residual {exact['relative_residual']:.1e}, {exact['iterations']} iterations, "
             f"rank {exact['rank']}).", "",
             f"| run | precision | CPU s to {WITHIN} x exact | wall s to it | CPU s to build | last RMSE / exact | "
             "CPU s to first iteration | CPU s in all | iterations | peak memory, MiB | load |", "| --- | --- |" + " ---: |" * 9]
    for r in results["runs"]:
        lines.append(f"| {r['name']} | {r['precision']} | {reached(r, WITHIN * error, 'cpu_seconds')} | "
                     f"{reached(r, WITHIN * error, 'seconds')} | {r['build_cpu_seconds']:.1f} | "
                     f"{r['metrics']['rmse'] / error:.4f} | {r['first_iteration_cpu_seconds'] or 0:.1f} | "
                     f"{r['cpu_seconds']:.0f} | {r['iterations']} | "
                     f"{r['peak_memory_bytes'] / 2**20:.0f} | {r['load_average']:.1f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with hflights.npz")
    parser.add_argument("--bench", default="build/bench/krr-bench", help="the program (default: %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="results file (JSON)")
    parser.add_argument("--runs", nargs="*", choices=RUNS, default=["exact", "askotch2"], help="default: %(default)s")
    parser.add_argument("--n", type=int, help="training rows, for a trial (default: all 179,099)")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as the machine has")
    parser.add_argument("--budget", type=float, default=None, help="seconds a run may take")
    parser.add_argument("--lock", help="file to hold a lock on (flock) during each run")
    options = parser.parse_args()
    if options.out.exists():
        results = problems.load(options.out)
    else:
        results = {**problems.machine(options.bench), "commands": [], "runs": []}
    results["commands"].append(f"bench/claims/hflights.py {problems.told(sys.argv[1:])}")
    with tempfile.TemporaryDirectory() as folder:
        data = make_data(options, folder)
        for name in options.runs:
            results["runs"].append(make_run(options, folder, data, name))
            problems.save(options.out, results)
    print(summary(results))


if __name__ == "__main__":
    main()
