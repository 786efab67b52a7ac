"""A data directory that is full, locked, read-only, or becomes so: clear errors, nothing lost."""

import collections
import concurrent.futures
import contextlib
import gzip
import os
import pathlib
import socket
import sqlite3
import subprocess
import time

import pytest

import contract
import daemon as daemon_module
import data
import disks
import sse
from raw import Raw

STOP = {"tolerance": 1e-15, "max_iterations": 10**6}
PLAIN = {"name": "pcg", "preconditioner": "none"}


@pytest.fixture
def small(tmp_path):
    """small(8, option=…) starts a daemon on a disk of 8 MiB."""
    with contextlib.ExitStack() as stack:

        def start(mib, **options):
            folder = tmp_path / "small"
            folder.mkdir()
            stack.enter_context(disks.tmpfs(folder / "data", mib))
            daemon = daemon_module.Daemon(folder, **{"min_free_bytes": 0, **options})
            stack.callback(daemon.close)
            return daemon

        yield start


def wait_until(fits, what, timeout=120):
    end = time.monotonic() + timeout
    while not fits():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def ready(api):
    """None when it is ready, else why it is not."""
    answer = api.request("GET", "/v2/health/ready")
    assert answer.status_code == (200 if answer.json()["ready"] else 503)
    return None if answer.ok else answer.json()["reason"]


def wait_ready(api):
    wait_until(lambda: ready(api) is None, "not ready")


def fill_below(daemon, leave):
    """Fills the disk until the server counts it as full for good: it first gives the database's log
    back, and what is free in the database."""
    full_since = None
    while full_since is None or time.monotonic() < full_since + 1.2:
        filler = disks.fill(daemon.data_dir, leave=leave)
        full = ready(daemon.api) == "The storage is full."
        full_since = (full_since or time.monotonic()) if full else None
        time.sleep(0.02)
    return filler


def check_gapless(api, job):
    ids = [e["id"] for e in api.events(job["id"])]
    assert ids == list(range(1, len(ids) + 1))


def check_sound(daemon):
    """`krrd check` finds nothing wrong."""
    answer = subprocess.run([daemon_module.program("KRRD_TEST_DAEMON", "src/server/krrd"), "check",
                             "--data-dir", daemon.data_dir], capture_output=True, check=False)
    assert answer.returncode == 0, answer.stdout


def problem(answer, status, code):
    assert answer.status_code == status, answer.text
    found = answer.json()
    assert found["code"] == code, found
    return found


def long_spec(api, seconds, n=500):
    """Trains for so long, whatever the machine; its steps are short, so that it is under way soon."""
    X, y = data.regression(n, d=6, seed=99)
    return {"dataset": api.upload_npz(X, y), "solver": PLAIN, "regularization": 1e-13,
            "kernel": {"name": "gaussian", "bandwidth": 3.0}, "test": {"fraction": 0},
            "stop": {**STOP, "time_budget_s": seconds}}


# ---- full ----


def test_an_upload_that_does_not_fit(small):
    daemon = small(8)
    api = daemon.api
    X, y = data.regression(10)
    first = api.upload_npz(X, y)

    def body():
        for _ in range(1000):
            yield b"1,2,3,4\n" * 8192

    found = problem(api.request("POST", "/v1/datasets", data=body(),
                                headers={"Content-Type": "text/csv"}), 507, "disk_full")
    assert "full" in found["detail"]
    wait_until(lambda: list((daemon.data_dir / "tmp").iterdir()) == [], "leftovers")
    assert [p.stem for p in (daemon.data_dir / "datasets").iterdir()] == [first]
    assert [d["id"] for d in api.get("/v1/datasets").json()["data"]] == [first]
    wait_ready(api)
    api.train("m", first)


