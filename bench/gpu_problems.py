#!/usr/bin/env python3
"""Whole problems on a GPU: seconds, residuals, test errors and memory, a JSON document a part.

    molecules   100,000 conjugated hydrocarbons (examples/huckel) with the 435 entries of sorted Coulomb
                matrices; laplacian_l1, lambda = 1e-8 a row, pcg with rpcholesky of rank 1,000 to a relative
                residual of 1e-3. Through the daemon and HTTP: from the first byte of the data sent to the job's
                end, and to the model's last byte received
    million     1,000,000 rows of 18 features, full models, float32: pcg with rpcholesky of rank 1,000, then askotch2,
                to 1e-3 or for --budget seconds each
    throughput  10,000,000 rows, askotch2 for --budget seconds: kernel entries a second, seconds an iteration. Then it is ended
                without a certificate
    growth      askotch2 for at most 200 iterations or --budget seconds, likewise, on 10^5, 10^6 and 10^7 rows: a
                table

Features of the last three are standard normal; the target is a sum of 16 cosines of frequencies that
a gaussian of bandwidth sqrt(18) has, and noise of a tenth of its size. 1,000 further rows are for the
test error. Data are made first, and that time is told apart. Memory of the device is what nvidia-smi
said was used, less what was used before; of the host the result's peak_memory_bytes, or the largest resident size of
the process, the mapped data among it. A part that fails says so in its document, and the others go on.
"""
import argparse
import concurrent.futures
import datetime
import http.client
import json
import math
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "claims"))
import problems

FEATURES, TEST_ROWS, COSINES = 18, 1000, 16
ATOMS = 29  # 29 * 30 / 2 = 435 entries
CORES = len(os.sched_getaffinity(0))


# ---- programs ----


class Programs:
    """Those of a folder, or of a build's folders; `words` are what starts one."""

    def __init__(self, folder, launcher, device):
        self.folder, self.launcher, self.gpu = pathlib.Path(folder), shlex.split(launcher), device != "cpu"

    def words(self, name):
        for part in ("", "bench", "src/server", "src/worker", "examples/huckel"):
            path = (self.folder / part / name).resolve()
            if path.is_file():
                return [*self.launcher, str(path)]
        raise RuntimeError(f"there is no {name} in {self.folder}")

    def either(self, name):
        """For the device; a bundle has programs for GPUs alone, which compute on the processor, too."""
        if not self.gpu:
            try:
                return self.words(name)
            except RuntimeError:
                pass
        return self.words(name + "-cuda")

    def bench(self):
        return self.either("krr-bench")

    def worker_script(self, folder):
        """The daemon starts one program, without words in front of it."""
        path = pathlib.Path(folder) / "worker"
        words = self.either("krrd-worker")
        path.write_text(f"#!/bin/sh\nexec {shlex.join(words)} \"$@\"\n")
        path.chmod(0o755)
        return str(path)


class DeviceMemory:
    """The most bytes that were used on the device within `with`, less those before; None without nvidia-smi."""

    def __enter__(self):
        self.seen, self.bytes, self.process = [], None, None
        command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0", "-lms", "100"]
        try:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            return self
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        until = time.monotonic() + 5
        while not self.seen and time.monotonic() < until and self.thread.is_alive():
            time.sleep(0.02)
        return self

    def read(self):
        for line in self.process.stdout:
            if line.strip().isdigit():
                self.seen.append(int(line) << 20)

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.thread.join(5)
            self.bytes = max(self.seen) - self.seen[0] if self.seen else None


def run_json(command, seconds):
    """The command's last line of output, and its seconds."""
    began = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{shlex.join(command)}: not done in {seconds:.0f} s") from None
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: {done.stderr.strip()[-500:] or done.returncode}")
    return json.loads(done.stdout.strip().splitlines()[-1]), time.monotonic() - began


# ---- data ----


def waves(n, seed=0):
    """X [n, 18] and y, in float32."""
    rng = numpy.random.default_rng(seed)
    W = (rng.standard_normal((FEATURES, COSINES)) / math.sqrt(FEATURES)).astype(numpy.float32)
    shift = rng.uniform(0, 2 * math.pi, COSINES).astype(numpy.float32)
    X, y = numpy.empty((n, FEATURES), numpy.float32), numpy.empty(n, numpy.float32)

    def fill(piece):
        first, seed_of_piece = piece
        own = numpy.random.default_rng(seed_of_piece)
        part = X[first : first + step]
        own.standard_normal(out=part, dtype=numpy.float32)
        clean = numpy.cos(part @ W + shift).sum(1) * math.sqrt(2 / COSINES)
        y[first : first + step] = clean + 0.1 * own.standard_normal(len(part), dtype=numpy.float32)

    step = 1 << 17
    starts = range(0, n, step)
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        list(pool.map(fill, zip(starts, numpy.random.SeedSequence(seed).spawn(len(starts)))))
    return X, y


