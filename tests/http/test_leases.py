"""A worker that hangs is noticed without anybody asking, and replaced."""

import contextlib
import ctypes
import os
import signal
import time

import data
import wait
from test_recovery import STOP, check_gapless, lost_events, statuses

LEASE = 1.0
NOTICED = 30.0  # far more than a lease, far less than a job that hangs for good

# From linux/ptrace.h and wait.h.
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 17, 0x4206, 0x4207, 0x40000000


def replaced(api, kind, pid, timeout=NOTICED):
    """Waits until the first slot of that kind has another process, and gives the worker."""
    end = time.monotonic() + timeout
    while True:
        worker = api.workers(kind)[0]
        if worker["pid"] not in (None, pid) and worker["state"] in ("idle", "busy"):
            return worker
        assert time.monotonic() < end, worker
        time.sleep(0.02)


def check_retried(api, job, pid):
    done = api.wait(job["id"])
    assert (done["status"], done["reason"], done["attempt"]) == ("succeeded", "iteration_limit", 2)
    assert statuses(api, job) == ["queued", "running", "queued", "running", "succeeded"]
    lost = lost_events(api, job)
    assert len(lost) == 1 and lost[0]["level"] == "warning"
    assert f"no sign of life for {LEASE:g} s" in lost[0]["message"], lost
    check_gapless(api, job)
    assert replaced(api, "train", pid)["restarts"] == 1


def test_a_stopped_worker_is_replaced(daemons, big_spec_for):
    api = daemons(worker_lease_s=LEASE).api
    job = api.create("m", stop=STOP, **big_spec_for(api))
    api.wait_running(job["id"])
    pid = api.worker_pid("train", "busy")
    os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    api.wait(job["id"], lambda j: j["status"] == "queued" or j["attempt"] == 2)
    assert LEASE / 2 <= time.monotonic() - began <= NOTICED
    check_retried(api, job, pid)


@contextlib.contextmanager
def frozen(thread):
    """One thread of another process is stopped, the others are not."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

    def ptrace(request):
        assert libc.ptrace(request, thread, None, None) == 0, os.strerror(ctypes.get_errno())

    ptrace(PTRACE_SEIZE)
    try:
        ptrace(PTRACE_INTERRUPT)
        os.waitpid(thread, WALL)
        yield
    finally:
        with contextlib.suppress(ChildProcessError):  # the tracer hears of the end first
            os.waitpid(thread, WALL)


def test_a_worker_whose_computing_thread_hangs_is_replaced(daemons, big_spec_for):
    """The thread that gives the signs of life is well, and sees that the other is not."""
    api = daemons(worker_lease_s=LEASE).api
    job = api.create("m", stop=STOP, **big_spec_for(api))
    api.wait_running(job["id"])
    pid = api.worker_pid("train", "busy")
    began = time.monotonic()
    with frozen(pid):  # until the daemon has killed it
        pass
    assert time.monotonic() - began >= LEASE / 2
    check_retried(api, job, pid)


def test_a_worker_that_cannot_even_be_killed_is_given_up(daemons, big_spec_for):
    """Its end is held back by who traces it; the slot does not wait for that."""
    api = daemons(worker_lease_s=LEASE).api
    job = api.create("m", stop=STOP, **big_spec_for(api))
    api.wait_running(job["id"])
    pid = api.worker_pid("train", "busy")
    with frozen(pid):
        worker = replaced(api, "train", pid)
        assert worker["restarts"] == 1
        assert "does not answer" in lost_events(api, job)[0]["message"]
    check_retried(api, job, pid)


def test_an_idle_worker_of_either_kind_is_replaced(daemons):
    api = daemons(worker_lease_s=LEASE).api
    X, y = data.regression(40)
    api.train("m", api.upload_npz(X, y))
    before = api.predict("m", X).text
    for kind in ("train", "serve"):
        pid = api.worker_pid(kind)
        os.kill(pid, signal.SIGSTOP)
        if kind == "serve":
            assert api.predict("m", X).text == before  # waits for the next worker
        assert replaced(api, kind, pid)["restarts"] == 1


def test_a_long_library_call_is_no_silence(daemons):
    """Seconds inside one call of LAPACK, several leases long, on the only thread."""
    api = daemons(worker_lease_s=0.3).api
    X, y = data.regression(1400, d=2, seed=7)
    job = api.train("m", api.upload_npz(X, y), kernel="gaussian", test={"fraction": 0},
                    search={"regularization": [1e-6, 1e-3], "max_rows": 1400})
    assert job["attempt"] == 1
    assert [w["restarts"] for w in api.workers("train")] == [0]


def test_a_worker_that_never_says_hello_is_replaced(daemons, tmp_path):
    program = tmp_path / "mute"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    daemon = daemons(worker_lease_s=0.1, worker_program=program)
    worker = daemon.api.workers("train")[0]
    assert worker["state"] in ("starting", "stopping", "down") and worker["last_seen_at"] is None
    wait.until(lambda: daemon.api.workers("train")[0]["restarts"] > 0)
    assert "no sign of life for 1 s" in daemon.log()
    assert daemon.api.get("/v2/health/ready", 503).json()["ready"] is False


def test_when_a_worker_was_last_seen(daemons):
    api = daemons(worker_lease_s=LEASE).api
    api.worker_pid("train")
    first = api.workers("train")[0]["last_seen_at"]
    wait.until(lambda: api.workers("train")[0]["last_seen_at"] > first)
