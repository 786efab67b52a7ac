"""Where a key is needed: it is asked for once, used everywhere, and kept for the tab alone."""

import data
from chromium import Page
from gate import gate

KEY = "correct-horse-battery-staple"
POINTS = """const chart = Object.values(Chart.instances).find((c) => c.canvas.ariaLabel.includes("Relative residual"));
            return chart ? chart.data.datasets.map((set) => set.data.length) : [];"""


def test_key_is_asked_for_and_used(driver, api, name, big_job, tmp_path):
    job = big_job(name)
    api.wait_running(job["id"])
    with gate(api.base, KEY) as (base, seen):
        page = Page(driver, base)
        page.reset()
        page.open("jobs")
        page.text("krrd asks for a key.", "dialog")
        assert len(page.find("dialog")) == 1  # for all the calls that were refused
        page.screenshot("key")
        page.put("Key", "wrong", "dialog")
        page.button("Use this key", "dialog").click()
        page.text("krrd did not accept the key.", "dialog")
        page.put("Key", KEY, "dialog")
        page.button("Use this key", "dialog").click()
        page.text(name, "table.jobs")
        # Events need it as well, which EventSource could not send.
        first = page.wait(lambda: page.script(POINTS), "curve")
        page.wait(lambda: page.script(POINTS)[0] > first[0] + 2, "curve that moves")
        assert ("GET", f"/v1/jobs/{job['id']}/events", f"Bearer {KEY}") in seen
        # So do uploads, which go another way.
        page.open("data")
        path = tmp_path / f"{name}.csv"
        path.write_bytes(data.csv(*data.regression(20)))
        page.wait(lambda: page.find("input[type=file]"), "file input")[0].send_keys(str(path))
        page.button("Upload", ".offer").click()
        page.text("20 rows, 5 columns", ".upload")
        assert page.script("return [sessionStorage.length > 0, localStorage.length]") == [True, 0]
        assert not any(KEY in path for _, path, _ in seen)
        driver.get("about:blank")
        driver.get_log("browser")


def test_no_key_is_an_answer_too(driver, api):
    with gate(api.base, KEY) as (base, _):
        page = Page(driver, base)
        page.reset()
        page.open("models")
        page.one("dialog[open]")
        page.keys("\ue00c")  # Escape
        page.text("A key is needed.", "main .notice")
        driver.get("about:blank")
        driver.get_log("browser")
