"""Predictions as JSON of several forms, CSV and NPY, packed and plain: the same numbers every way."""

import csv
import gzip
import io
import itertools
import json
import socket
import time
import zlib

import numpy as np
import pytest

import api as interface
import data
import raw

NAMES = ["x0", "x1", "x2", "x3"]


@pytest.fixture(scope="module")
def model(api):
    """The name of a regression on x0 to x3."""
    X, y = data.regression(120, seed=40)
    api.train("bodies", api.upload_csv(X, y), test={"fraction": 0}, regularization=1e-4,
              kernel={"name": "gaussian", "bandwidth": 2.0})
    return "bodies"


@pytest.fixture(scope="module")
def classifier(api):
    X, y = data.classification(120, labels=["b, or \"c\"", "ümlaut", "🙂"], seed=41)
    rows = [",".join([*map(repr, r), '"' + t.replace('"', '""') + '"'])
            for r, t in zip(X.tolist(), y.tolist())]
    dataset = api.upload((",".join(NAMES[:X.shape[1]]) + ",label\n" + "\n".join(rows)).encode())
    api.train("kinds", dataset["id"], test={"fraction": 0}, regularization=1e-3,
              kernel={"name": "gaussian", "bandwidth": 1.5})
    return "kinds", X


@pytest.fixture(scope="module")
def pair(api):
    """A model of two targets."""
    X, y = data.regression(100, seed=42)
    table = data.csv(np.column_stack([X, y]), 2 * y + 1, [*NAMES, "first"], "second")
    dataset = api.upload(table, target=["first", "second"])
    api.train("pair", dataset["id"], test={"fraction": 0}, kernel={"name": "gaussian", "bandwidth": 2.0})
    return "pair"


def questions(n=25, seed=43):
    return data.regression(n, seed=seed)[0]


def ask(api, model, body, kind=None, expect=200, query="", **headers):
    if not isinstance(body, (str, bytes)):
        body = json.dumps(body)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    headers["Content-Type"] = kind or "application/json"
    return api.post(f"/v1/models/{model}/predict{query}", expect, data=body, headers=headers)


def npy(X, **kwargs):
    out = io.BytesIO()
    np.save(out, np.asarray(X, **kwargs))
    return out.getvalue()


def from_npy(answer):
    assert answer.headers["Content-Type"] == "application/x-npy"
    return np.load(io.BytesIO(answer.content), allow_pickle=False)


def from_csv(answer):
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.reader(io.StringIO(answer.content.decode(), newline="")))


def table(X, names=None, delimiter=","):
    lines = [] if names is None else [delimiter.join(names)]
    return "\n".join(lines + [delimiter.join(map(repr, row)) for row in X.tolist()]) + "\n"


# JSON.


def test_forms_of_json(api, model):
    X = questions()
    rows = X.tolist()
    wanted = ask(api, model, {"instances": rows}).json()["predictions"]
    shuffled = [2, 0, 3, 1]
    records = [{NAMES[j]: row[j] for j in shuffled} for row in rows]
    names = [NAMES[j] for j in shuffled]
    columns = X[:, shuffled].tolist()
    for body in (
        {"inputs": rows},
        {"inputs": {n: X[:, NAMES.index(n)].tolist() for n in names}},
        {"instances": records},
        {"inputs": records},
        {"dataframe_records": records},
        {"dataframe_split": {"columns": names, "data": columns}},
        {"dataframe_split": {"data": columns, "index": list(range(25)), "columns": names}},
        {"dataframe_split": {"columns": NAMES, "data": rows}},
        {"instances": rows, "return_variance": False, "return_probabilities": False,
         "return_scores": False, "signature_name": "serving_default"},
    ):
        assert ask(api, model, body).json()["predictions"] == wanted
    pretty = json.dumps({"instances": rows}, indent=2)
    assert ask(api, model, pretty).json()["predictions"] == wanted


def test_long_columns(api, model):
    X = questions(1500)
    wanted = ask(api, model, {"instances": X.tolist()}).json()["predictions"]
    body = {"inputs": {n: X[:, j].tolist() for j, n in enumerate(NAMES)}}
    assert ask(api, model, body).json()["predictions"] == wanted


def test_an_answer_says_whose_it_is(api, model):
    answer = ask(api, model, {"instances": [[1, 2, 3, 4]]}).json()
    digest = "sha256:" + api.get(f"/v1/models/{model}/versions/1").json()["sha256"]
    assert (answer["model"], answer["version"], answer["digest"]) == (model, 1, digest)
    plain = ask(api, model, npy([[1.0, 2, 3, 4]]), "application/x-npy")
    assert plain.headers["X-Krrd-Model"] == model
    assert plain.headers["X-Krrd-Model-Version"] == "1"
    assert plain.headers["X-Krrd-Model-Digest"] == digest


def test_other_paths(api, model, daemons):
    body = {"instances": questions(3).tolist()}
    wanted = ask(api, model, body).json()
    assert api.post(f"/v1/models/{model}:predict", json=body).json() == wanted
    assert api.post(f"/v1/models/{model}/versions/1/predict", json=body).json() == wanted
    without = daemons(workers="cpu:0").api.post("/invocations", 404, json=body)
    assert "--default-model" in without.json()["detail"]
    own = daemons(default_model="chosen").api
    own.post("/invocations", 404, json=body)
    X, y = data.regression(60, seed=44)
    own.train("chosen", own.upload_csv(X, y), test={"fraction": 0})
    answer = own.post("/invocations", data=table(X[:2]), headers={"Content-Type": "text/csv"})
    predictions = own.predict("chosen", X[:2]).json()["predictions"]
    assert [float(line) for line in answer.text.split()] == predictions


