"""Models as safetensors and ONNX: read with the packages that people use, and predicted with there."""

import base64
import hashlib
import json
import math

import numpy as np
import onnxruntime
import pytest
import safetensors.numpy

import data
import handmade

DISTANCE = ["gaussian", "laplacian", "laplacian_l1", "matern12", "matern32", "matern52"]
KERNELS = {**{k: {"name": k, "bandwidth": 2.5} for k in DISTANCE},
           "linear": {"name": "linear"},
           "polynomial": {"name": "polynomial", "degree": 2},
           "sigmoid": {"name": "sigmoid", "gamma": 0.01, "coef0": 0.5}}
ROWS = 300


@pytest.fixture(scope="module")
def datasets(api):
    X, y = data.regression(ROWS, d=5, seed=51)
    several = np.column_stack([y, np.cos(y), X[:, 0] * y])
    C, labels = data.classification(ROWS, d=5)
    return {"one": (X, api.upload_npz(X, y)), "several": (X, api.upload_npz(X, several)),
            "classes": (C, api.upload_csv(C, labels))}


def train(api, model, dataset, kernel, precision="float64", **spec):
    job = api.train(model, dataset, kernel=kernel, precision=precision, regularization=1e-3,
                    solver="cholesky", **spec)
    return job["model_version"]


def export(api, model, version=1, expect=200, **query):
    answer = api.get(f"/v1/models/{model}/versions/{version}/export", expect, params=query)
    if expect == 200:
        digest = base64.b64encode(hashlib.sha256(answer.content).digest()).decode()
        assert answer.headers["Repr-Digest"] == f"sha-256=:{digest}:"
        assert int(answer.headers["Content-Length"]) == len(answer.content)
    return answer


def session(answer):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(answer.content, options)


def error_of(metadata):
    error = json.loads(metadata["export_error"])
    assert error["rows"] > 0 and error["max_abs_prediction"] > 0
    return error


def served(api, model, X):
    answer = api.predict(model, X).json()
    values = np.array(answer.get("scores", answer["predictions"]))
    return values.reshape(len(X), -1), answer


# The order of a sum is the runtime's own: on other rows, with other threads, the last digits differ.
MARGIN, ROUNDING = 8.0, 1e-12


def check(values, expected, error):
    allowed = MARGIN * error["max_abs_error"] + ROUNDING * (1 + np.abs(expected).max())
    assert np.abs(values - expected).max() <= allowed


def test_every_kernel_is_here(api):
    assert set(KERNELS) == {k["name"] for k in api.get("/v1/kernels").json()["data"]}


@pytest.mark.parametrize("what", ["one", "several", "classes"])
@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_onnx(api, name, datasets, kernel, what, precision):
    X, dataset = datasets[what]
    train(api, name, dataset, KERNELS[kernel], precision)
    answer = export(api, name, format="onnx")
    assert answer.headers["Content-Type"] == "application/onnx"
    model = session(answer)
    (given,) = model.get_inputs()
    assert (given.name, given.type, given.shape[1]) == ("X", "tensor(double)", X.shape[1])
    metadata = model.get_modelmeta().custom_metadata_map
    error = error_of(metadata)
    assert (error["of"], error["arithmetic"]) == ("test_rows", "float64")
    assert float(answer.headers["X-Export-Error"]) == error["max_abs_error"]
    # A float64 model is the same formula; a float32 one has the server's own rounding.
    limit = 1e-9 if precision == "float64" else 1e-3
    assert error["max_abs_error"] <= limit * error["max_abs_prediction"]
    expected, told = served(api, name, X)
    names = [o.name for o in model.get_outputs()]
    outputs = dict(zip(names, model.run(names, {"X": X})))
    check(outputs["scores" if what == "classes" else "y"], expected, error)
    if what == "classes":
        assert list(outputs["label"]) == told["predictions"]
        assert json.loads(metadata["description"])["classes"] == told["classes"]
    few = dict(zip(names, model.run(names, {"X": X[:1]})))
    assert len(few[names[0]]) == 1


