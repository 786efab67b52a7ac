#!/usr/bin/env python3
"""Plans of jobs against what the jobs then took: memory of the worker's process, and seconds.

    bench/plan.py --build build-rel --rows 15000 --features 18 --output bench/results/plan-15000.json

Starts a daemon with one training worker of one thread, whose processor seconds are what a plan's are compared with: a
machine with other work makes jobs take longer, not dearer. Seconds are compared for the iterations that were done. The
data are normal points with a smooth target. Prints one line a job as it ends.
"""
import argparse
import datetime
import itertools
import json
import os
import pathlib
import shlex
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "http"))

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
    "direct": {"solver": "direct", "centers": CENTERS},
    "krill": {"solver": "krill", "centers": CENTERS},
    "falkon": {"solver": "falkon", "centers": CENTERS},
    "falkon_bless": {"solver": "falkon_bless", "centers": {"method": "bless", "count": 1000}},
    "krill_kmeans": {"solver": "krill", "centers": {"method": "kmeans", "count": 1000}},
    "krill_rpcholesky": {"solver": "krill", "centers": {"method": "rpcholesky", "count": 1000}},
    "sketchysaga": {"solver": "sketchysaga", "centers": CENTERS},
    "sketchykatyusha": {"solver": "sketchykatyusha", "centers": CENTERS},
    "eigenpro3": {"solver": "eigenpro3", "centers": CENTERS},
    "eigenpro4": {"solver": "eigenpro4", "centers": CENTERS},
    "search": {"regularization": "auto", "search": {"regularization": [1e-7, 1e-6, 1e-5], "max_rows": 2000}},
}


def processor_seconds(api):
    pid = next(w["pid"] for w in api.get("/v1/workers").json()["data"] if w["kind"] == "train")
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(api, dataset, kernel, name, spec):
    common = {"kernel": kernel, "regularization": 1e-6, "seed": 1, "stop": {"max_iterations": 25}}
    before = processor_seconds(api)
    job = api.create("plan", dataset, **{**common, **spec})
    job = api.wait(job["id"], timeout=3600)
    used = processor_seconds(api) - before
    plan, result = job["plan"], job["result"]
    seconds = plan["seconds"]
    planned = seconds["setup"] + seconds["finish"]
    planned += seconds["iteration"] * result["iterations"] if seconds["iterations"] else 0
    memory = plan["memory"]["host_bytes"]
    return {"case": name, "rows": plan["train_rows"], "features": plan["features"], "kernel": kernel, "solver": result["solver"], "iterations": result["iterations"], "moment": plan["memory"]["moment"],
            "planned_bytes": memory, "peak_memory_bytes": result["peak_memory_bytes"],
            "bytes_ratio": memory / result["peak_memory_bytes"],
            "keeps_planned": plan["keeps_kernel_values"], "kernel_cache_bytes": result["kernel_cache_bytes"],
            "planned_s": planned, "cpu_seconds": used, "seconds": result["seconds"], "seconds_ratio": planned / max(used, 0.01)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--rows", default="5000", help="one number, or some with commas; likewise features and kernels")
    parser.add_argument("--features", default="18")
    parser.add_argument("--kernels", default="gaussian")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--output", type=pathlib.Path)
    args = parser.parse_args()
    build = pathlib.Path(args.build).resolve()
    os.environ["KRRD_TEST_DAEMON"] = str(build / "src/server/krrd")
    os.environ["KRRD_TEST_WORKER"] = str(build / "src/worker/krrd-worker")
    import daemon
    import data
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        server = daemon.Daemon(folder, worker_threads=1, log_level="warning")
        api = server.api
        while not any(w["kind"] == "train" and w["state"] == "idle" for w in api.get("/v1/workers").json()["data"]):
            time.sleep(0.1)
        for n, d, kernel in itertools.product(args.rows.split(","), args.features.split(","), args.kernels.split(",")):
            dataset = api.upload_npz(*data.regression(int(n), int(d)))
            for name in args.cases.split(","):
                row = run(api, dataset, kernel, name, CASES[name])
                rows.append(row)
                print(f"{n:>6s} {d:>3s} {kernel:12s} {name:20s} {row['planned_bytes'] / 1e6:8.1f} MB planned,"
                      f" {row['peak_memory_bytes'] / 1e6:8.1f} used: {row['bytes_ratio']:.2f}"
                      f" {'kept' if row['kernel_cache_bytes'] else '    '} {row['planned_s']:7.2f} s planned,"
                      f" {row['cpu_seconds']:7.2f} used: {row['seconds_ratio']:.2f}", flush=True)
        server.close()
    if args.output:
        report = {"command": "bench/plan.py " + shlex.join(sys.argv[1:]),
                  "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                  "load_average": os.getloadavg(), "results": rows}
        args.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
