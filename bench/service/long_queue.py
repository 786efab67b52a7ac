#!/usr/bin/env python3
"""A queue that grows: what a request costs the daemon while so many jobs wait.

Processor seconds of the daemon's process, at every length of the queue: of the next job, of a look at
the first and at the last one that waits, of the newest page of the list, and of the metrics. The only
training worker is stopped, so that nothing leaves the queue.
"""

import os
import pathlib
import signal

import service


def processor_s(pid):
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def measure(daemon, dataset, jobs, times):
    """Adds `times` jobs to the list of their ids."""
    client = daemon.client
    requests = {
        "job": lambda: jobs.append(client.must("POST", "/v1/jobs", service.small_job(dataset))["id"]),
        "first": lambda: client.must("GET", f"/v1/jobs/{jobs[1]}"),
        "last": lambda: client.must("GET", f"/v1/jobs/{jobs[-1]}"),
        "page": lambda: client.must("GET", "/v1/jobs?limit=20"),
        "metrics": lambda: client.must("GET", "/metrics", Accept="text/plain"),
    }
    found = {"queued": len(jobs) - 1}
    for name, request in requests.items():
        before = processor_s(daemon.process.pid)
        for _ in range(times):
            request()
        found[name + "_s"] = (processor_s(daemon.process.pid) - before) / times
    return found


def main():
    parser = service.arguments(__doc__)
    parser.add_argument("--queued", type=int, nargs="+", default=[100, 1000, 10000])
    parser.add_argument("--times", type=int, default=100, help="each request")
    options = parser.parse_args()
    most = max(options.queued) + 2 * options.times
    with service.Daemon(options.build, workers="cpu:1", max_queue=most, worker_lease_s=3600) as daemon:
        dataset = service.upload(daemon.client, 100, 5)
        os.kill(daemon.worker_pid(), signal.SIGSTOP)
        jobs, lengths = [], []
        for length in sorted(options.queued):
            while len(jobs) <= length:  # the first is the worker's
                jobs.append(daemon.client.must("POST", "/v1/jobs", service.small_job(dataset))["id"])
            lengths.append(measure(daemon, dataset, jobs, options.times))
        service.report(options, {"lengths": lengths, "turns": daemon.turns()})


if __name__ == "__main__":
    main()
