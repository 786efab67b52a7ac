"""A daemon with models of known sizes, for measurements: only what Python and NumPy bring."""

import io
import json
import pathlib
import subprocess
import tempfile
import time
import urllib.request

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]


def points(m, d, seed=0):
    """Rows with a smooth target, and the bandwidth that suits them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1 % d] * X[:, 2 % d]
    return X, y, float(np.sqrt(2.0 * d))


class Service:
    """Options are settings with '_' for '-'."""

    def __init__(self, build, **options):
        self.folder = tempfile.TemporaryDirectory(prefix="krrd-bench-")
        data = pathlib.Path(self.folder.name)
        options = {"listen": "127.0.0.1:0", "data_dir": data, "log_level": "warning",
                   "max_connections": 2048, **options}
        words = [str(ROOT / build / "src/server/krrd")]
        for key, value in options.items():
            words += ["--" + key.replace("_", "-"), str(value)]
        self.command = words
        self.process = subprocess.Popen(words)
        address = data / "krrd.address"
        while not address.exists():
            assert self.process.poll() is None, "krrd ended"
            time.sleep(0.01)
        self.base = "http://" + address.read_text().strip()
        self.port = int(self.base.rsplit(":", 1)[1])

    def ask(self, method, path, body=None, content_type="application/json"):
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        request = urllib.request.Request(self.base + path, data, {"Content-Type": content_type},
                                         method=method)
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.loads(answer.read())

    def train(self, name, m, d, precision="float32"):
        """A model of m centers, by a few steps: only its size matters here."""
        X, y, bandwidth = points(m, d)
        file = io.BytesIO()
        np.savez(file, X=X, y=y)
        dataset = self.ask("POST", "/v1/datasets", file.getvalue(), "application/x-npz")["id"]
        job = self.ask("POST", "/v1/jobs", {
            "model": name, "dataset": dataset, "precision": precision, "test": {"fraction": 0},
            "kernel": {"name": "gaussian", "bandwidth": bandwidth}, "regularization": 1e-3,
            "solver": {"name": "pcg", "preconditioner": "none"},
            "stop": {"max_iterations": 5, "tolerance": 1e-12}})["id"]
        while (state := self.ask("GET", f"/v1/jobs/{job}"))["status"] in ("queued", "running"):
            time.sleep(0.1)
        assert state["status"] == "succeeded", state
        return self.ask("POST", f"/v1/models/{name}/versions/1/load")

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()