WISHES = {"instances": [[1, 2, 3, 4]]}

REFUSED = [
    ('{"instances": [[1, 2, 3, 4], [1, 1e999, 3, 4]]}', 400, "#/instances/1/1"),
    ('{"instances": [[1, 2, NaN, 4]]}', 400, "#/instances/0/2"),
    ('{"instances": [[01, 2, 3, 4]]}', 400, "#/instances/0/0"),
    ('{"instances": [{"x0": 1, "x1": 2, "x2": 3}]}', 422, "#/instances/0"),
    ('{"instances": [{"x0": 1, "x1": 2, "x2": 3, "x3": 4, "x4": 5}]}', 422, "#/instances/0/x4"),
    ('{"instances": [{"x0": 1, "x1": 2, "x2": 3, "x2": 4}]}', 400, "#/instances/0/x2"),
    ('{"instances": [{"x0": 1, "x1": "2", "x2": 3, "x3": 4}]}', 422, "#/instances/0/x1"),
    ('{"instances": [{"x0": 1, "x2": 3, "x1": 02, "x3": 4}]}', 400, "#/instances/0/x1"),
    ('{"inputs": 5}', 422, "#/inputs"),
    ('{"inputs": [1, 2, 3, 4]}', 422, "#/inputs/0"),
    ('{"inputs": {"x0": [1], "x1": [2], "x2": [3]}}', 422, "#/inputs"),
    ('{"inputs": {"x0": [1], "x1": [2], "x2": [3], "x3": []}}', 422, "#/inputs/x3"),
    ('{"inputs": {"x0": [1], "x1": [2], "x2": [3], "x3": [4, 5]}}', 422, "#/inputs/x3"),
    ('{"inputs": {"x0": [1], "x1": [2], "x2": [3], "x3": 4}}', 422, "#/inputs/x3"),
    ('{"inputs": {"x0": [1, "a"], "x1": [2], "x2": [3], "x3": 4}}', 422, "#/inputs/x0/1"),
    ('{"inputs": {"x0": [1], "x0": [2], "x2": [3], "x3": [4]}}', 400, "#/inputs/x0"),
    ('{"inputs": {"z": [1]}}', 422, "#/inputs/z"),
    ('{"inputs": {}}', 422, "#/inputs"),
    ('{"inputs": {"x0": [], "x1": [], "x2": [], "x3": []}}', 422, "#/inputs"),
    ('{"inputs": [[1, 2, 3, 4]], "instances": [[1, 2, 3, 4]]}', 400, "#/instances"),
    ('{"dataframe_split": {"columns": ["x0", "x1", "x2", "x3"]}}', 422, "#/dataframe_split/data"),
    ('{"dataframe_split": {"data": [[1, 2, 3, 4]]}}', 422, "#/dataframe_split/columns"),
    ('{"dataframe_split": {"columns": ["x0", "x1", "x2"], "data": []}}', 422, "#/dataframe_split/columns"),
    ('{"dataframe_split": {"columns": ["x0", "x1", "x2", "x2"], "data": []}}', 422,
     "#/dataframe_split/columns"),
    ('{"dataframe_split": {"columns": ["x0", "x1", "x2", "x3", "x4"], "data": []}}', 422,
     "#/dataframe_split/columns"),
    ('{"dataframe_split": {"columns": [1], "data": []}}', 422, "#/dataframe_split/columns"),
    ('{"dataframe_split": {"columns": ["x0", "x1", "x2", "x3"], "data": [[1, 2, 3]]}}', 422,
     "#/dataframe_split/data/0"),
    ('{"dataframe_split": {"rows": []}}', 422, "#/dataframe_split/rows"),
    ('{"dataframe_split": []}', 422, "#/dataframe_split"),
    ('{"dataframe_records": []}', 422, "#/dataframe_records"),
    (json.dumps({**WISHES, "return_variance": True}), 422, "#/return_variance"),
    (json.dumps({**WISHES, "return_probabilities": True}), 422, "#/return_probabilities"),
    (json.dumps({**WISHES, "return_scores": True}), 422, "#/return_scores"),
    (json.dumps({**WISHES, "return_scores": 1}), 422, "#/return_scores"),
    (json.dumps({**WISHES, "signature_name": "other"}), 422, "#/signature_name"),
    ('{"instances": [[1, 2, 3, 4]], "return_scores": false, "return_scores": false}', 400,
     "#/return_scores"),
]


@pytest.mark.parametrize("body, status, pointer", REFUSED)
def test_refused_json(api, model, body, status, pointer):
    answer = ask(api, model, body, expect=status)
    assert interface.problem_pointers(answer) == [pointer], answer.text


# CSV.


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv(api, model, delimiter, end):
    X = questions()
    wanted = ask(api, model, {"instances": X.tolist()}).json()["predictions"]
    plain = table(X, delimiter=delimiter).replace("\n", end)
    found = from_csv(ask(api, model, plain, "text/csv"))
    assert [float(cell) for [cell] in found] == wanted
    names = [f'"{name}"' for name in NAMES[::-1]]
    turned = "\ufeff\ufeff" + table(X[:, ::-1], names, delimiter).replace("\n", end) + end
    found = from_csv(ask(api, model, turned.encode(), "text/csv; charset=utf-8"))
    assert found[0] == ["y"]
    assert [float(cell) for [cell] in found[1:]] == wanted


