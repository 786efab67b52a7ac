#!/usr/bin/env python3
"""Kernel machine conjugate gradients against plain conjugate gradients and inducing points.

After Bartels, Hennig, "Conjugate gradients for kernel machines", JMLR 21 (2020), section 4.1, figures 4 to 6, 9 and 11
to 13: how far mean, variance and log evidence are from those of the exact gaussian process, over the number of
products P, with gaussian and Matern-5/2 kernels of a bandwidth a feature that the evidence chose. The solvers `kmcg`
(the paper's, of a direction a product; and as krrd runs it, with probes: 16 directions a product, and an evidence that is
a bound) and `inducing` (FITC, VFE; M = sqrt(N P) random centers, ten draws) are krrd's, by `krrd-worker --job`; plain
conjugate gradients and the exact process are NumPy's.

    --parts curves   errors over P
            limits   all directions, and all rows as centers: the exact process
            time     errors over processor seconds, one thread
            centers  errors over P directions among M = n / 4 centers, up to P = M (`kmcg_restricted`)

Needs SciPy for what it does, and matplotlib for --figures. The results file is written after every step; with one that
is there already the program goes on where it stopped. --table prints what docs/claims/paper-004.md shows.
"""
import argparse
import concurrent.futures
import os
import pathlib
import resource
import sys
import tempfile

import numpy
import scipy.linalg

import gaussian
import problems

# Rows for training and testing.
SETS = {"toy": (200, 200), "airfoil": (1203, 300), "bike": (2000, 500), "diamonds": (2000, 500), "hflights": (2000, 500)}
TIMED = {"bike": (5000, 500), "diamonds": (5000, 500), "hflights": (5000, 500)}
STEPS = (1, 2, 4, 7, 10, 15, 20, 30, 40, 60, 80, 100)
FIT_ROWS = 800
PORTIONS, TOLERANCE = (5, 10, 20, 50, 100, 200), 1e-6
ERRORS = ("mean", "mean_norm", "variance", "evidence")
# Of `kmcg`: what the spec says, and directions a product.
KMCG = {"kmcg": ({"probes": 0, "approximation": "dtc"}, 1), "kmcg, probes": ({}, 16)}
NAMES = {"mean": "mean", "variance": "variance", "evidence": "log evidence"}


