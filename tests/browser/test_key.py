"""Where a key is needed: it is asked for once, used everywhere, and kept for the tab alone."""

import subprocess

import pytest

import daemon as programs
import data
from chromium import Page

POINTS = """const chart = Object.values(Chart.instances).find((c) => c.canvas.ariaLabel.includes("Relative residual"));
            return chart ? chart.data.datasets.map((set) => set.data.length) : [];"""


def make_key(path, name, scopes):
    krrd = programs.program("KRRD_TEST_DAEMON", "src/server/krrd")
    return subprocess.run([krrd, "key", name, scopes, "--api-keys", path], capture_output=True, text=True,
                          check=True).stdout.strip()


@pytest.fixture
def guarded(tmp_path):
    """(daemon with keys, an admin's key, a reader's key)"""
    path = tmp_path / "keys"
    keys = [make_key(path, scope, scope) for scope in ("admin", "read")]
    daemon = programs.Daemon(tmp_path, api_keys=path)
    daemon.session.headers["Authorization"] = f"Bearer {keys[0]}"
    yield (daemon, *keys)
    daemon.close()


@pytest.fixture
def page(driver, guarded):
    page = Page(driver, guarded[0].base)
    page.reset()
    page.expected += ["401", "403"]
    yield page
    page.check_console()


def give(page, key):
    page.put("Key", key, "dialog")
    page.button("Use this key", "dialog").click()


def test_key_is_asked_for_and_used(page, guarded, big_spec_for, tmp_path):
    daemon, key, _ = guarded
    job = daemon.api.create("m", **big_spec_for(daemon.api), stop={"tolerance": 1e-15, "max_iterations": 10**6})
    daemon.api.wait_running(job["id"])
    page.open("jobs")
    page.text("krrd asks for a key.", "dialog")
    assert len(page.find("dialog")) == 1  # for all the calls that were refused
    page.screenshot("key")
    give(page, "wrong")
    page.text("krrd did not accept the key.", "dialog")
    give(page, key)
    page.text("running", "table.jobs")
    # Events need it as well, which EventSource could not send.
    first = page.wait(lambda: page.script(POINTS), "curve")
    page.wait(lambda: page.script(POINTS)[0] > first[0] + 2, "curve that moves")
    # So do uploads, which go another way.
    page.open("data")
    path = tmp_path / "table.csv"
    path.write_bytes(data.csv(*data.regression(20)))
    page.wait(lambda: page.find("input[type=file]"), "file input")[0].send_keys(str(path))
    page.button("Upload", ".offer").click()
    page.text("20 rows, 5 columns", ".upload")
    page.open("system")
    page.wait(lambda: any("MiB" in e.text for e in page.find("td")), "memory of a worker")
    assert page.script("return [sessionStorage.length > 0, localStorage.length]") == [True, 0]
    daemon.api.cancel(job["id"])
    daemon.api.wait(job["id"])


def test_what_a_key_does_not_allow_is_said(page, guarded):
    daemon, _, reader = guarded
    X, y = data.regression(40)
    dataset = daemon.api.upload_npz(X, y)
    daemon.api.train("m", dataset)
    page.open("models/m")
    page.text("krrd asks for a key.", "dialog")
    give(page, reader)
    page.text("m v1", "h1")
    page.button("Delete").click()
    page.button("Delete the version", "dialog").click()
    page.text("403", ".toasts [role=alert]")
    assert daemon.api.get("/v1/models/m/versions/1").json()["version"] == 1


def test_no_key_is_an_answer_too(page):
    page.open("jobs")
    page.one("dialog[open]")
    page.keys("\ue00c")  # Escape
    page.text("401", "main .notice")
    asked = "return performance.getEntriesByType('resource').filter((e) => e.name.includes('/v1/')).length"
    before = page.script(asked)
    page.wait(lambda: page.script(asked) >= before + 2, "question to the server")
    assert not page.find("dialog")  # it asks the server again and again, but not the person


def test_another_key_by_hand(page, guarded):
    _, key, _ = guarded
    page.open("models")
    page.one("dialog[open]")
    page.keys("\ue00c")
    page.wait(lambda: not page.find("dialog"), "closed dialog")
    page.find("#key")[0].click()
    give(page, key)
    page.text("No models yet.")
