#!/usr/bin/env python3
"""How many kernel ridge regression problems each preconditioner solves within how many iterations.

After Diaz, Epperly, Frangella, Tropp, Webber, arXiv:2304.12465, Figure 1: the gaussian kernel with
bandwidth 3 on standardised features, lambda = 1e-7 a row, at most 250 iterations, and a problem
counts as solved once |(K + n lambda I) a - y| <= 1e-3 |y|. Six real data sets and three synthetic
ones (synthetic.py), of at most --n rows. Every number comes from `krr-bench solve`; "solved" means
its certificate, a residual computed afresh in float64, and not the recurrence's.

Products run in mixed precision first (float32 kernel values, float64 recurrences). A run that float32
may have kept from 1e-3 (worth_repeating) is made again in float64, and the better of the two counts.

A second part times how long rpcholesky takes to build at rank 1,000 with its own block size and one
pivot at a time, on one thread, in seconds of processor time.

The results file is written after every run; with one that is there already the program goes on where
it stopped. --figures writes the plot and prints the tables, from the results alone when there is
nothing left to run.
"""
import argparse
import os
import pathlib
import sys
import tempfile

import numpy

import problems
import synthetic

BANDWIDTH, REGULARIZATION, TOLERANCE, ITERATIONS = 3.0, 1e-7, 1e-3, 250
PRECONDITIONERS = ("none", "nystrom_uniform", "nystrom_gaussian", "cholesky_greedy", "rpcholesky")
BUILD_RANK = 1000
NAMES = [*problems.REAL, *synthetic.PROBLEMS]


def make_problem(options, name, folder):
    """Writes the data set; a description of the problem, "path" of the data set included."""
    if name in synthetic.PROBLEMS:
        X, y = synthetic.PROBLEMS[name](options.n, options.seed)
        labels = None
    else:
        X, y, labels = problems.real(options.data, name, options.n, options.seed)
    path = os.path.join(folder, f"{name}.krds")
    problems.write_data_set(path, X, y, classes=labels)
    return {"name": name, "n": len(X), "d": X.shape[1], "targets": len(labels) if labels else 1,
            "synthetic": name in synthetic.PROBLEMS, "path": path}


def make_spec(options, preconditioner, rank, precision, iterations, **more):
    chosen = {"name": preconditioner, **more}
    if preconditioner != "none":
        chosen["rank"] = rank
    return {
        "kernel": {"name": "gaussian", "bandwidth": BANDWIDTH},
        "regularization": REGULARIZATION,
        "solver": {"name": "pcg", "preconditioner": chosen},
        "stop": {"tolerance": TOLERANCE, "max_iterations": iterations},
        "precision": precision,
        "test": {"fraction": 0},
        "seed": options.seed,
    }


def residuals(trace):
    """The recurrence's relative residual after iteration 1, 2, ... (a check replaces it by the true one)."""
    by_iteration = {}
    for line in trace:
        if line["iteration"] > 0 and line["relative_residual"] is not None:
            by_iteration[line["iteration"]] = float(f"{line['relative_residual']:.4g}")
    return [by_iteration.get(i) for i in range(1, max(by_iteration, default=0) + 1)]


def solve(options, folder, problem, preconditioner, rank, precision):
    order, trace_path = os.path.join(folder, "order.json"), os.path.join(folder, "trace.jsonl")
    spec = make_spec(options, preconditioner, rank, precision, ITERATIONS)
    problems.write_order(order, problem["path"], spec)
    report, trace = problems.run(options.bench, order, trace_path, options.threads)
    return {
        "problem": problem["name"],
        "preconditioner": preconditioner,
        "rank_wanted": rank,
        "rank": report["rank"],
        "precision": precision,
        "stop_reason": report["stop_reason"],
        "solved": report["stop_reason"] == "converged",
        "iterations": report["iterations"],
        "certified_residual": report["relative_residual"],
        "build_cpu_seconds": round(problems.phase_span(trace, "preconditioner", "cpu_seconds"), 3),
        "cpu_seconds": round(trace[-1]["cpu_seconds"], 3),
        "residuals": residuals(trace),
    }


def wanted_runs(options):
    """(preconditioner, rank); no rank matters to `none`."""
    for preconditioner in options.preconditioners:
        for rank in [None] if preconditioner == "none" else options.ranks:
            yield preconditioner, rank


def have(results, **keys):
    found = [r for r in results["runs"] if all(r[k] == v for k, v in keys.items())]
    return found[0] if found else None


def worth_repeating(run):
    """Whether float32 kernel values may be why mixed precision did not solve it: it gave up by itself, or
    was close at the end, or it is the method of which the claim is that it solves all."""
    return not run["solved"] and (run["stop_reason"] != "iteration_limit" or run["preconditioner"] == "rpcholesky"
                                  or run["certified_residual"] <= 10 * TOLERANCE)


