#!/usr/bin/env python3
"""What the solvers `kmcg` and `inducing` are good for beyond the claims of Bartels and Hennig (paper004.py): whether their
intervals hold what they say, whether their evidence finds good parameters, and what a mean costs once the directions
are in use.

    --parts coverage       share of held-out rows within 95 % intervals; amplitude "auto", bandwidths by the evidence
            judge          a grid of bandwidths and regularizations: the test error at the largest log evidence
            continuation   iterations and processor seconds to 1e-8 with few and many directions, and pcg's
            detour         the mean in the first iterations after the last direction
            ratios         variances over the exact ones, row by row

"kmcg" is the paper's (no probes, its evidence), "kmcg, probes" what krrd does unless told otherwise.

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
RATIOS = {"kmcg": (1, 10, 100), "kmcg, probes": (1, 10, 100)}
WITHIN = 1.959964
CENTERS = {"method": "uniform"}


def inducing(centers):
    """Name -> what the spec says."""
    return {f"{a}, M = {m}": {"solver": {"name": "inducing", "approximation": a}, "centers": {**CENTERS, "count": m}, "seed": 1}
            for m in centers for a in ("dtc", "fitc", "vfe")}


def covering():
    paper = {"name": "kmcg", **paper004.KMCG["kmcg"][0]}
    found = {f"kmcg, p = {p}": {"solver": {**paper, "directions": p}} for p in (20, 100, 500)}
    # Not until the mean has converged, but until there are that many.
    all_of_them = {"stop": {"tolerance": 1e-30, "max_iterations": 500}}
    found["kmcg, p = 500, all"] = {"solver": {**paper, "directions": 500}, **all_of_them}
    found.update({f"kmcg, probes, p = {p}": {"solver": {"name": "kmcg", "directions": p}} for p in (100, 500, 2000)})
    return {**found, **inducing((100, 500))}


def judging():
    found = {}
    for probes in (0, "auto"):
        for bound in ("dtc", "vfe"):
            solver = {"name": "kmcg", "directions": 500, "probes": probes, "approximation": bound}
            found[f"kmcg, {'bound' if bound == 'vfe' else 'likelihood'}{'' if probes == 0 else ', probes'}"] = {"solver": solver}
    return {**found, **inducing((300,))}


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
            for method, more in covering().items():
                spec = {"kernel": {"name": kernel, "bandwidth": found["bandwidths"]}, "regularization": ridge / p.n, **more}
                done, model = gaussian.train(options.worker, folder, p.path, spec, threads=2)
                mean, variance = model.predict(p.T)
                lines.append({"method": method, "directions": done["result"]["directions"],
                              "iterations": done["result"]["iterations"],
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

            jobs = [(pair, more) for pair in pairs for more in judging().items()]
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
        runs = [(f"{kind}, p = {size}", {"name": "kmcg", "directions": size, **way})
                for kind, (way, _) in paper004.KMCG.items() for size in SIZES]
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
        made = {f"{kind}, P = {p}": c.kmcg(kind, p) for kind, some in RATIOS.items() for p in some}
        made.update({f"{a}, M = 200": c.inducing(a, min(200, problem.n), 1) for a in ("fitc", "vfe")})
        ratios = {method: variance / c.variance for method, (_, _, variance) in made.items()}
        lines = [{"method": method, "least": float(q.min()), "median": float(numpy.median(q)), "largest": float(q.max()),
                  "below": float(numpy.mean(q < 1 - 1e-6))} for method, q in ratios.items()]
        results["ratios"].append({"set": name, "n": problem.n, "lines": lines})
        problems.save(options.out, results)


# ---- the first iterations beyond them ----

def run_detour(options, results, folder):
    """The paper's mean after P + more iterations with room for P directions, and with room for all."""
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
            for way, room in (("capped", KEPT), ("all", KEPT + more)):
                result, model = c.run({"name": "kmcg", "directions": room, **paper004.KMCG["kmcg"][0]},
                                      stop={"tolerance": 1e-30, "max_iterations": KEPT + more})
                line[way] = {"mean_norm": c.errors(model.predict(problem.T)[0])["mean_norm"],
                             "relative_residual": result["relative_residual"]}
            lines.append(line)
        results["detour"].append({"set": name, "n": problem.n, "directions": KEPT, "lines": lines})
        problems.save(options.out, results)


