"""Columns that tell where others lack a value (missing=indicate), in uploads, models and questions."""

import io
import json
import struct

import numpy as np
import pytest

import asking
import data

HEADER = "size,city,rooms,price,age\n"
ROWS = [(1, "Paris", 2, 3.5, 7), ("", "Rome", 3, 4, 8), (3, "NA", "?", 5, 9), (4, "Paris", 4, 6.25, 9),
        (5, "Oslo", 5, "", 1), (6, "Rome", 1, 7.5, 2), ("NaN", "null", 3, 8, 4), (8, "Rome", "None", 9, 5)]
TABLE = HEADER + "".join(",".join(map(str, row)) + "\n" for row in ROWS)
# What the table says of the rows that have a price; and as it is filled in, with what was missing behind.
LACKING = [(1, "Paris", 2, 7), (None, "Rome", 3, 8), (3, None, None, 9), (4, "Paris", 4, 9), (6, "Rome", 1, 2),
           (None, None, 3, 4), (8, "Rome", None, 5)]
MEANS = [22 / 5, 13 / 5]
NAMES = ["size", "city", "rooms", "age"]
FEATURES = ["size", "city=Paris", "city=Rome", "rooms", "age", "size_missing", "city_missing", "rooms_missing"]
INDICATES = [None] * 5 + [0, 1, 3]
KERNEL = {"name": "gaussian", "bandwidth": 2.0}


def whole(rows, means=MEANS):
    """The eight features of rows that may lack something."""
    return [[means[0] if size is None else size, float(city == "Paris"), float(city == "Rome"), means[1] if rooms is None else rooms, age,
             float(size is None), float(city is None), float(rooms is None)] for size, city, rooms, age in rows]


def narrow(rows):
    """The same without those that tell, and with null for what is missing."""
    return [[size, *((None, None) if city is None else (float(city == "Paris"), float(city == "Rome"))), rooms, age]
            for size, city, rooms, age in rows]


@pytest.fixture(scope="module")
def told(api):
    """A model that is told what is missing, and its predictions of rows in which that stands."""
    dataset = api.upload(TABLE.encode(), one_hot="true", missing="indicate", target="price")
    api.train("told", dataset["id"], test={"fraction": 0}, kernel=KERNEL, regularization=1e-6)
    return "told", api.predict("told", whole(LACKING)).json()["predictions"]


def ask(api, model, body, expect=200, kind=None, path="/v1/models/{}/predict", **headers):
    kwargs = {"data": body} if isinstance(body, (bytes, str)) else {"json": body}
    headers.update({"Content-Type": kind} if kind else {})
    return api.post(path.format(model), expect, headers=headers, **kwargs)


def error(answer):
    found = answer.json()["errors"][0]
    return found["pointer"], found["detail"]


def upload_refused(api, body, **query):
    return error(api.post("/v1/datasets", 422, data=body, params=query, headers={"Content-Type": "text/csv"}))


# Uploads.


def test_upload(api):
    made = api.upload(TABLE.encode(), one_hot="true", missing="indicate", target="price")
    assert made["features"] == FEATURES and made["rows"] == 7
    assert made["missing"] == {"rule": "indicate", "dropped_rows": 1, "filled": 6}
    preview = api.get(f"/v1/datasets/{made['id']}/preview", params={"rows": 100}).json()
    at = [preview["columns"].index(name) for name in FEATURES]
    assert [[row[i] for i in at] for row in preview["rows"]] == whole(LACKING)
    assert any('columns "…_missing" tell where that was' in w for w in made["warnings"])
    assert api.get(f"/v1/datasets/{made['id']}").json() == made


def test_a_column_that_lacks_nothing_has_none(api):
    made = api.upload(b"a,b,y\n1,,2\n2,3,4\n3,4,5\n", missing="indicate")
    assert made["features"] == ["a", "b", "b_missing"] and made["target"] == "y"
    made = api.upload(b"a,b,y\n1,2,2\n2,3,4\n3,4,5\n", missing="indicate")
    assert made["features"] == ["a", "b"] and made["missing"]["rule"] == "indicate"
    made = api.upload(b"a,b,y\n1,,2\n2,3,\n3,4,5\n", missing="indicate", ignore="b")  # nor one that is left out
    assert made["features"] == ["a"] and made["rows"] == 2


