"""Health, documents, the shape of refusals, start and stop."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import numpy as np
import pytest
import requests

import daemon as daemon_module
import data
import sse
import wait
from raw import Raw

ROOT = pathlib.Path(__file__).resolve().parents[2]
KRRD = daemon_module.program("KRRD_TEST_DAEMON", "src/server/krrd")
NO_WORKERS = {"workers": "cpu:0", "serve_workers": 0}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """A daemon without workers, for what needs none."""
    daemon = daemon_module.Daemon(tmp_path_factory.mktemp("quiet"), **NO_WORKERS)
    yield daemon
    daemon.close()


def run(*words, **environment):
    return subprocess.run([KRRD, *words], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})


# Documents and health.


def test_contract_is_the_file(quiet):
    answer = quiet.api.get("/openapi.yaml")
    assert answer.content == (ROOT / "api" / "openapi.yaml").read_bytes()


@pytest.mark.parametrize("kind, member", [("solvers", "cholesky"), ("kernels", "gaussian"),
                                          ("preconditioners", "none"), ("center_selectors", "uniform")])
def test_methods_have_parameter_tables(quiet, kind, member):
    methods = {m["name"]: m for m in quiet.api.get(f"/v1/{kind}").json()["data"]}
    assert member in methods
    assert all(isinstance(m["parameters"], list) for m in methods.values())


def test_live_and_ready(shared_daemon):
    api = shared_daemon.api
    assert api.get("/v2/health/live").json() == {"live": True}
    wait.until(lambda: api.request("GET", "/v2/health/ready").status_code == 200)
    for path in ("/v2/health/ready", "/health", "/ping"):
        assert api.get(path).json() == {"live": True, "ready": True}


def test_not_ready_without_workers(quiet):
    answer = quiet.api.get("/v2/health/ready", expect=503).json()
    assert answer["ready"] is False and answer["live"] is True and answer["reason"]


# Every answer.


def test_head_is_get_without_the_body(quiet):
    for path in ("/", "/v1/solvers", "/v1/datasets", "/nothing"):
        plain = {"Accept-Encoding": "identity"}
        get, head = (quiet.api.request(method, path, headers=plain) for method in ("GET", "HEAD"))
        assert head.status_code == get.status_code
        assert head.content == b""
        assert head.headers["Content-Length"] == str(len(get.content))
        assert head.headers["Content-Type"] == get.headers["Content-Type"]


def test_security_headers(quiet):
    for path in ("/", "/v1/solvers", "/nothing"):
        headers = quiet.api.request("GET", path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Server"].startswith("krrd/")
        assert headers["Cache-Control"] == ("no-cache" if path == "/" else "no-store")


@pytest.mark.parametrize("given", ["a", "A-9._:/+=@", "x" * 128])
def test_request_id_is_echoed(quiet, given):
    answer = quiet.api.get("/v1/solvers", headers={"X-Request-Id": given})
    assert answer.headers["X-Request-Id"] == given


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "a\tb", "a\"b", "é".encode().decode("latin-1")])
def test_bad_request_id_is_replaced(quiet, given):
    answer = quiet.api.get("/v1/solvers", headers={"X-Request-Id": given.encode("latin-1")})
    assert re.fullmatch(r"req_[0-9A-Z]{26}", answer.headers["X-Request-Id"])


def test_request_ids_differ(quiet):
    ids = [quiet.api.get("/v1/solvers").headers["X-Request-Id"] for _ in range(20)]
    assert len(set(ids)) == 20 and ids == sorted(ids)


@pytest.mark.parametrize("given, echoed", [
    ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", True),
    ("00-00000000000000000000000000000000-b7ad6b7169203331-01", False),
    ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", False),
    ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", False),
    ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0", False),
    ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", False),
])
def test_traceparent(quiet, given, echoed):
    answer = quiet.api.get("/v1/solvers", headers={"traceparent": given})
    assert answer.headers.get("traceparent") == (given if echoed else None)


# Refusals.


def problem_of(answer):
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["error"] == problem["detail"]
    assert problem["type"] == "urn:krrd:problem:" + problem["code"]
    return problem


@pytest.mark.parametrize("path", ["/nothing", "/v1", "/v1/", "/v1/datasets/", "//v1/datasets",
                                  "/v1/datasets/a/b", "/V1/datasets", "/v1/datasets/x/preview/"])
def test_unknown_path(quiet, path):
    problem = problem_of(requests.get(quiet.base + path))
    assert problem["status"] == 404 and problem["instance"] == path


@pytest.mark.parametrize("method, path, allow", [
    ("POST", "/v2/health/live", "GET, HEAD"),
    ("PUT", "/v1/datasets", "POST, GET, HEAD"),
    ("PATCH", "/v1/datasets/ds_x", "GET, HEAD, PUT, DELETE"),
    ("BREW", "/", "GET, HEAD"),
    ("OPTIONS", "/v1/solvers", "GET, HEAD"),
])
def test_wrong_method(quiet, method, path, allow):
    answer = requests.request(method, quiet.base + path)
    assert problem_of(answer)["status"] == 405
    assert answer.headers["Allow"] == allow


@pytest.mark.parametrize("headers, status", [
    ({"Origin": "http://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"Sec-Fetch-Site": "same-origin", "Origin": "http://other.example"}, 404),
    ({"Sec-Fetch-Site": "none"}, 404),
    ({}, 404),
])
def test_pages_of_other_sites_change_nothing(quiet, headers, status):
    answer = requests.delete(quiet.base + "/v1/datasets/ds_x", headers=headers)
    assert problem_of(answer)["status"] == status


def test_own_page_may_change_things(quiet):
    answer = requests.delete(quiet.base + "/v1/datasets/ds_x", headers={"Origin": quiet.base})
    assert answer.status_code == 404


def test_other_sites_may_read(quiet):
    assert requests.get(quiet.base + "/", headers={"Origin": "http://evil.example"}).ok


# The program.


def test_help_and_version():
    text = run("--help").stdout
    assert "--listen ADDRESS:PORT" in text and "KRRD_MAX_QUEUE" in text
    assert re.fullmatch(r"krrd \d+\.\d+\.\d+\n", run("--version").stdout)


def test_print_config_flags_win_over_environment():
    done = run("--print-config", "--max-queue", "7", "--listen=[::1]:0", KRRD_MAX_QUEUE="5",
               KRRD_MAX_ROWS="6")
    settings = json.loads(done.stdout)
    assert done.returncode == 0
    assert settings["max_queue"] == 7 and settings["max_rows"] == 6
    assert settings["listen"] == "[::1]:0" and settings["workers"] == "cpu:1"
    assert settings["insecure"] is False


@pytest.mark.parametrize("words, named", [
    (["--no-such"], "--no-such"),
    (["stray"], "stray"),
    (["--max-queue"], "--max-queue"),
    (["--max-queue", "x"], "--max-queue"),
    (["--max-queue", "-1"], "--max-queue"),
    (["--max-queue", "1.5"], "--max-queue"),
    (["--max-queue", "1e300"], "--max-queue"),
    (["--max-queue", "nan"], "--max-queue"),
    (["--max-upload-bytes", "0"], "--max-upload-bytes"),
    (["--workers", "cuda:some"], "--workers"),
    (["--serve-workers", "cpu:1,2"], "--serve-workers"),
    (["--workers", "cpu:65"], "--workers"),
    (["--workers", "cpu:"], "--workers"),
    (["--listen", "8080"], "--listen"),
    (["--listen", "127.0.0.1:65536"], "--listen"),
    (["--listen", "127.0.0.1:"], "--listen"),
    (["--listen", "::1:80"], "--listen"),
    (["--listen", "0.0.0.0:0"], "--insecure"),
    (["--listen", "[::]:0"], "--insecure"),
    (["--listen", "example.org:0"], "--insecure"),
    (["--log-level", "loud"], "--log-level"),
    (["--data-dir", ""], "--data-dir"),
    (["--insecure=maybe"], "--insecure"),
    (["--cors-origin", "a.example"], "--cors-origin"),
    (["--cors-origin", "https://a.example,https://b.example/"], "--cors-origin"),
    (["--cors-origin", "https://"], "--cors-origin"),
    (["--allowed-hosts", "krrd.example,https://krrd.example"], "--allowed-hosts"),
    (["--allowed-hosts", "krrd.example:8080"], "--allowed-hosts"),
    (["--default-model", "a/b"], "--default-model"),
])
def test_bad_options(words, named):
    done = run(*words)
    assert done.returncode == 2 and named in done.stderr and done.stdout == ""


@pytest.mark.parametrize("words", [
    ["--cors-origin", "*"], ["--cors-origin", "https://a.example:8443, http://localhost:3000,app://x"],
    ["--allowed-hosts", "*"], ["--allowed-hosts", ".lab.example, krrd_1.example,127.0.0.1,[::1]"], ["--default-model", "a.b-1"],
])
def test_good_lists(words):
    done = run("--print-config", *words)
    assert done.returncode == 0 and json.loads(done.stdout)[words[0][2:].replace("-", "_")] == words[1]


def test_bad_environment_is_named():
    done = run("--print-config", KRRD_MAX_QUEUE="many")
    assert done.returncode == 2 and "KRRD_MAX_QUEUE" in done.stderr


def test_insecure_allows_every_address(daemons, monkeypatch):
    monkeypatch.setenv("KRRD_INSECURE", "true")
    daemon = daemons(listen="0.0.0.0:0", **NO_WORKERS)
    port = daemon.base.rsplit(":", 1)[1]
    assert requests.get(f"http://127.0.0.1:{port}/v2/health/live").ok


def test_port_in_use(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("--listen", f"127.0.0.1:{port}", "--data-dir", str(tmp_path / "d"),
                   "--worker-program", daemon_module.program("KRRD_TEST_WORKER", "src/worker/krrd-worker"),
                   "--workers", "cpu:0", "--serve-workers", "0")
    assert done.returncode == 1 and "in use" in done.stderr


def test_one_daemon_a_directory(quiet):
    done = run("--listen", "127.0.0.1:0", "--data-dir", str(quiet.data_dir))
    assert done.returncode == 1
    assert quiet.api.get("/v2/health/live").ok
    assert (quiet.data_dir / "krrd.address").exists()


def test_leftovers_are_swept(daemons):
    daemon = daemons(**NO_WORKERS)
    X, y = data.regression(10)
    kept = daemon.api.upload_csv(X, y)
    daemon.kill()
    orphans = [daemon.data_dir / "datasets" / name for name in
               ("ds_01ARZ3NDEKTSV4RRFFQ69G5FAV.krds", "ingest-x", kept, kept + ".krds.old")]
    orphans.append(daemon.data_dir / "tmp" / "ds_x")
    for orphan in orphans:
        orphan.write_bytes(b"left over")
    daemon.start()
    assert not any(orphan.exists() for orphan in orphans)
    assert daemon.api.get(f"/v1/datasets/{kept}/preview").json()["rows"][0] == [*X[0], y[0]]


@pytest.mark.parametrize("folder, empty", [("datasets", False), ("datasets", True), ("checkpoints", False)])
def test_files_without_their_database_are_kept(daemons, tmp_path, folder, empty):
    """The database is elsewhere during a restore; a start must not take them for nobody's."""
    daemon = daemons(**NO_WORKERS)
    X, y = data.regression(10)
    kept = daemon.api.upload_csv(X, y) if folder == "datasets" else None
    assert (daemon.data_dir / "krrd.db").stat().st_size > 0
    assert daemon.stop() == 0
    if folder == "checkpoints":
        (daemon.data_dir / folder / "job_1.krdc").write_bytes(b"kept")
    files = {path: path.read_bytes() for path in (daemon.data_dir / folder).iterdir()}
    assert len(files) == 1
    database = daemon.data_dir / "krrd.db"
    database.rename(tmp_path / "away.db")
    if empty:
        database.touch()
    for _ in range(2):
        done = run(*daemon.command()[1:])
        assert done.returncode == 1
        for word in ("krrd.db is missing", f"{folder}/ (1)", "Put the database back", "move the files away"):
            assert word in done.stderr + daemon.log()
        assert {path: path.read_bytes() for path in (daemon.data_dir / folder).iterdir()} == files
        assert database.exists() == empty
    (tmp_path / "away.db").rename(database)
    if kept:
        daemon.start()
        assert daemon.api.get(f"/v1/datasets/{kept}/preview").json()["rows"][0] == [*X[0], y[0]]