def test_csv_is_parted_as_an_upload_is(api, name):
    """By commas where there are any, though others stand before them."""
    body = "size; weight,y\n" + "".join(f"{i},{i * 1.5}\n" for i in range(30))
    dataset = api.upload(body.encode())
    assert dataset["features"] == ["size; weight"]
    api.train(name, dataset["id"], test={"fraction": 0})
    wanted = ask(api, name, {"instances": [[i] for i in range(30)]}).json()["predictions"]
    found = from_csv(ask(api, name, body, "text/csv"))
    assert [float(cell) for [cell] in found[1:]] == wanted


def test_csv_of_odd_but_good_cells(api, model):
    body = 'x0, x1 ,"x2",x3\n\n 1 ,"2",.5,-4.\n1e0,+2,0.5,-04\n   \n'
    [header, first, second] = from_csv(ask(api, model, body, "text/csv"))
    assert first == second
    assert [float(first[0])] == ask(api, model, {"instances": [[1, 2, .5, -4]]}).json()["predictions"]


@pytest.fixture(scope="module")
def numbered(api):
    """A model whose columns are named by numbers."""
    body = "1,0,2\n" + "".join(f"{i},{i % 5},{i * 1.5}\n" for i in range(30))
    dataset = api.upload(body.encode(), "text/csv; header=present")
    api.train("numbered", dataset["id"], test={"fraction": 0}, kernel={"name": "gaussian", "bandwidth": 2.0})
    return "numbered"


@pytest.mark.parametrize("said, rows, header", [
    ("", [[0, 1], [7, 3]], []),
    ("; charset=UTF-8", [[0, 1], [7, 3]], []),
    (";charset=us-ascii; Header=\"present\"", [[3, 7]], [["2"]]),
    ("; header=absent", [[0, 1], [7, 3]], []),
])
def test_a_csv_has_a_header_or_not_as_its_type_says(api, numbered, said, rows, header):
    wanted = ask(api, numbered, {"instances": rows}).json()["predictions"]
    found = from_csv(ask(api, numbered, "0,1\n7,3\n", "text/csv" + said))
    assert found[:len(header)] == header
    assert [float(cell) for [cell] in found[len(header):]] == wanted


def test_a_type_that_says_of_a_header_what_is_not_so(api, model):
    X = questions()
    answer = ask(api, model, table(X, NAMES), "text/csv; header=absent", 422)
    assert interface.problem_pointers(answer) == ["#/line/1/column/1"]
    assert '"x0" is not a number' in answer.json()["detail"]
    answer = ask(api, model, "1,2,3,4\n", "text/csv; header=present", 422)
    assert interface.problem_pointers(answer) == ["#/line/1/column/1"] and 'no feature "1"' in answer.json()["detail"]
    answer = ask(api, model, ",".join(NAMES), "text/csv; header=present", 422)
    assert "at least one row" in answer.json()["detail"]


@pytest.mark.parametrize("kind, said", [
    ("text/csv; charset=iso-8859-1", "iso-8859-1"), ("text/csv;header=absent;charset=\"utf-16\"", "utf-16"),
    ("text/csv; header=maybe", "maybe"),
])
def test_what_the_type_of_a_csv_says_and_is_not_read(api, model, kind, said):
    """In the words of an upload."""
    refused = ask(api, model, "1,2,3,4\n", kind, 415)
    assert f'"{said}"' in refused.json()["detail"]
    assert interface.problem_pointers(refused) == ["#/header/content-type"]
    upload = api.request("POST", "/v1/datasets", 415, data=b"1,2\n3,4\n", headers={"Content-Type": kind})
    assert upload.json()["detail"] == refused.json()["detail"]


