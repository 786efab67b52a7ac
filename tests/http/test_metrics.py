"""GET /metrics: both formats, strictly, and whether the numbers say what was done."""

import shutil
import signal
import subprocess
import time

import pytest

import data
import prometheus
import sse
import wait
from prometheus import scrape

PROMETHEUS = ("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
              "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.2")


@pytest.mark.parametrize("accept, openmetrics", [
    (None, False),
    ("text/plain", False),
    ("text/html", False),
    ("text/*;q=0.5, application/openmetrics-text;q=0.4", False),
    ("application/openmetrics-text", True),
    ("*/*", False),
    ("application/openmetrics-text;version=0.0.1", False),
    ("application/openmetrics-text; version=1.0.0; charset=utf-8", True),
    ("application/openmetrics-text;q=0", False),
    (PROMETHEUS, True),
])
def test_format_follows_accept(api, accept, openmetrics):
    answer = api.get("/metrics", headers={"Accept": accept})
    assert answer.headers["Content-Type"].startswith(
        "application/openmetrics-text" if openmetrics else "text/plain")
    prometheus.read(answer.text, openmetrics)


@pytest.mark.parametrize("openmetrics", [False, True])
def test_both_formats_tell_the_same(api, openmetrics):
    page = scrape(api, openmetrics)
    assert page.value("krrd_build_info", version="0.1.0") == 1
    assert page.value("process_resident_memory_bytes") > 1 << 20
    assert page.value("process_open_fds") > 3
    assert abs(page.value("process_start_time_seconds") - time.time()) < 36000
    assert page.total("krrd_workers") == 2
    assert page.total("krrd_requests_shed_total", cause="queue") == 0
    assert ("krrd_worker_lost_total", (("kind", "train"),)) in page.samples


def test_promtool_finds_no_fault(api):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (package prometheus)")
    text = api.get("/metrics", headers={"Accept": "text/plain"}).text
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stdout + done.stderr, done.stdout + done.stderr


def test_requests_are_counted_by_pattern(api):
    def count(page):
        return page.value("krrd_http_request_seconds_count", method="GET", route="/v1/jobs/{id}",
                          code="4xx")

    def unknown(page):
        return page.value("krrd_http_request_seconds_count", method="other", route="other",
                          code="4xx")

    before = scrape(api)
    for i in range(5):
        api.get(f"/v1/jobs/job_nobody{i}", 404)
        api.get(f"/nowhere/{i}", 404)
    after = scrape(api)
    assert count(after) == count(before) + 5
    assert unknown(after) == unknown(before) + 5
    assert "nobody" not in str(after.samples)


def test_sleep_is_no_turn(daemons, tmp_path):
    """Whatever ends it: an idle daemon that gets signal after signal is in turns a small part of the time."""
    daemon = daemons(log_file=tmp_path / "daemon.log")
    log = tmp_path / "daemon.log"
    wait.until(log.exists)

    def turns():
        return scrape(daemon.api).value("krrd_loop_turn_seconds_sum")

    before, begun = turns(), time.monotonic()
    for _ in range(40):
        log.unlink()
        daemon.process.send_signal(signal.SIGHUP)
        wait.until(log.exists)  # looks again after a while, in which the daemon sleeps
    assert turns() - before < 0.25 * (time.monotonic() - begun)


def test_a_job_is_counted(api, regression_dataset, name):
    before = scrape(api)
    sent = time.time()
    job = api.train(name, regression_dataset, solver={"name": "cholesky"})
    with sse.listen(api.session, api.url(f"/v1/jobs/{job['id']}/events")) as stream:
        events = stream.events()
    after = scrape(api)

    def rise(sample, **labels):
        return after.total(sample, **labels) - before.total(sample, **labels)

    assert rise("krrd_jobs_submitted_total") == 1
    assert rise("krrd_job_attempts_total") == 1 and rise("krrd_job_retries_total") == 0
    assert rise("krrd_jobs_ended_total", status="succeeded", reason=job["reason"]) == 1
    assert rise("krrd_job_wait_seconds_count") == 1
    assert rise("krrd_job_run_seconds_count", status="succeeded") == 1
    assert rise("krrd_event_listener_events_total") == len(events)
    assert rise("krrd_http_request_seconds_count", route="/v1/jobs/{id}/events", code="2xx") == 1
    assert rise("krrd_store_changes_total") >= 3
    assert after.value("krrd_job_last_success_timestamp_seconds") >= sent - 1
    assert after.value("krrd_store_size_bytes") > 0


