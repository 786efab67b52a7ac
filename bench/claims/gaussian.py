"""Gaussian processes for the claims about them: exact ones in NumPy float64, their hyper-parameters by the evidence
(SciPy), and those that krrd-worker makes of an order.

Targets have mean 0 and are y = f(x) + noise, f with covariance `amplitude` k(x, x'), the noise with variance `noise`.
A krrd job says the same with "regularization" = noise / (amplitude n), its solver's "amplitude" and no
standardising."""
import json
import os
import subprocess

import numpy
import scipy.linalg
import scipy.optimize

import problems

KERNELS = ("gaussian", "matern52")


# ---- kernels with a bandwidth a feature ----

def squares(A, B, bandwidths):
    A, B = A / bandwidths, B / bandwidths
    D = (A * A).sum(axis=1)[:, None] + (B * B).sum(axis=1) - 2 * A @ B.T
    return numpy.maximum(D, 0, out=D)


def kernel_matrix(name, A, B, bandwidths):
    D = squares(A, B, bandwidths)
    if name == "gaussian":
        return numpy.exp(-D / 2)
    R = numpy.sqrt(5 * D)
    return (1 + R + R * R / 3) * numpy.exp(-R)


def slope(name, D):
    """Minus twice the derivative of k by the squared distance."""
    if name == "gaussian":
        return numpy.exp(-D / 2)
    R = numpy.sqrt(5 * D)
    return 5 / 3 * (1 + R) * numpy.exp(-R)


# ---- exact ----

def log_evidence_and_gradient(name, X, y, logs):
    """By the logarithms of the d bandwidths, of the amplitude and of the noise's variance."""
    bandwidths, amplitude, noise = numpy.exp(logs[:-2]), numpy.exp(logs[-2]), numpy.exp(logs[-1])
    D = squares(X, X, bandwidths)
    K = kernel_matrix(name, X, X, bandwidths) * amplitude
    C = K + noise * numpy.eye(len(X))
    L = scipy.linalg.cholesky(C, lower=True)
    inverse = scipy.linalg.cho_solve((L, True), numpy.eye(len(X)))
    a = inverse @ y
    value = -0.5 * y @ a - numpy.log(numpy.diag(L)).sum() - len(y) / 2 * numpy.log(2 * numpy.pi)
    A = (numpy.outer(a, a) - inverse) / 2
    B = A * slope(name, D) * amplitude
    Z = X / bandwidths
    by_bandwidth = 2 * (B.sum(axis=1) @ Z ** 2 - numpy.einsum("ij,ij->j", Z, B @ Z))
    return value, numpy.concatenate([by_bandwidth, [(A * K).sum(), noise * numpy.trace(A)]])


def fit(name, X, y, steps=100):
    """(bandwidths, amplitude, noise) of the largest evidence; all are 1 to begin with. Within bounds, so that features
    without a meaning do not end at infinity and noise-free targets not at no noise."""
    d = X.shape[1]
    bounds = [(numpy.log(0.05), numpy.log(100))] * d + [(numpy.log(1e-2), numpy.log(1e3)), (numpy.log(1e-4), numpy.log(10))]

    def minus(logs):
        try:
            value, gradient = log_evidence_and_gradient(name, X, y, logs)
        except scipy.linalg.LinAlgError:
            return 1e10, numpy.zeros(d + 2)
        return -value, -gradient

    best = scipy.optimize.minimize(minus, numpy.zeros(d + 2), jac=True, bounds=bounds, method="L-BFGS-B",
                                   options={"maxiter": steps})
    found = numpy.exp(best.x)
    return found[:-2], float(found[-2]), float(found[-1])


class Exact:
    """The posterior by a Cholesky factor. `amplitude` None: the most likely one for this ridge = noise / amplitude."""

    def __init__(self, name, X, y, bandwidths, ridge, amplitude=None):
        self.name, self.X, self.bandwidths, self.ridge = name, X, bandwidths, ridge
        C = kernel_matrix(name, X, X, bandwidths)
        C[numpy.diag_indices(len(X))] += ridge
        self.L = scipy.linalg.cholesky(C, lower=True, overwrite_a=True)
        self.coef = scipy.linalg.cho_solve((self.L, True), y)
        self.amplitude = amplitude if amplitude is not None else y @ self.coef / len(y)
        self.noise = ridge * self.amplitude
        n = len(X)
        self.log_evidence = (-0.5 * y @ self.coef / self.amplitude - numpy.log(numpy.diag(self.L)).sum()
                             - n / 2 * numpy.log(2 * numpy.pi * self.amplitude))

    def predict(self, T):
        """Means and variances of f."""
        k = kernel_matrix(self.name, T, self.X, self.bandwidths)
        left = 1 - (scipy.linalg.solve_triangular(self.L, k.T, lower=True) ** 2).sum(axis=0)
        return k @ self.coef, self.amplitude * numpy.maximum(left, 0)


