"""Exports that come back: the same bits, and nothing but refusals for what is not whole."""

import concurrent.futures
import contextlib
import json
import random
import sqlite3
import struct

import numpy as np
import pytest

import contract
import daemon as daemon_module
import data
import handmade
import wait

TYPE = {"Content-Type": "application/vnd.safetensors"}


@pytest.fixture(scope="module")
def models(api):
    """Regression with one bandwidth a feature, in float32, and a classification."""
    X, y = data.regression(80, seed=61)
    api.train("there", api.upload_npz(X, np.column_stack([y, -y])), precision="float32",
              kernel={"name": "matern32", "bandwidth": [1.0, 2.0, 3.0, 4.0]})
    C, labels = data.classification(60)
    api.train("there", api.upload_csv(C, labels), kernel={"name": "polynomial", "degree": 2})
    return {1: X[:20], 2: C[:20]}


def exported(api, version):
    return api.get(f"/v1/models/there/versions/{version}/export").content


def put(api, name, body, expect=201):
    return api.post(f"/v1/models/{name}/import", expect, data=body, headers=TYPE)


@pytest.mark.parametrize("version", [1, 2])
def test_round_trip(api, name, models, version):
    answer = put(api, name, exported(api, version))
    assert answer.headers["Location"] == f"/v1/models/{name}/versions/1"
    model, origin = answer.json(), api.get(f"/v1/models/there/versions/{version}").json()
    assert model == api.get(f"/v1/models/{name}/versions/1").json()
    assert model["sha256"] == origin["sha256"] and model["bytes"] == origin["bytes"]
    assert model["job"] is None and model["dataset"] is None
    description = model["description"]
    assert description["imported"]["name"] == "there"
    assert description["imported"]["version"] == str(version)
    assert description["imported"]["sha256"] == origin["sha256"]
    for key in ("kernel", "task", "features", "targets", "classes", "centers", "precision"):
        assert description[key] == origin["description"][key]
    here = api.predict(name, models[version]).json()
    there = api.predict("there", models[version], version=version).json()
    for key in ("predictions", "scores", "classes"):
        assert here.get(key) == there.get(key)
    # It is a version like any other: exported, aliased, deleted.
    again = api.get(f"/v1/models/{name}/versions/1/export").content
    assert put(api, name, again).json()["sha256"] == origin["sha256"]
    api.request("PUT", f"/v1/models/{name}/aliases/prod", 201, json={"version": 2})
    api.delete(f"/v1/models/{name}/versions/1")


def test_the_mask_is_carried_along(api, name):
    """The table that a model was trained on is a question to its copies and theirs, too."""
    table = "test,a,y\n" + "".join(f"{i % 2},{i},{i * 1.5}\n" for i in range(30))
    api.train(name, api.upload(table.encode())["id"], test={"mask": "test"})
    for version in (1, 2):
        put(api, name, api.get(f"/v1/models/{name}/versions/{version}/export").content)
    one, three = (api.post(f"/v1/models/{name}/versions/{v}/predict", 200, data=table, headers={"Content-Type": "text/csv"})
                  for v in (1, 3))
    assert one.content == three.content
    assert api.get(f"/v1/models/{name}/versions/3").json()["description"]["mask"] == "test"


def parts(content):
    size = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:8 + size]), content[8 + size:]


def joined(header, rest):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + rest


def changed_model(change):
    def apply(header):
        model = json.loads(header["__metadata__"]["model"])
        change(model)
        header["__metadata__"]["model"] = json.dumps(model)
    return apply


@pytest.mark.parametrize("change, part", [
    (lambda h: h["__metadata__"].pop("model"), "description"),
    (lambda h: h["__metadata__"].update(sha256="0" * 64), "digest"),
    (changed_model(lambda m: m["kernel"].update(name="cosine")), "kernel"),
    (changed_model(lambda m: m["kernel"].update(bandwidth=2)), ""),
    (changed_model(lambda m: m["kernel"].update(gamma=2)), "parameters"),
    (changed_model(lambda m: m["features"].pop()), "tensor"),
    (changed_model(lambda m: m["targets"].append("more")), "tensor"),
    (changed_model(lambda m: m.update(version=2)), "factor of its variance"),
    (changed_model(lambda m: m.update(version=5)), "version 5"),
    (changed_model(lambda m: m.update(task="auto")), ""),
    (changed_model(lambda m: m.update(task="classification")), "class labels"),
    (lambda h: h["centers"].update(shape=[4, h["centers"]["shape"][0]]), "shape"),
    (lambda h: h["coef"].update(dtype="F32"), ""),
    (lambda h: h["coef"].update(dtype="I8"), "F32 and F64"),
    (lambda h: h.update(more=h.pop("bandwidths")), "tensor"),
    (lambda h: h["__metadata__"].update(mask="x1"), "a feature or a target"),
    (lambda h: h["__metadata__"].update(mask="y1"), "a feature or a target"),
    (lambda h: h["__metadata__"].update(mask=""), "empty"),
])
def test_contradictions(api, name, models, change, part):
    header, rest = parts(exported(api, 1))
    if part != "digest":
        header["__metadata__"].pop("sha256")
    change(header)
    problem = put(api, name, joined(header, rest), 422).json()
    assert problem["errors"][0]["pointer"] == "#/body" and part in problem["detail"]
    api.get(f"/v1/models/{name}", 404)


