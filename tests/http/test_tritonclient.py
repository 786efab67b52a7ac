"""NVIDIA's tritonclient, as it comes from PyPI and with its default settings, against the daemon."""

import pathlib
import re

import numpy as np
import pytest
import tritonclient.http as triton

import data
import handmade


@pytest.fixture(scope="module")
def client(shared_daemon):
    with triton.InferenceServerClient(shared_daemon.base.removeprefix("http://")) as found:
        yield found


@pytest.fixture(scope="module")
def model(api):
    X, y = data.regression(120, seed=60)
    api.train("triton", api.upload_csv(X, y), test={"fraction": 0}, kernel={"name": "gaussian", "bandwidth": 2.0})
    return "triton"


def input_of(X, datatype="FP64", **kwargs):
    tensor = triton.InferInput("X", X.shape, datatype)
    tensor.set_data_from_numpy(X, **kwargs)
    return tensor


def questions(n=30):
    return data.regression(n, seed=61)[0]


def test_health_and_metadata(client, model):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready(model) and client.is_model_ready(model, "1")
    assert not client.is_model_ready("nothing")
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    assert client.get_model_metadata(model)["inputs"] == [{"name": "X", "datatype": "FP64", "shape": [-1, 4]}]
    assert client.get_model_config(model)["name"] == model
    assert client.get_inference_statistics(model)["model_stats"][0]["name"] == model


@pytest.mark.parametrize("datatype, dtype", [("FP64", np.float64), ("FP32", np.float32)])
def test_default_settings(api, client, model, datatype, dtype):
    """Binary in and out."""
    X = questions().astype(dtype)
    result = client.infer(model, [input_of(X, datatype)])
    wanted = api.predict(model, X.astype(float)).json()["predictions"]
    found = result.as_numpy("y")
    assert found.dtype == np.float64 and found.shape == (30, 1)
    assert found.ravel().tolist() == wanted
    assert result.get_response()["outputs"][0]["parameters"]["binary_data_size"] == 240


def test_every_mix_of_binary_and_json(api, client, model):
    X = questions()
    wanted = api.predict(model, X).json()["predictions"]
    for binary_in in (True, False):
        for binary_out in (True, False):
            result = client.infer(
                model, [input_of(X, binary_data=binary_in)], request_id="mix", model_version="1",
                outputs=[triton.InferRequestedOutput("y", binary_data=binary_out)],
                timeout=30_000_000, priority=1)
            assert result.as_numpy("y").ravel().tolist() == wanted
            assert result.get_response()["id"] == "mix"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_packed(api, client, model, coding):
    X = questions(3000)
    result = client.infer(model, [input_of(X)], request_compression_algorithm=coding,
                          response_compression_algorithm=coding)
    assert result.as_numpy("y").ravel().tolist() == api.predict(model, X).json()["predictions"]


def test_classifier(api, client):
    X, y = data.classification(90, seed=62)
    api.train("triton-kinds", api.upload(data.csv(X, y))["id"], test={"fraction": 0},
              kernel={"name": "gaussian", "bandwidth": 1.5})
    wanted = api.predict("triton-kinds", X).json()
    result = client.infer("triton-kinds", [input_of(X)])
    assert [label.decode() for label in result.as_numpy("y").ravel()] == wanted["predictions"]
    assert result.as_numpy("scores").tolist() == wanted["scores"]


def test_variance(api, client):
    process = handmade.regression(2)
    process.put(api, "triton-sure")
    X = questions()
    assert [o["name"] for o in client.get_model_metadata("triton-sure")["outputs"]] == ["y", "variance"]
    assert client.infer("triton-sure", [input_of(X)]).as_numpy("variance") is None
    result = client.infer("triton-sure", [input_of(X)], outputs=[triton.InferRequestedOutput("variance")])
    np.testing.assert_allclose(result.as_numpy("variance"), process.variance(X), rtol=1e-9)


def test_errors(client, model):
    """The text of a problem reaches the client."""
    with pytest.raises(triton.InferenceServerException, match="shape of X"):
        client.infer(model, [input_of(np.zeros((2, 3)))])
    with pytest.raises(triton.InferenceServerException, match="(?i)no model|nothing|no such"):
        client.infer("nothing", [input_of(np.zeros((2, 4)))])
    with pytest.raises(triton.InferenceServerException, match="finite"):
        client.infer(model, [input_of(np.full((2, 4), np.nan))])


def test_repository(client, model):
    client.load_model(model)
    states = {row["name"]: row["state"] for row in client.get_model_repository_index()}
    assert states[model] == "READY"
    client.unload_model(model)
    states = {row["name"]: row["state"] for row in client.get_model_repository_index()}
    assert states[model] == "UNAVAILABLE"
    client.infer(model, [input_of(questions(2))])


def test_asynchronous(api, model):
    X = questions(16)
    wanted = api.predict(model, X).json()["predictions"]
    with triton.InferenceServerClient(api.base.removeprefix("http://"), concurrency=4) as many:
        waiting = [many.async_infer(model, [input_of(X[i:i + 1])]) for i in range(16)]
        found = [w.get_result().as_numpy("y")[0, 0] for w in waiting]
    assert found == wanted


def test_the_lines_of_the_how_to(api, shared_daemon):
    """They run as they stand; only the address is this daemon's."""
    page = pathlib.Path(__file__).resolve().parents[2] / "docs/how-to/README.md"
    lines = re.search(r"(?:^    .*\n)+", page.read_text().split("KServe's client\n\n", 1)[1], re.M)[0]
    assert "triton" in lines
    X = np.linspace(0, 6, 60)[:, None]
    api.train("sine", api.upload_csv(X, np.sin(X[:, 0])), kernel="gaussian")
    lines = re.sub("^    ", "", lines, flags=re.M).replace("127.0.0.1:8080", shared_daemon.base.removeprefix("http://"))
    *statements, answer = lines.strip().split("\n")
    names: dict = {}
    exec("\n".join([*statements, f"answer = {answer}"]), names)
    assert names["answer"].shape == (2, 1)
