"""Gaussian processes made in numpy, whose files an import takes: models that know their variance."""

import json
import struct

import numpy as np

import data

TYPE = {"Content-Type": "application/vnd.safetensors"}


class Process:
    """The exact posterior with the gaussian kernel and, of each target, noise of `noise` times its
    variance: mean k(x,C) coef, variance scale² (1 - |V'k(C,x)|²) with V V' = (K + noise I)^-1."""

    def __init__(self, X, Y, bandwidth=2.0, noise=0.1, targets=None, classes=None, directions=None):
        X, Y = np.asarray(X, dtype=float), np.asarray(Y, dtype=float).reshape(len(X), -1)
        self.bandwidth, self.classes = bandwidth, classes
        self.features = [f"x{j}" for j in range(X.shape[1])]
        self.targets = targets or (["kind"] if classes else [f"y{j}" for j in range(Y.shape[1])])
        self.mean, self.scale = X.mean(axis=0), X.std(axis=0)
        self.centers = (X - self.mean) / self.scale
        self.target_mean, self.target_scale = Y.mean(axis=0), Y.std(axis=0)
        K = data.kernel_matrix("gaussian", self.centers, self.centers, bandwidth) + noise * np.eye(len(X))
        self.coef = np.linalg.solve(K, (Y - self.target_mean) / self.target_scale)
        self.factor = np.linalg.inv(np.linalg.cholesky(K)).T[:, :directions]
        self.prior = self.target_scale ** 2
        self.noise = noise * self.prior

    def kernel(self, X):
        Z = (np.asarray(X, dtype=float) - self.mean) / self.scale
        return data.kernel_matrix("gaussian", Z, self.centers, self.bandwidth)

    def predict(self, X):
        """[rows, targets], or scores."""
        return self.target_mean + self.target_scale * (self.kernel(X) @ self.coef)

    def variance(self, X):
        """[rows, targets], or of scores."""
        left = 1 - ((self.kernel(X) @ self.factor) ** 2).sum(axis=1)
        return left[:, None] * self.prior

    def file(self, **changes):
        """A model file of version 2; `changes` replace tensors, None leaves one out."""
        tensors = {"coef": self.coef, "feature_mean": self.mean, "feature_scale": self.scale,
                   "target_mean": self.target_mean, "target_scale": self.target_scale,
                   "variance_factor": self.factor, "prior_variance": self.prior,
                   "noise_variance": self.noise, "centers": self.centers, **changes}
        model = {"version": 2, "kernel": {"name": "gaussian", "bandwidth": self.bandwidth},
                 "task": "classification" if self.classes else "regression",
                 "features": self.features, "targets": self.targets}
        if self.classes:
            model["classes"] = self.classes
        header, body = {"__metadata__": {"model": json.dumps(model)}}, b""
        for name, values in tensors.items():
            if values is not None:
                raw = np.ascontiguousarray(values, dtype="<f8").tobytes()
                header[name] = {"dtype": "F64", "shape": list(np.shape(values)),
                                "data_offsets": [len(body), len(body) + len(raw)]}
                body += raw
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        return struct.pack("<Q", len(text)) + text + body

    def put(self, api, name, expect=201, **changes):
        return api.post(f"/v1/models/{name}/import", expect, data=self.file(**changes), headers=TYPE).json()


def tensors(file):
    """Name -> array, of a model file."""
    start = 8 + struct.unpack("<Q", file[:8])[0]
    kinds = {"F64": "<f8", "F32": "<f4"}
    return {name: np.frombuffer(file[start + t["data_offsets"][0]:start + t["data_offsets"][1]], kinds[t["dtype"]]).reshape(t["shape"])
            for name, t in json.loads(file[8:start]).items() if name != "__metadata__"}


def regression(targets=1, n=60, seed=70, **options):
    """Of so many targets, the columns named y, or y0 and so on."""
    X, y = data.regression(n, seed=seed)
    Y = np.column_stack([y * (j + 1) + j for j in range(targets)])
    names = ["y"] if targets == 1 else None
    return Process(X, Y, **{"targets": names, **options})


def classifier(n=60, seed=71, **options):
    X, labels = data.classification(n, seed=seed)
    classes = sorted(set(labels))
    return Process(X, data.one_hot(labels, classes), classes=classes, **options)
