"""Values that are missing: in uploads, in questions, and in models that came back."""

import io
import json
import struct

import numpy as np
import pytest

import asking
import data

HEADER = "size,city,rooms,price\n"
TABLE = HEADER + "".join(f"{s},{c},{r},{p}\n" for s, c, r, p in [
    (1, "Paris", 2, 3.5), ("", "Rome", 3, 4), (3, "NA", "?", 5), (4, "Paris", 4, 6.25), (5, "Oslo", 5, ""),
    (6, "Rome", 1, 7.5), ("NaN", "null", 3, 8), (8, "Rome", "None", 9)])
# Without the row that lacks its price; what is missing is the mean, and no city.
WHOLE = [(1, "Paris", 2), (22 / 5, "Rome", 3), (3, None, 13 / 5), (4, "Paris", 4),
         (6, "Rome", 1), (22 / 5, None, 3), (8, "Rome", 13 / 5)]
LACKING = [(1, "Paris", 2), (None, "Rome", 3), (3, None, None), (4, "Paris", 4),
           (6, "Rome", 1), (None, None, 3), (8, "Rome", None)]
NAMES = ["size", "city", "rooms"]
FEATURES = ["size", "city=Paris", "city=Rome", "rooms"]
FILL = [22 / 5, 0, 0, 13 / 5]
BINARY = {"Content-Type": "application/octet-stream"}
KERNEL = {"name": "gaussian", "bandwidth": 2.0}


def numbers(rows):
    return [[size, float(city == "Paris"), float(city == "Rome"), rooms] for size, city, rooms in rows]


@pytest.fixture(scope="module")
def filled(api):
    """A model that fills in what is missing, and what it says of whole rows."""
    dataset = api.upload(TABLE.encode(), one_hot="true", missing="fill")
    api.train("filled", dataset["id"], test={"fraction": 0}, kernel=KERNEL, regularization=1e-6)
    return "filled", api.predict("filled", numbers(WHOLE)).json()["predictions"]


@pytest.fixture(scope="module")
def plain(api):
    """A model that does not, of the rows that lack nothing."""
    dataset = api.upload(TABLE.encode(), one_hot="true", missing="drop")
    api.train("unfilled", dataset["id"], test={"fraction": 0}, kernel=KERNEL)
    return "unfilled"


def ask(api, model, body, expect=200, content_type=None, **query):
    kwargs = {"data": body, "headers": {"Content-Type": content_type}} if content_type else {"json": body}
    return api.post(f"/v1/models/{model}/predict", expect, params=query, **kwargs)


def error(answer):
    found = answer.json()["errors"][0]
    return found["pointer"], found["detail"]


def table(api, dataset):
    preview = api.get(f"/v1/datasets/{dataset['id']}/preview", params={"rows": 100}).json()
    return preview["rows"]


# Uploads.


def test_filled(api):
    made = api.upload(TABLE.encode(), one_hot="true", missing="fill")
    assert made["features"] == FEATURES and made["rows"] == 7
    assert made["missing"] == {"rule": "fill", "dropped_rows": 1, "filled": 6}
    assert [row[:4] for row in table(api, made)] == numbers(WHOLE)
    assert any("1 of 8 rows" in w and '"price"' in w for w in made["warnings"])
    assert any("6 missing values were filled in" in w for w in made["warnings"])
    assert api.get(f"/v1/datasets/{made['id']}").json() == made


def test_dropped(api):
    made = api.upload(TABLE.encode(), one_hot="true", missing="drop")
    assert made["features"] == FEATURES  # Oslo is in no row that stays
    assert made["missing"] == {"rule": "drop", "dropped_rows": 5, "filled": 0}
    assert table(api, made) == [[1, 1, 0, 2, 3.5], [4, 1, 0, 4, 6.25], [6, 0, 1, 1, 7.5]]
    made = api.upload(TABLE.encode(), ignore=["city", "rooms"], missing="drop")
    assert made["missing"]["dropped_rows"] == 3 and made["features"] == ["size"]


