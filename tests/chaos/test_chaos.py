"""A short run of chaos.py, and that its checker notices what it should."""

import copy

import pytest

import chaos
import history


def seen(log):
    """What has to happen for the checks to mean anything."""
    def of(op):
        return [e for e in log if e["op"] == op]

    ended = [e["document"] for e in of("ended")]
    decided = [d["promotion"]["promoted"] for d in ended if d["promotion"]]
    told = [e["id"] for e in of("told")]
    return {name for name, happened in {
        "ends": len(ended) >= 4,
        "moves": len(of("moved")) >= 4 and len(of("kept")) > 0,
        "uploads": len(of("uploaded")) >= 2,
        "resumptions": any("Resumed from the checkpoint" in event["message"]
                           for entry in of("events") for event in entry["events"]),
        "promotions": True in decided,
        "closed gates": False in decided,
        "messages sent again": len(told) > len(set(told)) >= 4,
    }.items() if happened}


def test_short_runs(tmp_path):
    """Until everything has happened that can; what happens within one depends on the machine."""
    missing = {"ends", "moves", "uploads", "resumptions", "promotions", "closed gates",
               "messages sent again"}
    for seed in range(1, 6):
        folder = tmp_path / str(seed)
        folder.mkdir()
        log = chaos.Chaos(folder, kills=20, seed=seed, jobs=20).run()
        assert history.check(log) == []
        missing -= seen(log)
        if not missing:
            return
    raise AssertionError(f"never happened: {missing}")


@pytest.mark.parametrize("name, said", [
    ("forgetful", "gap"),
    ("ungated", "gate of"),
    ("restless", "no move, or several"),
    ("silent", "not told to who asked"),
    ("renaming", "other ids than one"),
])
def test_a_daemon_with_a_planted_bug(tmp_path, monkeypatch, name, said):
    """The same run with a build that is wrong on purpose: it must not pass."""
    monkeypatch.setenv("KRRD_TEST_DAEMON", chaos.programs.program(
        f"KRRD_TEST_{name.upper()}", f"tests/chaos/krrd-{name}"))
    run = chaos.Chaos(tmp_path, kills=2, seed=1, jobs=12, kinds=chaos.GATED_KINDS)
    faults = history.check(run.run())
    assert any(said in fault for fault in faults), faults


def status(number, name):
    return {"id": number, "type": "status", "data": {"status": name}}


def told(status=200, **change):
    """A message of job c."""
    data = {"id": "c", "status": "succeeded", "model_version": 1, "result": {"metrics": {"smape": 0.1}}}
    return {"op": "told", "id": "msg_c", "status": status, "signed": True,
            "body": {"type": "job.succeeded", "data": {**data, **change}}}


def promoted(job, version, before, smape, **more):
    """A job that asked for `best`, and how it ended."""
    decision = {"alias": "best", "promoted": True, "from": before, "to": version}
    return ({"op": "ended", "job": job, "document": {
                "status": "succeeded", "model_version": version, "promotion": decision,
                "webhook": None, "result": {"metrics": {"smape": smape}}, **more}},
            {"op": "events", "job": job, "events": [
                status(1, "queued"), {"id": 2, "type": "message", "data": copy.deepcopy(decision)},
                status(3, "succeeded")]})


