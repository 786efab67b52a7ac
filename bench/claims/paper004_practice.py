#!/usr/bin/env python3
"""What the solvers `kmcg` and `inducing` are good for beyond the claims of Bartels and Hennig (paper004.py): whether their
intervals hold what they say, whether their evidence finds good parameters, and what a mean costs once the directions
are in use.

    --parts coverage       share of held-out rows within 95 % intervals; amplitude "auto", bandwidths by the evidence
            judge          a grid of bandwidths and regularizations: the test error at the largest log evidence
            continuation   iterations and processor seconds to 1e-8 with few and many directions, and pcg's
            detour         the mean in the first iterations after the last direction
            ratios         variances over the exact ones, row by row

Data in their own units, standardised by krrd. Needs SciPy. Otherwise as paper004.py.
"""
import argparse
import concurrent.futures
import os
import resource
import sys
import tempfile

import numpy

import gaussian
import paper004
import problems

SETS = ("airfoil", "bike", "diamonds", "hflights")
ROWS = {"airfoil": (1003, 500), "bike": (3000, 3000), "diamonds": (3000, 3000), "hflights": (3000, 3000)}
JUDGED = {"airfoil": (1003, 500), "bike": (1500, 3000), "diamonds": (1500, 3000), "hflights": (1500, 3000)}
CONTINUED, SIZES = 2000, (10, 50, 100, 200, 500)
FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)  # of the median distance
REGULARIZATIONS = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
DETOURS, KEPT, AFTER = ("airfoil", "bike", "diamonds"), 40, (0, 1, 2, 5, 10, 20, 40, 80, 160)
WITHIN = 1.959964
CENTERS = {"method": "uniform"}


def methods(centers, directions):
    """Name -> what the spec says."""
    found = {f"kmcg, P = {p}": {"solver": {"name": "kmcg", "directions": p}} for p in directions}
    # Not until the mean has converged, but until there are that many.
    found[f"kmcg, P = {directions[-1]}, all"] = {"solver": {"name": "kmcg", "directions": directions[-1] + 1},
                                                 "stop": {"tolerance": 1e-30, "max_iterations": directions[-1]}}
    for m in centers:
        for a in ("dtc", "fitc", "vfe"):
            found[f"{a}, M = {m}"] = {"solver": {"name": "inducing", "approximation": a},
                                      "centers": {**CENTERS, "count": m}, "seed": 1}
    return found


def problem_of(options, name, rows, tests):
    return paper004.Problem(options.data, name, min(rows, options.rows), tests, standardised=False)


class Standardised:
    """What krrd makes of the rows, for the exact process."""

    def __init__(self, p):
        self.scale = p.y.std()
        self.X = (p.X - p.X.mean(axis=0)) / p.X.std(axis=0)
        self.T = (p.T - p.X.mean(axis=0)) / p.X.std(axis=0)
        self.y, self.mean = (p.y - p.y.mean()) / self.scale, p.y.mean()

    def exact(self, kernel, bandwidths, ridge):
        e = gaussian.Exact(kernel, self.X, self.y, bandwidths, ridge)
        mean, variance = e.predict(self.T)
        return e, self.mean + self.scale * mean, self.scale ** 2 * variance, self.scale ** 2 * e.noise


def judged(p, mean, variance, noise):
    """Of held-out targets: error, share within the intervals, their mean width in deviations of the targets, and the
    mean of -ln p(y)."""
    away, width = p.t - mean, numpy.sqrt(variance + noise)
    return {"rmse": float(numpy.sqrt(numpy.mean(away ** 2)) / p.y.std()), "coverage": float(numpy.mean(numpy.abs(away) <= WITHIN * width)),
            "width": float(2 * WITHIN * width.mean() / p.y.std()), "noise": float(noise ** 0.5 / p.y.std()),
            "nlpd": float(numpy.mean(0.5 * numpy.log(2 * numpy.pi * width ** 2) + 0.5 * (away / width) ** 2) - numpy.log(p.y.std()))}


# ---- coverage ----

