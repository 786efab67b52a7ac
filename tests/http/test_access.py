"""API keys and their scopes, TLS, and pages of other origins."""

import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest
import requests

import contract
import daemon as programs
import data
import raw
import wait

make_key = programs.make_key
KRRD = programs.program("KRRD_TEST_DAEMON", "src/server/krrd")
KRR = programs.program("KRRD_TEST_CLIENT", "src/client/krr")
SCOPES = ("read", "predict", "train", "admin")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A daemon with a key for each scope."""
    folder = tmp_path_factory.mktemp("guarded")
    path = folder / "keys"
    keys = {scope: make_key(path, scope, scope) for scope in SCOPES}
    daemon = programs.Daemon(folder, api_keys=path)
    yield daemon, keys, path
    daemon.close()


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


# ---- keys ----


def test_a_key_is_kept_as_its_digest_alone(tmp_path):
    path = tmp_path / "keys"
    key = make_key(path, "ci", "read,train")
    text = path.read_text()
    assert re.fullmatch(r"krrd_[0-9a-f]{64}", key)
    assert re.fullmatch(r"ci read,train sha256:[0-9a-f]{64}\n", text)
    assert key[5:] not in text and path.stat().st_mode & 0o077 == 0
    assert make_key(path, "other", "admin") != key


@pytest.mark.parametrize("name, scopes, said", [
    ("a b", "read", "name"), ("ok", "write", "scopes"), ("ok", "read,,train", "scopes"), ("ok", "", "missing"),
    ("ok", "read,train,read", "read more than once"), ("ok", ",".join(["train"] * 60), "train more than once"),
])
def test_a_key_that_makes_no_sense_is_not_made(tmp_path, name, scopes, said):
    path = tmp_path / "keys"
    done = subprocess.run([KRRD, "key", name, scopes, "--api-keys", path], capture_output=True, text=True)
    assert done.returncode != 0 and said in done.stderr and not path.exists()


def test_a_name_is_taken_once(tmp_path):
    path = tmp_path / "keys"
    make_key(path, "ci", "read")
    done = subprocess.run([KRRD, "key", "ci", "admin", "--api-keys", path], capture_output=True, text=True)
    assert done.returncode == 1 and "already" in done.stderr and len(path.read_text().splitlines()) == 1


@pytest.mark.parametrize("there", ["", "\n# none yet", "a read sha256:" + "0" * 64])
def test_a_key_is_added_to_any_file_that_makes_sense(tmp_path, there):
    """To one without keys, and behind a last line that has no end; it keeps its mode."""
    path = tmp_path / "keys"
    path.write_text(there)
    path.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(path)
    make_key(link, "ci", "read,train")
    lines = path.read_text().splitlines()
    assert lines[:-1] == there.splitlines()
    assert re.fullmatch(r"ci read,train sha256:[0-9a-f]{64}", lines[-1])
    assert path.stat().st_mode & 0o777 == 0o640 and link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [path, link]


@pytest.mark.parametrize("there, said", [
    ("a read\n", "line 1"),
    ("".join(f"k{i} read sha256:{i:064x}\n" for i in range(4096)), "line 4097: there are too many keys"),
], ids=["broken", "full"])
def test_a_file_that_the_daemon_would_refuse_is_left_alone(tmp_path, there, said):
    path = tmp_path / "keys"
    path.write_text(there)
    done = subprocess.run([KRRD, "key", "ci", "admin", "--api-keys", path], capture_output=True, text=True)
    assert done.returncode == 1 and said in done.stderr and done.stdout == ""
    assert path.read_text() == there and list(tmp_path.iterdir()) == [path]


def test_keys_are_added_one_after_the_other(tmp_path):
    path = tmp_path / "keys"
    other = tmp_path / "keys.new"
    other.touch()
    words = [KRRD, "key", "ci", "admin", "--api-keys", path]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1 and "another krrd key" in done.stderr and not path.exists()
    assert other.exists()
    other.unlink()
    assert subprocess.run(words, capture_output=True).returncode == 0


def refuses_to_start(tmp_path, *words):
    """And without having begun anything."""
    done = subprocess.run([KRRD, "--data-dir", tmp_path / "data", *words], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode != 0 and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "data" / "krrd.db").exists()
    return done.stderr


@pytest.mark.parametrize("options", [(), ("--log-level", "off"), ("--log-file", "log")], ids=lambda o: "".join(o))
def test_a_port_that_is_taken_is_told_once_and_before_anything_begins(tmp_path, options):
    """On standard error; no worker has been started by then, and the database is not there."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = refuses_to_start(tmp_path, "--listen", f"127.0.0.1:{port}",
                                *(tmp_path / word if word == "log" else word for word in options))
    line, = told.splitlines()
    assert f"Port {port} of 127.0.0.1 is in use." in line
    if options:
        assert line.startswith("krrd: ")
    else:
        assert json.loads(line)["event"] == "server.failed"
    if "log" in options:
        logged, = (tmp_path / "log").read_text().splitlines()
        assert json.loads(logged)["event"] == "server.failed"
    assert not (tmp_path / "data" / "krrd.db").exists()