@pytest.mark.parametrize("bandwidth", [2.5, [1.0, 2.0, 3.0, 4.0, 5.0]])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_svm_regressor(api, name, datasets, bandwidth, precision):
    X, dataset = datasets["one"]
    train(api, name, dataset, {"name": "gaussian", "bandwidth": bandwidth}, precision)
    answer = export(api, name, format="onnx", form="svm_regressor")
    assert 'svm_regressor.onnx"' in answer.headers["Content-Disposition"]
    model = session(answer)
    error = error_of(model.get_modelmeta().custom_metadata_map)
    assert error["arithmetic"] == "float32"
    assert 1e-9 < error["max_abs_error"] / error["max_abs_prediction"] < 1e-3
    expected, _ = served(api, name, X)
    check(model.run(["y"], {"X": X.astype(np.float32)})[0], expected, error)


@pytest.mark.parametrize("kernel", DISTANCE)
def test_one_bandwidth_a_feature(api, name, datasets, kernel):
    X, dataset = datasets["one"]
    train(api, name, dataset, {"name": kernel, "bandwidth": [1.0, 2.0, 3.0, 4.0, 5.0]})
    model = session(export(api, name, format="onnx"))
    expected, _ = served(api, name, X)
    check(model.run(["y"], {"X": X})[0], expected,
          error_of(model.get_modelmeta().custom_metadata_map))


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian_l1", "polynomial"])
def test_what_is_missing_is_filled_in(api, name, kernel, precision):
    """By the graph, and by what the safetensors file says of itself."""
    X, y = data.regression(ROWS, d=5, seed=53)
    X[np.random.default_rng(5).random(X.shape) < 0.1] = np.nan
    train(api, name, api.upload_npz(X, y, missing="fill"), KERNELS[kernel], precision)
    expected, _ = served(api, name, [[None if np.isnan(v) else v for v in row] for row in X.tolist()])
    assert np.isfinite(expected).all()
    for form in ["float64", "svm_regressor"] if kernel == "gaussian" else ["float64"]:
        model = session(export(api, name, format="onnx", form=form))
        metadata = model.get_modelmeta().custom_metadata_map
        assert "feature_fill" in metadata["fill_formula"]
        kind = np.float64 if form == "float64" else np.float32
        check(model.run(["y"], {"X": X.astype(kind)})[0], expected, error_of(metadata))
    fill = safetensors.numpy.load(export(api, name).content)["feature_fill"]
    assert np.allclose(fill, np.nanmean(X, axis=0), rtol=1e-14)
    whole, _ = served(api, name, np.where(np.isnan(X), fill, X))
    assert (whole == expected).all()


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian_l1"])
def test_what_is_missing_is_told(api, name, kernel, precision):
    """By the graph, whatever stands in the columns that tell: NaN, or 0."""
    X, y = data.regression(ROWS, d=5, seed=53)
    X[:, :3][np.random.default_rng(5).random((ROWS, 3)) < 0.1] = np.nan
    train(api, name, api.upload_npz(X, y, missing="indicate"), KERNELS[kernel], precision)
    expected, _ = served(api, name, [[None if np.isnan(v) else v for v in row] for row in X.tolist()])
    for form in ["float64", "svm_regressor"] if kernel == "gaussian" else ["float64"]:
        model = session(export(api, name, format="onnx", form=form))
        metadata = model.get_modelmeta().custom_metadata_map
        assert "feature_indicates" in metadata["indicator_formula"]
        for told in (np.nan, 0, np.isnan(X[:, :3])):
            wide = np.hstack([X, np.full((ROWS, 3), told)]).astype(np.float64 if form == "float64" else np.float32)
            check(model.run(["y"], {"X": wide})[0], expected, error_of(metadata))
    tensors = safetensors.numpy.load(export(api, name).content)
    assert tensors["feature_indicates"].tolist() == [-1] * 5 + [0, 1, 2]