def write_waves(n, folder):
    X, y = waves(n + TEST_ROWS)
    mask = numpy.zeros(len(y), numpy.float32)
    mask[n:] = 1
    path = pathlib.Path(folder) / f"waves-{n}.krds"
    problems.write_data_set(path, X, y, mask=mask)
    return path


def draw_molecules(words, count, seed, path):
    """Rows of one process of huckel: features, then the target."""
    command = [*words, "--molecules", str(count), "--max-atoms", str(ATOMS), "--features", "matrix", "--seed", str(seed),
               "--output", path]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: {done.stderr.strip()}")
    rows = numpy.loadtxt(path, numpy.float32, delimiter=",", skiprows=1, ndmin=2)
    os.unlink(path)
    return rows


def molecules(programs, n, folder):
    """[n, 436]. Processes of other seeds draw the same small molecules, too: none is kept twice."""
    words, found, seed = programs.words("huckel"), [], 1
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of huckel's little matrices
    hashing = numpy.random.default_rng(0).integers(1, 1 << 63, 29 * 15, numpy.uint64) * 2 + 1
    while True:
        have = sum(map(len, found))
        each = max(20, math.ceil(1.3 * (n - have) / CORES))
        with concurrent.futures.ProcessPoolExecutor(CORES) as pool:
            seeds = range(seed, seed + CORES)
            paths = [str(pathlib.Path(folder) / f"huckel-{s}.csv") for s in seeds]
            found += pool.map(draw_molecules, [words] * CORES, [each] * CORES, seeds, paths)
        seed += CORES
        rows = numpy.concatenate(found)
        keys = rows[:, :-1].view(numpy.uint32).astype(numpy.uint64) @ hashing
        rows = rows[numpy.sort(numpy.unique(keys, return_index=True)[1])]
        if len(rows) >= n:
            return rows[numpy.random.default_rng(0).permutation(len(rows))[:n]]
        if seed > 8 * CORES:
            raise RuntimeError(f"only {len(rows)} different molecules came of {sum(map(len, found))}")
        found = [rows]


# ---- a part in the daemon ----


class Daemon:
    def __init__(self, programs, folder, patience):
        self.folder, self.patience = pathlib.Path(folder), patience
        worker = programs.worker_script(folder)  # that for GPUs has the processor, too
        self.command = [*programs.words("krrd"), "--listen", "127.0.0.1:0", "--data-dir", str(self.folder / "data"),
                        "--log-file", str(self.folder / "log"), "--workers", "cuda:0" if programs.gpu else "cpu:1",
                        "--worker-program", worker, "--cuda-worker-program", worker]

    def __enter__(self):
        self.process = subprocess.Popen(self.command)
        address, until = self.folder / "data" / "krrd.address", time.monotonic() + self.patience
        try:
            while not address.exists():
                self.wait(until)
            host, port = address.read_text().strip().rsplit(":", 1)
            self.connection = http.client.HTTPConnection(host, int(port), timeout=300)
            while not any(w["kind"] == "train" and w["state"] == "idle" for w in self.ask("GET", "/v1/workers")["data"]):
                self.wait(until)
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait(self, until):
        if self.process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"the daemon's worker is not there: {self.log()}")
        time.sleep(0.02)

    def log(self):
        path = self.folder / "log"
        return path.read_text(errors="replace")[-1000:] if path.exists() else "no log"

    def ask(self, method, path, body=None, raw=False, **headers):
        if isinstance(body, dict):
            body, headers = json.dumps(body), {"Content-Type": "application/json", **headers}
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:500].decode(errors='replace')}")
        return data if raw else json.loads(data)

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def molecules_job(options, dataset, n):
    return {"model": "homo", "dataset": dataset, "kernel": {"name": "laplacian_l1", "bandwidth": options.bandwidth},
            "regularization": 1e-8, "standardize": {"features": False, "target": True},
            "test": {"fraction": TEST_ROWS / (n + TEST_ROWS)}, "precision": options.precision,
            "solver": {"name": "pcg", "preconditioner": {"name": "rpcholesky", "rank": options.rank}},
            "stop": {"tolerance": 1e-3, "time_budget_s": options.budget or 120}}


def await_job(daemon, job, seconds):
    until = time.monotonic() + seconds
    while True:
        state = daemon.ask("GET", f"/v1/jobs/{job}", Prefer="wait=10")
        if state["status"] not in ("queued", "running"):
            return state
        if time.monotonic() > until:
            raise RuntimeError(f"the job is {state['status']} after {seconds:.0f} s: {state['progress']}")