def test_refused_by_default(api):
    for query in ({}, {"missing": "refuse"}):
        pointer, detail = error(api.request("POST", "/v1/datasets", 422, data=TABLE, params={"one_hot": "true", **query},
                                            headers={"Content-Type": "text/csv"}))
        assert pointer == "#/line/3/column/1" and "missing=drop (krr: --missing drop)" in detail
    assert api.upload(data.csv(*data.regression(10)))["missing"] is None


def test_bad_rule(api):
    answer = api.request("POST", "/v1/datasets", 422, data=TABLE, params={"missing": "mean"},
                         headers={"Content-Type": "text/csv"})
    assert error(answer)[0] == "#/query/missing"


def test_a_column_without_a_value(api):
    answer = api.request("POST", "/v1/datasets", 422, data="a,b,y\n1,,2\n2,NA,3\n", params={"missing": "fill"},
                         headers={"Content-Type": "text/csv"})
    assert error(answer)[0] == "#/column/2" and 'The column "b" holds no value' in error(answer)[1]


@pytest.mark.parametrize("pack", [data.npy, None])
def test_arrays(api, pack):
    X = np.array([[1.0, 2.0], [np.nan, 4.0], [5.0, 6.0], [7.0, np.nan]])
    body, kind = (data.npy(X), "npy") if pack else (data.npz(X[:, :1], X[:, 1]), "npz")
    made = api.upload(body, f"application/x-{kind}", missing="fill")
    assert table(api, made) == [[1, 2], [3, 4], [5, 6]]
    assert api.upload(body, f"application/x-{kind}", missing="drop")["rows"] == 2
    api.upload(body, f"application/x-{kind}", expect=422)


# Questions.


def forms():
    records = [dict(zip(NAMES, row)) for row in LACKING]
    columns = {name: [row[i] for row in LACKING] for i, name in enumerate(NAMES)}
    lacking = [[size, *(cities if city else (None, None)), rooms]
               for (size, city, rooms), (_, *cities, _) in zip(LACKING, numbers(LACKING))]
    backwards = [row[::-1] for row in lacking]
    return {
        "objects": {"instances": records}, "records": {"dataframe_records": records}, "columns": {"inputs": columns},
        "split": {"dataframe_split": {"columns": NAMES, "data": LACKING}}, "arrays": {"instances": lacking},
        "plain split": {"dataframe_split": {"columns": FEATURES[::-1], "data": backwards}},
        "split behind": {"dataframe_split": {"data": backwards, "columns": FEATURES[::-1]}},
        "feature columns": {"inputs": dict(zip(FEATURES, map(list, zip(*lacking))))},
        "marks among words": {"instances": [{**r, "city": r["city"] or "?"} for r in records]},
    }


@pytest.mark.parametrize("form", list(forms()))
def test_null_is_filled_in(api, filled, form):
    assert ask(api, filled[0], forms()[form]).json()["predictions"] == filled[1]


def test_long_columns(api, filled):
    """More than are read at once, missing at the borders, too."""
    values = [None if i % 7 in (0, 3) or 510 <= i < 515 else i % 5 for i in range(3000)]
    rest = {"city": ["Rome"] * 3000, "rooms": [2] * 3000}
    whole = [FILL[0] if v is None else v for v in values]
    wanted = ask(api, filled[0], {"inputs": {"size": whole, **rest}}).json()["predictions"]
    assert ask(api, filled[0], {"inputs": {"size": values, **rest}}).json()["predictions"] == wanted
    assert ask(api, filled[0], {"inputs": {**rest, "size": values}}).json()["predictions"] == wanted


