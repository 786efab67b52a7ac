"""Data sets: every format, every refusal, and nothing left behind."""

import concurrent.futures
import contextlib
import functools
import gzip
import hashlib
import io
import itertools
import json
import select
import signal
import sqlite3
import time
import zipfile

import numpy as np
import pytest

import daemon as daemon_module
import data
from raw import Raw

NO_WORKERS = {"workers": "cpu:0", "serve_workers": 0}
NPY, NPZ, LIBSVM = "application/x-npy", "application/x-npz", "text/x-libsvm"
CSV = b"a,b,y\n1,2,0.5\n3,4,1.5\n5,6.5,-2e3\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    daemon = daemon_module.Daemon(tmp_path_factory.mktemp("datasets"), max_rows=1000,
                                  max_columns=300, max_unpacked_bytes=1_000_000, **NO_WORKERS)
    yield daemon
    daemon.close()


@pytest.fixture(scope="module")
def api(server):
    return server.api


def leftovers(daemon):
    """Files that no data set of the list owns."""
    known, after = set(), None
    while True:
        page = daemon.api.get("/v1/datasets", params={"limit": 100, "after": after}).json()
        known |= {item["id"] + ".krds" for item in page["data"]}
        after = page["last_id"]
        if not page["has_more"]:
            break
    found = {path.name for path in (daemon.data_dir / "datasets").iterdir()}
    assert known <= found, "a data set has no file"
    return sorted(found - known) + sorted(p.name for p in (daemon.data_dir / "tmp").iterdir())


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    yield
    if "server" in request.fixturenames:
        assert leftovers(request.getfixturevalue("server")) == []


def refused(api, status, body=CSV, content_type="text/csv", headers=None, **query):
    before = api.get("/v1/datasets", params={"limit": 1}).json()["first_id"]
    answer = api.request("POST", "/v1/datasets", status, data=body, params=query,
                         headers={"Content-Type": content_type, **(headers or {})})
    assert api.get("/v1/datasets", params={"limit": 1}).json()["first_id"] == before
    return answer.json()


# What comes back.


def test_upload_answer(api):
    answer = api.request("POST", "/v1/datasets", 201, data=CSV, params={"name": "Süße Daten"},
                         headers={"Content-Type": "text/csv; charset=utf-8"})
    made = answer.json()
    assert answer.headers["Location"] == "/v1/datasets/" + made["id"]
    assert made["object"] == "dataset" and made["name"] == "Süße Daten"
    assert (made["rows"], made["columns"]) == (3, 3)
    assert made["features"] == ["a", "b"] and made["target"] == "y"
    assert made["task"] == "regression" and made["classes"] == []
    assert made["sha256"] == hashlib.sha256(CSV).hexdigest()
    assert made["dtype"] in ("float32", "float64") and made["bytes"] > 0
    assert api.get("/v1/datasets/" + made["id"]).json() == made


def test_name_defaults_to_the_id(api):
    made = api.upload(CSV)
    assert made["name"] == made["id"]


def test_preview(api):
    made = api.upload(CSV)
    shown = api.get(f"/v1/datasets/{made['id']}/preview").json()
    assert shown == {"dataset": made["id"], "columns": ["a", "b", "y"],
                     "rows": [[1, 2, 0.5], [3, 4, 1.5], [5, 6.5, -2000]]}
    assert api.get(f"/v1/datasets/{made['id']}/preview?rows=1").json()["rows"] == [[1, 2, 0.5]]
    assert len(api.get(f"/v1/datasets/{made['id']}/preview?rows=100").json()["rows"]) == 3
    for rows in ("0", "101", "-1", "x", "", "1.0", "99999999999999999999"):
        problem = api.get(f"/v1/datasets/{made['id']}/preview", 422, params={"rows": rows}).json()
        assert problem["errors"][0]["pointer"] == "#/query/rows"


def test_preview_of_a_damaged_file(daemons):
    server = daemons()
    made = server.api.upload(CSV)
    path = server.data_dir / "datasets" / (made["id"] + ".krds")
    path.write_bytes(path.read_bytes()[:100])
    answer = server.api.get(f"/v1/datasets/{made['id']}/preview", 500).json()
    assert answer["code"] == "corrupt"


def test_preview_of_many_columns(api):
    X = np.arange(600.0).reshape(2, 300)
    made = api.upload(data.npy(X), NPY)
    shown = api.get(f"/v1/datasets/{made['id']}/preview").json()
    assert len(shown["columns"]) == 256 and shown["rows"] == X[:, :256].tolist()
    assert len(api.get("/v1/datasets/" + made["id"]).json()["features"]) == 299