@pytest.mark.parametrize("text, said", [
    ("", "no key"), ("# nothing\n\n", "no key"),
    ("a read\n", "line 1"), ("# x\na read sha256:12\n", "line 2"),
    (f"a write sha256:{'0' * 64}\n", "line 1"), (f"a read sha256:{'A' * 64}\n", "line 1"),
    (f"a read sha256:{'0' * 64}\na admin sha256:{'1' * 64}\n", "line 2"),
])
def test_a_file_of_keys_that_is_wrong_names_the_line(tmp_path, text, said):
    path = tmp_path / "keys"
    path.write_text(text)
    assert said in refuses_to_start(tmp_path, "--listen", "127.0.0.1:0", "--api-keys", path)


def test_without_keys_nobody_listens_beyond_loopback(tmp_path):
    assert "--api-keys" in refuses_to_start(tmp_path, "--listen", "0.0.0.0:0")
    assert "no file" in refuses_to_start(tmp_path, "--listen", "0.0.0.0:0", "--api-keys", tmp_path / "none")


def test_with_keys_it_listens_beyond_loopback(daemons, tmp_path):
    key = make_key(tmp_path / "keys", "a", "read")
    daemon = daemons(listen="0.0.0.0:0", api_keys=tmp_path / "keys")
    base = daemon.base.replace("0.0.0.0", "127.0.0.1")
    assert requests.get(base + "/v1/jobs", timeout=30).status_code == 401
    assert requests.get(base + "/v1/jobs", headers=bearer(key), timeout=30).status_code == 200


def test_strangers_get_401_and_health_and_the_dashboard(guarded):
    daemon, _, _ = guarded
    session = daemon.session
    for headers in ({}, bearer("krrd_" + "0" * 64), bearer(""), {"Authorization": "Basic YTpi"}):
        answer = session.get(daemon.base + "/v1/jobs", headers=headers)
        assert answer.status_code == 401 and answer.json()["code"] == "unauthorized"
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    for path in ("/v2/health/live", "/openapi.yaml", "/", "/docs"):
        assert session.get(daemon.base + path).status_code == 200, path
    assert session.get(daemon.base + "/health").status_code in (200, 503)  # whether workers are up


def expected_scopes(method, operation):
    """What the contract says: `security: []` is open, `x-scopes` names scopes, else the rule of the document."""
    if operation.get("security") == []:
        return None
    return set(operation.get("x-scopes") or (["read", "train"] if method == "GET" else ["train"])) | {"admin"}


@pytest.mark.parametrize("blanks", [" ", "\t "])
def test_blanks_behind_a_key_are_none_of_it(guarded, blanks):
    daemon, keys, _ = guarded
    with raw.Raw(daemon.base) as c:
        c.request("GET", "/v1/jobs", [f"Authorization: Bearer {keys['read']}{blanks}"])
        assert c.answer().status == 200


