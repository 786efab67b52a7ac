"""krr-bench on small sizes: what it prints and what it refuses. Nothing here depends on the time."""
import json
import math
import os
import pathlib
import platform
import subprocess
import sys

import numpy
import pytest

PROGRAM = os.environ["KRRD_TEST_BENCH"]
PEERS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers" / "operator.py"

# The largest error of a row, relative to its sum |k| |v|, that each precision may show.
LARGEST_ERROR = {"float32": 1e-5, "mixed": 1e-5, "float64": 1e-12}
KERNELS = [
    "gaussian", "laplacian", "laplacian_l1", "matern12", "matern32", "matern52", "linear", "polynomial", "sigmoid",
]


def run(*words, **environment):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=100, env={**os.environ, **environment})


def report(*words, **environment):
    done = run(*words, **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def read_tensors(path):
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    types = {"F32": numpy.float32, "F64": numpy.float64}
    tensors = {}
    for name, entry in json.loads(raw[8:start]).items():
        first, end = entry["data_offsets"]
        values = numpy.frombuffer(raw[start + first : start + end], types[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors


@pytest.mark.skipif(platform.machine() != "x86_64", reason="of OpenBLAS's cores for x86-64")
def test_dense_algebra_is_for_this_processor():
    """OpenBLAS may take one that it does not know for an old one; what somebody says goes first."""
    words = ("operator", "--n", "50", "--d", "2", "--repeat", "1", "--threads", "1")
    core = report(*words)["blas_core"]
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    assert core != "Prescott" or " avx2 " not in flags
    assert report(*words, OPENBLAS_CORETYPE="PRESCOTT")["blas_core"] == "Prescott"


@pytest.mark.parametrize("precision", LARGEST_ERROR)
def test_operator_reports(precision):
    r = report("operator", "--n", "500", "--m", "300", "--d", "7", "--rhs", "3", "--precision", precision,
               "--repeat", "2", "--threads", "2")
    given = {"command": "operator", "kernel": "gaussian", "n": 500, "m": 300, "d": 7, "rhs": 3, "device": "cpu",
             "precision": precision, "threads": 2, "symmetric": False, "repeat": 2}
    assert {key: r[key] for key in given} == given
    assert math.isclose(r["bandwidth"], math.sqrt(7))
    assert r["isa"] in ("avx512", "avx512_intel", "avx2", "portable")
    assert math.isclose(r["entries_per_s"], 150000 / r["seconds"])
    assert math.isclose(r["fraction_of_limit"], r["entries_per_s"] / r["limit_entries_per_s"])
    assert 0 < r["fraction_of_fma_limit"] <= 1.5 * r["fraction_of_limit"]
    assert r["fraction_of_limit_paced"] > 0
    assert r["bound_by"] is None  # only a GPU's limit is one unit's
    assert 0 < r["seconds_best"] <= r["seconds"]
    for key in ("fma_per_s", "add_per_s", "pair_per_s", "root_per_s", "beside_per_s", "exp2_per_s"):
        assert r["ceilings"]["float32"][key] > 0 and r["ceilings"]["float64"][key] > 0
    assert r["ceilings"]["read_bytes_per_s"] > 0
    assert 0 <= r["max_rel_err"] < LARGEST_ERROR[precision]


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_has_a_limit_and_small_errors(kernel):
    r = report("operator", "--kernel", kernel, "--n", "100", "--d", "5", "--repeat", "1", "--symmetric")
    assert r["symmetric"] and r["n"] == r["m"] == 100
    assert r["limit_entries_per_s"] > 0
    assert r["max_rel_err"] < LARGEST_ERROR["float32"]


@pytest.mark.parametrize("words, error", [((), 1e-5), (("--storage", "float16"), 3e-4)])
def test_kept_values(tmp_path, words, error):
    path = tmp_path / "product.safetensors"
    given = ("operator", "--n", "500", "--d", "5", "--repeat", "1", "--symmetric", "--save", str(path))
    computed = report(*given)
    product = path.read_bytes()
    r = report(*given, "--cached", *words)
    assert not computed["cached"] and "storage" not in computed
    assert r["cached"] and r["storage"] == (words[1] if words else "exact")
    assert 500 * 500 < r["cached_bytes"] < 500 * 500 * 4
    assert 0 < r["fraction_of_bandwidth"] and 0 < r["cache_seconds"]
    assert math.isclose(r["cached_bytes_per_s"], r["cached_bytes"] / r["seconds"])
    assert r["max_rel_err"] < error
    assert words or path.read_bytes() == product


def test_saved_numbers_are_those_of_the_product(tmp_path):
    path = tmp_path / "product.safetensors"
    report("operator", "--n", "60", "--m", "40", "--d", "3", "--rhs", "2", "--precision", "float64", "--repeat", "1",
           "--bandwidth", "2", "--save", str(path))
    t = read_tensors(path)
    assert t["points"].shape == (60, 3) and t["centers"].shape == (40, 3)
    squares = ((t["points"][:, None, :] - t["centers"][None, :, :]) ** 2).sum(axis=2)
    assert numpy.allclose(numpy.exp(-squares / 8) @ t["weights"].T, t["product"].T, rtol=1e-12, atol=1e-12)


def test_outliers(tmp_path):
    path = tmp_path / "product.safetensors"
    r = report("operator", "--n", "400", "--m", "300", "--d", "50", "--repeat", "1", "--outliers", "0.1",
               "--precision", "float64", "--save", str(path))
    sizes = numpy.sqrt((read_tensors(path)["points"] ** 2).mean(axis=1))
    assert r["outliers"] == 0.1 and r["max_rel_err"] < 1e-12
    assert 10 < numpy.count_nonzero(sizes > 6) < 90 and not numpy.any((sizes > 2) & (sizes < 6))


def test_the_seed_decides_the_numbers(tmp_path):
    products = []
    for seed in ("1", "1", "2"):
        path = tmp_path / "product.safetensors"
        report("operator", "--n", "20", "--repeat", "1", "--seed", seed, "--save", str(path))
        products.append(path.read_bytes())
    assert products[0] == products[1] != products[2]


@pytest.mark.parametrize("words, said", [
    ([], "operator, solve or centers"),
    (["product"], "operator, solve or centers"),
    (["operator", "--n", "0"], "--n takes an integer from 1"),
    (["operator", "--d", "3x"], "--d takes"),
    (["operator", "--rhs", ""], "--rhs takes"),
    (["operator", "--bandwidth", "nan"], "--bandwidth takes"),
    (["operator", "--outliers", "1.5"], "--outliers takes"),
    (["operator", "--outliers", "nan"], "--outliers takes"),
    (["operator", "--kernel", "cubic"], "no kernel named"),
    (["operator", "--precision", "half"], "--precision is"),
    (["operator", "--symmetric", "--n", "10", "--m", "20"], "--symmetric"),
    (["operator", "--cached"], "add --symmetric"),
    (["operator", "--symmetric", "--storage", "float16"], "add --cached"),
    (["operator", "--symmetric", "--cached", "--storage", "float8"], "--storage is"),
    (["operator", "--symmetric", "--cached", "--storage", "float16", "--n", "100", "--kernel", "linear"], "linear"),
    (["operator", "--job", "x"], "--help"),
    (["operator", "500"], "is no flag"),
    (["operator", "--device", "abacus"], "#/device"),
    (["solve"], "--job"),
    (["solve", "--job", "/nowhere/order.json"], "krr-bench: "),
    (["operator", "--trace", "x"], "--help"),
    (["centers"], "--job"),
    (["centers", "--job", "/nowhere/order.json"], "krr-bench: "),
    (["centers", "--job", "x", "--repeat", "0"], "--repeat takes"),
])
def test_refusals(words, said):
    done = run(*words)
    assert done.returncode == 1 and done.stdout == ""
    assert said in done.stderr


def test_help():
    done = run("--help")
    assert done.returncode == 0 and "krr-bench solve" in done.stdout
    assert run("solve", "--help").stdout == done.stdout


def write_data_set(path, columns, data):
    info = {"rows": data.shape[0], "columns": data.shape[1], "dtype": "float64", "column_names": columns,
            "target_columns": [len(columns) - 1], "task": "regression", "classes": 0, "class_labels": [],
            "warnings": []}
    header = {"__metadata__": {"dataset": json.dumps(info)},
              "data": {"dtype": "F64", "shape": list(data.shape), "data_offsets": [0, data.nbytes]}}
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 64)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data.astype("<f8").tobytes())


def write_order(folder, more=None, **spec):
    random = numpy.random.default_rng(0)
    x = random.uniform(-1, 1, (300, 2))
    write_data_set(folder / "data", ["a", "b", "y"], numpy.column_stack([x, numpy.sin(3 * x[:, 0]) + x[:, 1]]))
    order = {"job": "job_bench", "dataset_path": str(folder / "data"),
             "spec": {"model": "m", "dataset": "ds_00000000000000000000000001",
                      "kernel": {"name": "gaussian", "bandwidth": 1.0}, "solver": {"name": "pcg"},
                      "stop": {"tolerance": 1e-6}, "test": {"fraction": 0.2}, **spec}, **(more or {})}
    (folder / "order.json").write_text(json.dumps(order))
    return str(folder / "order.json")


def test_solve_reports(tmp_path):
    r = report("solve", "--job", write_order(tmp_path), "--threads", "1")
    assert r["command"] == "solve" and r["stop_reason"] == "converged" and r["solver"] == "pcg"
    assert r["train_rows"] == 240 and r["test_rows"] == 60 and r["centers"] == 240
    assert r["relative_residual"] <= 1.01e-6 and r["iterations"] > 0
    assert 0 < r["seconds_to_tolerance"] <= r["seconds"]
    assert r["metrics"]["r2"] > 0.9
    assert r["peak_memory_bytes"] > 0 and r["kernel_entries"] > 0


def test_solve_opens_the_centers(tmp_path):
    spec = {"solver": "auto", "centers": {"method": "file", "dataset": "ds_00000000000000000000000002"}}
    done = run("solve", "--job", write_order(tmp_path, **spec))
    assert done.returncode == 1 and "#/centers_dataset_path" in done.stderr, done.stderr
    order = write_order(tmp_path, {"centers_dataset_path": str(tmp_path / "nowhere")}, **spec)
    done = run("solve", "--job", order)
    assert done.returncode == 1 and "does not exist" in done.stderr and done.stdout == "", done.stderr


def restricted_order(folder, selector, **spec):
    return write_order(folder, solver="falkon", centers=selector, regularization=1e-3, **spec)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_centers_reports(tmp_path, precision):
    order, scores = restricted_order(tmp_path, "bless", precision=precision), tmp_path / "scores"
    words = ("centers", "--job", order, "--repeat", "2", "--scores", str(scores), "--threads", "1")
    first, again = report(*words), report(*words)
    exact = numpy.fromfile(scores, "<f8")
    assert len(exact) == first["n"] == 240
    assert ((exact > 0) & (exact < 1)).all()
    assert math.isclose(first["effective_dimension"], exact.sum(), rel_tol=1e-12)
    assert first["exact_seconds"] > 0 and again["exact_seconds"] is None
    assert first["selector"] == "bless" and first["d"] == 2 and first["regularization"] == 1e-3
    for a, b in zip(first["runs"], again["runs"]):
        assert a["m"] == b["m"] == a["path"][-1]["m"] and a["ratio_mean"] == b["ratio_mean"]
        assert 0.2 < a["ratio_q05"] <= a["ratio_median"] <= a["ratio_q95"] < 5 and 0.5 < a["ratio_mean"] < 2
        assert 0.7 < a["dimension_ratio"] < 1.5
        assert 0 < a["longest_step_seconds"] <= a["seconds"]
        assert math.isclose(a["path"][-1]["lambda"], 1e-3)
    assert [r["seed"] for r in first["runs"]] == [0, 1]


def test_exact_scores_are_exact(tmp_path):
    order = restricted_order(tmp_path, {"method": "uniform", "count": 20}, test={"fraction": 0})
    report("centers", "--job", order, "--scores", str(tmp_path / "scores"))
    size = (tmp_path / "data").stat().st_size
    x = numpy.fromfile(tmp_path / "data", "<f8", offset=size - 300 * 3 * 8).reshape(300, 3)[:, :2]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    K = numpy.exp(-((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=2) / 2)
    expected = numpy.diag(numpy.linalg.solve(K + 300e-3 * numpy.eye(300), K))
    assert numpy.allclose(numpy.fromfile(tmp_path / "scores", "<f8"), expected, rtol=1e-9)
    other = restricted_order(tmp_path, {"method": "uniform", "count": 20}, test={"fraction": 0.5})
    done = run("centers", "--job", other, "--scores", str(tmp_path / "scores"))
    assert done.returncode == 1 and "other data" in done.stderr


def test_centers_need_a_selector_and_a_bandwidth(tmp_path):
    for order in (write_order(tmp_path), restricted_order(tmp_path, "bless", kernel="gaussian")):
        done = run("centers", "--job", order)
        assert done.returncode == 1 and "how to select centers" in done.stderr


def test_solve_traces_every_step(tmp_path):
    order = write_order(tmp_path, solver={"name": "pcg", "preconditioner": {"name": "rpcholesky", "rank": 20}})
    r = report("solve", "--job", order, "--trace", str(tmp_path / "trace"), "--threads", "1")
    lines = [json.loads(line) for line in (tmp_path / "trace").read_text().splitlines()]
    phases = [line["phase"] for line in lines]
    assert phases[0] == "loading" and "preconditioner" in phases
    # Every iteration is there once, the last one with the certificate's first line, which has one a piece.
    certifying = [line for line in lines if line["phase"] == "certifying"]
    steps = [line for line in lines if line["phase"] == "iterating" and line["iteration"] > 0] + certifying[:1]
    assert [line["iteration"] for line in steps] == list(range(1, r["iterations"] + 1))
    assert steps[-1]["phase"] == "certifying"
    # A step at the tolerance may be gone on from, when what the steps updated proves to be too small.
    residuals = [line["relative_residual"] for line in steps]
    assert residuals[-1] <= 1e-6 < min(residuals[:-2])
    for key in ("seconds", "cpu_seconds"):
        values = [line[key] for line in lines]
        assert values == sorted(values) and values[0] >= 0
    assert lines[0]["rmse"] is None and lines[-1]["accuracy"] is None


def test_a_trace_that_cannot_be_written(tmp_path):
    order = write_order(tmp_path)
    done = run("solve", "--job", order, "--trace", str(tmp_path / "nowhere" / "trace"))
    assert done.returncode == 1 and "open the trace" in done.stderr
    if os.path.exists("/dev/full"):
        done = run("solve", "--job", order, "--trace", "/dev/full")
        assert done.returncode == 1 and "write the trace" in done.stderr and done.stdout == ""


def test_peers_compute_the_same(tmp_path):
    output = tmp_path / "peers.json"
    done = subprocess.run(
        [sys.executable, str(PEERS), "--bench", PROGRAM, "--n", "300", "--d", "3", "--kernels", "gaussian",
         "laplacian_l1", "--threads", "1", "--rounds", "1", "--seconds", "0.01", "--output", str(output)],
        capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    results = json.loads(output.read_text())
    assert [case["kernel"] for case in results["cases"]] == ["gaussian", "laplacian_l1"]
    names = {peer["name"] for case in results["cases"] for peer in case["peers"]}
    assert "numpy" in names and "krr-bench" in done.stdout
    for case in results["cases"]:
        for own in case["krr_bench"].values():
            assert own["entries_per_s"] > 0 and own["command"].startswith(PROGRAM)
        assert all(peer["max_difference"] < 1e-4 for peer in case["peers"])
    assert all(skipped["reason"] for skipped in results["skipped"])