NUMBERED = b"0,1,2\n1,2,0.5\n3,4,1.5\n5,6.5,-2e3\n"  # columns that are named by numbers, or a row more


@pytest.mark.parametrize("said, names, rows", [
    ("", ["column0", "column1"], 4),
    ("; header=present", ["0", "1"], 3),
    (";charset=UTF-8; Header=\"present\"", ["0", "1"], 3),
    ("; header=absent ; charset=us-ascii", ["column0", "column1"], 4),
])
def test_a_header_is_there_or_not_as_the_type_says(api, said, names, rows):
    made = api.upload(NUMBERED, "text/csv" + said)
    assert (made["features"], made["rows"]) == (names, rows)


def test_the_query_says_the_same_of_a_header(api):
    assert api.upload(NUMBERED, header="present")["rows"] == 3
    assert api.upload(NUMBERED, header="absent")["rows"] == api.upload(NUMBERED, header="auto")["rows"] == 4
    assert api.upload(NUMBERED, "text/csv; header=present", header="present")["rows"] == 3
    api.upload(b"a,b\n1,2\n3,4\n", expect=422, header="absent")
    for query, said in (("absent", "present"), ("maybe", "present"), ("", "absent")):
        refused = api.request("POST", "/v1/datasets", 422, data=NUMBERED, params={"header": query},
                              headers={"Content-Type": "text/csv; header=" + said})
        assert refused.json()["errors"][0]["pointer"] == "#/query/header"
    # The same body, read in another way, is another data set.
    path = "/v1/datasets/sha256:" + hashlib.sha256(NUMBERED).hexdigest()
    found = {header: api.get(path, params={"header": header}).json() for header in ("auto", "present", "absent")}
    assert [found[header]["rows"] for header in found] == [4, 3, 4]
    assert len({one["id"] for one in found.values()}) == 3


@pytest.mark.parametrize("kind, said", [
    ("text/csv; charset=iso-8859-1", "iso-8859-1"), ("text/csv;header=absent;charset=\"utf-16\"", "utf-16"),
    ("text/x-libsvm; charset=latin1", "latin1"), ("text/csv; header=maybe", "maybe"),
])
def test_what_a_type_says_and_is_not_read(api, kind, said):
    refused = api.request("POST", "/v1/datasets", 415, data=CSV, headers={"Content-Type": kind}).json()
    assert f'"{said}"' in refused["detail"] and refused["errors"][0]["pointer"] == "#/header/content-type"
    assert api.upload(data.npy(np.arange(6.0).reshape(2, 3)), NPY + "; charset=utf-16")["rows"] == 2  # no text


def test_list_and_paging(daemons):
    daemon = daemons(**NO_WORKERS)
    api = daemon.api
    empty = api.get("/v1/datasets").json()
    assert empty == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
    ids = [api.upload(CSV, name=f"n{i}")["id"] for i in range(5)]
    assert ids == sorted(ids)
    seen, after = [], None
    while True:
        page = api.get("/v1/datasets", params={"limit": 2, "after": after}).json()
        assert page["first_id"] == page["data"][0]["id"] and page["last_id"] == page["data"][-1]["id"]
        assert all("features" not in item for item in page["data"])
        seen += [item["id"] for item in page["data"]]
        after = page["last_id"]
        if not page["has_more"]:
            break
    assert seen == ids[::-1]
    assert len(api.get("/v1/datasets?limit=100").json()["data"]) == 5


