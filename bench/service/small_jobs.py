#!/usr/bin/env python3
"""Small jobs in a row: how many a second, and whether memory and descriptors stay flat.

Submits jobs (n rows, Cholesky) over one connection, keeping at most --ahead of them in the queue,
and reads memory and open descriptors of daemon and worker at two counts of ended jobs.
"""

import time

import service


def state(daemon, worker):
    return {"ended": int(daemon.metric("krrd_jobs_ended_total")),
            "daemon_resident_bytes": service.resident(daemon.process.pid),
            "worker_resident_bytes": service.resident(worker),
            "daemon_descriptors": service.descriptors(daemon.process.pid),
            "worker_descriptors": service.descriptors(worker),
            "database_bytes": int(daemon.metric("krrd_store_size_bytes")),
            "log_bytes": int(daemon.metric("krrd_store_log_size_bytes"))}


def submit(daemon, spec, most, ahead, seconds):
    """Until `most` jobs were submitted or the queue is full; the number of those submitted."""
    count = min(most, ahead)
    for _ in range(count):
        began = time.perf_counter()
        daemon.client.must("POST", "/v1/jobs", spec)
        seconds.append(time.perf_counter() - began)
    return count


def main():
    parser = service.arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=10000)
    parser.add_argument("--first", type=int, default=1000, help="jobs before the first reading")
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--ahead", type=int, default=200, help="jobs in the queue at most")
    options = parser.parse_args()
    with service.Daemon(options.build, serve_workers=1) as daemon:
        spec = service.small_job(service.upload(daemon.client, options.rows, 8))
        worker, submitted, ended, seconds, readings = daemon.worker_pid(), 0, 0, [], []
        cpu = daemon.metric("process_cpu_seconds_total")
        began = time.monotonic()
        while ended < options.jobs:
            submitted += submit(daemon, spec, options.jobs - submitted,
                                options.ahead - (submitted - ended), seconds)
            time.sleep(0.05)
            ended = int(daemon.metric("krrd_jobs_ended_total"))
            if ended >= options.first and not readings:
                readings.append(state(daemon, worker))
        elapsed = time.monotonic() - began
        readings.append(state(daemon, worker))
        service.report(options, {
            "jobs": options.jobs, "rows": options.rows, "seconds": elapsed,
            "jobs_per_s": options.jobs / elapsed,
            "succeeded": int(daemon.metric("krrd_jobs_ended_total", status="succeeded")),
            "submit_p50_s": service.quantile(seconds, 0.5),
            "submit_p99_s": service.quantile(seconds, 0.99),
            "daemon_cpu_s_per_job": (daemon.metric("process_cpu_seconds_total") - cpu) / options.jobs,
            "changes": int(daemon.metric("krrd_store_changes_total")),
            "commits": int(daemon.metric("krrd_store_commit_seconds_count")),
            "commit_mean_s": daemon.metric("krrd_store_commit_seconds_sum")
            / daemon.metric("krrd_store_commit_seconds_count"),
            "same_worker": daemon.worker_pid() == worker,
            "readings": readings, "turns": daemon.turns(),
        })


if __name__ == "__main__":
    main()