def run_coverage(options, results, folder):
    for name in options.sets:
        for kernel in options.kernels:
            if any((r["set"], r["kernel"]) == (name, kernel) for r in results["coverage"]):
                continue
            found = paper004.find_parameters(results, options, name, kernel)
            ridge = found["noise"] / found["amplitude"]
            p = problem_of(options, name, *ROWS[name])
            p.write(folder)
            e, *exact = Standardised(p).exact(kernel, numpy.array(found["bandwidths"]), ridge)
            lines = [{"method": "exact", "directions": p.n, **judged(p, *exact)}]
            for method, more in methods((100, 500), (20, 100, 500)).items():
                spec = {"kernel": {"name": kernel, "bandwidth": found["bandwidths"]}, "regularization": ridge / p.n, **more}
                done, model = gaussian.train(options.worker, folder, p.path, spec, threads=2)
                mean, variance = model.predict(p.T)
                lines.append({"method": method, "directions": done["result"]["directions"],
                              "prior": float(model.prior_variance[0] / p.y.var() / e.amplitude),
                              **judged(p, mean, variance, model.noise_variance[0])})
            results["coverage"].append({"set": name, "kernel": kernel, "n": p.n, "tests": len(p.t), "lines": lines})
            problems.save(options.out, results)


# ---- the evidence as a judge ----

def run_judge(options, results, folder):
    kernel = "gaussian"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name in options.sets:
            if any(r["set"] == name for r in results["judge"]):
                continue
            p = problem_of(options, name, *JUDGED[name])
            p.write(folder)
            s = Standardised(p)
            some = s.X[:1000]
            distances = numpy.sqrt(gaussian.squares(some, some, 1.0))
            median = float(numpy.median(distances[numpy.triu_indices(len(some), 1)]))
            pairs = [(f * median, r) for f in FACTORS for r in REGULARIZATIONS]
            lines = []
            for bandwidth, regularization in pairs:
                try:
                    e, mean, _, _ = s.exact(kernel, bandwidth, regularization * p.n)
                except numpy.linalg.LinAlgError:
                    continue
                lines.append({"method": "exact", "bandwidth": bandwidth, "regularization": regularization,
                              "log_evidence": e.log_evidence, "rmse": float(numpy.sqrt(numpy.mean((mean - p.t) ** 2)) / p.y.std())})

            def one(job):
                (bandwidth, regularization), (method, more) = job
                spec = {"kernel": {"name": kernel, "bandwidth": bandwidth}, "regularization": regularization, **more}
                done, model = gaussian.train(options.worker, folder, p.path, spec, tag=f"{method}-{bandwidth}-{regularization}")
                mean, _ = model.predict(p.T)
                return {"method": method, "bandwidth": bandwidth, "regularization": regularization,
                        "directions": done["result"]["directions"], "log_evidence": done["result"]["log_evidence"],
                        "rmse": float(numpy.sqrt(numpy.mean((mean - p.t) ** 2)) / p.y.std())}

            jobs = [(pair, more) for pair in pairs for more in methods((300,), (50, 500)).items()]
            results["judge"].append({"set": name, "n": p.n, "median": median, "lines": lines + list(pool.map(one, jobs))})
            problems.save(options.out, results)


# ---- beyond the directions ----

def run_continuation(options, results, folder):
    for name in [name for name in options.sets if name != "airfoil"]:
        if any(r["set"] == name for r in results["continuation"]):
            continue
        found = paper004.find_parameters(results, options, name, "gaussian")
        p = problem_of(options, name, CONTINUED, 500)
        p.write(folder)
        lines = []
        ridge = found["noise"] / found["amplitude"]
        _, exact, _, _ = Standardised(p).exact("gaussian", numpy.array(found["bandwidths"]), ridge)
        runs = [(f"kmcg, P = {size}", {"name": "kmcg", "directions": size}) for size in SIZES]
        runs += [(f"pcg, rpcholesky of rank {size}", {"name": "pcg", "preconditioner": {"name": "rpcholesky", "rank": size}})
                 for size in SIZES]
        runs.append(("pcg, none", {"name": "pcg", "preconditioner": "none"}))
        for method, solver in runs:
            spec = {"kernel": {"name": "gaussian", "bandwidth": found["bandwidths"]}, "regularization": ridge / p.n,
                    "solver": solver, "stop": {"tolerance": 1e-8, "max_iterations": 5000}, "kernel_cache_bytes": 0}
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done, model = gaussian.train(options.worker, folder, p.path, spec)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            mean, _ = model.predict(p.T)
            r = done["result"]
            lines.append({"method": method, "directions": r["directions"], "iterations": r["iterations"],
                          "stop_reason": r["stop_reason"], "relative_residual": r["relative_residual"],
                          "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
                          "mean_norm": float(numpy.linalg.norm(mean - exact) / numpy.linalg.norm(exact - p.y.mean()))})
        results["continuation"].append({"set": name, "n": p.n, "ridge": ridge, "lines": lines})
        problems.save(options.out, results)


