"""A short run of chaos.py, and that its checker notices what it should."""

import copy

import pytest

import chaos
import history


def test_a_short_run(tmp_path):
    log = chaos.Chaos(tmp_path, kills=20, seed=1).run()
    assert history.check(log) == []
    assert sum(e["op"] == "ended" for e in log) >= 4
    assert sum(e["op"] == "moved" for e in log) >= 4 and any(e["op"] == "kept" for e in log)
    assert sum(e["op"] == "uploaded" for e in log) >= 2
    assert any("Resumed from the checkpoint" in event["message"]
               for entry in log if entry["op"] == "events" for event in entry["events"])


def test_a_daemon_that_forgets_events(tmp_path, monkeypatch):
    """The same run with a planted bug: it must not pass."""
    monkeypatch.setenv("KRRD_TEST_DAEMON", chaos.programs.program(
        "KRRD_TEST_FORGETFUL", "tests/chaos/krrd-forgetful"))
    log = chaos.Chaos(tmp_path, kills=2, seed=1).run()
    assert any("gap" in fault for fault in history.check(log))


def status(number, name):
    return {"id": number, "type": "status", "data": {"status": name}}


def sound():
    """A history as it should be: job a succeeds, b is cancelled."""
    done = [status(1, "queued"), status(2, "running"), status(3, "succeeded")]
    gone = [status(1, "queued"), status(2, "cancelled")]
    return {
        "reference": {"op": "reference", "kind": "k", "sha256": "s", "digest": "d"},
        "a": {"op": "submitted", "key": "1", "job": "a", "kind": "k"},
        "again": {"op": "submitted", "key": "1", "job": "a", "kind": "k"},
        "b": {"op": "submitted", "key": "2", "job": "b", "kind": "k"},
        "cancel": {"op": "asked", "job": "b", "what": "cancel", "status": "cancelled"},
        "seen": {"op": "event", "job": "a", "event": copy.deepcopy(done[1])},
        "predicted": {"op": "predicted", "kind": "k", "digest": "d"},
        "end a": {"op": "ended", "job": "a", "document": {"status": "succeeded"}},
        "end b": {"op": "ended", "job": "b", "document": {"status": "cancelled"}},
        "events a": {"op": "events", "job": "a", "events": done},
        "events b": {"op": "events", "job": "b", "events": gone},
        "models": {"op": "models",
                   "models": [{"name": "m", "version": 1, "job": "a", "sha256": "s"}]},
        "versions": {"op": "versions", "digests": {"1": "p", "2": "q"}},
        "made": {"op": "moving", "versions": [1]},
        "made ack": {"op": "moved", "version": 1, "number": 1},
        "lost": {"op": "moving", "versions": [2]},
        "seen 2": {"op": "resolved", "version": 2},
        "lost again": {"op": "moving", "versions": [1]},
        "seen still": {"op": "resolved", "version": 2},
        "back": {"op": "moving", "versions": [1, 2]},
        "back ack": {"op": "moved", "version": 1, "number": 3},
        "end": {"op": "resolved", "version": 1},
        "by alias": {"op": "asked_by", "version": 2, "digest": "q"},
        "kept": {"op": "kept", "version": 1},
        "history": {"op": "history", "moves": [{"number": 3, "from": 2, "to": 1},
                                               {"number": 2, "from": 1, "to": 2},
                                               {"number": 1, "from": None, "to": 1}]},
        "sent": {"op": "uploading", "sha256": "u", "rows": 5},
        "sent and lost": {"op": "uploading", "sha256": "v", "rows": 6},
        "sent and absent": {"op": "uploading", "sha256": "w", "rows": 7},
        "received": {"op": "uploaded", "id": "ds_1", "sha256": "u"},
        "datasets": {"op": "datasets", "datasets": [{"id": "ds_1", "sha256": "u", "rows": 5},
                                                    {"id": "ds_2", "sha256": "v", "rows": 6}]},
        "checked": {"op": "checked", "answer": {"ok": True, "problems": []}},
    }


def test_a_sound_history():
    assert history.check(sound().values()) == []


@pytest.mark.parametrize("part, change", [
    ("again", lambda e: e.update(job="b")),
    ("end a", lambda e: e.update(job="nobody")),
    ("end a", lambda e: e["document"].update(status="running")),
    ("end b", lambda e: e["document"].update(status="succeeded")),
    ("seen", lambda e: e["event"].update(id=4)),
    ("seen", lambda e: e["event"]["data"].update(status="paused")),
    ("events a", lambda e: e["events"].pop(1)),
    ("events a", lambda e: e["events"].insert(1, e["events"][0])),
    ("events a", lambda e: e["events"].append(status(4, "succeeded"))),
    ("events a", lambda e: e["events"].append(status(4, "running"))),
    ("events a", lambda e: e["events"].clear()),
    ("models", lambda e: e["models"].clear()),
    ("models", lambda e: e["models"].append(e["models"][0])),
    ("models", lambda e: e["models"][0].update(sha256="t")),
    ("models", lambda e: e["models"][0].update(job="b")),
    ("predicted", lambda e: e.update(digest="e")),
    ("seen 2", lambda e: e.update(version=3)),
    ("seen still", lambda e: e.update(version=3)),
    ("end", lambda e: e.update(version=2)),
    ("lost", lambda e: e.update(versions=[])),
    ("back ack", lambda e: e.update(number=2)),
    ("made ack", lambda e: e.update(number=3, version=2)),
    ("back ack", lambda e: e.update(number=4)),
    ("by alias", lambda e: e.update(digest="p")),
    ("by alias", lambda e: e.update(version=3)),
    ("kept", lambda e: e.update(version=None)),
    ("history", lambda e: e["moves"].pop(1)),
    ("history", lambda e: e["moves"].pop(0)),
    ("history", lambda e: e["moves"][0].update(to=2)),
    ("received", lambda e: e.update(sha256="v")),
    ("received", lambda e: e.update(id="ds_9")),
    ("datasets", lambda e: e["datasets"].pop(0)),
    ("datasets", lambda e: e["datasets"][0].update(sha256="t")),
    ("datasets", lambda e: e["datasets"][1].update(sha256="t")),
    ("datasets", lambda e: e["datasets"][1].update(rows=3)),
    ("checked", lambda e: e.update(op="nothing")),
    ("checked", lambda e: e["answer"].update(ok=False)),
])
def test_an_impossible_history(part, change):
    log = sound()
    change(log[part])
    assert history.check(log.values()) != []