def test_every_operation_needs_the_scopes_that_the_contract_names(guarded):
    daemon, keys, _ = guarded
    session = requests.Session()
    for (method, template), operation in contract.operations().items():
        path = re.sub(r"\{[^}]*\}", "x", template)
        allowed = expected_scopes(method, operation)
        for scope in SCOPES:
            answer = session.request(method, daemon.base + path, headers=bearer(keys[scope]), data=b"" if method != "GET" else None,
                                     timeout=30, stream=True)
            status = answer.status_code
            answer.close()
            if allowed is None or scope in allowed:
                assert status not in (401, 403), (method, template, scope, status)
            else:
                assert status == 403, (method, template, scope, status)


def test_a_refused_upload_is_not_read(guarded):
    daemon, keys, _ = guarded
    answer = requests.post(daemon.base + "/v1/datasets", data=b"1,2\n" * 1000000, timeout=60,
                           headers={**bearer(keys["read"]), "Content-Type": "text/csv"})
    assert answer.status_code == 403 and "train" in answer.json()["detail"]


def test_a_training_key_moves_no_alias_through_a_job(guarded):
    daemon, keys, _ = guarded
    X, y = data.regression(40)
    headers = {**bearer(keys["train"]), "Content-Type": "text/csv"}
    dataset = requests.post(daemon.base + "/v1/datasets", data=data.csv(X, y), headers=headers, timeout=60).json()["id"]
    spec = {"model": "m", "dataset": dataset, "promote": {"alias": "prod", "if": {"smape": {"lt": 2}}}}
    answer = requests.post(daemon.base + "/v1/jobs", json=spec, headers=bearer(keys["train"]), timeout=60)
    assert answer.status_code == 403 and answer.json()["errors"][0]["pointer"] == "#/promote"
    answer = requests.post(daemon.base + "/v1/jobs", json=spec, headers=bearer(keys["admin"]), timeout=60)
    assert answer.status_code == 202


def test_the_client_uses_a_key(guarded, tmp_path):
    daemon, keys, _ = guarded
    environment = {k: v for k, v in os.environ.items() if k != "KRR_KEY"} | {"KRR_URL": daemon.base}
    without = subprocess.run([KRR, "jobs"], capture_output=True, env=environment)
    assert without.returncode == 4 and b"401" in without.stderr
    assert subprocess.run([KRR, "jobs"], env={**environment, "KRR_KEY": keys["read"]}).returncode == 0
    file = tmp_path / "key"
    file.write_text(keys["read"] + "\n")
    assert subprocess.run([KRR, "jobs", "--key-file", file], env=environment).returncode == 0


def read_keys_anew(daemon, event="keys.read"):
    before = daemon.log().count(event)
    daemon.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 30
    while daemon.log().count(event) == before:
        assert time.monotonic() < end, daemon.log()
        time.sleep(0.02)


def test_keys_are_read_anew_and_a_broken_file_changes_nothing(daemons, tmp_path):
    path = tmp_path / "keys"
    first = make_key(path, "first", "read")
    daemon = daemons(api_keys=path)

    def status(key):
        return requests.get(daemon.base + "/v1/jobs", headers=bearer(key), timeout=30).status_code

    def reread(event):
        read_keys_anew(daemon, event)

    second = make_key(path, "second", "read")
    assert (status(first), status(second)) == (200, 401)
    reread("keys.read")
    assert (status(first), status(second)) == (200, 200)
    good = path.read_text()
    path.write_text("nonsense\n")
    reread("keys.not_read")
    assert (status(first), status(second)) == (200, 200)
    path.write_text(good.splitlines()[1] + "\n")
    reread("keys.read")
    assert (status(first), status(second)) == (401, 200)
    assert first not in daemon.log() and second not in daemon.log()