@pytest.mark.parametrize("kind", ["npy", "npz", "libsvm"])
def test_other_formats(api, kind):
    X = np.array([[1.0, 2.0, 1.0], [np.nan, 4.0, 2.0], [5.0, 6.0, 3.0]])
    body = {"npy": lambda: data.npy(X), "npz": lambda: data.npz(X[:, :2], X[:, 2]),
            "libsvm": lambda: b"1 1:1 2:2\n2 1:nan 2:4\n3 1:5 2:6\n"}[kind]()
    made = api.upload(body, {"libsvm": "text/x-libsvm"}.get(kind, f"application/x-{kind}"), missing="indicate")
    assert len(made["features"]) == 3 and made["features"][2] == made["features"][0] + "_missing"


def test_names_that_are_taken(api):
    for body in (b"a,a_missing,y\n1,1,2\n,3,4\n3,4,5\n", b"a,a_missing,y\n1,x,2\n,z,4\n3,x,5\n"):
        pointer, detail = upload_refused(api, body, missing="indicate", one_hot="true")
        assert pointer == "#/missing" and '"a_missing" is named as the one that missing=indicate makes' in detail
        assert "--ignore) and in questions, where it would be taken for that one" in detail
        api.upload(body, missing="indicate", ignore="a_missing", one_hot="true")
        api.upload(body.replace(b"\n,", b"\n2,"), missing="indicate", one_hot="true")  # nothing is missing


# Questions.


def forms():
    records = [dict(zip(NAMES, row)) for row in LACKING]
    said = dict(zip(FEATURES, map(list, zip(*whole(LACKING)))))
    lacking = dict(zip(FEATURES[:5], map(list, zip(*narrow(LACKING)))))
    return {
        "objects": {"instances": records}, "records": {"dataframe_records": records},
        "columns": {"inputs": {name: [row[i] for row in LACKING] for i, name in enumerate(NAMES)}},
        "split": {"dataframe_split": {"columns": NAMES, "data": LACKING}},
        "feature columns": {"inputs": lacking}, "arrays": {"instances": narrow(LACKING)},
        "split of features": {"dataframe_split": {"columns": FEATURES[:5][::-1], "data": [row[::-1] for row in narrow(LACKING)]}},
        "wide arrays": {"instances": [row + [None] * 3 for row in narrow(LACKING)]},
        "wide arrays that say 0": {"instances": [row + [0] * 3 for row in narrow(LACKING)]},
        "mixed arrays": {"instances": [row if i % 2 else wide for i, (row, wide) in enumerate(zip(narrow(LACKING), whole(LACKING)))]},
        "all said": {"inputs": said}, "some said": {"inputs": {**lacking, "rooms_missing": said["rooms_missing"]}},
        "said by name": {"instances": [dict(zip(FEATURES, row)) for row in whole(LACKING)]},
    }


@pytest.mark.parametrize("form", list(forms()))
def test_json(api, told, form):
    assert ask(api, told[0], forms()[form]).json()["predictions"] == told[1]


def lines(rows, mark):
    return "".join(",".join(mark if cell is None else str(cell) for cell in row) + "\n" for row in rows).encode()


@pytest.mark.parametrize("mark", ["", "NA", "?"])
def test_csv(api, told, mark):
    bodies = [b"size,city,rooms,age\n" + lines(LACKING, mark), lines(narrow(LACKING), mark),
              b"age,rooms,city,size\n" + lines([row[::-1] for row in LACKING], mark),
              lines([row + [None] * 3 for row in narrow(LACKING)], mark), lines(whole(LACKING), mark),
              ",".join(FEATURES).encode() + b"\n" + lines(whole(LACKING), mark)]
    for body in bodies:
        answer = ask(api, told[0], body, kind="text/csv", Accept="text/csv; header=absent").text
        assert [float(line) for line in answer.split()] == told[1]
    # The table that the model was trained on is a question as it is.
    body = TABLE.replace("Oslo", "")
    assert [float(v) for i, v in enumerate(ask(api, told[0], body, kind="text/csv").text.split()[1:]) if i != 4] == told[1]


