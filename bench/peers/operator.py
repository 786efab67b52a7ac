#!/usr/bin/env python3
"""Times products with a kernel matrix: krr-bench against NumPy, SciPy, scikit-learn, PyTorch, KeOps.

All see the same numbers in the same run: krr-bench draws them and writes them with its own product
to a file, peers read the file, and their products are compared with it. They take turns: in every
round krr-bench runs plain, then symmetric, then each peer once; medians over the rounds are
reported. A peer never stores K as a whole: it works through blocks, of the shape that was fastest
for it in a trial before, and stops after --seconds; its rate is that of the rows it finished. No
peer uses symmetry, so both figures of krr-bench are compared with the same peers.

With several threads NumPy, SciPy and scikit-learn work on as many blocks of rows at a time, their
BLAS on one thread each; PyTorch and KeOps have threads of their own. A peer that does not import or
run is listed as skipped, with the reason.
"""
import sys

# This file's folder comes first in the path, where its name would hide the standard library's
# module `operator`.
if __name__ == "__main__":
    sys.path.pop(0)

import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

KERNELS = ("gaussian", "laplacian", "laplacian_l1")


def read_tensors(path):
    """The arrays of a safetensors file, by name."""
    import numpy

    types = {"F32": numpy.float32, "F64": numpy.float64}
    raw = numpy.fromfile(path, numpy.uint8)
    start = 8 + int.from_bytes(raw[:8].tobytes(), "little")
    tensors = {}
    for name, entry in json.loads(raw[8:start].tobytes()).items():
        first, end = entry["data_offsets"]
        tensors[name] = raw[start + first : start + end].view(types[entry["dtype"]]).reshape(entry["shape"])
    return tensors


# ---- the peers: each is made for one problem, and multiplies a block of rows at a time ----


class Problem:
    def __init__(self, path, kernel, bandwidth):
        tensors = read_tensors(path)
        self.kernel, self.bandwidth = kernel, bandwidth
        self.X, self.Z = tensors["points"], tensors["centers"]
        self.V = tensors["weights"].T.copy()
        self.product = tensors["product"].T


class Peer:
    own_threads = False  # works on one block at a time, with threads of its own
    blocks = [(128, 4096), (512, 2048), (256, None), (1024, None)]  # rows, columns (None: all)


class Numpy(Peer):
    """The dot form by BLAS; for the l1 norm one feature after the other."""

    def __init__(self, problem):
        import numpy

        self.np, self.p = numpy, problem
        scale = problem.bandwidth * (2**0.5 if problem.kernel == "gaussian" else 1.0)
        self.X, self.Z = problem.X / problem.X.dtype.type(scale), problem.Z / problem.Z.dtype.type(scale)
        self.x2, self.z2 = (self.X**2).sum(axis=1), (self.Z**2).sum(axis=1)

    def distances(self, rows, cols):
        np, X, Z = self.np, self.X[rows], self.Z[cols]
        if self.p.kernel == "laplacian_l1":
            D, diff = np.zeros((len(X), len(Z)), X.dtype), np.empty((len(X), len(Z)), X.dtype)
            for j in range(X.shape[1]):
                np.subtract(X[:, j, None], Z[None, :, j], out=diff)
                np.abs(diff, out=diff)
                D += diff
            return D
        D = X @ (2 * Z.T)
        D -= self.x2[rows, None]
        D -= self.z2[None, cols]
        np.minimum(D, 0, out=D)
        np.negative(D, out=D)
        return np.sqrt(D, out=D) if self.p.kernel == "laplacian" else D

    def block(self, rows, cols):
        D = self.distances(rows, cols)
        self.np.negative(D, out=D)
        self.np.exp(D, out=D)
        return D @ self.p.V[cols]


class Scipy(Peer):
    """scipy.spatial.distance.cdist, which computes in float64."""

    def __init__(self, problem):
        import numpy
        from scipy.spatial.distance import cdist

        self.np, self.cdist, self.p = numpy, cdist, problem
        self.V = problem.V.astype(numpy.float64)
        metric = {"gaussian": "sqeuclidean", "laplacian": "euclidean", "laplacian_l1": "cityblock"}
        self.metric = metric[problem.kernel]
        s = problem.bandwidth
        self.factor = -1 / (2 * s * s) if problem.kernel == "gaussian" else -1 / s

    def block(self, rows, cols):
        D = self.cdist(self.p.X[rows], self.p.Z[cols], self.metric)
        D *= self.factor
        self.np.exp(D, out=D)
        return D @ self.V[cols]