# ---- too wide or too narrow ----

def run_ratios(options, results, folder):
    """Variances of f over the exact ones, over the test rows."""
    for name in options.sets:
        if any(r["set"] == name for r in results["ratios"]):
            continue
        found = paper004.find_parameters(results, options, name, "gaussian")
        rows, tests = paper004.SETS[name]
        problem = paper004.Problem(options.data, name, min(rows, options.rows), tests)
        c = paper004.Comparison(options, folder, problem, found)
        made = {f"kmcg, P = {p}": c.kmcg(p) for p in (1, 10, 30, 100)}
        made.update({f"{a}, M = 200": c.inducing(a, min(200, problem.n), 1) for a in ("fitc", "vfe")})
        ratios = {method: variance / c.variance for method, (_, _, variance) in made.items()}
        lines = [{"method": method, "least": float(q.min()), "median": float(numpy.median(q)), "largest": float(q.max()),
                  "below": float(numpy.mean(q < 1 - 1e-6))} for method, q in ratios.items()]
        results["ratios"].append({"set": name, "n": problem.n, "lines": lines})
        problems.save(options.out, results)


# ---- the first iterations beyond them ----

def run_detour(options, results, folder):
    """The mean's error after P + more iterations with room for P directions, and with room for all."""
    for name in [name for name in options.sets if name in DETOURS]:
        if any(r["set"] == name for r in results["detour"]):
            continue
        found = paper004.find_parameters(results, options, name, "gaussian")
        rows, tests = paper004.SETS[name]
        problem = paper004.Problem(options.data, name, min(rows, options.rows), tests)
        c = paper004.Comparison(options, folder, problem, found)
        lines = []
        for more in AFTER:
            line = {"more": more}
            for way, room in (("capped", KEPT + (more == 0)), ("all", KEPT + more + 1)):
                result, model = c.run({"name": "kmcg", "directions": room},
                                      stop={"tolerance": 1e-30, "max_iterations": KEPT + more})
                line[way] = {"mean_norm": c.errors(model.predict(problem.T)[0])["mean_norm"],
                             "relative_residual": result["relative_residual"]}
            lines.append(line)
        results["detour"].append({"set": name, "n": problem.n, "directions": KEPT, "lines": lines})
        problems.save(options.out, results)


# ---- what comes out ----

def without_twins(lines):
    """A line for dtc and vfe where they say the same, as they should: the evidence alone tells them apart."""
    twins = {x["method"][3:]: x for x in lines if x["method"].startswith("vfe")}
    for x in lines:
        other = twins.get(x["method"][3:])
        if x["method"].startswith("dtc") and {**x, "method": ""} == {**other, "method": ""}:
            yield {**x, "method": f"dtc and {other['method']}"}
            twins.pop(x["method"][3:])
        elif not x["method"].startswith("vfe") or x["method"][3:] in twins:
            yield x


def coverage_table(results):
    lines = ["| data | kernel | method | directions | RMSE | coverage of 95 % | mean width | noise | -ln p(y) |",
             "| --- | --- | --- |" + " ---: |" * 6]
    for r in results["coverage"]:
        for x in without_twins(r["lines"]):
            lines.append(f"| {r['set']} | {r['kernel']} | {x['method']} | {x['directions']:,} | {x['rmse']:.3f} | "
                         f"{100 * x['coverage']:.1f} % | {x['width']:.2f} | {x['noise']:.3f} | {x['nlpd']:.2f} |")
    return "\n".join(lines)


