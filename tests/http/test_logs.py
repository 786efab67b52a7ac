"""The log: lines of JSON that name the request and the job they are about."""

import json

import data
import raw


def lines(daemon):
    found = []
    for line in daemon.log().splitlines():
        if line.startswith("{"):
            found.append(json.loads(line))
    return found


def test_lines_name_request_and_job(daemons, name):
    daemon = daemons(log_level="debug")
    api = daemon.api
    X, y = data.regression(60)
    headers = {"X-Request-Id": "upload-1", "Content-Type": "text/csv"}
    dataset = api.post("/v1/datasets", 201, data=data.csv(X, y), headers=headers).json()["id"]
    spec = {"model": name, "dataset": dataset, "solver": {"name": "cholesky"}}
    job = api.post("/v1/jobs", 202, json=spec, headers={"X-Request-Id": "submit-1"}).json()["id"]
    api.wait(job)
    api.delete(f"/v1/jobs/{job}", headers={"X-Request-Id": "delete-1"})
    api.get("/v1/jobs/job_nobody", 404, headers={"X-Request-Id": "lost-1"})
    daemon.stop()
    log = lines(daemon)
    assert all({"time", "level", "program", "event"} <= set(line) for line in log)
    by_event = {}
    for line in log:
        by_event.setdefault(line["event"], []).append(line)
    assert all(line["request"] for line in by_event["http.request"])
    seen = {line["request"]: line for line in by_event["http.request"]}
    assert seen["lost-1"]["status"] == "404" and seen["lost-1"]["path"] == "/v1/jobs/job_nobody"
    assert {"upload-1", "submit-1"} <= set(seen)
    for event, lines_of in by_event.items():
        if event.startswith("job."):
            assert all(line["job"] == job for line in lines_of), event
    assert by_event["job.queued"][0]["request"] == "submit-1"
    assert by_event["dataset.created"][0]["request"] == "upload-1"
    assert [(line["what"], line["request"]) for line in by_event["job.asked"]] == [("delete", "delete-1")]
    assert by_event["job.started"] and by_event["job.ended"]


def test_clients_cannot_make_errors(daemons, name):
    """What a client brings about by asking is no error of the server: nobody need look at it."""
    daemon = daemons(log_level="debug")
    api = daemon.api
    dataset = api.upload_csv(*data.regression(60))
    api.train(name, dataset)
    body = b'{"parameters": {"timeout": 1}, "inputs": [{"name": "X", "shape": [1, 4], "datatype": "FP64", "data": [1, 2, 3, 4]}]}'
    api.post(f"/v2/models/{name}/infer", 504, data=body, headers={"X-Request-Id": "late"})
    with raw.Raw(daemon.base) as c:
        c.request("POST", "/v1/jobs", ["Transfer-Encoding: gzip", "X-Request-Id: coded"])
        assert c.answer().status == 501
    daemon.stop()
    failed = {line["request"]: line for line in lines(daemon) if line["event"] == "http.failed"}
    assert {request: (line["level"], line["code"]) for request, line in failed.items()} == {
        "late": ("info", "deadline_exceeded"), "coded": ("debug", "unsupported")}
    assert "error" not in {line["level"] for line in lines(daemon)}
