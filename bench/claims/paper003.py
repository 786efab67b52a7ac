#!/usr/bin/env python3
"""How fast and how accurate leverage scores are by BLESS and by the methods that it is compared with.

After Rudi, Calandriello, Carratino, Rosasco, arXiv:1810.13258. First the table of Figure 1: each selector
picks centers at one lambda; the leverage scores that these and their weights give are divided by the exact
ones, and the mean and the 5th and 95th percentile of that ratio over all rows are averaged over --repeat
seeds. Uniform centers are as many as those of bless. Then Figure 2: the time of each selector while the
number of rows grows and lambda stays. These numbers come from `krr-bench centers`; the kernel is gaussian on
standardised features.

The part `learning` is of sections 3.1 and 4, models of hflights with a fifth of the rows for testing, by
`krr-bench solve` on one thread: scores at a lambda of their own (lambda_bless) beside the solver's
(lambda_falkon); the time of FALKON-BLESS, BLESS included; and Figure 3, the error after five iterations while
lambda_falkon falls.

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
PARTS = ("accuracy", "growth", "learning")

# (lambda_falkon, lambda_bless) of the first table of `learning`, Figure 3's, and its lambda_bless
APART = ((1e-5, 1e-5), (1e-5, 1e-4), (1e-5, 1e-3), (1e-6, 1e-4), (1e-6, 1e-3))
FALLING = tuple(10.0 ** -e for e in range(3, 10))
FALLING_BLESS = 1e-4
TIMED_CENTERS, TIMED_LAMBDA = 2000, 1e-5
FALLING_ROWS = (("falkon", "zero"), ("falkon_bless", "zero"), ("falkon_bless", "centers"))
TIMED = (("falkon", 5, "zero"), ("falkon", 20, "zero"), ("falkon_bless", 5, "centers"), ("falkon_bless", 5, "zero"))
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
    if all(have(results["accuracy"], problem=name, selector=s) for s in SELECTORS):
        return
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


# ---- learning ----

def write_split(options, folder):
    """hflights with a column `test`: the first fifth of a permutation."""
    X, y, _ = problems.real(options.data, "hflights", options.learning_n, options.seed)
    mask = numpy.zeros(len(X), numpy.float32)
    mask[numpy.random.default_rng(options.seed).permutation(len(X))[:len(X) // 5]] = 1
    path = os.path.join(folder, "split.krds")
    problems.write_data_set(path, X, y, None, mask)
    return path


def selection_seconds(trace):
    """Processor time from the beginning of the phase `centers` to that of the next one."""
    began = next(i for i, line in enumerate(trace) if line["phase"] == "centers")
    ended = next(line for line in trace[began:] if line["phase"] != "centers")
    return ended["cpu_seconds"] - trace[began]["cpu_seconds"]


def learn(options, results, folder, path, count, **keys):
    """One model, unless it is there. Keys: solver, iterations, start, lam, scores, seed and the table it is for."""
    if have(results["learning"], **keys):
        return
    scored = keys["solver"] == "falkon_bless"
    centers = {"method": "bless" if scored else "uniform", "count": count}
    order = os.path.join(folder, "order.json")
    problems.write_order(order, path, {
        "solver": {"name": keys["solver"], **({"start": keys["start"]} if scored else {})},
        "centers": {**centers, **({"regularization": keys["scores"]} if scored and keys["scores"] else {})},
        "kernel": {"name": "gaussian", "bandwidth": options.bandwidth}, "regularization": keys["lam"],
        "test": {"mask": "test"}, "stop": {"tolerance": 1e-12, "max_iterations": keys["iterations"]},
        "seed": keys["seed"]})
    report, trace = problems.run(options.bench, order, os.path.join(folder, "trace"), 1)
    scores = report["leverage_scores"]
    results["learning"].append({
        **keys, "centers": report["centers"], "rmse": report["metrics"]["rmse"],
        "effective_dimension": scores and scores["effective_dimension"],
        "selection_cpu_seconds": selection_seconds(trace), "cpu_seconds": trace[-1]["cpu_seconds"],
        "load_average": report["load_average"]})
    problems.save(options.out, results)
    print(results["learning"][-1], flush=True)


def learn_pair(options, results, folder, path, iterations, **keys):
    """FALKON-BLESS with five iterations and as many centers as its scores ask for; falkon with as many uniform ones."""
    bless = {**keys, "solver": "falkon_bless", "iterations": 5, "start": "centers"}
    learn(options, results, folder, path, "auto", **bless)
    count = have(results["learning"], **bless)["centers"]
    for steps in iterations:
        learn(options, results, folder, path, count, **{**bless, "solver": "falkon", "iterations": steps, "start": "zero"})


def run_learning(options, results, folder):
    path = write_split(options, folder)
    for seed in range(options.learning_seeds):
        for solver, iterations, start in TIMED:
            learn(options, results, folder, path, TIMED_CENTERS, table="time", solver=solver, iterations=iterations,
                  start=start, lam=TIMED_LAMBDA, scores=None, seed=seed)
        for lam, scores in APART:
            learn_pair(options, results, folder, path, [20], table="apart", lam=lam, scores=scores, seed=seed)
        for lam in FALLING:
            keys = {"table": "falling", "lam": lam, "scores": FALLING_BLESS, "seed": seed}
            learn_pair(options, results, folder, path, [5], **keys)
            learn(options, results, folder, path, "auto", solver="falkon_bless", iterations=5, start="zero", **keys)


def learned(results, key, **keys):
    """The mean over the seeds, or None."""
    found = [r[key] for r in results["learning"] if all(r[k] == v for k, v in keys.items())]
    return float(numpy.mean(found)) if found else None


def seeds_of(results, table):
    return len({r["seed"] for r in results["learning"] if r["table"] == table})


def apart_table(results):
    lines = [f"hflights, {seeds_of(results, 'apart')} seeds: falkon_bless, 5 iterations, and falkon, 20, with as many uniform centers:", "",
             "| lambda_falkon | lambda_bless | effective dimension | m | BLESS, CPU s | in all, CPU s | rmse | falkon, CPU s | falkon, rmse |",
             "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for lam, scores in APART:
        keys = {"table": "apart", "lam": lam, "scores": scores}
        bless = {key: learned(results, key, solver="falkon_bless", **keys)
                 for key in ("effective_dimension", "centers", "selection_cpu_seconds", "cpu_seconds", "rmse")}
        plain = {key: learned(results, key, solver="falkon", **keys) for key in ("cpu_seconds", "rmse")}
        if None not in (*bless.values(), *plain.values()):
            lines.append(f"| {lam:g} | {scores:g} | {bless['effective_dimension']:,.0f} | {bless['centers']:,.0f} | "
                         f"{bless['selection_cpu_seconds']:.2f} | {bless['cpu_seconds']:.2f} | {bless['rmse']:.3f} | "
                         f"{plain['cpu_seconds']:.2f} | {plain['rmse']:.3f} |")
    return lines


def time_table(results):
    lines = [f"hflights, {TIMED_CENTERS:,} centers, lambda = {TIMED_LAMBDA:g}, {seeds_of(results, 'time')} seeds:", "",
             "| solver | iterations | start | selection, CPU s | in all, CPU s | rmse |",
             "| --- | ---: | --- | ---: | ---: | ---: |"]
    for solver, iterations, start in TIMED:
        keys = {"table": "time", "solver": solver, "iterations": iterations, "start": start}
        row = [learned(results, key, **keys) for key in ("selection_cpu_seconds", "cpu_seconds", "rmse")]
        if None not in row:
            lines.append(f"| {solver} | {iterations} | {start} | {row[0]:.2f} | {row[1]:.2f} | {row[2]:.3f} |")
    return lines


def falling_table(results):
    rows = {row: [learned(results, "rmse", table="falling", solver=row[0], start=row[1], lam=lam) for lam in FALLING]
            for row in FALLING_ROWS}
    if any(None in row for row in rows.values()):
        return []
    m = learned(results, "centers", table="falling", solver="falkon_bless")
    lines = [f"hflights, rmse after 5 iterations, lambda_bless = {FALLING_BLESS:g}, {m:,.0f} centers, "
             f"{seeds_of(results, 'falling')} seeds:", "",
             "| solver | start | " + " | ".join(f"{lam:g}" for lam in FALLING) + " | within 5 % of the best |",
             "| --- | --- |" + " ---: |" * len(FALLING) + " --- |"]
    for (solver, start), row in rows.items():
        good = [lam for lam, rmse in zip(FALLING, row) if rmse <= 1.05 * min(row)]
        lines.append(f"| {solver} | {start} | " + " | ".join(f"{rmse:.2f}" for rmse in row) + f" | {max(good):g} to {min(good):g} |")
    return lines


def learning_tables(results):
    return "\n\n".join("\n".join(table) for table in (apart_table(results), time_table(results), falling_table(results)))


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
    return "\n".join(lines) + (learning_tables(results) if results.get("learning") else "")


def read_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the data sets as NPZ files of X and y; needed by hflights")
    parser.add_argument("--bench", default="build/bench/krr-bench", help="the program (default: %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="results file (JSON)")
    parser.add_argument("--table", action="store_true", help="print the tables")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["accuracy", "growth"],
                        help="what to run (default: %(default)s)")
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
    parser.add_argument("--learning-n", type=int, default=25000, help="rows of hflights, a fifth of them for testing")
    parser.add_argument("--learning-seeds", type=int, default=3, help="draws of the centers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of the first part; the second has one")
    options = parser.parse_args(arguments)
    needed = {"accuracy": options.problems, "growth": [options.growing], "learning": ["hflights"]}
    if options.data is None and any("hflights" in needed[part] for part in options.parts):
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
            **fixed, "accuracy": [], "growth": [], "learning": []}


def main(arguments=None):
    options = read_options(arguments)
    results = open_results(options)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.problems if "accuracy" in options.parts else []:
            run_accuracy(options, results, folder, name)
        if "growth" in options.parts:
            run_growth(options, results, folder)
        if "learning" in options.parts:
            results.setdefault("learning", [])
            run_learning(options, results, folder)
    problems.save(options.out, results)
    if options.table:
        print(markdown_tables(results))


if __name__ == "__main__":
    main()