def test_features_far_from_the_origin(api, name):
    """Not standardised, at 10^6: distances by inner products would lose most digits there."""
    X, y = data.regression(ROWS, d=5, seed=52)
    X = X + 1e6
    train(api, name, api.upload_npz(X, y), KERNELS["gaussian"], standardize={"features": False})
    model = session(export(api, name, format="onnx"))
    error = error_of(model.get_modelmeta().custom_metadata_map)
    assert error["max_abs_error"] < 1e-6
    check(model.run(["y"], {"X": X})[0], served(api, name, X)[0], error)


def predict_by_file(file, X):
    """What the file's metadata say: numpy alone, from the tensors."""
    with safetensors.safe_open(file, "numpy") as f:
        metadata = f.metadata()
        t = {key: f.get_tensor(key).astype(np.float64) for key in f.keys()}
    model = json.loads(metadata["model"])
    kernel, Z = model["kernel"], (X - t["feature_mean"]) / t["feature_scale"]
    C = t["centers"]
    if "bandwidths" in t:
        Z, C, kernel = Z / t["bandwidths"], C / t["bandwidths"], {**kernel, "bandwidth": 1.0}
    name = kernel["name"]
    if name in DISTANCE:
        K = data.kernel_matrix(name, Z, C, kernel["bandwidth"])
    else:
        K = kernel["gamma"] * Z @ C.T + kernel["coef0"]
        K = {"linear": K, "polynomial": K ** kernel.get("degree", 1), "sigmoid": np.tanh(K)}[name]
    return t["target_mean"] + t["target_scale"] * (K @ t["coef"]), model, metadata


@pytest.mark.parametrize("what", ["one", "several", "classes"])
@pytest.mark.parametrize("kernel", list(KERNELS))
def test_safetensors(api, name, tmp_path, datasets, kernel, what):
    X, dataset = datasets[what]
    train(api, name, dataset, KERNELS[kernel])
    answer = export(api, name)
    assert answer.headers["Content-Type"] == "application/vnd.safetensors"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}-v1.safetensors"'
    file = tmp_path / "model"
    file.write_bytes(answer.content)
    values, model, metadata = predict_by_file(file, X)
    expected, told = served(api, name, X)
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9)
    version = api.get(f"/v1/models/{name}/versions/1").json()
    assert metadata["sha256"] == version["sha256"] and metadata["job"] == version["job"]
    assert metadata["name"] == name and metadata["dataset"] == dataset
    assert model["features"] == version["description"]["features"]
    assert error_of(metadata)["max_abs_error"] < 1e-9
    if what == "classes":
        assert [model["classes"][k] for k in values.argmax(axis=1)] == told["predictions"]


def test_where_the_rows_come_from(api, name):
    X, y = data.regression(ROWS, seed=53)
    mask = (np.arange(ROWS) % 10 == 0).astype(float)
    whole = api.upload_csv(np.column_stack([X, mask]), y, names=["a", "b", "c", "d", "held"])
    other = api.upload_csv(X[:40], y[:40], names=["a", "b", "c", "d"])
    features = ["a", "b", "c", "d"]

    def rows(version):
        error = error_of(safetensors_metadata(export(api, name, version).content))
        return error["of"], error["rows"]

    train(api, name, whole, KERNELS["gaussian"], test={"mask": "held"})
    train(api, name, whole, KERNELS["gaussian"], features=features, test={"dataset": other})
    train(api, name, whole, KERNELS["gaussian"], test={"fraction": 0.5})
    train(api, name, whole, KERNELS["gaussian"], test={"fraction": 0})
    assert rows(1) == ("test_rows", 30)
    assert rows(2) == ("test_rows", 40)
    assert rows(3) == ("test_rows", 150)
    assert rows(4) == ("dataset", 256)
    job = api.get(f"/v1/models/{name}/versions/3").json()["job"]
    api.delete(f"/v1/jobs/{job}")
    assert rows(3) == ("dataset", 256)
    api.delete(f"/v1/datasets/{other}")
    assert rows(2)[0] == "dataset"
    api.delete(f"/v1/datasets/{whole}")
    assert {rows(v)[0] for v in (1, 2, 3, 4)} == {"centers"}


