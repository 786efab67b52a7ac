"""What an operator does beside a running daemon: krrd backup, krrd check."""

import json
import sqlite3
import subprocess
import threading

import daemon as programs
import data


def krrd(*words):
    command = [programs.program("KRRD_TEST_DAEMON", "src/server/krrd"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def check(folder):
    answer = krrd("check", "--data-dir", folder)
    found = json.loads(answer.stdout)
    assert answer.returncode == (0 if found["ok"] else 1), answer.stderr
    assert found["ok"] == (found["problems"] == [])
    return found


def fill(daemon):
    X, y = data.regression(60)
    dataset = daemon.api.upload_npz(X, y)
    daemon.api.train("m", dataset)
    return X, dataset


def test_backup_of_a_running_daemon(daemons, tmp_path):
    """Taken while jobs are being written, it is one state of the database, and a daemon runs on it."""
    daemon = daemons()
    api = daemon.api
    X, dataset = fill(daemon)
    before = api.predict("m", X).text
    ended = threading.Event()
    created = []

    def submit():
        while not ended.is_set() and len(created) < 300:
            created.append(api.create("later", dataset)["id"])

    writer = threading.Thread(target=submit)
    writer.start()
    try:
        copies = []
        for i in range(3):
            copies.append(tmp_path / f"copy-{i}.db")
            answer = krrd("backup", copies[-1], "--data-dir", daemon.data_dir)
            assert (answer.returncode, answer.stderr) == (0, "")
            assert json.loads(answer.stdout) == {"ok": True, "file": str(copies[-1])}
    finally:
        ended.set()
        writer.join()
    counts = []
    for copy in copies:
        with sqlite3.connect(copy) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            counts.append(db.execute("SELECT count(*) FROM jobs").fetchone()[0])
            assert db.execute("SELECT count(*) FROM jobs j WHERE last_event != "
                              "(SELECT count(*) FROM events e WHERE e.job = j.key)").fetchone() == (0,)
    assert counts == sorted(counts) and counts[0] >= 1
    assert sorted(tmp_path.glob("copy-*")) == copies  # nothing beside them

    assert daemon.stop() == 0
    for name in ("krrd.db", "krrd.db-wal", "krrd.db-shm"):
        (daemon.data_dir / name).unlink(missing_ok=True)
    copies[0].rename(daemon.data_dir / "krrd.db")
    daemon.start()
    assert daemon.api.predict("m", X).text == before


def test_backup_replaces_nothing(daemons, tmp_path):
    daemon = daemons()
    there = tmp_path / "there"
    there.write_text("kept")
    answer = krrd("backup", there, "--data-dir", daemon.data_dir)
    assert answer.returncode == 1 and "exists already" in answer.stderr
    assert there.read_text() == "kept"
    answer = krrd("backup", tmp_path / "no" / "such", "--data-dir", daemon.data_dir)
    assert answer.returncode == 1
    answer = krrd("backup", tmp_path / "new", "--data-dir", tmp_path / "nothing")
    assert answer.returncode == 1 and "no database" in answer.stderr
    assert not (tmp_path / "new").exists() and not (tmp_path / "nothing").exists()
    assert krrd("backup").returncode == 2
    assert krrd("backup", tmp_path / "new", "--no-such-option", "1").returncode == 2


def test_check_of_a_sound_folder(daemons):
    daemon = daemons()
    fill(daemon)
    sound = {"ok": True, "datasets": 1, "models": 1, "problems": []}
    assert check(daemon.data_dir) == sound  # while it runs
    daemon.kill()
    assert check(daemon.data_dir) == sound
    daemon.start()
    assert daemon.stop() == 0
    assert check(daemon.data_dir) == sound


def test_check_finds_damage(daemons, tmp_path):
    daemon = daemons()
    _, dataset = fill(daemon)
    assert daemon.stop() == 0
    path = daemon.data_dir / "datasets" / f"{dataset}.krds"
    image = path.read_bytes()

    path.write_bytes(image[:-8])
    problem, = check(daemon.data_dir)["problems"]
    assert (problem["kind"], problem["id"]) == ("dataset", dataset)
    path.unlink()
    problem, = check(daemon.data_dir)["problems"]
    assert (problem["kind"], problem["id"]) == ("dataset", dataset)
    path.write_bytes(image)
    assert check(daemon.data_dir)["ok"]

    db = sqlite3.connect(daemon.data_dir / "krrd.db")
    key, chunk = db.execute("SELECT rowid, data FROM model_chunks").fetchone()
    flipped = bytes([chunk[0] ^ 1]) + chunk[1:]
    db.execute("UPDATE model_chunks SET data = ? WHERE rowid = ?", (flipped, key))
    db.execute("UPDATE datasets SET rows = rows + 1")
    db.commit()
    problems = {p["kind"]: p for p in check(daemon.data_dir)["problems"]}
    assert set(problems) == {"dataset", "model"}
    assert problems["model"]["id"] == "m/1" and "digest" in problems["model"]["detail"]
    assert "rows and columns" in problems["dataset"]["detail"]
    db.execute("UPDATE model_chunks SET data = ? WHERE rowid = ?", (chunk[:-1], key))
    db.execute("UPDATE datasets SET rows = rows - 1")
    db.commit()
    db.close()
    problem, = check(daemon.data_dir)["problems"]
    assert "not as long" in problem["detail"]

    (daemon.data_dir / "krrd.db").write_bytes(b"no database at all" * 1000)
    for name in ("krrd.db-wal", "krrd.db-shm"):
        (daemon.data_dir / name).unlink(missing_ok=True)
    problem, = check(daemon.data_dir)["problems"]
    assert problem["kind"] == "database"
    assert check(tmp_path / "nothing")["problems"][0]["detail"] == "There is no database there."


def make_old(path, filled=0):
    """A database as they were made before, which gives no page back by itself."""
    db = sqlite3.connect(path)
    db.executescript("PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = NONE; VACUUM;"
                     f"CREATE TABLE filling (data BLOB); INSERT INTO filling VALUES (zeroblob({filled}));"
                     "DROP TABLE filling;")
    db.close()


def test_a_database_that_could_not_be_written_anew_is_told_of(daemons):
    daemon = daemons()
    assert daemon.stop() == 0
    path = daemon.data_dir / "krrd.db"
    make_old(path)
    reader = sqlite3.connect(path)
    reader.execute("PRAGMA journal_mode = WAL")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM jobs").fetchone()
    daemon.start()
    assert daemon.log().count("storage.not_rewritten") == 1
    line, = (line for line in daemon.log().splitlines() if "storage.not_rewritten" in line)
    assert json.loads(line)["code"] == "busy"
    assert daemon.stop() == 0
    reader.close()
    daemon.start()
    assert daemon.log().count("storage.not_rewritten") == 1
    assert daemon.stop() == 0
    assert check(daemon.data_dir)["ok"]


def test_compact(daemons, tmp_path):
    daemon = daemons()
    X, _ = fill(daemon)
    before = daemon.api.predict("m", X).text
    answer = krrd("compact", "--data-dir", daemon.data_dir)
    assert answer.returncode == 1 and "Another daemon" in answer.stderr
    assert daemon.stop() == 0
    path = daemon.data_dir / "krrd.db"
    make_old(path, 4000000)
    size = path.stat().st_size
    answer = krrd("compact", "--data-dir", daemon.data_dir)
    assert answer.returncode == 0, answer.stderr
    after = path.stat().st_size
    assert json.loads(answer.stdout) == {"ok": True, "bytes_before": size, "bytes_after": after}
    assert after <= size - 3900000
    assert not list(daemon.data_dir.glob("krrd.db-new"))
    assert check(daemon.data_dir)["ok"]
    daemon.start()
    assert daemon.api.predict("m", X).text == before
    answer = krrd("compact", "--data-dir", tmp_path / "nothing")
    assert answer.returncode == 1 and "no database" in answer.stderr


def test_an_end_while_a_worker_starts(daemons, tmp_path):
    """The loop goes on until the worker is gone, with all that its timers need."""
    slow = tmp_path / "slow-worker"
    slow.write_text("#!/bin/sh\nsleep 1.5\nexec "
                    f"{programs.program('KRRD_TEST_WORKER', 'src/worker/krrd-worker')} \"$@\"\n")
    slow.chmod(0o755)
    daemon = daemons(worker_program=slow)
    assert daemon.stop() == 0, daemon.log()[-2000:]
