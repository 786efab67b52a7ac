"""The Open Inference Protocol, version 2: metadata, JSON, binary tensors, the repository."""

import contextlib
import gzip
import json
import sqlite3
import struct

import numpy as np
import pytest

import api as interface
import data

LENGTH = "Inference-Header-Content-Length"


@pytest.fixture(scope="module")
def model(api):
    X, y = data.regression(120, seed=50)
    api.train("infer", api.upload_csv(X, y), test={"fraction": 0}, regularization=1e-4,
              kernel={"name": "gaussian", "bandwidth": 2.0})
    return "infer"


@pytest.fixture(scope="module")
def classifier(api):
    X, y = data.classification(90, labels=["no", "ümlaut", "🙂"], seed=51)
    dataset = api.upload(data.csv(X, y))
    api.train("infer-kinds", dataset["id"], test={"fraction": 0}, kernel={"name": "gaussian", "bandwidth": 1.5})
    return "infer-kinds", X


def questions(n=20, seed=52):
    return data.regression(n, seed=seed)[0]


def tensor(X, datatype="FP64", **extra):
    return {"name": "X", "shape": list(np.shape(X)), "datatype": datatype, **extra}


def infer(api, model, body, expect=200, version=None, **kwargs):
    path = f"/v2/models/{model}" + (f"/versions/{version}" if version else "")
    if isinstance(body, dict):
        return api.post(path + "/infer", expect, json=body, **kwargs)
    return api.post(path + "/infer", expect, data=body, **kwargs)


def binary(api, model, head, raw, expect=200, **headers):
    head = json.dumps(head).encode()
    headers = {LENGTH: str(len(head)), "Content-Type": "application/octet-stream", **headers}
    return api.post(f"/v2/models/{model}/infer", expect, data=head + raw, headers=headers)


def parts(answer):
    """The JSON part, and the binary one."""
    assert answer.headers["Content-Type"] == "application/octet-stream"
    length = int(answer.headers[LENGTH])
    return json.loads(answer.content[:length]), answer.content[length:]


def test_server(api):
    server = api.get("/v2").json()
    assert server["name"] == "krrd"
    assert {"binary_tensor_data", "model_repository", "model_configuration", "statistics",
            "schedule_policy"} <= set(server["extensions"])


def test_model(api, model, classifier):
    found = api.get(f"/v2/models/{model}").json()
    assert found == {
        "name": model, "versions": ["1"], "platform": "krrd_krr",
        "inputs": [{"name": "X", "datatype": "FP64", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "datatype": "FP64", "shape": [-1, 1]}]}
    assert api.get(f"/v2/models/{model}/versions/1").json() == found
    kinds = api.get(f"/v2/models/{classifier[0]}").json()
    assert kinds["outputs"] == [{"name": "y", "datatype": "BYTES", "shape": [-1, 1]},
                                {"name": "scores", "datatype": "FP64", "shape": [-1, 3]}]
    config = api.get(f"/v2/models/{model}/config").json()
    assert config["input"] == [{"name": "X", "data_type": "TYPE_FP64", "dims": [4]}]
    assert config["output"] == [{"name": "y", "data_type": "TYPE_FP64", "dims": [1]}]
    assert config["max_batch_size"] == (64 << 20) // 32
    assert api.get(f"/v2/models/{model}/ready").json() == {"name": model, "ready": True}
    for path in ("", "/ready", "/config", "/stats"):
        assert "error" in api.get(f"/v2/models/nothing{path}", 404).json()
        api.get(f"/v2/models/{model}/versions/9{path}", 404)
        api.get(f"/v2/models/{model}/versions/1{path}")


def test_json(api, model):
    X = questions()
    wanted = api.predict(model, X).json()
    for rows in (X.tolist(), X.ravel().tolist()):
        answer = infer(api, model, {"id": "a \"7\" ü", "inputs": [tensor(X, data=rows)]}).json()
        assert answer == {
            "model_name": model, "model_version": "1", "id": "a \"7\" ü",
            "parameters": {"digest": wanted["digest"]},
            "outputs": [{"name": "y", "datatype": "FP64", "shape": [20, 1],
                         "data": wanted["predictions"]}]}
    body = {"inputs": [tensor(X, data=X.tolist(), parameters={"content_type": "np"})],
            "parameters": {"timeout": 30000000, "priority": 1, "custom": "x"},
            "outputs": [{"name": "y", "parameters": {"binary_data": False}}]}
    answer = infer(api, model, body, version=1).json()
    assert answer["outputs"][0]["data"] == wanted["predictions"] and "id" not in answer