def run_molecules(options, programs, folder):
    n, began = options.n or 100000, time.monotonic()
    path = pathlib.Path(folder) / "molecules.npy"
    numpy.save(path, molecules(programs, n + TEST_ROWS, folder))
    yield {"n": n, "d": ATOMS * (ATOMS + 1) // 2, "data_seconds": time.monotonic() - began,
           "upload_bytes": path.stat().st_size}
    with DeviceMemory() as memory, Daemon(programs, folder, options.timeout) as daemon:
        yield {"daemon": shlex.join(daemon.command)}
        began = time.monotonic()
        with open(path, "rb") as data:
            dataset = daemon.ask("POST", "/v1/datasets", data, **{
                "Content-Type": "application/x-npy", "Content-Length": str(path.stat().st_size)})
        uploaded = time.monotonic()
        spec = molecules_job(options, dataset["id"], n)
        yield {"job": spec}
        job = daemon.ask("POST", "/v1/jobs", spec)
        state = await_job(daemon, job["id"], options.timeout)
        ended = time.monotonic()
        yield {"status": state["status"], "reason": state["reason"], "error": state["error"], "result": state["result"],
               "device": state["device"], "plan": state["plan"],
               "times": {key: state[key] for key in ("created_at", "started_at", "finished_at")},
               "upload_seconds": uploaded - began,
               "job_seconds": ended - uploaded, "seconds": ended - began}
        if state["status"] == "succeeded":
            version = state["model_version"]
            model = daemon.ask("GET", f"/v1/models/homo/versions/{version}/export?format=safetensors", raw=True)
            yield {"model_bytes": len(model), "seconds_to_model": time.monotonic() - began}
    yield {"device_memory_bytes": memory.bytes}


# ---- parts of krr-bench solve ----


def waves_spec(solver, budget, **stop):
    return {"kernel": {"name": "gaussian", "bandwidth": math.sqrt(FEATURES)}, "regularization": 1e-6, "solver": solver,
            "stop": {"tolerance": 1e-3, "time_budget_s": budget, **stop}, "precision": "float32",
            "test": {"mask": "test"}, "standardize": {"features": False, "target": True}, "seed": 0}


def block_rows(n):
    """The block size that askotch2 takes by itself (rule_block_rows), named so that passes can be counted."""
    return min(n, max(256, min(8192, int(2 * math.sqrt(n)))))


def askotch2(n):
    return {"name": "askotch2", "block_size": block_rows(n)}


def seconds_each(trace):
    """Of an iteration, between the first and the last that the trace tells: steps alone, without setup."""
    steps = [t for t in trace if t["phase"] == "iterating" and t["iteration"] > 0]
    if len(steps) < 2 or steps[-1]["iteration"] == steps[0]["iteration"]:
        return None
    return (steps[-1]["seconds"] - steps[0]["seconds"]) / (steps[-1]["iteration"] - steps[0]["iteration"])


def rates(n, spec, trace):
    """An iteration of askotch2 is a block of rows against all, one of pcg all rows against all."""
    each, solver = seconds_each(trace), spec["solver"]
    entries = n * (solver["block_size"] if solver["name"] == "askotch2" else n)
    return {"seconds_per_iteration": each, "entries_per_iteration": entries,
            "entries_per_s": entries / each if each else None, "seconds_per_pass": each * n * n / entries if each else None}


def prepare(options, programs, folder, data, spec):
    """The command and its trace's file."""
    order, trace = (pathlib.Path(folder) / name for name in ("order.json", "trace.jsonl"))
    problems.write_order(order, data, spec)
    trace.unlink(missing_ok=True)
    return [*programs.bench(), "solve", "--job", str(order), "--trace", str(trace), "--device", options.device], trace


def solve(options, programs, folder, data, n, spec, patience):
    """One solve with its certificate, for which the time limit has room."""
    command, trace = prepare(options, programs, folder, data, spec)
    with DeviceMemory() as memory:
        report, seconds = run_json(command, patience)
    return {"n": n, "spec": spec, "command": shlex.join(command), "process_seconds": seconds,
            **rates(n, spec, problems.read_trace(trace)), "device_memory_bytes": memory.bytes, "report": report}