def test_an_export_that_does_not_fit(small):
    daemon = small(12)
    api = daemon.api
    X, y = data.regression(2000, d=20)
    api.train("m", api.upload_npz(X, y), test={"fraction": 0})
    path = "/v1/models/m/versions/1/export"
    filler = disks.fill(daemon.data_dir, leave=65536)
    problem(api.request("GET", path), 507, "disk_full")
    operation = contract.DOCUMENT["paths"]["/v1/models/{name}/versions/{version}/export"]["get"]
    assert "507" in operation["responses"]
    filler.unlink()
    wait_until(lambda: list((daemon.data_dir / "tmp").iterdir()) == [], "leftovers")
    assert len(api.get(path).content) > 2000 * 20 * 8


def in_pieces(body):
    for at in range(0, len(body), 1 << 18):
        yield body[at:at + (1 << 18)]


def test_imports_and_exports_leave_the_reserve(small):
    """Also where the size is not announced: refused block by block."""
    daemon = small(32, min_free_bytes=8 << 20)
    api = daemon.api
    api.train("m", **wide_spec(api))
    body = api.get("/v1/models/m/versions/1/export").content
    path = "/v1/models/m/import"
    kind = {"Content-Type": "application/vnd.safetensors"}
    left = []
    while not left or left[-1][0] == 201:
        answer = api.request("POST", path, data=in_pieces(body), headers=kind)
        left.append((answer.status_code, disks.free_bytes(daemon.data_dir)))
    assert len(left) > 1 and min(free for _, free in left) > 7 << 20, left
    assert "--min-free-bytes" in problem(answer, 507, "disk_full")["detail"]
    assert answer.headers["Retry-After"] == "60"
    large = b"x" * (12 << 20)
    problem(api.request("POST", path, data=large, headers=kind), 507, "disk_full")
    for _ in range(5):  # an export may have the log cut, and then find room
        disks.fill(daemon.data_dir, leave=(8 << 20) + len(body))
        answer = api.request("GET", "/v1/models/m/versions/1/export")
        if answer.status_code != 200:
            break
    assert "--min-free-bytes" in problem(answer, 507, "disk_full")["detail"]
    assert disks.free_bytes(daemon.data_dir) > 7 << 20
    (daemon.data_dir / "filler").unlink(missing_ok=True)
    wait_until(lambda: list((daemon.data_dir / "tmp").iterdir()) == [], "leftovers")
    check_sound(daemon)


def test_an_export_counts_until_it_is_taken(daemons):
    daemon = daemons()
    X, y = data.regression(1500, d=1000)
    daemon.api.train("m", daemon.api.upload_npz(X, y), kernel="linear", solver="cholesky")
    path = "/v1/models/m/versions/1/export"
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            slow = stack.enter_context(Raw(daemon.base))
            slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.request("GET", path)
            assert slow.until(b"\r\n").endswith(b"200 OK")
        answer = daemon.api.request("GET", path)
        problem(answer, 503, "busy")
        assert int(answer.headers["Retry-After"]) >= 1
    wait_until(lambda: daemon.api.request("GET", path).status_code == 200, "places are not given back")


def test_an_announced_size_is_refused_before_it_is_sent(small):
    api = small(8, min_free_bytes=2 << 20).api
    found = problem(api.request("POST", "/v1/datasets", data=b"1" * (7 << 20),
                                headers={"Content-Type": "text/csv"}), 507, "disk_full")
    assert "--min-free-bytes" in found["detail"]
    wait_ready(api)


def test_below_the_reserve_nothing_begins(small):
    """Reading and predicting go on, and so does what has begun."""
    daemon = small(16, min_free_bytes=2 << 20)
    api = daemon.api
    X, y = data.regression(50)
    dataset = api.upload_npz(X, y)
    api.train("m", dataset)
    answers = api.predict("m", X).text
    running = api.create("long", **long_spec(api, 6))
    api.wait_running(running["id"])
    filler = fill_below(daemon, (2 << 20) - 65536)
    for _ in range(3):
        found = problem(api.request("POST", "/v1/jobs", json={"model": "n", "dataset": dataset}),
                        507, "disk_full")
        assert "storage is full" in found["detail"]
        problem(api.request("POST", "/v1/datasets", data=data.npz(X, y),
                            headers={"Content-Type": "application/x-npz"}), 507, "disk_full")
    wait_until(lambda: ready(api) == "The storage is full.", ready(api))
    assert "storage.trouble" in daemon.log()
    assert api.predict("m", X).text == answers
    filler.unlink()
    wait_ready(api)
    assert api.wait(running["id"])["attempt"] == 1
    api.train("n", dataset)
    assert "storage.recovered" in daemon.log()


