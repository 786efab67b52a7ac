"""Decimal commas, and other numbers as spreadsheets write them."""

import pytest

import data

ROWS = [(i * 0.25, i % 3 + 0.5, i * 1.75 - 3) for i in range(30)]
POINTS = "a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in ROWS)
COMMAS = POINTS.replace(",", ";").replace(".", ",")
COMMA = {"decimal": "comma"}


def upload(api, body, expect=201, kind="text/csv", **query):
    return api.post("/v1/datasets", expect, data=body.encode() if isinstance(body, str) else body, params=query, headers={"Content-Type": kind}).json()


def refused(api, body, **query):
    found = upload(api, body, 422, **query)["errors"][0]
    return found["pointer"], found["detail"]


def values(api, dataset):
    return api.get(f"/v1/datasets/{dataset['id']}/preview", params={"rows": 100}).json()["rows"]


@pytest.fixture(scope="module")
def model(api):
    api.train("decimal", upload(api, COMMAS, **COMMA)["id"], test={"fraction": 0}, kernel={"name": "gaussian", "bandwidth": 1.5})
    return "decimal", api.predict("decimal", [[a, b] for a, b, _ in ROWS]).json()["predictions"]


def test_uploads_are_the_same(api):
    made = upload(api, COMMAS, **COMMA)
    assert values(api, made) == values(api, upload(api, POINTS)) == [list(row) for row in ROWS]
    assert made["id"] != upload(api, POINTS)["id"]
    for body in (COMMAS.replace(";", "\t"), COMMAS.split("\n", 1)[1], COMMAS.replace("0,5", '"0,5"'), COMMAS.replace("\n0,25", "\n+,25")):
        assert values(api, upload(api, body, **COMMA)) == [list(row) for row in ROWS], body[:60]
    assert values(api, upload(api, "a;y\n1,5e1;2\n-0,5;3\nNA;4\n", missing="drop", **COMMA)) == [[15, 2], [-0.5, 3]]
    assert upload(api, POINTS, decimal="point")["columns"] == 3


@pytest.mark.parametrize("body, query, pointer, text", [
    ("a;y\n1,5;2\n3;4\n", {}, "#/line/2/column/1", 'Line 2, column 1 ("a"): "1,5" has a decimal comma'),
    ("a;y\n1,5;2\n3;4\n", {}, "#/line/2/column/1", "decimal=comma (krr: --decimal comma)"),
    ('a,y\n"1,5",2\n3,4\n', {}, "#/line/2/column/1", "has a decimal comma, or one between thousands"),
    ('a,y\n1,"2,5"\n3,"4,5"\n', {}, "#/line/2/column/2", "decimal comma"),  # no classes
    ("a;y\n1.5;2\n3;4\n", COMMA, "#/line/2/column/1", '"1.5" has a decimal point, and decimal=comma says'),
    ('a,y\n"1,234.5",2\n3,4\n', {}, "#/line/2/column/1", "has signs between its thousands"),
    ("a;y\n1.234,5;2\n3;4\n", {}, "#/line/2/column/1", "has signs between its thousands"),
    ("a;y\n1.234,5;2\n3;4\n", COMMA, "#/line/2/column/1", "has signs between its thousands"),
    ("a;y\n1.234.567;2\n3;4\n", {"one_hot": "true"}, "#/line/2/column/1", "has signs between its thousands"),
    ("a;y\n1 234,5;2\n3;4\n", COMMA, "#/line/2/column/1", "has signs between its thousands"),
    ("a;y\n1\u00a0234;2\n3;4\n", {}, "#/line/2/column/1", "has signs between its thousands"),
    ("a,y\n2024-01-31,2\n3,4\n", {}, "#/line/2/column/1", '"2024-01-31" is a date; make a number of it'),
    ("a,y\n2024-01-31,2\n3,4\n", {}, "#/line/2/column/1", "ignore=COLUMN"),
    ("a,y\n2024-01-31T12:30:00Z,2\n3,4\n", {}, "#/line/2/column/1", "is a date"),
    ("a;y\n31.1.2024;2\n3;4\n", COMMA, "#/line/2/column/1", "is a date"),
    ("a,y\n1/31/24 10:00,2\n3,4\n", {}, "#/line/2/column/1", "is a date"),
    ("a,y\n3,4\n5,2024-01-31\n", {"task": "regression"}, "#/line/3/column/2", "is a date"),
    ("a,y\n3,4\n5,6\n", COMMA, "#/target", "The one column is"),
])
def test_refused(api, body, query, pointer, text):
    found, detail = refused(api, body, **query)
    assert found == pointer and text in detail, detail


