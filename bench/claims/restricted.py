#!/usr/bin/env python3
"""Every restricted solver against `direct`, or --reference, on real data: are the predictions the same?

Gaussian kernel of bandwidth 3 on standardised features, lambda = 1e-6 a row (--regularization), a fifth of the
rows for testing, centers drawn uniformly (by bless for a solver that needs weights, which is then compared with
direct on the same centers). `difference` is the largest difference of two predictions of the test rows
divided by their standard deviation (scores of a class count like targets). Stochastic solvers are
given a looser tolerance: their last digits cost most. The results file is written after every run; with
one that is there already the program goes on where it stopped. With --models models of the reference are
kept in a folder, and taken from there by later runs (the reference's own line is that of its first run);
with --progress the worker's messages of each run are.
"""
import argparse
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import numpy

import problems

SETS = {"bike": "bike", "letter": "letter", "higgs7k": "higgs7k", "hflights": "hflights"}
STOCHASTIC = ("sketchysaga", "sketchykatyusha", "eigenpro3", "eigenpro4")
WEIGHTED = ("falkon_bless",)
USUAL = 1e-6  # lambda a row
KERNEL = {"name": "gaussian", "bandwidth": 3.0}


def predict(model, X):
    """f(x) by plain numpy in float64, independently of the program."""
    Z = model["centers"].astype(float)
    S = (X - model["feature_mean"]) / model["feature_scale"]
    out = []
    for part in numpy.array_split(S, max(1, len(S) // 2000)):
        square = (part ** 2).sum(1)[:, None] + (Z ** 2).sum(1)[None, :] - 2 * part @ Z.T
        out.append(numpy.exp(-numpy.maximum(square, 0) / (2 * KERNEL["bandwidth"] ** 2)) @ model["coef"])
    return numpy.concatenate(out) * model["target_scale"] + model["target_mean"]


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def train(options, folder, data, solver, centers):
    loose = solver in STOCHASTIC
    spec = {"solver": solver, "kernel": KERNEL, "regularization": options.regularization, "centers": centers,
            "test": {"mask": "test"},
            "stop": {"tolerance": options.loose if loose else options.tolerance, "time_budget_s": None if solver == options.reference else options.budget,
                     "max_iterations": options.iterations}}
    order, model = os.path.join(folder, "order.json"), os.path.join(folder, "model")
    problems.write_order(order, data, spec)
    pathlib.Path(model).write_bytes(b"")
    command = [options.worker, "--job", order, "--model", model]
    command += ["--threads", str(options.threads)] if options.threads else []
    told = os.path.join(options.progress or folder, f"{pathlib.Path(data).stem}-{centers['method']}-{centers['count']}-{solver}.jsonl")
    began, before = time.monotonic(), processor_seconds()
    with open(told, "w") as out:
        subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL)
    last = json.loads(pathlib.Path(told).read_text().strip().splitlines()[-1])
    result = last.get("result") or {}
    line = {"solver": solver, "reason": last["reason"], "seconds": round(time.monotonic() - began, 2),
            "cpu_seconds": round(processor_seconds() - before, 2),
            "iterations": result.get("iterations"), "relative_residual": result.get("relative_residual"),
            "centers": result.get("centers"), "megabytes": round((result.get("peak_memory_bytes") or 0) / 1e6),
            "metrics": {k: v for k, v in (result.get("metrics") or {}).items() if v is not None}}
    return line, problems.read_model(model) if os.path.getsize(model) > 0 else None


def reference_model(options, folder, data, name, centers):
    """Line and model of the reference on these centers; the line is None where the model was kept."""
    kept = options.models and os.path.join(
        options.models,
        f"{name}-{centers['method']}-{centers['count']}-{options.regularization:g}-{options.reference}.safetensors")
    if kept and os.path.exists(kept):
        return None, problems.read_model(kept)
    line, model = train(options, folder, data, options.reference, centers)
    if kept:
        os.makedirs(options.models, exist_ok=True)
        shutil.copy(os.path.join(folder, "model"), kept + ".part")
        os.replace(kept + ".part", kept)
    return line, model


def compare(options, folder, name, count, done):
    """Runs what is not among the lines `done`, and yields a line for each."""
    first = options.reference
    wanted = [first] + [solver for solver in options.solvers if solver != first]
    wanted = [solver for solver in wanted if (name, count, options.regularization, solver) not in done]
    if not wanted:
        return
    X, y, labels = problems.real(options.data, name, 10 ** 9, 0)
    tested = numpy.zeros(len(X), numpy.float32)
    tested[numpy.random.default_rng(0).permutation(len(X))[:len(X) // 5]] = 1
    data = os.path.join(folder, f"{name}.krds")
    problems.write_data_set(data, X, y, labels, tested)
    rows = X[tested == 1].astype(float)
    exact = {}
    for solver in wanted:
        method = "bless" if solver in WEIGHTED else "uniform"
        centers = {"method": method, "count": count}
        key = {"set": name, "asked": count, "selector": method, "regularization": options.regularization}
        if solver != first:
            line, model = train(options, folder, data, solver, centers)
        if method not in exact:
            exact_line, exact_model = reference_model(options, folder, data, name, centers)
            exact[method] = predict(exact_model, rows)
        if solver != first:
            if model is not None:
                line["difference"] = float(numpy.abs(predict(model, rows) - exact[method]).max() / exact[method].std())
            yield {**key, "reference": first, **line}
        elif exact_line is not None:
            yield {**key, **exact_line, "difference": 0.0}


def page(lines):
    out = ["| data | centers | solver | ended | iterations | residual | difference | test | CPU s |",
           "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for line in lines:
        metrics = line["metrics"]
        test = f"accuracy {metrics['accuracy']:.4f}" if "accuracy" in metrics else f"rmse {metrics.get('rmse', float('nan')):.4g}"
        out.append(f"| {line['set']} | {line['centers']} | {line['solver']} | {line['reason']} | {line['iterations']} | "
                   f"{line['relative_residual']:.1e} | {line.get('difference', float('nan')):.1e} | {test} | {line.get('cpu_seconds', float('nan')):.1f} |")
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with NAME.npz")
    parser.add_argument("--worker", default="build-rel/src/worker/krrd-worker")
    parser.add_argument("--bench", default="build-rel/bench/krr-bench")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--centers", nargs="+", type=int, default=[200, 4000])
    parser.add_argument("--solvers", nargs="+", required=True)
    parser.add_argument("--reference", default="direct", help="the solver that others are compared with")
    parser.add_argument("--models", help="folder that models of the reference are kept in")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds a run, but for the reference")
    parser.add_argument("--tolerance", type=float, default=1e-7, help="of the others")
    parser.add_argument("--loose", type=float, default=1e-4, help="tolerance of stochastic solvers")
    parser.add_argument("--iterations", type=int, default=1000, help="at most")
    parser.add_argument("--regularization", type=float, default=USUAL, help="lambda a row")
    parser.add_argument("--threads", type=int, help="of the worker; all cores where not given")
    parser.add_argument("--progress", help="folder for the worker's messages")
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    path = pathlib.Path(options.output)
    if options.progress:
        os.makedirs(options.progress, exist_ok=True)
    lines = problems.load(path)["runs"] if path.exists() else []
    command = "bench/claims/restricted.py " + problems.told(sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        for count in options.centers:
            for name in options.sets:
                done = {(line["set"], line["asked"], line.get("regularization", USUAL), line["solver"]) for line in lines}
                for line in compare(options, folder, name, count, done):
                    print(json.dumps(line), file=sys.stderr)
                    lines.append({**line, "command": command})
                    problems.save(path, {"machine": problems.machine(options.bench), "runs": lines})
    print(page(lines))


if __name__ == "__main__":
    main()
