"""The whole way through the dashboard, as somebody new to it goes: upload, train, watch, predict."""

import numpy as np
import pytest

import data
import handmade

POINTS = """const chart = Object.values(Chart.instances).find((c) => c.canvas.ariaLabel.includes(arguments[0]));
            return chart ? chart.data.datasets.map((set) => set.data.length) : [];"""


def give(page, tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    page.wait(lambda: page.find("input[type=file]"), "file input")[0].send_keys(str(path))


def test_upload_train_watch_predict(page, api, tmp_path, name):
    X, y = data.regression(2500, d=5)
    page.open("data")
    give(page, tmp_path, f"{name}.csv", data.csv(X, y, ["width", "height", "depth", "mass", "age"], "price"))
    page.one(".offer")
    assert page.labelled("Name", ".offer").get_attribute("value") == name
    page.wait(lambda: "price" in page.labelled("Target", ".offer").get_attribute("placeholder"), "columns of the file")
    page.screenshot("data-offer")
    page.button("Upload", ".offer").click()
    page.text("2,500 rows, 6 columns, regression of price.", ".upload")
    page.screenshot("data-uploaded")
    page.one(".upload a").click()

    page.text("New job", "h1")
    page.put("Model", name)
    page.put("Solver", "pcg")
    page.put("Preconditioner", "none")
    page.put("Kernel", "gaussian")
    page.put("Regularization", "1e-9")
    page.put("Tolerance", "1e-9")
    page.put("Time budget, seconds", "6")
    page.text('"time_budget_s": 6', "pre.spec")
    page.screenshot("new-filled")
    page.button("Train").click()

    page.text(name, "h1")
    first = page.wait(lambda: page.script(POINTS, "Relative residual"), "curve")
    page.wait(lambda: page.script(POINTS, "Relative residual")[0] > first[0] + 2, "curve that moves")
    page.screenshot("job-running")
    page.text("succeeded", "h1", timeout=60)
    page.text("Prediction against truth")
    page.wait(lambda: page.script(POINTS, "Prediction against truth") == [500, 2], "points of the test rows")
    page.screenshot("job-done")
    job = api.get("/v1/jobs", params={"model": name}).json()["data"][0]
    assert job["spec"]["solver"]["preconditioner"]["name"] == "none"

    page.one("dd a[href^='#/models/']").click()
    page.text(f"{name} v1", "h1")
    for feature, value in zip(["width", "height", "depth", "mass", "age"], X[0]):
        page.put(feature, repr(float(value)))
    page.button("Predict").click()
    page.text("1 prediction of", "main")
    shown = float(page.one("td strong").text)
    assert shown == api.predict(name, X[:1]).json()["predictions"][0]
    page.screenshot("model-predicted")


def test_drop_of_a_file(page, name):
    page.open("data")
    page.one(".drop")
    page.script("""const files = new DataTransfer();
        files.items.add(new File(["a,b,y\\n1,2,3\\n4,5,6\\n7,8,10\\n"], arguments[0]));
        const zone = document.querySelector(".drop");
        for (const type of ["dragover", "drop"]) {
            zone.dispatchEvent(new DragEvent(type, {dataTransfer: files, bubbles: true, cancelable: true}));
        }""", name + ".csv")
    page.button("Upload", ".offer").click()
    page.text("3 rows, 3 columns, regression of y.", ".upload")


def test_a_bad_file_says_where(page, tmp_path):
    page.expected.append("422")
    page.open("data")
    give(page, tmp_path, "bad.csv", b"a,b,y\n1,2,3\n1,x,3\n")
    page.button("Upload", ".offer").click()
    page.text('Line 3, column 2 ("b"): "x" is not a number; ignore=COLUMN', "[role=alert]")
    page.screenshot("data-refused")


def test_columns_are_left_out(page, api, tmp_path, name):
    page.open("data")
    give(page, tmp_path, f"{name}.csv", b"when,a,who,y\n" + b"".join(b"2020,%d,me,%d.5\n" % (i, i) for i in range(9)))
    page.one(".offer")
    page.put("Leave out", "when, who", ".offer")
    page.button("Upload", ".offer").click()
    page.text("9 rows, 2 columns, regression of y.", ".upload")


def test_a_file_that_is_too_large(daemons, driver, tmp_path):
    import chromium
    page = chromium.Page(driver, daemons(max_upload_bytes=100_000).api.base)
    page.reset()
    page.expected.append("413")
    page.expected.append("ERR_")  # the connection may end before all of it has left
    page.open("data")
    give(page, tmp_path, "large.csv", b"a,b\n" + b"1,2\n" * 100_000)
    page.button("Upload", ".offer").click()
    page.one("[role=alert]")
    page.check_console()


def test_refusals_stand_beside_their_fields(page, api, name, regression_dataset):
    page.expected.append("422")
    page.open(f"new/data/{regression_dataset}")
    page.put("Model", name)
    page.put("Tolerance", "7")
    page.text("At most 1.", ".wrong")
    page.button("Train").click()
    assert page.focused() == page.labelled("Tolerance")
    page.put("Tolerance", "1e-3")
    page.put("Features", "no_such_column")
    page.button("Train").click()
    page.text("no_such_column", ".wrong")
    assert page.focused() == page.labelled("Features")
    assert page.labelled("Features").get_attribute("aria-invalid") == "true"
    page.screenshot("new-refused")
    assert not api.get("/v1/jobs", params={"model": name}).json()["data"]


def test_every_method_of_the_tables_can_be_chosen(page, api, name, regression_dataset):
    """The form offers what the tables have, and what it makes of untouched fields is a valid job."""
    page.open(f"new/data/{regression_dataset}")
    page.put("Model", name)
    for solver in api.get("/v1/solvers").json()["data"]:
        page.put("Solver", solver["name"])
        labels = [e.text for e in page.find("label") if e.is_displayed()]
        for parameter in solver["parameters"]:
            words = parameter["key"].replace("_", " ")
            assert words[0].upper() + words[1:] in labels, (solver["name"], parameter)
        assert ("Preconditioner" in labels) == bool(solver.get("preconditioner"))


def test_check_tells_the_plan(page, api, name, regression_dataset):
    page.open(f"new/data/{regression_dataset}")
    page.put("Model", name)
    page.put("Solver", "pcg")
    page.button("Check").click()
    page.text("The job is valid.", ".notice")
    page.text("96 to train, 24 to test", ".notice")
    page.screenshot("new-checked")
    page.put("Time budget, seconds", "1e-6")
    page.button("Check").click()
    page.text("may end the job without a model", ".notice")
    assert page.find("h1")[0].text == "New job"
    assert not api.get("/v1/jobs", params={"model": name}).json()["data"]


def test_new_job_like_an_old_one(page, api, name, regression_dataset):
    spec = {"kernel": {"name": "matern32", "bandwidth": 2.5}, "regularization": 1e-5, "priority": 7,
            "solver": {"name": "pcg", "residual_every": 9, "preconditioner": {"name": "nystrom_uniform", "rank": 20}},
            "stop": {"tolerance": 1e-4}, "metadata": {"team": "a"}, "test": {"fraction": 0.3},
            "standardize": {"features": False}}
    first = api.train(name, regression_dataset, **spec)
    page.open(f"new/like/{first['id']}")
    page.text('"residual_every": 9', "pre.spec")
    page.button("Train").click()
    page.wait(lambda: len(api.get("/v1/jobs", params={"model": name}).json()["data"]) == 2, "second job")
    second = api.get("/v1/jobs", params={"model": name}).json()["data"][0]
    assert second["spec"] == first["spec"]


@pytest.mark.parametrize("text, rows", [
    ("1,2,3,4\n5,6,7,8", [[1, 2, 3, 4], [5, 6, 7, 8]]),
    ("x3;x2;x1;x0\n4;3;2;1\n", [[1, 2, 3, 4]]),
    ("[[1,2,3,4]]", [[1, 2, 3, 4]]),
    ('{"instances": [{"x1": 2, "x0": 1, "x3": 4, "x2": 3}]}', [[1, 2, 3, 4]]),
])
def test_pasted_rows(page, api, name, regression_dataset, text, rows):
    api.train(name, regression_dataset)
    page.open(f"models/{name}")
    page.one("form")
    page.script("[...document.querySelectorAll('details')].find((d) => d.innerText.includes('Paste')).open = true")
    area = page.labelled("Rows, as CSV or JSON")
    page.script("arguments[0].value = arguments[1]", area, text)
    page.button("Predict rows").click()
    page.text(f"{len(rows)} prediction", "main")
    shown = [float(e.text) for e in page.find("td strong")]
    assert np.array_equal(shown, api.predict(name, rows).json()["predictions"])


def test_a_model_that_knows_its_variance(page, api, name, tmp_path):
    """Its details say so; predictions have their standard deviation, and the saved table the variance."""
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    process = handmade.regression(2)
    process.put(api, name)
    page.open(f"models/{name}")
    page.text("by 60 directions", "dd")
    page.text(", ".join(f"{value:.4g}" for value in np.sqrt(process.noise)), "dd")
    row = [1.0, 2.0, 3.0, 4.0]
    for feature, value in zip(process.features, row):
        page.put(feature, repr(value))
    page.button("Predict").click()
    page.text("1 prediction of", "main")
    shown = [cell.text.split(" ± ") for cell in page.find("td:has(strong)")]
    np.testing.assert_allclose([float(mean) for mean, _ in shown], process.predict([row])[0], rtol=1e-9)
    np.testing.assert_allclose([float(deviation) for _, deviation in shown], np.sqrt(process.variance([row])[0]), rtol=0.06)
    page.screenshot("model-variance")
    page.button("Save as CSV").click()
    path = tmp_path / f"{name}-v1.csv"
    page.wait(lambda: path.exists() and path.stat().st_size > 0, path.name)
    head, values = path.read_text().splitlines()
    assert head == "x0,x1,x2,x3,y0,y1,y0_variance,y1_variance"
    np.testing.assert_allclose([float(cell) for cell in values.split(",")[6:]], process.variance([row])[0], rtol=1e-9)


def test_scores_have_their_deviations(page, api, name):
    process = handmade.classifier()
    process.put(api, name)
    page.open(f"models/{name}")
    for feature in process.features:
        page.put(feature, "1.5")
    page.button("Predict").click()
    page.text("1 prediction of", "main")
    assert page.one("td.hint:not(.num)").text.count(" ± ") == 3
    assert " ± " not in page.one("td:has(strong)").text


def test_pasted_rows_that_are_wrong(page, api, name, regression_dataset):
    api.train(name, regression_dataset)
    page.open(f"models/{name}")
    page.one("form")
    page.script("[...document.querySelectorAll('details')].find((d) => d.innerText.includes('Paste')).open = true")
    area = page.labelled("Rows, as CSV or JSON")
    for text, words in [("1,2,3", "Line 1 has 3 values, not 4."), ("1,2,x,4\n1,2,3,4", "The column “x0” is missing."),
                        ("1,2,3,4\n1,2,,4", "Line 2: “” is no number."), ("[[1,2", "This is no JSON"), ("", "There are no rows.")]:
        page.script("arguments[0].value = arguments[1]", area, text)
        page.button("Predict rows").click()
        page.text(words, "[role=alert]")


def test_what_is_missing_is_filled_in(page, api, tmp_path, name):
    """From the upload to a prediction: rows and fields that lack a value are answered by the column's mean."""
    X, y = data.regression(96, d=3)
    X[::7, 1] = np.nan
    body = data.csv(X, y, ["a", "b", "c"], "price")
    assert body.count(b"nan") == 14
    page.open("data")
    give(page, tmp_path, f"{name}.csv", body.replace(b"nan", b"", 7).replace(b"nan", b"NA"))
    page.one(".offer")
    page.put("Missing values", "fill them in", ".offer")
    page.button("Upload", ".offer").click()
    page.text("96 rows, 4 columns, regression of price.", ".upload")
    page.text("14 missing values were filled in", ".upload")
    page.one(".upload a").click()
    page.text("New job", "h1")
    page.put("Model", name)
    page.button("Train").click()
    page.text("succeeded", "h1", timeout=60)
    page.open(f"models/{name}")
    page.one("form")

    mean = np.nanmean(X[:, 1])
    wanted = api.predict(name, [[0.5, mean, -0.5], [0.25, 1.0, 2.0]]).json()["predictions"]
    page.put("a", "0.5")
    page.put("c", "-0.5")
    for typed in ("", "NA"):
        if typed:
            page.put("b", typed)
        page.button("Predict").click()
        page.text("1 prediction of", "main")
        np.testing.assert_allclose(float(page.one("td strong").text), wanted[0], rtol=1e-9)
    page.put("b", "x")
    page.button("Predict").click()
    page.text("“b” needs a number.", "[role=alert]")

    page.script("[...document.querySelectorAll('details')].find((d) => d.innerText.includes('Paste')).open = true")
    page.text("What is missing may be left empty", "form .hint")
    area = page.labelled("Rows, as CSV or JSON")
    for text in ("0.5,,-0.5\n0.25,1,2", "a\tc\tb\n0.5\t-0.5\t\n0.25\t2\t1\n", "0.5;?;-0.5\n0.25;1;2",
                 '[{"a": 0.5, "b": null, "c": -0.5}, {"a": 0.25, "b": 1, "c": 2}]'):
        page.script("arguments[0].value = arguments[1]", area, "[[1")
        page.button("Predict rows").click()
        page.text("This is no JSON", "[role=alert]")  # nothing of the case before is left
        page.script("arguments[0].value = arguments[1]", area, text)
        page.button("Predict rows").click()
        page.text("2 predictions of", "main")
        np.testing.assert_allclose([float(e.text) for e in page.find("td strong")], wanted, rtol=1e-9)
    page.screenshot("model-missing")
    page.script("arguments[0].value = arguments[1]", area, '[{"a": 0.5, "b": 1, "c": 2}, {"a": 0.5, "bb": 1, "c": 2}]')
    page.button("Predict rows").click()
    page.text("Row 2: the column “b” is missing. A value that is missing is null.", "[role=alert]")
    assert not page.find("td strong")


def test_decimal_commas(page, tmp_path):
    page.expected.append("422")
    path = tmp_path / "commas.csv"
    path.write_text("a;y\n" + "".join(f"{i},5;{i},25\n" for i in range(20)))
    page.open("data")
    for choice in ("", "comma: 1,5"):
        page.one("input[type=file]").send_keys(str(path))
        if choice:
            page.put("Decimal sign", choice, ".offer")
        page.button("Upload", ".offer").click()
        page.text("20 rows, 2 columns, regression of y." if choice else "decimal=comma", ".upload")


def test_the_model_is_told_what_is_missing(page, api, tmp_path, name):
    """Columns that tell so are made of what is missing: nobody types them."""
    table = "a,b,y\n" + "".join(f"{i % 7 if i % 5 else ''},{i % 3},{i % 7 + 9 * (i % 5 == 0)}\n" for i in range(60))
    path = tmp_path / f"{name}.csv"
    path.write_text(table)
    page.open("data")
    page.one("input[type=file]").send_keys(str(path))
    page.put("Missing values", "fill them in, and tell where", ".offer")
    page.button("Upload", ".offer").click()
    page.text("60 rows, 4 columns, regression of y.", ".upload")
    dataset = api.upload(table.encode(), missing="indicate")
    api.train(name, dataset["id"])
    wanted = api.predict(name, [[None, 1], [2, 1]]).json()["predictions"]
    page.open(f"models/{name}")
    assert [e.text for e in page.find("form .tight label")] == ["a", "b"]
    page.put("b", "1")
    page.button("Predict").click()
    page.text("1 prediction of", "main")
    np.testing.assert_allclose(float(page.one("td strong").text), wanted[0], rtol=1e-9)
    page.script("[...document.querySelectorAll('details')].find((d) => d.innerText.includes('Paste')).open = true")
    page.script("arguments[0].value = arguments[1]", page.labelled("Rows, as CSV or JSON"), "b,a\n1,\n1,2\n")
    page.button("Predict rows").click()
    page.text("2 predictions of", "main")
    np.testing.assert_allclose([float(e.text) for e in page.find("td strong")], wanted, rtol=1e-9)


def test_words_in_pasted_rows(page, api, name):
    """Columns of words are pasted as the table has them; those that the model does not know pass where that is said."""
    table = "city,size,price\n" + "".join(f"{['Paris', 'Rome'][i % 2]},{i},{i * 2.5}\n" for i in range(40))
    api.train(name, api.upload(table.encode(), one_hot="true")["id"])
    body = {"instances": [{"size": 3, "city": "Rome"}, {"size": 4, "city": "Ghent"}]}
    wanted = api.post(f"/v1/models/{name}/predict", json=body, params={"unknown_values": "ignore"}).json()["predictions"]
    page.open(f"models/{name}")
    page.one("form")
    page.script("[...document.querySelectorAll('details')].find((d) => d.innerText.includes('Paste')).open = true")
    area = page.labelled("Rows, as CSV or JSON")
    page.script("arguments[0].value = arguments[1]", area, "size,city\n3,Rome\n4,Ghent\n")
    page.button("Predict rows").click()
    page.text("Line 3: the model does not know the word “Ghent” of the column “city”. With “Let unknown words pass”", "[role=alert]")
    page.labelled("Let unknown words pass").click()
    page.button("Predict rows").click()
    page.text("2 predictions of", "main")
    page.text("The model does not know 1 of the words.", "main")
    np.testing.assert_allclose([float(e.text) for e in page.find("td strong")], wanted, rtol=1e-9)
    page.screenshot("model-words")


def test_rows_that_lack_a_value_are_left_out(page, tmp_path, name):
    page.expected.append("422")
    page.open("data")
    for choice in (None, "leave out their rows"):
        give(page, tmp_path, f"{name}.csv", b"a,b,y\n1,2,3\n,5,6\n7,NA,9\n7,8,10\n4,4,4\n")
        page.one(".offer")
        if choice:
            page.put("Missing values", choice, ".offer")
        page.button("Upload", ".offer").click()
        page.text("3 rows, 3 columns, regression of y." if choice else "missing=", ".upload")


def test_aliases(page, api, name, regression_dataset):
    api.train(name, regression_dataset)
    api.train(name, regression_dataset, kernel="matern32")
    page.open(f"models/{name}/1")
    page.put("Alias", "prod")
    page.button("Make it v1").click()
    page.text("prod → v1")
    page.open(f"models/{name}")
    page.put("Alias", "prod")
    page.button("Make it v2").click()
    page.text("prod → v2")
    page.screenshot("model-aliases")
    page.button("Roll back").click()
    page.button("Roll back", "dialog").click()
    page.text("prod → v1")
    assert api.get(f"/v1/models/{name}/aliases").json()["data"][0]["version"] == 1


@pytest.mark.parametrize("word, ending, head", [("safetensors", "safetensors", None), ("ONNX", "onnx", b"\x08")])
def test_a_version_is_exported(page, api, name, regression_dataset, tmp_path, word, ending, head):
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    api.train(name, regression_dataset)
    page.open(f"models/{name}")
    page.button(word).click()
    path = tmp_path / f"{name}-v1.{ending}"
    # The browser holds the name with an empty file, which the whole one replaces.
    page.wait(lambda: path.exists() and path.stat().st_size > 0, path.name)
    data = path.read_bytes()
    asked = api.get(f"/v1/models/{name}/versions/1/export", params={"format": ending})
    assert data == asked.content and (head is None or data.startswith(head))


def test_a_model_that_a_prediction_loads_is_shown_as_loaded_and_what_was_typed_stays(page, api, name, regression_dataset):
    api.train(name, regression_dataset)
    page.open(f"models/{name}")
    page.text("unloaded", "h1")
    page.button("Fill in an example").click()
    page.wait(lambda: all(e.get_attribute("value") for e in page.find("form .tight input")), "example")
    typed = [e.get_attribute("value") for e in page.find("form .tight input")]
    page.button("Predict").click()
    page.wait(lambda: "unloaded" not in page.one("h1").text and "loaded" in page.one("h1").text, "state")
    page.button("Unload").click()
    page.text("unloaded", "h1")
    assert [e.get_attribute("value") for e in page.find("form .tight input")] == typed
    page.text("1 prediction of")


def test_an_imported_model(page, api, name):
    """It has neither job nor data set, and can be tried like any other."""
    process = handmade.regression()
    process.put(api, name)
    page.open(f"models/{name}")
    page.text("none: it was imported", "dd")
    page.text("The model was imported", ".empty")
    assert "Fill in an example" not in [button.text for button in page.find("button")]
    for feature in process.features:
        page.put(feature, "1.5")
    page.button("Predict").click()
    page.text("1 prediction of", "main")


def test_classes_have_a_confusion_table(page, api, name):
    X, labels = data.classification(150)
    api.train(name, api.upload_csv(X, labels))
    page.open(f"models/{name}")
    page.text("Rows: the truth. Columns: what is predicted.")
    counts = [int(e.text.replace(",", "")) for e in page.find(".confusion tbody td:not(:last-child)")]
    assert sum(counts) == 30
    page.screenshot("model-classes")


def test_a_classifier_that_has_ended_shows_its_accuracy(page, api, name):
    X, labels = data.classification(150)
    job = api.train(name, api.upload_csv(X, labels), solver="pcg")
    page.open(f"jobs/{job['id']}")
    page.text("Test Accuracy", "figcaption")
    choice = page.labelled("Test metric")
    assert choice.get_attribute("value") == "accuracy"
    page.wait(lambda: page.script(POINTS, "Test Accuracy") not in ([], [0]), "points of the accuracy")
    page.put("Test metric", "RMSE")
    page.text("No RMSE: what has ended has not told it.", ".chart-empty")


@pytest.mark.parametrize("solver, whitened", [("direct", True), ("cholesky", False)])
def test_models_on_centers_have_a_whitened_residual(page, api, name, regression_dataset, solver, whitened):
    job = api.train(name, regression_dataset, solver=solver)
    assert (job["result"]["whitened_residual"] is not None) == whitened
    for path, part in ((f"jobs/{job['id']}", "Certificate"), (f"models/{name}", "Residual, certified")):
        page.open(path)
        page.text(part, "main")
        assert ("Residual, whitened" in page.one("main").text) == whitened


def test_a_failed_job_says_why(page, api, name, regression_dataset):
    job = api.create(name, regression_dataset, solver="cholesky", regularization=0,
                     kernel={"name": "polynomial", "degree": 1}, standardize={"features": False})
    job = api.wait(job["id"])
    if job["status"] != "failed":
        pytest.skip("the factorisation went through by its rounding")
    page.open(f"jobs/{job['id']}")
    page.text(job["error"]["detail"], ".notice")
    page.screenshot("job-failed")


def test_pages_that_are_not_there(page):
    page.expected.append("404")
    page.open("jobs/job_00000000000000000000000000")
    page.text("404", "[role=alert]")
    page.open("models/nothing")
    page.text("404", "[role=alert]")
    page.open("nowhere")
    page.text("No such page", "h1")


def test_system(page, api):
    page.open("system")
    page.text("train:0")
    page.wait(lambda: any("MiB" in e.text for e in page.find("td")), "memory of a worker")
    page.wait(lambda: any(" free of " in e.text for e in page.find("td")), "memory of the device")
    for method in api.get("/v1/kernels").json()["data"]:
        page.text(method["name"])
    page.screenshot("system")


@pytest.mark.parametrize("width", [1300, 1160, 1440])
def test_actions_of_jobs_are_in_view(page, api, name, regression_dataset, width):
    api.train("a-name-that-is-long-" + name[-30:], regression_dataset)
    page.size(width, 900)
    page.open("jobs")
    page.wait(lambda: page.find("table.jobs tbody button"), "jobs")
    inside = """const box = document.querySelector("[aria-label=Jobs].scroll");
                return [box.scrollWidth, box.clientWidth];"""
    assert page.wait(lambda: page.script(inside), "table")[0] <= page.script(inside)[1] + 1
    page.screenshot(f"jobs-{width}")


def test_many_columns_widen_no_list(page, api, name):
    X, y = data.regression(60, d=30)
    dataset = api.upload(data.csv(X, y), name=name)
    page.size(1300, 900)
    page.open("data")
    page.wait(lambda: page.find(f"[aria-label='Look at {name}']"), "data set")[0].click()
    first = page.wait(lambda: page.find(f"[aria-label='First rows of {name}']"), "rows")[0]
    assert len(dataset["features"]) == 30
    widths = page.script("""const box = document.querySelector("[aria-label='Data sets'].scroll");
                            return [box.scrollWidth, box.clientWidth, arguments[0].scrollWidth, arguments[0].clientWidth];""", first)
    assert widths[0] <= widths[1] + 1 and widths[2] > widths[3]
    page.screenshot("data-look")


def test_narrow(page, api, name, regression_dataset):
    """Nothing is wider than a telephone but tables, which scroll by themselves."""
    job = api.train(name, regression_dataset)
    page.size(360, 740)
    for place in ("jobs", f"jobs/{job['id']}", f"new/data/{regression_dataset}", "data", "models", f"models/{name}", "system"):
        page.open(place)
        page.wait(lambda: len(page.find("main .card")) > 0, f"cards of {place}")
        assert page.script("return document.documentElement.scrollWidth") <= 360, place
        page.screenshot("narrow-" + place.split("/")[0] + ("-one" if "/" in place else ""))