def safetensors_metadata(content):
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8:8 + size])["__metadata__"]


def test_the_same_again(api, name, datasets):
    _, dataset = datasets["one"]
    train(api, name, dataset, KERNELS["gaussian"])
    for query in ({}, {"format": "onnx"}, {"format": "onnx", "form": "svm_regressor"}):
        first, second = (export(api, name, **query) for _ in range(2))
        assert first.content == second.content
        tag = first.headers["ETag"]
        api.get(f"/v1/models/{name}/versions/1/export", 304, params=query,
                headers={"If-None-Match": tag})
    head = api.request("HEAD", f"/v1/models/{name}/versions/1/export", 200)
    assert not head.content and head.headers["Repr-Digest"]


def test_refusals(api, name, datasets):
    for version, (what, kernel) in enumerate((("several", "gaussian"), ("classes", "gaussian"),
                                              ("one", "laplacian")), start=1):
        train(api, name, datasets[what][1], KERNELS[kernel])
        problem = export(api, name, version, 422, format="onnx", form="svm_regressor").json()
        assert problem["errors"][0]["pointer"] == "#/query/form"
    for query in ({"format": "pmml"}, {"format": "onnx", "form": "x"}, {"form": "float64"},
                  {"x": "1"}):
        export(api, name, 1, 422, **query)
    export(api, name, 4, 404)
    export(api, "nobody", 1, 404)


def test_a_model_that_no_worker_loads(daemons):
    """The file is made all the same, and says that its error is not known."""
    daemon = daemons()
    X, y = data.regression(60, seed=54)
    daemon.api.train("m", daemon.api.upload_npz(X, y), kernel=KERNELS["gaussian"])
    assert daemon.stop() == 0
    daemon.start(serve_memory_bytes=1)
    answer = export(daemon.api, "m")
    metadata = safetensors_metadata(answer.content)
    assert metadata["export_error"] == "null" and metadata["export_error_unknown"]
    assert "X-Export-Error" not in answer.headers


def test_nothing_is_left(daemons):
    daemon = daemons()
    X, y = data.regression(60, seed=55)
    daemon.api.train("m", daemon.api.upload_npz(X, y), kernel=KERNELS["gaussian"])
    for query in ({}, {"format": "onnx"}):
        assert math.isfinite(float(export(daemon.api, "m", **query).headers["X-Export-Error"]))
    assert daemon.stop() == 0
    assert not [f for f in (daemon.data_dir / "tmp").iterdir() if f.name != "address"]


@pytest.mark.parametrize("what", ["regression", "classifier"])
def test_a_model_with_a_variance(api, name, what):
    """ONNX has the mean alone, safetensors all of it."""
    process = getattr(handmade, what)()
    process.put(api, name)
    X = process.centers * process.scale + process.mean
    expected, _ = served(api, name, X)
    for form in ["float64"] + ["svm_regressor"] * (what == "regression"):
        answer = export(api, name, format="onnx", form=form)
        model = session(answer)
        assert {o.name for o in model.get_outputs()} <= {"y", "label", "scores"}
        metadata = model.get_modelmeta().custom_metadata_map
        assert json.loads(metadata["description"])["variance"]["directions"] == 60
        assert "variance_formula" not in metadata
        (values,) = model.run(["scores" if what == "classifier" else "y"],
                              {"X": X.astype(np.float32 if form == "svm_regressor" else float)})
        check(values, expected, error_of(metadata))
    tensors = safetensors.numpy.load(export(api, name).content)
    for key, wanted in (("variance_factor", process.factor), ("prior_variance", process.prior), ("noise_variance", process.noise)):
        assert np.array_equal(tensors[key], wanted)
