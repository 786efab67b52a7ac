"""Nothing that was promised is lost when a process is killed."""

import contextlib
import datetime
import os
import pathlib
import signal
import sqlite3
import subprocess
import time

import numpy as np
import pytest

import data
import sse
import wait

# Ends after so much work that a test can do something to it meanwhile, also where the worker and the
# test get little of the machine: a time would be over before it has begun.
STOP = {"tolerance": 1e-15, "max_iterations": 150}


def statuses(api, job):
    return [e["data"]["status"] for e in api.events(job["id"]) if e["type"] == "status"]


def check_gapless(api, job):
    assert [e["id"] for e in api.events(job["id"])] == list(
        range(1, len(api.events(job["id"])) + 1))


def lost_events(api, job):
    return [e for e in api.events(job["id"])
            if e["type"] == "status" and e["data"].get("reason") == "worker_lost"]


def seconds(stamp):
    return datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def gone(pid):
    """Whether the process has ended (a zombie has)."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_gone(pid, timeout=60):
    end = time.monotonic() + timeout
    while not gone(pid):
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.02)


def test_kill_the_daemon_right_after_a_job_succeeded(daemons):
    """The model is on the disk before the job says succeeded, and predicts the same bits."""
    daemon = daemons()
    api = daemon.api
    X, y = data.regression(150, seed=40)
    dataset = api.upload_npz(X, y)
    job = api.create("kept", dataset, kernel={"name": "gaussian", "bandwidth": 2.0},
                     regularization=1e-6, test={"fraction": 0})
    with sse.listen(api.session, api.url(f"/v1/jobs/{job['id']}/events")) as stream:
        for item in stream:
            if item[0] == "event" and item[2] == "status" and \
                    item[3]["data"]["status"] == "succeeded":
                daemon.kill()
                break
    daemon.start()
    api = daemon.api
    job = api.job(job["id"])
    assert (job["status"], job["attempt"], job["model_version"]) == ("succeeded", 1, 1)
    model = api.get("/v1/models/kept/versions/1").json()
    assert model["job"] == job["id"]
    before = api.predict("kept", X).text
    reference = data.Ridge(X, y, "gaussian", 2.0, 1e-6).predict(X)
    np.testing.assert_allclose(api.predict("kept", X).json()["predictions"], reference, rtol=1e-6)

    # Once more, now with predictions from before the kill to compare.
    daemon.kill()
    daemon.start()
    assert daemon.api.predict("kept", X).text == before
    assert daemon.api.get("/v1/models/kept/versions/1").json()["sha256"] == model["sha256"]
    assert daemon.api.get(f"/v1/datasets/{dataset}").json()["rows"] == 150


def test_kill_the_daemon_in_mid_training(daemons, big_spec_for):
    daemon = daemons()
    api = daemon.api
    spec = big_spec_for(api)
    job = api.create("m", stop=STOP, **spec)
    behind = api.create("n", stop=STOP, **spec)
    api.wait_running(job["id"])
    workers = [w["pid"] for w in api.get("/v1/workers").json()["data"]]
    daemon.kill()
    for pid in workers:
        wait_gone(pid)  # no orphan goes on computing
    daemon.start()
    api = daemon.api
    done = api.wait(job["id"])
    assert (done["status"], done["reason"], done["attempt"]) == ("succeeded", "iteration_limit", 2)
    assert statuses(api, job) == ["queued", "running", "queued", "running", "succeeded"]
    assert "daemon" in lost_events(api, job)[0]["message"]
    check_gapless(api, job)
    assert done["model_version"] == 1
    after = api.wait(behind["id"])
    assert (after["status"], after["attempt"]) == ("succeeded", 1)
    assert after["started_at"] >= done["finished_at"]


def test_kill_the_daemon_in_the_last_attempt(daemons, big_spec_for):
    daemon = daemons()
    job = daemon.api.create("m", stop=STOP, max_attempts=1, **big_spec_for(daemon.api))
    daemon.api.wait_running(job["id"])
    daemon.kill()
    daemon.start()
    done = daemon.api.job(job["id"])
    assert (done["status"], done["reason"], done["attempt"]) == ("failed", "worker_lost", 1)
    assert "no attempt is left" in done["error"]["detail"]
    assert statuses(daemon.api, job) == ["queued", "running", "failed"]


def test_stop_the_daemon_in_mid_training(daemons, big_spec_for):
    """SIGTERM: not ready at once, end in time with 0; the job is taken up at the next start."""
    daemon = daemons()
    api = daemon.api
    spec = big_spec_for(api)
    short = api.create("short", stop=STOP, priority=1, **spec)
    api.wait_running(short["id"])
    assert daemon.stop() == 0
    daemon.start()
    api = daemon.api
    done = api.wait(short["id"])
    assert (done["status"], done["reason"], done["attempt"]) == ("succeeded", "iteration_limit", 1)
    long = api.create("long", stop={**STOP, "max_iterations": 200}, **spec)
    api.wait_running(long["id"])
    assert daemon.stop() == 0
    assert daemon.log().count('"server.drained","complete":"true"') == 2  # in time
    daemon.start()
    done = daemon.api.wait(long["id"])
    assert (done["status"], done["attempt"]) == ("succeeded", 1)


def test_a_start_that_fails_costs_no_attempt(daemons, big_spec_for):
    """The job has been given to a worker by then."""
    daemon = daemons(workers="cpu:0")
    stop = {**STOP, "max_iterations": 100_000}
    job = daemon.api.create("m", stop=stop, max_attempts=1, **big_spec_for(daemon.api))
    assert daemon.stop() == 0
    address = daemon.data_dir / "krrd.address"
    address.mkdir()
    daemon.options["workers"] = "cpu:1"
    done = subprocess.run(daemon.command(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and '"job.started"' in done.stderr
    address.rmdir()
    daemon.start(workers="cpu:0")
    assert daemon.api.job(job["id"])["status"] == "queued"
    assert lost_events(daemon.api, job) == []


def test_stop_an_idle_daemon(daemons):
    daemon = daemons()
    pids = [daemon.api.worker_pid(kind) for kind in ("train", "serve")]
    assert daemon.stop() == 0
    assert '"server.drained","complete":"true"' in daemon.log()
    assert all(gone(pid) for pid in pids)


def test_kill_the_training_worker(daemons, big_spec_for):
    api = daemons().api
    job = api.create("m", stop=STOP, **big_spec_for(api))
    api.wait_running(job["id"])
    pid = api.worker_pid("train", "busy")
    worker = api.workers("train")[0]
    assert (worker["name"], worker["job"], worker["restarts"]) == ("train:0", job["id"], 0)
    os.kill(pid, signal.SIGKILL)
    done = api.wait(job["id"])
    assert (done["status"], done["reason"], done["attempt"]) == ("succeeded", "iteration_limit", 2)
    lost = lost_events(api, job)
    assert len(lost) == 1 and lost[0]["level"] in ("warning", "error")
    assert "signal 9" in lost[0]["message"], lost
    assert statuses(api, job) == ["queued", "running", "queued", "running", "succeeded"]
    check_gapless(api, job)
    fresh = api.workers("train")[0]
    assert fresh["pid"] != pid and fresh["restarts"] == 1


def test_every_attempt_killed(daemons, big_spec_for):
    api = daemons().api
    job = api.create("m", max_attempts=3, stop=STOP, **big_spec_for(api))
    for attempt in (1, 2, 3):
        api.wait(job["id"], lambda j: j["status"] == "running" and j["attempt"] == attempt)
        api.wait_running(job["id"])
        os.kill(api.worker_pid("train", "busy"), signal.SIGKILL)
    done = api.wait(job["id"])
    assert (done["status"], done["reason"], done["attempt"]) == ("failed", "worker_lost", 3)
    assert done["error"]["code"] == "worker_lost"
    assert "signal 9" in done["error"]["detail"]
    cause = done["error"]["cause"]
    assert (cause["signal"], cause["exit_code"], cause["attempt"]) == ("SIGKILL", None, 3)
    assert isinstance(cause["stderr"], list)
    assert statuses(api, job) == ["queued", "running"] * 3 + ["failed"]
    check_gapless(api, job)
    api.get("/v1/models/m", 404)
    # The next job is not harmed.
    X, y = data.regression(40)
    api.train("n", api.upload_npz(X, y))


def test_the_next_attempt_waits(daemons, big_spec_for):
    """Longer each time, across a restart of the daemon; other jobs go first meanwhile."""
    daemon = daemons(retry_delay_s=120)
    api = daemon.api
    spec = big_spec_for(api)
    job = api.create("m", stop=STOP, priority=1, **spec)
    assert job["next_attempt_at"] is None
    api.wait_running(job["id"])
    os.kill(api.worker_pid("train", "busy"), signal.SIGKILL)
    waiting = api.wait(job["id"], ("queued",))
    assert (waiting["reason"], waiting["attempt"]) == ("worker_lost", 1)
    delay = seconds(waiting["next_attempt_at"]) - seconds(waiting["queued_at"])
    assert 60 <= delay <= 120
    other = api.create("n", stop={**STOP, "max_iterations": 2}, **spec)
    assert api.wait(other["id"])["status"] == "succeeded"
    assert api.job(job["id"])["status"] == "queued"
    daemon.kill()
    daemon.start()
    api = daemon.api
    assert api.job(job["id"])["next_attempt_at"] == waiting["next_attempt_at"]
    assert daemon.stop() == 0
    with contextlib.closing(sqlite3.connect(daemon.data_dir / "krrd.db")) as db:
        soon = 1000 * int(time.time() + 3)  # nobody has two minutes
        db.execute("UPDATE jobs SET next_attempt_ms = ? WHERE next_attempt_ms IS NOT NULL", (soon,))
        db.commit()
    daemon.start()
    done = daemon.api.wait(job["id"])
    assert (done["status"], done["attempt"], done["next_attempt_at"]) == ("succeeded", 2, None)
    assert 1000 * seconds(done["started_at"]) >= soon


def test_the_cause_is_kept(daemons, big_spec_for, tmp_path):
    """What a worker says before it dies is in the log at once, and in the error of its job."""
    program = tmp_path / "complainer"
    worker = os.environ.get("KRRD_TEST_WORKER") or \
        pathlib.Path(__file__).resolve().parents[2] / "build/src/worker/krrd-worker"
    # Complains, then becomes a worker.
    program.write_text("#!/bin/sh\n"
                       "for i in 1 2 3; do echo \"complaint $i\" >&2; done\n"
                       "echo 'not a line' | tr -d '\\n' >&2\n"
                       f"exec {worker} \"$@\"\n")
    program.chmod(0o755)
    daemon = daemons(worker_program=program)
    api = daemon.api
    job = api.create("m", max_attempts=1, stop=STOP, **big_spec_for(api))
    api.wait_running(job["id"])
    os.kill(api.worker_pid("train", "busy"), signal.SIGABRT)
    error = api.wait(job["id"])["error"]
    assert error["code"] == "worker_lost" and "signal 6" in error["detail"]
    assert error["cause"] == {"signal": "SIGABRT", "exit_code": None, "attempt": 1, "stderr": [
        "complaint 1", "complaint 2", "complaint 3", "not a line"]}
    assert "complaint 3\n" in daemon.log() and "not a line" in daemon.log()


def test_a_worker_that_ends_by_itself(daemons, tmp_path):
    """Its exit code and its last lines are logged, each time that it starts anew."""
    program = tmp_path / "quitter"
    program.write_text("#!/bin/sh\necho no device here >&2\nexit 7\n")
    program.chmod(0o755)
    daemon = daemons(worker_program=program)
    end = time.monotonic() + 20
    while daemon.log().count("exit code 7") < 2 or daemon.log().count("no device here\n") < 2:
        assert time.monotonic() < end, daemon.log()
        time.sleep(0.05)


def test_killed_while_cancelling(daemons, big_spec_for):
    api = daemons().api
    job = api.create("m", stop=STOP, **big_spec_for(api))
    api.wait_running(job["id"])
    pid = api.worker_pid("train", "busy")
    os.kill(pid, signal.SIGSTOP)  # so that it cannot answer first
    api.cancel(job["id"])
    os.kill(pid, signal.SIGKILL)
    done = api.wait(job["id"])
    assert (done["status"], done["attempt"]) == ("cancelled", 1)


def check_ended_for_a_cancel(daemon, job, pid, least):
    """The job is cancelled, after so many seconds, its worker replaced, nothing left of it. Without
    being ended the worker would take minutes, or for ever."""
    api = daemon.api
    began = time.monotonic()
    assert api.cancel(job["id"])["status"] == "cancelling"
    done = api.wait(job["id"], timeout=60)
    assert least <= time.monotonic() - began
    assert (done["status"], done["reason"], done["error"]) == ("cancelled", "cancelled", None)
    assert done["attempt"] == 1
    assert statuses(api, job) == ["queued", "running", "cancelling", "cancelled"]
    check_gapless(api, job)
    api.get("/v1/models/m", 404)
    assert list((daemon.data_dir / "checkpoints").iterdir()) == []
    X, y = data.regression(40)
    api.train("n", api.upload_npz(X, y))
    worker = api.workers("train")[0]
    assert worker["pid"] != pid and worker["restarts"] == 1


def test_a_worker_that_does_not_answer_a_cancel_is_ended(daemons, big_spec_for):
    """A stopped process hears nothing but SIGKILL."""
    daemon = daemons(cancel_grace_s=0.5)
    api = daemon.api
    job = api.create("m", stop=STOP, **big_spec_for(api))
    api.wait_running(job["id"])
    pid = api.worker_pid("train", "busy")
    os.kill(pid, signal.SIGSTOP)
    check_ended_for_a_cancel(daemon, job, pid, least=0.5)


def test_cancel_in_a_long_library_call(daemons):
    """Eigenvectors of 8,000 rows take minutes and hear nothing meanwhile."""
    daemon = daemons(cancel_grace_s=1)
    api = daemon.api
    X, y = data.regression(8000, d=2, seed=7)
    job = api.create("m", api.upload_npz(X, y), kernel="gaussian", test={"fraction": 0},
                     search={"regularization": [1e-6, 1e-3], "max_rows": 8000})
    api.wait(job["id"], until=("running",))
    pid = api.worker_pid("train", "busy")
    spent = 0
    while spent < 4:  # seconds of the processor: the kernel matrix takes less than one
        time.sleep(0.1)
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        spent = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    check_ended_for_a_cancel(daemon, job, pid, least=1)


def test_default_grace_and_a_worker_that_answers(daemons, big_spec_for):
    """A worker that answers in time is kept."""
    api = daemons().api
    job = api.create("m", stop=STOP, **big_spec_for(api))
    api.wait_running(job["id"])
    pid = api.worker_pid("train", "busy")
    api.cancel(job["id"])
    assert api.wait(job["id"], timeout=20)["status"] == "cancelled"
    X, y = data.regression(40)
    api.train("n", api.upload_npz(X, y))
    assert api.worker_pid("train") == pid


def test_kill_the_serving_worker(daemons):
    api = daemons().api
    X, y = data.regression(60, seed=41)
    api.train("m", api.upload_npz(X, y), kernel="gaussian")
    before = api.predict("m", X).text
    for _ in range(3):
        pid = api.worker_pid("serve")
        os.kill(pid, signal.SIGKILL)
        assert api.predict("m", X).text == before
        assert api.worker_pid("serve") != pid
    # It may also be noticed before the next prediction.
    pid = api.worker_pid("serve")
    os.kill(pid, signal.SIGKILL)
    wait.until(lambda: api.worker_pid("serve") != pid)
    assert api.predict("m", X).text == before


def test_half_an_upload_leaves_nothing(daemons):
    """A daemon killed while a body arrives has no trace of it afterwards."""
    daemon = daemons()

    def body():
        yield b"a,b\n1,2\n" * 1000
        daemon.kill()
        yield b"3,4\n" * 100000

    with pytest.raises(Exception):
        daemon.api.post("/v1/datasets", 201, data=body(), headers={"Content-Type": "text/csv"})
    daemon.start()
    assert daemon.api.get("/v1/datasets").json()["data"] == []
    left = [p for folder in ("tmp", "datasets") for p in (daemon.data_dir / folder).iterdir()]
    assert left == []


def test_a_model_that_lost_a_piece(daemons):
    """Damage to the database is said; nobody waits for what never comes."""
    daemon = daemons()
    X, y = data.regression(60)
    daemon.api.train("holed", daemon.api.upload_csv(X, y), kernel="linear")
    assert daemon.stop() == 0
    with contextlib.closing(sqlite3.connect(daemon.data_dir / "krrd.db")) as db:
        db.execute("DELETE FROM model_chunks WHERE number = (SELECT max(number) FROM model_chunks)")
        db.commit()
    daemon.start()
    for _ in range(2):
        assert daemon.api.predict("holed", X, expect=500).json()["code"] == "corrupt"
    daemon.api.post("/v1/models/holed/versions/1/load", 500)


def test_an_end_that_the_store_refuses(daemons):
    """Somebody else holds the database, as a full disk would: once it gives way, the job goes on."""
    daemon = daemons()
    X, y = data.regression(6000, d=6, seed=99)
    job = daemon.api.create("held", daemon.api.upload_npz(X, y), test={"fraction": 0}, stop=STOP,
                            kernel={"name": "gaussian", "bandwidth": 3.0}, regularization=1e-13,
                            solver={"name": "pcg", "preconditioner": "none"})
    daemon.api.wait_running(job["id"])
    with contextlib.closing(sqlite3.connect(daemon.data_dir / "krrd.db", isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        os.kill(daemon.api.worker_pid("train"), signal.SIGKILL)
        end = time.monotonic() + 60
        while "job.end_waits" not in daemon.log():
            assert time.monotonic() < end, daemon.log()[-2000:]
            time.sleep(0.05)
        db.execute("ROLLBACK")
    job = daemon.api.wait(job["id"])
    assert job["status"] == "succeeded" and job["attempt"] == 2
    check_gapless(daemon.api, job)


@pytest.mark.parametrize("given, other", [
    ({"solver": {"name": "sketchysaga", "damping": 2}}, ("$.solver.rho", 0.5)),
    ({"solver": {"name": "askotch2", "rank": 50}}, ("$.solver.block_preconditioner", "none")),
    ({"solver": {"name": "falkon"}, "centers": {"method": "kmeans", "batch_size": 100}}, ("$.centers.rows", 0)),
    ({"solver": {"name": "cholesky", "factor": "float64"}}, ("$.precision", "float32"))])
def test_what_an_earlier_version_took_stays_a_job(daemons, given, other):
    """Today such a request is refused; one that is in the queue since then is trained all the same."""
    daemon = daemons(workers="cpu:0")
    X, y = data.regression(200, seed=67)
    spec = {"kernel": "gaussian", "regularization": 1e-3, "stop": {"max_iterations": 20}, **given}
    job = daemon.api.create("m", daemon.api.upload_npz(X, y), **spec)
    assert daemon.stop() == 0
    with contextlib.closing(sqlite3.connect(daemon.data_dir / "krrd.db")) as db:
        db.execute("UPDATE jobs SET spec = json_set(spec, ?, ?)", other)
        db.commit()
    daemon.start(workers="cpu:1")
    assert daemon.api.wait(job["id"])["status"] == "succeeded"
    again = daemon.api.post("/v1/jobs", 422, json=daemon.api.job(job["id"])["spec"]).json()
    assert "has no effect" in again["detail"]
