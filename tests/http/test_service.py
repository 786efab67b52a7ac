"""What a service manager and a log rotation see of the daemon."""

import contextlib
import os
import signal
import socket
import time

import pytest

import wait


@pytest.fixture
def manager(monkeypatch):
    """manager(name): a socket in the place of the service manager's, for daemons that start from now on, that gives
    what it hears."""
    with contextlib.ExitStack() as stack:

        def begin(name):
            listening = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            listening.settimeout(wait.PATIENCE_S)
            listening.bind(name.replace("@", "\0") if name.startswith("@") else name)
            monkeypatch.setenv("NOTIFY_SOCKET", name)
            return lambda: listening.recv(100).decode()

        yield begin


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_the_manager_is_told(daemons, manager, tmp_path, kind):
    hear = manager(str(tmp_path / "notify") if kind == "path" else f"@krrd-test-{os.getpid()}")
    daemon = daemons()
    assert hear() == "READY=1"
    assert daemon.stop() == 0
    assert hear() == "STOPPING=1"


def test_the_watchdog_is_fed(daemons, manager, tmp_path, monkeypatch):
    hear = manager(str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "400000")
    daemon = daemons()
    assert hear() == "READY=1"
    began = time.monotonic()
    assert [hear() for _ in range(5)] == ["WATCHDOG=1"] * 5
    assert 0.5 < time.monotonic() - began < 10


def test_the_watchdog_of_another_process(daemons, manager, tmp_path, monkeypatch):
    hear = manager(str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    daemon = daemons()
    assert hear() == "READY=1"
    monkeypatch.delenv("WATCHDOG_PID")
    hear_fed = manager(str(tmp_path / "fed"))
    fed = daemons()  # in the time in which this one tells so often, the other would have told as well
    assert [hear_fed() for _ in range(6)] == ["READY=1"] + ["WATCHDOG=1"] * 5
    assert fed.stop() == daemon.stop() == 0
    assert hear() == "STOPPING=1"


def test_nobody_listens(daemons, monkeypatch, tmp_path):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    assert daemons().stop() == 0


def wait_for(text, path):
    wait.until(lambda: path.exists() and text in path.read_text(), f"{text} in {path}")


def test_a_log_that_is_rotated(daemons, tmp_path):
    log = tmp_path / "krrd.log"
    daemon = daemons(log_file=log)
    wait_for("worker.ready", log)
    log.rename(tmp_path / "krrd.log.1")
    daemon.process.send_signal(signal.SIGHUP)
    wait_for("log.reopened", log)
    os.kill(daemon.api.worker_pid("train"), signal.SIGKILL)
    wait_for("worker.ended", log)
    assert "worker.ended" not in (tmp_path / "krrd.log.1").read_text()
    assert daemon.stop() == 0
    assert "server.drained" in log.read_text() and "server.drained" not in daemon.log()


def test_a_log_that_cannot_be_reopened_is_kept(daemons, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    log = folder / "krrd.log"
    daemon = daemons(log_file=log)
    wait_for("worker.ready", log)
    folder.rename(tmp_path / "moved")
    daemon.process.send_signal(signal.SIGHUP)
    wait_for("log.not_reopened", tmp_path / "moved" / "krrd.log")
    assert daemon.api.get("/v2/health/live").json() == {"live": True}


def test_a_hangup_without_a_log_file(daemons):
    daemon = daemons()
    daemon.process.send_signal(signal.SIGHUP)
    wait_for("log.not_a_file", daemon.log_path)
    assert daemon.stop() == 0
