#!/usr/bin/env python3
"""Shares of the machine's limit over a grid of cases, each measured by krr-bench operator.

    bench/table.py --bench build/bench/krr-bench --output bench/results/NAME.json

Prints one line a case as it is measured: the share of the limit by the median product, by the best one, by the median of
the processor time, and at the pace that the machine's multiply-adds had around each product: on a machine whose processor
others use, too, the last is the fair figure.
"""
import argparse
import datetime
import itertools
import json
import pathlib
import shlex
import subprocess
import sys

KERNELS = ["gaussian", "laplacian_l1", "matern12", "matern32", "matern52"]
SHOWN = ["seconds", "seconds_best", "cpu_seconds", "entries_per_s", "limit_entries_per_s", "fraction_of_limit",
         "fraction_of_limit_best", "fraction_of_limit_paced", "max_rel_err", "load_average"]


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bench", default="build/bench/krr-bench")
    p.add_argument("--kernels", nargs="+", default=KERNELS)
    p.add_argument("--d", nargs="+", type=int, default=[3, 9, 18, 28, 90, 435])
    p.add_argument("--rhs", nargs="+", type=int, default=[1, 10])
    p.add_argument("--precisions", nargs="+", default=["float32", "float64"])
    p.add_argument("--isa", nargs="+", default=["avx512", "avx2"])
    p.add_argument("--threads", nargs="+", type=int, default=[1])
    p.add_argument("--uses", nargs="+", default=["plain", "symmetric"], choices=["plain", "symmetric"])
    p.add_argument("--seconds", type=float, default=0.25, help="length of a product at the limit; sets n")
    p.add_argument("--n", type=int, default=20000, help="rows at most")
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--output", type=pathlib.Path)
    return p.parse_args()


def rows(o, d, rhs, precision, isa, symmetric):
    """So many that a product at the limit of a 3.5 GHz core takes about --seconds."""
    lanes = {"avx512": 16, "avx512_intel": 16, "avx2": 16}.get(isa, 4) // (2 if precision == "float64" else 1)
    cost = (d + 6 + (2 if symmetric else 1) * rhs) / (2 if symmetric else 1)
    fits = (o.seconds * lanes * 3.5e9 / cost) ** 0.5
    return min(o.n, int(fits) // 1000 * 1000 + 1000)


def measure(o, case):
    isa, threads, precision, rhs, kernel, d, use = case
    n = rows(o, d, rhs, precision, isa, use == "symmetric")
    words = [o.bench, "operator", "--kernel", kernel, "--n", n, "--d", d, "--rhs", rhs, "--precision", precision,
             "--isa", isa, "--threads", threads, "--repeat", o.repeat]
    done = subprocess.run([str(w) for w in words + ["--symmetric"] * (use == "symmetric")], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    report = json.loads(done.stdout)
    return {"isa": isa, "threads": threads, "precision": precision, "rhs": rhs, "kernel": kernel, "d": d, "use": use,
            "n": n, **{key: report[key] for key in SHOWN},
            "fraction_of_limit_cpu": report["fraction_of_limit"] * report["seconds"] * threads / report["cpu_seconds"],
            }, report


def main():
    o = parse_arguments()
    cases, report = [], {}
    for case in itertools.product(o.isa, o.threads, o.precisions, o.rhs, o.kernels, o.d, o.uses):
        line, report = measure(o, case)
        cases.append(line)
        print(f"{line['isa']} {line['threads']} {line['precision']} t={line['rhs']:<2} {line['kernel']:12} "
              f"d={line['d']:<3} {line['use']:9} {line['fraction_of_limit']:.3f} {line['fraction_of_limit_best']:.3f} "
              f"{line['fraction_of_limit_cpu']:.3f} {line['fraction_of_limit_paced']:.3f}",
              flush=True)
    if o.output is not None:
        result = {"command": shlex.join(sys.argv), "date": datetime.datetime.now(datetime.timezone.utc).isoformat(),
                  "cpu": report["cpu"], "cores": report["cores"], "ceilings": report["ceilings"], "cases": cases}
        o.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