def test_many_columns(daemons):
    """Every answer names all columns, or none in a list; of rows of an older version too."""
    daemon = daemons(workers="cpu:1", serve_workers=0)
    api = daemon.api
    names = [f"column \"{i}\"" for i in range(20_000)]
    body = (",".join('"' + n.replace('"', '""') + '"' for n in names) + ",y\n" + "1," * 20_000 + "2\n" +
            "3," * 20_000 + "4\n").encode()
    made = api.upload(body)
    assert made["features"] == names and made["target"] == "y" and made["warnings"] == []
    path = "/v1/datasets/" + made["id"]
    answer = api.get(path)
    assert answer.json() == made
    assert api.request("GET", path, 304, headers={"If-None-Match": answer.headers["ETag"]}).content == b""
    same = api.request("PUT", "/v1/datasets/sha256:" + made["sha256"], 200, data=body, headers={"Content-Type": "text/csv"})
    assert same.json() == made
    listed = {k: v for k, v in made.items() if k not in ("features", "missing", "warnings")}
    assert api.get("/v1/datasets").json()["data"] == [listed]
    job = {"model": "m", "dataset": made["id"], "test": {"dataset": made["id"]}, "features": names[5:]}
    planned = api.request("POST", "/v1/jobs?validate_only=true", 200, json=job).json()
    daemon.stop()
    with contextlib.closing(sqlite3.connect(daemon.data_dir / "krrd.db")) as db, db:
        db.execute("UPDATE datasets SET summary = NULL")
    daemon.start()
    api = daemon.api
    assert api.get(path).json() == made
    assert api.get("/v1/datasets").json()["data"] == [listed]
    assert api.request("POST", "/v1/jobs?validate_only=true", 200, json=job).json()["spec"] == planned["spec"]
    job["features"][7] = "no such column"
    assert api.request("POST", "/v1/jobs?validate_only=true", 422, json=job).json()["errors"][0]["pointer"] == "#/features/7"
    api.delete(path)
    assert api.request("POST", "/v1/jobs", 422, json=job).json()["errors"][0]["pointer"] == "#/dataset"


def test_a_job_on_many_columns_holds_up_nobody_after_a_restart(daemons):
    """Its description is read on another thread: what came later is answered first."""
    daemon = daemons(workers="cpu:0", serve_workers=0)
    columns = 60_000
    names = ",".join(f"{i:060d}" for i in range(columns))
    made = daemon.api.upload((names + "\n" + ("1," * columns)[:-1] + "\n" + ("2," * columns)[:-1] + "\n").encode())
    job = {"model": "m", "dataset": made["id"], "test": {"dataset": made["id"]}}
    body = json.dumps(job).encode()
    passed_by = 0
    for _ in range(4):  # of which a busy machine may spoil some
        daemon.stop()
        daemon.start()
        with Raw(daemon.base) as slow, Raw(daemon.base) as quick:
            quick.request("GET", "/v2/health/live")
            quick.answer()
            slow.request("POST", "/v1/jobs", ["Content-Type: application/json", f"Content-Length: {len(body)}"], body)
            quick.request("GET", "/v2/health/live")
            assert quick.answer().status == 200
            passed_by += select.select([slow.socket], [], [], 0)[0] == []
            assert slow.answer().status == 202
    assert passed_by > 0
    with Raw(daemon.base) as gone:
        gone.request("POST", "/v1/jobs", ["Content-Type: application/json", f"Content-Length: {len(body)}"], body)
    assert daemon.api.post("/v1/jobs", 202, json=job).json()["dataset"] == made["id"]


@pytest.mark.parametrize("query, pointer", [
    ("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("limit=", "limit"),
    ("after=nonsense", "after"), ("after=job_01ARZ3NDEKTSV4RRFFQ69G5FAV", "after"), ("page=2", "page"),
])
def test_bad_paging(api, query, pointer):
    problem = api.get("/v1/datasets?" + query, 422).json()
    assert problem["errors"][0]["pointer"] == "#/query/" + pointer


def test_delete(server, api):
    made = api.upload(CSV)
    path = "/v1/datasets/" + made["id"]
    assert api.delete(path).content == b""
    api.get(path, 404)
    api.get(path + "/preview", 404)
    api.delete(path, 404)
    assert not (server.data_dir / "datasets" / (made["id"] + ".krds")).exists()


@pytest.mark.parametrize("dataset", ["ds_01ARZ3NDEKTSV4RRFFQ69G5FAV", "ds_x", "x", "ds_", "ds_" + "0" * 200])
def test_unknown(api, dataset):
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/preview")):
        assert api.request(method, f"/v1/datasets/{dataset}{path}", 404).json()["code"] == "not_found"


def test_delete_while_a_job_needs_it(api):
    made = api.upload(CSV)
    job = api.create("m", made["id"])
    problem = api.delete("/v1/datasets/" + made["id"], 409).json()
    assert job["id"] in problem["detail"]
    assert api.get(f"/v1/datasets/{made['id']}/preview").json()["rows"]
    api.cancel(job["id"])
    api.delete("/v1/datasets/" + made["id"])


def test_data_sets_survive_a_kill(daemons):
    daemon = daemons(**NO_WORKERS)
    made = daemon.api.upload(CSV)
    daemon.kill()
    daemon.start()
    assert daemon.api.get("/v1/datasets/" + made["id"]).json() == made
    assert daemon.api.get(f"/v1/datasets/{made['id']}/preview").json()["rows"][0] == [1, 2, 0.5]


# Formats.


def values(api, made):
    return np.array(api.get(f"/v1/datasets/{made['id']}/preview?rows=100").json()["rows"])


def test_formats_hold_the_same_numbers(api):
    X, y = data.regression(20, d=3)
    table = np.column_stack([X, y])
    fortran = np.asfortranarray(table)
    bodies = [(data.csv(X, y), "text/csv"), (data.npz(X, y), NPZ), (data.npy(table), NPY),
              (data.npy(fortran), NPY), (data.libsvm(X, y), LIBSVM)]
    for body, content_type in bodies:
        made = api.upload(body, content_type)
        target = made["target"]
        names = api.get(f"/v1/datasets/{made['id']}/preview").json()["columns"]
        got = values(api, made)
        at = names.index(target)
        np.testing.assert_array_equal(got[:, at], y)
        np.testing.assert_array_equal(np.delete(got, at, axis=1), X)


def test_format_overrides_the_type(api):
    assert api.upload(CSV, "application/octet-stream", format="csv")["rows"] == 3
    refused(api, 400, CSV, "text/csv", format="npy")


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/json", "text/csvx", ";", "csv"])
def test_unknown_type(api, content_type):
    problem = refused(api, 415, CSV, content_type)
    for name in ("text/csv", LIBSVM, NPY, NPZ):
        assert name in problem["detail"]


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZIP"])
def test_gzip(api, encoding):
    packed = gzip.compress(CSV)
    answer = api.request("POST", "/v1/datasets", 201, data=packed,
                         headers={"Content-Type": "text/csv", "Content-Encoding": encoding})
    assert answer.json()["rows"] == 3
    assert answer.json()["sha256"] == hashlib.sha256(packed).hexdigest()


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "zstd"])
def test_unknown_encoding(api, encoding):
    found = refused(api, 415, headers={"Content-Encoding": encoding})
    assert found["errors"][0]["pointer"] == "#/header/content-encoding"


