#!/usr/bin/env python3
"""Measures the prediction service beside a bare libmicrohttpd handler and the kernel oracle, in one run.

For every case krr-load asks krrd, and where the case says so krr-bare, in turn, `--repeat` times; the
median by rate is kept. One JSON document with the command inside.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys

from service import ROOT, Service


def load(build, port, path, **options):
    words = [str(ROOT / build / "bench/krr-load"), "--port", str(port), "--path", path]
    for key, value in options.items():
        words += ["--" + key.replace("_", "-"), str(value)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0 or done.stdout, done
    return json.loads(done.stdout)


class Bare:
    def __init__(self, build):
        self.process = subprocess.Popen([str(ROOT / build / "bench/krr-bare")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def processor_seconds(pid):
    """Of a process, and of its children."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own, sum(sum(processor_seconds(int(child))) for child in children)


def timed(pid, run):
    """What krr-load says, and the processor time that the server and of it its workers took for each
    request."""
    before = processor_seconds(pid)
    report = run()
    own, workers = (after - then for after, then in zip(processor_seconds(pid), before))
    asked = report["answers"] + report["shed"] + report["wrong"]
    warm = report["seconds"] / (report["seconds"] + 1.0)
    report["server_cpu_us"] = 1e6 * (own + workers) * warm / max(asked, 1)
    report["worker_cpu_us"] = 1e6 * workers * warm / max(asked, 1)
    return report


def median(runs):
    return sorted(runs, key=lambda r: r["requests_per_s"])[len(runs) // 2]


def operator(build, rows, centers, d, precision, *options):
    words = [str(ROOT / build / "bench/krr-bench"), "operator", "--kernel", "gaussian", "--n",
             str(rows), "--m", str(centers), "--d", str(d), "--precision", precision,
             "--repeat", "51", *options]
    return json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)


def compare_oracle(build, case, centers):
    """With krr-bench's product of 1,024 rows: the kernel values a second, end to end, over those of
    all processors; and those of a worker's processor second over those of the product's."""
    krrd = case["krrd"]
    case["oracle_share"], case["compute_share"] = {}, {}
    for precision in ("float32", "mixed"):
        every = operator(build, 1024, centers, krrd["d"], precision)
        one = operator(build, 1024, centers, krrd["d"], precision, "--threads", "1")
        rate = krrd["predictions_per_s"] * centers
        case["oracle_share"][precision] = rate / every["entries_per_s"]
        of_worker = krrd["rows"] * centers / max(1e-6 * krrd["worker_cpu_us"], 1e-9)
        case["compute_share"][precision] = of_worker * one["cpu_seconds"] / (1024 * centers)


def measure(build, service, bare, repeat, model, compare, **options):
    ours, theirs = [], []
    for _ in range(repeat):
        ours.append(timed(service.process.pid, lambda: load(
            build, service.port, f"/v1/models/{model}/predict", **options)))
        if compare:
            theirs.append(timed(bare.process.pid, lambda: load(build, bare.port, "/x", **options)))
    case = {"model": model, "krrd": median(ours)}
    if compare:
        case["bare"] = median(theirs)
        case["cpu_share"] = case["bare"]["server_cpu_us"] / case["krrd"]["server_cpu_us"]
        case["share"] = case["krrd"]["requests_per_s"] / case["bare"]["requests_per_s"]
    print(json.dumps(case), file=sys.stderr)
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build-rel")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="also m = 10,000 with 1,024 rows")
    parser.add_argument("--format", default="npy32", help="of the large bodies")
    parser.add_argument("--serve-workers", type=int, default=1)
    parser.add_argument("--output")
    a = parser.parse_args()
    service, bare = Service(a.build, serve_workers=a.serve_workers), Bare(a.build)
    try:
        service.train("small", 100, 18)
        cases = [measure(a.build, service, bare, a.repeat, "small", True, connections=c,
                         seconds=a.seconds) for c in (1, 16, 64, 256)]
        if a.large:
            service.train("large", 10000, 18)
            for rows, form, c in ((1, "json", 1), (1, "json", 64), (1024, a.format, 2),
                                  (1024, a.format, 4)):
                case = measure(a.build, service, bare, a.repeat, "large", False, connections=c,
                               rows=rows, format=form, distinct=4, seconds=a.seconds)
                compare_oracle(a.build, case, 10000)
                print(json.dumps({k: case[k] for k in ("oracle_share", "compute_share")}),
                      file=sys.stderr)
                cases.append(case)
    finally:
        bare.close()
        service.close()
    report = {"command": " ".join(sys.argv), "date": datetime.datetime.now().isoformat(),
              "cores": os.cpu_count(), "load_average": os.getloadavg(), "cases": cases}
    text = json.dumps(report, indent=1)
    print(text)
    if a.output:
        (ROOT / a.output).write_text(text + "\n")


if __name__ == "__main__":
    main()