def sparse():
    """A thousand rows of 4,001 columns: 32 MB."""
    return b"1 4000:2\n" + b"0 2:1\n" * 999, {"Content-Type": "text/x-libsvm"}, {"task": "regression"}


def packed():
    """29 MB, and the data set of it."""
    body = gzip.compress(b"x,y\n" + b"1.000000000000,2.50000000000\n" * 10**6)
    return body, {"Content-Type": "text/csv", "Content-Encoding": "gzip"}, {}


def spread():
    """2,000 rows of 2,001 columns, all but one of them made of texts: 32 MB."""
    rows = "".join(f"t{i % 1000},u{i % 1000},{i}.5\n" for i in range(2000))
    return f"c,d,y\n{rows}".encode(), {"Content-Type": "text/csv"}, {"one_hot": "true"}


@pytest.mark.parametrize("kind", [sparse, packed, spread])
def test_what_an_upload_becomes_leaves_the_reserve(small, kind):
    """However short it is itself."""
    daemon = small(32, min_free_bytes=8 << 20)
    api = daemon.api
    body, headers, query = kind()
    lowest = disks.free_bytes(daemon.data_dir)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(api.request, "POST", "/v1/datasets", data=body, params=query, headers=headers)
        while not answer.done():
            lowest = min(lowest, disks.free_bytes(daemon.data_dir))
    found = problem(answer.result(), 507, "disk_full")
    assert "--min-free-bytes" in found["detail"]
    assert lowest >= (8 << 20) - (256 << 10), lowest  # the database has grown as well
    wait_until(lambda: list((daemon.data_dir / "tmp").iterdir()) == [], "leftovers")
    assert list((daemon.data_dir / "datasets").iterdir()) == []
    assert ready(api) != "The storage is full."
    wait_ready(api)  # its worker may be slower than the upload
    api.upload(b"x,y\n" + b"1,2.5\n" * 1000)


def test_every_acknowledged_job_is_kept(small):
    """Down to the last page of the disk."""
    daemon = small(8, workers="cpu:0", max_queue=100000)
    api = daemon.api
    X, y = data.regression(10)
    dataset = api.upload_npz(X, y)
    disks.fill(daemon.data_dir)
    accepted = []
    refused = 0
    while refused < 5:
        answer = api.request("POST", "/v1/jobs", json={
            "model": "m", "dataset": dataset, "metadata": {"filling": "x" * 400}})
        if answer.status_code == 202:
            accepted.append(answer.json()["id"])
            assert len(accepted) < 5000
        else:
            problem(answer, 507, "disk_full")
            refused += 1
    assert ready(api) is not None
    for job_id in accepted:
        assert api.job(job_id)["status"] == "queued"
    (daemon.data_dir / "filler").unlink()
    wait_until(lambda: ready(api) != "The storage is full.", ready(api))
    more = api.create("m", dataset)
    assert daemon.kill() != 0
    daemon.start()
    api = daemon.api
    for job_id in [*accepted, more["id"]]:
        assert api.job(job_id)["status"] == "queued"
    check_sound(daemon)


def test_training_through_a_full_disk(small):
    """Events, checkpoints and the end of a job wait for room: the job is not trained again."""
    daemon = small(8, checkpoint_interval_s=0.2)
    api = daemon.api
    job = api.create("m", **long_spec(api, 4))
    api.wait_running(job["id"])
    filler = disks.fill(daemon.data_dir)
    wait_until(lambda: ready(api) is not None, "it never noticed")
    wait_until(lambda: "job.end_waits" in daemon.log(), daemon.log()[-2000:])
    held = api.job(job["id"])
    assert held["status"] == "running" and held["attempt"] == 1
    api.get("/v1/models/m", 404)
    left = [p.name for p in (daemon.data_dir / "checkpoints").iterdir()]
    assert all(name.endswith(".krdc") for name in left), left
    filler.unlink()
    done = api.wait(job["id"])
    assert (done["status"], done["reason"], done["attempt"]) == ("succeeded", "time_budget", 1)
    wait_ready(api)
    check_gapless(api, job)
    events = api.events(job["id"])
    texts = [e["message"] for e in events if e["level"] == "warning"]
    assert any("checkpoint could not be written" in t for t in texts), texts
    times = [e["created_at"] for e in events if e["type"] == "metrics"]
    assert len(times) >= 8 and times == sorted(times)
    assert api.get("/v1/models/m/versions/1").json()["job"] == job["id"]
    X, _ = data.regression(5, d=6)
    api.predict("m", X)
    check_sound(daemon)


