"""Webhooks: a real receiver, its signatures recomputed; kills, refusals, retries and giving up."""

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import time

import pytest

import daemon as daemon_module
import data
import wait
from prometheus import scrape
from receiver import KEY, Receiver, signatures, write_secrets

OTHER = b"fedcba9876543210fedcba9876543210"


@pytest.fixture
def receiver():
    with contextlib.ExitStack() as stack:

        def start(*args, **kwargs):
            r = Receiver(*args, **kwargs)
            stack.callback(r.close)
            return r

        yield start


@pytest.fixture
def hooked(daemons, tmp_path, monkeypatch):
    """A daemon that sends webhooks, by default to loopback and without TLS too."""

    def start(keys=(KEY,), http=True, **options):
        path = write_secrets(tmp_path / "secrets", keys)
        monkeypatch.setenv("KRRD_WEBHOOKS", "true")
        monkeypatch.setenv("KRRD_WEBHOOK_HTTP", "true" if http else "false")
        return daemons(**{"webhook_secret_file": path, "webhook_allow": "127.0.0.0/8",
                          "webhook_retry_s": 0.2, **options})

    return start


def dataset(api):
    X, y = data.regression(40)
    return api.upload_npz(X, y)


def wait_arrived(r, job, timeout=120):
    wait.until(lambda: any(json.loads(body)["data"]["id"] == job["id"] for _, body, _ in list(r.arrived)),
               "a message", timeout)


def wait_state(api, job, state, timeout=120):
    def found():
        return api.job(job["id"])["webhook"]

    return wait.until(lambda: (found() or {}).get("state") == state and found(), found, timeout)


def test_off_unless_asked_for(api, regression_dataset):
    answer = api.post("/v1/jobs", 422, json={"model": "m", "dataset": regression_dataset,
                                             "webhook": {"url": "https://example.org/"}})
    assert answer.json()["errors"][0]["pointer"] == "#/webhook"


def test_a_receiver_that_does_not_answer_holds_up_no_stop(hooked, receiver):
    """What was under way is sent again after the next start."""
    slow = receiver(delay=45)
    daemon = hooked(webhook_timeout_s=60)
    job = daemon.api.create("m", dataset=dataset(daemon.api), webhook={"url": slow.url})
    slow.wait(1)
    began = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - began < 20
    slow.delay = 0
    daemon.start()
    slow.wait(2)
    assert wait_state(daemon.api, job, "delivered")["attempts"] == 2
    assert slow.arrived[0][0]["webhook-id"] == slow.arrived[1][0]["webhook-id"]


def test_the_message(hooked, receiver):
    api = hooked(keys=(KEY, OTHER)).api
    r = receiver()
    job = api.create("m", dataset(api), webhook={"url": r.url + "/hook?a=b"},
                     metadata={"team": "blue"})
    assert job["webhook"] is None and job["spec"]["webhook"]["url"] == r.url + "/hook?a=b"
    done = api.wait(job["id"])
    headers, body, path = r.wait(1)[0]
    assert path == "/hook?a=b" and headers["Content-Type"] == "application/json"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    assert headers["webhook-signature"] == signatures(r.arrived[0], (KEY, OTHER))
    assert headers["webhook-signature"] != signatures(r.arrived[0], (OTHER, KEY))
    message = json.loads(body)
    assert set(message) == {"type", "timestamp", "data"} and message["type"] == "job.succeeded"
    assert message["timestamp"] == done["finished_at"]
    for key, value in message["data"].items():
        assert value == (done["spec"]["metadata"] if key == "metadata" else done[key]), key
    assert message["data"]["metadata"] == {"team": "blue"} and message["data"]["result"]
    state = wait_state(api, job, "delivered")
    assert (state["attempts"], state["last_status"], state["last_error"]) == (1, 200, None)
    assert state["id"] == headers["webhook-id"] and state["next_attempt_at"] is None
    assert api.get("/v1/jobs").json()["data"][0]["webhook"] == state
    wait.until_metric(api, "krrd_webhooks_pending", 0)
    later = api.create("m", dataset(api), webhook={"url": r.url})
    wait_state(api, later, "delivered")
    assert [headers["webhook-id"] == state["id"] for headers, _, _ in r.arrived] == [True, False]