def run_problem(options, results, folder, problem):
    for preconditioner, rank in wanted_runs(options):
        for precision in ("mixed", "float64"):
            keys = {"problem": problem["name"], "preconditioner": preconditioner, "rank_wanted": rank}
            if have(results, precision=precision, **keys):
                continue
            if precision == "float64" and not worth_repeating(have(results, precision="mixed", **keys)):
                continue
            r = solve(options, folder, problem, preconditioner, rank, precision)
            results["runs"].append(r)
            problems.save(options.out, results)
            print(f"{problem['name']:<24} {preconditioner:<17} {rank or '':>5} {precision:<8} {r['stop_reason']:<16}"
                  f" {r['iterations']:>4}  {r['certified_residual']:.2e}", flush=True)


def run_builds(options, results, folder, problem):
    """Seconds of processor time of building rpcholesky: its own block size against one pivot at a time."""
    if any(b["problem"] == problem["name"] for b in results["builds"]):
        return
    build = {"problem": problem["name"], "n": problem["n"], "rank": BUILD_RANK}
    for label, block in (("accelerated", "auto"), ("simple", 1)):
        order, trace_path = os.path.join(folder, "order.json"), os.path.join(folder, "trace.jsonl")
        spec = make_spec(options, "rpcholesky", BUILD_RANK, "mixed", 1, block_size=block)
        problems.write_order(order, problem["path"], spec)
        times, wall = [], []
        for _ in range(options.repeat):
            report, trace = problems.run(options.bench, order, trace_path, 1)
            times.append(problems.phase_span(trace, "preconditioner", "cpu_seconds"))
            wall.append(problems.phase_span(trace, "preconditioner", "seconds"))
        build[label] = {"cpu_seconds": round(min(times), 3), "seconds": round(min(wall), 3),
                        "rank": report["rank"], "load_average": report["load_average"]}
    build["ratio"] = round(build["simple"]["cpu_seconds"] / build["accelerated"]["cpu_seconds"], 2)
    results["builds"].append(build)
    problems.save(options.out, results)
    print(f"{problem['name']:<24} build: {build['accelerated']['cpu_seconds']} s, one pivot at a time "
          f"{build['simple']['cpu_seconds']} s, {build['ratio']} times", flush=True)


# ---- from runs to tables and the plot ----


def best_run(results, problem, preconditioner, rank):
    """The run that counts: solved in fewest iterations, else the last one."""
    rank = None if preconditioner == "none" else rank
    runs = [r for r in results["runs"] if (r["problem"], r["preconditioner"], r["rank_wanted"]) ==
            (problem, preconditioner, rank)]
    solved = [r for r in runs if r["solved"]]
    return min(solved, key=lambda r: r["iterations"]) if solved else runs[-1] if runs else None


def share_curve(results, preconditioner, rank):
    """Share of the problems solved after 0 .. ITERATIONS iterations."""
    names = [p["name"] for p in results["problems"]]
    chosen = [best_run(results, name, preconditioner, rank) for name in names]
    at = [r["iterations"] for r in chosen if r is not None and r["solved"]]
    return [sum(i <= t for i in at) / len(names) for t in range(ITERATIONS + 1)]


def markdown_tables(results):
    lines = []
    names = [p["name"] for p in results["problems"]]
    for rank in results["ranks"]:
        marks = (10, 25, 50, 100, 150, 200, 250)
        lines += [f"Share of {len(names)} problems solved, r = {rank}:", "",
                  "| preconditioner | " + " | ".join(f"{t} its" for t in marks) + " |",
                  "| --- |" + " ---: |" * len(marks)]
        for p in results["preconditioners"]:
            curve = share_curve(results, p, rank)
            lines.append(f"| {p} | " + " | ".join(f"{curve[t]:.2f}" for t in marks) + " |")
        lines += ["", f"Iterations to 1e-3, r = {rank} (in brackets: the certified residual after {ITERATIONS}):", "",
                  "| problem | n | d | " + " | ".join(results["preconditioners"]) + " |",
                  "| --- |" + " ---: |" * (2 + len(results["preconditioners"]))]
        for problem in results["problems"]:
            cells = []
            for p in results["preconditioners"]:
                r = best_run(results, problem["name"], p, rank)
                cells.append("" if r is None else str(r["iterations"]) if r["solved"]
                             else f"({r['certified_residual']:.1e})")
            lines.append(f"| {problem['name']} | {problem['n']:,} | {problem['d']} | " + " | ".join(cells) + " |")
        lines.append("")
    if results["builds"]:
        lines += [f"Building rpcholesky of rank {BUILD_RANK}, seconds of one processor:", "",
                  "| problem | n | accelerated | one pivot at a time | ratio |", "| --- |" + " ---: |" * 4]
        for b in results["builds"]:
            lines.append(f"| {b['problem']} | {b['n']:,} | {b['accelerated']['cpu_seconds']:.2f} | "
                         f"{b['simple']['cpu_seconds']:.2f} | {b['ratio']:.1f} |")
    return "\n".join(lines)


STYLE = {
    "none": ("#7f7f7f", "none"),
    "nystrom_uniform": ("#1f77b4", "uniform Nyström"),
    "nystrom_gaussian": ("#9467bd", "Gaussian Nyström"),
    "cholesky_greedy": ("#ff7f0e", "greedy Cholesky"),
    "rpcholesky": ("#2ca02c", "RPCholesky"),
}