def wide_spec(api):
    """A model of 2 MiB after a moment's training."""
    X, y = data.regression(4000, d=64, seed=3)
    return {"dataset": api.upload_npz(X, y), "solver": PLAIN, "kernel": "gaussian",
            "regularization": 1e-6, "test": {"fraction": 0},
            "stop": {"tolerance": 1e-15, "max_iterations": 2}}


def test_a_model_waits_for_room(small):
    daemon = small(12)
    api = daemon.api
    spec = wide_spec(api)
    disks.fill(daemon.data_dir, leave=1 << 20)
    job = api.create("m", **spec)
    wait_until(lambda: "job.end_waits" in daemon.log(), daemon.log()[-2000:])
    api.get("/v1/models/m", 404)
    (daemon.data_dir / "filler").unlink()
    done = api.wait(job["id"])
    assert (done["status"], done["attempt"]) == ("succeeded", 1)
    check_gapless(api, job)
    check_sound(daemon)


def test_a_model_for_which_there_is_never_room(small):
    """Tried again as often as attempts say, then failed; what it staged is given back."""
    daemon = small(12, storage_wait_s=0.5, retry_delay_s=0.1, min_free_bytes=1 << 20)
    api = daemon.api
    spec = wide_spec(api)
    disks.fill(daemon.data_dir, leave=3 << 20)
    job = api.create("m", max_attempts=2, **spec)
    done = api.wait(job["id"])
    assert (done["status"], done["reason"], done["attempt"]) == ("failed", "disk_full", 2)
    assert (done["error"]["code"], done["error"]["status"]) == ("disk_full", 507)
    seen = [(e["data"]["status"], e["data"]["reason"]) for e in api.events(job["id"])
            if e["type"] == "status"]
    assert ("queued", "disk_full") in seen
    check_gapless(api, job)
    api.get("/v1/models/m", 404)
    (daemon.data_dir / "filler").unlink()
    wait_ready(api)
    api.train("m", **spec)
    check_sound(daemon)


def test_deleted_models_make_room(small):
    """What the database held goes back to the file system, and so does its log."""
    daemon = small(24, min_free_bytes=4 << 20)
    api = daemon.api
    spec = wide_spec(api)
    for _ in range(3):
        api.train("m", **spec)
    fill_below(daemon, 3 << 20)
    problem(api.request("POST", "/v1/jobs", json={"model": "n", "dataset": spec["dataset"]}),
            507, "disk_full")
    for version in (1, 2, 3):
        api.delete(f"/v1/models/m/versions/{version}")
    wait_ready(api)
    api.train("m", **spec)
    check_sound(daemon)


def run_krrd(*words):
    return subprocess.run([daemon_module.program("KRRD_TEST_DAEMON", "src/server/krrd"), *words],
                          capture_output=True, text=True, timeout=60, check=False)


def test_a_backup_to_a_full_disk(daemons, tmp_path):
    daemon = daemons()
    X, y = data.regression(2000, d=32)
    daemon.api.train("m", daemon.api.upload_npz(X, y), kernel="linear")
    with disks.tmpfs(tmp_path / "target", 1) as target:
        disks.fill(target, leave=200000)
        answer = run_krrd("backup", target / "copy", "--data-dir", daemon.data_dir)
        assert answer.returncode == 1 and "full" in answer.stderr, answer
        assert [p.name for p in target.iterdir()] == ["filler"]
        (target / "filler").unlink()
    check_sound(daemon)