def wait_uploads(daemon, count=1):
    wait.until_metric(daemon.api, "krrd_uploads", count)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it(daemons, number):
    daemon = daemons(**NO_WORKERS)
    daemon.process.send_signal(number)
    assert daemon.ended(20) == 0
    assert not (daemon.data_dir / "krrd.address").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("seen", ["data", "data/krrd.db", "data/krrd.db-wal"])
def test_signals_while_it_starts(tmp_path, number, seen):
    """They wait until the daemon can end well; SIGHUP does not end it."""
    words = [KRRD, "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data", "--workers", "cpu:0",
             "--serve-workers", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / seen).exists():
            assert process.poll() is None
        process.send_signal(number)
        if number == signal.SIGHUP:
            while "server.listening" not in process.stderr.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 0 and "server.drained" in said, said
    assert not (tmp_path / "data" / "krrd.address").exists()


def test_stopping_waits_for_what_is_in_flight(daemons):
    daemon = daemons(**NO_WORKERS)
    body = b"x,y\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(50))
    with Raw(daemon.base) as upload, Raw(daemon.base) as idle:
        idle.request("GET", "/v2/health/live")
        assert idle.answer().status == 200
        upload.request("POST", "/v1/datasets",
                       ["Content-Type: text/csv", f"Content-Length: {len(body)}"], body[:100])
        wait_uploads(daemon)
        daemon.process.send_signal(signal.SIGTERM)
        wait.until_said(daemon, "server.stopping")
        with pytest.raises(ConnectionRefusedError):
            Raw(daemon.base)
        idle.request("GET", "/v2/health/ready")
        ready = idle.answer()
        assert ready.status == 503 and b'"ready":false' in ready.body
        assert ready.headers["connection"] == "close" and idle.closed()
        assert daemon.process.poll() is None
        upload.send(body[100:])
        answer = upload.answer()
        assert answer.status == 201
        assert daemon.ended(10) == 0
    daemon.start()
    assert len(daemon.api.get("/v1/datasets").json()["data"]) == 1