def gated():
    """Job c is promoted and told of, d is better and promoted, e is not."""
    better = {"alias": "best", "if": {"smape": {"lt": "current"}}}
    end_c, events_c = promoted("c", 1, None, 0.1, webhook={"id": "msg_c", "state": "delivered"})
    end_d, events_d = promoted("d", 2, 1, 0.05)
    end_e, events_e = promoted("e", 3, 2, 0.07)
    for part in (end_e["document"]["promotion"], events_e["events"][1]["data"]):
        part.update(promoted=False)
    move = {"kind": "promotion"}
    return {
        "c": {"op": "submitted", "key": "3", "job": "c", "kind": "k", "gate": {"alias": "best"},
              "ends": ["succeeded"]},
        "d": {"op": "submitted", "key": "4", "job": "d", "kind": "k", "gate": better, "ends": ["failed"]},
        "e": {"op": "submitted", "key": "5", "job": "e", "kind": "k", "gate": better, "ends": None},
        "end c": end_c, "events c": events_c, "end d": end_d, "events d": events_d,
        "end e": end_e, "events e": events_e,
        "versions gated": {"op": "models", "models": [
            {"name": "gated", "version": v, "job": j, "sha256": "s"} for v, j in ((1, "c"), (2, "d"), (3, "e"))]},
        "moves": {"op": "gated_history", "alias": "best", "moves": [
            {"number": 2, "from": 1, "to": 2, "job": "d", **move},
            {"number": 1, "from": None, "to": 1, "job": "c", **move}]},
        "stood": {"op": "standing", "alias": "best", "version": 1, "number": 1, "status": "succeeded"},
        "stands": {"op": "standing", "alias": "best", "version": 2, "number": 2, "status": None},
        "asked": {"op": "asked_gated", "version": 2, "digest": "d"},
        "refused": told(status=500),
        "taken": told(),
    }


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
        **gated(),
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
    ("moves", lambda e: e["moves"].pop(0)),
    ("moves", lambda e: e["moves"].insert(0, {**e["moves"][0], "number": 3, "from": 2})),
    ("moves", lambda e: e["moves"].insert(0, e["moves"][0])),
    ("moves", lambda e: e["moves"][0].update(job="e")),
    ("moves", lambda e: e["moves"][0].update(to=3)),
    ("moves", lambda e: e["moves"][0].update(kind="set")),
    ("moves", lambda e: e["moves"].insert(0, {"number": 3, "from": 2, "to": 3, "job": "x", "kind": "promotion"})),
    ("end d", lambda e: e["document"]["promotion"].update(promoted=False)),
    ("end d", lambda e: e["document"].update(promotion=None)),
    ("end d", lambda e: e["document"]["result"]["metrics"].update(smape=0.2)),
    ("end e", lambda e: e["document"]["promotion"].update(promoted=True)),
    ("end e", lambda e: e["document"]["result"]["metrics"].update(smape=0.01)),
    ("end b", lambda e: e["document"].update(promotion={"promoted": False})),
    ("events d", lambda e: e["events"][1].update(data={"promoted": False})),
    ("d", lambda e: e.update(gate=None)),
    ("c", lambda e: e.update(gate={"alias": "worst"})),
    ("stood", lambda e: e.update(version=2)),
    ("stood", lambda e: e.update(number=2, version=2, status="running")),
    ("stands", lambda e: e.update(number=3)),
    ("asked", lambda e: e.update(digest="e")),
    ("taken", lambda e: e.update(status=503)),
    ("taken", lambda e: e.update(id="msg_d")),
    ("taken", lambda e: e.update(signed=False)),
    ("taken", lambda e: e["body"].update(type="job.failed")),
    ("taken", lambda e: e["body"]["data"].update(id="d")),
    ("taken", lambda e: e["body"]["data"].update(id="nobody")),
    ("refused", lambda e: e["body"]["data"].update(model_version=2)),
    ("c", lambda e: e.update(ends=["failed"])),
    ("c", lambda e: e.update(ends=None)),
    ("d", lambda e: e.update(ends=["succeeded"])),
    ("end c", lambda e: e["document"].update(webhook=None)),
    ("end c", lambda e: e["document"]["webhook"].update(state="pending")),
    ("end c", lambda e: e["document"]["webhook"].update(id="msg_d")),
    ("checked", lambda e: e.update(op="nothing")),
    ("checked", lambda e: e["answer"].update(ok=False)),
])
def test_an_impossible_history(part, change):
    log = sound()
    change(log[part])
    assert history.check(log.values()) != []