def test_members_in_any_order(api, model):
    X = questions(3)
    wanted = api.predict(model, X).json()["predictions"]
    text = json.dumps({"outputs": [{"name": "y"}], "inputs": [
        {"data": X.tolist(), "datatype": "FP64", "shape": [3, 4], "name": "X"}]})
    assert infer(api, model, text).json()["outputs"][0]["data"] == wanted


@pytest.mark.parametrize("datatype", ["FP64", "FP32"])
def test_binary(api, model, datatype):
    X = questions().astype("<f8" if datatype == "FP64" else "<f4")
    wanted = api.predict(model, X.astype(float)).json()["predictions"]
    raw = X.tobytes()
    head = {"inputs": [tensor(X, datatype, parameters={"binary_data_size": len(raw)})], "id": "7"}
    assert binary(api, model, head, raw).json()["outputs"][0]["data"] == wanted
    for ask in ({"parameters": {"binary_data_output": True}},
                {"outputs": [{"name": "y", "parameters": {"binary_data": True}}]},
                {"outputs": [{"name": "y"}], "parameters": {"binary_data_output": True}}):
        answer, rest = parts(binary(api, model, {**head, **ask}, raw))
        assert answer["id"] == "7" and answer["model_version"] == "1"
        assert answer["outputs"] == [{"name": "y", "datatype": "FP64", "shape": [20, 1],
                                      "parameters": {"binary_data_size": 160}}]
        assert np.frombuffer(rest, "<f8").tolist() == wanted
    ask = {"outputs": [{"name": "y", "parameters": {"binary_data": False}}],
           "parameters": {"binary_data_output": True}}
    assert binary(api, model, {**head, **ask}, raw).json()["outputs"][0]["data"] == wanted
    # The same as JSON: float32 numbers mean the same either way.
    body = {"inputs": [tensor(X, datatype, data=X.astype(float).tolist())]}
    assert infer(api, model, body).json()["outputs"][0]["data"] == wanted
    decimal = {"inputs": [tensor(X, datatype, data=np.round(X.astype(float), 3).tolist())]}
    rounded = np.round(X.astype(float), 3).astype(X.dtype).astype(float)
    assert infer(api, model, decimal).json()["outputs"][0]["data"] == \
        api.predict(model, rounded).json()["predictions"]


def test_raw_body(api, model):
    X = questions()
    wanted = api.predict(model, X).json()["predictions"]
    raw = {LENGTH: "0", "Content-Type": "application/octet-stream"}
    answer = infer(api, model, X.astype("<f8").tobytes(), headers=raw)
    head, rest = parts(answer)
    assert head["outputs"][0]["shape"] == [20, 1]
    assert np.frombuffer(rest, "<f8").tolist() == wanted
    for size in (0, 31, 33):
        problem = infer(api, model, b"\0" * size, 422, headers=raw)
        assert interface.problem_pointers(problem) == ["#"]


def test_classifier(api, classifier):
    name, X = classifier
    wanted = api.predict(name, X).json()
    body = {"inputs": [tensor(X, data=X.tolist())]}
    y, scores = infer(api, name, body).json()["outputs"]
    assert (y["name"], y["datatype"], y["shape"]) == ("y", "BYTES", [90, 1])
    assert y["data"] == wanted["predictions"]
    assert (scores["name"], scores["shape"]) == ("scores", [90, 3])
    assert np.reshape(scores["data"], (90, 3)).tolist() == wanted["scores"]
    [alone] = infer(api, name, {**body, "outputs": [{"name": "y"}]}).json()["outputs"]
    assert alone == y
    turned = infer(api, name, {**body, "outputs": [{"name": "scores"}, {"name": "y"}]}).json()
    assert turned["outputs"] == [scores, y]
    both = {**body, "outputs": [{"name": "y", "parameters": {"binary_data": True}}, {"name": "scores"}]}
    head, rest = parts(infer(api, name, both))
    assert head["outputs"][0]["parameters"] == {"binary_data_size": len(rest)}
    assert head["outputs"][1] == scores
    labels = []
    while rest:
        size, = struct.unpack("<I", rest[:4])
        labels.append(rest[4:4 + size].decode())
        rest = rest[4 + size:]
    assert labels == wanted["predictions"]