def test_stopping_does_not_wait_for_ever(daemons):
    daemon = daemons(drain_timeout_s=0.5, **NO_WORKERS)
    with Raw(daemon.base) as upload:
        upload.request("POST", "/v1/datasets", ["Content-Type: text/csv", "Content-Length: 99"])
        wait_uploads(daemon)
        began = time.monotonic()
        assert daemon.stop() == 0
        assert 0.4 < time.monotonic() - began < 30


def stalled(upload, body, piece):
    """Sends the request as far as `piece`, or, where that is 1, a byte of it now and then."""
    upload.request("POST", "/v1/datasets", ["Content-Type: text/csv", f"Content-Length: {len(body)}"],
                   body[:piece])
    for i in range(piece, len(body) if piece == 1 else 0):
        if not upload.send(body[i:i + 1]):
            return
        time.sleep(0.05)


@pytest.mark.parametrize("piece", [100, 1, 0], ids=["half", "drops", "head"])
def test_who_sends_too_slowly_holds_up_no_stop(daemons, piece):
    """The rest of a body that does not come, or comes in drops, is not waited for."""
    daemon = daemons(drain_timeout_s=600, **NO_WORKERS)
    body = b"x,y\n" + b"1,2\n" * 10000
    with Raw(daemon.base) as upload:
        sending = threading.Thread(target=stalled, args=(upload, body, piece))
        sending.start()
        wait_uploads(daemon)
        daemon.process.send_signal(signal.SIGTERM)
        answer = upload.answer()
        assert answer.status == 503 and answer.headers["Connection"] == "close"
        assert int(answer.headers["Retry-After"]) >= 1
        assert json.loads(answer.body)["code"] == "busy"
        assert upload.closed()
        upload.socket.close()
        sending.join()
        assert daemon.ended(30) == 0
    assert list((daemon.data_dir / "tmp").iterdir()) == []
    daemon.start()
    assert daemon.api.get("/v1/datasets").json()["data"] == []