def host_peak(pid):
    """VmHWM in bytes; 0 when the process is gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def solve_cut(options, programs, folder, data, n, spec, budget):
    """The steps of `budget` seconds, after which the process is ended: the certificate of 10^7 rows takes as
    many kernel values as a thousand steps and more. What the trace has in its file by then counts."""
    command, trace = prepare(options, programs, folder, data, spec)
    began, first, peak = time.monotonic(), None, 0
    with DeviceMemory() as memory, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        while process.poll() is None:
            now = time.monotonic()
            if first is None and trace.exists() and trace.stat().st_size > 0:
                first = now
            if now > (began + budget + 60 if first is None else first + budget):
                break
            peak = max(peak, host_peak(process.pid))
            time.sleep(0.05)
        cut = process.poll() is None
        process.kill()
        process.wait()
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip()[-500:]
    text = trace.read_text() if trace.exists() else ""
    lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    steps = [line for line in lines if line["phase"] == "iterating"]
    if not cut and process.returncode != 0 or not steps:
        raise RuntimeError(f"{shlex.join(command)}: {said or 'no step was seen'}")
    return {"n": n, "spec": spec, "command": shlex.join(command), "cut": cut, **rates(n, spec, lines),
            "setup_seconds": steps[0]["seconds"], "last_step": steps[-1], "device_memory_bytes": memory.bytes,
            "host_memory_bytes": peak}


def run_million(options, programs, folder):
    n, budget, began = options.n or 1000000, options.budget or 60, time.monotonic()
    data = write_waves(n, folder)
    yield {"data_seconds": time.monotonic() - began}
    solves = []
    for solver in ({"name": "pcg", "preconditioner": {"name": "rpcholesky", "rank": options.rank}}, askotch2(n)):
        try:
            solves.append(solve(options, programs, folder, data, n, waves_spec(solver, budget), budget + 120))
        except RuntimeError as error:
            solves.append({"spec": {"solver": solver}, "error": str(error)})
        yield {"solves": solves}
    data.unlink()


def run_throughput(options, programs, folder):
    n, budget, began = options.n or 10000000, options.budget or 30, time.monotonic()
    data = write_waves(n, folder)
    yield {"data_seconds": time.monotonic() - began}
    spec = waves_spec(askotch2(n), None, tolerance=1e-12)
    yield {"solve": solve_cut(options, programs, folder, data, n, spec, budget)}
    data.unlink()


def run_growth(options, programs, folder):
    most, budget, table = options.n or 10**7, options.budget or 12, []
    for n in (most // 100, most // 10, most):
        began = time.monotonic()
        data = write_waves(n, folder)
        made = time.monotonic() - began
        spec = waves_spec(askotch2(n), None, max_iterations=200, tolerance=1e-12)
        try:
            run = solve_cut(options, programs, folder, data, n, spec, budget)
            table.append({"block_size": block_rows(n), "data_seconds": made, "iterations": run["last_step"]["iteration"],
                          **{key: run[key] for key in run if key != "spec"}})
        except RuntimeError as error:
            table.append({"n": n, "error": str(error)})
        data.unlink()
        yield {"table": table}


PARTS = {"molecules": run_molecules, "million": run_million, "throughput": run_throughput, "growth": run_growth}


# ---- the documents ----


def of_driver(fields):
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], capture_output=True,
                              text=True, timeout=20)
        return done.stdout.strip().splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return None


def run_part(options, name):
    document = {"part": name, "command": shlex.join(["bench/gpu_problems.py", *sys.argv[1:]]),
                "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "gpu": of_driver("name,driver_version,memory.total"), "cores": CORES, "load_average": os.getloadavg()[0]}
    programs = Programs(options.programs, options.launcher, options.device)
    with tempfile.TemporaryDirectory(prefix="krr-problems-", dir=options.scratch) as folder:
        try:
            for more in PARTS[name](options, programs, folder):
                document.update(more)
                save(options, name, document)  # what there is survives an interruption
        except (RuntimeError, OSError, http.client.HTTPException, ValueError, KeyError) as error:
            document["failed"] = f"{type(error).__name__}: {error}"
    save(options, name, document)
    print(json.dumps(document), flush=True)
    return "failed" not in document and not any("error" in r for r in document.get("solves", document.get("table", [])))


def save(options, name, document):
    if options.output:
        problems.save(options.output / f"problem-{name}.json", document)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--programs", default="build-cuda", help="folder of the programs or of a build (default: %(default)s)")
    parser.add_argument("--launcher", default="", help="words in front of each program")
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--n", type=int, help="training rows; of growth the most")
    parser.add_argument("--rank", type=int, default=1000, help="of pcg's preconditioner (default: %(default)s)")
    parser.add_argument("--bandwidth", type=float, default=5120, help="of molecules (default: %(default)g)")
    parser.add_argument("--precision", default="auto", help="of molecules (default: %(default)s)")
    parser.add_argument("--budget", type=float, help="seconds of each solve: molecules 120, million 60, throughput 30, growth 12")
    parser.add_argument("--timeout", type=float, default=240, help="seconds that the job of molecules may take in all, and its worker to start")
    parser.add_argument("--scratch", help="folder for the data, of 2 GB (default: the system's for temporary files)")
    parser.add_argument("--output", type=pathlib.Path, help="folder for the documents, problem-PART.json")
    options = parser.parse_args()
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
    sys.exit(0 if all([run_part(options, name) for name in options.parts]) else 1)


if __name__ == "__main__":
    main()