def test_identity_encoding(api):
    api.request("POST", "/v1/datasets", 201, data=CSV,
                headers={"Content-Type": "text/csv", "Content-Encoding": "identity"})


def test_chunked_upload_is_the_same(api):
    body = data.csv(*data.regression(500))
    made = api.upload(body[i : i + 777] for i in range(0, len(body), 777))
    assert made["sha256"] == hashlib.sha256(body).hexdigest() and made["rows"] == 500


def test_several_blocks(server):
    """A body of many blocks arrives whole and in order."""
    daemon = server
    body = b"x,y\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(900)) + b"\n" * 3_000_000
    made = daemon.api.upload(body)
    assert made["sha256"] == hashlib.sha256(body).hexdigest() and made["rows"] == 900


# What the client may say of it.


def test_targets(api):
    made = api.upload(CSV, target="a")
    assert made["target"] == "a" and made["features"] == ["b", "y"]
    assert api.upload(CSV, target="1")["target"] == "b"
    several = api.upload(CSV, target=["y", "a"])
    assert several["target"] == ["y", "a"] and several["features"] == ["b"]


@pytest.mark.parametrize("target", ["z", "3", "-1", "A"])
def test_unknown_target(api, target):
    assert target in refused(api, 422, target=target)["detail"]


def test_number_of_targets(api):
    body = ",".join(f"c{i}" for i in range(70)) + "\n" + (",".join(["1.5"] * 70) + "\n") * 3
    made = api.upload(body.encode(), target=[f"c{i}" for i in range(64)])
    assert len(made["target"]) == 64
    problem = refused(api, 422, body.encode(), target=[f"c{i}" for i in range(65)])
    assert problem["errors"][0]["pointer"] == "#/query/target"


def test_classes(api):
    X, y = data.classification(30)
    made = api.upload(data.csv(X, y))
    assert made["task"] == "classification" and sorted(made["classes"]) == ["black", "red", "white"]
    column = values(api, made)[:, -1]
    assert [made["classes"][int(v)] for v in column] == list(y)


def test_task_can_be_stated(api):
    body = b"x,y\n" + b"".join(b"%d.5,%d\n" % (i, i % 2) for i in range(20))
    assert api.upload(body, task="classification")["classes"] == ["0", "1"]
    assert api.upload(body, task="regression")["task"] == "regression"


def test_text_below_numbers(api):
    """Where the upload says what a column is, the order of its rows does not matter."""
    for rows in ("1,1\n2,z\n3,1\n", "2,z\n1,1\n3,1\n"):
        made = api.upload(f"a,y\n{rows}".encode(), task="classification")
        assert made["classes"] == ["1", "z"]
    for rows in ("1,1.5\nx,2\n2,1\n", "x,2\n1,1.5\n2,1\n"):
        made = api.upload(f"t,y\n{rows}".encode(), one_hot="true")
        assert made["features"] == ["t=1", "t=2", "t=x"]


