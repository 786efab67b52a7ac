#!/usr/bin/env python3
"""Section 4.2 of Bartels and Hennig: kmcg where products with the kernel matrix are cheap, beside inducing points.

Rows on full and incomplete grids; targets are draws of a gaussian process (random Fourier features of the kernel) and
noise. A job for each number P of directions and for M = sqrt(n P) centers; processor seconds of the whole job, the error of its
mean against the exact one (pcg to 1e-10) and of its variance against the one with --exact directions.

    python3 bench/claims/paper004_grids.py --out bench/results/paper-004-grids.json --table

Goes on where it was interrupted.
"""
import argparse
import os
import resource
import sys
import tempfile

import numpy

import gaussian
import problems

FEATURES, NOISE, TESTS = 2000, 0.01, 500
PRODUCTS = (10, 30, 100, 300)
# Places in each dimension, share of them that has a row, bandwidth in steps, most vectors beside each other in a product;
# deviation of a coordinate from equal steps, in steps: that of the paper's figures 7 and 10.
UNEVEN = 1e-3
GRIDS = {"30 x 30": ((30, 30), 1.0, 2.0, 16), "100 x 100": ((100, 100), 0.9, 5.0, 16), "series": ((65_536,), 0.905, 150.0, 1),
         "uneven 40 x 40 x 40": ((40, 40, 40), 1.0, 4.0, 1)}


class Problem:
    def __init__(self, name, seed=0):
        sizes, share, self.bandwidth, self.most = GRIDS[name]
        rng = numpy.random.default_rng(seed)
        off = UNEVEN if name.startswith("uneven") else 0.0
        axes = [numpy.arange(size) + (off * rng.normal(size=size) if off else 0.0) for size in sizes]
        places = numpy.stack(numpy.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(sizes))
        self.X = places[rng.random(len(places)) < share].astype(float)
        self.T = self.X[rng.choice(len(self.X), TESTS)] + 0.5
        waves, phases = rng.normal(size=(FEATURES, len(sizes))) / self.bandwidth, rng.uniform(0, 2 * numpy.pi, FEATURES)
        self.y = numpy.concatenate([numpy.sqrt(2 / FEATURES) * numpy.cos(part @ waves.T + phases).sum(axis=1)
                                    for part in numpy.array_split(self.X, len(self.X) // 1000 + 1)])
        self.y += NOISE ** 0.5 * rng.normal(size=len(self.y))
        self.name, self.n = name, len(self.X)

    def write(self, folder):
        self.path = os.path.join(folder, "grid.krds")
        problems.write_data_set(self.path, self.X, self.y)


def jobs(p, exact):
    """(method, P, what the spec says); the exact mean and variance first."""
    n = p.n
    mean = {"solver": {"name": "pcg"}, "stop": {"tolerance": 1e-10, "max_iterations": 2000}}
    variance = {"solver": {"name": "kmcg", "directions": min(n, exact), "amplitude": 1.0},
                "stop": {"tolerance": 1e-30, "max_iterations": exact}}
    found = [("pcg", 0, mean), ("exact", 0, variance)]
    for P in PRODUCTS:
        few = {"stop": {"tolerance": 1e-30, "max_iterations": P}}
        for probes, vectors in ((0, 1), ("auto", 16)):
            if vectors > p.most:
                continue
            solver = {"name": "kmcg", "directions": min(n, vectors * P), "probes": probes, "amplitude": 1.0}
            found.append(("kmcg" if probes == 0 else "kmcg, probes", P, {"solver": solver, **few}))
        centers = {"method": "uniform", "count": int((n * P) ** 0.5)}
        found.append(("fitc", P, {"solver": {"name": "inducing", "approximation": "fitc", "amplitude": 1.0}, "centers": centers}))
    return found


def seconds_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(options, folder, p, method, P, spec, exact):
    common = {"kernel": {"name": "gaussian", "bandwidth": p.bandwidth}, "regularization": NOISE / p.n,
              "standardize": {"features": False}}
    before = seconds_of_children()
    done, model = gaussian.train(options.worker, folder, p.path, {**common, **spec}, threads=1)
    seconds = seconds_of_children() - before
    mean, variance = model.predict(p.T)
    exact.setdefault("mean", mean)
    if method == "exact":
        exact["variance"] = variance
    line = {"set": p.name, "n": p.n, "method": method, "P": P, "cpu_seconds": seconds, "grid": done["result"]["grid"],
            "iterations": done["result"]["iterations"], "directions": done["result"]["directions"],
            "mean_error": float(numpy.linalg.norm(mean - exact["mean"]) / numpy.linalg.norm(exact["mean"]))}
    if "variance" in exact and variance is not None:
        line["variance_error"] = float(numpy.linalg.norm(variance - exact["variance"]) / numpy.linalg.norm(exact["variance"]))
    return line


def run(options, results):
    with tempfile.TemporaryDirectory() as folder:
        for name in options.sets:
            if any(r["set"] == name for r in results["runs"]):
                continue
            p, exact = Problem(name), {}
            p.write(folder)
            lines = [measure(options, folder, p, *job, exact) for job in jobs(p, options.exact)]
            results["runs"] += lines
            problems.save(options.out, results)


def print_table(results):
    print("| rows | method | P | directions | processor s | error of the mean | of the variance |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for r in results["runs"]:
        told = f"{r['directions']:,}" if r["directions"] else "-"
        variance = f"{r['variance_error']:.1e}" if "variance_error" in r else "-"
        print(f"| {r['set']}, n = {r['n']:,} | {r['method']} | {r['P'] or '-'} | {told} | {r['cpu_seconds']:.2f} | {r['mean_error']:.1e} | {variance} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", default="build/src/worker/krrd-worker", help="the program (default: %(default)s)")
    parser.add_argument("--bench", default="build/bench/krr-bench", help="likewise, to tell of the machine")
    parser.add_argument("--out", required=True, help="results file (JSON)")
    parser.add_argument("--sets", nargs="+", choices=GRIDS, default=list(GRIDS))
    parser.add_argument("--exact", type=int, default=2000, help="directions of the variance that others are held to")
    parser.add_argument("--table", action="store_true", help="print the results as Markdown")
    options = parser.parse_args()
    results = problems.load(options.out) if os.path.exists(options.out) else {
        "command": f"bench/claims/paper004_grids.py {problems.told(sys.argv[1:])}", **problems.machine(options.bench), "runs": []}
    run(options, results)
    if options.table:
        print_table(results)


if __name__ == "__main__":
    main()
