"""Pause, resume, kills and restarts: a job goes on under its id, to the bits it would have had."""

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import time

import pytest

import data

PLAIN = {"name": "pcg", "preconditioner": "none"}
STOP = {"tolerance": 1e-15, "max_iterations": 200}


def spec_of(api, n=3000, solver=PLAIN, **more):
    """Ends at its iteration limit after a second or more, with bits that depend on every step."""
    X, y = data.regression(n, d=6, seed=99)
    return {"dataset": api.upload_npz(X, y), "solver": solver, "stop": STOP,
            "kernel": {"name": "gaussian", "bandwidth": 3.0}, "regularization": 1e-13,
            "precision": "float64", "test": {"fraction": 0}, **more}


def digest(api, model):
    return api.get(f"/v1/models/{model}/versions/1").json()["sha256"]


def statuses(api, job):
    return [e["data"]["status"] for e in api.events(job["id"]) if e["type"] == "status"]


def messages(api, job, level="info"):
    return [e["message"] for e in api.events(job["id"])
            if e["type"] == "message" and e["level"] == level]


def check_gapless(api, job):
    ids = [e["id"] for e in api.events(job["id"])]
    assert ids == list(range(1, len(ids) + 1))


def wait_iteration(api, job, least):
    return api.wait(job["id"], lambda j: j["status"] == "running" and
                    (j["progress"] or {}).get("iteration", 0) >= least)


def checkpoint(daemon, job):
    return daemon.data_dir / "checkpoints" / f"{job['id']}.krdc"


def checkpoints(daemon):
    return sorted(p.name for p in (daemon.data_dir / "checkpoints").iterdir())


def wait_until(fits, what, timeout=60):
    end = time.monotonic() + timeout
    while not fits():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def wait_checkpoint(daemon, job):
    wait_until(checkpoint(daemon, job).exists, "no checkpoint")


def pause(api, job, expect=200):
    return api.post(f"/v1/jobs/{job['id']}/pause", expect).json()


def resume(api, job, expect=200):
    return api.post(f"/v1/jobs/{job['id']}/resume", expect).json()


def check_end(daemon, job, whole, attempt):
    """The end of the uninterrupted job `whole` on the same daemon, whatever happened on the way."""
    api = daemon.api
    done = api.wait(job["id"])
    assert (done["status"], done["reason"]) == ("succeeded", "iteration_limit"), done
    assert done["attempt"] == attempt
    assert done["result"]["iterations"] == whole["result"]["iterations"]
    assert done["result"]["relative_residual"] == whole["result"]["relative_residual"]
    assert digest(api, job["model"]) == digest(api, whole["model"])
    check_gapless(api, job)
    wait_until(lambda: checkpoints(daemon) == [], checkpoints(daemon), 10)
    return done


@pytest.mark.parametrize("solver", [PLAIN, {"name": "pcg", "preconditioner": "rpcholesky"}],
                         ids=["plain", "rpcholesky"])
def test_pause_and_resume(daemons, solver):
    daemon = daemons()
    api = daemon.api
    spec = spec_of(api, solver=solver)
    whole = api.train("whole", **spec)
    job = api.create("parts", **spec)
    wait_iteration(api, job, 20)
    first = pause(api, job)
    assert first["status"] in ("running", "paused") and first["reason"] == "paused"
    pause(api, job)  # asking twice is no error
    held = api.wait(job["id"], ("paused",))
    assert (held["reason"], held["worker"], held["attempt"]) == ("paused", None, 1)
    assert held["progress"]["iteration"] >= 20 and held["finished_at"] is None
    assert pause(api, job)["status"] == "paused"
    assert checkpoints(daemon) == [checkpoint(daemon, job).name]
    assert api.request("DELETE", f"/v1/jobs/{job['id']}", 409).json()["code"] == "conflict"
    assert [j["id"] for j in api.get("/v1/jobs", params={"status": "paused"}).json()["data"]] == \
        [job["id"]]
    api.train("between", spec["dataset"])  # the worker is free

    assert resume(api, job)["status"] in ("queued", "running")
    done = check_end(daemon, job, whole, attempt=1)
    assert statuses(api, job) == ["queued", "running", "paused", "queued", "running", "succeeded"]
    assert any("Resumed from the checkpoint at iteration" in m for m in messages(api, job))
    assert all("relative residual" in m for m in messages(api, job, "warning"))  # of its iteration limit
    assert done["result"]["seconds"] > held["progress"]["elapsed_s"]
    assert done["result"]["phases"] is None and whole["result"]["phases"]["iterations_s"] > 0