def test_refused_numbers_among_texts(api):
    """They are texts as they were written, wherever the text stands that makes the column one of text."""
    rows = ("1,1.5", "nan,2", "0x1f,1", "red,3.5")
    for order in itertools.permutations(rows):
        made = api.upload("\n".join(("t,y", *order)).encode(), one_hot="true")
        assert made["features"] == ["t=0x1f", "t=1", "t=nan", "t=red"]
        refused(api, 422, "\n".join(("t,y", *order)).replace("red", "2").encode(), one_hot="true")


def test_one_hot(api):
    body = b"color,y\nred,1.5\nblue,2.5\nred,3.25\n"
    refused(api, 422, body)
    made = api.upload(body, one_hot="true")
    assert len(made["features"]) == 2 and values(api, made)[:, :2].sum(axis=1).tolist() == [1, 1, 1]


def test_columns_can_be_left_out(api):
    body = b"size,when,rooms,note,price\n1,2020-01-01,2,,1.5\n2,2020-01-02,3,x,2.5\n4,,1,y,3.5\n"
    text = refused(api, 422, body)["detail"]
    assert '"when"' in text and "is a date" in text and "ignore=COLUMN (krr: --ignore COLUMN)" in text
    text = refused(api, 422, body.replace(b"2020-01-01", b"new year"))["detail"]
    assert '"new year" is not a number; ignore=COLUMN' in text and "krr: --one-hot" in text
    made = api.upload(body, ignore=["when", "3"])
    assert made["features"] == ["size", "rooms"] and made["target"] == "price" and made["columns"] == 3
    assert values(api, made).tolist() == [[1, 2, 1.5], [2, 3, 2.5], [4, 1, 3.5]]
    X = np.arange(12.0).reshape(4, 3)
    made = api.upload(data.npy(X), "application/x-npy", ignore="2")
    assert (made["features"], made["target"]) == (["column0"], "column1")
    assert values(api, made).tolist() == X[:, :2].tolist()
    refusal = refused(api, 422, body, ignore="whn")
    assert refusal["errors"][0]["pointer"] == "#/ignore" and 'no column "whn"' in refusal["detail"]


@pytest.mark.parametrize("query, pointer", [
    ({"ignore": ""}, "ignore"), ({"name": ""}, "name"), ({"name": "x" * 201}, "name"), ({"name": "é" * 201}, "name"), ({"target": ""}, "target"),
    ({"format": "xls"}, "format"), ({"format": ""}, "format"), ({"task": "ranking"}, "task"),
    ({"one_hot": "yes"}, "one_hot"), ({"colour": "red"}, "colour"),
])
def test_bad_query(api, query, pointer):
    assert refused(api, 422, **query)["errors"][0]["pointer"] == "#/query/" + pointer


@pytest.mark.parametrize("kind", ["application/x-npy", "application/x-npz", "text/x-libsvm"])
@pytest.mark.parametrize("name, value, usual", [("header", "present", "auto"), ("header", "absent", "auto"),
                                                ("one_hot", "true", "false")])
def test_what_is_said_of_csv_alone(api, kind, name, value, usual):
    X = np.arange(12.0).reshape(4, 3)
    body = {"application/x-npy": data.npy(X), "application/x-npz": data.npz(X, X[:, 0]),
            "text/x-libsvm": b"1 1:2\n2 1:3\n"}[kind]
    problem = api.upload(body, kind, 422, **{name: value})
    assert problem["errors"][0]["pointer"] == f"#/query/{name}" and "format csv alone" in problem["detail"]
    form = {"application/x-npy": "npy", "application/x-npz": "npz"}.get(kind, "libsvm")
    api.request("GET", "/v1/datasets/sha256:" + "0" * 64, 422, params={"format": form, name: value})
    api.upload(body, kind, **{name: usual})


@pytest.mark.parametrize("character", ["x", "é", "語", "🙂"])
def test_longest_name(api, character):
    assert api.upload(CSV, name=character * 200)["name"] == character * 200


# Bodies that are refused, with the place.


