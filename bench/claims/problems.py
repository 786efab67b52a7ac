"""Data sets of the claims' runs, orders for krr-bench, and running it."""
import json
import os
import pathlib
import subprocess

import numpy


def write_data_set(path, X, y, classes=None, mask=None):
    """Features X [n, d], a target y [n] and, where given, a 0/1 column `test`, as krrd keeps a data set
    (src/wire/dataset.h). With `classes` (labels) y holds indices into them."""
    columns = [f"x{j}" for j in range(X.shape[1])] + ["y"] + (["test"] if mask is not None else [])
    data = numpy.column_stack([X, y] + ([mask] if mask is not None else []))
    data = data.astype("<f4" if X.dtype == numpy.float32 else "<f8")
    info = {
        "rows": len(data),
        "columns": len(columns),
        "dtype": "float32" if data.dtype.itemsize == 4 else "float64",
        "column_names": columns,
        "target_columns": [X.shape[1]],
        "task": "classification" if classes else "regression",
        "classes": len(classes or []),
        "class_labels": list(classes or []),
        "warnings": [],
    }
    header = {
        "__metadata__": {"dataset": json.dumps(info)},
        "data": {"dtype": f"F{8 * data.dtype.itemsize}", "shape": list(data.shape), "data_offsets": [0, data.nbytes]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 64)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        data.tofile(out)


def read_model(path):
    """Arrays of a model, or of any tensors file of float numbers, by name."""
    raw = pathlib.Path(path).read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + size])
    types = {"F64": "<f8", "F32": "<f4"}
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            part = raw[8 + size + first:8 + size + last]
            tensors[name] = numpy.frombuffer(part, types[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def load_arrays(folder, name):
    arrays = numpy.load(pathlib.Path(folder) / f"{name}.npz")
    return arrays["X"], arrays["y"]


def _subsample(rows, n, seed):
    return numpy.sort(numpy.random.default_rng(seed).permutation(rows)[:n])


def real(folder, name, n, seed):
    """X, y, labels (None: regression) of min(n, all) rows drawn without replacement."""
    X, y = load_arrays(folder, "uci_bike" if name == "bike" else name)
    labels = None
    if name == "diamonds":
        y = numpy.log(y)
    if name == "letter":
        labels, y = numpy.unique(y, return_inverse=True)
        labels = [str(int(label)) for label in labels]
    rows = _subsample(len(X), n, seed)
    return X[rows], y[rows].astype(numpy.float32), labels


REAL = ("bike", "diamonds", "higgs7k", "letter", "hflights", "qm7")


def write_order(path, data_path, spec, **more):
    order = {"job": "job_claim", "dataset_path": str(data_path), **more,
             "spec": {"model": "claim", "dataset": "ds_00000000000000000000000001", **spec}}
    pathlib.Path(path).write_text(json.dumps(order))


def read_trace(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines]


def phase_span(trace, phase, key):
    """Seconds (`seconds` or `cpu_seconds`) from the line before the first of `phase` to its last."""
    inside = [i for i, line in enumerate(trace) if line["phase"] == phase]
    if not inside:
        return 0.0
    before = trace[inside[0] - 1][key] if inside[0] > 0 else 0.0
    return trace[inside[-1]][key] - before


def run(bench, order, trace, threads, quiet=None):
    """krr-bench's report and its trace. `quiet` is the path of a lock to hold meanwhile."""
    command = [str(bench), "solve", "--job", str(order), "--trace", str(trace), "--threads", str(threads)]
    if quiet:
        command = ["flock", str(quiet), *command]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout), read_trace(trace)


def told(arguments):
    """Arguments for a results file: of paths only the last part, which is what matters elsewhere."""
    return " ".join(a.rstrip("/").rsplit("/", 1)[-1] for a in arguments)


def machine(bench):
    """What a results file says about the machine and the time."""
    command = [str(bench), "operator", "--n", "64", "--repeat", "1"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {key: told[key] for key in ("cpu", "cores", "isa", "load_average", "date")}


def load(path):
    with open(path) as file:
        return json.load(file)


def save(path, results):
    """Whole or not at all, so that a run that was stopped can go on from what there is."""
    part = f"{path}.part"
    with open(part, "w") as out:
        json.dump(results, out, indent=1)
        out.write("\n")
    os.replace(part, path)
