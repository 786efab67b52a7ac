#!/usr/bin/env python3
"""Plans of jobs against what the jobs then took: memory of the worker's process, and seconds.

    bench/plan.py --build build-rel --rows 15000 --features 18 --output bench/results/plan-15000.json
    bench/plan.py --build build-rel --grid --sample 150
    bench/plan.py --build build-rel --targets 100,500 --cases pcg,cholesky,krill

Starts a daemon with one training worker of one thread, whose processor seconds are what a plan's are compared with: a
machine with other work makes jobs take longer, not dearer. Seconds are compared for the iterations that were done, as
the machine's rates alone have them, and, against the seconds on the wall that they learn from, as finished jobs have
corrected them. The data are normal points with a smooth target. Prints one line a job as it ends, and last those whose
memory or seconds were not within a fifth.

--grid takes all methods, kernels, precisions and sizes; --sample of them so many jobs, in which every pair of two choices
comes before any comes again. --rounds runs all of it more than once, and compares the last round.
"""
import argparse
import datetime
import itertools
import json
import os
import pathlib
import random
import shlex
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "http"))

import daemon  # noqa: E402
import data  # noqa: E402

CENTERS = {"method": "uniform", "count": 1000}
CASES = {
    "cholesky": {"solver": "cholesky"},
    "cholesky_float64": {"solver": {"name": "cholesky", "factor": "float64"}},
    "cholesky_float32": {"solver": "cholesky", "precision": "float32"},
    "auto": {"kernel": "auto"},
    "pcg": {"solver": "pcg"},
    "pcg_float64": {"solver": "pcg", "precision": "float64"},
    "pcg_not_kept": {"solver": "pcg", "kernel_cache_bytes": 0},
    "pcg_kept": {"solver": "pcg", "kernel_cache_bytes": 4_000_000_000},
    "pcg_nystrom_gaussian": {"solver": {"name": "pcg", "preconditioner": "nystrom_gaussian"}, "kernel_cache_bytes": 0},
    "askotch2": {"solver": "askotch2", "stop": {"max_iterations": 200}},
    "skotch": {"solver": "skotch", "stop": {"max_iterations": 200}},
    "eigenpro2": {"solver": "eigenpro2"},
    "cg": {"solver": "cg", "centers": CENTERS},
    "direct": {"solver": "direct", "centers": CENTERS},
    "krill": {"solver": "krill", "centers": CENTERS},
    "falkon": {"solver": "falkon", "centers": CENTERS},
    "falkon_bless": {"solver": "falkon_bless", "centers": {"method": "bless", "count": 1000}},
    "krill_kmeans": {"solver": "krill", "centers": {"method": "kmeans", "count": 1000}},
    "krill_rls": {"solver": "krill", "centers": {"method": "rls", "count": 1000}},
    "krill_squeak": {"solver": "krill", "centers": {"method": "squeak", "count": 1000}},
    "krill_rpcholesky": {"solver": "krill", "centers": {"method": "rpcholesky", "count": 1000}},
    "sketchysaga": {"solver": "sketchysaga", "centers": CENTERS},
    "sketchykatyusha": {"solver": "sketchykatyusha", "centers": CENTERS},
    "eigenpro3": {"solver": "eigenpro3", "centers": CENTERS},
    "eigenpro4": {"solver": "eigenpro4", "centers": CENTERS},
    "search": {"regularization": "auto", "search": {"regularization": [1e-7, 1e-6, 1e-5], "max_rows": 2000}},
}


