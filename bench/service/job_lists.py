#!/usr/bin/env python3
"""Lists of jobs in a database of 100,000: how long an answer takes, and how long the loop is away.

The jobs are written into the database of a daemon that is stopped meanwhile: of five models, one of
a hundred failed and one of a thousand cancelled, each with two pairs of metadata.
"""

import json
import random
import sqlite3
import time

import service

QUERIES = {
    "all": "",
    "model": "model=m3",
    "status": "status=cancelled",
    "model and rare status": "model=m2&status=cancelled",
    "model and no status": "model=m2&status=queued",
    "pair of all jobs": "metadata.all=same",
    "pair of all jobs and rare status": "metadata.all=same&status=cancelled",
    "pair of all jobs and no status": "metadata.all=same&status=queued",
    "pair of one job": "metadata.run=4711",
    "two pairs": "metadata.all=same&metadata.run=4711",
    "two pairs, the rare one last": "metadata.run=4711&metadata.all=same",
}


def fill(path, count):
    rng = random.Random(1)
    spec = json.dumps({"model": "m", "dataset": "ds_1", "metadata": {}})
    database = sqlite3.connect(path)
    for i in range(count):
        chance = rng.random()
        status = "cancelled" if chance < 0.001 else "failed" if chance < 0.011 else "succeeded"
        job = f"job_{i:026d}"
        database.execute(
            "INSERT INTO jobs (id, status, model, dataset, spec, priority, max_attempts, created_ms,"
            " queued_ms, started_ms, finished_ms) VALUES (?, ?, ?, 'ds_1', ?, 0, 3, ?, ?, ?, ?)",
            (job, status, f"m{i % 5}", spec, i, i, i, i))
        database.executemany("INSERT INTO job_metadata VALUES (?, ?, ?)",
                             [(job, "all", "same"), (job, "run", str(i))])
    database.commit()
    database.close()


def measure(client, query, pages):
    """Seconds of each page, following the cursor, and how many jobs came."""
    seconds, found, after = [], 0, None
    while after != "" and len(seconds) < pages:
        began = time.perf_counter()
        cursor = [f"after={after}"] if after else []
        path = "/v1/jobs?" + "&".join(["limit=100", *filter(None, [query]), *cursor])
        page = client.must("GET", path)
        seconds.append(time.perf_counter() - began)
        found += len(page["data"])
        after = page["last_id"] if page["has_more"] else ""
    return {"pages": len(seconds), "jobs": found, "whole": after == "",
            "median_s": service.quantile(seconds, 0.5), "max_s": max(seconds)}


def main():
    parser = service.arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=100000)
    parser.add_argument("--pages", type=int, default=120, help="of each list, at most")
    options = parser.parse_args()
    with service.Daemon(options.build, workers="cpu:1") as daemon:
        daemon.stop()
        fill(daemon.data / "krrd.db", options.jobs)
        daemon.start()
        lists = {name: measure(daemon.client, query, options.pages)
                 for name, query in QUERIES.items()}
        service.report(options, {"jobs": options.jobs, "lists": lists, "turns": daemon.turns()})


if __name__ == "__main__":
    main()