def test_a_body_that_is_collected_holds_up_no_stop_either(daemons):
    daemon = daemons(drain_timeout_s=600, **NO_WORKERS)
    with Raw(daemon.base) as slow:
        slow.request("POST", "/v1/jobs", ["Content-Type: application/json", "Content-Length: 99"], b"{")
        wait.until_metric(daemon.api, "krrd_http_requests_in_flight", lambda count: count >= 2)
        daemon.process.send_signal(signal.SIGTERM)
        assert slow.answer().status == 503
        slow.socket.close()
        assert daemon.ended(30) == 0


def test_event_streams_end_at_once(daemons):
    """While others are still waited for; whoever asks for a stream then gets what there is."""
    daemon = daemons(drain_timeout_s=600, **NO_WORKERS)
    job = daemon.api.create("m", daemon.api.upload_csv(*data.regression(30)))
    path = f"/v1/jobs/{job['id']}/events"
    with Raw(daemon.base) as late, Raw(daemon.base) as upload:
        upload.request("POST", "/v1/datasets", ["Content-Type: text/csv", "Content-Length: 99"])
        wait_uploads(daemon)
        with sse.listen(daemon.session, daemon.api.url(path)) as stream:
            items = iter(stream)
            while next(items)[0] != "event":
                pass
            daemon.process.send_signal(signal.SIGTERM)
            assert list(items) == [("comment", "the server is stopping; come back")]
        late.request("GET", path, ["Accept: text/event-stream"])
        assert late.until(b"\r\n").endswith(b"200 OK")
        assert b'"type":"status"' in late.until(b": the server is stopping; come back\n\n")
        assert "server.drained" not in daemon.log()
        assert upload.answer().status == 503
    assert daemon.ended(30) == 0


