"""Data sets named by the SHA-256 of what was sent: an upload that is there already is spared, one that is damaged on
its way is refused."""

import gzip
import hashlib
import json
import os
import re
import subprocess
import time

import pytest

import daemon as programs
import data
from prometheus import scrape
from raw import Raw

KRR = programs.program("KRRD_TEST_CLIENT", "src/client/krr")
CSV = {"Content-Type": "text/csv"}


@pytest.fixture
def table(name):
    """A table that no other test sends."""
    X, y = data.regression(40)
    return f"{name},b,c,d,y\n".encode() + b"\n".join(",".join(map(repr, [*x, t])).encode()
                                                   for x, t in zip(X.tolist(), y.tolist())) + b"\n"


def path_of(body):
    return "/v1/datasets/sha256:" + hashlib.sha256(body).hexdigest()


def put(api, body, expect=201, headers=CSV, path=None, **query):
    return api.request("PUT", path or path_of(body), expect, data=body, params=query, headers=headers)


def test_what_was_put_is_there_and_is_not_made_again(api, table):
    assert api.request("HEAD", path_of(table)).status_code == 404
    made = put(api, table, name="first")
    dataset = made.json()
    assert made.headers["Location"] == f"/v1/datasets/{dataset['id']}"
    assert path_of(table).endswith(dataset["sha256"]) and dataset["name"] == "first"
    assert api.request("HEAD", path_of(table)).status_code == 200
    assert api.get(path_of(table)).json() == dataset
    again = put(api, table, 200, name="second")
    assert again.json() == dataset and again.headers["Location"] == made.headers["Location"]


def test_what_was_posted_is_found_too(api, table):
    dataset = api.upload(table)
    assert api.get(path_of(table)).json()["id"] == dataset["id"]
    assert put(api, table, 200).json()["id"] == dataset["id"]


def test_the_newest_is_found(api, table):
    api.upload(table)
    second = api.upload(table)["id"]
    assert api.get(path_of(table)).json()["id"] == second
    api.delete(f"/v1/datasets/{second}")
    assert put(api, table, 200).json()["id"] < second


def test_the_same_bytes_read_otherwise_are_another_data_set(api, table):
    made = put(api, table).json()
    for query in ({"target": "b"}, {"target": ["b", "c"]}, {"task": "regression"}, {"one_hot": "true"}, {"missing": "drop"}, {"missing": "fill"},
                  {"ignore": "b"}, {"ignore": ["c", "b"]}):
        assert api.request("HEAD", path_of(table), params=query).status_code == 404, query
        other = put(api, table, **query).json()
        assert other["id"] != made["id"]
        assert put(api, table, 200, **query).json()["id"] == other["id"]
        assert api.get(path_of(table), params=query).json()["id"] == other["id"]
    assert api.get(path_of(table), params={"format": "csv"}).json()["id"] == made["id"]
    assert api.request("HEAD", path_of(table), params={"format": "npy"}).status_code == 404
    assert api.get(path_of(table)).json()["id"] == made["id"]


def test_a_header_is_no_name_of_a_column(api, table):
    """"present" may be a column that is ignored, or a target, and is what a header may be."""
    body = b"present," + table.split(b"\n", 1)[0].split(b",", 1)[1] + b"\n" + table.split(b"\n", 1)[1]
    made = put(api, body, header="present").json()
    for query in ({"ignore": "present"}, {"target": "present"}):
        assert api.request("HEAD", path_of(body), params=query).status_code == 404, query
    other = put(api, body, ignore="present").json()
    assert other["id"] != made["id"] and "present" not in other["features"]


def test_of_two_at_once_one_is_made(api, table):
    """Both are asked for their bodies; who comes last is told of the first one's data set."""
    head = ["Content-Type: text/csv", f"Content-Length: {len(table)}"]
    with Raw(api.base) as slow, Raw(api.base) as quick:
        for upload in (slow, quick):
            upload.request("PUT", path_of(table), head, table[:-9])
        end = time.monotonic() + 60
        while scrape(api).value("krrd_uploads") < 2:
            assert time.monotonic() < end
            time.sleep(0.02)
        quick.send(table[-9:])
        first = quick.answer()
        slow.send(table[-9:])
        last = slow.answer()
    assert (first.status, last.status) == (201, 200)
    assert json.loads(last.body) == json.loads(first.body)
    assert last.headers["Location"] == first.headers["Location"]
    digest = path_of(table).split(":")[-1]
    listed = [d for d in api.get("/v1/datasets", params={"limit": 100}).json()["data"] if d["sha256"] == digest]
    assert len(listed) == 1


def test_of_gzip_the_digest_is_that_of_what_is_sent(api, table):
    packed = gzip.compress(table)
    put(api, packed, headers={**CSV, "Content-Encoding": "gzip"})
    assert api.request("HEAD", path_of(packed)).status_code == 200
    assert api.request("HEAD", path_of(table)).status_code == 404


def test_what_arrives_damaged_is_refused_and_leaves_nothing(daemons, table):
    daemon = daemons(workers="cpu:0", serve_workers=0)
    answer = put(daemon.api, table.replace(b"0.", b"1.", 1), 422, path=path_of(table))
    assert answer.json()["errors"][0]["pointer"] == "#/path/id"
    assert daemon.api.get("/v1/datasets").json()["data"] == []
    assert [p for p in daemon.data_dir.rglob("*") if p.is_file() and p.parent.name in ("tmp", "datasets")] == []


@pytest.mark.parametrize("digest", ["sha256:", "sha256:12", "sha256:" + "A" * 64, "sha256:" + "0" * 65, "md5:" + "0" * 64])
def test_what_is_no_digest_is_refused(api, table, digest):
    answer = put(api, table, 422, path=f"/v1/datasets/{digest}")
    assert answer.json()["errors"][0]["pointer"] == "#/path/id"
    api.get(f"/v1/datasets/{digest}", 404)


def test_an_id_has_one_meaning_however_it_was_read(api, table):
    dataset = put(api, table).json()["id"]
    answer = api.get(f"/v1/datasets/{dataset}", 422, params={"target": "b"})
    assert answer.json()["errors"][0]["pointer"] == "#/query/target"
    api.delete(path_of(table), 404)  # it could mean several


def test_the_body_need_not_be_sent(api, table):
    """A client that waits for 100 is told before."""
    put(api, table)
    with Raw(api.base) as c:
        c.request("PUT", path_of(table), ["Content-Type: text/csv", "Expect: 100-continue", f"Content-Length: {len(table)}"])
        assert c.answer().status == 200


def krr(base, *words):
    done = subprocess.run([KRR, *map(str, words)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "KRR_URL": base})
    assert done.returncode == 0, done.stderr
    return done


def sent(api):
    """Bytes of bodies of uploads that the daemon has received."""
    return float(re.search(r"^krrd_upload_bytes_total (\S+)$", api.get("/metrics").text, re.M).group(1))


def test_the_client_sends_a_table_once(shared_daemon, table, tmp_path):
    api = shared_daemon.api
    path = tmp_path / "table.csv"
    path.write_bytes(table)
    before = sent(api)
    first = krr(api.base, "upload", path)
    assert sent(api) == before + len(table) and "already" not in first.stderr
    again = krr(api.base, "upload", path)
    assert again.stdout == first.stdout and sent(api) == before + len(table)
    assert "table.csv" in again.stderr and "already" in again.stderr
    other = krr(api.base, "upload", path, "--target", "b")
    assert other.stdout != first.stdout and sent(api) == before + 2 * len(table)
    path.write_bytes(table + b"1,2,3,4,5\n")
    assert krr(api.base, "upload", path).stdout != first.stdout