def test_words_may_look_like_numbers(api):
    """Beside a word they are words, as they were written."""
    made = upload(api, 'a,y\n"1,5",2\nred,4\n"1,234.5",5\n', one_hot="true")
    assert made["features"] == ["a=1,234.5", "a=1,5", "a=red"]
    assert upload(api, "a;y\n1.5;2\nred;4\n2,5;5\n", one_hot="true", **COMMA)["features"] == ["a=1.5", "a=2,5", "a=red"]
    assert upload(api, "d,y\n2024-01-31,2\n2024-02-01,4\n2024-01-31,5\n", one_hot="true")["features"] == ["d=2024-01-31", "d=2024-02-01"]


def test_only_csv(api):
    assert upload(api, data.npy([[1.0, 2.0], [2.0, 3.0]]), 422, "application/x-npy", **COMMA)["errors"][0]["pointer"] == "#/query/decimal"
    upload(api, data.npy([[1.0, 2.0], [2.0, 3.0]]), 201, "application/x-npy", decimal="point")
    assert refused(api, COMMAS, decimal=",") == ("#/query/decimal", "The decimal sign is point or comma.")


def ask(api, model, body, expect=200, kind="text/csv", accept=None, **query):
    headers = {"Content-Type": kind, **({"Accept": accept} if accept else {})}
    return api.post(f"/v1/models/{model}/predict", expect, data=body.encode(), params=query, headers=headers)


def test_predictions(api, model):
    answer = ask(api, model[0], COMMAS, **COMMA).text
    assert "." not in answer and [float(line.replace(",", ".")) for line in answer.split()[1:]] == model[1]
    bare = "".join(line.rsplit(";", 1)[0] + "\n" for line in COMMAS.split()[1:])
    for body in (bare, bare.replace(";", "\t"), "b;a\n" + "".join(";".join(line.split(";")[::-1]) + "\n" for line in bare.split())):
        assert ask(api, model[0], body, accept="application/json", **COMMA).json()["predictions"] == model[1]
    body = '{"instances": [[0.25, 0.5]]}'
    wanted = api.predict("decimal", [[0.25, 0.5]]).json()["predictions"]
    answer = ask(api, model[0], body, kind="application/json", accept="text/csv", **COMMA).text
    assert [float(line.replace(",", ".")) for line in answer.split()[1:]] == wanted
    ask(api, model[0], body, kind="application/json", decimal="point")


@pytest.mark.parametrize("body, query, text", [
    ("a;b\n0,5;1\n", {}, '"0,5", for the feature "a" has a decimal comma'), ("a;b\n0.5;1\n", COMMA, "has a decimal point"),
    ("a;b\n1.234,5;1\n", COMMA, "has signs between its thousands"), ("a;b\n2024-01-31;1\n", {}, "is a date"),
])
def test_refused_questions(api, model, body, query, text):
    found = ask(api, model[0], body, 422, **query).json()["errors"][0]
    assert found["pointer"] == "#/line/2/column/1" and text in found["detail"], found


def test_refused_parameters(api, model):
    for query, kind, text in ((COMMA, "application/json", "neither the body nor the answer"), ({"decimal": "x"}, "text/csv", "point or comma")):
        found = ask(api, model[0], '{"instances": [[1, 2]]}', 422, kind, **query).json()["errors"][0]
        assert found["pointer"] == "#/query/decimal" and text in found["detail"]


def test_scores_and_words(api, name):
    rows = [(i / 4, ["red", "blue"][i % 2], ["no", "yes"][i % 2]) for i in range(40)]
    table = "a;c;y\n" + "".join(f"{str(a).replace('.', ',')};{c};{y}\n" for a, c, y in rows)
    api.train(name, upload(api, table, one_hot="true", **COMMA)["id"], test={"fraction": 0}, kernel={"name": "gaussian", "bandwidth": 1.0})
    told = ask(api, name, table, accept="application/json", **COMMA).json()
    header, *lines = ask(api, name, table, **COMMA).text.split()
    assert header == "prediction;no;yes"
    for line, label, scores in zip(lines, told["predictions"], told["scores"]):
        assert line.replace(",", ".").split(";")[0] == label
        assert list(map(float, line.replace(",", ".").split(";")[1:])) == scores