FACTORS = pytest.mark.parametrize("factor", ["float64", "float32"])


def factor_spec(api, factor):
    """More than a second of factorising, in panels of a few ms."""
    return spec_of(api, n=5000, regularization=1e-5, stop={"tolerance": 1e-9},
                   solver={"name": "cholesky", "factor": factor, "block_size": 64})


def file_identity(path):
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def check_factor_end(daemon, job, whole, attempt):
    api = daemon.api
    done = api.wait(job["id"])
    assert (done["status"], done["reason"]) == ("succeeded", whole["reason"]), done
    assert done["attempt"] == attempt
    assert done["result"]["relative_residual"] == whole["result"]["relative_residual"]
    assert digest(api, job["model"]) == digest(api, whole["model"])
    assert any("Resumed from the checkpoint" in m for m in messages(api, job))
    assert messages(api, job, "warning") == []
    check_gapless(api, job)
    wait_until(lambda: checkpoints(daemon) == [], checkpoints(daemon), 10)


@FACTORS
def test_pause_in_a_factorisation(daemons, factor):
    daemon = daemons()
    api = daemon.api
    spec = factor_spec(api, factor)
    whole = api.train("whole", **spec)
    job = api.create("parts", **spec)
    api.wait(job["id"], lambda j: (j["progress"] or {}).get("phase") == "factorizing"
             and j["progress"]["fraction"] > 0.1)
    pause(api, job)
    held = api.wait(job["id"], ("paused",))
    assert (held["attempt"], held["worker"]) == (1, None)
    assert held["progress"]["phase"] == "factorizing"
    kept = checkpoint(daemon, job).stat().st_size
    assert 5000 * 64 < kept < (5000 * 5064 / 2 + 10 * 5000) * (8 if factor == "float64" else 4)
    assert api.train("between", spec["dataset"], solver=PLAIN, stop={"max_iterations": 3})
    resume(api, job)
    check_factor_end(daemon, job, whole, attempt=1)


@FACTORS
def test_kill_in_a_factorisation(daemons, factor):
    """kill -9 of the worker, then of the daemon: panels that were kept are not made again."""
    daemon = daemons(checkpoint_interval_s=0)
    spec = factor_spec(daemon.api, factor)
    whole = daemon.api.train("whole", **spec)
    job = daemon.api.create("parts", **spec)
    # Reports are a quarter of a second apart: the first checkpoint may come before one of them.
    daemon.api.wait(job["id"], lambda j: (j["progress"] or {}).get("phase") == "factorizing")
    wait_checkpoint(daemon, job)
    pid = daemon.api.worker_pid("train", "busy")
    os.kill(pid, signal.SIGSTOP)
    before = daemon.api.job(job["id"])["progress"]
    assert before["phase"] == "factorizing" and before["fraction"] < 0.9
    kept = file_identity(checkpoint(daemon, job))
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: file_identity(checkpoint(daemon, job)) != kept, "no second one")
    daemon.kill()
    daemon.start()
    check_factor_end(daemon, job, whole, attempt=1)
    # What was said last before the second kill may have gone with the daemon.
    assert sum("Resumed" in m for m in messages(daemon.api, job)) in (1, 2)


