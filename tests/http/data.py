"""Small problems, how they are written down for an upload, and kernel ridge regression in numpy."""

import io

import numpy as np


def regression(n, d=4, seed=0, noise=0.01):
    """X [n, d], y [n]: a smooth function with some noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(1.0, 3.0, d) + np.arange(d)
    Z = (X - np.arange(d)) / np.linspace(1.0, 3.0, d)
    y = np.sin(Z[:, 0]) + 0.5 * Z[:, 1] + 0.25 * Z[:, -1] ** 2
    return X, y + noise * rng.normal(size=n) + 2.0


def classification(n, labels=("black", "red", "white"), d=3, seed=0):
    """X [n, d] and n labels: one cloud of deviation 1 a label, 4 from one to the next."""
    rng = np.random.default_rng(seed)
    index = np.arange(n) % len(labels)
    centers = 4.0 * np.arange(len(labels))[:, None] * np.ones(d) / np.sqrt(d)
    return centers[index] + rng.normal(size=(n, d)), np.array(labels)[index]


def csv(X, y, names=None, target="y"):
    """CSV bytes with a header; numbers in repr, which float() reads back exactly."""
    X = np.asarray(X)
    names = names or [f"x{j}" for j in range(X.shape[1])]
    columns = np.asarray(y).reshape(len(X), -1)
    targets = [target] if columns.shape[1] == 1 else [f"{target}{j}" for j in range(columns.shape[1])]
    lines = [",".join([*names, *targets])]
    for row, values in zip(X.tolist(), columns.tolist()):
        lines.append(",".join(v if isinstance(v, str) else repr(v) for v in [*row, *values]))
    return ("\n".join(lines) + "\n").encode()


def npy(X):
    out = io.BytesIO()
    np.save(out, X)
    return out.getvalue()


def npz(X, y, **more):
    out = io.BytesIO()
    np.savez(out, X=X, y=y, **more)
    return out.getvalue()


def libsvm(X, y):
    lines = []
    for row, label in zip(np.asarray(X).tolist(), np.asarray(y).tolist()):
        cells = [f"{j + 1}:{v!r}" for j, v in enumerate(row) if v != 0.0]
        lines.append(" ".join([repr(label), *cells]))
    return ("\n".join(lines) + "\n").encode()


def distances(kernel, A, B):
    if kernel == "laplacian_l1":
        return np.abs(A[:, None, :] - B[None, :, :]).sum(axis=2)
    return np.sqrt(((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2))


def kernel_matrix(kernel, A, B, bandwidth):
    r = distances(kernel, A, B) / bandwidth
    if kernel == "gaussian":
        return np.exp(-0.5 * r * r)
    if kernel in ("laplacian", "laplacian_l1", "matern12"):
        return np.exp(-r)
    if kernel == "matern32":
        return (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)
    if kernel == "matern52":
        return (1 + np.sqrt(5) * r + 5.0 / 3.0 * r * r) * np.exp(-np.sqrt(5) * r)
    raise ValueError(kernel)


class Ridge:
    """Exact kernel ridge regression in float64: (K + n lambda I) a = y - mean(y), on features
    standardised by the training rows' mean and deviation (ddof 0)."""

    def __init__(self, X, Y, kernel, bandwidth, regularization, standardize=True):
        X = np.asarray(X, dtype=np.float64)
        self.kernel, self.bandwidth = kernel, bandwidth
        self.mean = X.mean(axis=0) if standardize else np.zeros(X.shape[1])
        self.scale = X.std(axis=0) if standardize else np.ones(X.shape[1])
        self.scale[self.scale == 0] = 1.0
        self.centers = (X - self.mean) / self.scale
        self.target_mean = np.asarray(Y, dtype=np.float64).mean(axis=0)
        K = kernel_matrix(kernel, self.centers, self.centers, bandwidth)
        K[np.diag_indices(len(X))] += len(X) * regularization
        self.coef = np.linalg.solve(K, Y - self.target_mean)

    def predict(self, X):
        Z = (np.asarray(X, dtype=np.float64) - self.mean) / self.scale
        return self.target_mean + kernel_matrix(self.kernel, Z, self.centers,
                                                self.bandwidth) @ self.coef

    def classify(self, X, labels):
        """Labels and scores; Y was one 0/1 column a label."""
        scores = self.predict(X)
        return [labels[k] for k in scores.argmax(axis=1)], scores


def one_hot(labels, classes):
    return (np.asarray(labels)[:, None] == np.asarray(classes)[None, :]).astype(np.float64)


def smape(p, y):
    p, y = np.asarray(p), np.asarray(y)
    half = (np.abs(p) + np.abs(y)) / 2
    return float(np.mean(np.divide(np.abs(p - y), half, out=np.zeros_like(half), where=half > 0)))