def _pyplot():
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "krrd"  # the same figure gives the same file
    from matplotlib import pyplot

    return pyplot


def plot_shares(results, path):
    pyplot = _pyplot()
    figure, panels = pyplot.subplots(1, len(results["ranks"]), figsize=(9, 3.6), sharey=True, squeeze=False)
    for panel, rank in zip(panels[0], results["ranks"]):
        for p in results["preconditioners"]:
            color, label = STYLE[p]
            panel.step(range(ITERATIONS + 1), share_curve(results, p, rank), where="post", color=color, label=label)
        panel.set_title(f"r = {rank}")
        panel.set_xlabel("iterations")
        panel.set_xlim(0, ITERATIONS)
        panel.set_ylim(-0.02, 1.02)
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("share of problems solved")
    panels[0][-1].legend(loc="lower right", fontsize="small")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def plot_residuals(results, path, rank):
    """The recurrence's residual against iterations, a panel a problem."""
    pyplot = _pyplot()
    names = [p["name"] for p in results["problems"]]
    columns = 3
    rows = -(-len(names) // columns)
    figure, panels = pyplot.subplots(rows, columns, figsize=(9, 2.5 * rows), sharex=True, sharey=True, squeeze=False)
    for panel, name in zip(panels.flat, names):
        for p in results["preconditioners"]:
            r = best_run(results, name, p, rank)
            if r is not None and r["residuals"]:
                values = [numpy.nan if v is None else v for v in r["residuals"]]
                panel.semilogy(range(len(values) + 1), [1.0, *values], color=STYLE[p][0], label=STYLE[p][1])
        panel.axhline(TOLERANCE, color="black", linewidth=0.5, linestyle=":")
        panel.set_title(name, fontsize="medium")
        panel.grid(alpha=0.3)
        panel.set_ylim(3e-4, 30)
    panels[0][0].legend(fontsize="x-small", loc="upper right")
    for panel in panels[-1]:
        panel.set_xlabel("iterations")
    figure.supylabel("relative residual")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def read_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the data sets as NPZ files of X and y; needed by the real problems")
    parser.add_argument("--bench", default="build/bench/krr-bench", help="the program (default: %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="results file (JSON)")
    parser.add_argument("--figures", type=pathlib.Path, help="folder for the plots; also prints the tables")
    parser.add_argument("--n", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0, help="of the subsamples, the synthetic sets and the solver")
    parser.add_argument("--threads", type=int, default=0, help="of a solve; 0: as many as the machine has")
    parser.add_argument("--repeat", type=int, default=2, help="builds timed; the best counts")
    parser.add_argument("--ranks", type=int, nargs="+", default=[500, 1000])
    parser.add_argument("--problems", nargs="*", choices=NAMES, default=NAMES)
    parser.add_argument("--preconditioners", nargs="+", choices=PRECONDITIONERS, default=list(PRECONDITIONERS))
    parser.add_argument("--no-builds", action="store_true", help="leave out the timing of builds")
    parser.add_argument("--no-solves", action="store_true", help="leave out the solves that are not there yet")
    options = parser.parse_args(arguments)
    if options.data is None and any(name in problems.REAL for name in options.problems):
        parser.error("the real problems need --data")
    return options


def open_results(options):
    fixed = {"n": options.n, "seed": options.seed, "bandwidth": BANDWIDTH, "regularization": REGULARIZATION,
             "tolerance": TOLERANCE, "max_iterations": ITERATIONS, "ranks": options.ranks}
    if options.out.exists():
        results = problems.load(options.out)
        if any(results[key] != value for key, value in fixed.items()):
            sys.exit(f"{options.out} holds runs with other settings; name another file.")
    else:
        results = {"command": f"bench/claims/paper000.py {problems.told(sys.argv[1:])}", **problems.machine(options.bench),
                   **fixed, "problems": [], "runs": [], "builds": []}
    results["preconditioners"] = [p for p in PRECONDITIONERS
                                  if p in options.preconditioners or p in results.get("preconditioners", [])]
    return results


def main(arguments=None):
    options = read_options(arguments)
    results = open_results(options)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.problems:
            problem = make_problem(options, name, folder)
            if all(p["name"] != name for p in results["problems"]):
                results["problems"].append({key: value for key, value in problem.items() if key != "path"})
                results["problems"].sort(key=lambda p: NAMES.index(p["name"]))
            if not options.no_solves:
                run_problem(options, results, folder, problem)
            if not options.no_builds and problem["n"] >= BUILD_RANK:
                run_builds(options, results, folder, problem)
            os.unlink(problem["path"])
    problems.save(options.out, results)
    if options.figures:
        options.figures.mkdir(parents=True, exist_ok=True)
        plot_shares(results, options.figures / "paper-000-share.svg")
        for rank in results["ranks"]:
            plot_residuals(results, options.figures / f"paper-000-residuals-{rank}.svg", rank)
        print(markdown_tables(results))


if __name__ == "__main__":
    main()