def test_pause_in_the_queue(daemons):
    daemon = daemons(workers="cpu:0")
    api = daemon.api
    X, y = data.regression(40)
    dataset = api.upload_npz(X, y)
    first, second = (api.create(m, dataset) for m in ("first", "second"))
    held = pause(api, first)
    assert (held["status"], held["reason"], held["attempt"]) == ("paused", "paused", 0)
    assert held["queue_position"] is None
    assert api.job(second["id"])["queue_position"] == 0
    again = resume(api, first)
    assert (again["status"], again["queue_position"]) == ("queued", 0)
    assert "queued" in resume(api, first, 409)["detail"]
    pause(api, second)
    api.request("DELETE", f"/v1/datasets/{dataset}", 409)
    gone = api.cancel(second["id"])
    assert (gone["status"], gone["reason"]) == ("cancelled", "cancelled")
    assert pause(api, second, 409)["code"] == "conflict"
    assert resume(api, second, 409)["code"] == "conflict"
    api.delete(f"/v1/jobs/{second['id']}")
    for act in (pause, resume):
        assert act(api, second, 404)["code"] == "not_found"
    # A paused job stays so through a restart.
    pause(api, first)
    assert daemon.stop() == 0
    daemon.start(workers="cpu:1")
    api = daemon.api
    assert api.job(first["id"])["status"] == "paused"
    resume(api, first)
    assert api.wait(first["id"])["attempt"] == 1


def test_kill_the_worker(daemons):
    daemon = daemons(checkpoint_interval_s=0.05)
    api = daemon.api
    spec = spec_of(api)
    whole = api.train("whole", **spec)
    job = api.create("parts", **spec)
    wait_checkpoint(daemon, job)
    os.kill(api.worker_pid("train", "busy"), signal.SIGKILL)
    check_end(daemon, job, whole, attempt=1)
    assert statuses(api, job) == ["queued", "running", "queued", "running", "succeeded"]
    assert any("Resumed from the checkpoint" in m for m in messages(api, job))


def test_kill_the_daemon(daemons):
    daemon = daemons(checkpoint_interval_s=0.05)
    spec = spec_of(daemon.api)
    whole = daemon.api.train("whole", **spec)
    job = daemon.api.create("parts", **spec)
    wait_checkpoint(daemon, job)
    daemon.kill()
    daemon.start()
    check_end(daemon, job, whole, attempt=1)
    assert any("Resumed from the checkpoint" in m for m in messages(daemon.api, job))


def kill_worker(daemon):
    os.kill(daemon.api.worker_pid("train", "busy"), signal.SIGKILL)


def kill_daemon(daemon):
    """And its worker at once, which would keep a further checkpoint before it noticed."""
    pid = daemon.api.worker_pid("train", "busy")
    daemon.kill()
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("kill, reason", [(kill_worker, "worker_lost"), (kill_daemon, "daemon_stopped")])
def test_attempts_that_get_ahead(daemons, kill, reason):
    """A job that kept a checkpoint of its own before each kill outlives more of them than it has attempts."""
    daemon = daemons(checkpoint_interval_s=0, retry_delay_s=0)
    spec = spec_of(daemon.api, max_attempts=1)
    whole = daemon.api.train("whole", **spec)
    job = daemon.api.create("parts", **spec)
    kept = None
    for _ in range(3):
        wait_until(lambda: checkpoint(daemon, job).exists() and file_identity(checkpoint(daemon, job)) != kept,
                   "no further checkpoint")
        daemon.api.wait_running(job["id"])
        kill(daemon)
        kept = file_identity(checkpoint(daemon, job))
        if daemon.process is None:
            daemon.start()
    check_end(daemon, job, whole, attempt=1)
    assert [e["data"]["reason"] for e in daemon.api.events(job["id"])
            if e["type"] == "status" and e["data"]["status"] == "queued"] == [None] + 3 * [reason]