def test_packed(api, model):
    X = questions(2000)
    wanted = api.predict(model, X).json()["predictions"]
    head = json.dumps({"inputs": [tensor(X, parameters={"binary_data_size": X.nbytes})],
                       "parameters": {"binary_data_output": True}}).encode()
    answer = api.post(f"/v2/models/{model}/infer", data=gzip.compress(head + X.tobytes()),
                      headers={LENGTH: str(len(head)), "Content-Encoding": "gzip",
                               "Accept-Encoding": "deflate"})
    assert answer.headers["Content-Encoding"] == "deflate"
    assert np.frombuffer(parts(answer)[1], "<f8").tolist() == wanted


def test_statistics(api, name):
    X, y = data.regression(60, seed=54)
    api.train(name, api.upload_csv(X, y), test={"fraction": 0})
    for rows in (1, 2, 5):
        api.predict(name, X[:rows])
    everything = api.get("/v2/models/stats").json()["model_stats"]
    found = api.get(f"/v2/models/{name}/versions/1/stats").json()
    assert found["model_stats"][0] in everything
    assert len({(m["name"], m["version"]) for m in everything}) == len(everything)
    assert all(m["memory_usage"][0]["byte_size"] > 0 for m in everything)  # none but loaded ones
    assert found == api.get(f"/v2/models/{name}/stats").json()
    [stats] = found["model_stats"]
    assert (stats["name"], stats["version"]) == (name, "1")
    assert (stats["inference_count"], stats["execution_count"]) == (8, 3)
    times = stats["inference_stats"]
    assert times["success"]["count"] == times["queue"]["count"] == 3 and times["fail"]["count"] == 0
    assert times["success"]["ns"] > times["compute_infer"]["ns"] > 0
    assert stats["memory_usage"][0]["byte_size"] > 0 and stats["last_inference"] > 0


def test_deadline(api, model):
    """A timeout of a microsecond is over before a worker sees the request."""
    X = questions(2)
    body = {"inputs": [tensor(X, data=X.tolist())], "parameters": {"timeout": 1}}
    assert infer(api, model, body, 504).json()["code"] == "deadline_exceeded"


GOOD = {"name": "X", "shape": [1, 4], "datatype": "FP64", "data": [1, 2, 3, 4]}