GRID = {
    "case": ("cholesky", "cholesky_float64", "pcg", "pcg_not_kept", "pcg_nystrom_gaussian", "askotch2", "skotch",
             "eigenpro2", "cg", "direct", "krill", "falkon", "falkon_bless", "krill_kmeans", "krill_rls", "krill_squeak",
             "krill_rpcholesky", "sketchysaga", "sketchykatyusha", "eigenpro3", "eigenpro4"),
    "precision": ("auto", "float32", "mixed", "float64"),
    "kernel": ("gaussian", "laplacian_l1", "matern52", "linear", "polynomial"),
    "features": (3, 18, 90),
    "rows": (3750, 15000),  # a fifth of them tests
    "targets": (1, 100),
}
AXES = tuple(GRID)
REFINED = ("pcg", "cholesky")  # solvers that have a mixed precision
FIFTH = (1 / 1.2, 1.2)
COUNTED_S = 0.2  # processor seconds are told in hundredths


def pairs(choice):
    return set(itertools.combinations(zip(AXES, choice), 2))


def sampled(choices, count, rng):
    """So many of them, each with as many pairs of two choices that none has had as some that were drawn."""
    seen, taken = set(), []
    while choices and len(taken) < count:
        drawn = rng.sample(choices, min(len(choices), 60))
        best = max(drawn, key=lambda choice: len(pairs(choice) - seen))
        seen |= pairs(best)
        choices.remove(best)
        taken.append(best)
    return taken


def possible(choice):
    case, precision = choice[:2]
    spec = CASES[case]
    return precision in ("auto", spec.get("precision", precision)) and (
        precision != "mixed" or case.split("_")[0] in REFINED)


def choices_of(args):
    if args.grid:
        axes = [GRID[axis] for axis in AXES]
    else:
        axes = [args.cases.split(","), args.precisions.split(","), args.kernels.split(","),
                *([int(size) for size in sizes.split(",")] for sizes in (args.features, args.rows, args.targets))]
    every = [choice for choice in itertools.product(*axes) if possible(choice)]
    chosen = sampled(every, args.sample, random.Random(args.seed)) if args.sample else every
    return sorted(chosen, key=lambda choice: choice[::-1][:2])  # a data set at a time


def processor_seconds(api):
    pid = next(w["pid"] for w in api.get("/v1/workers").json()["data"] if w["kind"] == "train")
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spec_of(case, precision, kernel):
    spec = {"kernel": kernel, "regularization": 1e-6, "seed": 1, "stop": {"max_iterations": 25}, "precision": precision}
    return {**spec, **CASES[case]}


def planned_for(plan, iterations, plain):
    """Setup, iterations and finish; `plain`: as the machine's rates alone have them."""
    seconds = plan["seconds"]
    said = seconds["experience"] if plain else None
    seconds = {**seconds, "setup": seconds["setup"] - seconds["choice"]}  # without a time budget all of it is there
    setup, choice, each, finish = (seconds[phase] / (said[f"{phase}_factor"] if said else 1)
                                   for phase in ("setup", "choice", "iteration", "finish"))
    return setup + choice, each * iterations if seconds["iterations"] else 0, finish


def regression(features, rows, targets):
    """Of several targets each is a wave in a direction of its own."""
    X, y = data.regression(rows, features)
    if targets == 1:
        return X, y
    rng = np.random.default_rng(1)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, np.stack([np.sin(Z @ rng.normal(size=features) / np.sqrt(features)) for _ in range(targets)], axis=1)


def run(api, dataset, choice):
    case, precision, kernel = choice[:3]
    row = dict(zip(AXES, choice))
    before = processor_seconds(api)
    job = api.create("plan", dataset, **spec_of(case, precision, kernel))
    job = api.wait(job["id"], timeout=3600)
    if job["status"] != "succeeded":
        return {**row, "error": job["reason"]}
    used = processor_seconds(api) - before
    plan, result = job["plan"], job["result"]
    memory, experience = plan["memory"], plan["seconds"]["experience"]
    setup, iterations, finish = planned_for(plan, result["iterations"], plain=True)
    planned, learned = setup + iterations + finish, sum(planned_for(plan, result["iterations"], plain=False))
    return {**row, "solver": result["solver"], "iterations": result["iterations"],
            "rank_planned": plan["rank"], "rank": result["rank"], "centers_planned": plan["centers"],
            "centers": result["centers"], "moment": memory["moment"],
            "parts": memory["parts"], "planned_bytes": memory["host_bytes"],
            "peak_memory_bytes": result["peak_memory_bytes"],
            "bytes_ratio": memory["host_bytes"] / result["peak_memory_bytes"],
            "keeps_planned": plan["keeps_kernel_values"], "kernel_cache_bytes": result["kernel_cache_bytes"],
            "planned_setup_s": setup, "planned_iterations_s": iterations, "planned_finish_s": finish,
            "phases": result["phases"], "experience": experience, "learned_s": learned,
            "learned_ratio": learned / result["seconds"] if experience else None,
            "planned_s": planned, "cpu_seconds": used, "seconds": result["seconds"],
            "seconds_ratio": planned / max(used, 0.01)}