@contextlib.contextmanager
def listening(daemon, key, job):
    """The lines of an event stream, whose beginning has been read."""
    with requests.get(f"{daemon.base}/v1/jobs/{job}/events", stream=True, timeout=60,
                      headers={**bearer(key), "Accept": "text/event-stream"}) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        while not next(lines).startswith(b"id: 1"):
            pass
        yield lines


def test_event_streams_end_with_their_keys(daemons, tmp_path):
    """Of a key that is removed, replaced under its name, or may no more; others go on."""
    path = tmp_path / "keys"
    keys = {name: make_key(path, name, "read,train") for name in ("gone", "new", "less", "stays")}
    daemon = daemons(api_keys=path, workers="cpu:0", serve_workers=0)
    X, y = data.regression(40)
    headers = bearer(keys["stays"])
    dataset = requests.post(daemon.base + "/v1/datasets", data=data.csv(X, y), timeout=60,
                            headers={**headers, "Content-Type": "text/csv"}).json()["id"]
    job = requests.post(daemon.base + "/v1/jobs", json={"model": "m", "dataset": dataset}, headers=headers,
                        timeout=60).json()["id"]
    with contextlib.ExitStack() as stack:
        streams = {name: stack.enter_context(listening(daemon, key, job)) for name, key in keys.items()}
        lines = {line.split()[0]: line for line in path.read_text().splitlines()}
        lines["new"] = f"new read,train sha256:{'0' * 64}"
        lines["less"] = lines["less"].replace("read,train", "predict")
        del lines["gone"]
        path.write_text("\n".join(lines.values()) + "\n")
        read_keys_anew(daemon)
        for name in ("gone", "new", "less"):
            assert b"succeeded" not in b"".join(streams[name]), name  # until the server ends it
        requests.post(f"{daemon.base}/v1/jobs/{job}/cancel", headers=headers, timeout=60)
        assert any(b'"cancelled"' in line for line in streams["stays"])
    assert daemon.log().count("http.stream_revoked") == 3
    for name in ("gone", "new"):
        assert requests.get(f"{daemon.base}/v1/jobs/{job}/events", timeout=60, headers={
            **bearer(keys[name]), "Accept": "text/event-stream"}).status_code == 401


def test_the_log_names_the_key_and_never_tells_it(guarded):
    daemon, keys, _ = guarded
    requests.get(daemon.base + "/v1/jobs", headers={**bearer(keys["read"]), "X-Request-Id": "who-was-it"}, timeout=30)
    line = wait.until(lambda: next((line for line in daemon.log().splitlines()
                                    if "who-was-it" in line and "http.request" in line and line.endswith("}")), None))
    assert json.loads(line)["key"] == "read"
    assert not any(key in daemon.log() for key in keys.values())


# ---- TLS ----


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    done = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                           "-nodes", "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2",
                           "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"],
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture(scope="module")
def secure(tmp_path_factory, certificate):
    daemon = programs.Daemon(tmp_path_factory.mktemp("secure"), tls_cert=certificate[0], tls_key=certificate[1],
                             max_upload_bytes=1000000)
    daemon.base = daemon.base.replace("http:", "https:")
    yield daemon
    daemon.close()


def trusting(certificate):
    session = requests.Session()
    session.trust_env = False  # the environment may name other certificates
    session.verify = str(certificate[0])
    return session


def test_a_whole_journey_over_tls(secure, certificate):
    session = trusting(certificate)
    X, y = data.regression(60)
    answer = session.post(secure.base + "/v1/datasets", data=data.csv(X, y), headers={"Content-Type": "text/csv"})
    assert answer.status_code == 201
    job = session.post(secure.base + "/v1/jobs", json={"model": "m", "dataset": answer.json()["id"]}).json()["id"]
    with session.get(f"{secure.base}/v1/jobs/{job}/events", headers={"Accept": "text/event-stream"}, stream=True,
                     timeout=60) as stream:
        assert any(b'"succeeded"' in line for line in stream.iter_lines())
    answer = session.post(secure.base + "/v1/models/m/predict", json={"instances": X[:3].tolist()})
    assert len(answer.json()["predictions"]) == 3