def test_npy_and_infer(api, told):
    lacking = np.array([[np.nan if v is None else v for v in row] for row in narrow(LACKING)])
    wide = np.hstack([lacking, np.full((7, 3), np.nan)])
    for X in (lacking, wide, np.asfortranarray(lacking), np.array(whole(LACKING))):
        answer = ask(api, told[0], data.npy(X), kind="application/x-npy")
        assert np.load(io.BytesIO(answer.content)).ravel().tolist() == told[1]
    tensor = {"name": "X", "shape": [7, 8], "datatype": "FP64", "data": [row + [None] * 3 for row in narrow(LACKING)]}
    answer = ask(api, told[0], {"inputs": [tensor]}, path="/v2/models/{}/infer").json()
    assert answer["outputs"][0]["data"] == told[1]
    ask(api, told[0], {"inputs": [{**tensor, "shape": [7, 5], "data": narrow(LACKING)}]}, 422, path="/v2/models/{}/infer")


@pytest.mark.parametrize("body, pointer, text", [
    ({"instances": [[1, 0, 0, 2]]}, "#/instances/0", "takes 8 features, or 5 without those that tell what is missing"),
    ({"instances": [[1] * 6]}, "#/instances/0", "or 5"), ({"instances": [[1] * 9]}, "#/instances/0", "more than 8"),
    ({"instances": [{"size": 1, "city": "Rome", "rooms": 2}]}, "#/instances/0", '"age" is missing'),
    ({"instances": [{"size": 1, "city": "Rome", "rooms": 2, "age": 1, "age_missing": 0}]}, "#/instances/0/age_missing", "no feature"),
    ({"dataframe_split": {"columns": FEATURES, "data": [[1, 0, 0, 2, 3]]}}, "#/dataframe_split/data/0", "takes 8 features."),
])
def test_refused(api, told, body, pointer, text):
    found, detail = error(ask(api, told[0], body, 422))
    assert found == pointer and text in detail


def test_refused_tables(api, told):
    takes = "the model takes 8 features, or in all rows 5 without those that tell what is missing."
    assert error(ask(api, told[0], "1,0,0,2\n", 422, "text/csv")) == ("#/line/1", f"Line 1 holds 4 cells; {takes}")
    assert error(ask(api, told[0], "1,0,0,2,3,0,0,0\n1,0,0,2,3\n", 422, "text/csv")) == ("#/line/2", f"Line 2 holds 5 cells; {takes}")
    for row, cells in (("1,0,0,2", "4"), ("1,0,0,2,3,0,0,0", "more than 5")):
        found = error(ask(api, told[0], f"1,0,0,2,3\n{row}\n", 422, "text/csv"))
        assert found == ("#/line/2", f"Line 2 holds {cells} cells; the first row has 5.")
    _, detail = error(ask(api, told[0], data.npy(np.zeros((2, 6))), 422, "application/x-npy"))
    assert "8 features, or 5 without those that tell what is missing" in detail


def test_an_unknown_word_is_not_missing(api, told):
    body = {"instances": [dict(zip(NAMES, (1, "Ghent", 2, 3)))]}
    answer = api.post("/v1/models/told/predict", 200, json=body, params={"unknown_values": "ignore"}).json()
    assert answer["unknown_values"] == 1
    assert answer["predictions"] == api.predict("told", [[1, 0, 0, 2, 3, 0, 0, 0]]).json()["predictions"]
    assert answer["predictions"] != api.predict("told", [[1, 0, 0, 2, 3, 0, 1, 0]]).json()["predictions"]


# Models.


def test_description_export_and_import(api, name, told):
    version = api.get("/v1/models/told/versions/1").json()
    assert version["description"]["indicates"] == INDICATES and version["description"]["features"] == FEATURES
    exported = api.get("/v1/models/told/versions/1/export").content
    metadata = json.loads(exported[8:8 + struct.unpack("<Q", exported[:8])[0]])["__metadata__"]
    assert json.loads(metadata["model"])["version"] == 4 and "feature_indicates" in metadata["indicator_formula"]
    made = api.post(f"/v1/models/{name}/import", 201, data=exported, headers={"Content-Type": "application/vnd.safetensors"}).json()
    assert made["sha256"] == version["sha256"] and made["description"]["indicates"] == INDICATES
    assert ask(api, name, forms()["objects"]).json()["predictions"] == told[1]