class Sklearn(Peer):
    """rbf_kernel and laplacian_kernel."""

    def __init__(self, problem):
        from sklearn.metrics import pairwise

        if problem.kernel == "laplacian":
            raise NotImplementedError("scikit-learn has no laplacian kernel with the l2 norm")
        gaussian, s = problem.kernel == "gaussian", problem.bandwidth
        self.function = pairwise.rbf_kernel if gaussian else pairwise.laplacian_kernel
        self.gamma, self.p = (1 / (2 * s * s) if gaussian else 1 / s), problem

    def block(self, rows, cols):
        return self.function(self.p.X[rows], self.p.Z[cols], gamma=self.gamma) @ self.p.V[cols]


class Torch(Peer):
    own_threads = True

    def __init__(self, problem):
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        torch.set_grad_enabled(False)
        self.torch, self.p = torch, problem
        scale = problem.bandwidth * (2**0.5 if problem.kernel == "gaussian" else 1.0)
        self.X, self.Z = (torch.from_numpy(A / A.dtype.type(scale)) for A in (problem.X, problem.Z))
        self.V = torch.from_numpy(problem.V)


class TorchGemm(Torch):
    """The dot form: addmm, clamp, exp in place."""

    def __init__(self, problem):
        super().__init__(problem)
        if problem.kernel == "laplacian_l1":
            raise NotImplementedError("the l1 norm has no dot form")
        self.x2, self.z2 = -(self.X**2).sum(1), -(self.Z**2).sum(1)

    def block(self, rows, cols):
        base = self.x2[rows, None] + self.z2[None, cols]
        D = base.addmm_(self.X[rows], self.Z[cols].T, alpha=2).clamp_(max=0)
        if self.p.kernel == "laplacian":
            D = D.neg_().sqrt_().neg_()
        return (D.exp_() @ self.V[cols]).numpy()


class TorchCdist(Torch):
    """torch.cdist."""

    def block(self, rows, cols):
        l1, gaussian = self.p.kernel == "laplacian_l1", self.p.kernel == "gaussian"
        D = self.torch.cdist(self.X[rows], self.Z[cols], p=1.0 if l1 else 2.0)
        D = D.square_() if gaussian else D
        return (D.neg_().exp_() @ self.V[cols]).numpy()


class Keops(Torch):
    """A KeOps formula, compiled for the CPU with OpenMP; it takes all columns at once."""

    blocks = [(256, None), (1024, None)]

    def __init__(self, problem):
        super().__init__(problem)
        from pykeops.torch import LazyTensor

        self.lazy = LazyTensor
        self.z = LazyTensor(self.Z[None, :, :])

    def block(self, rows, cols):
        diff = self.lazy(self.X[rows][:, None, :]) - self.z
        norm = diff.abs().sum(-1) if self.p.kernel == "laplacian_l1" else (diff**2).sum(-1)
        norm = norm.sqrt() if self.p.kernel == "laplacian" else norm
        return ((-norm).exp() @ self.V).numpy()


PEERS = {
    "numpy": Numpy,
    "scipy_cdist": Scipy,
    "sklearn": Sklearn,
    "torch_gemm": TorchGemm,
    "torch_cdist": TorchCdist,
    "keops": Keops,
}
MODULES = {"numpy": "numpy", "scipy_cdist": "scipy", "sklearn": "sklearn", "torch_gemm": "torch",
           "torch_cdist": "torch", "keops": "pykeops"}


# ---- one process for each number of threads, which answers requests a line each ----


