"""A short run of chaos.py, and that its checker notices what it should."""

import copy

import pytest

import chaos
import history


def test_a_short_run(tmp_path):
    log = chaos.Chaos(tmp_path, kills=20, seed=1).run()
    assert history.check(log) == []
    assert sum(e["op"] == "ended" for e in log) >= 4
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
    ("checked", lambda e: e.update(op="nothing")),
    ("checked", lambda e: e["answer"].update(ok=False)),
])
def test_an_impossible_history(part, change):
    log = sound()
    change(log[part])
    assert history.check(log.values()) != []