@pytest.mark.parametrize("version, change, part", [
    (1, lambda m: m["features"].__setitem__(1, m["features"][0]), "features/1"),
    (1, lambda m: m["features"].__setitem__(2, ""), "features/2"),
    (1, lambda m: m["targets"].__setitem__(1, m["targets"][0]), "targets/1"),
    (2, lambda m: m["classes"].__setitem__(1, m["classes"][0]), "classes/1"),
    (2, lambda m: m.update(classes=m["classes"][:1]), "two classes"),
    (2, lambda m: m["kernel"].update(gamma=0), "kernel/gamma"),
    (2, lambda m: m["kernel"].update(coef0=-1), "kernel/coef0"),
    (2, lambda m: m["kernel"].update(degree=1000), "kernel/degree"),
])
def test_what_no_job_makes(api, name, models, version, change, part):
    """Names and parameters are refused as uploads and jobs have them refused."""
    header, rest = parts(exported(api, version))
    header["__metadata__"].pop("sha256")
    changed_model(change)(header)
    problem = put(api, name, joined(header, rest), 422).json()
    assert problem["errors"][0]["pointer"] == "#/body" and part in problem["detail"]
    api.get(f"/v1/models/{name}", 404)


@pytest.mark.parametrize("tensor, value, part", [
    ("coef", float("nan"), '"coef" holds infinity or NaN'), ("feature_mean", float("inf"), "infinity or NaN"),
    ("feature_scale", 0.0, "positive"), ("target_scale", -1.0, "positive"),
    ("bandwidths", 0.0, "positive"), ("bandwidths", 5e-324, "divided by the bandwidth"),
    ("coef", 0.125, "digest")])
def test_numbers(api, name, models, tensor, value, part):
    header, rest = parts(exported(api, 1))
    begin = header[tensor]["data_offsets"][0]
    damaged = rest[:begin] + struct.pack("<d", value) + rest[begin + 8:]
    assert part in put(api, name, joined(header, damaged), 422).json()["detail"]


def test_a_model_whose_predictions_overflow(api, name, models):
    """No answer holds a number that JSON has not, and an export of it says that its error is not known."""
    header, rest = parts(exported(api, 2))
    header["__metadata__"].pop("sha256")
    changed_model(lambda m: m["kernel"].update(gamma=1e30, degree=20))(header)
    put(api, name, joined(header, rest))
    assert "finite" in api.predict(name, models[2], expect=422).text
    for query in ("", "?format=onnx"):
        answer = api.get(f"/v1/models/{name}/versions/1/export{query}")
        assert "X-Export-Error" not in answer.headers
    again, _ = parts(api.get(f"/v1/models/{name}/versions/1/export").content)
    assert again["__metadata__"]["export_error"] == "null"
    assert "finite" in again["__metadata__"]["export_error_unknown"]


def test_what_is_no_model(api, name, models):
    body = exported(api, 1)
    for text in (b"", b"x", b"{}", body[:-1], body + b"\0", body[:8], body[:100],
                 struct.pack("<Q", 2**63) + body[8:], data.npz(np.eye(3), np.ones(3))):
        put(api, name, text, 422)
    api.post(f"/v1/models/{name}/import", 415, data=body, headers={"Content-Type": "text/csv"})
    api.post(f"/v1/models/{name}/import", 415, data=body,
             headers={**TYPE, "Content-Encoding": "gzip"})
    api.post("/v1/models/-x/import", 422, data=body, headers=TYPE)
    api.get(f"/v1/models/{name}", 404)


def test_too_large(daemons, api, models):
    daemon = daemons(max_upload_bytes=1000)
    answer = daemon.api.post("/v1/models/m/import", None, data=exported(api, 1), headers=TYPE)
    assert answer.status_code == 413


