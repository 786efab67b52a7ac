#!/usr/bin/env python3
"""sketchysaga and sketchykatyusha beside falkon and direct on real data: the same centers, regularization and
tolerance; seconds, passes over the rows, test metrics, and how far these are from direct's.

    bench/claims/stochastic.py --data DIR --bench build/bench/krr-bench --out bench/results/stochastic.json

Runs that the output already has are left as they are; --runs names others to do. Then prints the tables of
docs/claims/stochastic.md."""
import argparse
import os
import sys
import tempfile

import problems

SOLVERS = ("direct", "falkon", "sketchysaga", "sketchykatyusha")
CASES = {
    # name: data, centers, kernel
    "bike-200": ("bike", 200, "gaussian"),
    "letter-200": ("letter", 200, "laplacian"),
    "higgs7k-200": ("higgs7k", 200, "gaussian"),
    "hflights-200": ("hflights", 200, "gaussian"),
    "hflights-4000": ("hflights", 4000, "gaussian"),
}
KEPT = ("stop_reason", "solver", "iterations", "relative_residual", "train_rows", "test_rows", "metrics", "seconds",
        "peak_memory_bytes", "precision", "threads", "load_average", "date")


def make_run(options, folder, case, solver):
    data, centers, kernel = CASES[case]
    X, y, labels = problems.real(options.data, data, 1 << 30, 0)
    path, order = os.path.join(folder, f"{data}.krds"), os.path.join(folder, "order.json")
    if not os.path.exists(path):
        problems.write_data_set(path, X, y, labels)
    spec = {
        "kernel": kernel,
        "regularization": options.regularization,
        "solver": {"name": solver},
        "centers": {"method": "uniform", "count": centers},
        "stop": {"tolerance": options.tolerance, "max_iterations": options.iterations, "time_budget_s": options.budget},
        "precision": options.precision,
        "target": "y",
        "test": {"fraction": 0.2},
        "seed": 1,
    }
    problems.write_order(order, path, spec)
    report, trace = problems.run(options.bench, order, os.path.join(folder, "trace.jsonl"), options.threads,
                                 quiet=options.lock)
    iterating = [line for line in trace if line["phase"] == "iterating"]
    reached = [{key: line[key] for key in ("iteration", "cpu_seconds", "relative_residual")} for line in iterating
               if line["relative_residual"] is not None and line["relative_residual"] < 1]
    changes = [line for i, line in enumerate(reached)
               if i == 0 or line["relative_residual"] != reached[i - 1]["relative_residual"]]
    return {"case": case, "centers": centers, "kernel": kernel, **{key: report[key] for key in KEPT},
            "build_cpu_seconds": round(problems.phase_span(trace, "preconditioner", "cpu_seconds"), 3),
            "cpu_seconds": round(trace[-1]["cpu_seconds"], 3), "residuals": changes}


def metric(run):
    """What counts, by name: accuracy for classes, else the root mean squared error."""
    name = "accuracy" if run["metrics"]["accuracy"] is not None else "rmse"
    return name, run["metrics"][name]


def summary(results):
    lines = ["| data, centers | solver | ended | iterations | certified residual | CPU s, building | CPU s, in all | "
             "test metric | from direct's, relative |", "| --- | --- | --- |" + " ---: |" * 6]
    by_name = {(r["case"], r["solver"]): r for r in results["runs"]}
    for (case, solver), r in by_name.items():
        exact = by_name.get((case, "direct"))
        name, value = metric(r)
        distance = f"{abs(value / metric(exact)[1] - 1):.1e}" if exact else "-"
        lines.append(f"| {case} | {solver} | {r['stop_reason']} | {r['iterations']} | {r['relative_residual']:.1e} | "
                     f"{r['build_cpu_seconds']:.1f} | {r['cpu_seconds']:.1f} | {name} {value:.6g} | {distance} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with the .npz files")
    parser.add_argument("--bench", required=True, help="the program krr-bench")
    parser.add_argument("--out", required=True)
    parser.add_argument("--runs", nargs="*", default=list(CASES), help="of: " + ", ".join(CASES))
    parser.add_argument("--solvers", nargs="*", default=list(SOLVERS))
    parser.add_argument("--regularization", type=float, default=1e-6)
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--precision", default="float64")
    parser.add_argument("--budget", type=float, default=600, help="seconds of a run")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lock", help="a lock to hold during each run")
    options = parser.parse_args()
    results = problems.load(options.out) if os.path.exists(options.out) else {"commands": [], "runs": []}
    results.update(problems.machine(options.bench))
    results["commands"].append(f"bench/claims/stochastic.py {problems.told(sys.argv[1:])}")
    done = {(r["case"], r["solver"]) for r in results["runs"]}
    with tempfile.TemporaryDirectory() as folder:
        for case in options.runs:
            for solver in options.solvers:
                if (case, solver) not in done:
                    results["runs"].append(make_run(options, folder, case, solver))
                    problems.save(options.out, results)
    print(summary(results))


if __name__ == "__main__":
    main()