def test_who_does_not_take_an_answer_holds_up_no_stop(daemons):
    daemon = daemons(drain_timeout_s=600)
    X = np.random.default_rng(63).normal(size=(1500, 1000))
    daemon.api.train("m", daemon.api.upload_npz(X, X[:, 0]), kernel="linear", solver="cholesky")
    with Raw(daemon.base) as slow:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.request("GET", "/v1/models/m/versions/1/export")
        assert slow.until(b"\r\n").endswith(b"200 OK")
        began = time.monotonic()
        assert daemon.stop(60) == 0
        assert time.monotonic() - began < 30
    assert '"server.drained","complete":"true"' in daemon.log()


def test_second_signal_ends_it_at_once(daemons):
    daemon = daemons(drain_timeout_s=600, **NO_WORKERS)
    busy = threading.Thread(target=flood, args=(daemon.base,))
    busy.start()
    wait_uploads(daemon)
    daemon.process.send_signal(signal.SIGTERM)
    wait.until_said(daemon, "server.stopping")
    assert daemon.process.poll() is None
    assert daemon.stop(30) == 0
    busy.join()
    assert "server.drained" not in daemon.log()
    assert list((daemon.data_dir / "tmp").iterdir()) == []


def test_many_signals_end_it_well(daemons):
    daemon = daemons()
    while daemon.process.poll() is None:
        daemon.process.send_signal(signal.SIGTERM)
        time.sleep(0.0005)
    assert daemon.ended(1) == 0, daemon.log()[-2000:]


def flood(base):
    """Uploads faster than a disk writes, until the server ends it."""
    with Raw(base) as upload:
        upload.request("POST", "/v1/datasets", ["Content-Type: text/csv", f"Content-Length: {10**9}"])
        while upload.send(b"1.5,2.5,3.5\n" * 20_000):
            pass


def test_stopping_cuts_uploads_that_are_held_back(daemons):
    daemon = daemons(drain_timeout_s=0.2, **NO_WORKERS)
    table = b"x,y\n" + b"1.5,2.5\n" * 4_000_000
    threads = []
    for _ in range(4):  # they keep every thread busy, so that nothing of the others is written
        upload = Raw(daemon.base)
        upload.request("POST", "/v1/datasets",
                       ["Content-Type: text/csv", f"Content-Length: {len(table)}"], table)
        threads.append(upload)
    clients = [threading.Thread(target=flood, args=(daemon.base,)) for _ in range(4)]
    for client in clients:
        client.start()
    wait_uploads(daemon, 8)
    code = daemon.stop(60)
    for client in clients:
        client.join()
    for upload in threads:
        upload.socket.close()
    assert code == 0, daemon.log()[-2000:]


# Devices.


def test_devices_are_what_workers_tell(shared_daemon, name):
    api = shared_daemon.api
    for kind in ("train", "serve"):
        api.worker_pid(kind, "idle")
    (device,) = api.get("/v1/devices").json()["data"]
    assert device["name"] == "cpu" and device["threads"] == 1
    assert set(device["workers"]) == {w["name"] for w in api.get("/v1/workers").json()["data"]}
    memory = device["memory"]
    assert 10 << 20 < memory["workers_bytes"] < memory["total_bytes"] and 0 < memory["free_bytes"] <= memory["total_bytes"]
    total = next(int(line.split()[1]) << 10 for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    assert memory["total_bytes"] <= total
    assert all(rate > 0 for rate in device["rates"].values())


def test_devices_tell_what_they_do_now(api, big_job, name):
    job = big_job(name)
    api.wait_running(job["id"])
    end = time.monotonic() + 30
    while True:
        (device,) = api.get("/v1/devices").json()["data"]
        shown = api.job(job["id"])["progress"]["kernel_entries_per_s"]
        if device["busy_workers"] >= 1 and device["kernel_entries_per_s"] > 0:
            break
        assert time.monotonic() < end, device
        time.sleep(0.02)
    assert 0.1 < device["kernel_entries_per_s"] / shown < 10
    api.cancel(job["id"])
    api.wait(job["id"])
    api.worker_pid("train", "idle")
    assert api.get("/v1/devices").json()["data"][0]["kernel_entries_per_s"] == 0


def test_no_devices_without_workers(quiet):
    assert quiet.api.get("/v1/devices").json()["data"] == []
