"""The page of jobs: what runs, curves that move, the queue, what can be done to a job."""

import pytest

POINTS = """const chart = Object.values(Chart.instances).find((c) => c.canvas.ariaLabel.includes(arguments[0]));
            return chart ? chart.data.datasets.map((set) => set.data.length) : [];"""


def curves(page, words):
    """How many points each curve of that chart has."""
    return page.script(POINTS, words)


def row(page, model):
    return page.wait(lambda: next((r for r in page.find("table.jobs tbody tr") if model in r.text), None),
                     f"job of {model}")


def test_nothing_yet(daemons, driver):
    import chromium
    page = chromium.Page(driver, daemons().api.base)
    page.reset()
    page.open()
    page.text("No jobs yet.")
    page.text("Nothing waits.")
    page.screenshot("jobs-empty")
    page.check_console()


def test_curves_of_a_running_job_move(page, api, big_job, name):
    job = big_job(name)
    page.open("jobs")
    assert "running" in page.wait(lambda: row(page, name) if "running" in row(page, name).text else None,
                                  "running job").text
    first = page.wait(lambda: curves(page, "Relative residual"), "curve")
    assert len(first) == 1
    page.wait(lambda: curves(page, "Relative residual")[0] > first[0] + 3, "more points")
    shown = api.job(job["id"])["progress"]["relative_residual"]
    assert shown is not None
    page.screenshot("jobs-running")


# Answers of the list of jobs as of a server that has `total` large ones: three fit into an answer.
LARGE = """
    const real = window.fetch;
    const [like, total] = args;
    window.fetch = async (path, options) => {
      const url = new URL(path, location.href);
      if (url.pathname !== "/v1/jobs" || url.searchParams.get("status")) return real(path, options);
      const first = Number((url.searchParams.get("after") ?? "job_0").slice(4));
      const last = Math.min(first + Math.min(3, Number(url.searchParams.get("limit"))), total);
      const data = [...Array(last - first).keys()].map((i) => ({...like, id: `job_${first + i + 1}`}));
      return new Response(JSON.stringify({object: "list", data, has_more: last < total, last_id: `job_${last}`}));
    };"""


@pytest.mark.parametrize("total, reached", [(50, 50), (130, 100)])
def test_more_jobs_where_a_page_comes_in_many_answers(page, api, name, regression_dataset, total, reached):
    like = api.train(name, regression_dataset)
    page.open("jobs")
    row(page, name)
    page.module(LARGE, like, total)
    shown = lambda: len(page.find("table.jobs tbody tr"))
    page.wait(lambda: shown() == 12, "four answers")
    more = page.button("Show more")
    while shown() < reached:
        before = shown()
        more.click()
        page.wait(lambda: shown() > before, f"more than {before} jobs")
    page.wait(lambda: not more.is_displayed(), "no more to show")
    assert shown() == reached


def test_two_jobs_in_one_chart(page, api, name, regression_dataset):
    for solver in ("pcg", "cg"):
        api.train(f"{name}-{solver}", regression_dataset, solver="pcg", stop={"tolerance": 1e-10})
    page.open("jobs")
    for solver in ("pcg", "cg"):
        box = row(page, f"{name}-{solver}").find_element("css selector", "input")
        if not box.is_selected():
            box.click()
    page.wait(lambda: len(curves(page, "Relative residual")) >= 2, "two curves")
    page.script("document.querySelector('figure details').open = true")
    page.text(f"{name}-pcg v1", "figure table")
    page.text(f"{name}-cg v1", "figure table")


def test_cancel_asks_first(page, api, big_job, name):
    job = big_job(name)
    page.open("jobs")
    row(page, name)
    page.button("Cancel", "table.jobs tbody tr:first-child").click()
    page.text("It ends without a model.", "dialog")
    page.button("Cancel", "dialog").click()  # no, do not
    assert api.job(job["id"])["status"] in ("queued", "running")
    page.button("Cancel", "table.jobs tbody tr:first-child").click()
    page.button("Cancel the job", "dialog").click()
    page.wait(lambda: "cancelled" in row(page, name).text, "cancelled job")
    page.button("Delete", "table.jobs tbody tr:first-child").click()
    page.button("Delete the job", "dialog").click()
    page.wait(lambda: not any(name in r.text for r in page.find("table.jobs tbody tr")), "no such row")
    api.get(f"/v1/jobs/{job['id']}", 404)