def toy(n, seed):
    """The paper's: a draw from the process with bandwidth 0.25 and amplitude 2, inputs in equal parts from a mixture of
    three gaussians (deviations 1, 0.1, 0.05) and from [0, 1]. The noise, of which it says nothing, has variance 0.01."""
    rng = numpy.random.default_rng([seed, 4])
    which = rng.integers(3, size=n // 2)
    X = numpy.array([0, 1, -0.5])[which] + numpy.array([1, 0.1, 0.05])[which] * rng.normal(size=n // 2)
    X = rng.permutation(numpy.concatenate([X, rng.uniform(size=n - n // 2)]))[:, None]
    K = 2 * gaussian.kernel_matrix("gaussian", X, X, numpy.array([0.25]))
    values, vectors = scipy.linalg.eigh(K)
    # By the symmetric root, so that the signs of the eigenvectors, which differ among libraries, do not matter.
    f = vectors @ (numpy.sqrt(numpy.maximum(values, 0)) * (vectors.T @ rng.normal(size=n)))
    return X, f + 0.1 * rng.normal(size=n)


class Problem:
    """Rows of a data set for training and testing, in float64; standardised by the training rows unless told not to."""

    def __init__(self, data, name, rows, tests, seed=0, standardised=True):
        if name == "toy":
            X, y = toy(rows + tests, seed)
        else:
            X, y, _ = problems.real(data, "uci_airfoil" if name == "airfoil" else name, 1 << 40, seed)
        order = numpy.random.default_rng(seed).permutation(len(X))
        X, y = X[order].astype(float), y[order].astype(float)
        X, self.T = X[:rows], X[rows:rows + tests]
        self.y, self.t = y[:rows], y[rows:rows + tests]
        kept = X.std(axis=0) > 0
        self.X, self.T = X[:, kept], self.T[:, kept]
        self.name, self.n = name, len(X)
        if standardised:
            mean, scale = self.X.mean(axis=0), self.X.std(axis=0)
            self.X, self.T = (self.X - mean) / scale, (self.T - mean) / scale
            mean, scale = self.y.mean(), self.y.std()
            self.y, self.t = (self.y - mean) / scale, (self.t - mean) / scale

    def write(self, folder):
        self.path = os.path.join(folder, f"{self.name}.krds")
        problems.write_data_set(self.path, self.X, self.y)


def find_parameters(results, options, name, kernel):
    """By the evidence of the first FIT_ROWS training rows; found once."""
    for found in results["parameters"]:
        if (found["set"], found["kernel"]) == (name, kernel):
            return found
    p = Problem(options.data, name, *SETS[name])
    bandwidths, amplitude, noise = gaussian.fit(kernel, p.X[:FIT_ROWS], p.y[:FIT_ROWS])
    found = {"set": name, "kernel": kernel, "bandwidths": [float(f"{b:.6g}") for b in bandwidths],
             "amplitude": float(f"{amplitude:.6g}"), "noise": float(f"{noise:.6g}")}
    results["parameters"].append(found)
    problems.save(options.out, results)
    return found


class Comparison:
    """A problem, its exact posterior, and jobs of krrd with the same kernel, amplitude and noise."""

    def __init__(self, options, folder, problem, found):
        self.options, self.folder, self.problem, self.found = options, folder, problem, found
        self.bandwidths, self.amplitude = numpy.array(found["bandwidths"]), found["amplitude"]
        self.ridge = found["noise"] / self.amplitude
        problem.write(folder)
        self.exact = gaussian.Exact(found["kernel"], problem.X, problem.y, self.bandwidths, self.ridge, self.amplitude)
        self.mean, self.variance = self.exact.predict(problem.T)

    def errors(self, mean, variance=None, evidence=None):
        """Averages of |f - f^| / |f| over the test rows, as the paper has them; of the mean the relative norm besides;
        of the evidence with its sign: what is above the exact one is positive."""
        found = {"mean": float(numpy.mean(numpy.abs(mean - self.mean) / numpy.abs(self.mean))),
                 "mean_norm": float(numpy.linalg.norm(mean - self.mean) / numpy.linalg.norm(self.mean))}
        if variance is not None:
            found["variance"] = float(numpy.mean(numpy.abs(variance - self.variance) / self.variance))
            found["evidence"] = (evidence - self.exact.log_evidence) / abs(self.exact.log_evidence)
        return {key: float(f"{value:.5g}") for key, value in found.items()}

    def run(self, solver, tag="job", **more):
        spec = {"kernel": {"name": self.found["kernel"], "bandwidth": self.found["bandwidths"]},
                "standardize": {"features": False, "target": False}, "regularization": self.ridge / self.problem.n,
                "solver": {"amplitude": self.amplitude, **solver}, **more}
        done, model = gaussian.train(self.options.worker, self.folder, self.problem.path, spec, tag=tag)
        return done["result"], model

    def kmcg(self, method, steps, tag="job", more=0):
        """`steps` products with all the directions that they make; and `more` of iterations beyond them."""
        way, width = KMCG[method]
        result, model = self.run({"name": "kmcg", "directions": min(width * steps, self.problem.n), **way}, tag,
                                 stop={"tolerance": 1e-30, "max_iterations": steps + more})
        mean, variance = model.predict(self.problem.T)
        return result, mean, variance

    def inducing(self, approximation, count, seed, tag="job"):
        result, model = self.run({"name": "inducing", "approximation": approximation}, tag,
                                 centers={"method": "uniform", "count": count}, seed=seed)
        mean, variance = model.predict(self.problem.T)
        return result, mean, variance


# ---- errors over directions ----

def plain(c, K, k, Q):
    """Conjugate gradients on K + ridge I, with complete reorthogonalisation: the Galerkin solution in its space."""
    A = Q.T @ (K @ Q) + c.ridge * numpy.eye(Q.shape[1])
    return k @ (Q @ scipy.linalg.solve(A, Q.T @ c.problem.y, assume_a="pos"))


def curve(c, pool):
    p, lines = c.problem, []
    K = gaussian.kernel_matrix(c.found["kernel"], p.X, p.X, c.bandwidths)
    k = gaussian.kernel_matrix(c.found["kernel"], p.T, p.X, c.bandwidths)
    Q = gaussian.krylov(K, p.y, max(STEPS))
    steps = [s for s in STEPS if s <= p.n]

    def one(job):
        kind, s, seed = job
        tag = f"{kind}-{s}-{seed}"
        if kind in KMCG:
            result, mean, variance = c.kmcg(kind, s, tag)
            line = {"method": kind, "steps": s, "directions": result["directions"]}
            if kind == "kmcg" and s == 20:
                ours = (mean, variance, result["log_evidence"])
                line["apart_from_numpy"] = apart(c, K, k, Q[:, :s], ours)
        else:
            count = round((p.n * s) ** 0.5)
            result, mean, variance = c.inducing(kind, count, seed, tag)
            line = {"method": kind, "steps": s, "centers": count, "seed": seed}
        return {**line, **c.errors(mean, variance, result["log_evidence"])}

    lines += [{"method": "cg", "steps": s, **c.errors(plain(c, K, k, Q[:, :s]))} for s in steps]
    jobs = [(kind, s, 0) for s in steps for kind in KMCG]
    jobs += [(a, s, seed) for s in steps for a in ("fitc", "vfe") for seed in range(c.options.repeat)]
    return gathered(lines + list(pool.map(one, jobs)))


def gathered(lines):
    """Draws of the same centers' number as one line: the mean, the least and the largest of their errors' amounts."""
    draws = {}
    for line in lines:
        if "seed" in line:
            draws.setdefault((line["method"], line["steps"], line["centers"]), []).append(line)
    kept = [line for line in lines if "seed" not in line]
    for (method, steps, centers), found in draws.items():
        line = {"method": method, "steps": steps, "centers": centers, "draws": len(found)}
        for error in ERRORS:
            amounts = [abs(x[error]) for x in found]
            line[error] = [float(f"{v:.4g}") for v in (numpy.mean(amounts), min(amounts), max(amounts))]
        kept.append(line)
    return kept


def apart(c, K, k, S, ours):
    """How far krrd is from the paper's formulas in float64, relative, the largest of mean, variance and evidence; None
    where S'K S cannot be factored."""
    try:
        mean, variance, evidence, _ = gaussian.finite_rank((K, k), S, K, c.problem.y, c.ridge, c.amplitude)
    except scipy.linalg.LinAlgError:
        return None
    return float(max(numpy.abs(ours[0] - mean).max() / numpy.abs(mean).max(),
                     numpy.abs(ours[1] - variance).max() / variance.max(), abs(ours[2] / evidence - 1)))


def run_curves(options, results, folder):
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name in options.sets:
            for kernel in options.kernels:
                if any((r["set"], r["kernel"]) == (name, kernel) for r in results["curves"]):
                    continue
                found = find_parameters(results, options, name, kernel)
                c = Comparison(options, folder, Problem(options.data, name, *SETS[name]), found)
                rmse = float(numpy.sqrt(numpy.mean((c.mean - c.problem.t) ** 2)))
                results["curves"].append({"set": name, "kernel": kernel, "n": c.problem.n, "d": c.problem.X.shape[1],
                                          "log_evidence": c.exact.log_evidence, "rmse": rmse, "lines": curve(c, pool)})
                problems.save(options.out, results)


# ---- all directions, all centers ----

def run_limits(options, results, folder):
    for name in [name for name in options.sets if SETS[name][0] <= 1500]:
        for kernel in options.kernels:
            if any((r["set"], r["kernel"]) == (name, kernel) for r in results["limits"]):
                continue
            found = find_parameters(results, options, name, kernel)
            c = Comparison(options, folder, Problem(options.data, name, *SETS[name]), found)
            made = {kind: c.kmcg(kind, c.problem.n, more=1000) for kind in KMCG}
            made.update({a: c.inducing(a, c.problem.n, 0) for a in ("dtc", "fitc", "vfe")})
            for method, (result, mean, variance) in made.items():
                results["limits"].append({"set": name, "kernel": kernel, "method": method, "n": c.problem.n,
                                          "directions": result["directions"], "stop_reason": result["stop_reason"],
                                          **c.errors(mean, variance, result["log_evidence"])})
            problems.save(options.out, results)


# ---- errors over seconds ----

def run_time(options, results, folder):
    for name in [name for name in options.sets if name in TIMED]:
        for kernel in options.kernels[:1]:
            if any((r["set"], r["kernel"]) == (name, kernel) for r in results["time"]):
                continue
            found = find_parameters(results, options, name, kernel)
            c = Comparison(options, folder, Problem(options.data, name, *TIMED[name]), found)
            lines = []
            sizes = {kind: [p for p in options.products if p * width <= 2000] for kind, (_, width) in KMCG.items()}
            sizes.update({a: options.centers for a in ("fitc", "vfe")})
            for method in sizes:
                for size in sizes[method]:
                    before = resource.getrusage(resource.RUSAGE_CHILDREN)
                    result, mean, variance = c.kmcg(method, size) if method in KMCG else c.inducing(method, size, 0)
                    after = resource.getrusage(resource.RUSAGE_CHILDREN)
                    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                    lines.append({"method": method, "size": size, "directions": result["directions"],
                                  "cpu_seconds": round(seconds, 3),
                                  "seconds": round(result["seconds"], 3),
                                  **c.errors(mean, variance, result["log_evidence"])})
            results["time"].append({"set": name, "kernel": kernel, "n": c.problem.n, "lines": lines})
            problems.save(options.out, results)


# ---- directions among centers ----

def among(c, method, p, count, tolerance=1e-30):
    result, model = c.run({"name": "kmcg_restricted", "directions": p, **KMCG[method][0]},
                          stop={"tolerance": tolerance}, centers={"method": "uniform", "count": count}, seed=0)
    return result, *model.predict(c.problem.T)


def run_centers(options, results, folder):
    for name in options.sets:
        for kernel in options.kernels[:1]:
            if any((r["set"], r["kernel"]) == (name, kernel) for r in results["centers"]):
                continue
            found = find_parameters(results, options, name, kernel)
            c = Comparison(options, folder, Problem(options.data, name, *SETS[name]), found)
            count, lines = c.problem.n // 4, []
            for approximation in ("dtc", "vfe"):
                result, mean, variance = c.inducing(approximation, count, 0)
                lines.append({"method": approximation, "directions": count, **c.errors(mean, variance, result["log_evidence"])})
            for method in KMCG:
                for p in [*[p for p in PORTIONS if p < count], count]:
                    result, mean, variance = among(c, method, p, count)
                    lines.append({"method": method, "asked": p, "directions": result["directions"],
                                  **c.errors(mean, variance, result["log_evidence"])})
            result, mean, variance = among(c, "kmcg, probes", count, count, TOLERANCE)
            lines.append({"method": "tolerance", "directions": result["directions"], "residual": result["relative_residual"],
                          **c.errors(mean, variance, result["log_evidence"])})
            results["centers"].append({"set": name, "kernel": kernel, "n": c.problem.n, "centers": count, "lines": lines})
            problems.save(options.out, results)


# ---- what comes out ----

def at(lines, method, steps, error):
    """The mean, the least and the largest over draws, of the amount; NaN where there is none."""
    for r in lines:
        if r["method"] == method and r["steps"] == steps and error in r:
            return r[error] if "draws" in r else (abs(r[error]),) * 3
    return (numpy.nan,) * 3


def steps_of(r):
    return [s for s in STEPS if s <= r["n"]]


def error_table(results, error, kernel="gaussian"):
    shown = (10, 30, 100)
    methods = (*KMCG,) + (("cg",) if error.startswith("mean") else ()) + ("fitc / vfe",)
    head = [f"{m}, P = {s}" if m == "kmcg" else m for s in shown for m in methods]
    lines = ["| data | " + " | ".join(head) + " |", "| --- |" + " ---: |" * len(head)]
    for r in [r for r in results["curves"] if r["kernel"] == kernel]:
        cells = [" / ".join(f"{at(r['lines'], m, s, error)[0]:.2g}" for m in both.split(" / ")) for s in shown
                 for both in methods]
        lines.append(f"| {r['set']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def crossing(r, method, error, other):
    """The P from which on the method is better than the other's mean at all that were run; None: never."""
    first = None
    for s in reversed(steps_of(r)):
        if not at(r["lines"], method, s, error)[0] < at(r["lines"], other, s, error)[0]:
            break
        first = s
    return first


def claims_table(results):
    """Who is ahead where, a line a curve; kmcg without probes and with them."""
    lines = ["| data | kernel | n | ahead of CG, of P's | mean: ahead of FITC / VFE from P | variance: likewise "
             "| evidence: likewise | evidence, highest above the exact one | at P = 100 |",
             "| --- | --- |" + " ---: |" * 7]
    for r in results["curves"]:
        steps = steps_of(r)
        ahead = [sum(at(r["lines"], m, s, "mean")[0] < at(r["lines"], "cg", s, "mean")[0] for s in steps) for m in KMCG]
        cells = ["; ".join(" / ".join(str(crossing(r, m, e, o) or "-") for o in ("fitc", "vfe")) for m in KMCG) for e in NAMES]
        signed = [{x["steps"]: x["evidence"] for x in r["lines"] if x["method"] == m} for m in KMCG]
        cells += ["; ".join(f"{max(x.values()):+.2g}" for x in signed), "; ".join(f"{x[max(steps)]:+.2g}" for x in signed)]
        lines.append(f"| {r['set']} | {r['kernel']} | {r['n']:,} | {ahead[0]}; {ahead[1]} of {len(steps)} | "
                     + " | ".join(cells) + " |")
    return "\n".join(lines)


def gains_line(results):
    """What probes do to the errors at equal products where rounding is far: the paper's over krrd's."""
    found = []
    if all(r["set"] == "toy" for r in results["curves"]):
        return ""
    for error in NAMES:
        pairs = [[at(r["lines"], m, s, error)[0] for m in KMCG] for r in results["curves"] if r["set"] != "toy"
                 for s in steps_of(r)]
        q = [a / b for a, b in pairs if max(a, b) > 1e-6]
        found.append(f"{error} {numpy.median(q):.2g} ({min(q):.2g} to {max(q):.2g}, less than 1 in {sum(x < 1 for x in q)} "
                     f"of {len(q)})")
    return "errors without probes over those with, real data, median and range: " + "; ".join(found)


def limits_table(results):
    lines = ["| data | kernel | method | directions, of n | mean | variance | evidence |", "| --- | --- | --- |" + " ---: |" * 4]
    for r in results["limits"]:
        lines.append(f"| {r['set']} | {r['kernel']} | {r['method']} | {r['directions']:,} of {r['n']:,} | {r['mean_norm']:.1e} | "
                     f"{r['variance']:.1e} | {abs(r['evidence']):.1e} |")
    return "\n".join(lines)


def time_table(results):
    """The least processor seconds of a run that came within an error, and its size."""
    goals = [("mean_norm", 0.1), ("mean_norm", 0.01), ("variance", 0.5), ("variance", 0.1)]
    head = [f"{'mean' if e == 'mean_norm' else e} within {goal:g}" for e, goal in goals]
    lines = ["| data | method | " + " | ".join(head) + " | closest: mean, variance (s) |",
             "| --- | --- |" + " ---: |" * (len(goals) + 1)]
    for r in results["time"]:
        for method in (*KMCG, "fitc", "vfe"):
            runs = [x for x in r["lines"] if x["method"] == method]
            cells = []
            for error, goal in goals:
                there = [x for x in runs if x[error] <= goal]
                best = min(there, key=lambda x: x["cpu_seconds"], default=None)
                cells.append(f"{best['cpu_seconds']:.2f} ({best['size']:,})" if best else "-")
            last = min(runs, key=lambda x: x["mean_norm"])
            cells.append(f"{last['mean_norm']:.1e}, {last['variance']:.1e} ({last['cpu_seconds']:.1f})")
            lines.append(f"| {r['set']} | {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def centers_table(results):
    """Mean, variance and evidence, a line a method; at P = M those of all centers, `dtc` and `vfe`."""
    head = [f"P = {p}" for p in PORTIONS] + ["P = M", "all centers"]
    lines = ["| data | M | error | method | " + " | ".join(head) + " |", "| --- | ---: | --- | --- |" + " ---: |" * len(head)]
    for r in results["centers"]:
        for error in ("mean_norm", "variance", "evidence"):
            for method, like in zip(KMCG, ("dtc", "vfe")):
                runs = {x["asked"]: abs(x[error]) for x in r["lines"] if x["method"] == method}
                ends = [runs[r["centers"]], *[abs(x[error]) for x in r["lines"] if x["method"] == like]]
                cells = [f"{runs[p]:.2g}" if p in runs else "-" for p in PORTIONS] + [f"{v:.2g}" for v in ends]
                name = "mean" if error == "mean_norm" else error
                lines.append(f"| {r['set']} | {r['centers']} | {name} | {method} | " + " | ".join(cells) + " |")
    lines += [f"\n{r['set']}, probes, tolerance {TOLERANCE:g}: {x['directions']} of {r['centers']} directions, residual "
              f"{x['residual']:.1e}, mean {x['mean_norm']:.2g}, variance {x['variance']:.2g}, evidence {abs(x['evidence']):.2g}"
              for r in results["centers"] for x in r["lines"] if x["method"] == "tolerance"]
    return "\n".join(lines)


def numpy_line(results):
    apart = [x["apart_from_numpy"] for r in results["curves"] for x in r["lines"] if x.get("apart_from_numpy") is not None]
    return (f"krrd from the paper's formulas in NumPy at P = 20, the largest of {len(apart)} curves: {max(apart):.1e}"
            if apart else "")


STYLE = {"kmcg": ("#d62728", "KMCG"), "kmcg, probes": ("#ff7f0e", "KMCG, probes"), "cg": ("#1f77b4", "CG"),
         "fitc": ("#2ca02c", "FITC"), "vfe": ("#9467bd", "VFE")}


def plot(results, kernel, path):
    """A column a data set, a row an error; shades from the least to the largest of the draws."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "krrd"
    from matplotlib import pyplot

    curves = [r for r in results["curves"] if r["kernel"] == kernel]
    figure, panels = pyplot.subplots(3, len(curves), figsize=(2.4 * len(curves) + 0.6, 6.6), squeeze=False, sharex=True)
    for column, r in zip(panels.T, curves):
        for panel, error in zip(column, NAMES):
            for method, (color, label) in STYLE.items():
                values = numpy.array([at(r["lines"], method, s, error) for s in steps_of(r)])
                if not numpy.isnan(values).all():
                    panel.semilogy(steps_of(r), values[:, 0], color=color, label=label, linewidth=1.2)
                    panel.fill_between(steps_of(r), values[:, 1], values[:, 2], color=color, alpha=0.2, linewidth=0)
            panel.grid(alpha=0.3)
        column[0].set_title(f"{r['set']}, n = {r['n']:,}", fontsize="small")
        column[-1].set_xlabel("products P")
    for panel, error in zip(panels[:, 0], NAMES):
        panel.set_ylabel(f"relative error, {NAMES[error]}")
    panels[0][0].legend(fontsize="x-small")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def print_tables(results):
    for kernel in dict.fromkeys(r["kernel"] for r in results["curves"]):
        for error in ("mean", "variance", "evidence"):
            print(f"{NAMES[error]}, {kernel}:\n\n{error_table(results, error, kernel)}\n")
    for shown in (claims_table, gains_line, numpy_line, limits_table, time_table, centers_table):
        print(f"{shown(results)}\n")


PARTS = {"curves": run_curves, "limits": run_limits, "time": run_time, "centers": run_centers}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the data sets as NPZ files of X and y; without it nothing runs")
    parser.add_argument("--worker", default="build/src/worker/krrd-worker", help="the program (default: %(default)s)")
    parser.add_argument("--bench", default="build/bench/krr-bench", help="likewise, to tell of the machine")
    parser.add_argument("--out", required=True, help="results file (JSON)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--kernels", nargs="+", choices=gaussian.KERNELS, default=list(gaussian.KERNELS))
    parser.add_argument("--repeat", type=int, default=10, help="draws of random centers")
    parser.add_argument("--products", type=int, nargs="+", default=[5, 10, 20, 50, 100, 200, 400], help="of the part `time`")
    parser.add_argument("--centers", type=int, nargs="+", default=[50, 100, 200, 500, 1000, 2000, 4000], help="likewise")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, of one thread each; of the part `time` one")
    parser.add_argument("--figures", type=pathlib.Path, help="folder for the plots")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    results = {"commands": [], "parameters": [], **{part: [] for part in PARTS}}
    results = {**results, **problems.load(options.out)} if os.path.exists(options.out) else results
    if options.data is not None:
        results["commands"].append(f"bench/claims/paper004.py {problems.told(sys.argv[1:])}")
        results["machine"] = problems.machine(options.bench)
        with tempfile.TemporaryDirectory() as folder:
            for part in options.parts:
                PARTS[part](options, results, folder)
        problems.save(options.out, results)
    if options.figures:
        for kernel in {r["kernel"] for r in results["curves"]}:
            plot(results, kernel, options.figures / f"paper-004-{kernel}.svg")
    if options.table:
        print_tables(results)


if __name__ == "__main__":
    main()