class Worker:
    def __init__(self, threads):
        self.threads = threads
        self.pool = concurrent.futures.ThreadPoolExecutor(threads)
        self.problem, self.peers = None, {}

    def multiply_rows(self, peer, first, size, columns):
        rows = slice(first, min(first + size, len(self.problem.X)))
        m = len(self.problem.Z)
        step = m if columns is None else columns
        return sum(peer.block(rows, slice(c, min(c + step, m))) for c in range(0, m, step))

    def time(self, name, shape, seconds):
        """Blocks of rows until the time is up or all are done."""
        peer, (size, columns) = self.peers[name], shape
        together = 1 if peer.own_threads else self.threads
        parts, first, began = [], 0, time.perf_counter()
        while first < len(self.problem.X) and (not parts or time.perf_counter() - began < seconds):
            starts = [f for f in range(first, first + together * size, size) if f < len(self.problem.X)]
            if len(starts) == 1:
                parts += [self.multiply_rows(peer, starts[0], size, columns)]
            else:
                parts += self.pool.map(lambda f: self.multiply_rows(peer, f, size, columns), starts)
            first = starts[-1] + size
        taken = time.perf_counter() - began
        return self.judge(parts, taken)

    def judge(self, parts, taken):
        import numpy

        Y = numpy.concatenate(parts)
        expected = self.problem.product[: len(Y)].astype(numpy.float64)
        difference = float(numpy.abs(Y - expected).max() / numpy.abs(expected).max())
        entries = len(Y) * len(self.problem.Z)
        return {"rows": len(Y), "seconds": taken, "entries_per_s": entries / taken, "max_difference": difference}

    def open(self, path, kernel, bandwidth, names):
        self.problem, self.peers, skipped = Problem(path, kernel, bandwidth), {}, {}
        for name in names:
            try:
                self.peers[name] = PEERS[name](self.problem)
                self.time(name, self.peers[name].blocks[0], 0.0)
            except Exception as error:  # whatever a peer's installation may raise
                self.peers.pop(name, None)
                skipped[name] = f"{type(error).__name__}: {error}".splitlines()[0]
        return {"peers": list(self.peers), "skipped": skipped}

    def tune(self, name, seconds):
        best = max(self.peers[name].blocks, key=lambda shape: self.time(name, shape, seconds)["entries_per_s"])
        return {"shape": best}

    def versions(self):
        found = {}
        for module in sorted({MODULES[name] for name in self.peers}):
            found[module] = getattr(sys.modules[module], "__version__", "?")
        return found


def serve(threads):
    worker = Worker(threads)
    # Some peers print while they are imported or compile; only answers go to the real stdout.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        method, arguments = json.loads(line)
        print(json.dumps(getattr(worker, method)(*arguments)), file=out, flush=True)


