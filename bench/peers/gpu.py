#!/usr/bin/env python3
"""Times products Y = K V on a GPU: krr-bench-cuda operator against PyTorch and KeOps, in one run.

They take turns: krr-bench plain, every peer, krr-bench symmetric, every peer; --rounds times. Each
draws standard normal points and weights of its own, of the same sizes. Rates are medians over the
turns (krr-bench's over its products, too); a peer that would need longer than --seconds for all
rows does a part of them, and its rate is of those. Every result is compared with float64 on 16 rows,
by krr-bench's measure: |y - y64| / sum |k| |v|.

    torch            blocks of rows and columns, of the shape that is fastest in a trial before; gaussian:
                     addmm (one norm is its bias, the other a feature), exp_, mv, in float32 without TF32;
                     laplacian_l1: cdist with p = 1
    torch_tf32       gaussian with TF32 allowed, which has 11 bits
    torch_features   laplacian_l1, one feature after the other
    keops            a LazyTensor's formula, all columns at once

PyTorch and KeOps have a process each, so that one that hangs can be ended: KeOps compiles a formula
at its first use, while krr-bench runs plain. What each prints is in a file beside --output, whose last
lines go with the reason where one ends, and where its process was when it was ended; the next case
starts it once more. No peer uses symmetry: both figures of krr-bench are
divided by the same rates. Cases that do not fit into --limit are left out, and said so; the first
ones of the list below tell the most. Needs Python with PyTorch; a peer that does not import or run
is listed as skipped, with the reason.
"""
import sys

# This file's folder comes first in the path, where operator.py would hide the standard library's.
if __name__ == "__main__":
    sys.path.pop(0)

import argparse
import ctypes
import datetime
import faulthandler
import json
import os
import pathlib
import select
import shlex
import shutil
import signal
import statistics
import subprocess
import sysconfig
import tempfile
import time

CASES = ["gaussian:18", "gaussian:90", "laplacian_l1:435", "gaussian:435", "gaussian:3", "laplacian_l1:18",
         "gaussian:28", "gaussian:9"]
CHECKED_ROWS = 16


# ---- the peers: in a process each, which answers requests a line each ----