def test_the_log_tells_the_address_with_its_scheme(secure):
    assert f"listening on {secure.base}" in secure.log()


def test_the_client_over_tls(secure, certificate):
    environment = {**os.environ, "KRR_URL": secure.base}
    assert subprocess.run([KRR, "jobs", "--cacert", certificate[0]], env=environment).returncode == 0
    done = subprocess.run([KRR, "jobs"], env=environment, capture_output=True)
    assert done.returncode == 3 and b"certificate" in done.stderr


def test_many_connections_over_tls(secure, certificate):
    seen = []

    def ask():
        session = trusting(certificate)
        seen.extend(session.get(secure.base + "/v1/solvers", timeout=60).status_code for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert seen == [200] * 80


def test_an_upload_that_is_too_large_is_told_so_over_tls(secure, certificate):
    """The refusal goes out while the body is still coming in."""
    context = ssl.create_default_context(cafile=certificate[0])
    host, port = secure.base.removeprefix("https://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as tls:
            tls.sendall(b"POST /v1/datasets HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
                        b"Content-Length: 5000000\r\n\r\n1,2\n")
            assert tls.recv(4096).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
def test_old_versions_of_tls_are_refused(secure, version):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, version)
    context.set_ciphers("ALL:@SECLEVEL=0")
    host, port = secure.base.removeprefix("https://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as plain:
        with pytest.raises((ssl.SSLError, OSError)):
            context.wrap_socket(plain)


def test_plain_http_and_nonsense_at_a_tls_port_hurt_nobody(secure, certificate):
    host, port = secure.base.removeprefix("https://").split(":")
    for nonsense in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(100), b"\x00" * 3000):
        with socket.create_connection((host, int(port)), timeout=30) as plain:
            plain.sendall(nonsense)
    assert trusting(certificate).get(secure.base + "/health", timeout=30).status_code == 200


def test_a_certificate_without_its_key_is_refused(tmp_path, certificate):
    assert "together" in refuses_to_start(tmp_path, "--listen", "127.0.0.1:0", "--tls-cert", certificate[0])
    other = tmp_path / "other.pem"
    other.write_text("nonsense")
    said = refuses_to_start(tmp_path, "--listen", "127.0.0.1:0", "--tls-cert", certificate[0], "--tls-key", other)
    assert "cannot be used" in said
    said = refuses_to_start(tmp_path, "--listen", "127.0.0.1:0", "--tls-cert", certificate[0],
                            "--tls-key", tmp_path / "none")
    assert "--tls-key" in said


# ---- pages of other origins ----

PAGE = "https://page.example"
PREFLIGHT = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}