class WorkerProcess:
    def __init__(self, threads):
        # The pool above makes the threads for those whose BLAS would, so BLAS gets one.
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads),
                           OPENBLAS_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE")
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--worker", str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, method, *arguments):
        self.process.stdin.write(json.dumps([method, arguments]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process of the peers ended in {method} {arguments}")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---- the measurement ----


def bench_command(options, kernel, d, threads, *more):
    return [options.bench, "operator", "--kernel", kernel, "--n", str(options.n), "--m", str(options.n), "--d", str(d),
            "--rhs", str(options.rhs), "--precision", options.precision, "--device", "cpu", "--threads", str(threads),
            *more]


def run_bench(command):
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, OPENBLAS_NUM_THREADS="1"))
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def summarize_bench(command, reports):
    middle = sorted(reports, key=lambda r: r["entries_per_s"])[len(reports) // 2]
    return {**middle, "command": " ".join(command)}


def summarize_peer(name, shape, times):
    return {
        "name": name,
        "block": shape,
        "entries_per_s": statistics.median(t["entries_per_s"] for t in times),
        "best_entries_per_s": max(t["entries_per_s"] for t in times),
        "rows": times[0]["rows"],
        "max_difference": max(t["max_difference"] for t in times),
    }


def run_case(options, worker, kernel, d, threads, folder):
    path = os.path.join(folder, "product.safetensors")
    made = run_bench(bench_command(options, kernel, d, threads, "--repeat", "1", "--save", path))
    opened = worker.ask("open", path, kernel, made["bandwidth"], options.peers)
    shapes = {name: worker.ask("tune", name, options.seconds / 4)["shape"] for name in opened["peers"]}
    commands = {
        "plain": bench_command(options, kernel, d, threads, "--repeat", "3"),
        "symmetric": bench_command(options, kernel, d, threads, "--repeat", "3", "--symmetric"),
    }
    own, times, loads = {key: [] for key in commands}, {name: [] for name in shapes}, []
    for _ in range(options.rounds):
        loads.append(os.getloadavg()[0])
        for key, command in commands.items():
            own[key].append(run_bench(command))
        for name, shape in shapes.items():
            times[name].append(worker.ask("time", name, shape, options.seconds))
    os.unlink(path)
    peers = sorted((summarize_peer(name, shapes[name], times[name]) for name in shapes),
                   key=lambda peer: -peer["entries_per_s"])
    case = {"kernel": kernel, "d": d, "threads": threads, "load_average": loads, "peers": peers,
            "krr_bench": {key: summarize_bench(commands[key], own[key]) for key in commands}}
    best = peers[0]["entries_per_s"] if peers else float("nan")
    case["ratio"] = {key: case["krr_bench"][key]["entries_per_s"] / best for key in commands} if peers else None
    return case, opened["skipped"], worker.ask("versions")


def show(case):
    print(f"\n{case['kernel']} d = {case['d']}, {case['threads']} thread(s), load {case['load_average'][-1]:.1f}; "
          "million entries/s, and how many times krr-bench plain and symmetric are faster")
    own = case["krr_bench"]
    for key, r in own.items():
        print(f"  krr-bench {key:<10} {r['entries_per_s'] / 1e6:9.1f}   {r['fraction_of_limit']:.2f} of the limit"
              f"   {r['command']}")
    for peer in case["peers"]:
        rate = peer["entries_per_s"]
        print(f"  {peer['name']:<20} {rate / 1e6:9.1f}   {own['plain']['entries_per_s'] / rate:6.2f} "
              f"{own['symmetric']['entries_per_s'] / rate:6.2f}   block {peer['block']}", flush=True)


def write(options, results):
    """After every case, so that what was measured survives an interruption."""
    if options.output:
        options.output.write_text(json.dumps(results, indent=1) + "\n")


def measure(options):
    results = {"command": " ".join(["bench/peers/operator.py", *sys.argv[1:]]),
               "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
               "n": options.n, "rhs": options.rhs, "precision": options.precision, "rounds": options.rounds,
               "seconds": options.seconds, "cases": [], "skipped": [], "versions": {}}
    with tempfile.TemporaryDirectory() as folder:
        for threads in options.threads:
            worker = WorkerProcess(threads)
            for kernel in options.kernels:
                for d in options.d_l1 if kernel == "laplacian_l1" and options.d_l1 else options.d:
                    case, skipped, versions = run_case(options, worker, kernel, d, threads, folder)
                    show(case)
                    results["cases"].append(case)
                    results["versions"].update(versions)
                    results["cpu"], results["cores"] = (case["krr_bench"]["plain"][k] for k in ("cpu", "cores"))
                    results["skipped"] += [
                        {"name": name, "kernel": kernel, "d": d, "threads": threads, "reason": reason}
                        for name, reason in skipped.items()
                    ]
                    write(options, results)
            worker.close()
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/bench/krr-bench", help="the program (default: %(default)s)")
    parser.add_argument("--n", type=int, default=20000, help="rows on both sides")
    parser.add_argument("--d", type=int, nargs="+", default=[3, 18, 90])
    parser.add_argument("--d-l1", type=int, nargs="+", help="for laplacian_l1 instead of --d")
    parser.add_argument("--rhs", type=int, default=1)
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=["gaussian", "laplacian_l1"])
    parser.add_argument("--precision", choices=("float32", "float64"), default="float32")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a peer's run, at least one block")
    parser.add_argument("--output", type=pathlib.Path, help="write the results as JSON to this file")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(options.worker)
        return
    results = measure(options)
    reasons = {(s["name"], s["reason"]) for s in results["skipped"]}
    for name, reason in sorted(reasons):
        print(f"skipped: {name}: {reason}")


if __name__ == "__main__":
    main()