def test_the_events_asked_for(hooked, receiver):
    api = hooked(workers="cpu:0").api
    r = receiver()
    quiet = api.create("m", dataset(api), webhook={"url": r.url, "events": ["succeeded", "failed"]})
    told = api.create("m", quiet["dataset"], webhook={"url": r.url, "events": ["cancelled"]})
    api.cancel(quiet["id"])
    api.cancel(told["id"])
    assert json.loads(r.wait(1)[0][1])["data"]["id"] == told["id"]
    wait_state(api, told, "delivered")
    assert len(r.arrived) == 1 and api.job(quiet["id"])["webhook"] is None


@pytest.mark.parametrize("url, events, pointer", [
    ("ftp://example.org/", None, "#/webhook/url"),
    ("https://", None, "#/webhook/url"),
    ("ftp://example.org/", None, "#/webhook/url"),
    ("https://user:word@example.org/", None, "#/webhook/url"),
    ("https://example.org/a b", None, "#/webhook/url"),
    ("https://example.org/" + "x" * 1024, None, "#/webhook/url"),
    ("https://example.org:99999/", None, "#/webhook/url"),
    ("https://[::1/", None, "#/webhook/url"),
    ("https://example.org/", [], "#/webhook/events"),
    ("https://example.org/", ["succeeded", "succeeded"], "#/webhook/events/1"),
    ("https://example.org/", ["running"], "#/webhook/events/0"),
    ("http://169.254.169.254/latest/meta-data/", None, "#/webhook/url"),
    ("http://10.1.2.3/", None, "#/webhook/url"),
    ("http://[::1]:80/", None, "#/webhook/url"),
    ("http://[::ffff:169.254.169.254]/", None, "#/webhook/url"),
    ("http://[64:ff9b::a9fe:a9fe]/", None, "#/webhook/url"),
    ("http://[2002:7f00:1::]/", None, "#/webhook/url"),
    ("http://[fe80::1]/", None, "#/webhook/url"),
])
def test_refused_when_the_job_is_posted(hooked, url, events, pointer):
    api = hooked(webhook_allow="").api
    hook = {"url": url} if events is None else {"url": url, "events": events}
    answer = api.request("POST", "/v1/jobs", json={"model": "m", "dataset": dataset(api),
                                                   "webhook": hook})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_http_is_refused_unless_allowed(hooked):
    api = hooked(http=False).api
    answer = api.request("POST", "/v1/jobs", json={
        "model": "m", "dataset": dataset(api), "webhook": {"url": "http://example.org/"}})
    assert answer.status_code == 422 and "https" in answer.json()["detail"]


@pytest.mark.parametrize("host", ["localhost", "2130706433", "0x7f.1"])
def test_a_name_that_leads_to_loopback(hooked, receiver, host):
    """What is connected to is judged, not what stands in the address."""
    daemon = hooked(webhook_allow="", webhook_give_up_s=1)
    api = daemon.api
    r = receiver()
    job = api.create("m", dataset(api), webhook={"url": f"http://{host}:{r.port}/"})
    state = wait_state(api, job, "given_up")
    assert "may not go to" in state["last_error"], state
    assert r.arrived == []
    warnings = [e["message"] for e in api.events(job["id"]) if e["level"] == "warning"]
    assert any("webhook was given up after" in m for m in warnings), warnings
    ids = [e["id"] for e in api.events(job["id"])]
    assert ids == list(range(1, len(ids) + 1))


def test_redirects_are_not_followed(hooked, receiver):
    api = hooked(webhook_give_up_s=1).api
    r = receiver(answers=[302])
    job = api.create("m", dataset(api), webhook={"url": r.url})
    state = wait_state(api, job, "given_up")
    assert state["last_status"] == 302 and "redirects" in state["last_error"]
    assert all(path == "/" for _, _, path in r.arrived)


def test_tried_again_until_it_is_taken(hooked, receiver):
    api = hooked().api
    r = receiver(answers=[500, 503, 404, 204])
    job = api.create("m", dataset(api), webhook={"url": r.url})
    state = wait_state(api, job, "delivered")
    assert (state["attempts"], state["last_status"]) == (4, 204)
    ids = {headers["webhook-id"] for headers, _, _ in r.arrived}
    bodies = {body for _, body, _ in r.arrived}
    assert len(r.arrived) == 4 and len(ids) == len(bodies) == 1
    for message in r.arrived:
        assert message[0]["webhook-signature"] == signatures(message)


