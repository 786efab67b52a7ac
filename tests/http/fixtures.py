"""Daemons, their clients, and the data most tests begin with."""

import itertools
import re

import pytest

import daemon as daemon_module
import data


@pytest.fixture(scope="session")
def shared_daemon(tmp_path_factory):
    """One daemon for all tests that do not disturb others."""
    daemon = daemon_module.Daemon(tmp_path_factory.mktemp("shared"), default_model="default")
    yield daemon
    daemon.close()


@pytest.fixture(scope="session")
def api(shared_daemon):
    return shared_daemon.api


@pytest.fixture
def daemons(tmp_path):
    """daemons(max_queue=2) starts a daemon of the test's own."""
    running = []

    def start(**options):
        folder = tmp_path / f"daemon-{len(running)}"
        folder.mkdir()
        running.append(daemon_module.Daemon(folder, **options))
        return running[-1]

    yield start
    for daemon in running:
        daemon.close()


counter = itertools.count(1)


@pytest.fixture
def name(request):
    """A model name that no other test uses."""
    text = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:48].strip("-")
    return f"{text}-{next(counter)}"


@pytest.fixture(scope="session")
def regression_dataset(api):
    """120 rows, columns x0 to x3 and the target y."""
    X, y = data.regression(120)
    return api.upload_csv(X, y)


def make_big_spec(api):
    """A job that no machine ends within its iterations: it must be stopped, or run out of time."""
    X, y = data.regression(6000, d=6, seed=99)
    return {"dataset": api.upload_npz(X, y), "solver": {"name": "pcg", "preconditioner": "none"},
            "kernel": {"name": "gaussian", "bandwidth": 3.0}, "regularization": 1e-13,
            "test": {"fraction": 0}}


@pytest.fixture
def big_spec_for():
    return make_big_spec


@pytest.fixture(scope="session")
def big_spec(api):
    return make_big_spec(api)


@pytest.fixture
def big_job(api, big_spec):
    """big_job(model) starts one on the shared daemon; it is cancelled after the test."""
    started = []

    def start(model, stop=None):
        stop = stop or {"tolerance": 1e-15, "max_iterations": 10**6}
        job = api.create(model, stop=stop, **big_spec)
        started.append(job["id"])
        return job

    yield start
    for job_id in started:
        job = api.request("GET", f"/v1/jobs/{job_id}")
        if job.ok and job.json()["finished_at"] is None:
            api.cancel(job_id, expect=None)
            api.wait(job_id)
