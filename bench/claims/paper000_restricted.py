#!/usr/bin/env python3
"""How many restricted kernel ridge regression problems each solver solves within how many iterations.

After Diaz, Epperly, Frangella, Tropp, Webber, arXiv:2304.12465, Figure 3: the gaussian kernel with
bandwidth 3 on standardised features, m centers drawn uniformly from n rows, m = sqrt(n) and n/10,
lambda = 1e-7 and 2e-10 a row, at most 100 iterations, and a problem counts as solved once

    |K_nm'(K_nm b - y) + n lambda K_mm b| <= 1e-4 |K_nm' y|.

The problems are those of paper000.py. Every number comes from `krr-bench solve` in float64; "solved"
means its certificate, a residual computed afresh on the host, and not the recurrence's.

The results file is written after every run; with one that is there already the program goes on where
it stopped. --figures writes the plot and prints the tables, from the results alone when there is
nothing left to run.
"""
import argparse
import os
import pathlib
import sys
import tempfile

import paper000
import problems

BANDWIDTH, TOLERANCE, ITERATIONS = 3.0, 1e-4, 100
LAMBDAS = (1e-7, 2e-10)
SOLVERS = ("cg", "falkon", "krill")
NAMES = paper000.NAMES


def center_counts(n):
    """The label and m, of n rows."""
    return {"sqrt n": round(n**0.5), "n/10": n // 10}


def solve(options, folder, problem, solver, centers, regularization):
    order, trace_path = os.path.join(folder, "order.json"), os.path.join(folder, "trace.jsonl")
    m = center_counts(problem["n"])[centers]
    spec = {
        "kernel": {"name": "gaussian", "bandwidth": BANDWIDTH},
        "regularization": regularization,
        "solver": solver,
        "centers": {"method": "uniform", "count": m},
        "stop": {"tolerance": TOLERANCE, "max_iterations": ITERATIONS},
        "precision": "float64",
        "test": {"fraction": 0},
        "seed": options.seed,
    }
    problems.write_order(order, problem["path"], spec)
    report, trace = problems.run(options.bench, order, trace_path, options.threads)
    return {
        "problem": problem["name"],
        "solver": solver,
        "centers": centers,
        "m": m,
        "regularization": regularization,
        "stop_reason": report["stop_reason"],
        "solved": report["stop_reason"] == "converged",
        "iterations": report["iterations"],
        "certified_residual": report["relative_residual"],
        "build_cpu_seconds": round(problems.phase_span(trace, "preconditioner", "cpu_seconds"), 3),
        "cpu_seconds": round(trace[-1]["cpu_seconds"], 3),
        "residuals": paper000.residuals(trace),
    }


def find(results, **keys):
    return next((r for r in results["runs"] if all(r[k] == v for k, v in keys.items())), None)


def run_problem(options, results, folder, problem):
    for centers in center_counts(problem["n"]):
        for regularization in LAMBDAS:
            for solver in options.solvers:
                keys = {"problem": problem["name"], "solver": solver, "centers": centers, "regularization": regularization}
                if find(results, **keys):
                    continue
                r = solve(options, folder, problem, solver, centers, regularization)
                results["runs"].append(r)
                problems.save(options.out, results)
                print(f"{problem['name']:<24} {solver:<7} m = {r['m']:<5} {regularization:<6g} {r['stop_reason']:<16}"
                      f" {r['iterations']:>4}  {r['certified_residual']:.1e}", flush=True)


# ---- from runs to tables and the plot ----


def panels_of(results):
    """(label of the number of centers, lambda), in order."""
    return [(centers, regularization) for centers in ("sqrt n", "n/10") for regularization in results["lambdas"]]


def share_curve(results, solver, centers, regularization):
    """Share of the problems solved after 0 .. ITERATIONS iterations."""
    names = [p["name"] for p in results["problems"]]
    runs = [find(results, problem=n, solver=solver, centers=centers, regularization=regularization) for n in names]
    at = [r["iterations"] for r in runs if r is not None and r["solved"]]
    return [sum(i <= t for i in at) / len(names) for t in range(ITERATIONS + 1)]


def cell(run):
    if run is None:
        return ""
    return str(run["iterations"]) if run["solved"] else f"({run['certified_residual']:.1e})"


def markdown_tables(results):
    lines = []
    for centers, regularization in panels_of(results):
        lines += [f"m = {centers}, lambda = {regularization:g} (in brackets: the certified residual at the end):", "",
                  "| problem | n | m | " + " | ".join(SOLVERS) + " |", "| --- |" + " ---: |" * (2 + len(SOLVERS))]
        for problem in results["problems"]:
            runs = {s: find(results, problem=problem["name"], solver=s, centers=centers, regularization=regularization)
                    for s in SOLVERS}
            m = center_counts(problem["n"])[centers]
            lines.append(f"| {problem['name']} | {problem['n']:,} | {m:,} | " +
                         " | ".join(cell(runs[s]) for s in SOLVERS) + " |")
        solved = [share_curve(results, s, centers, regularization) for s in SOLVERS]
        lines += ["| solved within 30 | | | " + " | ".join(f"{100 * c[30]:.0f} %" for c in solved) + " |",
                  f"| solved within {ITERATIONS} | | | " + " | ".join(f"{100 * c[-1]:.0f} %" for c in solved) + " |", ""]
    return "\n".join(lines)


STYLE = {"cg": ("#7f7f7f", "no preconditioner"), "falkon": ("#ff7f0e", "FALKON"), "krill": ("#2ca02c", "KRILL")}


def plot_shares(results, path):
    pyplot = paper000._pyplot()
    figure, panels = pyplot.subplots(2, 2, figsize=(9, 6), sharex=True, sharey=True)
    for panel, (centers, regularization) in zip(panels.flat, panels_of(results)):
        for s in SOLVERS:
            color, label = STYLE[s]
            panel.step(range(ITERATIONS + 1), share_curve(results, s, centers, regularization), where="post", color=color,
                       label=label)
        panel.axvline(30, color="black", linewidth=0.5, linestyle=":")
        panel.set_title(f"m = {centers}, lambda = {regularization:g}", fontsize="medium")
        panel.set_xlim(0, ITERATIONS)
        panel.set_ylim(-0.02, 1.02)
        panel.grid(alpha=0.3)
    for panel in panels[-1]:
        panel.set_xlabel("iterations")
    panels[0][0].legend(loc="center right", fontsize="small")
    figure.supylabel("share of problems solved to 1e-4")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def read_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the data sets as NPZ files of X and y; needed by the real problems")
    parser.add_argument("--bench", default="build/bench/krr-bench", help="the program (default: %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="results file (JSON)")
    parser.add_argument("--figures", type=pathlib.Path, help="folder for the plot; also prints the tables")
    parser.add_argument("--n", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0, help="of the subsamples, the synthetic sets and the solver")
    parser.add_argument("--threads", type=int, default=0, help="of a solve; 0: as many as the machine has")
    parser.add_argument("--problems", nargs="*", choices=NAMES, default=NAMES)
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=list(SOLVERS))
    options = parser.parse_args(arguments)
    if options.data is None and any(name in problems.REAL for name in options.problems):
        parser.error("the real problems need --data")
    return options


def open_results(options):
    fixed = {"n": options.n, "seed": options.seed, "bandwidth": BANDWIDTH, "lambdas": list(LAMBDAS),
             "tolerance": TOLERANCE, "max_iterations": ITERATIONS}
    if options.out.exists():
        results = problems.load(options.out)
        if any(results[key] != value for key, value in fixed.items()):
            sys.exit(f"{options.out} holds runs with other settings; name another file.")
        return results
    return {"command": f"bench/claims/paper000_restricted.py {problems.told(sys.argv[1:])}",
            **problems.machine(options.bench), **fixed, "problems": [], "runs": []}


def main(arguments=None):
    options = read_options(arguments)
    results = open_results(options)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.problems:
            problem = paper000.make_problem(options, name, folder)
            if all(p["name"] != name for p in results["problems"]):
                results["problems"].append({key: value for key, value in problem.items() if key != "path"})
                results["problems"].sort(key=lambda p: NAMES.index(p["name"]))
            run_problem(options, results, folder, problem)
            os.unlink(problem["path"])
    problems.save(options.out, results)
    if options.figures:
        options.figures.mkdir(parents=True, exist_ok=True)
        plot_shares(results, options.figures / "paper-000-restricted.svg")
        print(markdown_tables(results))


if __name__ == "__main__":
    main()