@pytest.mark.parametrize("body, place", [
    (b"a,y\n1,2\n3\n4,5\n", ("line 3",)),
    (b"a,y\n1,2\n3,4,5\n", ("line 3",)),
    (b"a,y\n1,2\nred,4\n", ("line 3", "column 1")),
    (b"a,y\n1,2\n3,NaN\n5,6\n", ("line 3", "column 2")),
    (b"a,y\n1,2\n1e999,4\n5,6\n", ("line 3", "column 1")),
    (b"a,y\n1,2\n,4\n", ("line 3", "column 1")),
    (b"a,y\n1,2\n-Infinity,4\n", ("line 3", "column 1")),
    (b"a,a,y\n1,2,3\n4,5,6\n", ("a",)),
    (b"", ()),
    (b"\n\n\n", ()),
    (b"a,y\n", ()),
    (b"a,y\n1,2\n", ()),
    (b"y\n1\n2\n", ()),
    (b"\x00\x01\x02\xff\xfe", ()),
    (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10, ()),
    (b'a,y\n"1,2\n3,4\n', ()),
])
def test_bad_csv(api, body, place):
    problem = refused(api, None, body)
    assert problem["status"] in (400, 422), problem
    for text in place:
        assert text in problem["detail"].lower(), problem


@pytest.mark.parametrize("body", [b"1 0:2\n2 1:3\n", b"1 2:1 1:2\n3 1:2\n", b"1 1:x\n2 1:2\n", b"1 1\n2 1:2\n",
                                  b"1 99999999999999999999:1\n2 1:2\n", b"nan 1:2\n2 1:3\n", b"", b"x\n"])
def test_bad_libsvm(api, body):
    assert refused(api, None, body, LIBSVM)["status"] in (400, 413, 422)


def lying(shape, rest=b"\0" * 64, descr="<f8", order="False"):
    text = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + text.ljust(117) + b"\n" + rest


