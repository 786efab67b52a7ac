"""A job's event log, as a list and as a stream of server-sent events."""

import concurrent.futures
import time

import contract
import data
import raw
import sse


def events_url(api, job):
    return api.url(f"/v1/jobs/{job['id']}/events")


def check_story(events, job_id, final):
    """What every log of an undisturbed job holds."""
    assert [e["id"] for e in events] == list(range(1, len(events) + 1))
    assert {e["job"] for e in events} == {job_id}
    times = [e["created_at"] for e in events]
    assert times == sorted(times)
    statuses = [e["data"]["status"] for e in events if e["type"] == "status"]
    assert statuses[0] == "queued" and statuses[-1] == final
    assert events[0]["type"] == events[-1]["type"] == "status"
    for event in events:
        if event["type"] == "metrics":
            contract.check_schema(contract.component("Progress"), event["data"], "metrics")


def test_list_and_stream_are_the_same(api, name, regression_dataset):
    job = api.train(name, regression_dataset, solver="pcg", stop={"tolerance": 1e-10})
    listed = api.events(job["id"])
    check_story(listed, job["id"], "succeeded")
    assert {e["type"] for e in listed} == {"status", "metrics", "message"}
    with sse.listen(api.session, events_url(api, job)) as stream:
        streamed = stream.events()
    assert sse.dump(streamed) == sse.dump(listed)
    # The last metrics event is what the job shows.
    metrics = [e for e in listed if e["type"] == "metrics"]
    assert metrics[-1]["data"] == job["progress"]


def test_pages_of_events(api, name, regression_dataset):
    job = api.train(name, regression_dataset)
    whole = api.events(job["id"])
    assert len(whole) >= 5
    assert sse.dump(api.events(job["id"], limit=2)) == sse.dump(whole)
    path = f"/v1/jobs/{job['id']}/events"
    page = api.get(path, params={"after": 1, "limit": 2}).json()
    assert (page["first_id"], page["last_id"], page["has_more"]) == (2, 3, True)
    exact = api.get(path, params={"limit": len(whole)}).json()
    assert exact["has_more"] is False and len(exact["data"]) == len(whole)
    empty = api.get(path, params={"after": 10**6}).json()
    assert empty == {"object": "list", "data": [], "first_id": None, "last_id": None,
                     "has_more": False}
    for query, pointer in [({"after": -1}, "#/query/after"), ({"after": "x"}, "#/query/after"),
                           ({"limit": 0}, "#/query/limit"), ({"limit": 1001}, "#/query/limit"),
                           ({"last": 3}, "#/query/last")]:
        problem = api.get(path, 422, params=query).json()
        assert problem["errors"][0]["pointer"] == pointer


def test_last_event_id_resumes(api, name, regression_dataset):
    job = api.train(name, regression_dataset)
    whole = api.events(job["id"])
    for last in (0, 1, len(whole) - 1, len(whole), 10**6):
        with sse.listen(api.session, events_url(api, job), last_event_id=last) as stream:
            assert sse.dump(stream.events()) == sse.dump(whole[last:])
    with sse.listen(api.session, events_url(api, job) + "?after=2") as stream:
        assert sse.dump(stream.events()) == sse.dump(whole[2:])
    with sse.listen(api.session, events_url(api, job) + "?after=1", last_event_id=3) as stream:
        assert sse.dump(stream.events()) == sse.dump(whole[3:])
    for bad in ("x", "-1", "1.5", "9" * 40):
        answer = api.get(f"/v1/jobs/{job['id']}/events", 422,
                         headers={"Accept": "text/event-stream", "Last-Event-ID": bad})
        assert answer.json()["errors"][0]["pointer"] == "#/header/last-event-id"


