"""Words that a model was not trained on, in questions that let them pass."""

import io

import numpy as np
import pytest

import data
import prometheus

CITIES = ["Paris", "Rome", "Oslo"]
TABLE = "size,city,price\n" + "".join(f"{i},{CITIES[i % 3]},{i * 1.5 + i % 3}\n" for i in range(30))
KERNEL = {"name": "gaussian", "bandwidth": 2.0}
FEATURES = ["size", "city=Oslo", "city=Paris", "city=Rome"]
ROWS = [(3, "Rome"), (4, "Ghent"), (5, "Oslo"), (6, "rome")]
IGNORE = {"unknown_values": "ignore"}


@pytest.fixture(scope="module", params=["refuse", "fill"])
def model(api, request):
    """A model with texts, one that fills in what is missing and one that does not."""
    name = f"unknown-{request.param}"
    dataset = api.upload(TABLE.encode(), one_hot="true", missing=request.param)
    assert sorted(dataset["features"]) == sorted(FEATURES)
    api.train(name, dataset["id"], test={"fraction": 0}, kernel=KERNEL, regularization=1e-6)
    order = dataset["features"]
    numbers = [[float(size if f == "size" else f == f"city={city}") for f in order] for size, city in ROWS]
    return name, api.predict(name, numbers).json()["predictions"]


def ask(api, name, body, expect=200, path="/v1/models/{}/predict", kind=None, accept=None, **query):
    headers = {k: v for k, v in (("Content-Type", kind), ("Accept", accept)) if v}
    kwargs = {"data": body} if isinstance(body, bytes) else {"json": body}
    return api.post(path.format(name), expect, params=query, headers=headers, **kwargs)


def forms():
    records = [{"size": size, "city": city} for size, city in ROWS]
    return {
        "objects": {"instances": records}, "records": {"dataframe_records": records},
        "columns": {"inputs": {"city": [city for _, city in ROWS], "size": [size for size, _ in ROWS]}},
        "split": {"dataframe_split": {"columns": ["city", "size"], "data": [[city, size] for size, city in ROWS]}},
    }


def csv(rows):
    return "\n".join(["size,city", *(f"{size},{city}" for size, city in rows)]).encode()


@pytest.mark.parametrize("form", list(forms()))
def test_json(api, model, form):
    refusal = ask(api, model[0], forms()[form], 422).json()["detail"]
    assert '"Ghent" is none of the values of "city"' in refusal and "unknown_values=ignore (krr: --ignore-unknown)" in refusal
    ask(api, model[0], forms()[form], 422, unknown_values="refuse")
    answer = ask(api, model[0], forms()[form], **IGNORE).json()
    assert answer["predictions"] == model[1] and answer["unknown_values"] == 2


@pytest.mark.parametrize("path", ["/v1/models/{}:predict", "/v1/models/{}/versions/1/predict", "/v1/models/{}/aliases/live/predict"])
def test_every_route(api, model, path):
    api.request("PUT", f"/v1/models/{model[0]}/aliases/live", json={"version": 1})
    assert ask(api, model[0], forms()["objects"], path=path, **IGNORE).json()["unknown_values"] == 2


def test_csv_and_npy(api, model):
    refusal = ask(api, model[0], csv(ROWS), 422, kind="text/csv").json()
    assert refusal["errors"][0]["pointer"] == "#/line/3/column/2" and "unknown_values=ignore" in refusal["detail"]
    answer = ask(api, model[0], csv(ROWS), kind="text/csv", **IGNORE)
    assert [float(line) for line in answer.text.split()[1:]] == model[1]
    assert answer.headers["X-Krrd-Unknown-Values"] == "2"
    answer = ask(api, model[0], csv(ROWS), kind="text/csv", accept="application/x-npy", **IGNORE)
    assert np.load(io.BytesIO(answer.content)).tolist() == model[1]
    assert answer.headers["X-Krrd-Unknown-Values"] == "2"


def test_who_does_not_ask_is_told_nothing(api, model):
    known = [row for row in ROWS if row[1] in CITIES]
    answer = ask(api, model[0], csv(known), kind="text/csv")
    assert "X-Krrd-Unknown-Values" not in answer.headers
    assert "unknown_values" not in ask(api, model[0], csv(known), kind="text/csv", accept="application/json").json()
    answer = ask(api, model[0], csv(known), kind="text/csv", **IGNORE)
    assert answer.headers["X-Krrd-Unknown-Values"] == "0"


def test_many_rows(api, model):
    """Read and written on other threads."""
    rows = [(i % 9, "Rome" if i % 3 else "Ghent") for i in range(12000)]
    answer = ask(api, model[0], csv(rows), kind="text/csv", **IGNORE)
    assert answer.headers["X-Krrd-Unknown-Values"] == "4000" and len(answer.text.split()) == 12001


def test_a_text_that_is_empty_is_no_word(api, model):
    """It is missing: for models that fill in to take, whatever is said of words."""
    fills = model[0].endswith("fill")
    for body, kind in ((csv([(3, "")]), "text/csv"), ({"instances": [{"size": 3, "city": ""}]}, None),
                       ({"instances": [{"size": 3, "city": None}]}, None)):
        answer = ask(api, model[0], body, 200 if fills else 422, kind=kind, accept="application/json", **IGNORE).json()
        assert answer["unknown_values"] == 0 if fills else "unknown_values" not in answer["detail"]
    answer = ask(api, model[0], csv([(3, "NA")]), kind="text/csv", **IGNORE)
    assert answer.headers["X-Krrd-Unknown-Values"] == ("0" if fills else "1")


def test_bad_rule(api, model):
    refusal = ask(api, model[0], forms()["objects"], 422, unknown_values="drop").json()
    assert refusal["errors"][0] == {"pointer": "#/query/unknown_values", "detail": "This must be refuse or ignore."}


def test_metrics(api, model):
    value = lambda: prometheus.scrape(api).value("krrd_prediction_unknown_values_total")
    before = value()
    ask(api, model[0], forms()["split"], **IGNORE)
    ask(api, model[0], forms()["split"], 422)
    assert value() == before + 2


def test_a_model_without_texts(api, name):
    """A model without texts takes the parameter, and has nothing to ignore."""
    dataset = api.upload(data.csv(*data.regression(30)))
    api.train(name, dataset["id"], kernel=KERNEL)
    rows = [[0.5] * len(dataset["features"])]
    assert ask(api, name, {"instances": rows}, **IGNORE).json()["unknown_values"] == 0
    ask(api, name, {"instances": [["x"] * len(rows[0])]}, 422, **IGNORE)