def test_attempts_that_do_not(daemons):
    """One that takes its worker down each time, before it gets further, ends all the same."""
    daemon = daemons(retry_delay_s=0)
    api = daemon.api
    job = api.create("parts", **spec_of(api, max_attempts=3))
    for attempt in (1, 2, 3):
        api.wait(job["id"], lambda j: j["status"] == "running" and j["attempt"] == attempt)
        kill_worker(daemon)
    ended = api.wait(job["id"])
    assert (ended["status"], ended["reason"], ended["attempt"]) == ("failed", "worker_lost", 3)


def test_an_end_that_cannot_be_recorded(daemons):
    """What was computed to its end gets no further by another attempt, whatever checkpoints it keeps on its way."""
    daemon = daemons(checkpoint_interval_s=0, retry_delay_s=0)
    job = daemon.api.create("parts", **spec_of(daemon.api, max_attempts=2))
    wait_checkpoint(daemon, job)
    with contextlib.closing(sqlite3.connect(daemon.data_dir / "krrd.db", timeout=30)) as db:
        db.execute("CREATE TABLE refusal (value NOT NULL)")
        db.execute("CREATE TRIGGER refuse BEFORE UPDATE ON jobs WHEN NEW.status = 'succeeded'"
                   " BEGIN INSERT INTO refusal VALUES (NULL); END")
    ended = daemon.api.wait(job["id"])
    assert (ended["status"], ended["attempt"]) == ("failed", 2)
    assert ended["error"]["detail"] == "The end of the job could not be recorded."
    assert statuses(daemon.api, job) == ["queued", "running", "queued", "running", "failed"]


def test_many_kills(daemons):
    """Workers die at random moments: of the start, of the solve, of a checkpoint's writing."""
    daemon = daemons(checkpoint_interval_s=0)
    api = daemon.api
    spec = spec_of(api, max_attempts=10, stop={**STOP, "max_iterations": 800})
    whole = api.train("whole", **spec)
    job = api.create("parts", **spec)
    rng = random.Random(5)
    for _ in range(6):
        time.sleep(0.15 + 0.35 * rng.random())
        if api.job(job["id"])["finished_at"]:
            break
        with contextlib.suppress(ProcessLookupError):  # the one before takes its time to die
            os.kill(api.worker_pid("train"), signal.SIGKILL)
    done = api.wait(job["id"])
    check_end(daemon, job, whole, attempt=done["attempt"])
    assert statuses(api, job).count("running") >= 3


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGINT])
def test_stop_and_start(daemons, number):
    """SIGTERM: the job keeps a checkpoint, is queued for the next start, and spends no attempt.
    A service manager and Ctrl-C send their signal to the workers, too."""
    daemon = daemons()
    spec = spec_of(daemon.api, max_attempts=1)
    whole = daemon.api.train("whole", **spec)
    job = daemon.api.create("parts", **spec)
    wait_iteration(daemon.api, job, 20)
    start = time.monotonic()
    for kind in ("train", "serve") if number else ():
        os.kill(daemon.api.worker_pid(kind), signal.SIGHUP)
        os.kill(daemon.api.worker_pid(kind), number)
    assert daemon.stop(number=number or signal.SIGTERM) == 0
    assert time.monotonic() - start < 30
    assert checkpoints(daemon) == [checkpoint(daemon, job).name]
    daemon.start(workers="cpu:0")
    waiting = daemon.api.job(job["id"])
    assert (waiting["status"], waiting["reason"], waiting["attempt"]) == \
        ("queued", "daemon_stopped", 1)
    assert checkpoints(daemon) == [checkpoint(daemon, job).name]
    assert daemon.stop() == 0
    daemon.start(workers="cpu:1")
    check_end(daemon, job, whole, attempt=1)
    assert statuses(daemon.api, job) == ["queued", "running", "queued", "running", "succeeded"]
    assert any("Resumed from the checkpoint" in m for m in messages(daemon.api, job))