def test_attempts_are_counted(hooked, receiver):
    api = hooked().api
    r = receiver(answers=[500, 503, 200])
    before = scrape(api)
    assert before.value("krrd_webhooks_pending") == 0
    assert before.value("krrd_webhooks_oldest_pending_seconds") == 0
    job = api.create("m", dataset(api), webhook={"url": r.url})
    wait_state(api, job, "delivered")
    page = scrape(api)
    attempts = {o: page.value("krrd_webhook_attempts_total", outcome=o)
                for o in ("delivered", "retried", "given_up")}
    assert attempts == {"delivered": 1, "retried": 2, "given_up": 0}
    assert page.value("krrd_webhook_attempt_seconds_count") == 3
    assert page.value("krrd_webhook_delivery_seconds_count") == 1
    assert page.value("krrd_webhook_delivery_seconds_sum") >= 0.2  # of two waits
    r.answers = [410]
    gone = api.create("m", job["dataset"], webhook={"url": r.url})
    wait_state(api, gone, "given_up")
    page = scrape(api)
    assert page.value("krrd_webhook_attempts_total", outcome="given_up") == 1
    assert page.value("krrd_webhook_delivery_seconds_count") == 1
    assert page.value("krrd_webhooks_pending") == 0


def test_what_is_pending_is_told(hooked):
    """Also while nothing is sent, and of jobs of an earlier run."""
    daemon = hooked(webhook_retry_s=300)
    api = daemon.api
    url = f"http://127.0.0.1:{free_port()}/"
    job = api.create("m", dataset(api), webhook={"url": url})
    done = api.wait(job["id"])
    age = scrape(api).value("krrd_webhooks_oldest_pending_seconds")
    assert scrape(api).value("krrd_webhooks_pending") == 1 and 0 <= age < 600
    assert daemon.stop() == 0
    daemon.start()
    page = scrape(daemon.api)
    assert page.value("krrd_webhooks_pending") == 1, done
    assert page.value("krrd_webhooks_oldest_pending_seconds") > age
    daemon.api.delete(f"/v1/jobs/{job['id']}")
    page = scrape(daemon.api)
    assert page.value("krrd_webhooks_pending") == page.value("krrd_webhooks_oldest_pending_seconds") == 0


def test_gone_ends_it(hooked, receiver):
    api = hooked().api
    r = receiver(answers=[410])
    job = api.create("m", dataset(api), webhook={"url": r.url})
    assert wait_state(api, job, "given_up")["attempts"] == 1


def test_a_receiver_that_is_slow_or_talks_much(hooked, receiver):
    """The time for an attempt is limited, and so is what is read; nobody else waits."""
    api = hooked(webhook_timeout_s=8, webhook_give_up_s=1).api
    slow, loud = receiver(delay=20), receiver(body=b"x" * (4 << 20))
    first = api.create("m", dataset(api), webhook={"url": slow.url})
    slow.wait(1)
    assert api.job(first["id"])["webhook"]["attempts"] == 0  # answered while it is under way
    second = api.create("m", first["dataset"], webhook={"url": loud.url})
    assert wait_state(api, second, "delivered")["last_status"] == 200
    assert "could not be reached" in wait_state(api, first, "given_up")["last_error"]


def test_a_receiver_that_is_slow_holds_up_its_own_messages_alone(hooked, receiver):
    """Of a hundred jobs for one, and another's that ended later; in the end all are told."""
    api = hooked(workers="cpu:0", webhook_timeout_s=60).api
    slow, quick = receiver(delay=30), receiver()
    source = dataset(api)
    hook = {"events": ["cancelled"]}
    for i in range(100):
        api.cancel(api.create(f"m{i}", source, webhook={**hook, "url": slow.url})["id"])
    slow.wait(2)
    last = api.create("last", source, webhook={**hook, "url": quick.url})
    api.cancel(last["id"])
    assert wait_state(api, last, "delivered")["attempts"] == 1
    assert len(slow.arrived) == 2 and scrape(api).value("krrd_webhooks_pending") == 100
    slow.delay = 0
    wait.until_metric(api, "krrd_webhooks_pending", 0)
    assert len({headers["webhook-id"] for headers, _, _ in slow.arrived}) == len(slow.arrived) == 100