# ---- what comes out ----

def by_set(parts, told):
    """A line a method, a column a data set."""
    methods = dict.fromkeys(x["method"] for r in parts for x in r["lines"])
    lines = ["| method | " + " | ".join(r["set"] for r in parts) + " |", "| --- |" + " ---: |" * len(parts)]
    for method in methods:
        cells = [told(r, [x for x in r["lines"] if x["method"] == method]) for r in parts]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def coverage_table(results):
    """Share of the rows, width over the exact one, error over the exact one; of kmcg products and directions. Without
    vfe, whose mean and variance are those of dtc."""
    def told(r, found):
        exact, (x,) = r["lines"][0], found
        if x is exact:
            return f"{100 * x['coverage']:.1f} %, {x['width']:.2f}, {x['rmse']:.3f}"
        cost = f" ({x['iterations']}, {x['directions']})" if x["method"].startswith("kmcg") else ""
        error = f"{x['rmse'] / exact['rmse']:.2f}"
        return f"{100 * x['coverage']:.1f} %, {x['width'] / exact['width']:.2f}, {error}{cost}"

    kernels = dict.fromkeys(r["kernel"] for r in results["coverage"])
    shown = [{**r, "lines": [x for x in r["lines"] if not x["method"].startswith("vfe")]} for r in results["coverage"]]
    return "\n\n".join(f"{k}:\n\n" + by_set([r for r in shown if r["kernel"] == k], told) for k in kernels)


def judge_table(results):
    """How far the test error at the largest evidence is above the least of the grid, the bandwidth (in medians) and the
    regularization there, and the rank correlation of evidence and error."""
    def told(r, found):
        grid = [x for x in found if x["log_evidence"] is not None]
        chosen, best = max(grid, key=lambda x: x["log_evidence"]), min(grid, key=lambda x: x["rmse"])
        ranks = [numpy.argsort(numpy.argsort([x[key] for x in grid])) for key in ("log_evidence", "rmse")]
        return (f"{100 * (chosen['rmse'] / best['rmse'] - 1):.1f} % ({chosen['bandwidth'] / r['median']:g}, "
                f"{chosen['regularization']:g}), {-numpy.corrcoef(*ranks)[0, 1]:.2f}")

    return by_set(results["judge"], told)


def continuation_table(results):
    """Iterations and processor seconds of three sizes; what did not converge with its residual."""
    def told(r, found):
        (x,) = found
        ended = "" if x["stop_reason"] == "converged" else f", {x['stop_reason']} at {x['relative_residual']:.1e}"
        return f"{x['iterations']:,}, {x['cpu_seconds']:.2f} s{ended}"

    furthest = max((x["mean_norm"] for r in results["continuation"] for x in r["lines"]), default=0)
    ends = ("none", *(f" {size}" for size in (10, 100, 500)))
    shown = [{**r, "lines": [x for x in r["lines"] if x["method"].endswith(ends)]} for r in results["continuation"]]
    return by_set(shown, told) + f"\n\nmeans from the exact ones, the furthest: {furthest:.1e}"


def detour_table(results):
    """The mean's error with 40 directions kept / with all kept."""
    lines = ["| data | " + " | ".join(f"+ {more}" for more in AFTER) + " |", "| --- |" + " ---: |" * len(AFTER)]
    for r in results["detour"]:
        cells = [" / ".join(f"{x[way]['mean_norm']:.1e}" for way in ("capped", "all")) for x in r["lines"]]
        lines.append(f"| {r['set']} | " + " | ".join(cells) + " |")
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