def test_stop_with_a_stuck_worker(daemons):
    """A worker that does not hear of it is ended; the job goes on from its last checkpoint."""
    daemon = daemons(checkpoint_interval_s=0.05, drain_timeout_s=1)
    spec = spec_of(daemon.api, max_attempts=1)
    whole = daemon.api.train("whole", **spec)
    job = daemon.api.create("parts", **spec)
    wait_checkpoint(daemon, job)
    os.kill(daemon.api.worker_pid("train", "busy"), signal.SIGSTOP)
    start = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - start < 30
    daemon.start()
    check_end(daemon, job, whole, attempt=1)
    assert any("Resumed from the checkpoint" in m for m in messages(daemon.api, job))


def test_many_kills_of_the_daemon(daemons):
    daemon = daemons(checkpoint_interval_s=0)
    spec = spec_of(daemon.api, max_attempts=10)
    whole = daemon.api.train("whole", **spec)
    job = daemon.api.create("parts", **spec)
    rng = random.Random(6)
    for kill in range(5):
        time.sleep(0.3 + 0.4 * rng.random())
        if kill % 2:
            assert daemon.stop() == 0
        else:
            daemon.kill()
        daemon.start()
    done = daemon.api.wait(job["id"])
    assert done["attempt"] <= 4  # of the five, two counted none
    check_end(daemon, job, whole, attempt=done["attempt"])


def test_pause_and_a_dead_worker(daemons):
    """The pause holds although the worker never answered it."""
    daemon = daemons(checkpoint_interval_s=0.05)
    api = daemon.api
    spec = spec_of(api)
    whole = api.train("whole", **spec)
    job = api.create("parts", **spec)
    wait_checkpoint(daemon, job)
    pid = api.worker_pid("train", "busy")
    os.kill(pid, signal.SIGSTOP)
    assert pause(api, job)["status"] == "running"
    assert "running" in resume(api, job, 409)["detail"]
    os.kill(pid, signal.SIGKILL)
    held = api.wait(job["id"], ("paused",))
    assert (held["reason"], held["attempt"]) == ("worker_lost", 1)
    resume(api, job)
    check_end(daemon, job, whole, attempt=1)


def test_cancel(daemons):
    daemon = daemons()
    api = daemon.api
    spec = spec_of(api)
    job = api.create("parts", **spec)
    wait_iteration(api, job, 5)
    pause(api, job)
    api.wait(job["id"], ("paused",))
    assert checkpoint(daemon, job).exists()
    gone = api.cancel(job["id"])
    assert (gone["status"], gone["reason"]) == ("cancelled", "cancelled")
    wait_until(lambda: checkpoints(daemon) == [], "the checkpoint is still there", 10)
    # A cancel overtakes a pause.
    job = api.create("parts", **spec)
    wait_iteration(api, job, 5)
    os.kill(api.worker_pid("train", "busy"), signal.SIGSTOP)
    pause(api, job)
    assert api.cancel(job["id"])["status"] == "cancelling"
    os.kill(api.worker_pid("train", "busy"), signal.SIGCONT)
    assert api.wait(job["id"])["status"] == "cancelled"
    api.get("/v1/models/parts", 404)
    wait_until(lambda: checkpoints(daemon) == [], "the checkpoint is still there", 10)


def hold(api, spec, model):
    job = api.create(model, **spec)
    wait_iteration(api, job, 20)
    pause(api, job)
    api.wait(job["id"], ("paused",))
    return job


def test_damaged_and_foreign_checkpoints(daemons):
    """Never a wrong model: what does not fit is told of, and the job begins at its beginning."""
    daemon = daemons()
    api = daemon.api
    spec = spec_of(api)
    whole = api.train("whole", **spec)

    job = hold(api, spec, "flipped")
    path = checkpoint(daemon, job)
    image = bytearray(path.read_bytes())
    image[-100] ^= 1
    path.write_bytes(image)
    resume(api, job)
    check_end(daemon, job, whole, attempt=1)
    assert any("damaged" in m and "beginning" in m for m in messages(api, job, "warning"))

    job = hold(api, spec, "cut")
    path = checkpoint(daemon, job)
    path.write_bytes(path.read_bytes()[:-1000])
    resume(api, job)
    check_end(daemon, job, whole, attempt=1)
    assert any("damaged" in m for m in messages(api, job, "warning"))

    other = hold(api, {**spec, "regularization": 1e-12}, "other")
    job = hold(api, spec, "swapped")
    shutil.copy(checkpoint(daemon, other), checkpoint(daemon, job))
    api.cancel(other["id"])
    resume(api, job)
    check_end(daemon, job, whole, attempt=1)
    assert any("another specification or data" in m for m in messages(api, job, "warning"))