def test_jobs_are_gauged_by_status(daemons, name):
    daemon = daemons(workers="cpu:0", serve_workers=0, max_queue=3)
    X, y = data.regression(20)
    dataset = daemon.api.upload_csv(X, y)
    ids = [daemon.api.create(name, dataset)["id"] for _ in range(3)]
    daemon.api.post("/v1/jobs", 429, json={"model": name, "dataset": dataset})
    daemon.api.post(f"/v1/jobs/{ids[0]}/pause")
    daemon.api.cancel(ids[1])
    page = scrape(daemon.api)
    assert page.value("krrd_jobs", status="queued") == 1
    assert page.value("krrd_jobs", status="paused") == 1
    assert page.value("krrd_jobs_ended_total", status="cancelled", reason="cancelled") == 1
    assert page.value("krrd_requests_shed_total", cause="queue") == 1
    assert page.value("krrd_ready") == 0
    assert page.value("krrd_upload_bytes_total") > 0


def test_a_lost_worker_is_counted(daemons, big_spec_for, name):
    daemon = daemons(retry_delay_s=0)
    api = daemon.api
    job = api.create(name, stop={"tolerance": 1e-15, "max_iterations": 10**6}, **big_spec_for(api))
    api.wait_running(job["id"])
    busy = scrape(api)
    assert busy.total("krrd_worker_kernel_entries_per_second", worker="train:0", device="cpu") > 0
    assert busy.value("krrd_worker_resident_memory_bytes", worker="train:0", device="cpu") > 1 << 20
    assert busy.value("krrd_workers", kind="train", state="busy") == 1
    subprocess.run(["kill", "-9", str(api.worker_pid("train"))], check=True)
    api.wait(job["id"], lambda j: j["attempt"] == 2)
    page = scrape(api)
    assert page.value("krrd_worker_lost_total", kind="train") == 1
    assert page.value("krrd_worker_restarts_total", kind="train") == 1
    assert page.value("krrd_job_attempts_total") == 2
    assert page.value("krrd_job_retries_total") == 1
    api.cancel(job["id"])
    api.wait(job["id"])


def test_refused_before_the_body(daemons):
    """Counted by route and problem, whoever refused it; not what was refused for what its body said."""
    api = daemons(max_upload_bytes=20_000).api
    csv, tensors = {"Content-Type": "text/csv"}, {"Content-Type": "application/vnd.safetensors"}
    body = data.csv(*data.regression(20))
    api.post("/v1/datasets", 413, data=b"x" * 20_001, headers=csv)
    api.post("/v1/datasets", 415, data=body, headers={"Content-Type": "image/png"})
    api.post("/v1/datasets?what=ever", 422, data=body, headers=csv)
    api.request("PUT", "/v1/datasets/sha256:no", 422, data=body, headers=csv)
    for name in (".", ".."):
        api.post(f"/v1/models/-{name}/import", 422, data=b"x", headers=tensors)
    api.post("/v1/datasets", 201, data=body, headers=csv)
    api.post("/v1/datasets", 422, data=b"a,b\n1,no\n", headers=csv)
    api.post("/v1/models/m/import", 422, data=b"x", headers=tensors)
    page = scrape(api)

    def refused(method, route, reason):
        return page.value("krrd_transfers_refused_total", method=method, route=route, reason=reason)

    assert refused("POST", "/v1/datasets", "too_large") == 1
    assert refused("POST", "/v1/datasets", "unsupported") == 1
    assert refused("POST", "/v1/datasets", "invalid_value") == 1
    assert refused("PUT", "/v1/datasets/{id}", "invalid_value") == 1
    assert refused("POST", "/v1/models/{name}/import", "invalid_value") == 2
    assert page.total("krrd_transfers_refused_total") == 6
    assert page.value("krrd_model_imports_total", outcome="failed") == 1


def test_models_that_move(daemons):
    """Moves of aliases by kind; exports and imports by how they ended."""
    api = daemons().api
    X, y = data.regression(60)
    dataset = api.upload_npz(X, y)
    for alias in (None, "best"):
        api.train("m", dataset, **({"promote": {"alias": alias}} if alias else {}))

    def put(version):
        api.request("PUT", "/v1/models/m/aliases/prod", None, json={"version": version})

    for version in (1, 2, 2, 9):  # the third changes nothing, the fourth is refused
        put(version)
    api.post("/v1/models/m/aliases/prod/rollback", 200)
    api.delete("/v1/models/m/aliases/prod")
    content = api.get("/v1/models/m/versions/1/export").content
    api.get("/v1/models/m/versions/2/export")
    tensors = {"Content-Type": "application/vnd.safetensors"}
    api.post("/v1/models/n/import", 201, data=content, headers={**tensors, "Idempotency-Key": "k"})
    api.post("/v1/models/n/import", 201, data=content, headers={**tensors, "Idempotency-Key": "k"})
    api.post("/v1/models/n/import", 422, data=content[:100], headers=tensors)
    page = scrape(api)
    moves = {"set": 2, "rollback": 1, "promotion": 1, "delete": 1}
    assert {kind: page.value("krrd_alias_moves_total", kind=kind) for kind in moves} == moves
    assert page.value("krrd_model_exports_total", outcome="ok") == 2
    assert page.value("krrd_model_exports_total", outcome="failed") == 0
    assert page.value("krrd_model_imports_total", outcome="ok") == 1
    assert page.value("krrd_model_imports_total", outcome="failed") == 1
