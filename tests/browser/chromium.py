"""Headless Chromium, driven through chromedriver, and the dashboard as somebody at it uses it."""

import os
import pathlib
import shutil
import time
import urllib.error
import urllib.request

WAIT_S = 30
PROGRAMS = ("chromium", "chromedriver")


def missing():
    """Why the tests cannot run here, or None."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "there is no python3-selenium"
    for name in PROGRAMS:
        path = shutil.which(name)
        if path is None:
            return f"there is no {name} (package chromium-driver)"
        if "/snap/" in str(pathlib.Path(path).resolve()):
            return f"{name} is a snap, which sees no files of the tests"
    return None


def start(width=1440, height=1000, more=()):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--no-first-run", "--disable-background-networking", "--disable-extensions",
                 "--no-proxy-server", "--hide-scrollbars", "--force-device-scale-factor=1",
                 f"--window-size={width},{height}", "--lang=en-US", *more):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
    driver.set_script_timeout(WAIT_S)
    driver.set_page_load_timeout(WAIT_S)
    return driver


class Page:
    def __init__(self, driver, base):
        self.driver = driver
        self.base = base
        self.expected = []  # parts of console messages that a test brings about on purpose

    # Where one is.

    def reset(self, ready=True):
        """ready: what a daemon says that has just begun, and no worker yet, is not to be seen."""
        end = time.monotonic() + WAIT_S
        while ready and not self.is_ready():
            assert time.monotonic() < end, "the daemon is not ready"
            time.sleep(0.05)
        self.driver.get(self.base + "/ui/icon.svg")  # the origin, without the dashboard
        self.script("sessionStorage.clear(); localStorage.clear();")
        self.emulate()
        self.size(1440, 1000)
        self.driver.get_log("browser")

    def is_ready(self):
        try:
            return bool(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{self.base}/v2/health/ready"))
        except urllib.error.HTTPError:
            return False

    def open(self, place=""):
        """place: "jobs", "models/homo", …; always a new page."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.base}/#/{place}")
        return self

    def size(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def emulate(self, scheme="light"):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def screenshot(self, name, whole=True):
        """The whole page, as a file of the build's, where one is named."""
        import base64
        self.driver.execute_async_script(  # two frames: what was drawn is on the screen
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));")
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {
            "format": "png", "captureBeyondViewport": whole})
        folder = os.environ.get("KRRD_TEST_SCREENSHOTS")
        data = base64.b64decode(taken["data"])
        if folder:
            path = pathlib.Path(folder)
            path.mkdir(parents=True, exist_ok=True)
            (path / f"{name}.png").write_bytes(data)
        return data

    # What is there.

    def script(self, text, *args):
        return self.driver.execute_script(text, *args)

    def module(self, text, *args):
        """The value of an async function's body, which may import the dashboard's own modules."""
        done = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1]; const args = [...arguments].slice(0, -1);"
            f"(async () => {{ {text} }})().then((value) => done({{value}}),"
            " (error) => done({error: String(error)}));", *args)
        assert "error" not in done, done["error"]
        return done["value"]

    def find(self, selector):
        return self.driver.find_elements("css selector", selector)

    def wait(self, fits, what, timeout=WAIT_S):
        """What fits() gives once it is true."""
        from selenium.common.exceptions import (ElementNotInteractableException,
                                                StaleElementReferenceException)
        end = time.monotonic() + timeout
        while True:
            try:
                value = fits()
            except (StaleElementReferenceException, ElementNotInteractableException):  # redrawn
                value = None
            if value:
                return value
            if time.monotonic() > end:
                self.screenshot("failed")
                text = self.script("return document.body.innerText")
                raise AssertionError(f"after {timeout} s no {what}; the page says:\n{text}")
            time.sleep(0.05)

    def one(self, selector, timeout=WAIT_S):
        """The first visible element."""
        return self.wait(lambda: next((e for e in self.find(selector) if e.is_displayed()), None),
                         selector, timeout)

    def text(self, words, selector="body", timeout=WAIT_S):
        """Waits until the words stand in the first such element."""
        return self.wait(lambda: any(words in e.text for e in self.find(selector)),
                         f"{words!r} in {selector}", timeout)

    def button(self, words, within="body", timeout=WAIT_S):
        def search():
            return next((b for b in self.find(f"{within} button")
                         if b.is_displayed() and b.is_enabled() and b.text == words), None)
        return self.wait(search, f"button {words!r} in {within}", timeout)

    def labelled(self, words, within="body"):
        """The control with that label."""
        from selenium.webdriver.common.by import By
        def search():
            for label in self.find(f"{within} label"):
                if label.is_displayed() and label.text.strip() == words and label.get_attribute("for"):
                    return self.driver.find_element(By.ID, label.get_attribute("for"))
            return None
        return self.wait(search, f"control labelled {words!r}")

    def put(self, words, value, within="body"):
        from selenium.webdriver.support.ui import Select

        def done():
            control = self.labelled(words, within)
            if control.tag_name == "select":
                Select(control).select_by_visible_text(value)
            else:
                control.clear()
                control.send_keys(value)
            return control
        return self.wait(done, f"way to put {value!r} into {words!r}")

    def keys(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains
        ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self):
        return self.driver.switch_to.active_element

    # What went wrong.

    def check_console(self):
        """Nothing that the browser complains of: scripts that fail, the policy violated."""
        bad = [entry["message"] for entry in self.driver.get_log("browser")
               if entry["level"] in ("SEVERE", "WARNING")
               and not any(part in entry["message"] for part in self.expected)]
        assert not bad, "\n".join(bad)