def test_starting_on_a_full_disk(small):
    daemon = small(8)
    X, y = data.regression(10)
    daemon.api.train("m", daemon.api.upload_npz(X, y))
    assert daemon.stop() == 0
    filler = disks.fill(daemon.data_dir)
    answer = run_krrd("--data-dir", daemon.data_dir, "--listen", "127.0.0.1:0")
    assert answer.returncode == 1
    assert "No space left" in answer.stderr or "full" in answer.stderr, answer.stderr
    filler.unlink()
    daemon.start()
    daemon.api.predict("m", X)


# ---- read-only ----


def test_starting_on_a_read_only_directory(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        if os.geteuid() == 0:  # who may write anywhere but on such a file system
            stack.enter_context(disks.tmpfs(folder, 8))
            answer = disks.run("mount", "-o", "remount,ro", str(folder))
            assert answer.returncode == 0, answer.stderr
        else:
            folder.chmod(0o500)
            stack.callback(folder.chmod, 0o700)
        began = time.monotonic()
        answer = run_krrd("--data-dir", folder, "--listen", "127.0.0.1:0")
        assert answer.returncode == 1 and time.monotonic() - began < 10
        assert "data directory (--data-dir)" in answer.stderr.splitlines()[-1], answer.stderr


@pytest.fixture
def faulty_disk(tmp_path):
    """An ext4 file system of its own that goes read-only at its first error; breaks on a call."""
    image, folder = tmp_path / "image", tmp_path / "broken" / "data"
    with open(image, "wb") as f:
        f.truncate(64 << 20)
    if disks.run("mkfs.ext4", "-q", "-F", "-e", "remount-ro", str(image)).returncode != 0:
        pytest.skip("mkfs.ext4 does not work here")
    disks.mount(folder, "-o", "loop,errors=remount-ro", str(image))
    try:
        device = pathlib.Path(disks.run("findmnt", "-n", "-o", "SOURCE", str(folder)).stdout.strip())
        trigger = pathlib.Path("/sys/fs/ext4") / device.name / "trigger_fs_error"
        if not trigger.exists():
            pytest.skip("this kernel's ext4 has no trigger_fs_error")
        yield folder, lambda: trigger.write_text("broken on purpose")
    finally:
        disks.unmount(folder)


def test_a_disk_that_becomes_read_only(faulty_disk):
    folder, break_it = faulty_disk
    daemon = daemon_module.Daemon(folder.parent, min_free_bytes=0)
    api = daemon.api
    try:
        X, y = data.regression(50)
        dataset = api.upload_npz(X, y)
        api.train("m", dataset)
        answers = api.predict("m", X).text
        running = api.create("long", **long_spec(api, 5))
        api.wait_running(running["id"])
        break_it()
        wait_until(lambda: ready(api) == "The storage is read-only.", ready(api))
        problem(api.request("POST", "/v1/jobs", json={"model": "n", "dataset": dataset}),
                503, "read_only")
        problem(api.request("POST", "/v1/datasets", data=data.npz(X, y),
                            headers={"Content-Type": "application/x-npz"}), 503, "read_only")
        assert api.predict("m", X).text == answers
        assert api.job(running["id"])["status"] == "running"
        wait_until(lambda: "job.end_waits" in daemon.log(), daemon.log()[-2000:])
        assert api.get("/v2/health/live").json()["live"]
    finally:
        daemon.kill()
        daemon.session.close()


# ---- locked ----


@contextlib.contextmanager
def locked(daemon):
    """Another process's write transaction."""
    path = daemon.data_dir / "krrd.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


def test_a_lock_of_another_process_holds_up_nobody(daemons):
    """The loop never waits for it: reads and predictions go on, changes are told to come again."""
    daemon = daemons()
    api = daemon.api
    X, y = data.regression(50)
    dataset = api.upload_npz(X, y)
    api.train("m", dataset)
    answers = api.predict("m", X).text
    running = api.create("long", **long_spec(api, 4))
    api.wait_running(running["id"])
    with locked(daemon):
        took = collections.defaultdict(list)
        end = time.monotonic() + 60
        while "job.end_waits" not in daemon.log() and time.monotonic() < end:
            for path in ("/v1/jobs", "/v2/health/live", f"/v1/jobs/{running['id']}/events"):
                began = time.monotonic()
                api.get(path)
                took[path].append(time.monotonic() - began)
            assert api.predict("m", X).text == answers
            began = time.monotonic()
            answer = api.request("POST", "/v1/jobs", json={"model": "n", "dataset": dataset})
            took["POST"].append(time.monotonic() - began)
            assert "database" in problem(answer, 503, "busy")["detail"]
            assert int(answer.headers["Retry-After"]) >= 1
        # Not the five seconds that SQLite would wait; a slow machine may hold up single ones.
        assert all(min(seconds) < 3.0 for seconds in took.values()), took
        assert ready(api) == "Another process has locked the database."
        assert api.job(running["id"])["status"] == "running"
        assert "job.end_waits" in daemon.log()
    done = api.wait(running["id"])
    assert (done["status"], done["reason"], done["attempt"]) == ("succeeded", "time_budget", 1)
    check_gapless(api, running)
    wait_ready(api)
    api.train("n", dataset)


@pytest.mark.parametrize("how", ["io", "full"])
def test_the_end_of_a_job_is_lost_with_the_claim_of_the_next(daemons, monkeypatch, how):
    """They are one commit. Nobody was told of either; the end is tried again, and no job is trained twice."""
    monkeypatch.setenv("KRRD_TEST_DAEMON", daemon_module.program("KRRD_TEST_UNLUCKY",
                                                                 "tests/http/krrd-unlucky"))
    monkeypatch.setenv("KRRD_TEST_LOSE", f"{how}:2")
    daemon = daemons(min_free_bytes=0)
    api = daemon.api
    spec = long_spec(api, 0.5)
    jobs = [api.create(f"m{i}", **spec) for i in range(3)]
    with sse.listen(api.session, api.url(f"/v1/jobs/{jobs[0]['id']}/events")) as stream:
        ended = [api.wait(job["id"]) for job in jobs]
        heard = stream.events()
    for i, (job, done) in enumerate(zip(jobs, ended)):
        assert (done["status"], done["attempt"]) == ("succeeded", 1)
        check_gapless(api, job)
        told = [e["data"]["status"] for e in api.events(job["id"]) if e["type"] == "status"]
        assert told == ["queued", "running", "succeeded"]
        versions = api.get(f"/v1/models/m{i}").json()["versions"]
        assert [v["job"] for v in versions] == [job["id"]]
        api.predict(f"m{i}", data.regression(3, d=6)[0])
    assert heard == api.events(jobs[0]["id"])
    assert daemon.log().count("a commit was lost") == 2
    assert daemon.log().count("job.end_waits") == 2
    wait_ready(api)
    check_sound(daemon)


def test_stopping_while_an_end_waits(daemons):
    """SIGTERM gives it the time of the drain; what was in vain is trained again."""
    daemon = daemons(drain_timeout_s=30)
    api = daemon.api
    kept = api.create("kept", **long_spec(api, 3))
    api.wait(kept["id"], ("running",))
    with locked(daemon):
        wait_until(lambda: "job.end_waits" in daemon.log(), "never")
        daemon.process.terminate()
        wait_until(lambda: "server.stopping" in daemon.log(), "never")
    assert daemon.ended(60) == 0
    daemon.start(drain_timeout_s=2)
    assert daemon.api.job(kept["id"])["status"] == "succeeded"
    lost = daemon.api.create("lost", **long_spec(daemon.api, 3))
    daemon.api.wait(lost["id"], ("running",))
    with locked(daemon):
        wait_until(lambda: daemon.log().count("job.end_waits") == 2, "never")
        assert daemon.stop() == 0
    daemon.start()
    done = daemon.api.wait(lost["id"])
    assert (done["status"], done["attempt"]) == ("succeeded", 2)
    check_gapless(daemon.api, lost)