REFUSED = [
    ("", 400, None),
    ("[]", 422, "#"),
    ("{}", 422, "#/inputs"),
    ({"inputs": []}, 422, "#/inputs"),
    ({"inputs": {}}, 422, "#/inputs"),
    ({"inputs": [GOOD, GOOD]}, 422, "#/inputs/1"),
    ({"inputs": [GOOD], "other": 1}, 422, "#/other"),
    ({"inputs": [GOOD], "id": 7}, 422, "#/id"),
    ({"inputs": [{**GOOD, "name": "x"}]}, 422, "#/inputs/0/name"),
    ({"inputs": [{**GOOD, "extra": 1}]}, 422, "#/inputs/0/extra"),
    ({"inputs": [{**GOOD, "datatype": "INT64"}]}, 422, "#/inputs/0/datatype"),
    ({"inputs": [{**GOOD, "shape": [4]}]}, 422, "#/inputs/0/shape"),
    ({"inputs": [{**GOOD, "shape": [1, 1, 4]}]}, 422, "#/inputs/0/shape"),
    ({"inputs": [{**GOOD, "shape": [-1, 4]}]}, 422, "#/inputs/0/shape"),
    ({"inputs": [{**GOOD, "shape": [1.5, 4]}]}, 422, "#/inputs/0/shape"),
    ({"inputs": [{**GOOD, "shape": [4, 1]}]}, 422, "#/inputs/0/shape"),
    ({"inputs": [{**GOOD, "shape": [2, 4]}]}, 422, "#/inputs/0/data"),
    ({"inputs": [{**GOOD, "shape": [0, 4], "data": []}]}, 422, "#/inputs/0"),
    ({"inputs": [{**GOOD, "data": [1, 2, 3]}]}, 422, "#/inputs/0/data"),
    ({"inputs": [{**GOOD, "data": [1, 2, 3, 4, 5]}]}, 422, "#/inputs/0/data"),
    ({"inputs": [{**GOOD, "data": [1, 2, 3, "4"]}]}, 422, "#/inputs/0/data"),
    ({"inputs": [{**GOOD, "data": [[1, 2, 3]]}]}, 422, "#/inputs/0/data/0"),
    ({"inputs": [{**GOOD, "data": [[1, 2, 3, 4], 5]}]}, 422, "#/inputs/0/data"),
    ({"inputs": [{**GOOD, "data": 5}]}, 422, "#/inputs/0/data"),
    ({"inputs": [{**GOOD, "datatype": "FP32", "data": [1, 2, 3, 1e39]}]}, 422, "#/inputs/0/data/3"),
    ({"inputs": [{k: v for k, v in GOOD.items() if k != "data"}]}, 422, "#/inputs/0/data"),
    ({"inputs": [{k: v for k, v in GOOD.items() if k != "name"}]}, 422, "#/inputs/0/name"),
    ({"inputs": [{k: v for k, v in GOOD.items() if k != "datatype"}]}, 422, "#/inputs/0/datatype"),
    ({"inputs": [{k: v for k, v in GOOD.items() if k != "shape"}]}, 422, "#/inputs/0/shape"),
    ({"inputs": [{**GOOD, "parameters": {"binary_data_size": 32}}]}, 422, "#/inputs/0/data"),
    ({"inputs": [{**GOOD, "parameters": {"shared_memory_region": "a"}}]}, 422, "#/inputs/0/parameters"),
    ({"inputs": [GOOD], "outputs": [{"name": "z"}]}, 422, "#/outputs/0"),
    ({"inputs": [GOOD], "outputs": [{"name": "scores"}]}, 422, "#/outputs/0"),
    ({"inputs": [GOOD], "outputs": [{"name": "y"}, {"name": "y"}]}, 422, "#/outputs/1"),
    ({"inputs": [GOOD], "outputs": [{}]}, 422, "#/outputs/0"),
    ({"inputs": [GOOD], "outputs": [{"name": "y", "parameters": {"classification": 2}}]}, 422, "#/outputs/0"),
    ({"inputs": [GOOD], "outputs": {}}, 422, "#/outputs"),
    ({"inputs": [GOOD], "parameters": {"timeout": -1}}, 422, "#/parameters/timeout"),
    ({"inputs": [GOOD], "parameters": {"timeout": "1"}}, 422, "#/parameters/timeout"),
    ({"inputs": [GOOD], "parameters": {"priority": 1.5}}, 422, "#/parameters/priority"),
    ({"inputs": [GOOD], "parameters": {"binary_data_output": 1}}, 422, "#/parameters/binary_data_output"),
    ({"inputs": [GOOD], "parameters": {"x": []}}, 422, "#/parameters"),
    ('{"inputs": [], "inputs": []}', 422, "#/inputs"),
    ('{"id": "a", "id": "b"}', 400, "#/id"),
    ('{"inputs": [{"name": "X", "name": "X"}]}', 400, "#/inputs/0/name"),
    ('{"parameters": {"timeout": 1, "timeout": 2}}', 400, "#/parameters/timeout"),
    ('{"parameters": {"priority": 1, "x": 3, "priority": 1}}', 400, "#/parameters/priority"),
    ('{"inputs": [{"parameters": {"binary_data_size": 8, "binary_data_size": 32}}]}', 400,
     "#/inputs/0/parameters/binary_data_size"),
    ('{"outputs": [{"name": "y", "name": "y"}]}', 400, "#/outputs/0"),
    ('{"outputs": [{"parameters": {}, "parameters": {}}]}', 400, "#/outputs/0"),
    ('{"outputs": [{"parameters": {"binary_data": true, "binary_data": false}}]}', 400,
     "#/outputs/0"),
    ('{"inputs": [{"name": "X", "data": [1e999]}]}', 400, "#/inputs/0/data"),
    ('{"inputs": [{"name": "X", "data": [NaN]}]}', 400, "#/inputs/0/data"),
    ('{"id": "a"} x', 400, None),
]


@pytest.mark.parametrize("body, status, pointer", REFUSED)
def test_refused(api, model, body, status, pointer):
    answer = infer(api, model, body, status)
    assert interface.problem_pointers(answer) == ([pointer] if pointer else []), answer.text
    assert isinstance(answer.json()["error"], str)


