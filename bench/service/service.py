"""What the programs of this folder share: a daemon of their own, a client that costs little, figures.

Only the standard library, so that anybody can run them; --build names the folder of the build.
"""

import argparse
import datetime
import http.client
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Client:
    """One connection; answers are (status, parsed JSON or text)."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.connection = http.client.HTTPConnection(host, int(port), timeout=120)

    def call(self, method, path, body=None, **headers):
        if isinstance(body, dict):
            body, headers = json.dumps(body), {"Content-Type": "application/json", **headers}
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.getheader("Content-Type", "").startswith("application/"):
            return answer.status, json.loads(text)
        return answer.status, text.decode()

    def must(self, method, path, body=None, expect=(200, 201, 202), **headers):
        status, answer = self.call(method, path, body, **headers)
        if status not in expect:
            raise SystemExit(f"{method} {path}: {status} {answer}")
        return answer

    def close(self):
        self.connection.close()


class Daemon:
    """In a folder of its own, which it removes; `with` ends it."""

    def __init__(self, build, **options):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="krrd-bench-"))
        self.data = self.folder / "data"
        self.words = [str(pathlib.Path(build) / "src/server/krrd"), "--listen", "127.0.0.1:0",
                      "--data-dir", str(self.data), "--log-file", str(self.folder / "log"),
                      "--worker-threads", "1"]
        for name, value in options.items():
            self.words += ["--" + name.replace("_", "-"), str(value)]
        self.start()

    def start(self):
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(self.words, env=environment, stderr=subprocess.DEVNULL)
        address = self.data / "krrd.address"
        while not address.exists():
            if self.process.poll() is not None:
                raise SystemExit(f"the daemon did not start; see {self.folder / 'log'}")
            time.sleep(0.01)
        self.address = address.read_text().strip()
        self.client = Client(self.address)
        while self.client.call("GET", "/v2/health/ready")[0] != 200:
            time.sleep(0.02)

    def stop(self):
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        finally:
            self.process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def turns(self):
        """How many turns of the loop took at most so many seconds."""
        return {bound: int(self.metric("krrd_loop_turn_seconds_bucket", le=bound))
                for bound in ("0.005", "0.01", "0.02", "0.05", "0.1", "0.25", "1.0", "+Inf")}

    def metric(self, name, **labels):
        """The sum over the samples of that name and these labels."""
        text = self.client.must("GET", "/metrics", Accept="text/plain")
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        total = 0.0
        for found, value in re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.M):
            if all(pair in found for pair in wanted):
                total += float(value)
        return total

    def worker_pid(self, kind="train"):
        workers = self.client.must("GET", "/v1/workers")["data"]
        return next(w["pid"] for w in workers if w["kind"] == kind)


def upload(client, rows, columns, seed=0):
    """A regression on standard normal features; the id."""
    rng = random.Random(seed)
    lines = [",".join([f"x{j}" for j in range(columns)] + ["y"])]
    for _ in range(rows):
        x = [rng.gauss(0, 1) for _ in range(columns)]
        y = x[0] + 0.5 * x[1 % columns] ** 2 + 0.1 * rng.gauss(0, 1)
        lines.append(",".join(f"{v:.6g}" for v in x + [y]))
    body = "\n".join(lines) + "\n"
    return client.must("POST", "/v1/datasets", body, **{"Content-Type": "text/csv"})["id"]


def small_job(dataset, model="small"):
    return {"model": model, "dataset": dataset, "solver": {"name": "cholesky"},
            "kernel": {"name": "gaussian", "bandwidth": 3.0}, "regularization": 1e-6,
            "test": {"fraction": 0.2}}


def resident(pid, what="VmRSS"):
    """Bytes; VmHWM: the most there has been."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(what + r":\s+(\d+) kB", text).group(1)) << 10


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def arguments(text):
    parser = argparse.ArgumentParser(description=text.split("\n\n")[0])
    parser.add_argument("--build", default="build-release", help="folder of the build")
    parser.add_argument("--output", help="file for the figures; default: standard output alone")
    return parser


def report(options, figures):
    """Prints and keeps the figures with what tells where they are from."""
    everything = {
        "command": " ".join(shlex.quote(word) for word in [
            os.path.relpath(os.path.abspath(sys.argv[0]), ROOT), *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
        **figures,
    }
    text = json.dumps(everything, indent=1)
    print(text)
    if options.output:
        pathlib.Path(options.output).write_text(text + "\n")
