"""axe-core on every page, in both colour schemes: no fault that it calls serious or critical. axe
comes with the package axe-core-python (tests/requirements.txt); KRRD_TEST_AXE names another file."""

import os
import pathlib

import pytest

import data

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = """const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then((found) => done(found.violations.map((v) =>
    ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map((n) => n.html.slice(0, 200) + " " + (n.failureSummary || ""))}))),
    (error) => done([{id: "failed", impact: "critical", help: String(error), nodes: []}]));"""


def axe_source():
    named = os.environ.get("KRRD_TEST_AXE")
    if named:
        return pathlib.Path(named).read_text()
    found = sorted((ROOT / ".cache" / "python").glob("lib/python*/site-packages/axe_core_python/axe.min.js"))
    if not found:
        pytest.skip("axe-core-python is not installed (scripts/install-deps --tests does)")
    return found[-1].read_text()


@pytest.fixture(scope="module")
def axe():
    return axe_source()


@pytest.fixture(scope="module")
def places(api):
    X, y = data.regression(120)
    dataset = api.upload_csv(X, y, name="table")
    job = api.train("accessible", dataset, solver="pcg", stop={"tolerance": 1e-10})
    X, labels = data.classification(90)
    api.train("classes", api.upload_csv(X, labels))
    return {"jobs": "jobs", "job": f"jobs/{job['id']}", "new": f"new/data/{dataset}", "data": "data", "models": "models",
            "model": "models/accessible", "classes": "models/classes", "system": "system"}


def check(page, axe, what):
    page.script(axe)
    found = page.driver.execute_async_script(RUN)
    grave = [v for v in found if v["impact"] in ("serious", "critical")]
    assert not grave, what + "\n" + "\n".join(
        f"{v['impact']} {v['id']}: {v['help']}\n  " + "\n  ".join(v["nodes"][:5]) for v in grave)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["jobs", "job", "new", "data", "models", "model", "classes", "system"])
def test_page(page, axe, places, name, scheme):
    page.emulate(scheme)
    page.open(places[name])
    page.wait(lambda: page.find("main .card, main form"), f"page {name}")
    if name in ("job", "model"):
        page.text("Prediction against truth")
    if name in ("jobs", "job"):
        page.wait(lambda: page.find("canvas:not([hidden])"), "charts")
    page.script("for (const one of document.querySelectorAll('details')) one.open = true")
    page.screenshot(f"{name}-{scheme}")
    check(page, axe, f"{name}, {scheme}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dialogs_and_errors(page, axe, api, places, scheme):
    page.emulate(scheme)
    page.open("models/accessible")
    page.button("Delete").click()
    page.one("dialog[open]")
    page.screenshot(f"dialog-{scheme}")
    check(page, axe, f"dialog, {scheme}")
    page.keys("\ue00c")
    page.button("Predict").click()
    page.one("[role=alert]")
    check(page, axe, f"errors of the try-out, {scheme}")
    page.open("new")
    page.button("Train").click()
    page.wait(lambda: page.find("[aria-invalid=true]"), "fields that are needed")
    page.screenshot(f"new-errors-{scheme}")
    check(page, axe, f"errors of the form, {scheme}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_states_of_jobs(page, axe, api, places, big_job, name, scheme):
    page.emulate(scheme)
    running, paused = big_job(name + "-runs"), big_job(name + "-waits")
    api.post(f"/v1/jobs/{paused['id']}/pause")
    big_job(name + "-queues")
    page.open("jobs")
    page.text("paused", "table.jobs")
    page.text(name + "-queues", ".queue")
    api.wait_running(running["id"])
    page.screenshot(f"jobs-states-{scheme}")
    check(page, axe, f"jobs in all states, {scheme}")
