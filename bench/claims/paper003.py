#!/usr/bin/env python3
"""How fast and how accurate leverage scores are by BLESS and by the methods that it is compared with.

After Rudi, Calandriello, Carratino, Rosasco, arXiv:1810.13258. First the table of Figure 1: each selector
picks centers at one lambda; the leverage scores that these and their weights give are divided by the exact
ones, and the mean and the 5th and 95th percentile of that ratio over all rows are averaged over --repeat
seeds. Uniform centers are as many as those of bless. Then Figure 2: the time of each selector while the
number of rows grows and lambda stays. Every number comes from `krr-bench centers`; the kernel is gaussian on
standardised features.

The results file is written after every run; with one that is there already the program goes on where it
stopped. --table prints the tables, from the results alone when there is nothing left to run.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy

import problems
import synthetic

SELECTORS = ("bless", "bless_r", "squeak", "rls", "uniform")
GROWING = ("bless", "bless_r", "squeak", "rls")
PROBLEMS = ("hflights", *synthetic.PROBLEMS)


def write_problem(options, folder, name, n):
    """The path of a data set of n rows, or as many as hflights has."""
    if name in synthetic.PROBLEMS:
        X, y = synthetic.PROBLEMS[name](n, options.seed)
    else:
        X, y, _ = problems.real(options.data, name, n, options.seed)
    path = os.path.join(folder, "data.krds")
    problems.write_data_set(path, X, y)
    return path


def run(options, folder, path, selector, regularization, repeat, count="auto", scores=None, threads=None):
    order = os.path.join(folder, "order.json")
    problems.write_order(order, path, {
        "kernel": {"name": "gaussian", "bandwidth": options.bandwidth},
        "regularization": regularization,
        "solver": "falkon",
        "centers": {"method": selector, "count": count},
        "precision": "float32",
        "test": {"fraction": 0},
        "seed": options.seed,
    })
    command = [str(options.bench), "centers", "--job", order, "--repeat", str(repeat),
               "--threads", str(threads or options.threads)]
    if scores is not None:
        command += ["--scores", str(scores)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def have(runs, **keys):
    return next((r for r in runs if all(r[k] == v for k, v in keys.items())), None)


def mean(report, key):
    return float(numpy.mean([r[key] for r in report["runs"]]))


def run_accuracy(options, results, folder, name):
    n = options.synthetic_n if name in synthetic.PROBLEMS else options.n
    path = write_problem(options, folder, name, n)
    scores = os.path.join(options.scores or folder, f"scores-{name}")
    for selector in SELECTORS:
        if have(results["accuracy"], problem=name, selector=selector):
            continue
        first = have(results["accuracy"], problem=name, selector="bless")
        count = round(first["m"]) if selector == "uniform" else "auto"
        report = run(options, folder, path, selector, options.regularization, options.repeat, count, scores)
        results["accuracy"].append({
            "selector": selector, "problem": name, "n": report["n"], "d": report["d"],
            "effective_dimension": report["effective_dimension"], "repeat": options.repeat,
            "load_average": report["load_average"],
            **{key: mean(report, key) for key in ("m", "seconds", "cpu_seconds", "ratio_mean", "ratio_q05",
                                                  "ratio_q95", "dimension_ratio")},
            "longest_step_seconds": max(r["longest_step_seconds"] for r in report["runs"]),
        })
        problems.save(options.out, results)
        print(results["accuracy"][-1], flush=True)


def run_growth(options, results, folder):
    for n in options.sizes:
        wanted = [s for s in GROWING if not have(results["growth"], selector=s, n=n)]
        if not wanted:
            continue
        path = write_problem(options, folder, options.growing, n)
        for selector in wanted:
            report = run(options, folder, path, selector, options.growth_regularization, options.growth_repeat,
                         threads=1)
            results["growth"].append({
                "selector": selector, "problem": options.growing, "n": n, "m": mean(report, "m"),
                "seconds": min(r["seconds"] for r in report["runs"]),
                "cpu_seconds": min(r["cpu_seconds"] for r in report["runs"]),
                "load_average": report["load_average"],
            })
            problems.save(options.out, results)
            print(results["growth"][-1], flush=True)


def markdown_tables(results):
    lines = []
    for name in dict.fromkeys(r["problem"] for r in results["accuracy"]):
        runs = [r for r in results["accuracy"] if r["problem"] == name]
        a = runs[0]
        lines += [f"{a['problem']}, n = {a['n']:,}, lambda = {results['regularization']:g}, effective dimension "
                  f"{a['effective_dimension']:,.0f}, {a['repeat']} seeds:", "",
                  "| selector | m | CPU s | mean ratio | 5th / 95th percentile | ratio of the sums |",
                  "| --- | ---: | ---: | ---: | ---: | ---: |"]
        lines += [f"| {r['selector']} | {r['m']:,.0f} | {r['cpu_seconds']:.1f} | {r['ratio_mean']:.2f} | "
                  f"{r['ratio_q05']:.2f} / {r['ratio_q95']:.2f} | {r['dimension_ratio']:.2f} |" for r in runs]
        lines.append("")
    if results["growth"]:
        lines += [f"{results['growth'][0]['problem']}, CPU seconds (and centers) at lambda = {results['growth_regularization']:g}:", "",
                  "| n | " + " | ".join(GROWING) + " |", "| ---: |" + " ---: |" * len(GROWING)]
        for n in sorted({r["n"] for r in results["growth"]}):
            cells = [have(results["growth"], selector=s, n=n) for s in GROWING]
            lines.append(f"| {n:,} | " + " | ".join(
                "" if r is None else f"{r['cpu_seconds']:.3f} ({r['m']:,.0f})" for r in cells) + " |")
    return "\n".join(lines)


def read_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the data sets as NPZ files of X and y; needed by hflights")
    parser.add_argument("--bench", default="build/bench/krr-bench", help="the program (default: %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="results file (JSON)")
    parser.add_argument("--table", action="store_true", help="print the tables")
    parser.add_argument("--problems", nargs="*", choices=PROBLEMS, default=["hflights", "far_region"],
                        help="of the first part (default: %(default)s)")
    parser.add_argument("--n", type=int, default=20000, help="rows of hflights in the first part; 8 n^2 bytes of memory")
    parser.add_argument("--synthetic-n", type=int, default=10000, help="rows of synthetic sets in the first part")
    parser.add_argument("--scores", help="folder to keep the exact scores in")
    parser.add_argument("--growing", choices=PROBLEMS, default="hflights", help="problem of the second part")
    parser.add_argument("--bandwidth", type=float, default=3.0)
    parser.add_argument("--regularization", type=float, default=1e-5)
    parser.add_argument("--repeat", type=int, default=3, help="seeds of the first part")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 3000, 10000, 30000, 100000, 179099])
    parser.add_argument("--growth-regularization", type=float, default=1e-3)
    parser.add_argument("--growth-repeat", type=int, default=3, help="seeds of the second part; the fastest counts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of the first part; the second has one")
    options = parser.parse_args(arguments)
    if options.data is None and "hflights" in [*options.problems, options.growing]:
        parser.error("hflights needs --data")
    return options


def open_results(options):
    fixed = {"seed": options.seed, "bandwidth": options.bandwidth, "regularization": options.regularization,
             "growth_regularization": options.growth_regularization}
    if options.out.exists():
        results = problems.load(options.out)
        if any(results[key] != value for key, value in fixed.items()):
            sys.exit(f"{options.out} holds runs with other settings; name another file.")
        return results
    return {"command": f"bench/claims/paper003.py {problems.told(sys.argv[1:])}", **problems.machine(options.bench),
            **fixed, "accuracy": [], "growth": []}


def main(arguments=None):
    options = read_options(arguments)
    results = open_results(options)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.problems:
            run_accuracy(options, results, folder, name)
        run_growth(options, results, folder)
    problems.save(options.out, results)
    if options.table:
        print(markdown_tables(results))


if __name__ == "__main__":
    main()
