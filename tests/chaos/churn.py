"""Predictions over many connections while models are loaded, unloaded, evicted and published, an alias
moves, and serving workers are killed.

    python3 tests/chaos/churn.py [--requests 10000] [--connections 64] [--seed 1]

Every answer must be right, to the bit that the row had before in that version, or a 429 or 503 with
Retry-After. Ends with 1 where one is not."""

import argparse
import collections
import os
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time

import numpy as np
import requests

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))

import daemon as programs  # noqa: E402
import data  # noqa: E402

MODELS = ("a", "b", "c", "growing")
ROWS = 400
BANDWIDTH = 3.0
RIDGE = 1e-4


class Churn:
    def __init__(self, folder, count, connections, seed):
        self.count, self.connections = count, connections
        self.least = {"kills": 1 + count // 2500, "versions": 1 + count // 2500,
                      "loads and unloads": count // 100}
        self.rng = random.Random(seed)
        self.lock = threading.Lock()
        self.done = 0
        self.over = threading.Event()
        self.faults = []
        self.seen = collections.Counter()
        self.bits = {}  # (model, version, row) -> what was answered first
        self.daemon = programs.Daemon(folder, serve_workers=2, log_level="warning",
                                      serve_memory_bytes=330_000)
        self.X, self.y = data.regression(ROWS, d=6, seed=7)
        self.Q = data.regression(64, d=6, seed=8)[0]
        self.references = {}
        self.api = self.daemon.api
        self.dataset = self.api.upload_npz(self.X, self.y)
        for model in MODELS:
            self.publish(model)
        self.move_alias("growing", 1)

    # ---- what is right ----

    def publish(self, model):
        """Each version has a ridge of its own, so that versions can be told apart."""
        version = 1 + sum(m == model for m, _ in self.references)
        ridge = RIDGE * (1 + version + 10 * MODELS.index(model))
        reference = data.Ridge(self.X, self.y, "gaussian", BANDWIDTH, ridge).predict(self.Q)
        self.references[model, version] = reference  # before anybody can be answered by it
        self.api.train(model, self.dataset, test={"fraction": 0}, precision="float64",
                       kernel={"name": "gaussian", "bandwidth": BANDWIDTH}, regularization=ridge,
                       solver={"name": "cholesky"})
        return version

    def move_alias(self, model, version):
        path = f"/v1/models/{model}/aliases/prod"
        with requests.Session() as session:
            for _ in range(50):
                tag = session.get(self.daemon.base + path).headers.get("ETag")
                head = {"If-Match": tag} if tag else {"If-None-Match": "*"}
                answer = session.put(self.daemon.base + path, json={"version": version}, headers=head)
                if answer.ok:
                    return
                time.sleep(0.1)
        self.fault(f"the alias did not move: {answer.status_code} {answer.text}")

    def fault(self, text):
        with self.lock:
            self.faults.append(text)

    def judge(self, model, version, first, values):
        if (model, version) not in self.references:
            self.fault(f"{model} has no version {version}")
            return
        reference = self.references[model, version]
        for i, value in enumerate(values, first):
            known = self.bits.setdefault((model, version, i), value)
            if known != value:
                self.fault(f"{model} {version} row {i}: {value!r}, before {known!r}")
            if not np.isclose(value, reference[i], rtol=1e-6, atol=1e-7):
                self.fault(f"{model} {version} row {i}: {value!r} is not {reference[i]!r}")

    # ---- clients ----

    def ask(self, session, rng):
        model = rng.choice(MODELS)
        first = rng.randrange(60)
        rows = self.Q[first:first + rng.choice((1, 1, 1, 2, 4))]
        base, way = self.daemon.base, rng.randrange(4)
        if way == 0:
            path = f"/v1/models/{model}/versions/1/predict"
        elif way == 1:
            model, path = "growing", "/v1/models/growing/aliases/prod/predict"
        else:
            path = f"/v1/models/{model}/predict"
        if way == 2:
            answer = session.post(base + path, data=data.npy(rows), timeout=60,
                                  headers={"Content-Type": "application/x-npy",
                                           "Accept": "application/json"})
        else:
            answer = session.post(base + path, json={"instances": rows.tolist()}, timeout=60)
        with self.lock:
            self.seen[answer.status_code] += 1
        if answer.status_code == 200:
            found = answer.json()
            self.judge(found["model"], found["version"], first, found["predictions"])
            if len(found["predictions"]) != len(rows) or found["model"] != model:
                self.fault(f"{path} answered {answer.text[:200]}")
        elif answer.status_code not in (429, 503) or "Retry-After" not in answer.headers:
            self.fault(f"{path}: {answer.status_code} {answer.text[:300]}")

    def enough(self):
        """All requests are done, and what disturbs them has happened often enough: by numbers and not by
        the clock, since a busy machine does the one and the other at rates of its own."""
        return self.done >= self.count and all(self.seen[what] >= n for what, n in self.least.items())

    def client(self, seed):
        rng = random.Random(seed)
        with requests.Session() as session:
            while True:
                with self.lock:
                    if self.enough() or self.faults:
                        return
                    self.done += 1
                try:
                    self.ask(session, rng)
                except requests.RequestException as e:
                    self.fault(f"no answer: {e!r}")

    # ---- what disturbs them ----

    def churn_models(self):
        rng = random.Random(self.rng.random())
        with requests.Session() as session:
            while not self.over.wait(0.01):
                path = f"{self.daemon.base}/v1/models/{rng.choice(MODELS)}/versions/1/"
                answer = session.post(path + rng.choice(("load", "unload")), timeout=60)
                if answer.status_code not in (200, 409, 503):
                    self.fault(f"{path}: {answer.status_code} {answer.text[:200]}")
                self.seen["loads and unloads"] += 1

    def churn_versions(self):
        while not self.over.wait(0.3):
            version = self.publish("growing")
            self.move_alias("growing", version)
            self.seen["versions"] += 1

    def kill_workers(self):
        rng = random.Random(self.rng.random())
        with requests.Session() as session:
            while not self.over.wait(rng.uniform(0.5, 1.5)):
                workers = session.get(self.daemon.base + "/v1/workers").json()["data"]
                pids = [w["pid"] for w in workers if w["kind"] == "serve" and w["pid"]]
                try:
                    os.kill(rng.choice(pids), signal.SIGKILL)
                    self.seen["kills"] += 1
                except (IndexError, ProcessLookupError):
                    pass  # none is up, or it was just replaced

    def run(self):
        """What is wrong, and a count of what was seen."""
        clients = [threading.Thread(target=self.client, args=(self.rng.random(),))
                   for _ in range(self.connections)]
        others = [threading.Thread(target=f)
                  for f in (self.churn_models, self.churn_versions, self.kill_workers)]
        for thread in clients + others:
            thread.start()
        for thread in clients:
            thread.join()
        self.over.set()
        for thread in others:
            thread.join()
        self.daemon.close()
        return self.faults, self.seen


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="krrd-churn-") as folder:
        faults, seen = Churn(folder, a.requests, a.connections, a.seed).run()
    print(dict(seen))
    for fault in faults[:20]:
        print(fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