def test_csv(api, filled):
    cells = lambda row, mark: ",".join(mark if cell is None else str(cell) for cell in row)
    for mark in ("", "NA", '""', " ? ", "nan"):
        body = "\n".join(["size,city,rooms", *(cells(row, mark) for row in LACKING)])
        answer = ask(api, filled[0], body.encode(), content_type="text/csv").text
        assert [float(line) for line in answer.split()[1:]] == filled[1]
    # Without a header: a row that lacks everything holds no names.
    wanted = api.predict("filled", [FILL, FILL[:3] + [1]]).json()["predictions"]
    answer = ask(api, filled[0], b",NA,,nan\n,,?,1\n", content_type="text/csv").text
    assert [float(line) for line in answer.split()] == wanted
    # The table that the model was trained on is a question as it is.
    answer = ask(api, filled[0], TABLE.replace("Oslo", "").encode(), content_type="text/csv").text
    assert len(answer.split()) == 9


def test_npy(api, filled):
    X = np.array([[np.nan if v is None else v for v in row] for row in numbers(LACKING)])
    X[[2, 5], 1:3] = np.nan
    answer = ask(api, filled[0], data.npy(X), content_type="application/x-npy")
    assert np.load(io.BytesIO(answer.content)).ravel().tolist() == filled[1]
    ask(api, filled[0], data.npy(np.full((1, 4), np.inf)), 422, content_type="application/x-npy")


def infer(api, model, tensor, expect=200, raw=b""):
    head = json.dumps({"inputs": [{"name": "X", **tensor}]}).encode()
    headers = {"Content-Type": "application/json"}
    if raw:
        headers = {**BINARY, "Inference-Header-Content-Length": str(len(head))}
    return api.post(f"/v2/models/{model}/infer", expect, data=head + raw, headers=headers)


def test_infer(api, filled):
    rows = numbers(LACKING)
    flat = [value for row in rows for value in row]
    for values in (rows, flat):
        answer = infer(api, filled[0], {"shape": [7, 4], "datatype": "FP64", "data": values}).json()
        assert answer["outputs"][0]["data"] == filled[1]
    raw = struct.pack("<28d", *(np.nan if v is None else v for v in flat))
    answer = infer(api, filled[0], {"shape": [7, 4], "datatype": "FP64", "parameters": {"binary_data_size": len(raw)}}, raw=raw)
    assert answer.json()["outputs"][0]["data"] == filled[1]
    body = api.post(f"/v2/models/{filled[0]}/infer", data=raw, headers={**BINARY, "Inference-Header-Content-Length": "0"})
    assert struct.unpack("<7d", body.content[-56:]) == tuple(filled[1])


def test_singles_beside_nulls(api, filled):
    """Numbers halfway between floats are rounded by their text, and null is none of them."""
    halfway = [1 + 2.0**-24, 1 + 3 * 2.0**-24]
    text = '[null,%.30f,0,%.30f,%.30f,null,null,%.30f]' % (*halfway, *halfway)
    head = '{"inputs":[{"name":"X","shape":[2,4],"datatype":"FP32","data":%s}]}' % text
    answer = api.post(f"/v2/models/{filled[0]}/infer", data=head, headers={"Content-Type": "application/json"}).json()
    a, b = (float(np.float32(v)) for v in halfway)
    wanted = api.predict("filled", [[FILL[0], a, 0, b], [a, 0, 0, b]]).json()["predictions"]
    assert answer["outputs"][0]["data"] == wanted


@pytest.mark.parametrize("body, pointer", [
    ({"instances": [{"size": None, "city": "Rome", "rooms": 1}]}, "#/instances/0/size"),
    ({"instances": [{"size": 1, "city": None, "rooms": 1}]}, "#/instances/0/city"),
    ({"instances": [[1, 2, 3, 4], [1, None, 0, 1]]}, "#/instances/1/1"),
    ({"inputs": {"size": [1, None], "city": ["Rome"] * 2, "rooms": [1, 2]}}, "#/inputs/size/1"),
    ({"inputs": {"size": [1], "city": [None], "rooms": [1]}}, "#/inputs/city/0"),
])
def test_models_that_fill_in_nothing(api, plain, body, pointer):
    found, detail = error(ask(api, plain, body, 422))
    assert found == pointer
    assert "missing=fill (krr: --missing fill)" in detail


