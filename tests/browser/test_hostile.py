"""Text from files and people stays text: names that would be scripts if anybody read them as such. And sites that have
their names mean this machine."""

import csv
import io

import pytest

import chromium
import data

EVIL = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>"\'>&lt;'
PWNED = "return window.pwned === undefined"


def table(columns, rows):
    out = io.StringIO()
    csv.writer(out).writerows([columns, *rows])
    return out.getvalue().encode()


def look_everywhere(page, places):
    for place in places:
        page.open(place)
        page.wait(lambda: page.find("main .card"), f"page {place}")
        page.wait(lambda: EVIL[:20] in page.script("return document.documentElement.textContent"), f"the text on {place}")
        assert page.script(PWNED), place
        assert not page.find("main img"), place


def test_labels_columns_and_metadata_do_not_execute(page, api, name):
    X, _ = data.classification(90)
    labels = [EVIL + str(i % 2) for i in range(90)]
    rows = [[*map(repr, x.tolist()), label] for x, label in zip(X, labels)]
    dataset = api.upload(table([EVIL + "0", EVIL + "1", EVIL + "2", EVIL + "y"], rows), name=EVIL)
    job = api.train(name, dataset["id"], metadata={EVIL[:60]: EVIL})
    look_everywhere(page, ["data", f"jobs/{job['id']}", f"models/{name}", f"new/data/{dataset['id']}"])
    page.open(f"models/{name}")
    page.one("form")
    page.button("Fill in an example").click()
    page.wait(lambda: all(e.get_attribute("value") for e in page.find("form .tight input")), "example")
    page.button("Predict").click()
    page.text("1 prediction of")
    assert EVIL in page.one("td strong").text
    assert page.script(PWNED) and not page.find("main img")
    page.screenshot("hostile-model")


def test_errors_do_not_execute(page, api, tmp_path):
    page.expected.append("422")
    page.open("data")
    path = tmp_path / "evil.csv"
    path.write_bytes(table(["a", "y"], [["1", "2"], [EVIL, "3"]]))
    page.wait(lambda: page.find("input[type=file]"), "file input")[0].send_keys(str(path))
    page.button("Upload", ".offer").click()
    page.text("img src=x", "[role=alert]")
    assert page.script(PWNED) and not page.find("main img")


def test_addresses_do_not_execute(page):
    page.expected.append("40")
    for place in ("models/%3Cimg%20src%3Dx%20onerror%3Dwindow.pwned%3D1%3E", "jobs/%3Cscript%3E", "%3Cimg%3E",
                  "models/..%2f..%2fv1%2fjobs"):
        page.open(place)
        page.text("", "main")
        page.wait(lambda: page.find("h1"), "heading")
        assert page.script(PWNED) and not page.find("main img")


def test_the_policy_stops_what_gets_through(page):
    """Were some text ever read as markup, the browser would not run it."""
    page.open("jobs")
    page.text("Jobs", "nav")
    refused = page.script("""
        const seen = [];
        try { document.body.innerHTML += '<img src=x onerror="window.pwned=1">'; } catch (e) { seen.push(e.name); }
        try { const s = document.createElement("script"); s.textContent = "window.pwned=1"; document.body.append(s); }
        catch (e) { seen.push(e.name); }
        try { document.createElement("div").setAttribute("onclick", "window.pwned=1"); }
        catch (e) { seen.push(e.name); }
        return seen;""")
    assert page.script(PWNED)
    assert refused == ["TypeError"] * 3  # trusted types
    page.driver.get_log("browser")


@pytest.fixture
def rebound(shared_daemon):
    """A browser to which names of a foreign site mean loopback, as after DNS rebinding."""
    driver = chromium.start(more=["--host-resolver-rules=MAP *.example 127.0.0.1"])
    yield driver, shared_daemon.base.replace("127.0.0.1", "evil.example")
    driver.quit()


def test_a_site_whose_name_means_this_machine_reads_and_changes_nothing(rebound, api):
    driver, base = rebound
    before = api.get("/v1/datasets", params={"limit": 1}).json()["first_id"]
    driver.get(base + "/ui/icon.svg")  # the site's own page, to the browser
    asked = driver.execute_async_script("""
        const done = arguments[arguments.length - 1];
        Promise.all([fetch("/v1/jobs"), fetch("/v1/datasets?format=csv", {method: "POST", body: "x,y\\n1,2\\n3,4\\n"})])
            .then(async (all) => done([location.origin, ...await Promise.all(all.map((one) => one.text().then((t) => [one.status, t])))]),
                  (error) => done([String(error)]));""")
    assert asked[0] == base
    assert [status for status, _ in asked[1:]] == [421, 421], asked
    assert all("allowed-hosts" in text for _, text in asked[1:])
    assert api.get("/v1/datasets", params={"limit": 1}).json()["first_id"] == before
