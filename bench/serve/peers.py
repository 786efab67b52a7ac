#!/usr/bin/env python3
"""krrd beside scikit-learn's KernelRidge behind FastAPI and uvicorn, in one run.

    python3 -m venv VENV && VENV/bin/pip install scikit-learn fastapi uvicorn uvloop httptools
    bench/serve/peers.py --python VENV/bin/python --output bench/results/serve-peers.json

Both serve a gaussian model of 100 centers and 18 features, over one row a request in JSON, to the same
krr-load; the peer has two processes, uvloop and httptools. Every answer is compared with what the
same question got when it was asked alone."""

import argparse
import datetime
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from run import load, median
from service import ROOT, Service, points

CENTERS, FEATURES = 100, 18

APP = """
import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel
from sklearn.kernel_ridge import KernelRidge
from service import points

X, y, bandwidth = points({m}, {d})
model = KernelRidge(kernel="rbf", gamma=0.5 / bandwidth**2, alpha=0.1).fit(X, y)
app = FastAPI()

class Question(BaseModel):
    instances: list[list[float]]

@app.post("/predict")
async def predict(question: Question):
    return {{"predictions": model.predict(np.asarray(question.instances)).tolist()}}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Peer:
    def __init__(self, python, workers):
        self.folder = tempfile.TemporaryDirectory(prefix="krrd-peer-")
        (pathlib.Path(self.folder.name) / "peer.py").write_text(APP.format(m=CENTERS, d=FEATURES))
        self.port = free_port()
        paths = os.pathsep.join([self.folder.name, str(ROOT / "bench/serve")])
        self.process = subprocess.Popen(
            [python, "-m", "uvicorn", "peer:app", "--port", str(self.port), "--workers",
             str(workers), "--no-access-log", "--log-level", "warning"],
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1",
                 "OPENBLAS_NUM_THREADS": "1"})
        body = json.dumps({"instances": points(1, FEATURES)[0].tolist()}).encode()
        for _ in range(1500):
            assert self.process.poll() is None, "the peer ended"
            try:
                request = urllib.request.Request(f"http://127.0.0.1:{self.port}/predict", body,
                                                 {"Content-Type": "application/json"})
                urllib.request.urlopen(request, timeout=5).read()
                return
            except OSError:
                time.sleep(0.2)
        raise RuntimeError("the peer did not start")

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


def versions(python):
    text = "import fastapi, sklearn, uvicorn; print(sklearn.__version__, fastapi.__version__, uvicorn.__version__)"
    words = subprocess.run([python, "-c", text], stdout=subprocess.PIPE, text=True, check=True)
    return dict(zip(("scikit-learn", "fastapi", "uvicorn"), words.stdout.split()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="of an environment with the peer's packages")
    parser.add_argument("--build", default="build-rel")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="processes of the peer")
    parser.add_argument("--output")
    a = parser.parse_args()
    service, peer = Service(a.build), Peer(a.python, a.workers)
    cases = []
    try:
        service.train("small", CENTERS, FEATURES)
        for connections in (1, 16, 64):
            options = {"connections": connections, "seconds": a.seconds, "d": FEATURES}
            ours, theirs = [], []
            for _ in range(a.repeat):
                ours.append(load(a.build, service.port, "/v1/models/small/predict", **options))
                theirs.append(load(a.build, peer.port, "/predict", **options))
            case = {"connections": connections, "krrd": median(ours), "peer": median(theirs)}
            case["throughput_ratio"] = (case["krrd"]["requests_per_s"] /
                                        case["peer"]["requests_per_s"])
            case["p99_ratio"] = case["krrd"]["p99_ms"] / case["peer"]["p99_ms"]
            cases.append(case)
    finally:
        peer.close()
        service.close()
    report = {"command": " ".join(sys.argv), "date": datetime.datetime.now().isoformat(),
              "cores": os.cpu_count(), "load_average": os.getloadavg(),
              "versions": versions(a.python), "cases": cases}
    text = json.dumps(report, indent=1)
    print(text)
    if a.output:
        (ROOT / a.output).write_text(text + "\n")


if __name__ == "__main__":
    main()
