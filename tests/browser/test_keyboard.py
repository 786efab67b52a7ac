"""The dashboard without a mouse, and what a screen reader is told."""

from selenium.webdriver.common.keys import Keys


def tab_to(page, fits, what, most=80):
    for _ in range(most):
        page.keys(Keys.TAB)
        if fits(page.focused()):
            return page.focused()
    raise AssertionError(f"no {what} within {most} tabs")


def test_train_and_cancel_by_keyboard(page, api, name, big_spec):
    page.open("jobs")
    page.text("Jobs", "nav")
    page.keys(Keys.TAB)
    assert page.focused().text == "Skip to the content"
    page.keys(Keys.ENTER)
    assert page.focused().get_attribute("id") == "main"
    page.script("document.querySelector('.brand').focus()")
    tab_to(page, lambda e: e.text == "New job", "link to the form").send_keys(Keys.ENTER)
    page.wait(lambda: page.find("form"), "form")
    page.wait(lambda: page.labelled("Model"), "field")
    tab_to(page, lambda e: e == page.labelled("Model"), "name").send_keys(name)
    tab_to(page, lambda e: e == page.labelled("Data set"), "data set")
    page.script("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))",
                page.labelled("Data set"), big_spec["dataset"])
    tab_to(page, lambda e: e == page.labelled("Solver"), "solver").send_keys("pcg")
    page.wait(lambda: page.labelled("Preconditioner"), "preconditioner")
    tab_to(page, lambda e: e == page.labelled("Preconditioner"), "preconditioner").send_keys("none")
    tab_to(page, lambda e: e == page.labelled("Tolerance"), "tolerance").send_keys("1e-15")
    tab_to(page, lambda e: e == page.labelled("Max iterations"), "iterations").send_keys("1000000")
    tab_to(page, lambda e: e.text == "Train", "button").send_keys(Keys.ENTER)
    page.text(name, "h1")
    job = api.get("/v1/jobs", params={"model": name}).json()["data"][0]
    api.wait_running(job["id"])
    tab_to(page, lambda e: e.text == "Cancel", "Cancel").send_keys(Keys.ENTER)
    page.one("dialog[open]")
    page.keys(Keys.ESCAPE)
    page.wait(lambda: not page.find("dialog"), "closed dialog")
    assert page.focused().text == "Cancel"  # back where it was
    page.keys(Keys.ENTER)
    page.one("dialog[open]")
    assert page.focused().text == "Cancel"  # not the button that cannot be taken back
    tab_to(page, lambda e: e.text == "Cancel the job", "button", 5).send_keys(Keys.ENTER)
    page.text("cancelled", "h1")
    page.wait(lambda: "cancelled" in page.script("return document.getElementById('announcer').textContent"),
              "announcement")


def test_focus_survives_what_comes_in(page, api, name, big_job):
    """The table of jobs is drawn anew again and again; what has the focus keeps it."""
    job = big_job(name)
    page.open("jobs")
    api.wait_running(job["id"])
    row = page.wait(lambda: next((r for r in page.find("table.jobs tbody tr") if name in r.text), None), "row")
    button = row.find_element("css selector", "button")
    page.script("arguments[0].focus()", button)
    before = row.text
    page.wait(lambda: row.text != before, "change of the row")
    assert page.focused() == button


def test_a_new_page_is_told(page):
    page.open("jobs")
    page.text("Jobs", "nav")
    page.find("#nav a")[3].click()
    page.text("Models", "h1")
    assert page.focused().tag_name == "h1"
    assert page.driver.title == "Models – krrd"
    assert page.script("return document.querySelector('#nav [aria-current=page]').textContent") == "Models"
    page.wait(lambda: page.script("return document.getElementById('announcer').textContent") == "Models", "announcement")


def test_colours_by_hand(page):
    background = "return getComputedStyle(document.body).backgroundColor"
    page.open("jobs")
    light = page.script(background)
    from selenium.webdriver.support.ui import Select
    Select(page.find("#theme")[0]).select_by_visible_text("Dark")
    dark = page.script(background)
    assert dark != light
    page.open("jobs")
    assert page.script(background) == dark  # remembered
    Select(page.find("#theme")[0]).select_by_visible_text("System colours")
    assert page.script(background) == light
    page.emulate("dark")
    assert page.script(background) == dark


def test_charts_have_words_and_a_table(page, api, name, regression_dataset):
    job = api.train(name, regression_dataset, solver="pcg", stop={"tolerance": 1e-10})
    page.open(f"jobs/{job['id']}")
    label = page.wait(lambda: page.script(
        "return [...document.querySelectorAll('canvas')].map((c) => c.ariaLabel).find((t) => t.includes(' at iteration '))"),
        "words for a chart")
    assert f"{name} v1: " in label and label.startswith("Relative residual")
    summary = page.one("figure summary")
    summary.send_keys(Keys.ENTER)
    cells = page.wait(lambda: page.find("figure details[open] tbody tr"), "rows")
    assert len(cells) > 1
