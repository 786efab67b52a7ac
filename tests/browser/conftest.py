"""The dashboard in a real browser: headless Chromium, the real daemon behind it. Screenshots are
kept in the folder that KRRD_TEST_SCREENSHOTS names."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))

from fixtures import *  # noqa: E402,F401,F403

import chromium  # noqa: E402


def pytest_configure(config):
    missing = chromium.missing()
    if missing:
        print(f"skipped: {missing}")
        pytest.exit(missing, returncode=77)  # which meson counts as skipped


@pytest.fixture(scope="session")
def driver():
    driver = chromium.start()
    yield driver
    driver.quit()


@pytest.fixture
def page(driver, api):
    """The dashboard of the shared daemon, in a tab without a past."""
    page = chromium.Page(driver, api.base)
    page.reset()
    yield page
    page.check_console()