def test_a_stream_goes_to_who_names_it(api, name, regression_dataset):
    job = api.train(name, regression_dataset)
    named = ["text/event-stream", "Text/Event-Stream;q=0.2", "text/event-stream, */*;q=0.1",
             "application/json, text/event-stream"]
    others = ["*/*", "text/event-stream;q=0, */*", "text/event-stream;q=0", "text/event-streams",
              'application/json;note="text/event-stream"', "application/json, text/event-stream;q=0.5"]
    for accept in named + others:
        answer = api.get(f"/v1/jobs/{job['id']}/events", headers={"Accept": accept})
        streamed = answer.headers["Content-Type"].startswith("text/event-stream")
        assert streamed == (accept in named), accept


def test_events_that_are_to_come_were_not_seen(api, name, big_job):
    job = big_job(name)
    path, stream = f"/v1/jobs/{job['id']}/events", {"Accept": "text/event-stream"}
    for query, headers, pointer in [("", {"Last-Event-ID": "1000000"}, "#/header/last-event-id"),
                                    ("?after=1000000", {}, "#/query/after")]:
        problem = api.get(path + query, 422, headers={**stream, **headers}, timeout=10).json()
        [error] = problem["errors"]
        assert error["pointer"] == pointer and "The job's last event is" in error["detail"]
    last = api.events(job["id"])[-1]["id"]
    api.cancel(job["id"])
    with sse.listen(api.session, events_url(api, job), last_event_id=last) as events:
        assert [event["id"] for event in events.events()][0] == last + 1


def test_unknown_job_has_no_stream(api):
    path = "/v1/jobs/job_00000000000000000000000000/events"
    api.get(path, 404)
    api.get(path, 404, headers={"Accept": "text/event-stream"})


def test_live_events(api, name, big_job):
    """Events arrive while the job runs, and the stream ends by itself after the final status."""
    job = big_job(name)
    seen, first_metrics = [], None
    with sse.listen(api.session, events_url(api, job)) as stream:
        for item in stream:
            if item[0] == "comment":
                continue
            seen.append(item[3])
            if item[2] == "metrics" and item[3]["data"]["iteration"] > 0 and not first_metrics:
                first_metrics = item[1]
                shown = api.job(job["id"])
                assert shown["status"] == "running"
                api.cancel(job["id"])
    assert first_metrics
    check_story(seen, job["id"], "cancelled")
    assert sse.dump(seen) == sse.dump(api.events(job["id"]))


def test_fifty_listeners(api, name, big_job):
    job = big_job(name, stop={"tolerance": 1e-15, "max_iterations": 10**6, "time_budget_s": 3})

    def follow(index):
        with contract.Session() as session, \
                sse.listen(session, events_url(api, job), last_event_id=index % 2) as stream:
            return stream.events()

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        logs = list(pool.map(follow, range(50)))
    whole = api.events(job["id"])
    check_story(whole, job["id"], "succeeded")
    for index, log in enumerate(logs):
        assert sse.dump(log) == sse.dump(whole[index % 2:])


def test_comments(daemons):
    """The first comment comes at once, so that a client knows it is connected; then a heartbeat."""
    api = daemons(workers="cpu:0").api
    X, y = data.regression(30)
    job = api.create("m", api.upload_npz(X, y))
    start = time.monotonic()
    comments, events = [], []
    with sse.listen(api.session, events_url(api, job)) as stream:
        for item in stream:
            if item[0] == "event":
                events.append(item[3])
                continue
            comments.append(time.monotonic() - start)
            if len(comments) == 2:
                api.cancel(job["id"])
    assert comments[0] < 1
    assert 10 < comments[1] < 20
    check_story(events, job["id"], "cancelled")


def test_deleting_a_job_ends_its_streams(api, name, regression_dataset):
    """A listener that asks for events after the last one of a finished job is let go."""
    job = api.train(name, regression_dataset)
    last = api.events(job["id"])[-1]["id"]
    with sse.listen(api.session, events_url(api, job), last_event_id=last) as stream:
        assert stream.events() == []
    api.delete(f"/v1/jobs/{job['id']}")