@pytest.mark.parametrize("body", [
    lying("(1000000, 1000000)"), lying("(9, 9)"), lying("(-1, 2)"), lying("(2, 3, 4)"), lying("(8,)"),
    lying("(4611686018427387904, 4)"), lying("(18446744073709551615, 18446744073709551615)"),
    lying("(2, 2)", descr="|O"), lying("(2, 2)", descr=">f8x"), lying("(0, 4)", b""), lying("(4, 2)", b"\0" * 65),
    lying("(2, 2)", np.array([1.0, np.nan, 2.0, 3.0]).tobytes()), b"\x93NUMPY", b"\x93NUMPY\x09\x00" + b" " * 200, b"",
    b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", lying("(2, 2", b"\0" * 32), lying("(2, 2)", b"\0" * 32, order="maybe"),
])
def test_bad_npy(api, body):
    assert refused(api, None, body, NPY)["status"] in (400, 413, 422)


def archive(**members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name, content in members.items():
            z.writestr(name + ".npy", content)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["U", "S"])
def test_npz_with_text_classes(api, kind):
    y = np.array(["rot", "blau", "rot", "grün" if kind == "U" else "gruen"]).astype(kind)
    made = api.upload(data.npz(np.arange(8.0).reshape(4, 2), y), NPZ)
    assert made["task"] == "classification" and made["classes"] == ["blau", "grün" if kind == "U" else "gruen", "rot"]
    assert values(api, made)[:, 2].tolist() == [2, 0, 2, 1]


def test_bad_npz(api):
    X, y = data.npy(np.eye(3)), data.npy(np.arange(3.0))
    good = archive(X=X, y=y)
    assert api.upload(good, NPZ)["rows"] == 3
    for body in (archive(X=X), archive(y=y), archive(X=X, y=data.npy(np.arange(4.0))), archive(X=X, y=b"no"), b"",
                 b"PK\x03\x04" + b"\0" * 50, good[:-10], good[:40], archive(X=data.npy(np.eye(3))[:90], y=y)):
        assert refused(api, None, body, NPZ)["status"] in (400, 422), body[:40]


def test_zip_bomb(api):
    bomb = archive(X=lying("(40000, 100)", b"\0" * (8 * 4_000_000)), y=data.npy(np.arange(40000.0)))
    assert len(bomb) < 100_000
    problem = refused(api, 413, bomb, NPZ)
    assert "1000000" in problem["detail"].replace(",", "") and "--max-unpacked-bytes" in problem["detail"]


def test_gzip_bomb(api):
    bomb = gzip.compress(b"x,y\n" + b"1,2\n" * 20_000_000)
    problem = refused(api, 413, bomb, headers={"Content-Encoding": "gzip"})
    assert "--max-unpacked-bytes" in problem["detail"]


@pytest.mark.parametrize("body", [b"no gzip at all", gzip.compress(CSV)[:-6], gzip.compress(CSV)[:12], b""])
def test_bad_gzip(api, body):
    assert refused(api, None, body, headers={"Content-Encoding": "gzip"})["status"] in (400, 422)


def test_row_and_column_limits(api):
    body = b"x,y\n" + b"".join(b"%d,%d.5\n" % (i, i) for i in range(1000))
    assert api.upload(body)["rows"] == 1000
    refused(api, 413, body + b"1,2\n")
    row = ",".join(["1"] * 300).encode() + b"\n"
    assert api.upload(row + row + row)["columns"] == 300
    refused(api, 413, b"1," + row + b"1," + row)


def test_constant_target_is_taken_with_a_warning(api):
    made = api.upload(b"x,y\n1,2\n2,2\n3,2\n", task="regression")
    assert made["warnings"]


def test_a_block_that_was_not_written_is_told_of(daemons, monkeypatch):
    """Also where the thread that writes it is done before the one that began it goes on."""
    monkeypatch.setenv("KRRD_TEST_DAEMON", daemon_module.program("KRRD_TEST_UNLUCKY", "tests/http/krrd-unlucky"))
    monkeypatch.setenv("KRRD_TEST_LOSE_BLOCK", "1")
    daemon = daemons(**NO_WORKERS)
    refused(daemon.api, 507, b"x,y\n" + b"".join(b"%07d,%07d\n" % (i, i) for i in range(200_000)))
    assert daemon.log().count("a block was lost") == 1
    quiet(daemon)


# Clients that leave, and many at once.


def quiet(daemon, timeout=15):
    """Waits until nothing is under way any more."""
    end = time.monotonic() + timeout
    while leftovers(daemon):
        assert time.monotonic() < end, leftovers(daemon)
        time.sleep(0.05)


def test_client_that_leaves_while_sending(server):
    with Raw(server.base) as c:
        c.request("POST", "/v1/datasets", ["Content-Type: text/csv", "Content-Length: 3000000"], b"1,2\n" * 400_000)
        end = time.monotonic() + 10
        while not list((server.data_dir / "tmp").iterdir()):
            assert time.monotonic() < end
    quiet(server)


def test_client_that_leaves_while_it_is_read_in(daemons):
    daemon = daemons(**NO_WORKERS)
    body = b"x,y\n" + b"".join(b"%d.125,%d.25\n" % (i, i) for i in range(300_000))
    for _ in range(3):
        with Raw(daemon.base) as c:
            c.request("POST", "/v1/datasets", ["Content-Type: text/csv", f"Content-Length: {len(body)}"], body)
    quiet(daemon)
    assert leftovers(daemon) == []
    assert daemon.api.upload(CSV)["rows"] == 3


# How many are read in at once.


@functools.cache
def slow_piece():
    """Made once: that takes as long as reading it in, which tests count on to be under way."""
    return gzip.compress(b"1,2.5\n2,3\n" * 500_000)


def slow_table(pieces):
    """A CSV in gzip that takes some .1 to .2 s a piece to read in."""
    return gzip.compress(b"x,y\n") + slow_piece() * pieces


def begin_upload(daemon, body):
    c = Raw(daemon.base, timeout=120)
    encoding = ["Content-Encoding: gzip"] if body[:2] == b"\x1f\x8b" else []
    c.request("POST", "/v1/datasets",
              ["Content-Type: text/csv", f"Content-Length: {len(body)}", *encoding], body)
    return c


def received(daemon):
    """Bodies that wait, or are read in."""
    return {p.name for p in (daemon.data_dir / "tmp").iterdir() if p.name.startswith("ds_")}


def being_read(daemon):
    return {p.name for p in (daemon.data_dir / "datasets").iterdir() if p.name.startswith("ingest-")}


def wait_for(fits, timeout=60):
    end = time.monotonic() + timeout
    while not fits():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_two_are_read_in_at_once(daemons):
    """The others wait, and threads are left to other work."""
    daemon = daemons(**NO_WORKERS)
    body = b"x,y\n" + b"1,2.5\n2,3\n" * 1_000_000
    most = 0

    def upload(_):
        with begin_upload(daemon, body) as c:
            return c.answer().status

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        answers = [pool.submit(upload, i) for i in range(5)]
        while not all(a.done() for a in answers):
            most = max(most, len(being_read(daemon)))
            time.sleep(0.005)
    assert [a.result() for a in answers] == [201] * 5
    assert most == 2
    assert leftovers(daemon) == []


def test_short_ones_do_not_wait_for_long_ones(daemons):
    """A small body is read in beside two large ones; of two that wait the shorter is next."""
    daemon = daemons(**NO_WORKERS)
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(begin_upload(daemon, slow_table(20))) for _ in range(2))
        wait_for(lambda: len(received(daemon)) == 2 and len(being_read(daemon)) >= 2)
        long = received(daemon)
        third = stack.enter_context(begin_upload(daemon, slow_table(10)))
        wait_for(lambda: len(received(daemon)) == 3)
        waiting = received(daemon) - long
        fourth = stack.enter_context(begin_upload(daemon, slow_table(3)))
        wait_for(lambda: len(received(daemon)) == 4)
        for _ in range(3):
            daemon.api.upload(CSV)
        assert long < received(daemon), "one of the first two was read in too soon"
        assert fourth.answer().status == 201
        assert waiting <= received(daemon), "the shorter one waited for the longer one"
        assert [c.answer().status for c in (first, second, third)] == [201] * 3
    assert leftovers(daemon) == []


