"""Pages of several parts: one that fails says so itself, and the others go on."""

import pytest


@pytest.fixture
def without(page):
    """without("/v1/devices"): the browser gets no answer from there."""
    def block(*paths):
        page.driver.execute_cdp_cmd("Network.enable", {})
        page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": [f"*{path}*" for path in paths]})
        page.expected.extend(paths)
    yield block
    page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})


def cards(page):
    """What each card says, by its title."""
    return {card.find_element("css selector", ".card-head").text.split("\n")[0]: card.text for card in page.find("main .card")}


@pytest.mark.parametrize("path, fails, others", [
    ("/v1/devices", "Devices", {"Workers": "cpu", "Solvers": "pcg", "Kernels": "gaussian"}),
    ("/v1/workers", "Workers", {"Devices": "cpu", "Solvers": "pcg", "Kernels": "gaussian"}),
    ("/v1/solvers", "Solvers", {"Devices": "cpu", "Workers": "cpu", "Kernels": "gaussian"}),
])
def test_a_part_of_the_system_page_that_fails(page, without, path, fails, others):
    without(path)
    page.open("system")
    page.wait(lambda: "krrd does not answer." in cards(page)[fails], "error of " + fails)
    for title, words in others.items():
        page.wait(lambda: words in cards(page)[title], f"{words} in {title}")
        assert "does not answer" not in cards(page)[title]
    page.screenshot("system-without-" + fails.lower())


def test_rates_that_are_missing_are_missing_alone(page, without):
    without("/metrics")
    page.open("system")
    page.wait(lambda: "Memory and kernel entries are not known" in cards(page)["Workers"], "a word on what is missing")
    page.wait(lambda: "cpu" in cards(page)["Workers"], "workers")


def test_a_part_of_the_jobs_page_that_fails_recovers(page, without):
    without("/v1/workers")
    page.open("jobs")
    page.wait(lambda: "krrd does not answer." in cards(page)["Workers"], "error of the workers")
    page.text("Nothing waits.", ".card")
    page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    page.wait(lambda: "cpu" in cards(page)["Workers"], "workers", timeout=60)
    page.wait(lambda: "does not answer" not in cards(page)["Workers"], "end of the error")