def test_other_forms_of_models_that_fill_in_nothing(api, plain):
    for cell in ("", "NA"):
        body = f"size,city,rooms\n{cell},Rome,2\n".encode()
        pointer, detail = error(ask(api, plain, body, 422, content_type="text/csv"))
        assert pointer == "#/line/2/column/1" and "missing=fill (krr: --missing fill)" in detail
    _, detail = error(ask(api, plain, data.npy(np.full((1, 4), np.nan)), 422, content_type="application/x-npy"))
    assert "missing=fill (krr: --missing fill)" in detail
    pointer, detail = error(infer(api, plain, {"shape": [1, 4], "datatype": "FP64", "data": [1, None, 2, 3]}, 422))
    assert pointer == "#/inputs/0/data" and "missing=fill" in detail


@pytest.mark.parametrize("body, pointer", [
    ({"instances": [[1, 0, 0]]}, "#/instances/0"), ({"instances": [[None] * 5]}, "#/instances/0"),
    ({"instances": [[1, 0, 0, 2, None]]}, "#/instances/0"), ({"instances": [[None, "x", 0, 1]]}, "#/instances/0/1"),
    ({"instances": [{"size": 1, "rooms": 2}]}, "#/instances/0"),  # a column must be there
    ({"instances": [{"size": "NA", "city": "Rome", "rooms": 2}]}, "#/instances/0/size"),
    ({"instances": [{"size": 1, "city": "Oslo", "rooms": 2}]}, "#/instances/0/city"),
    ({"inputs": {"size": [1, None, 2], "city": ["Rome"], "rooms": [1]}}, "#/inputs/city"),
])
def test_what_stays_refused(api, filled, body, pointer):
    assert error(ask(api, filled[0], body, 422))[0] == pointer


# Models.


def test_description(api, filled, plain):
    description = api.get(f"/v1/models/{filled[0]}/versions/1").json()["description"]
    assert description["features"] == FEATURES and description["fill"] == FILL
    assert api.get(f"/v1/models/{plain}/versions/1").json()["description"]["fill"] is None


def test_features_of_a_job(api, name):
    """The values are those of the features that the model has, in their order."""
    dataset = api.upload(TABLE.encode(), one_hot="true", missing="fill")
    api.train(name, dataset["id"], features=["rooms", "size"], test={"fraction": 0}, kernel=KERNEL)
    description = api.get(f"/v1/models/{name}/versions/1").json()["description"]
    by_name = dict(zip(FEATURES, FILL))
    assert description["fill"] == [by_name[f] for f in description["features"]]
    whole = [[by_name[f] for f in description["features"]]]
    assert api.predict(name, [[None, None]]).json()["predictions"] == api.predict(name, whole).json()["predictions"]


def test_export_and_import(api, name, filled):
    exported = api.get(f"/v1/models/{filled[0]}/versions/1/export").content
    metadata = json.loads(exported[8:8 + struct.unpack("<Q", exported[:8])[0]])["__metadata__"]
    assert json.loads(metadata["model"])["version"] == 3 and "feature_fill" in metadata["fill_formula"]
    made = api.post(f"/v1/models/{name}/import", 201, data=exported,
                    headers={"Content-Type": "application/vnd.safetensors"}).json()
    assert made["sha256"] == api.get(f"/v1/models/{filled[0]}/versions/1").json()["sha256"]
    assert made["description"]["fill"] == FILL
    assert ask(api, name, forms()["objects"]).json()["predictions"] == filled[1]