def test_random_damage(api, name, models):
    """Whatever is done to a file: it is refused, or it is a model that predicts."""
    rng = random.Random(62)
    whole = exported(api, 1), exported(api, 2)
    accepted = 0
    for _ in range(300):
        body = bytearray(rng.choice(whole))
        size = struct.unpack("<Q", body[:8])[0]
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(body) if rng.random() < 0.4 else 8 + size)
            kind = rng.randrange(3)
            if kind == 0:
                body[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                del body[at:at + rng.randint(1, 9)]
            else:
                body[at:at] = rng.choice((b'"', b"{", b"}", b"0", b"-", b"\xff", b"e999", b"[[[["))
        answer = put(api, name, bytes(body), None)
        assert answer.status_code in (201, 422), answer.text
        if answer.status_code == 201:
            accepted += 1
            version = answer.json()
            d = len(version["description"]["features"])
            reply = api.predict(name, [[0.5] * d], version=version["version"], expect=None)
            assert reply.status_code in (200, 422), reply.text
    assert accepted < 150


def test_a_larger_one_while_clients_leave(daemons):
    """Several blocks and chunks; some clients leave in the midst, and nothing is left of theirs."""
    daemon = daemons()
    api = daemon.api
    X = np.random.default_rng(63).normal(size=(1500, 1000))
    api.train("m", api.upload_npz(X, X[:, 0]), kernel="linear", solver="cholesky")
    body = api.get("/v1/models/m/versions/1/export").content
    assert len(body) > 9 << 20

    def leave(i):
        def pieces():
            yield body[:(i + 1) * 1000000]
            raise ConnectionError
        with contract.Session() as session:
            try:
                session.post(api.url("/v1/models/n/import"), data=pieces(), headers=TYPE)
            except Exception:  # pylint: disable=broad-except
                return True
        return False

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        left = [pool.submit(leave, i) for i in range(3)]
        model = put(api, "n", body).json()
        assert all(f.result() for f in left)
    assert model["sha256"] == api.get("/v1/models/m/versions/1").json()["sha256"]
    assert api.predict("n", X[:2]).json()["predictions"] == api.predict("m", X[:2]).json()["predictions"]
    assert len(api.get("/v1/models/n").json()["versions"]) == 1
    assert daemon.stop() == 0
    assert not [f for f in (daemon.data_dir / "tmp").iterdir() if f.name != "address"]


@pytest.mark.parametrize("how, status, code", [("io", 503, "busy"), ("full", 507, "disk_full")])
def test_pieces_are_lost(daemons, monkeypatch, how, status, code):
    """With the commit of whatever else happened meanwhile: said, and what others import is whole."""
    monkeypatch.setenv("KRRD_TEST_DAEMON", daemon_module.program("KRRD_TEST_UNLUCKY",
                                                                 "tests/http/krrd-unlucky"))
    monkeypatch.setenv("KRRD_TEST_LOSE", f"{how}:1")
    monkeypatch.setenv("KRRD_TEST_LOSE_PIECES", "1")
    daemon = daemons(min_free_bytes=0)
    api = daemon.api
    body = handmade.regression(n=2300).file()
    assert len(body) > 40 << 20
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        lost = pool.submit(put, api, "m", body, None)
        while "a commit was lost" not in daemon.log():
            assert not lost.done(), lost.result().text
            api.get("/v1/models")
        other = handmade.regression()
        other.put(api, "n")
        answer = lost.result()
    found = answer.json()
    assert (answer.status_code, found["code"]) == (status, code), found
    assert "import it again" in found["detail"] and int(answer.headers["Retry-After"]) >= 1
    api.get("/v1/models/m", 404)
    questions = [[0.5] * len(other.features)]
    assert np.allclose(api.predict("n", questions).json()["predictions"], other.predict(questions)[:, 0])
    assert put(api, "m", body).json()["version"] == 1
    assert daemon.stop() == 0
    with contextlib.closing(sqlite3.connect(daemon.data_dir / "krrd.db")) as db:
        assert db.execute("SELECT count(*) FROM models").fetchone() == (2,)


def test_others_do_not_wait_for_imports_and_exports(daemons, monkeypatch, tmp_path):
    """As many as there may be at once, each with a block that takes for ever: threads are left."""
    gate = tmp_path / "gate"
    monkeypatch.setenv("KRRD_TEST_DAEMON", daemon_module.program("KRRD_TEST_UNLUCKY",
                                                                 "tests/http/krrd-unlucky"))
    monkeypatch.setenv("KRRD_TEST_GATE", str(gate))
    daemon = daemons()
    api = daemon.api
    dataset = api.upload_csv(*data.regression(30))
    body = handmade.regression(n=600).file()
    assert len(body) > 2 << 20
    put(api, "m", body)

    def export():
        with contract.Session() as session:
            return session.get(api.url("/v1/models/m/versions/1/export"), timeout=120).status_code

    def bring():
        with contract.Session() as session:
            return session.post(api.url("/v1/models/n/import"), data=body, headers=TYPE, timeout=120).status_code

    gate.touch()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        try:
            under_way = [pool.submit(work) for work in 4 * [bring] + 4 * [export]]
            wait.until(lambda: daemon.log().count("a block waits") == 8, timeout=60)
            assert api.get(f"/v1/datasets/{dataset}/preview", timeout=20).json()["rows"]
        finally:
            gate.unlink()
        assert [f.result() for f in under_way] == 4 * [201] + 4 * [200]
    assert daemon.stop() == 0