class Problem:
    """Points and weights on the device, scaled so that K = exp(-|x - z|^2) or exp(-|x - z|_1)."""

    def __init__(self, torch, device, kernel, n, d, bandwidth, seed):
        generator = torch.Generator(device).manual_seed(seed)
        scale = bandwidth * (2**0.5 if kernel == "gaussian" else 1.0)
        self.torch, self.device, self.kernel, self.n, self.d = torch, device, kernel, n, d
        self.X, self.Z = (torch.randn(n, d, device=device, generator=generator).div_(scale) for _ in "XZ")
        self.v = torch.randn(n, device=device, generator=generator)

    def wait(self):
        if self.device != "cpu":
            self.torch.cuda.synchronize()

    def error(self, y):
        """Of 16 of the first len(y) rows, against float64 by differences."""
        torch, rows = self.torch, len(y)
        index = torch.linspace(0, rows - 1, min(rows, CHECKED_ROWS), device=self.device).long()
        x, sums, sizes = self.X[index].double(), 0.0, 0.0
        step = max(1, (1 << 26) // (len(index) * self.d))
        for first in range(0, self.n, step):
            z, v = self.Z[first : first + step].double(), self.v[first : first + step].double()
            diff = x[:, None, :] - z[None, :, :]
            norm = diff.abs_() if self.kernel == "laplacian_l1" else diff.square_()
            k = norm.sum(-1).neg_().exp_()
            sums, sizes = sums + k @ v, sizes + k @ v.abs()
        return float(((y[index].double() - sums).abs() / sizes).max())


class TorchGaussian:
    # Rows and columns of a block: what the L2 cache holds, and more of what memory holds.
    shapes = [(1024, 8192), (4096, 8192), (8192, 32768), (16384, 65536)]
    tf32 = False

    def __init__(self, problem):
        torch, p = problem.torch, problem
        self.p = p
        # Rows of a multiple of 8 numbers, as the tensor cores' products want them.
        self.X, self.Z = (torch.zeros(p.n, p.d // 8 * 8 + 8, device=p.device) for _ in "XZ")
        self.X[:, : p.d], self.X[:, p.d] = p.X * 2, p.X.square().sum(1).neg_()
        self.Z[:, : p.d], self.Z[:, p.d] = p.Z, 1
        self.Z = self.Z.T.contiguous()
        self.bias = p.Z.square().sum(1).neg_()

    def rows(self, first, size, columns):
        torch, p = self.p.torch, self.p
        torch.backends.cuda.matmul.allow_tf32 = self.tf32
        X, y = self.X[first : first + size], 0.0
        for c in range(0, p.n, columns):
            D = torch.addmm(self.bias[c : c + columns], X, self.Z[:, c : c + columns])
            y = y + D.exp_() @ p.v[c : c + columns]
        return y


class TorchTf32(TorchGaussian):
    tf32 = True


class TorchCdist:
    shapes = [(256, 8192), (1024, 8192)]

    def __init__(self, problem):
        self.p = problem

    def rows(self, first, size, columns):
        p, y = self.p, 0.0
        X = p.X[first : first + size]
        for c in range(0, p.n, columns):
            D = p.torch.cdist(X, p.Z[c : c + columns], p=1.0)
            y = y + D.neg_().exp_() @ p.v[c : c + columns]
        return y


class TorchFeatures:
    shapes = [(1024, 4096), (1024, 16384)]

    def __init__(self, problem):
        self.p = problem
        self.X, self.Z = (A.T.contiguous() for A in (problem.X, problem.Z))

    def rows(self, first, size, columns):
        p, y = self.p, 0.0
        X = self.X[:, first : first + size]
        for c in range(0, p.n, columns):
            Z = self.Z[:, c : c + columns]
            D = (X[0][:, None] - Z[0][None, :]).abs_()
            for x, z in zip(X[1:], Z[1:]):
                D += (x[:, None] - z[None, :]).abs_()
            y = y + D.neg_().exp_() @ p.v[c : c + columns]
        return y


class Keops:
    # A thread has a row: fewer would leave the device idle.
    shapes = [(65536, None), (1 << 30, None)]

    def __init__(self, problem):
        from pykeops.torch import LazyTensor

        self.lazy, self.p = LazyTensor, problem
        self.z = LazyTensor(problem.Z[None, :, :])

    def rows(self, first, size, columns):
        diff = self.lazy(self.p.X[first : first + size][:, None, :]) - self.z
        norm = diff.abs().sum(-1) if self.p.kernel == "laplacian_l1" else (diff**2).sum(-1)
        backend = "CPU" if self.p.device == "cpu" else "GPU_1D"
        return (-norm).exp().__matmul__(self.p.v[:, None], backend=backend)[:, 0]


PEERS = {
    ("torch", "gaussian"): TorchGaussian,
    ("torch_tf32", "gaussian"): TorchTf32,
    ("torch", "laplacian_l1"): TorchCdist,
    ("torch_features", "laplacian_l1"): TorchFeatures,
    ("keops", "gaussian"): Keops,
    ("keops", "laplacian_l1"): Keops,
}
PROCESSES = {"torch": ("torch", "torch_tf32", "torch_features"), "keops": ("keops",)}


class Worker:
    def __init__(self, device):
        import torch

        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = False
        self.torch, self.device, self.problem, self.peers = torch, device, None, {}

    def versions(self):
        torch, found = self.torch, {"python": sys.version.split()[0], "torch": self.torch.__version__}
        if self.device != "cpu":
            found["cuda_of_torch"] = torch.version.cuda
            found["device"] = torch.cuda.get_device_name()
        if "pykeops" in sys.modules:
            found["pykeops"] = sys.modules["pykeops"].__version__
        return found

    def prepare(self, names, kernel, d):
        """Imports, and compiles what must be, on a few points: an error for each that does not run."""
        failed = {}
        for name in names:
            try:
                small = Problem(self.torch, self.device, kernel, 64, d, float(d), 0)
                PEERS[name, kernel](small).rows(0, 64, 64)
                small.wait()
            except Exception as error:  # whatever a peer's installation may raise
                failed[name] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        return failed

    def open(self, names, kernel, n, d, bandwidth):
        self.peers, self.problem = {}, None
        if self.device != "cpu":
            self.torch.cuda.empty_cache()
        self.problem = Problem(self.torch, self.device, kernel, n, d, bandwidth, 1)
        self.peers = {name: PEERS[name, kernel](self.problem) for name in names}

    def tune(self, name, seconds):
        """The fastest shape, within a tenth of so many seconds for each, after a block that warms up."""

        def rate(shape):
            self.peers[name].rows(0, *shape)
            self.problem.wait()
            return self.time(name, shape, seconds / 10, False)["entries_per_s"]

        return max(self.peers[name].shapes, key=rate)

    def time(self, name, shape, seconds, check=True):
        """Blocks of rows until the time is up or all are done."""
        p, peer, (size, columns) = self.problem, self.peers[name], shape
        parts, first, began = [], 0, time.perf_counter()
        while first < p.n and (not parts or time.perf_counter() - began < seconds):
            parts.append(peer.rows(first, size, columns))
            first = min(first + size, p.n)
            p.wait()
        taken = time.perf_counter() - began
        answer = {"rows": first, "seconds": taken, "entries_per_s": first * p.n / taken}
        return {**answer, "max_rel_err": p.error(self.torch.cat(parts))} if check else answer

    def close(self):
        """The memory is free for others."""
        self.peers, self.problem = {}, None
        if self.device != "cpu":
            self.torch.cuda.empty_cache()


def serve(device):
    faulthandler.enable()
    sys.stdout.reconfigure(line_buffering=True)  # what was said before a crash is of use
    # Some peers print while they are imported or compile; only answers go to the real stdout.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = None
    for line in sys.stdin:
        method, arguments = json.loads(line)
        try:
            worker = worker or Worker(device)
            answer = {"ok": getattr(worker, method)(*arguments)}
        except Exception as error:  # torch is not there, or the device has no memory left
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        print(json.dumps(answer), file=out, flush=True)


class Gone(RuntimeError):
    pass


# ---- what KeOps needs ----

# Of CUDA, what KeOps and its headers take, and Python's wheels that have it.
NEEDED = {"include/cuda.h": "nvidia-cuda-runtime", "include/nvrtc.h": "nvidia-cuda-nvrtc",
          "include/crt/host_defines.h": "nvidia-cuda-crt", "include/nv/target": "nvidia-cuda-cccl",
          "lib64/libnvrtc.so": "nvidia-cuda-nvrtc", "lib64/libcudart.so": "nvidia-cuda-runtime",
          "lib64/libcuda.so": "the driver"}


def link(folder, path, name):
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / name).exists():
        (folder / name).symlink_to(path)


def cuda_roots():
    """Folders that have parts of CUDA's toolkit: those of Python's wheels first, whose libraries PyTorch takes."""
    wheels = [path for place in sys.path for path in sorted((pathlib.Path(place or ".") / "nvidia").glob("*"))]
    toolkits = [os.environ[name] for name in ("CUDA_PATH", "CUDA_HOME") if os.environ.get(name)]
    return wheels + [pathlib.Path(root) for root in [*toolkits, "/usr/local/cuda", "/opt/cuda", "/usr"]]


def driver_library():
    """The file that the loader takes for libcuda.so.1, which a process must not have twice; None: there is none."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return next((pathlib.Path(line.split()[-1]) for line in lines if "/libcuda.so" in line), None)


def gather_cuda(made, roots, driver):
    """Links in one folder: all headers, libraries of a toolkit for the linker under names without a version, and
    in lib those for the loader, of the first root that has them."""
    if driver:
        link(made / "lib64", driver, "libcuda.so")
    for root in roots:
        folders = [root / name for name in ("lib64", "lib", "lib/x86_64-linux-gnu")]
        for library in ("libcudart", "libnvrtc"):
            found = [path for folder in folders for path in sorted(folder.glob(library + "[.-]*so.*"))]
            named = [path for path in found if path.name.startswith(library + ".so.")]
            if named and not (made / "lib64" / (library + ".so")).exists():
                link(made / "lib64", named[0], library + ".so")
                for path in found:
                    link(made / "lib", path, path.name)
        own = root != pathlib.Path("/usr")  # the compiler looks there by itself, and most of it is not CUDA's
        for folder in (root / "include", root / "include" / "cccl"):
            for path in folder.glob("*") if own else [folder / name for name in ("cuda.h", "nvrtc.h", "cuda_fp16.h")]:
                if path.exists():
                    link(made / "include", path, path.name)


def keops_lacks(made):
    lacks = [f"{name} ({owner})" for name, owner in NEEDED.items() if not (made / name).exists()]
    if not shutil.which(os.environ.get("CXX") or "g++"):
        lacks.append("g++")
    if not pathlib.Path(sysconfig.get_paths()["include"], "Python.h").exists():
        lacks.append("Python.h")
    return lacks


def keops_environment(scratch):
    """KeOps looks for the driver, cudart and nvrtc where the loader and the linker do, under names without a
    version, and for cuda.h and nvrtc.h in one folder: they may be parts of a toolkit, or of Python's wheels."""
    made, environment = pathlib.Path(scratch) / "cuda", dict(os.environ)
    gather_cuda(made, cuda_roots(), driver_library())
    environment.update({"CUDA_PATH": str(made), "KEOPS_CACHE_FOLDER": str(pathlib.Path(scratch) / "keops")})
    for name, folder in (("LIBRARY_PATH", "lib64"), ("LD_LIBRARY_PATH", "lib")):
        environment[name] = ":".join([str(made / folder), *filter(None, [os.environ.get(name)])])
    return environment, keops_lacks(made)


# ---- processes ----


def how_it_ended(status):
    if status is None:
        return "its process said no more"
    return f"its process was ended by {signal.Signals(-status).name}" if status < 0 else \
        f"its process ended with status {status}"


class Process:
    """Answers in time or is ended. What it says besides is in a file, whose last lines go with the reason."""

    def __init__(self, device, log, environment=None, lacks=()):
        self.log, self.lacks = pathlib.Path(log), list(lacks)
        self.from_byte = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as file:
            self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker", device], env=environment,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True)

    def tail(self, count=32):
        """The last lines that it wrote, and what its installation lacks."""
        with self.log.open("rb") as file:
            file.seek(self.from_byte)
            said = file.read().decode(errors="replace").splitlines()
        lines = [line[:160] for line in said if line.strip() and not line.startswith("Extension modules:")][-count:]
        lacks = ["not found on this machine: " + ", ".join(self.lacks)] if self.lacks else []
        return "\n".join(lines + lacks)[-3000:]

    def gone(self, reason):
        tail = self.tail()
        return Gone(reason + (":\n" + tail if tail else ""))

    def end(self, number):
        """A signal, and whether that was the end of it."""
        self.process.send_signal(number)
        try:
            return self.process.wait(3)
        except subprocess.TimeoutExpired:
            return None

    def tell(self, method, *arguments):
        try:
            self.process.stdin.write(json.dumps([method, arguments]) + "\n")
            self.process.stdin.flush()
        except OSError:
            raise self.gone(how_it_ended(self.end(0))) from None

    def hear(self, seconds):
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            # SIGABRT lets it say where it was (faulthandler).
            status = self.end(0 if ready else signal.SIGABRT)
            reason = how_it_ended(status) if ready else f"no answer in {seconds:.0f} s"
            self.process.kill()
            raise self.gone(reason)
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["ok"]

    def ask(self, seconds, method, *arguments):
        self.tell(method, *arguments)
        return self.hear(seconds)

    def close(self):
        self.process.kill()
        self.process.wait()


# ---- the measurement ----


def bench_command(options, kernel, n, d, kind):
    words = [*shlex.split(options.launcher), options.krr_bench, "operator", "--device", options.device, "--kernel", kernel,
             "--n", n, "--d", d, "--repeat", options.repeat]
    return [str(word) for word in words] + (["--symmetric"] if kind == "symmetric" else ["--m", str(n)])


def run_bench(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def summarize_bench(command, reports):
    middle = sorted(reports, key=lambda r: r["entries_per_s"])[len(reports) // 2]
    kept = ("entries_per_s", "seconds", "seconds_best", "repeat", "max_rel_err", "device", "notice", "bandwidth")
    return {**{key: middle[key] for key in kept}, "command": shlex.join(command)}


def summarize_peer(name, shape, turns):
    return {"name": name, "block": shape, "entries_per_s": statistics.median(t["entries_per_s"] for t in turns),
            "best_entries_per_s": max(t["entries_per_s"] for t in turns), "turns": len(turns),
            "rows": turns[0]["rows"], "max_rel_err": max(t["max_rel_err"] for t in turns)}


class Case:
    def __init__(self, options, processes, kernel, d):
        self.options, self.processes, self.kernel, self.d = options, processes, kernel, d
        self.n = min(options.n, int(options.numbers / d) // 1000 * 1000) or 1000
        self.bandwidth = float(d) if kernel == "laplacian_l1" else d**0.5
        self.names = {process: [name for name in PROCESSES[process] if (name, kernel) in PEERS] for process in processes}
        self.shapes, self.turns, self.used = {}, {}, {}
        self.skipped = {name: f"its process has ended {STARTS} times" for process in options.peers if process not in processes
                        for name in PROCESSES[process] if (name, kernel) in PEERS}

    def each(self, action):
        """`action` for every process; one that fails takes part no more."""
        for process in [p for p in self.names if self.names[p]]:
            try:
                action(process, self.processes[process])
            except RuntimeError as error:
                self.skipped.update({name: str(error) for name in self.names[process]})
                self.names[process] = []
                if isinstance(error, Gone):
                    self.processes.pop(process).close()

    def left(self):
        return max(self.options.began + self.options.limit - time.monotonic(), 1.0)

    def ask(self, process, *request):
        """All that a process is asked in a case, but for what it prepares, has --share seconds."""
        seconds = min(self.options.share - self.used.get(process, 0.0), self.left())
        if seconds <= 0:
            raise RuntimeError(f"its {self.options.share:g} s for a case are used up")
        began = time.monotonic()
        try:
            return self.processes[process].ask(seconds, *request)
        finally:
            self.used[process] = self.used.get(process, 0.0) + time.monotonic() - began

    def ready(self, process, talker):
        failed = talker.hear(min(self.options.patience, self.left()))
        self.skipped.update({name: "\n".join([reason, talker.tail()]).strip() for name, reason in failed.items()})
        self.names[process] = [name for name in self.names[process] if name not in failed]

    def open(self, process, _):
        names, seconds = self.names[process], self.options.seconds
        self.ask(process, "open", names, self.kernel, self.n, self.d, self.bandwidth)
        for name in names:
            self.shapes[name] = self.ask(process, "tune", name, seconds)
            self.turns[name] = []

    def time(self, process, _):
        for name in self.names[process]:
            self.turns[name].append(self.ask(process, "time", name, self.shapes[name], self.options.seconds))

    def run(self):
        commands = {kind: bench_command(self.options, self.kernel, self.n, self.d, kind)
                    for kind in ("plain", "symmetric")}
        own = {kind: [] for kind in commands}
        self.each(lambda process, talker: talker.tell("prepare", self.names[process], self.kernel, self.d))
        for turn in range(self.options.rounds):
            for kind, command in commands.items():
                own[kind].append(run_bench(command))
                if turn == 0 and kind == "plain":
                    self.each(self.ready)
                    self.each(self.open)
                self.each(self.time)
        self.each(lambda process, _: self.ask(process, "close"))
        return self.summary({kind: summarize_bench(commands[kind], own[kind]) for kind in commands})

    def summary(self, own):
        peers = [summarize_peer(name, self.shapes[name], turns) for name, turns in self.turns.items() if turns]
        peers.sort(key=lambda peer: -peer["entries_per_s"])
        ratios = {peer["name"]: {kind: own[kind]["entries_per_s"] / peer["entries_per_s"] for kind in own}
                  for peer in peers}
        return {"kernel": self.kernel, "d": self.d, "n": self.n, "krr_bench": own, "peers": peers, "ratios": ratios,
                "skipped": self.skipped}


def show(case):
    own = case["krr_bench"]
    print(f"{case['kernel']} d = {case['d']}, n = {case['n']:,}: krr-bench "
          + ", ".join(f"{kind} {r['entries_per_s'] / 1e9:.2f}" for kind, r in own.items())
          + f" 10^9 entries/s, error {own['plain']['max_rel_err']:.1e}", file=sys.stderr)
    for peer in case["peers"]:
        ratio = case["ratios"][peer["name"]]
        print(f"  {peer['name']:<15} {peer['entries_per_s'] / 1e9:9.2f}   {ratio['plain']:7.2f} {ratio['symmetric']:7.2f}"
              f"   error {peer['max_rel_err']:.1e}, {peer['rows']:,} rows, block {peer['block']}", file=sys.stderr)
    for name, reason in case["skipped"].items():
        print(f"  {name:<15} skipped: " + reason.replace("\n", "\n" + 6 * " "), file=sys.stderr, flush=True)


def of_driver(field):
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"], capture_output=True,
                              text=True, timeout=20)
        return done.stdout.strip().splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return None


def write(options, results):
    """After every case, so that what was measured survives an interruption."""
    results["seconds"] = time.monotonic() - options.began
    if options.output:
        options.output.write_text(json.dumps(results, indent=1) + "\n")


STARTS = 2  # of a peer's process: one that has ended twice takes part no more


def start_peers(options, processes, started):
    """Those that are not there, in a case's beginning."""
    for name in PROCESSES:
        if name not in options.peers or name in processes or started.get(name, 0) == STARTS:
            continue
        log = options.output.with_name(f"{options.output.stem}-{name}.log") if options.output else \
            pathlib.Path(options.scratch) / f"{name}.log"
        if name not in started:
            log.unlink(missing_ok=True)
        own = keops_environment(options.scratch) if name == "keops" and options.device != "cpu" else ()
        started[name] = started.get(name, 0) + 1
        processes[name] = Process(options.device, log, *own)


def measure(options):
    results = {"command": shlex.join(["bench/peers/gpu.py", *sys.argv[1:]]),
               "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
               "device": of_driver("name"), "driver": of_driver("driver_version"), "rounds": options.rounds,
               "seconds_of_a_peer": options.seconds, "versions": {}, "cases": [], "left_out": []}
    processes, started, longest = {}, {}, 0.0
    for text in options.cases:
        kernel, d = text.split(":")
        began = time.monotonic()
        if began + longest > options.began + options.limit:
            results["left_out"].append({"case": text, "reason": f"past --limit {options.limit:g} s"})
            continue
        start_peers(options, processes, started)
        try:
            case = Case(options, processes, kernel, int(d)).run()
        except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:  # krr-bench's
            results["left_out"].append({"case": text, "reason": str(error)[:500]})
            print(f"{text}: {error}", file=sys.stderr)
            for name in list(processes):  # they may owe an answer
                processes.pop(name).close()
                started[name] -= 1
            continue
        finally:
            write(options, results)
        if results["cases"]:  # the first one has imports in it
            longest = max(longest, time.monotonic() - began)
        show(case)
        results["cases"].append(case)
        for process in list(processes.values()):
            try:
                results["versions"].update(process.ask(10, "versions"))
            except RuntimeError:
                pass  # it was told about in the case
        write(options, results)
    for process in processes.values():
        process.close()
    write(options, results)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--krr-bench", default="build-cuda/bench/krr-bench-cuda", help="the program (default: %(default)s)")
    parser.add_argument("--launcher", default="", help="words in front of it, as \"gpu-bundle/run start\"")
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--cases", nargs="+", default=CASES, metavar="KERNEL:D", help="default: " + " ".join(CASES))
    parser.add_argument("--n", type=int, default=500000, help="rows on both sides")
    parser.add_argument("--numbers", type=float, default=4e7,
                        help="n d at most: krr-bench draws them one by one (default: %(default)g)")
    parser.add_argument("--peers", nargs="*", choices=PROCESSES, default=list(PROCESSES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3, help="krr-bench's products of a turn")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a peer's turn, at least one block of rows")
    parser.add_argument("--patience", type=float, default=60, help="seconds for a peer to import and compile")
    parser.add_argument("--share", type=float, default=20,
                        help="seconds of a peer's process in a case, without --patience (default: %(default)g)")
    parser.add_argument("--limit", type=float, default=85, help="seconds of the whole run (default: %(default)g)")
    parser.add_argument("--output", type=pathlib.Path, help="write the results as JSON to this file, not to stdout")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(options.worker)
        return
    for case in options.cases:
        kernel, _, d = case.partition(":")
        if kernel not in ("gaussian", "laplacian_l1") or not d.isdigit() or int(d) < 1:
            parser.error(f"{case} is no case such as gaussian:18 or laplacian_l1:435")
    options.began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="krr-peers-") as options.scratch:
        results = measure(options)
    if not options.output:
        print(json.dumps(results, indent=1))
    sys.exit(0 if results["cases"] else 1)


if __name__ == "__main__":
    main()