def test_pause_and_resume(page, api, big_job, name):
    job = big_job(name)
    page.open("jobs")
    row(page, name)
    api.wait_running(job["id"])
    page.button("Pause", "table.jobs tbody tr:first-child").click()
    page.wait(lambda: api.job(job["id"])["status"] == "paused", "paused job")
    page.button("Resume", "table.jobs tbody tr:first-child").click()
    page.wait(lambda: api.job(job["id"])["status"] in ("queued", "running"), "resumed job")


def test_queue_has_places_and_reasons(page, api, big_job, name):
    big_job(name + "-first")
    big_job(name + "-second")
    big_job(name + "-third")
    page.open("jobs")
    page.wait(lambda: [e.text[:1] for e in page.find(".queue li")] == ["1", "2"], "two places")
    first = page.find(".queue li")[0].text
    assert name + "-second" in first
    waiting = api.get("/v1/jobs", params={"status": "queued"}).json()["data"][-1]["waiting_for"]
    assert waiting["detail"] in first


def test_a_long_queue_shows_what_comes_next(daemons, driver):
    """And leaves the page a page; of a hundred and twenty jobs the ones that come first are not the newest."""
    import chromium
    import data
    daemon = daemons(workers="cpu:0")
    page = chromium.Page(driver, daemon.api.base)
    page.reset(ready=False)
    X, y = data.regression(30)
    dataset = daemon.api.upload_csv(X, y)
    daemon.api.create("the-first", dataset, priority=9)
    for i in range(120):
        daemon.api.create(f"m{i:03d}", dataset)
    page.open("jobs")
    page.text("the next 10")
    shown = page.wait(lambda: (lambda texts: len(texts) == 10 and texts)([e.text for e in page.find(".queue li")]), "ten places")
    assert "the-first" in shown[0] and [f"m{i:03d}" in text for i, text in enumerate(shown[1:])] == [True] * 9
    assert page.script("return document.querySelector('.side').scrollHeight") < 1600


def test_a_job_that_ended_without_an_iteration_promises_no_curve(daemons, driver):
    import chromium
    import data
    daemon = daemons(workers="cpu:0")
    page = chromium.Page(driver, daemon.api.base)
    page.reset(ready=False)
    job = daemon.api.create("m", daemon.api.upload_csv(*data.regression(60)))
    page.open(f"jobs/{job['id']}")
    page.text("Curves appear once")
    daemon.api.cancel(job["id"])
    page.text("told of no iteration")
    assert "Curves appear once" not in page.script("return document.body.innerText")


def test_every_target_is_told_of(page, api, name):
    """Of job and model; a single target has nothing to add to the metrics."""
    import data
    import numpy as np
    X, y = data.regression(60)
    job = api.train(name, api.upload_csv(X, np.column_stack([y, -2 * y])), target=["y0", "y1"],
                    kernel={"name": "matern32", "bandwidth": 2.5})
    r2 = job["result"]["target_metrics"][0]["r2"]
    for place in (f"jobs/{job['id']}", f"models/{name}/1"):
        page.open(place)
        page.text("R² of each target")
        page.text(f"y0 {float(f'{r2:.4g}')}, y1 ")
    page.open(f"jobs/{job['id']}")
    page.text("matern32, bandwidth 2.5")
    one = api.train(name, api.upload_csv(X, y))
    page.open(f"jobs/{one['id']}")
    page.text("Ridge")
    assert "each target" not in page.script("return document.body.innerText")


def test_a_long_name_of_a_data_set_is_broken(page, api):
    import data
    name = "n" * 120
    api.upload_csv(*data.regression(30), name=name)
    page.size(390, 844)
    page.open("data")
    page.text(name)
    width = page.script("return document.querySelector('th[scope=row]').getBoundingClientRect().width")
    assert width < 390, width


def test_no_answer_is_said(daemons, driver):
    import chromium
    daemon = daemons()
    page = chromium.Page(driver, daemon.api.base)
    page.reset()
    page.open("jobs")
    page.text("ready", "#health")
    daemon.stop()
    page.text("no answer", "#health")
    page.text("krrd does not answer.")
    page.screenshot("jobs-no-answer")
    driver.get("about:blank")
    driver.get_log("browser")


def test_a_page_before_the_daemon_is_ready_says_why(daemons, driver):
    import chromium
    page = chromium.Page(driver, daemons(serve_workers=0).api.base)
    page.expected.append("/v2/health/ready")  # 503, which the browser tells of
    page.reset(ready=False)
    page.open("jobs")
    page.text("not ready", "#health")
    assert page.one("#health").get_attribute("title")
    page.text("No jobs yet.")
    page.check_console()
