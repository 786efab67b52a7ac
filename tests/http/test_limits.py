"""Every limit at its edge and one past it, and whatever a hostile client can put on a wire."""

import concurrent.futures
import contextlib
import json
import os
import random
import re
import resource
import signal
import socket
import struct
import time

import pytest
import requests

import daemon as daemon_module
import data
import prometheus
import wait
from raw import Raw

NO_WORKERS = {"workers": "cpu:0", "serve_workers": 0}
CSV = "Content-Type: text/csv"
UPLOAD = 200_000  # more than is read and dropped to keep a connection


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A daemon that takes uploads of at most UPLOAD bytes."""
    daemon = daemon_module.Daemon(tmp_path_factory.mktemp("small"), max_upload_bytes=UPLOAD,
                                  **NO_WORKERS)
    yield daemon
    assert list((daemon.data_dir / "tmp").iterdir()) == []
    daemon.close()


@pytest.fixture(autouse=True)
def still_serves(request):
    """Whatever a test did, the daemon answers afterwards, at once."""
    yield
    if "small" in request.fixturenames:
        base = request.getfixturevalue("small").base
        assert requests.get(base + "/v2/health/live", timeout=5).json() == {"live": True}


def table(size):
    """A CSV of exactly that many bytes."""
    text = b"x,y\n" + b"1,2\n3,4\n" * (size // 8)
    return text[: size - 4] + b"5,6\n" if size % 4 == 0 else text[: size - size % 4] + b"\n" * (size % 4)


def chunked(body, piece=10_000):
    parts = [body[i : i + piece] for i in range(0, len(body), piece)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def is_problem(answer, status, setting=""):
    """setting: what the sentence names, so that whoever runs the server finds it."""
    assert answer.status == status, (answer.status, answer.body)
    assert answer.headers["content-type"] == "application/problem+json"
    assert not setting or f"{setting}" in json.loads(answer.body)["detail"], answer.body
    return True


def is_refused(answer, status, setting=""):
    """By us, or by the HTTP library itself: libmicrohttpd 1.0 tells us nothing of some malformed heads."""
    if "X-Request-Id" in answer.headers:
        return is_problem(answer, status, setting)
    assert answer.status in (400, 413), (answer.status, answer.body)
    return True


# The size of a body.


@pytest.mark.parametrize("size", [UPLOAD - 4, UPLOAD])
def test_upload_at_the_limit(small, size):
    body = table(size)
    assert len(body) == size
    with Raw(small.base) as c:
        c.request("POST", "/v1/datasets", [CSV, f"Content-Length: {size}"], body)
        assert c.answer().status == 201
        c.request("POST", "/v1/datasets", [CSV, "Transfer-Encoding: chunked"], chunked(body))
        assert c.answer().status == 201


@pytest.mark.parametrize("length", [UPLOAD + 1, 2**31, 2**31 - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63,
                                    2**64 - 2, 2**64 - 1])
def test_length_over_the_limit_is_refused_unread(small, length):
    with Raw(small.base) as c:
        c.request("POST", "/v1/datasets", [CSV, f"Content-Length: {length}"])
        assert is_refused(c.answer(), 413, "--max-upload-bytes")  # not a byte of the body was sent
        assert c.closed()


@pytest.mark.parametrize("length", ["-1", "abc", "", "+5", "0x10", "5 5", "5,5", "5.0", "1e3",
                                    str(2**64), "9" * 100, "18446744073709551616000"])
def test_nonsense_length(small, length):
    with Raw(small.base) as c:
        c.request("POST", "/v1/datasets", [CSV, f"Content-Length: {length}"])
        assert c.answer().status in (400, 413)


def test_refused_sender_reads_its_answer(small):
    """A client that sends all before it reads still gets the 413, not a reset."""
    answer = requests.post(small.base + "/v1/datasets", data=b"x" * (64 << 20),
                           headers={"Content-Type": "text/csv"})
    assert answer.status_code == 413
    assert f"{UPLOAD} bytes" in answer.json()["detail"]


def test_chunked_over_the_limit(small):
    with Raw(small.base) as c:
        c.request("POST", "/v1/datasets", [CSV, "Transfer-Encoding: chunked"])
        while c.send(b"1000\r\n" + b"x" * 4096 + b"\r\n") and not c.rest:
            c.socket.settimeout(0.001)
            try:
                c.more()
            except TimeoutError:
                pass
            c.socket.settimeout(20)
        assert is_problem(c.answer(), 413)
        assert c.closed()


def test_one_past_the_limit_chunked_keeps_the_connection(small):
    with Raw(small.base) as c:
        c.request("POST", "/v1/datasets", [CSV, "Transfer-Encoding: chunked"],
                  chunked(table(UPLOAD) + b"\n"))
        assert is_problem(c.answer(), 413)
        c.request("GET", "/v2/health/live")
        assert c.answer().status == 200


def test_endless_refused_sender_is_cut(small):
    with Raw(small.base, timeout=30) as c:
        c.request("POST", "/v1/datasets", [CSV, f"Content-Length: {2**40}"])
        began = time.monotonic()
        while c.send(b"x" * 1000) and time.monotonic() - began < 25:
            time.sleep(0.05)
        assert time.monotonic() - began < 20


def test_body_in_memory_has_a_limit(small):
    limit = 64 << 20
    with Raw(small.base) as c:
        c.request("POST", "/v1/models/m/predict",
                  ["Content-Type: application/json", f"Content-Length: {limit + 1}"])
        assert is_problem(c.answer(), 413)


def test_many_large_bodies_together_have_a_limit(small):
    """Each within its own limit; together they would not fit."""
    piece, open_ones = b" " * (60 << 20), []
    try:
        statuses = []
        for _ in range(6):
            c = Raw(small.base)
            open_ones.append(c)
            c.request("POST", "/v1/models/m/predict",
                      ["Content-Type: application/json", f"Content-Length: {len(piece) + 1}"], piece)
            c.socket.settimeout(0.5)
            try:
                statuses.append(c.answer().status)
            except TimeoutError:
                statuses.append(None)
        assert statuses[:4] == [None] * 4 and statuses[5] == 503
        assert resident(small, "RssAnon") < 600 << 20
    finally:
        for c in open_ones:
            c.socket.close()


def test_body_where_none_belongs(small):
    with Raw(small.base) as c:
        c.request("GET", "/v1/datasets", ["Content-Length: 3"], b"abc")
        assert is_problem(c.answer(), 400)
        c.request("GET", "/v2/health/live", ["Content-Length: 0"])
        assert c.answer().status == 200


# Expect: 100-continue.


def test_expect_continue(small):
    body = b"x,y\n1,2\n3,4\n"
    with Raw(small.base) as c:
        c.request("POST", "/v1/datasets", [CSV, "Expect: 100-continue", f"Content-Length: {len(body)}"])
        assert c.answer().status == 100
        c.send(body)
        assert c.answer().status == 201


@pytest.mark.parametrize("path, header, status", [
    ("/v1/datasets", f"Content-Length: {UPLOAD + 1}", 413),
    ("/v1/datasets?format=xls", "Content-Length: 10", 422),
    ("/nothing", "Content-Length: 10", 404),
])
def test_expect_continue_refused(small, path, header, status):
    with Raw(small.base) as c:
        c.request("POST", path, [CSV, "Expect: 100-continue", header])
        assert is_problem(c.answer(), status)


def test_other_expectation(small):
    with Raw(small.base) as c:
        c.request("POST", "/v1/datasets", [CSV, "Expect: tea", "Content-Length: 4"])
        assert is_problem(c.answer(), 417)


# Framing that two readers could understand differently.


@pytest.mark.parametrize("headers, status", [
    (["Content-Length: 5", "Content-Length: 6"], 400),
    (["Content-Length: 5", "Content-Length: 5"], 400),
    (["Content-Length: 5", "Transfer-Encoding: chunked"], 400),
    (["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], 400),
    (["Transfer-Encoding: gzip, chunked"], 501),
    (["Transfer-Encoding: identity"], 501),
    (["Host: other"], 400),
    (["Bad Name: x"], 400),
    (["Name : x"], 400),
])
def test_ambiguous_requests(small, headers, status):
    with Raw(small.base) as c:
        c.request("POST", "/v1/datasets", [CSV, *headers],
                  b"0\r\n\r\nGET /v1/datasets HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert is_refused(c.answer(), status)
        assert c.closed()  # what followed was not taken for a request


@pytest.mark.parametrize("blanks", [" ", "\t", "  \t "])
def test_blanks_around_a_value_are_none_of_it(small, blanks):
    with Raw(small.base) as c:
        c.asked.append(("GET", "/v1/solvers"))
        c.send(f"GET /v1/solvers HTTP/1.1\r\nHost:{blanks}localhost{blanks}\r\nX-Request-Timeout:{blanks}5{blanks}\r\n"
               f"X-Request-Id:{blanks}mine{blanks}\r\nX-Empty:{blanks}\r\n\r\n".encode())
        answer = c.answer()
        assert answer.status == 200 and answer.headers["x-request-id"] == "mine"
        body = b"x,y\n1,2\n3,4\n"
        c.request("POST", "/v1/datasets", ["Content-Type: text/csv" + blanks, f"Content-Length: {len(body)}"], body)
        assert c.answer().status == 201
        # What frames the body is for libmicrohttpd to read: 0.9 takes it at its word, 1.0 reads an empty table.
        c.request("POST", "/v1/datasets", ["Content-Type: text/csv", f"Transfer-Encoding: chunked{blanks}"], b"0\r\n\r\n")
        status = c.answer().status
        assert status == 422 or status in (400, 501) and c.closed()


def test_no_host(small):
    with Raw(small.base) as c:
        c.send(b"GET / HTTP/1.1\r\n\r\n")
        assert is_refused(c.answer(), 400)


@pytest.mark.parametrize("body", [b"zz\r\n", b"-5\r\nabcde\r\n", b"\r\n", b"5\r\nabcdefgh\r\n",
                                  b"fffffffffffffffff\r\n"])
def test_bad_chunks(small, body):
    with Raw(small.base) as c:
        c.request("POST", "/v1/datasets", [CSV, "Transfer-Encoding: chunked"], body)
        assert c.answer().status in (400, 413)
        assert c.closed()


def test_a_chunk_head_without_end(small):
    """libmicrohttpd 1.0 ends the connection without a word, to us as well."""
    with Raw(small.base) as c:
        c.request("POST", "/v1/datasets", [CSV, "Transfer-Encoding: chunked"], b"5;" + b"x" * 200_000)
        if c.more():
            assert c.answer().status in (400, 413)
        assert c.closed()
    wait.until(lambda: not list((small.data_dir / "tmp").iterdir()))


# The head.


def test_target_length(small):
    with Raw(small.base) as c:
        c.request("GET", "/" + "a" * 8191)
        assert is_problem(c.answer(), 404)
        c.request("GET", "/" + "a" * 8192)
        answer = c.answer()
        assert is_problem(answer, 414) and len(answer.body) < 1000


def test_header_size(small):
    with Raw(small.base) as c:
        c.request("GET", "/v1/solvers", ["X: " + "a" * 16_000])
        assert c.answer().status == 200
        c.request("GET", "/v1/solvers", ["X: " + "a" * 16_400])
        assert is_problem(c.answer(), 431)
    with Raw(small.base) as c:
        c.request("GET", "/v1/solvers", ["X: " + "a" * 1_000_000])
        assert c.answer().status in (400, 413, 414, 431)
        assert c.closed()


def test_query_count(small):
    with Raw(small.base) as c:
        c.request("POST", "/v1/datasets?" + "&".join(["target=a"] * 128), [CSV, "Content-Length: 0"])
        assert is_problem(c.answer(), 422)  # more than 64 targets
        c.request("POST", "/v1/datasets?" + "&".join(["target=a"] * 129), [CSV, "Content-Length: 0"])
        assert is_problem(c.answer(), 400)


@pytest.mark.parametrize("target", ["/v1/datasets/%zz", "/v1/datasets/%", "/v1/datasets/%2",
                                    "/v1/datasets/%00", "/v1/datasets/%0a", "/v1/datasets/%ff",
                                    "/v1/datasets?limit=%zz", "/v1/datasets?%00=1",
                                    "/v1/datasets?limit=%c0%80"])
def test_bad_escapes(small, target):
    with Raw(small.base) as c:
        c.request("GET", target)
        assert is_problem(c.answer(), 400)


@pytest.mark.parametrize("target", ["/v1/datasets/..%2f..%2fkrrd.db", "/v1/datasets/../../krrd.db",
                                    "/v1/datasets/%2e%2e%2fkrrd.db/preview"])
def test_paths_do_not_climb(small, target):
    with Raw(small.base) as c:
        c.request("GET", target)
        assert is_problem(c.answer(), 404)


def test_absolute_target(small):
    with Raw(small.base) as c:
        c.request("GET", "http://localhost:1/v2/health/live")
        assert c.answer().status == 200
        c.request("GET", "ftp://test/v2/health/live")
        assert is_problem(c.answer(), 404)


@pytest.mark.parametrize("host", ["a b", "localhost/x", "localhost:x@evil.example", "[::1]evil.example", "localhost:8080x",
                                  ":80", "[::1", "localhost,evil.example:x"])
def test_a_host_that_is_none(small, host):
    with Raw(small.base) as c:
        c.send(f"GET /v1/jobs HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert is_problem(c.answer(), 400)
        assert c.closed()


@pytest.mark.parametrize("name, first, second", [
    ("Content-Type", "application/json", "text/csv"), ("Content-Encoding", "gzip", "gzip"),
    ("Authorization", "Bearer a", "Bearer b"), ("Origin", "http://localhost", "http://evil.example"),
    ("Sec-Fetch-Site", "same-origin", "cross-site"), ("X-Request-Timeout", "5", "6"),
    ("Inference-Header-Content-Length", "5", "6"), ("Last-Event-ID", "5", "6"),
])
def test_what_may_be_said_once(small, name, first, second):
    with Raw(small.base) as c:
        c.request("POST", "/v1/jobs", [f"{name}: {first}", f"{name.upper()}: {second}", "Content-Length: 2"], b"{}")
        answer = c.answer()
        assert is_problem(answer, 400) and name in json.loads(answer.body)["detail"]
        assert c.closed()


@pytest.mark.parametrize("target", ["http:///v1/jobs", "http://:80/v1/jobs", "http://u@localhost/v1/jobs",
                                    "http://localhost:x@evil.example/v1/jobs"])
def test_absolute_target_without_a_host(small, target):
    with Raw(small.base) as c:
        c.send(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert is_problem(c.answer(), 400)
        assert c.closed()


def test_pipelined_requests_are_answered_in_order(small):
    with Raw(small.base) as c:
        one = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
        c.send(b"".join(one % path for path in (b"/v2/health/live", b"/nothing", b"/v1/datasets") * 10))
        assert [c.answer().status for _ in range(30)] == [200, 404, 200] * 10


def test_http_1_0(small):
    with Raw(small.base) as c:
        c.send(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
        assert c.until(b"\r\n").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes(small, seed):
    rng = random.Random(seed)
    start = b"POST /v1/datasets HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: 40\r\n\r\n"
    for _ in range(60):
        with Raw(small.base) as c:
            if rng.random() < 0.5:
                text = bytearray(start + b"x,y\n1,2\n" * 5)
                for _ in range(rng.randrange(1, 6)):
                    text[rng.randrange(len(text))] = rng.randrange(256)
            else:
                text = rng.randbytes(rng.randrange(1, 3000))
            c.send(bytes(text))


# Time.


def test_idle_connection_is_closed(daemons):
    daemon = daemons(idle_timeout_s=1, **NO_WORKERS)
    with Raw(daemon.base) as silent, Raw(daemon.base) as kept:
        kept.request("GET", "/v2/health/live")
        assert kept.answer().status == 200
        began = time.monotonic()
        assert silent.closed() and kept.closed()
        assert time.monotonic() - began < 5


def test_dripping_head_is_cut(daemons):
    daemon = daemons(idle_timeout_s=1, **NO_WORKERS)
    with Raw(daemon.base) as c:
        c.send(b"GET / HTTP/1.1\r\n")
        began = time.monotonic()
        while c.send(b"X-A: b\r\n") and time.monotonic() - began < 8:
            time.sleep(0.2)
        assert time.monotonic() - began < 6


def test_a_refusal_reaches_who_never_sends_the_body(daemons):
    """A short body that is refused is read first, to keep the connection; not for ever."""
    daemon = daemons(request_timeout_s=1, max_upload_bytes=1000, **NO_WORKERS)
    with Raw(daemon.base) as c:
        c.request("POST", "/v1/datasets", [CSV, "Content-Length: 1001"])
        answer = c.answer()
        assert is_problem(answer, 413) and answer.headers["Connection"] == "close"
        assert c.closed()


def test_dripping_body_times_out(daemons):
    daemon = daemons(request_timeout_s=1, **NO_WORKERS)
    with Raw(daemon.base) as c:
        c.request("POST", "/v1/datasets", [CSV, "Content-Length: 1000"])
        c.socket.settimeout(0.2)
        began = time.monotonic()
        while time.monotonic() - began < 8 and c.send(b"1"):
            try:
                if c.more():
                    break
            except TimeoutError:
                pass
        assert is_problem(c.answer(), 408)
        assert time.monotonic() - began < 6
    wait.until(lambda: not list((daemon.data_dir / "tmp").iterdir()))


# Number.


def test_connection_limit(daemons):
    daemon = daemons(max_connections=8, **NO_WORKERS)
    held = [Raw(daemon.base) for _ in range(8)]
    for c in held:
        c.request("GET", "/v2/health/live")
        assert c.answer().status == 200
    with Raw(daemon.base) as ninth:
        ninth.request("GET", "/v1/solvers")
        answer = ninth.answer()
        assert is_problem(answer, 503, "--max-connections") and int(answer.headers["retry-after"]) >= 1
        assert ninth.closed()
    with Raw(daemon.base) as probe:
        probe.request("GET", "/v2/health/live")
        assert probe.answer().status == 200
    held[0].request("GET", "/v1/solvers")
    assert held[0].answer().status == 200
    for c in held:
        c.socket.close()
    wait.until(lambda: requests.get(daemon.base + "/v1/solvers").ok)


def test_far_more_connections_than_the_limit(daemons):
    daemon = daemons(max_connections=4, idle_timeout_s=2, **NO_WORKERS)
    held = [Raw(daemon.base) for _ in range(200)]
    for c in held:
        assert c.closed()  # idle, or one too many
        c.socket.close()
    assert requests.get(daemon.base + "/v2/health/live", timeout=20).ok


@pytest.mark.parametrize("begun", [b"", b"GET /v1/solvers HTTP/1.1\r\nHost: loc"], ids=["idle", "half-open"])
def test_more_connections_than_are_told_so(daemons, begun):
    """Those that ask nothing keep nobody from the answer that the server is full."""
    daemon = daemons(max_connections=4, **NO_WORKERS)
    held = [Raw(daemon.base) for _ in range(4)]
    for c in held:  # they are served
        c.request("GET", "/v2/health/live")
        assert c.answer().status == 200
    spare = [Raw(daemon.base) for _ in range(60)]
    for c in spare:
        c.send(begun)
    with Raw(daemon.base, timeout=10) as late:
        late.request("GET", "/v1/solvers")
        assert is_problem(late.answer(), 503, "--max-connections")
    held[0].request("GET", "/v1/solvers")
    assert held[0].answer().status == 200
    for c in held + spare:
        c.socket.close()


def test_two_hundred_clients_at_once(daemons):
    daemon = daemons(**NO_WORKERS)
    body = b"x,y\n1,2\n3,4\n"

    def client(number):
        with Raw(daemon.base, timeout=60) as c:
            for _ in range(3):
                c.request("GET", "/v1/solvers")
                assert c.answer().status == 200
            c.request("POST", f"/v1/datasets?name=n{number}", [CSV, f"Content-Length: {len(body)}"], body)
            return c.answer().status

    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        statuses = list(pool.map(client, range(200)))
    assert set(statuses) <= {201, 503} and statuses.count(201) >= 64
    seen, after = set(), None
    while True:
        page = daemon.api.get("/v1/datasets", params={"limit": 100, "after": after}).json()
        seen |= {item["id"] for item in page["data"]}
        after = page["last_id"]
        if not page["has_more"]:
            break
    assert len(seen) == statuses.count(201)


def test_clients_that_leave_at_any_moment(small):
    rng = random.Random(5)
    body = table(20_000)
    whole = b"POST /v1/datasets HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: 20000\r\n\r\n" + body
    for _ in range(60):
        c = Raw(small.base)
        c.send(whole[: rng.randrange(len(whole) + 1)])
        if rng.random() < 0.5:  # a reset instead of an orderly end
            c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.socket.close()
    wait.until(lambda: not list((small.data_dir / "tmp").iterdir()))


# Memory.


def resident(daemon, what):
    text = open(f"/proc/{daemon.process.pid}/status").read()
    return int(re.search(what + r":\s+(\d+) kB", text).group(1)) << 10


def test_memory_does_not_grow_with_an_upload(daemons):
    daemon = daemons(**NO_WORKERS)
    rows, columns = 2_000_000, 8
    header = repr({"descr": "<f8", "fortran_order": False, "shape": (rows, columns)}).encode()
    size = 8 * rows * columns
    block = random.Random(1).randbytes(1 << 20)
    block = bytes(b & 0x3F if i % 8 == 7 else b for i, b in enumerate(block))  # finite numbers
    with Raw(daemon.base, timeout=120) as c:
        begin = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.ljust(117) + b"\n"
        c.request("POST", "/v1/datasets", ["Content-Type: application/x-npy",
                                           f"Content-Length: {len(begin) + size}"], begin)
        before, most = resident(daemon, "RssAnon"), 0
        for at in range(0, size, len(block)):
            assert c.send(block[: size - at])
            most = max(most, resident(daemon, "RssAnon"))
        answer = c.answer()
    assert answer.status == 201, answer.body
    assert most - before < 16 << 20


# Limits that are settings, at the limit and one past it.


def is_shed(answer, setting):
    assert is_problem(answer, 503, setting)
    assert 1 <= int(answer.headers["retry-after"]) <= 300
    return True


def test_header_bytes_are_a_setting(daemons):
    daemon = daemons(max_header_bytes=2000, **NO_WORKERS)
    head = len("GET /v1/solvers HTTP/1.1\r\nHost: localhost\r\nX: \r\n\r\n")
    with Raw(daemon.base) as c:
        statuses = {}
        for size in (2000 - head - 100, 2000 - head + 100):
            c.request("GET", "/v1/solvers", ["X: " + "a" * size])
            statuses[size] = answer = c.answer()
        assert [a.status for a in statuses.values()] == [200, 431]
        assert is_problem(answer, 431, "--max-header-bytes")


def test_body_bytes_are_a_setting(daemons):
    daemon = daemons(max_body_bytes=5000, **NO_WORKERS)
    for size, status in ((5000, 400), (5001, 413)):  # blanks are no JSON
        with Raw(daemon.base) as c:
            c.request("POST", "/v1/jobs", ["Content-Type: application/json", f"Content-Length: {size}"],
                      b" " * size)
            assert is_problem(c.answer(), status, "--max-body-bytes" if status == 413 else "")


def test_all_bodies_together_are_a_setting(daemons):
    daemon = daemons(max_bodies_bytes=10_000, **NO_WORKERS)
    with Raw(daemon.base) as held, Raw(daemon.base) as other:
        held.request("POST", "/v1/jobs", ["Content-Type: application/json", "Content-Length: 9001"],
                     b" " * 9000)
        time.sleep(0.3)
        other.request("POST", "/v1/jobs", ["Content-Type: application/json", "Content-Length: 1001"],
                      b" " * 1001)
        assert is_shed(other.answer(), "--max-bodies-bytes")
        other.request("POST", "/v1/jobs", ["Content-Type: application/json", "Content-Length: 900"],
                      b" " * 900)
        assert is_problem(other.answer(), 400)
        held.send(b" ")
        assert is_problem(held.answer(), 400)
        other.request("POST", "/v1/jobs", ["Content-Type: application/json", "Content-Length: 9001"],
                      b" " * 9001)
        assert is_problem(other.answer(), 400)
    page = prometheus.scrape(daemon.api)
    assert page.value("krrd_requests_shed_total", cause="bodies") == 1


def test_uploads_at_once_are_a_setting(daemons):
    daemon = daemons(max_uploads=2, **NO_WORKERS)
    body = b"x,y\n1,2\n3,4\n"
    with Raw(daemon.base) as one, Raw(daemon.base) as two, Raw(daemon.base) as three:
        for c in (one, two):
            c.request("POST", "/v1/datasets", [CSV, f"Content-Length: {len(body)}"], body[:-1])
        wait.until_metric(daemon.api, "krrd_uploads", 2)
        three.request("POST", "/v1/datasets", [CSV, f"Content-Length: {len(body)}"], body)
        assert is_shed(three.answer(), "--max-uploads")
        one.send(body[-1:])
        assert one.answer().status == 201
        three.request("POST", "/v1/datasets", [CSV, f"Content-Length: {len(body)}"], body)
        assert three.answer().status == 201
        two.send(body[-1:])
        assert two.answer().status == 201


@pytest.fixture(scope="module")
def queued_only(tmp_path_factory):
    """A daemon that trains nothing, with a job in its queue, which is full."""
    daemon = daemon_module.Daemon(tmp_path_factory.mktemp("queued"), max_queue=1, max_listeners=2,
                                  max_waits=2, **NO_WORKERS)
    X, y = data.regression(20)
    dataset = daemon.api.upload_csv(X, y)
    daemon.job = daemon.api.create("m", dataset)["id"]
    daemon.spec = {"model": "m", "dataset": dataset}
    yield daemon
    daemon.close()


def test_jobs_in_the_queue(queued_only):
    answer = queued_only.api.post("/v1/jobs", 429, json=queued_only.spec)
    assert 1 <= int(answer.headers["Retry-After"]) <= 300
    assert "--max-queue" in answer.json()["detail"]


def hold(daemon, path, header):
    c = Raw(daemon.base)
    c.request("GET", path, [header])
    return c


@pytest.mark.parametrize("path, header, cause", [
    ("/v1/jobs/{}/events", "Accept: text/event-stream", "listeners"),
    ("/v1/jobs/{}", "Prefer: wait=50", "waits"),
])
def test_listeners_and_waits_at_once(queued_only, path, header, cause):
    path = path.format(queued_only.job)
    gauge = {"listeners": "krrd_event_listeners", "waits": "krrd_job_waiters"}[cause]
    wait.until_metric(queued_only.api, gauge, 0)  # of a test before
    held = [hold(queued_only, path, header) for _ in range(2)]
    wait.until_metric(queued_only.api, gauge, 2)
    try:
        with hold(queued_only, path, header) as third:
            assert is_shed(third.answer(), f"--max-{cause}")
        held.pop().socket.close()
        wait.until_metric(queued_only.api, gauge, 1)
        held.append(hold(queued_only, path, header))
        wait.until_metric(queued_only.api, gauge, 2)
    finally:
        for c in held:
            c.socket.close()
    page = prometheus.scrape(queued_only.api)
    assert page.value("krrd_requests_shed_total", cause=cause) >= 1


# Deadlines.


@pytest.mark.parametrize("text", ["0", "-1", "abc", "1e3", "86401", ""])
def test_nonsense_deadline(queued_only, text):
    answer = queued_only.api.get("/v1/solvers", 422, headers={"X-Request-Timeout": text})
    assert answer.json()["errors"][0]["pointer"] == "#/header/x-request-timeout"


def test_wait_ends_with_the_deadline(queued_only):
    """A wait is cut to whole seconds within the deadline, and answered."""
    wait.until_metric(queued_only.api, "krrd_job_waiters", 0)  # of a test before
    began = time.monotonic()
    answer = queued_only.api.get(f"/v1/jobs/{queued_only.job}",
                                 headers={"Prefer": "wait=50", "X-Request-Timeout": "3.9"})
    assert answer.json()["status"] == "queued"
    assert answer.headers["Preference-Applied"] == "wait=3"
    assert 2.9 < time.monotonic() - began < 10


def test_deadline_of_a_prediction(daemons, name):
    """Nobody loads the model: the answer comes at the deadline, and says so."""
    daemon = daemons()
    X, y = data.regression(60)
    daemon.api.train(name, daemon.api.upload_csv(X, y))
    daemon.stop()
    daemon.start(serve_workers=0)
    began = time.monotonic()
    answer = daemon.api.post(f"/v1/models/{name}/predict", 504, json={"instances": X[:1].tolist()},
                             headers={"X-Request-Timeout": "0.4"})
    assert 0.3 < time.monotonic() - began < 10
    assert "deadline" in answer.json()["detail"] and "--request-deadline-s" in answer.json()["detail"]
    answer = daemon.api.post(f"/v1/models/{name}/versions/1/load", 504,
                             headers={"X-Request-Timeout": "0.4"})
    assert "deadline" in answer.json()["detail"] and "--request-deadline-s" in answer.json()["detail"]
    daemon.stop()
    daemon.start(request_deadline_s=1)
    daemon.api.post(f"/v1/models/{name}/versions/1/load", 504)
    page = prometheus.scrape(daemon.api)
    assert page.value("krrd_requests_shed_total", cause="deadline") == 1


def test_deadline_of_a_body(small):
    with Raw(small.base) as c:
        began = time.monotonic()
        c.request("POST", "/v1/jobs", ["Content-Type: application/json", "Content-Length: 10",
                                       "X-Request-Timeout: 1"], b"{")
        assert is_problem(c.answer(), 408, "--request-timeout-s")
        assert time.monotonic() - began < 10


# Open files.


def test_few_files_allow_few_connections(daemons, tmp_path, monkeypatch):
    """Whoever is beyond them is told so, and does not wait."""
    script = tmp_path / "few"
    program = daemon_module.program("KRRD_TEST_DAEMON", "src/server/krrd")
    script.write_text(f'#!/bin/sh\nulimit -n 64\nexec {program} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("KRRD_TEST_DAEMON", str(script))
    daemon = daemons(**NO_WORKERS)
    most = int(re.search(r'"http.few_files","max_connections":"(\d+)"', daemon.log()).group(1))
    assert 4 <= most < 64
    with contextlib.ExitStack() as stack:
        for i in range(most + 3):
            client = stack.enter_context(Raw(daemon.base, timeout=10))
            client.request("GET", "/v1/datasets")
            answer = client.answer()
            assert answer.status == (200 if i < most else 503), i
        assert int(answer.headers["Retry-After"]) >= 1


def forbid_files(daemon):
    """No further file can be opened; returns what allows it again."""
    pid = daemon.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = {int(fd) for fd in os.listdir(f"/proc/{pid}/fd")}
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (next(i for i in range(9999) if i not in used), before[1]))
    return lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def test_no_file_for_an_upload(daemons):
    daemon = daemons(**NO_WORKERS)
    body = b"x,y\n1,2\n3,4\n"
    with Raw(daemon.base) as client:
        client.request("GET", "/v2/health/live")
        assert client.answer().status == 200
        allow = forbid_files(daemon)
        client.request("POST", "/v1/datasets", [CSV, f"Content-Length: {len(body)}"], body)
        answer = client.answer()
        allow()
    assert answer.status == 503 and json.loads(answer.body)["code"] == "busy", answer.body
    assert int(answer.headers["Retry-After"]) >= 1
    assert daemon.api.upload(body)["rows"] == 2


def test_no_file_for_a_worker(daemons):
    """It is tried again less and less often, and comes back."""
    daemon = daemons(workers="cpu:0", serve_workers=1)
    pid = daemon.api.worker_pid("serve", "idle")
    time.sleep(10.5)  # one that dies younger is waited for longer anyway
    allow = forbid_files(daemon)
    os.kill(pid, signal.SIGKILL)
    time.sleep(3)
    failed = daemon.log().count('"worker.start_failed"')
    allow()
    assert 2 <= failed <= 6
    daemon.api.worker_pid("serve", "idle")