def line_of(row):
    name = f"{row['rows']:>6d} {row['features']:>3d} {row['targets']:>3d} {row['kernel']:12s} {row['precision']:7s} {row['case']:20s}"
    if "error" in row:
        return f"{name} failed: {row['error']}"
    return (f"{name} {row['planned_bytes'] / 1e6:8.1f} MB planned, {row['peak_memory_bytes'] / 1e6:8.1f} used:"
            f" {row['bytes_ratio']:.2f} {'kept' if row['kernel_cache_bytes'] else '    '}"
            f" {row['planned_s']:7.2f} s planned, {row['cpu_seconds']:7.2f} used: {row['seconds_ratio']:.2f}"
            + (f"; learned {row['learned_s']:7.2f} of {row['seconds']:7.2f}: {row['learned_ratio']:.2f}"
               if row["experience"] else ""))


def summarise(rows):
    done = [row for row in rows if "error" not in row]
    lasted = [row for row in done if row["cpu_seconds"] >= COUNTED_S]
    for key, counted in (("bytes_ratio", done), ("seconds_ratio", lasted),
                         ("learned_ratio", [row for row in lasted if row["experience"]])):
        ratios = sorted(row[key] for row in counted)
        apart = [row for row in counted if not FIFTH[0] <= row[key] <= FIFTH[1]]
        if ratios:
            print(f"{key}: {len(ratios) - len(apart)} of {len(ratios)} within a fifth;"
                  f" {ratios[0]:.2f} to {ratios[-1]:.2f}, median {ratios[len(ratios) // 2]:.2f}")
        for row in sorted(apart, key=lambda row: row[key]):
            print("   ", line_of(row))


def measure(args, api):
    rows, dataset = [], None
    for choice in choices_of(args):
        if dataset is None or dataset[1] != choice[3:]:
            dataset = api.upload_npz(*regression(*choice[3:])), choice[3:]
        rows.append(run(api, dataset[0], choice))
        print(line_of(rows[-1]), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--rows", default="5000", help="one number, or some with commas; likewise those below")
    parser.add_argument("--features", default="18")
    parser.add_argument("--targets", default="1")
    parser.add_argument("--kernels", default="gaussian")
    parser.add_argument("--precisions", default="auto")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--grid", action="store_true", help="all of them, instead of what is listed")
    parser.add_argument("--sample", type=int, help="so many of all combinations")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path)
    args = parser.parse_args()
    build = pathlib.Path(args.build).resolve()
    os.environ["KRRD_TEST_DAEMON"] = str(build / "src/server/krrd")
    os.environ["KRRD_TEST_WORKER"] = str(build / "src/worker/krrd-worker")
    with tempfile.TemporaryDirectory() as folder:
        server = daemon.Daemon(folder, worker_threads=1, log_level="warning")
        server.api.worker_pid("train", "idle")
        rates = server.api.get("/v1/devices").json()
        for _ in range(args.rounds):
            rows = measure(args, server.api)
        server.close()
    summarise(rows)
    if args.output:
        report = {"command": "bench/plan.py " + shlex.join(sys.argv[1:]),
                  "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                  "load_average": os.getloadavg(), "devices": rates["data"], "results": rows}
        args.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
