"""What an operator does beside a running daemon: krrd backup, krrd check."""

import hashlib
import json
import sqlite3
import struct
import subprocess
import threading

import pytest

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


def test_backup_replaces_an_earlier_one(daemons, tmp_path):
    """As that of every night does; whole, and not written into the file that is there."""
    daemon = daemons()
    copy, kept = tmp_path / "copy.db", tmp_path / "kept.db"
    copy.touch()
    for jobs in range(2):
        assert krrd("backup", copy, "--data-dir", daemon.data_dir).returncode == 0
        with sqlite3.connect(copy) as db:
            assert db.execute("SELECT count(*) FROM jobs").fetchone() == (jobs,)
        if jobs == 0:
            kept.hardlink_to(copy)
            fill(daemon)
    with sqlite3.connect(kept) as db:
        assert db.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
    assert sorted(tmp_path.glob("*.db*")) == [copy, kept]


@pytest.mark.parametrize("running", [True, False])
def test_backup_never_replaces_a_database_in_use(daemons, running):
    """Not the one that it copies, nor another daemon's, whether they run or not."""
    daemon, other = daemons(), daemons()
    fill(daemon)
    if not running:
        assert daemon.stop() == other.stop() == 0
    for target in (daemon, other):
        path = target.data_dir / "krrd.db"
        inode = path.stat().st_ino
        answer = krrd("backup", path, "--data-dir", daemon.data_dir)
        assert answer.returncode == 1 and "database in use" in answer.stderr
        assert path.stat().st_ino == inode and check(target.data_dir)["ok"]


def test_backup_replaces_nothing_else(daemons, tmp_path):
    daemon = daemons()
    there = tmp_path / "there"
    there.write_text("kept")
    answer = krrd("backup", there, "--data-dir", daemon.data_dir)
    assert answer.returncode == 1 and "exists already" in answer.stderr
    assert there.read_text() == "kept"
    with sqlite3.connect(tmp_path / "foreign") as db:
        db.execute("CREATE TABLE recipes (name TEXT)")
    (tmp_path / "link").symlink_to(there)
    for name, said in (("foreign", "not a backup"), ("link", "not a file"), (".", "not a file")):
        answer = krrd("backup", tmp_path / name, "--data-dir", daemon.data_dir)
        assert answer.returncode == 1 and said in answer.stderr
    with sqlite3.connect(tmp_path / "foreign") as db:
        assert db.execute("SELECT count(*) FROM recipes").fetchone() == (0,)
    assert (tmp_path / "link").is_symlink() and there.read_text() == "kept"
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


def changed(image, at, byte):
    image = bytearray(image)
    image[at] = byte
    return bytes(image)


def test_check_of_data_sets_without_a_digest(daemons):
    """Files of the first versions have none: what is no number is still found, and what is no class."""
    daemon = daemons()
    X, labels = data.classification(60)
    dataset = daemon.api.upload_npz(X, labels)
    assert daemon.stop() == 0
    path = daemon.data_dir / "datasets" / f"{dataset}.krds"
    image = path.read_bytes().replace(b'"sha256":', b'"sha-56":')
    assert image != path.read_bytes()
    for value, told in ((1.0, None), (3.0, "no class"), (0.5, "no class"), (float("nan"), "no number")):
        number = struct.pack("<d" if b'"F64"' in image else "<f", value)
        path.write_bytes(image[:-len(number)] + number)
        problems = check(daemon.data_dir)["problems"]
        assert len(problems) == (told is not None)
        assert not told or "Row 60" in problems[0]["detail"] and told in problems[0]["detail"]


def test_check_opens_models(daemons):
    """Also where bytes and digest agree: that of a file which no worker would take, and of another model."""
    daemon = daemons()
    fill(daemon)
    assert daemon.stop() == 0
    db = sqlite3.connect(daemon.data_dir / "krrd.db")
    (file, description), = db.execute("SELECT data, m.description FROM model_chunks c JOIN models m ON m.key = c.model")

    def put(file, description):
        db.execute("UPDATE model_chunks SET data = ?", (file,))
        db.execute("UPDATE models SET sha256 = ?, description = ?", (hashlib.sha256(file).hexdigest(), description))
        db.commit()
        return check(daemon.data_dir)["problems"]

    problem, = put(file.replace(b'"coef"', b'"koef"'), description)
    assert (problem["kind"], problem["id"]) == ("model", "m/1")
    problem, = put(file[:-8] + struct.pack("<d", float("nan")), description)
    assert (problem["kind"], problem["id"]) == ("model", "m/1")
    for other in ("{}", "{", json.dumps({**json.loads(description), "features": ["one"]})):
        problem, = put(file, other)
        assert "description" in problem["detail"]
    assert put(file, description) == []
    db.close()


def test_check_of_texts(daemons):
    """Descriptions, specs and results go out as they are stored."""
    daemon = daemons()
    _, dataset = fill(daemon)
    job = daemon.api.get("/v1/jobs").json()["data"][0]["id"]
    assert daemon.stop() == 0
    db = sqlite3.connect(daemon.data_dir / "krrd.db")
    for table, column, kind, name in (("datasets", "summary", "dataset", dataset), ("datasets", "info", "dataset", dataset),
                                      ("jobs", "result", "job", job), ("jobs", "spec", "job", job)):
        (text,), = db.execute(f"SELECT {column} FROM {table}")
        for broken in ('{"a":', text + "}"):
            db.execute(f"UPDATE {table} SET {column} = ?", (broken,))
            db.commit()
            problem, = check(daemon.data_dir)["problems"]
            assert (problem["kind"], problem["id"]) == (kind, name)
        db.execute(f"UPDATE {table} SET {column} = ?", (text,))
        db.commit()
    assert check(daemon.data_dir)["problems"] == []
    db.close()


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
    for at, byte, told in ((-8, image[-8] ^ 1, "digest"), (-1, 0x7f, "digest")):
        path.write_bytes(changed(image, at, byte))
        problem, = check(daemon.data_dir)["problems"]
        assert (problem["kind"], problem["id"]) == ("dataset", dataset) and told in problem["detail"]
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