def test_features_of_a_job(api, name):
    """In the order of the job; what tells needs what it tells of."""
    dataset = api.upload(TABLE.encode(), one_hot="true", missing="indicate", target="price")
    spec = {"test": {"fraction": 0}, "kernel": KERNEL}
    answer = api.post("/v1/jobs", 422, json={"model": name, "dataset": dataset["id"], "features": ["rooms", "size_missing"], **spec})
    assert error(answer)[0] == "#/features" and '"size_missing" tells where "size" is missing' in error(answer)[1]
    api.train(name, dataset["id"], features=["size_missing", "rooms", "size"], **spec)
    description = api.get(f"/v1/models/{name}/versions/1").json()["description"]
    places = {f: i for i, f in enumerate(description["features"])}
    assert description["indicates"] == [places["size"] if f == "size_missing" else None for f in description["features"]]
    order = [f for f in description["features"] if f != "size_missing"]
    row = {"size": None, "rooms": 2}
    full = {"size": MEANS[0], "rooms": 2, "size_missing": 1}
    wanted = api.predict(name, [[full[f] for f in description["features"]]]).json()["predictions"]
    assert api.predict(name, [[row[f] for f in order]]).json()["predictions"] == wanted
    assert ask(api, name, {"instances": [row]}).json()["predictions"] == wanted
    api.train(name, dataset["id"], features=["size", "rooms"], **spec)
    assert api.get(f"/v1/models/{name}/versions/2").json()["description"]["indicates"] is None


def test_it_says_something(api, name):
    """Where a value is missing because of what the target is, the model learns that."""
    rng = np.random.default_rng(3)
    x, lacks = rng.standard_normal(200), rng.random(200) < 0.3
    table = "x,z,y\n" + "".join(f"{'' if gone else v},{w},{5.0 * gone + v * (not gone)}\n" for v, gone, w in zip(x, lacks, rng.random(200)))
    errors = {}
    for rule in ("fill", "indicate"):
        dataset = api.upload(table.encode(), missing=rule)
        api.train(f"{name}-{rule}", dataset["id"], test={"fraction": 0}, kernel={"name": "gaussian", "bandwidth": 1.0}, regularization=1e-4)
        asked = api.predict(f"{name}-{rule}", [[None, 0.5], [0.0, 0.5]]).json()["predictions"]
        errors[rule] = abs(asked[0] - 5) + abs(asked[1])
    assert errors["indicate"] < 0.5 < 1 < errors["fill"]


def test_restart(daemons):
    daemon = daemons()
    dataset = daemon.api.upload(TABLE.encode(), one_hot="true", missing="indicate", target="price")
    daemon.api.train("m", dataset["id"], test={"fraction": 0}, kernel=KERNEL)

    def answers():
        return ask(daemon.api, "m", forms()["objects"]).json()["predictions"]

    asking.outlive_a_restart(daemon, dataset, answers)


def test_classes_that_are_no_column_of_the_table(api):
    """Advice that can be followed: what one_hot and missing=indicate made cannot be uploaded as a target."""
    dataset = api.upload(TABLE.encode(), one_hot="true", missing="indicate", target="price")["id"]
    words = api.upload(TABLE.encode(), one_hot="true", missing="drop", target="price")["id"]
    for target, text in (("city=Rome", 'made it of the words of a column "city", upload the table with that as its target'),
                         ("size_missing", 'tells where "size" is missing: it takes a regression'),
                         ("age", 'The target "age" holds numbers, not classes; upload the data set for classification')):
        answer = api.post("/v1/jobs", 422, json={"model": "m", "dataset": words if "=" in target else dataset, "target": target, "task": "classification", "kernel": KERNEL})
        assert error(answer)[0] == "#/task" and text in error(answer)[1]
    made = api.upload(TABLE.encode(), one_hot="true", target="city", missing="drop", ignore=["price", "rooms"])
    assert made["classes"] == ["Oslo", "Paris", "Rome"]