def edit_spec(daemon, job, change):
    """change(spec) while the daemon is down; the text that the store has of it then."""
    with contextlib.closing(sqlite3.connect(daemon.data_dir / "krrd.db")) as db:
        spec = json.loads(db.execute("SELECT spec FROM jobs WHERE id = ?", (job["id"],)).fetchone()[0])
        change(spec)
        text = json.dumps(spec, separators=(",", ":"))
        db.execute("UPDATE jobs SET spec = ? WHERE id = ?", (text, job["id"]))
        db.commit()
    return text


def forget_fields(spec):
    """What the program writes into a spec, and did not yet in the version that this one is from."""
    for fields, key in ((spec, "search"), (spec["solver"], "residual_every"), (spec["stop"], "time_budget_s")):
        del fields[key]


def texts(path):
    image = path.read_bytes()
    return json.loads(image[8:8 + int.from_bytes(image[:8], "little")])["__metadata__"]


def test_a_job_of_an_earlier_version(daemons):
    """Its checkpoint is bound to the text that the store has of it, and fits whatever fields specs have today."""
    daemon = daemons()
    spec = spec_of(daemon.api, kernel={"name": "gaussian", "bandwidth": "auto"})
    whole = daemon.api.train("whole", **spec)
    assert daemon.stop() == 0
    daemon.start(workers="cpu:0")
    job = daemon.api.create("parts", **spec)
    assert daemon.stop() == 0
    text = edit_spec(daemon, job, forget_fields)
    daemon.start(workers="cpu:1")
    wait_iteration(daemon.api, job, 20)
    dataset = daemon.api.get(f"/v1/datasets/{spec['dataset']}").json()["sha256"]
    assert daemon.stop() == 0
    expected = hashlib.sha256(f"{text}\n{dataset}\n\n\n".encode()).hexdigest()
    assert texts(checkpoint(daemon, job))["chosen"] == expected
    daemon.start()
    check_end(daemon, job, whole, attempt=1)
    assert any("Resumed from the checkpoint" in m for m in messages(daemon.api, job))
    assert not any("discarded" in m for m in messages(daemon.api, job, "warning"))


def test_a_value_that_is_no_longer_taken(daemons):
    """The job fails by itself, and says which; those behind it run."""
    daemon = daemons(workers="cpu:0")
    spec = spec_of(daemon.api)
    solver = {"name": "askotch2", "mu": 1e-3, "block_size": 50}
    refused = daemon.api.create("refused", **{**spec, "solver": solver})
    behind = daemon.api.create("behind", **spec)
    assert daemon.stop() == 0
    edit_spec(daemon, refused, lambda s: s["solver"].update(mu=1e-14))
    daemon.start(workers="cpu:1")
    job = daemon.api.wait(refused["id"])
    assert job["status"] == "failed" and job["spec"]["solver"]["mu"] == 1e-14
    assert "#/solver/mu" in json.dumps(job["error"]) and "1e-12" in job["error"]["detail"], job["error"]
    assert daemon.api.wait(behind["id"])["status"] == "succeeded"
    assert len(daemon.api.get("/v1/jobs").json()["data"]) == 2


