#!/usr/bin/env python3
"""A full queue with many listeners: submission times, memory, and whether a listener misses an event.

One job trains throughout, so that nothing else does. --jobs jobs are queued behind it, one half
before and one half after --listeners event streams are opened on the first of them. Then it is
cancelled, the queue is worked off while --jobs / 2 further jobs are submitted, and every stream
must have told events 1, 2, 3, ... without a gap to the job's end, as many as the log has.
"""

import collections
import json
import multiprocessing
import selectors
import socket
import time

import service


def read_stream(state, data):
    """Takes whole messages off; appends the ids of events to state["ids"]."""
    state["rest"] += data
    *messages, state["rest"] = state["rest"].split(b"\n\n")
    for message in messages:
        fields = dict(line.split(b": ", 1) for line in message.split(b"\n") if b": " in line)
        if b"data" in fields:
            event = json.loads(fields[b"data"])
            assert event["id"] == int(fields[b"id"])
            state["ids"].append(event["id"])
            state["last"] = event["data"]["status"] if event["type"] == "status" else state["last"]


def open_streams(address, jobs, selector):
    host, port = address.rsplit(":", 1)
    for job in jobs:
        s = socket.create_connection((host, int(port)))
        s.sendall(f"GET /v1/jobs/{job}/events HTTP/1.0\r\nHost: {address}\r\n"
                  "Accept: text/event-stream\r\n\r\n".encode())
        selector.register(s, selectors.EVENT_READ,
                          {"job": job, "ids": [], "rest": b"", "head": False, "last": None})


def listen(address, jobs, ready, results):
    """In a process of its own: tells when every stream has begun, then what each has told."""
    selector = selectors.DefaultSelector()
    open_streams(address, jobs, selector)
    begun, heard = 0, []
    while selector.get_map():
        for key, _ in selector.select(60):
            state, data = key.data, key.fileobj.recv(1 << 16)
            if not data:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                heard.append((state["job"], state["ids"], state["last"]))
                continue
            if not state["head"]:
                state["rest"] += data
                head, found, rest = state["rest"].partition(b"\r\n\r\n")
                if not found:
                    continue
                assert b" 200 " in head.split(b"\r\n")[0], head
                state["head"], state["rest"], data = True, b"", rest
                begun += 1
                if begun == len(jobs):
                    ready.set()
            read_stream(state, data)
    results.put(heard)


def submit(client, spec, count, seconds):
    ids = []
    for _ in range(count):
        began = time.perf_counter()
        ids.append(client.must("POST", "/v1/jobs", spec)["id"])
        seconds.append(time.perf_counter() - began)
    return ids


def check(client, heard):
    """How many listeners did not hear all of the log, and how many events all of them heard."""
    missed, events = collections.Counter(), 0
    for job, ids, last in heard:
        log = client.must("GET", f"/v1/jobs/{job}/events?limit=1000")["data"]
        missed["gap"] += ids != list(range(1, len(ids) + 1))
        missed["short"] += len(ids) != len(log)
        missed["no end"] += last not in ("succeeded", "failed", "cancelled")
        events += len(ids)
    return {key: count for key, count in missed.items() if count}, events


def figures(seconds):
    return {"count": len(seconds), "p50_s": service.quantile(seconds, 0.5),
            "p99_s": service.quantile(seconds, 0.99), "max_s": max(seconds)}


def main():
    parser = service.arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--listeners", type=int, default=500)
    options = parser.parse_args()
    with service.Daemon(options.build, max_queue=2 * options.jobs,
                        max_connections=options.listeners + 16) as daemon:
        client = daemon.client
        blocker = {**service.small_job(service.upload(client, 3000, 8, 1), "blocker"),
                   "solver": {"name": "pcg", "preconditioner": "none"}, "regularization": 1e-13,
                   "stop": {"tolerance": 1e-15, "max_iterations": 10**6}}
        blocker = client.must("POST", "/v1/jobs", blocker)["id"]
        spec = service.small_job(service.upload(client, 100, 8))
        alone, beside, draining = [], [], []
        ids = submit(client, spec, options.jobs // 2, alone)
        ready, results = multiprocessing.Event(), multiprocessing.Queue()
        listener = multiprocessing.Process(
            target=listen, args=(daemon.address, ids[:options.listeners], ready, results))
        listener.start()
        ready.wait()
        ids += submit(client, spec, options.jobs - len(ids), beside)
        full = {"queued": int(daemon.metric("krrd_jobs", status="queued")),
                "listeners": int(daemon.metric("krrd_event_listeners")),
                "daemon_resident_bytes": service.resident(daemon.process.pid)}
        client.must("POST", f"/v1/jobs/{blocker}/cancel")
        began = time.monotonic()
        submit(client, spec, options.jobs // 2, draining)
        heard = results.get()
        listener.join()
        missed, events = check(client, heard)
        service.report(options, {
            "jobs": options.jobs, "full": full,
            "submit_without_listeners": figures(alone), "submit_with_listeners": figures(beside),
            "submit_while_working_off": figures(draining),
            "submit_p99_s": service.quantile(alone + beside + draining, 0.99),
            "daemon_resident_most_bytes": service.resident(daemon.process.pid, "VmHWM"),
            "listeners": len(heard), "events_heard": events, "listeners_that_missed": missed,
            "working_off_s": time.monotonic() - began,
            "turns": daemon.turns(),
        })


if __name__ == "__main__":
    main()