def test_restart(daemons):
    daemon = daemons()
    dataset = daemon.api.upload(TABLE.encode(), one_hot="true", missing="fill")
    daemon.api.train("m", dataset["id"], test={"fraction": 0}, kernel=KERNEL)

    def answers():
        return ask(daemon.api, "m", forms()["objects"]).json()["predictions"]

    before = asking.outlive_a_restart(daemon, dataset, answers)
    daemon.api.train("m", dataset["id"], test={"fraction": 0}, kernel=KERNEL)
    assert answers() == before


def test_classes(api, name):
    rows = "".join(f"{i % 4 if i % 5 else ''},{'yes' if i % 4 > 1 else 'no'}\n" for i in range(40))
    dataset = api.upload(("a,y\n" + rows + "1,\n").encode(), missing="fill")
    assert dataset["classes"] == ["no", "yes"] and dataset["missing"]["dropped_rows"] == 1
    api.train(name, dataset["id"], test={"fraction": 0}, kernel=KERNEL)
    mean = np.mean([i % 4 for i in range(40) if i % 5])
    answers = api.predict(name, [[None], [0], [3], [mean]]).json()["predictions"]
    assert answers[1:3] == ["no", "yes"] and answers[0] == answers[3]


# What was filled in is neither learned nor a mask.


def refused(api, dataset, **spec):
    return error(api.post("/v1/jobs", 422, json={"model": "m", "dataset": dataset["id"], "kernel": KERNEL, **spec}))


def test_made_up_targets_are_refused(api, name):
    rows = "".join(f"{'' if i == 3 else i % 2},{i},{i * i}\n" for i in range(20))
    dataset = api.upload(("a,b,y\n" + rows).encode(), missing="fill")
    pointer, detail = refused(api, dataset, target="a", features=["b"])
    assert pointer == "#/target" and '"a" has no value in 1 of 20 rows' in detail
    pointer, detail = refused(api, dataset, test={"mask": "a"})
    assert pointer == "#/test/mask" and '"a" has no value in 1 of 20 rows' in detail
    api.train(name, dataset["id"], target="b", features=["a", "y"], kernel=KERNEL)
    whole = api.upload(("a,b,y\n" + rows.replace("\n,", "\n1,")).encode())
    pointer, detail = refused(api, whole, target="a", features=["b"], test={"dataset": dataset["id"]})
    assert pointer == "#/test/dataset" and '"a" of the test data set has no value in 1 of 20 rows' in detail


def test_a_word_that_was_left_out(api):
    """The warning does not advise what has been done."""
    body = b"c,d,y\n1,1,1\nbad,,2\n2,3,3\n3,4,4\n4,5,5\n"
    said = api.upload(body, one_hot="true", missing="drop")["warnings"]
    assert any("holds text in rows that were left out: its 4 different numbers" in w for w in said), said


def test_an_empty_target(api):
    detail = api.post("/v1/datasets", 422, data=b"a,y\n1,2\n3,\n",
                      headers={"Content-Type": "text/csv"}).json()["detail"]
    assert "leave out rows without a target" in detail and "fills it in" not in detail
    for body, type_ in ((b"a,y\n1,nan\n3,1\n", "text/csv"), (b"nan 1:1\n2 1:1\n", "text/x-libsvm")):
        detail = api.post("/v1/datasets", 422, data=body, headers={"Content-Type": type_}).json()["detail"]
        assert "leave out rows without a target" in detail and "fills it in" not in detail


@pytest.mark.parametrize("body, type_", [
    (data.npy(np.array([[1., 2.], [np.nan, 3.]])), "application/x-npy"),
    (b"1 1:2\n2 1:nan\n", "text/x-libsvm"), (b"1 1:2\n2 1:NA\n", "text/x-libsvm"),
])
def test_other_formats_name_the_parameter(api, body, type_):
    detail = api.post("/v1/datasets", 422, data=body, headers={"Content-Type": type_}).json()["detail"]
    assert "missing=fill fills it in" in detail