def test_other_origins_are_off_by_default(api):
    answer = requests.options(api.url("/v1/jobs"), headers=PREFLIGHT, timeout=30)
    assert answer.status_code in (403, 405) and "Access-Control-Allow-Origin" not in answer.headers
    answer = requests.get(api.url("/v1/jobs"), headers={"Origin": PAGE}, timeout=30)
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_an_origin_that_is_named_may(daemons):
    daemon = daemons(cors_origin=f"https://other.example,{PAGE}")
    answer = requests.options(daemon.base + "/v1/jobs", headers=PREFLIGHT, timeout=30)
    assert answer.status_code == 204 and answer.headers["Access-Control-Allow-Origin"] == PAGE
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
    assert "Access-Control-Allow-Credentials" not in answer.headers
    answer = requests.post(daemon.base + "/v1/jobs", json={}, timeout=30,
                           headers={"Origin": PAGE, "Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 422 and answer.headers["Access-Control-Allow-Origin"] == PAGE
    assert answer.headers["Vary"] == "Origin"
    for origin in ("https://evil.example", "https://page.example.evil", "null", "https://page.exampl"):
        answer = requests.options(daemon.base + "/v1/jobs", headers={**PREFLIGHT, "Origin": origin}, timeout=30)
        assert answer.status_code in (403, 405) and "Access-Control-Allow-Origin" not in answer.headers


# ---- other names ----


def asked_as(daemon, host, path="/v1/jobs", **more):
    headers = {"Host": host, **more.pop("headers", {})}
    return contract.Session().get(daemon.base + path, headers=headers, timeout=30, **more)


@pytest.mark.parametrize("path", ["/", "/v1/jobs", "/v1/models", "/metrics", "/health", "/openapi.yaml"])
def test_a_name_that_somebody_points_at_loopback_reaches_nothing(api, path):
    """A page whose own name has come to mean 127.0.0.1: the browser calls this the same origin."""
    port = api.base.rsplit(":", 1)[1]
    answer = contract.Session().get(api.url(path), timeout=30, headers={
        "Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}", "Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 421 and answer.json()["code"] == "forbidden"
    assert "evil.example" in answer.json()["detail"] and "--allowed-hosts" in answer.json()["detail"]


@pytest.mark.parametrize("target, header, status", [
    ("http://evil.example/v1/jobs", "localhost", 421),
    ("http://localhost/v1/jobs", "evil.example", 200),
])
def test_the_host_of_the_target_counts_and_not_the_header(shared_daemon, target, header, status):
    """RFC 9112, section 3.2.2."""
    with raw.Raw(shared_daemon.base) as c:
        c.send(f"GET {target} HTTP/1.1\r\nHost: {header}\r\n\r\n".encode())
        assert c.answer().status == status


def test_such_a_page_changes_nothing(api):
    before = api.get("/v1/datasets", params={"limit": 1}).json()["first_id"]
    answer = contract.Session().post(api.url("/v1/datasets"), data=b"1,2\n" * 1000000, timeout=60, headers={
        "Host": "evil.example", "Sec-Fetch-Site": "same-origin", "Content-Type": "text/csv"})
    assert answer.status_code == 421
    assert api.get("/v1/datasets", params={"limit": 1}).json()["first_id"] == before


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "krrd.localhost:8080", "127.0.0.1", "127.9.9.9:80", "[::1]:8080",
                                  "192.0.2.7"])
def test_addresses_and_localhost_are_names_of_every_server(shared_daemon, host):
    assert asked_as(shared_daemon, host).status_code == 200


def test_names_can_be_given(daemons):
    daemon = daemons(allowed_hosts="krrd.example,.lab.example")
    for host, status in (("krrd.example:8080", 200), ("a.lab.example", 200), ("localhost", 200), ("127.0.0.1", 200),
                         ("lab.example", 421), ("evil.example", 421), ("krrd.example.evil", 421)):
        assert asked_as(daemon, host).status_code == status, host
    assert asked_as(daemons(allowed_hosts="*"), "evil.example").status_code == 200


def test_a_key_or_an_open_address_needs_no_names(guarded, daemons, monkeypatch):
    daemon, keys, _ = guarded
    assert asked_as(daemon, "krrd.example", headers=bearer(keys["read"])).status_code == 200
    assert asked_as(daemon, "krrd.example").status_code == 401
    monkeypatch.setenv("KRRD_INSECURE", "true")
    everywhere = daemons(listen="0.0.0.0:0")
    everywhere.base = everywhere.base.replace("0.0.0.0", "127.0.0.1")
    assert asked_as(everywhere, "krrd").status_code == 200


def test_names_hold_for_servers_with_keys_too_where_they_are_given(daemons, tmp_path):
    key = make_key(tmp_path / "keys", "a", "read")
    daemon = daemons(api_keys=tmp_path / "keys", allowed_hosts="krrd.example")
    assert asked_as(daemon, "evil.example", headers=bearer(key)).status_code == 421
    assert asked_as(daemon, "krrd.example", headers=bearer(key)).status_code == 200