def test_many_receivers_that_do_not_answer_leave_room_for_others(hooked, receiver):
    """Each has been tried and is tried again, all the time."""
    api = hooked(workers="cpu:0", webhook_timeout_s=2, webhook_retry_s=0.1).api
    dead = [receiver(delay=600) for _ in range(12)]
    quick = receiver()
    source = dataset(api)
    hook = {"events": ["cancelled"]}
    for i in range(60):
        api.cancel(api.create(f"m{i}", source, webhook={**hook, "url": dead[i % 12].url})["id"])
    wait.until(lambda: sum(len(r.arrived) for r in dead) > 70, "second attempts")
    began = time.monotonic()
    for i in range(5):
        job = api.create(f"q{i}", source, webhook={**hook, "url": quick.url})
        api.cancel(job["id"])
        wait_state(api, job, "delivered")
    assert time.monotonic() - began < 20


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_a_kill_between_the_end_and_the_message(hooked, receiver):
    """Whatever the moment, the message arrives, under one id."""
    daemon = hooked(webhook_retry_s=30)
    api = daemon.api
    r = receiver(delay=0.5)
    source = dataset(api)
    for i in range(6):
        job = daemon.api.create(f"m{i}", source, webhook={"url": r.url})
        if i % 2:
            daemon.api.wait(job["id"])
        else:
            wait_arrived(r, job)  # taken, and not recorded
        daemon.kill()
        daemon.start()
        wait_state(daemon.api, job, "delivered")
        ids = {h["webhook-id"] for h, b, _ in r.arrived if json.loads(b)["data"]["id"] == job["id"]}
        assert ids == {daemon.api.job(job["id"])["webhook"]["id"]}
    assert len({h["webhook-id"] for h, _, _ in r.arrived}) == 6


def test_a_receiver_that_comes_later(hooked):
    daemon = hooked()
    port = free_port()
    job = daemon.api.create("m", dataset(daemon.api), webhook={"url": f"http://127.0.0.1:{port}/"})
    wait.until(lambda: (daemon.api.job(job["id"])["webhook"] or {}).get("attempts", 0) >= 2)
    assert daemon.stop() == 0
    daemon.start()
    waiting = daemon.api.job(job["id"])["webhook"]
    assert waiting["state"] == "pending" and waiting["next_attempt_at"]
    daemon.api.delete(f"/v1/jobs/{job['id']}")  # ends it
    wait.until_metric(daemon.api, "krrd_webhooks_pending", 0)


def test_tls_is_verified(hooked, receiver, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                           "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                           "-keyout", key, "-out", cert], capture_output=True, check=False)
    assert made.returncode == 0, made.stderr
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    r = receiver(context=context)
    trusting = hooked(webhook_ca_file=cert, http=False).api
    job = trusting.create("m", dataset(trusting), webhook={"url": r.url})
    assert wait_state(trusting, job, "delivered")["last_status"] == 200
    assert r.arrived[0][0]["webhook-signature"] == signatures(r.arrived[0])
    wary = hooked(http=False, webhook_give_up_s=1).api
    job = wary.create("m", dataset(wary), webhook={"url": r.url})
    assert "could not be reached" in wait_state(wary, job, "given_up")["last_error"]
    assert len(r.arrived) == 1


@pytest.mark.parametrize("content", ["", "secret\n", "whsec_c2hvcnQ=\n", "whsec_!!!!\n"])
def test_a_file_of_secrets_that_is_none(tmp_path, content):
    path = tmp_path / "secrets"
    path.write_text(content)
    answer = subprocess.run(
        [daemon_module.program("KRRD_TEST_DAEMON", "src/server/krrd"), "--webhooks", "--data-dir",
         tmp_path / "data", "--listen", "127.0.0.1:0", "--webhook-secret-file", path],
        capture_output=True, text=True, timeout=30, check=False)
    assert answer.returncode == 1 and "--webhook-secret-file" in answer.stderr


@pytest.mark.parametrize("content, said", [(None, "does not exist"), (b"", "no certificate"), (b"\x30\x82der", "no certificate")])
def test_a_file_of_certificates_that_is_none(tmp_path, content, said):
    """It would fail every message for days, each by itself."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    answer = subprocess.run(
        [daemon_module.program("KRRD_TEST_DAEMON", "src/server/krrd"), "--webhooks", "--data-dir", tmp_path / "data",
         "--listen", "127.0.0.1:0", "--webhook-secret-file", write_secrets(tmp_path / "secrets", (KEY,)),
         "--webhook-ca-file", path], capture_output=True, text=True, timeout=30, check=False)
    assert answer.returncode == 1 and "--webhook-ca-file" in answer.stderr and said in answer.stderr