def test_a_listener_that_leaves(api, name, big_job):
    """Clients that close their end in mid-stream disturb nobody."""
    job = api.wait_running(big_job(name)["id"])
    for _ in range(20):
        with contract.Session() as session, sse.listen(session, events_url(api, job)) as stream:
            assert next(iter(stream))[0] == "comment"
    assert api.job(job["id"])["status"] == "running"
    api.cancel(job["id"])
    api.wait(job["id"])


def test_streams_resume_after_a_restart(daemons, big_spec_for):
    """A client that reconnects with Last-Event-ID misses nothing and sees nothing twice, whatever
    happens to the daemon in between."""
    daemon = daemons()
    api = daemon.api
    # Longer than what a worker gets to end its job when the daemon stops.
    stop = {"tolerance": 1e-15, "max_iterations": 10**6, "time_budget_s": 4}
    job = api.create("m", stop=stop, **big_spec_for(api))
    seen = []
    with sse.listen(api.session, events_url(api, job)) as stream:
        for item in stream:
            if item[0] == "event":
                seen.append(item[3])
                if item[2] == "metrics" and item[3]["data"]["iteration"] > 0:
                    break
    assert daemon.stop() == 0
    daemon.start()
    api = daemon.api
    with sse.listen(api.session, events_url(api, job), last_event_id=seen[-1]["id"]) as stream:
        seen += stream.events()
    assert sse.dump(seen) == sse.dump(api.events(job["id"]))
    check_story(seen, job["id"], "succeeded")
    statuses = [e["data"]["status"] for e in seen if e["type"] == "status"]
    assert statuses == ["queued", "running", "queued", "running", "succeeded"]

    # A finished job's log is there after a restart too, from any point.
    assert daemon.stop() == 0
    daemon.start()
    with sse.listen(daemon.api.session, events_url(daemon.api, job), last_event_id=2) as stream:
        assert sse.dump(stream.events()) == sse.dump(seen[2:])


def sweep_daemon(daemons, **options):
    daemon = daemons(**options)
    X, y = data.regression(60)
    return daemon.api, daemon.api.upload_csv(X, y)


def wait_swept(api, job, count, timeout=25):
    end = time.monotonic() + timeout
    while len(events := api.events(job)) > count:
        assert time.monotonic() < end, events
        time.sleep(0.2)
    return events


def test_old_events_are_removed_where_asked_for(daemons):
    """All but the last, which ends a stream as well; jobs and models stay."""
    api, dataset = sweep_daemon(daemons, keep_events_s=1)
    job = api.train("m", dataset)["id"]
    before = api.events(job)
    assert [e["id"] for e in before] == list(range(1, len(before) + 1)) and len(before) > 3
    assert wait_swept(api, job, 1) == before[-1:]
    with sse.listen(api.session, api.url(f"/v1/jobs/{job}/events")) as stream:
        assert [e["id"] for e in stream.events()] == [before[-1]["id"]]
    assert api.job(job)["status"] == "succeeded"
    api.get("/v1/models/m/versions/1")


def test_the_newest_events_are_kept_where_asked_for(daemons):
    api, dataset = sweep_daemon(daemons, keep_events=2)
    job = api.train("m", dataset)["id"]
    last = api.events(job)[-2:]
    assert wait_swept(api, job, 2) == last


def test_head_of_a_stream_has_no_body(api, name, regression_dataset):
    """Not even the last of its chunks: the next answer of the connection follows at once."""
    job = api.train(name, regression_dataset)
    with raw.Raw(api.base) as connection:
        for _ in range(2):
            connection.request("HEAD", f"/v1/jobs/{job['id']}/events", ["Accept: text/event-stream"])
            answer = connection.answer(head_only=True)
            assert answer.status == 200 and answer.headers["content-type"].startswith("text/event-stream")
        connection.request("GET", f"/v1/jobs/{job['id']}")
        assert connection.answer().status == 200