def krylov(A, y, steps):
    """Orthonormal basis of y, A y, ..., complete reorthogonalisation (twice)."""
    Q = numpy.zeros((len(y), steps))
    v = y
    for j in range(steps):
        for _ in range(2):
            v = v - Q[:, :j] @ (Q[:, :j].T @ v)
        Q[:, j] = v / numpy.linalg.norm(v)
        v = A @ Q[:, j]
    return Q


def finite_rank(k, S, K, y, ridge, amplitude, weights=None, diagonal=1.0):
    """Mean, variance and log evidence of the process whose kernel is k S (S'K S)^-1 S'k': the paper's formulas, with K
    between the points of S, and k a pair of matrices, of the training points and of others, to those. float64."""
    train, test = k
    L1 = scipy.linalg.cholesky(S.T @ K @ S, lower=True)
    R = scipy.linalg.solve_triangular(L1, (train @ S).T, lower=True).T
    T = scipy.linalg.solve_triangular(L1, (test @ S).T, lower=True).T
    w = numpy.ones(len(y)) if weights is None else weights
    B = R.T @ (w[:, None] * R) + ridge * numpy.eye(R.shape[1])
    L2 = scipy.linalg.cholesky(B, lower=True)
    b = scipy.linalg.solve_triangular(L2, R.T @ (w * y), lower=True)
    V = scipy.linalg.solve_triangular(L2, T.T, lower=True)
    variance = amplitude * (diagonal - (T ** 2).sum(axis=1) + ridge * (V ** 2).sum(axis=0))
    n, p = R.shape
    log_det = (2 * numpy.log(numpy.diag(L2)).sum() + (n - p) * numpy.log(ridge) - numpy.log(w).sum()
               + n * numpy.log(amplitude))
    evidence = -0.5 * ((w * y) @ y - b @ b) / (amplitude * ridge) - 0.5 * log_det - n / 2 * numpy.log(2 * numpy.pi)
    return V.T @ b, variance, evidence, R


# ---- krrd ----

class Model:
    """Of a file that krrd-worker wrote (src/wire/model_file.h). Without the variance's factor where there is none."""

    def __init__(self, path):
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header, body = json.loads(file.read(size)), file.read()
        of = {"F64": "<f8", "F32": "<f4"}
        info = json.loads(header.pop("__metadata__")["model"])
        self.kernel = info["kernel"]
        for name, t in header.items():
            begin, end = t["data_offsets"]
            setattr(self, name, numpy.frombuffer(body[begin:end], of[t["dtype"]]).reshape(t["shape"]).astype(float))
        if "bandwidths" not in header:
            self.bandwidths = self.kernel["bandwidth"]

    def predict(self, T):
        """Means and variances of f, in the targets' units."""
        k = kernel_matrix(self.kernel["name"], (T - self.feature_mean) / self.feature_scale, self.centers, self.bandwidths)
        mean = self.target_mean[0] + self.target_scale[0] * (k @ self.coef[:, 0])
        if not hasattr(self, "variance_factor"):
            return mean, None
        return mean, self.prior_variance[0] * (1 - ((k @ self.variance_factor) ** 2).sum(axis=1))


def train(worker, folder, data, spec, threads=1, tag="job"):
    """The result of the job and its Model."""
    order, model = os.path.join(folder, f"{tag}.json"), os.path.join(folder, f"{tag}.model")
    problems.write_order(order, data, {"target": "y", "test": {"fraction": 0}, "precision": "float64", **spec})
    command = [str(worker), "--job", order, "--model", model, "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()} {done.stdout.strip()[-500:]}")
    result = json.loads(done.stdout.splitlines()[-1])
    found = Model(model)
    os.unlink(model)
    os.unlink(order)
    return result, found