def test_clients_that_leave_while_others_are_read_in(daemons):
    """One that waits is never read in; one that is read in makes room for the next. That they left
    is seen within a second each, so the second one has to last for some three."""
    daemon = daemons(**NO_WORKERS)
    body = slow_table(40)
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(begin_upload(daemon, body)) for _ in range(2))
        wait_for(lambda: len(received(daemon)) == 2 and len(being_read(daemon)) >= 2)
        slow = received(daemon)
        third, fourth = (stack.enter_context(begin_upload(daemon, slow_table(3))) for _ in range(2))
        wait_for(lambda: len(received(daemon)) == 4)
        third.socket.close()
        wait_for(lambda: len(received(daemon)) == 3)
        assert slow < received(daemon), "one of the first two was read in too soon"
        first.socket.close()
        assert fourth.answer().status == 201
        assert len(slow & received(daemon)) == 1, "it waited for the second one"
        assert second.answer().status == 201
    assert leftovers(daemon) == []
    assert len(daemon.api.get("/v1/datasets").json()["data"]) == 2


def test_stop_while_some_wait_to_be_read_in(daemons):
    daemon = daemons(**NO_WORKERS)
    body = slow_table(20)
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(begin_upload(daemon, body))
        wait_for(lambda: len(received(daemon)) == 2 and len(being_read(daemon)) >= 2)
        stack.enter_context(begin_upload(daemon, slow_table(3)))
        wait_for(lambda: len(received(daemon)) == 3)
        daemon.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "server.stopping" in daemon.log())
        assert daemon.stop() == 0  # the second signal waits for nobody
    assert list((daemon.data_dir / "tmp").iterdir()) == []
    assert list((daemon.data_dir / "datasets").iterdir()) == []


def test_kill_while_receiving(daemons):
    daemon = daemons(**NO_WORKERS)
    with Raw(daemon.base) as c:
        c.request("POST", "/v1/datasets", ["Content-Type: text/csv", "Content-Length: 3000000"], b"1,2\n" * 100_000)
        end = time.monotonic() + 10
        while not list((daemon.data_dir / "tmp").iterdir()):
            assert time.monotonic() < end
        daemon.kill()
    daemon.start()
    assert leftovers(daemon) == [] and daemon.api.get("/v1/datasets").json()["data"] == []


def test_uploads_at_once(server):
    bodies = [data.csv(*data.regression(400, seed=i)) for i in range(16)]

    def upload(body):
        with Raw(server.base, timeout=60) as c:
            c.request("POST", "/v1/datasets", ["Content-Type: text/csv", f"Content-Length: {len(body)}"], body)
            return c.answer()

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(upload, bodies))
    for answer, body in zip(answers, bodies):
        assert answer.status == 201
        assert hashlib.sha256(body).hexdigest().encode() in answer.body


def test_a_zip_that_grows_a_thousandfold_is_refused(tmp_path):
    """300 MiB of zeros in a third of a megabyte: below every limit on size, refused by the ratio."""
    rows, columns = 1_200_000, 64
    header = "({}, {})".format(rows, columns)
    body = archive(X=lying(header, b"\0" * (8 * rows * columns // 2)), y=data.npy(np.arange(3.0)))
    assert len(body) < 1 << 20
    server = daemon_module.Daemon(tmp_path, **NO_WORKERS)
    try:
        answer = server.api.request("POST", "/v1/datasets", 413, data=body,
                                    headers={"Content-Type": NPZ})
        assert "unpacks to more than the limit of 268435456 bytes" in answer.json()["detail"]
        assert not leftovers(server)
    finally:
        server.close()