def test_refused_binary(api, model):
    X = questions(2)
    raw = X.tobytes()
    good = tensor(X, parameters={"binary_data_size": 64})
    size = "#/inputs/0/parameters/binary_data_size"
    for head, tail, pointer in (
        (good, raw[:-1], size),
        (good, raw + b"x", size),
        (good, b"", size),
        (tensor(X, parameters={"binary_data_size": 63}), raw[:-1], "#/inputs/0/shape"),
        (tensor(X, "FP32", parameters={"binary_data_size": 64}), raw, "#/inputs/0/shape"),
        ({**good, "shape": [2 ** 53, 4]}, raw, "#/inputs/0/shape"),
        (tensor(X, parameters={"binary_data_size": -1}), raw, size),
        (tensor(X, parameters={"binary_data_size": 1e300}), raw, size),
        (tensor(X, data=X.tolist()), raw, size),
        (good, np.full((2, 4), np.nan).tobytes(), "#/inputs/0/data/0"),
        ({**good, "shape": [0, 4], "parameters": {"binary_data_size": 0}}, b"", "#/inputs/0"),
    ):
        answer = binary(api, model, {"inputs": [head]}, tail, 422)
        assert interface.problem_pointers(answer) == [pointer], answer.text
    for length in ("x", "-1", "1e3", "99999", str(2 ** 64), "18446744073709551616000"):
        infer(api, model, b"{}", 400, headers={LENGTH: length})


def test_repository(api, model, name):
    X, y = data.regression(60, seed=53)
    dataset = api.upload_csv(X, y)
    for _ in range(2):
        api.train(name, dataset, test={"fraction": 0})

    def index(**body):
        rows = api.post("/v2/repository/index", json=body).json()
        return {row["version"]: row["state"] for row in rows if row["name"] == name}

    assert set(index()) == {"1", "2"}
    assert api.post("/v2/repository/index").json() == api.post("/v2/repository/index", json={}).json()
    assert api.post(f"/v2/repository/models/{name}/load").content == b""
    assert index()["2"] == "READY" and index(ready=True) == {"2": "READY"}
    api.post(f"/v2/repository/models/{name}/unload", json={"parameters": {"unload_dependents": False}})
    assert index() == {"1": "UNAVAILABLE", "2": "UNAVAILABLE"} and index(ready=True) == {}
    answer = api.post(f"/v2/repository/models/{name}/load", 422, json={"parameters": {"config": "{}"}})
    assert interface.problem_pointers(answer) == ["#/parameters/config"]
    api.post("/v2/repository/models/nothing/load", 404)
    api.post("/v2/repository/models/nothing/unload", 404)
    api.post("/v2/repository/index", 422, json=[])
    api.post("/v2/repository/index", 422, json={"ready": 1})


def test_the_index_ends(daemons):
    """It has no pages: of very many versions it has those that are loaded."""
    daemon = daemons()
    daemon.api.train("m", daemon.api.upload_csv(*data.regression(60)))
    daemon.stop()
    with contextlib.closing(sqlite3.connect(daemon.data_dir / "krrd.db")) as db:
        db.executemany("INSERT INTO models (name, version, job, dataset, description, sha256, created_ms) "
                       "VALUES ('n', ?, '', '', '{}', ?, 0)", [(i + 1, "0" * 64) for i in range(9999)])
        db.commit()
        daemon.start()
        api = daemon.api
        rows = api.post("/v2/repository/index").json()
        assert [int(row["version"]) for row in rows] == [1, *range(1, 10000)]
        db.execute("INSERT INTO models (name, version, job, dataset, description, sha256, created_ms) "
                   "VALUES ('n', 10000, '', '', '{}', ?, 0)", ["0" * 64])
        db.commit()
        problem = api.post("/v2/repository/index", 422).json()
        assert problem["code"] == "too_large" and "10000" in problem["detail"]
        assert api.post("/v2/repository/index", json={"ready": True}).json() == []
        api.post("/v2/repository/models/m/load")
        [row] = api.post("/v2/repository/index", json={"ready": True}).json()
        assert (row["name"], row["version"], row["state"]) == ("m", "1", "READY")


def test_many_names_in_the_index(daemons):
    """More than the store gives at a time."""
    own = daemons().api
    X, y = data.regression(12)
    dataset = own.upload_csv(X, y)
    names = [f"m{i:03}" for i in range(104)]
    jobs = [own.create(name, dataset, test={"fraction": 0}, kernel={"name": "gaussian", "bandwidth": 1.0},
                       regularization=1e-3)["id"] for name in names]
    for job in jobs:
        own.wait(job)
    assert [row["name"] for row in own.post("/v2/repository/index").json()] == names