def test_a_value_that_changes(daemons):
    daemon = daemons()
    spec = spec_of(daemon.api)
    whole = daemon.api.train("whole", **spec)
    job = hold(daemon.api, spec, "parts")
    assert daemon.stop() == 0
    edit_spec(daemon, job, lambda s: s["solver"].update(residual_every=51))
    daemon.start()
    resume(daemon.api, job)
    assert daemon.api.wait(job["id"])["result"]["iterations"] == whole["result"]["iterations"]
    assert any("another specification or data" in m for m in messages(daemon.api, job, "warning"))


def test_nowhere_to_keep_it(daemons):
    """Without its folder there is no checkpoint, but a warning and the whole job."""
    daemon = daemons(checkpoint_interval_s=0.05)
    api = daemon.api
    folder = daemon.data_dir / "checkpoints"
    folder.rmdir()
    spec = spec_of(api)
    job = api.train("parts", **spec)
    assert any("could not be written" in m for m in messages(api, job, "warning"))
    assert job["reason"] == "iteration_limit"
    folder.mkdir()


def test_leftovers_are_swept(daemons):
    daemon = daemons()
    job = hold(daemon.api, spec_of(daemon.api), "parts")
    kept = checkpoint(daemon, job).name
    assert daemon.stop() == 0
    folder = daemon.data_dir / "checkpoints"
    for name in ("job_00000000000000000000000000.krdc", kept + ".4711", "what.ever"):
        (folder / name).write_text("x")
    daemon.start()
    assert checkpoints(daemon) == [kept]


def solving_rows(api, job):
    rows = [e["data"] for e in api.events(job["id"]) if e["type"] == "metrics"]
    return [r for r in rows if r["phase"] == "iterating"]


def test_time_budget_spans_a_pause(daemons):
    daemon = daemons()
    api = daemon.api
    spec = spec_of(api, stop={**STOP, "max_iterations": 10**6, "time_budget_s": 5.0})
    job = hold(api, spec, "parts")
    before = len(solving_rows(api, job))
    time.sleep(5)  # no wait, but the pause itself: as long as the budget, of which it costs nothing
    resume(api, job)
    done = api.wait(job["id"])
    assert (done["reason"], done["attempt"]) == ("time_budget", 1)
    rows = solving_rows(api, job)
    assert len(rows) > before and rows[before]["elapsed_s"] < 5.0
    iterations = [r["iteration"] for r in rows]
    assert iterations == sorted(iterations)


def test_the_interval(daemons):
    daemon = daemons(checkpoint_interval_s=3600)
    job = daemon.api.create("m", **spec_of(daemon.api))
    wait_iteration(daemon.api, job, 50)
    assert checkpoints(daemon) == []
    daemon.api.wait(job["id"])


def test_a_worker_without_a_daemon(daemons, tmp_path):
    """krrd-worker --job: SIGTERM keeps a checkpoint, the next run takes it up."""
    import subprocess

    import daemon as programs
    daemon = daemons()
    spec = spec_of(daemon.api)
    dataset = daemon.data_dir / "datasets" / f"{spec['dataset']}.krds"
    order = tmp_path / "order.json"
    kept = tmp_path / "kept.krdc"
    order.write_text(json.dumps({"job": "job_1", "spec": {"model": "m", **spec},
                                 "dataset_path": str(dataset), "checkpoint_path": str(kept)}))

    def run(model):
        return subprocess.Popen(
            [programs.program("KRRD_TEST_WORKER", "src/worker/krrd-worker"), "--job", str(order),
             "--model", str(tmp_path / model), "--threads", "1"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    whole = run("whole")
    assert whole.wait(60) == 0 and not kept.exists()
    whole.stdout.close()
    first = run("parts")
    for line in first.stdout:
        event = json.loads(line)
        if event.get("type") == "metrics" and event["data"]["iteration"] >= 20:
            first.send_signal(signal.SIGTERM)
            break
    last = json.loads(first.stdout.readlines()[-1])
    assert last["reason"] == "paused" and last["model"] is None
    first.wait(60)
    assert kept.exists()
    second = run("parts")
    output, _ = second.communicate(timeout=60)
    assert "Resumed from the checkpoint" in output
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