def test_csv_with_the_target_still_in_it(api, model):
    """As the table was that the model was trained on; what the column holds does not matter."""
    X = questions()
    wanted = from_csv(ask(api, model, table(X, NAMES), "text/csv"))
    for target in (0, len(NAMES) // 2, len(NAMES)):
        lines = [["y", *NAMES], *([cell, *map(repr, x)] for cell, x in zip(
            itertools.cycle(["1.5", "", "unknown", '"a,b"', "nan"]), X.tolist()))]
        for line in lines:
            line.insert(target, line.pop(0))
        body = "\n".join(map(",".join, lines))
        assert from_csv(ask(api, model, body, "text/csv")) == wanted


def test_a_text_like_a_number_is_a_text(api, name):
    """In a column of text nan and 0x1f are what was written."""
    made = api.upload(b"t,y\n1,1.5\nnan,2\n0x1f,1\nred,3.5\n", one_hot="true")
    api.train(name, made["id"], test={"fraction": 0}, regularization=1e-9)
    answer = ask(api, name, "t\nnan\n0x1f\nred\n", "text/csv", Accept="application/json")
    assert np.allclose(answer.json()["predictions"], [2, 1, 3.5], atol=1e-3)


@pytest.mark.parametrize("form", ["csv", "instances", "inputs", "dataframe_split", "dataframe_records"])
def test_the_table_that_was_trained_on_is_a_question_in_every_form(api, name, form):
    """Target and mask are passed over, whatever they hold."""
    rows = [[i % 2, i, i * 1.5] for i in range(30)]
    table = "".join(["test,a,y\n", *(f"{t},{a},{y}\n" for t, a, y in rows)])
    api.train(name, api.upload(table.encode())["id"], test={"mask": "test"})
    model = api.get(f"/v1/models/{name}/versions/1").json()
    assert model["description"]["mask"] == "test" and model["description"]["features"] == ["a"]
    wanted = ask(api, name, {"instances": [[a] for _, a, _ in rows]}).json()["predictions"]
    records = [{"test": t, "a": a, "y": None} for t, a, _ in rows]
    body = {"csv": table, "instances": {"instances": records}, "dataframe_records": {"dataframe_records": records},
            "inputs": {"inputs": {k: [r[k] for r in records] for k in records[0]}},
            "dataframe_split": {"dataframe_split": {"columns": ["test", "a", "y"], "data": rows}}}[form]
    kind = "text/csv" if form == "csv" else None
    assert ask(api, name, body, kind, Accept="application/json").json()["predictions"] == wanted
    if form == "instances":
        answer = ask(api, name, '{"instances": [{"a": 1, "y": 1, "y": 2}]}', None, 400)
        assert "twice" in answer.text


@pytest.mark.parametrize("body, pointer, text", [
    ("", "#", "at least one row"),
    ("x0,x1,x2,x3\n", "#", "at least one row"),
    ("1,2,3\n", "#/line/1", "3 cells"),
    ("1,2,3,4\n1,2,3,4,5\n", "#/line/2", "more than 4 cells"),
    ("1,2,3,4\n\n1,2,x,4\n", "#/line/3/column/3", '"x" is not a number'),
    ("1,2,3,4\n1,2,,4\n", "#/line/2/column/3", "empty"),
    ("1,2,3,4\n1,2,nan,4\n", "#/line/2/column/3", "not a finite number"),
    ("1,2,3,1e999\n", "#/line/1/column/4", "not a finite number"),
    ("1,2,3,0x10\n", "#/line/1/column/4", "not a number"),
    ("1,2,3,4 5\n", "#/line/1/column/4", "not a number"),
    ("x0,x1,x2,other\n1,2,3,4\n", "#/line/1/column/4", 'no feature "other"'),
    ("x0,x1,x2,x2\n1,2,3,4\n", "#/line/1/column/4", "twice"),
    ("x0,x1,x2\n1,2,3\n", "#/line/1", '"x3" is missing'),
    ("x0,x1,y,x2\n1,2,3,4\n", "#/line/1", '"x3" is missing'),
    ("y,x0,x1,x2,x3,y\n1,2,3,4,5,6\n", "#/line/1/column/6", "twice"),
    ("x0,x1,x2,x3,y,z\n1,2,3,4,5,6\n", "#/line/1/column/6", 'no feature "z"'),
    ("x0,x1,x2,x3,y\n1,2,3,4\n", "#/line/2", "4 cells; the header has 5 columns"),
    ("x0,x1,x2,x3,y\n1,2,3,4,5,6\n", "#/line/2", "more than 5 cells"),
    ('x0,y,x1,x2,x3\n1,"2,3,4,5\n', "#/line/2/column/2", "never closed"),
    ('1,2,3,"4\n', "#/line/1/column/4", "never closed"),
    ('1,2,3,4\n1,"2,3,4\n1,2,3,4\n', "#/line/2/column/2", "begins here is never closed"),
    ('1,2,3,"4"5\n', "#/line/1/column/4", "follows the closing quotes"),
    ('1,2,3,4"\n', "#/line/1/column/4", "a quotation mark stands within the cell"),
    ('x0,x1,x2,x3,y\n1,2,3,4,a "b\nc"\n', "#/line/2/column/5", "a quotation mark stands within the cell"),
    ('x0,x1,x2,x3,y\n1,2,3,4,"a\nb"\n1,2,x,4,5\n', "#/line/4/column/3", '"x" is not a number'),
    ('1,2,3,"4\r\n\r"\n1,2,"3\n",x\n', "#/line/5/column/4", '"x" is not a number'),
    ('1,2,3,"4\n"\n1,2,"3\n"\n', "#/line/3", "3 cells"),
    ('1,2,3,"4\n5"\n', "#/line/1/column/4", "is not a number"),
    ('"x\n0",x1,x2,x3\n1,2,3,4\n', "#/line/1/column/1", "no feature"),
    ('\n\nx0,"x1\n",x2\n1,2,3\n', "#/line/3", '"x3" is missing'),
])
def test_refused_csv(api, model, body, pointer, text):
    answer = ask(api, model, body, "text/csv", 422)
    assert interface.problem_pointers(answer) == [pointer], answer.text
    assert text in answer.json()["detail"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_quoted_cells_may_go_on_in_another_line(api, name, end):
    """Names, texts, numbers, targets and what is passed over, as in an upload."""
    lines = ['"when\n(UTC)";city;"le\nngth";note;"the\nprice"']
    for i in range(30):
        city = ['"New\nYork"', "Rome", '" \nOslo\n"'][i % 3]
        lines.append(f'"{i}\n";{city};{i % 7};"{i};1;2\n\n""so"",\n";"{i * 1.5}\n"')
    body = ("\n".join(lines) + "\n").replace("\n", end).encode()
    dataset = api.upload(body, ignore="note", one_hot="true")
    york = f"city=New{end}York"
    assert sorted(dataset["features"]) == sorted([f"when{end}(UTC)", york, "city=Rome", "city=Oslo", f"le{end}ngth"])
    api.train(name, dataset["id"], test={"fraction": 0}, kernel={"name": "gaussian", "bandwidth": 2.0})
    rows = [[float(feature == [york, "city=Rome", "city=Oslo"][i % 3]) if "city" in feature
             else i if "when" in feature else i % 7 for feature in dataset["features"]] for i in range(30)]
    wanted = ask(api, name, {"instances": rows}).json()["predictions"]
    found = from_csv(ask(api, name, body, "text/csv", query="?extra_columns=ignore"))
    assert found[0] == [f"the{end}price"] and [float(cell) for [cell] in found[1:]] == wanted
    assert ask(api, name, body, "text/csv", 422).json()["errors"][0]["pointer"] == "#/line/3/column/4"


@pytest.mark.parametrize("body, status, text", [
    ("x0,x1,x2,x3\n1,2,3,4\n".encode("utf-16"), 400, "iconv -f UTF-16 -t UTF-8"),
    (b"sep=;\nx0;x1;x2;x3\n1;2;3;4\n", 422, '"sep=;" tells Excel what parts the cells'),
])
def test_what_spreadsheets_write(api, model, body, status, text):
    found = ask(api, model, body, "text/csv", status).json()["errors"][0]
    assert found["pointer"] == "#/line/1" and text in found["detail"]


# Columns of text, and columns too many.


MIXED = "city,size,\"ro om\",price\n" + "".join(
    f'"{city}",{i},{"x" if i % 2 else "y=z"},{i * 1.5 + len(city)}\n'
    for i, city in enumerate(["Paris", "Rome", "São Paulo", " L'Aquila ", "007"] * 6))


@pytest.fixture(scope="module")
def mixed(api):
    """A model whose table had columns of text, and the rows as it takes them."""
    dataset = api.upload(MIXED.encode(), one_hot="true")
    assert "city=L'Aquila" in dataset["features"] and "ro om=y=z" in dataset["features"]
    api.train("mixed", dataset["id"], test={"fraction": 0}, kernel={"name": "gaussian", "bandwidth": 2.0})
    records = list(csv.DictReader(io.StringIO(MIXED)))
    values = [{**row, "size": float(row["size"])} for row in records]
    numbers = [[float(name == f"city={row['city'].strip()}" or name == f"ro om={row['ro om']}"
                      or (name == "size" and row["size"])) for name in dataset["features"]] for row in values]
    return "mixed", values, numbers


def test_text_columns_are_read_as_on_upload(api, mixed):
    name, values, numbers = mixed
    wanted = ask(api, name, {"instances": numbers}).json()["predictions"]
    rows = [{k: v for k, v in row.items() if k != "price"} for row in values]
    columns = {key: [row[key] for row in rows] for key in ("ro om", "city", "size")}
    split = {"columns": list(columns), "data": list(map(list, zip(*columns.values())))}
    for body in ({"instances": rows}, {"dataframe_records": rows}, {"inputs": columns},
                 {"dataframe_split": split}):
        assert ask(api, name, body).json()["predictions"] == wanted, next(iter(body))
    assert [float(cell) for [cell] in from_csv(ask(api, name, MIXED.encode(), "text/csv"))[1:]] == wanted


@pytest.mark.parametrize("body, pointer, text", [
    ({"instances": [{"size": 1, "city": "Lyon", "ro om": "x"}]}, "#/instances/0/city",
     '"Lyon" is none of the values of "city" that the model knows: "007", "L\'Aquila", "Paris", "Rome" and 1 more. '
     "unknown_values=ignore (krr: --ignore-unknown) takes such a value as none of them."),
    ({"instances": [{"size": 1, "city": 7, "ro om": "x"}]}, "#/instances/0/city", "strings"),
    ({"instances": [{"size": "1", "city": "Rome", "ro om": "x"}]}, "#/instances/0/size", "numbers"),
    ({"instances": [{"size": 1, "ro om": "x"}]}, "#/instances/0", '"city=007" is missing'),
    ({"instances": [{"city=Rome": 1, "size": 1, "city": "Rome", "ro om": "x"}]}, "#/instances/0/city", "twice"),
    ({"inputs": {"city": ["Rome", "Rom"], "size": [1, 2], "ro om": ["x", "x"]}}, "#/inputs/city/1", '"Rom" is none'),
    ({"inputs": {"size": [1, 2], "city": ["Rome"], "ro om": ["x", "x"]}}, "#/inputs/city", "1 values, the first one 2"),
    ({"inputs": {"size": [1, 2], "city": ["Rome", 5], "ro om": ["x", "x"]}}, "#/inputs/city/1", "strings"),
    ({"dataframe_split": {"columns": ["size", "city", "ro om"], "data": [[1, "Rome", "x"], [1, "Rome"]]}},
     "#/dataframe_split/data/1", "fewer"),
    ({"dataframe_split": {"columns": ["size", "city", "ro om"], "data": [[1, "Rome", "x", 4]]}},
     "#/dataframe_split/data/0", "more"),
    ({"dataframe_split": {"columns": ["city", "ro om", "size"], "data": [["Rome", "x", 1], ["Rome", "x", "1"]]}},
     "#/dataframe_split/data/1/2", "numbers"),
    ({"dataframe_split": {"columns": ["size", "ro om", "city"], "data": [[1, "x", "Rome"], [1, "x", "Lyon"]]}},
     "#/dataframe_split/data/1/2", '"Lyon" is none'),
    ("city,size,ro om\nRome,1,x\nrome,1,x\n", "#/line/3/column/1", '"rome" is none of the values of "city"'),
    ("city,size,ro om\nRome,1,x\n,1,x\n", "#/line/3/column/1", "empty"),
])
def test_refused_texts(api, mixed, body, pointer, text):
    kind = "text/csv" if isinstance(body, str) else None
    answer = ask(api, mixed[0], body, kind, 400 if text == "twice" else 422)
    assert interface.problem_pointers(answer) == [pointer], answer.text
    assert text in answer.json()["detail"]


@pytest.mark.parametrize("form", ["csv", "instances", "inputs", "dataframe_split"])
def test_columns_too_many_are_passed_over_where_that_is_wished(api, model, form):
    X = questions()
    wanted = ask(api, model, {"instances": X.tolist()}).json()["predictions"]
    columns = {"id": ["a,b"] * 25, "x1": X[:, 1].tolist(), "x0": X[:, 0].tolist(), "when": [{"t": [1]}] * 25,
               "x2": X[:, 2].tolist(), "x3": X[:, 3].tolist()}
    rows = list(map(list, zip(*columns.values())))
    body = {"csv": "\n".join([",".join(columns)] + [",".join(['"a,b"', *map(repr, row[1:3]), "", *map(repr, row[4:])])
                                                    for row in rows]),
            "instances": {"instances": [dict(zip(columns, row)) for row in rows]}, "inputs": {"inputs": columns},
            "dataframe_split": {"dataframe_split": {"columns": list(columns), "data": rows}}}[form]
    kind, accept = ("text/csv" if form == "csv" else None), {"Accept": "application/json"}
    refusal = ask(api, model, body, kind, 422, **accept).json()["detail"]
    assert 'no feature "id"' in refusal and "extra_columns=ignore" in refusal
    ask(api, model, body, kind, 422, "?extra_columns=refuse", **accept)
    assert ask(api, model, body, kind, query="?extra_columns=ignore", **accept).json()["predictions"] == wanted


def test_no_feature_may_be_missing_among_columns_too_many(api, model):
    answer = ask(api, model, "x0,x1,x2,other\n1,2,3,4\n", "text/csv", 422, "?extra_columns=ignore")
    assert '"x3" is missing' in answer.json()["detail"]
    answer = ask(api, model, "x0,x1,x2,x3\n1,2,3,4\n", "text/csv", 422, "?extra_columns=maybe")
    assert interface.problem_pointers(answer) == ["#/query/extra_columns"]


def test_a_column_without_a_name_is_called_as_on_upload(api, name):
    body = "".join([",a,y\n", *(f"{i},{i % 5},{i * 1.5}\n" for i in range(30))])
    api.train(name, api.upload(body.encode())["id"], test={"fraction": 0})
    assert len(from_csv(ask(api, name, body, "text/csv"))) == 31


# NPY.


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", ">f4", "f2", "<i8", ">i4", "i2", "u1", "?"])
@pytest.mark.parametrize("order", "CF")
def test_npy(api, model, dtype, order):
    X = (questions() * 3).astype(dtype)
    wanted = ask(api, model, {"instances": X.astype(float).tolist()}).json()["predictions"]
    found = from_npy(ask(api, model, npy(X, order=order), "application/x-npy"))
    assert found.dtype == np.float64 and found.tolist() == wanted


@pytest.mark.parametrize("body, status, pointer", [
    (b"", 400, "#/header"),
    (b"\x93NUMPY", 400, "#/header"),
    (npy(np.zeros((3, 5))), 422, "#/header/shape"),
    (npy(np.zeros(4)), 422, "#/header/shape"),
    (npy(np.zeros((2, 2, 2))), 422, "#/header/shape"),
    (npy(np.zeros((0, 4))), 422, "#"),
    (npy(np.array([[1, 2, 3, np.nan]])), 422, "#/row/0/column/3"),
    (npy(np.array([[1, 2, 3, 4], [1, np.inf, 3, 4]], order="F")), 422, "#/row/1/column/1"),
    (npy(np.array([["a", "b", "c", "d"]])), 422, "#/header/descr"),
    (npy(np.zeros((3, 4)))[:-1], 422, "#/header/shape"),
])
def test_refused_npy(api, model, body, status, pointer):
    answer = ask(api, model, body, "application/x-npy", status)
    assert interface.problem_pointers(answer) == [pointer], answer.text


# What the answer is.


def test_accept(api, model):
    X = questions()
    body = {"instances": X.tolist()}
    wanted = ask(api, model, body).json()["predictions"]
    assert from_npy(ask(api, model, body, Accept="application/x-npy")).tolist() == wanted
    lines = from_csv(ask(api, model, body, Accept="text/csv"))
    assert lines[0] == ["y"] and [float(cell) for [cell] in lines[1:]] == wanted
    lines = from_csv(ask(api, model, body, Accept="text/csv; header=absent"))
    assert [float(cell) for [cell] in lines] == wanted
    lines = from_csv(ask(api, model, body, Accept="application/json;q=0.5;header=absent, text/csv"))
    assert lines[0] == ["y"] and [float(cell) for [cell] in lines[1:]] == wanted
    lines = from_csv(ask(api, model, table(X), "text/csv", Accept="text/csv; header=present"))
    assert lines[0] == ["y"]
    answer = ask(api, model, npy(X), "application/x-npy", Accept="application/json;q=0.9, text/csv;q=0.1")
    assert answer.json()["predictions"] == wanted
    answer = ask(api, model, body, expect=406, Accept="image/png")
    assert interface.problem_pointers(answer) == ["#/header/accept"]


def test_lists_over_several_lines(api, model):
    body = json.dumps({"instances": questions(2).tolist()}).encode()
    always = ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    asked = [(["Accept: application/json;q=0.1", "Accept: text/csv;q=0.5"], "text/csv; charset=utf-8"),
             (["Accept: image/png", "Accept:", "accept: application/x-npy"], "application/x-npy"),
             (["Accept: text/csv;q=0", "Accept: */*"], "application/json")]
    with raw.Raw(api.base) as c:
        for lines, kind in asked:
            c.request("POST", f"/v1/models/{model}/predict", lines + always, body)
            assert c.answer().headers["Content-Type"] == kind
        c.request("GET", "/ui/style.css", ["Accept-Encoding: br", "Accept-Encoding: gzip"])
        assert c.answer().headers["Content-Encoding"] == "gzip"


def test_several_targets(api, pair):
    X = questions()
    wanted = ask(api, pair, {"instances": X.tolist()}).json()["predictions"]
    assert np.array(wanted).shape == (25, 2)
    assert from_npy(ask(api, pair, npy(X), "application/x-npy")).tolist() == wanted
    lines = from_csv(ask(api, pair, table(X, NAMES), "text/csv"))
    assert lines[0] == ["first", "second"]
    assert [[float(cell) for cell in line] for line in lines[1:]] == wanted


def test_classes(api, classifier):
    name, X = classifier
    body = {"instances": X.tolist()}
    wanted = ask(api, name, body).json()
    labels, scores, classes = wanted["predictions"], wanted["scores"], wanted["classes"]
    assert set(labels) == set(classes) == {"b, or \"c\"", "ümlaut", "🙂"}
    without = ask(api, name, {**body, "return_scores": False}).json()
    assert without["predictions"] == labels and "scores" not in without
    assert ask(api, name, body, query="?return_scores=false").json() == without
    for said, asked in ((True, "false"), (False, "true")):
        refused = ask(api, name, {**body, "return_scores": said}, None, 422, query="?return_scores=" + asked)
        assert interface.problem_pointers(refused) == ["#/query/return_scores"]
    agreed = ask(api, name, {**body, "return_scores": False}, query="?return_scores=false")
    assert agreed.json() == without
    lines = from_csv(ask(api, name, body, Accept="text/csv"))
    assert lines[0] == ["prediction", *classes]
    assert [line[0] for line in lines[1:]] == labels
    assert [[float(cell) for cell in line[1:]] for line in lines[1:]] == scores
    lines = from_csv(ask(api, name, body, Accept="text/csv", query="?return_scores=false"))
    assert lines == [["prediction"], *[[label] for label in labels]]
    assert from_npy(ask(api, name, npy(X), "application/x-npy")).tolist() == labels
    found = from_npy(ask(api, name, npy(X), "application/x-npy", query="?return_scores=true"))
    assert found.tolist() == scores
    found = from_npy(ask(api, name, {**body, "return_scores": True}, Accept="application/x-npy"))
    assert found.tolist() == scores


def test_scores_of_a_regression(api, model):
    answer = ask(api, model, npy([[1.0, 2, 3, 4]]), "application/x-npy", 422, query="?return_scores=true")
    assert interface.problem_pointers(answer) == ["#/query/return_scores"]
    answer = ask(api, model, WISHES, None, 422, query="?return_scores=1")
    assert interface.problem_pointers(answer) == ["#/query/return_scores"]


# Packed.


def deflated(body):
    return zlib.compress(body)


@pytest.mark.parametrize("coding, pack", [("gzip", gzip.compress), ("x-gzip", gzip.compress),
                                          ("deflate", deflated), ("identity", bytes)])
@pytest.mark.parametrize("rows", [3, 3000])
def test_packed_bodies(api, model, coding, pack, rows):
    X = questions(rows)
    body = json.dumps({"instances": X.tolist()}).encode()
    wanted = ask(api, model, body).json()["predictions"]
    assert ask(api, model, pack(body), Content_Encoding=coding).json()["predictions"] == wanted
    answer = ask(api, model, pack(table(X).encode()), "text/csv", Content_Encoding=coding)
    assert [float(line) for line in answer.text.split()] == wanted


def test_packed_answers(api, model):
    body = {"instances": questions(3000).tolist()}
    wanted = ask(api, model, body, Accept_Encoding="identity")
    assert "Content-Encoding" not in wanted.headers
    for accept, coding in (("gzip", "gzip"), ("deflate", "deflate"), ("deflate;q=0.5, gzip;q=0.4", "deflate"),
                           ("gzip, deflate, br", "gzip")):
        answer = ask(api, model, body, Accept_Encoding=accept)
        assert answer.headers["Content-Encoding"] == coding
        assert int(answer.headers["Content-Length"]) < len(wanted.content) * 0.7
        assert answer.json() == wanted.json()
    short = ask(api, model, {"instances": questions(2).tolist()}, Accept_Encoding="gzip")
    assert "Content-Encoding" not in short.headers


def test_refused_codings(api, model):
    body = json.dumps(WISHES).encode()
    answer = ask(api, model, body, expect=415, Content_Encoding="br")
    assert answer.headers["Accept-Encoding"] == "gzip, deflate"
    ask(api, model, body, expect=400, Content_Encoding="gzip")
    ask(api, model, gzip.compress(body)[:-1], expect=400, Content_Encoding="gzip")
    ask(api, model, gzip.compress(body) + b"x", expect=400, Content_Encoding="gzip")
    bomb = gzip.compress(b"[" + b" " * (70 << 20))
    assert len(bomb) < 1 << 20
    answer = ask(api, model, bomb, expect=413, Content_Encoding="gzip")
    assert "--max-body-bytes" in answer.json()["detail"]


def test_large_bodies_and_answers(api, model):
    """Read and written on other threads, with the bits that small ones get."""
    X = questions(20000)
    whole = from_npy(ask(api, model, npy(X), "application/x-npy"))
    text = ask(api, model, {"instances": X.tolist()}).json()["predictions"]
    assert text == whole.tolist()
    part = ask(api, model, {"instances": X[777:780].tolist()}).json()["predictions"]
    assert part == text[777:780]
    bad = X.copy()
    bad[19999, 3] = np.nan
    answer = ask(api, model, npy(bad), "application/x-npy", 422)
    assert interface.problem_pointers(answer) == ["#/row/19999/column/3"]


@pytest.mark.parametrize("accept", ["application/json", "application/x-npy"])
def test_clients_that_leave(daemons, accept):
    """While another thread reads their body, or writes their answer, or a worker predicts."""
    daemon = daemons()
    own = daemon.api
    X, y = data.regression(60, seed=45)
    own.train("left", own.upload_csv(X, y), test={"fraction": 0})
    body = json.dumps({"instances": questions(20000).tolist()}).encode()
    head = (f"POST /v1/models/left/predict HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nAccept-Encoding: gzip\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode()
    address = ("127.0.0.1", int(daemon.base.rsplit(":", 1)[1]))
    # Nothing is waited for: these are the moments of the way, about 0.1 s long, at which the client leaves.
    for moment in (0, 0.001, 0.003, 0.01, 0.02, 0.03, 0.05, 0.08, 0.1):
        with socket.create_connection(address) as client:
            client.sendall(head + body)
            time.sleep(moment)
    wanted = own.predict("left", X[:3]).json()["predictions"]
    assert len(wanted) == 3
    found = own.post("/v1/models/left/predict", data=body).json()["predictions"]
    assert len(found) == 20000


# What other programs leave in a CSV.


@pytest.fixture(scope="module", params=["refuse", "fill"])
def one_column(api, request):
    table = "x,y\n" + "".join(f"{'' if request.param == 'fill' and i == 9 else i},{i * 1.5}\n" for i in range(30))
    api.train(f"one-{request.param}", api.upload(table.encode(), missing=request.param)["id"], test={"fraction": 0},
              kernel={"name": "gaussian", "bandwidth": 1.0})
    return f"one-{request.param}"


@pytest.mark.parametrize("body, rows, line", [
    ("1\n\n2\n", [1, None, 2], 2), ("x\n1\n\n2\n", [1, None, 2], 3), ("x\n\n1\n", [None, 1], 2), ("x\r\n1\r\n \r\n\t\r\n2", [1, None, None, 2], 3),
    ("\n\n1\n2\n\n\n", [1, 2], None), ("\nx\n1\n \n", [1], None), ("x\n1\n\"\"\n", [1, None], 3), ("1\r\r2\r", [1, None, 2], 2),
])
def test_blank_lines_between_rows_of_one_column(api, one_column, body, rows, line):
    """They lack their value, as pandas writes it; in front and at the end they are none."""
    fills = one_column.endswith("fill")
    answer = ask(api, one_column, body, "text/csv", 200 if fills or line is None else 422, Accept="application/json")
    if answer.status_code == 200:
        wanted = ask(api, one_column, {"instances": [[x] for x in rows]}).json()["predictions"]
        assert answer.json()["predictions"] == wanted
    else:
        assert interface.problem_pointers(answer) == [f"#/line/{line}/column/1"] and "the cell is empty" in answer.json()["detail"]


def test_many_blank_lines(api, one_column):
    """Time grows with the body, not with its square."""
    answer = ask(api, one_column, "1\n" + "\n" * 200_000 + "2\n", "text/csv", 200 if one_column.endswith("fill") else 422)
    assert answer.status_code == 422 or len(answer.text.split()) == 200_002
    assert len(ask(api, one_column, "1\n" + "\n" * 200_000, "text/csv").text.split()) == 1


def test_blank_lines_of_several_columns_are_passed_over(api, model):
    rows = "1,2,3,4\n\n5,6,7,8\n \n"
    assert len(ask(api, model, rows, "text/csv").text.split()) == 2


def test_other_encodings_are_named(api, mixed):
    body = 'city,size,"ro om"\nRome,1,x\nZürich,2,x\n'.encode("cp1252")
    answer = ask(api, mixed[0], body, "text/csv", 422)
    assert interface.problem_pointers(answer) == ["#/line/3/column/1"]
    assert '"Z\\xfcrich" is not UTF-8 (its byte 2 is 0xfc); tables of text are in UTF-8. iconv -f WINDOWS-1252' in answer.json()["detail"]
    answer = ask(api, mixed[0], body.replace(b"size", "größe".encode("latin-1")), "text/csv", 422)
    assert interface.problem_pointers(answer) == ["#/line/1/column/2"] and "its byte 3 is 0xf6" in answer.json()["detail"]
    for table, at in (("größe,y\n1,2\n2,3\n", "#/line/1/column/1"), ("city,y\nRome,1.5\nZürich,2\n", "#/line/3/column/1")):
        found = api.post("/v1/datasets", 422, data=table.encode("cp1252"), params={"one_hot": "true"}, headers={"Content-Type": "text/csv"}).json()
        assert found["errors"][0]["pointer"] == at and "tables of text are in UTF-8. iconv -f WINDOWS-1252" in found["detail"]


def test_nul_bytes_are_no_text(api, mixed):
    """Neither as a word, whatever is said of those, nor behind a name."""
    for body, pointer in ((MIXED.replace("Rome", "Ro\0me"), None), (MIXED.replace("city", "city\0x", 1), "#/line/1/column/")):
        answer = api.post(f"/v1/models/{mixed[0]}/predict", 422, data=body.encode(), params={"unknown_values": "ignore"},
                          headers={"Content-Type": "text/csv"}).json()
        assert answer["errors"][0]["pointer"].startswith(pointer or "#/line/") and "holds a NUL byte" in answer["detail"]


def test_columns_without_names_are_named_as_parameters_count_them(api):
    found = api.post("/v1/datasets", 422, data="1,2,3\n4,x,6\n", headers={"Content-Type": "text/csv"}).json()
    assert found["detail"].startswith('Line 2, column 2 ("column1", counted from 0): "x" is not a number')
    assert api.upload(b"1,2,3\n4,x,6\n", ignore="1")["features"] == ["column0"]
    said = api.upload(",a,y\n".encode() + b"".join(b"%d,%d,%d\n" % (i, i * i % 7, i * 3 % 11) for i in range(20)))["warnings"]
    assert any("ignore=0 (krr: --ignore 0), which counts from 0, leaves it out" in w for w in said)