def judge_table(results):
    lines = ["| data | method | largest evidence at bandwidth / median, λ | test RMSE there | the least of the grid, at | above it "
             "| rank correlation |", "| --- | --- |" + " ---: |" * 5]
    for r in results["judge"]:
        for method in dict.fromkeys(x["method"] for x in r["lines"]):
            grid = [x for x in r["lines"] if x["method"] == method and x["log_evidence"] is not None]
            chosen, best = max(grid, key=lambda x: x["log_evidence"]), min(grid, key=lambda x: x["rmse"])
            ranks = [numpy.argsort(numpy.argsort([x[key] for x in grid])) for key in ("log_evidence", "rmse")]
            places = [f"{x['bandwidth'] / r['median']:g}, {x['regularization']:g}" for x in (chosen, best)]
            lines.append(f"| {r['set']} | {method} | {places[0]} | {chosen['rmse']:.4f} | {best['rmse']:.4f}, {places[1]} | "
                         f"{100 * (chosen['rmse'] / best['rmse'] - 1):.1f} % | {-numpy.corrcoef(*ranks)[0, 1]:.2f} |")
    return "\n".join(lines)


def continuation_table(results):
    lines = ["| data | method | iterations | CPU s | certified residual | mean from the exact one | ended |",
             "| --- | --- |" + " ---: |" * 4 + " --- |"]
    for r in results["continuation"]:
        for x in r["lines"]:
            lines.append(f"| {r['set']} | {x['method']} | {x['iterations']:,} | {x['cpu_seconds']:.1f} | "
                         f"{x['relative_residual']:.1e} | {x['mean_norm']:.1e} | {x['stop_reason']} |")
    return "\n".join(lines)


def detour_table(results):
    lines = ["| data | iterations beyond 40 | residual, 40 directions kept | mean | residual, all kept | mean |",
             "| --- |" + " ---: |" * 5]
    for r in results["detour"]:
        for x in r["lines"]:
            cells = [f"{x[way][key]:.1e}" for way in ("capped", "all") for key in ("relative_residual", "mean_norm")]
            lines.append(f"| {r['set']} | {x['more']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ratios_table(results):
    methods = [x["method"] for x in results["ratios"][0]["lines"]] if results["ratios"] else []
    lines = ["| data | " + " | ".join(methods) + " |", "| --- |" + " ---: |" * len(methods)]
    for r in results["ratios"]:
        cells = [f"{x['least']:.3g} / {x['median']:.3g} / {x['largest']:.3g}" for x in r["lines"]]
        lines.append(f"| {r['set']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


PARTS = {"coverage": run_coverage, "judge": run_judge, "continuation": run_continuation, "detour": run_detour,
         "ratios": run_ratios}
TABLES = {"coverage": coverage_table, "judge": judge_table, "continuation": continuation_table, "detour": detour_table,
          "ratios": ratios_table}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the data sets as NPZ files of X and y; without it nothing runs")
    parser.add_argument("--worker", default="build/src/worker/krrd-worker", help="the program (default: %(default)s)")
    parser.add_argument("--bench", default="build/bench/krr-bench", help="likewise, to tell of the machine")
    parser.add_argument("--out", required=True, help="results file (JSON)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--kernels", nargs="+", choices=gaussian.KERNELS, default=list(gaussian.KERNELS))
    parser.add_argument("--rows", type=int, default=4000, help="for training, at most")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    results = {"commands": [], "parameters": [], **{part: [] for part in PARTS}}
    results = {**results, **problems.load(options.out)} if os.path.exists(options.out) else results
    if options.data is not None:
        results["commands"].append(f"bench/claims/paper004_practice.py {problems.told(sys.argv[1:])}")
        results["machine"] = problems.machine(options.bench)
        with tempfile.TemporaryDirectory() as folder:
            for part in options.parts:
                PARTS[part](options, results, folder)
        problems.save(options.out, results)
    if options.table:
        print("\n\n".join(f"{part}:\n\n{TABLES[part](results)}" for part in PARTS))


if __name__ == "__main__":
    main()
