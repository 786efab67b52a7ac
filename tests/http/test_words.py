"""Columns of words in jobs: which tell a target, and data sets that do not have the same words."""

import pytest

CITIES = ["Oslo", "Paris", "Rome"]
SPEC = {"kernel": {"name": "gaussian", "bandwidth": 2.0}, "regularization": 1e-4}
WORDS = ["city=Oslo", "city=Paris", "city=Rome"]


def table(rows, header="size,city,price"):
    return "\n".join([header, *(",".join(map(str, row)) for row in rows), ""]).encode()


def flats(cities, count=30, shift=0.0):
    return [(i % 7 + shift, cities[i % len(cities)], i * 1.5 + i % len(cities)) for i in range(count)]


def handmade(rows, words=WORDS):
    """The same rows with 0/1 columns that the client made."""
    return table([(size, *(int(f"city={city}" == word) for word in words), price) for size, city, price in rows],
                 ",".join(["size", *words, "price"]))


@pytest.fixture(scope="module")
def dataset(api):
    return api.upload(table(flats(CITIES)), one_hot="true")["id"]


def features(api, name):
    """Of the newest version."""
    newest = max(v["version"] for v in api.get(f"/v1/models/{name}").json()["versions"])
    return api.get(f"/v1/models/{name}/versions/{newest}").json()["description"]["features"]


def messages(api, job, level):
    return [e["message"] for e in api.events(job["id"]) if e["type"] == "message" and e["level"] == level]


def refusal(api, expect=422, **spec):
    found = api.post("/v1/jobs", expect, json={"model": "refused", **SPEC, **spec}).json()["errors"][0]
    return found["pointer"], found["detail"]


# What gives a target away.


def test_other_words_are_no_features_of_a_word(api, name, dataset):
    job = api.train(name, dataset, target="city=Rome", test={"fraction": 0}, **SPEC)
    assert features(api, name) == ["size", "price"] and job["plan"]["features"] == 2
    assert messages(api, job, "warning") == []
    job = api.train(name, dataset, target=["city=Rome", "price"], test={"fraction": 0}, **SPEC)
    assert features(api, name) == ["size"]
    # Bandwidths are for what is left.
    api.train(name, dataset, target="city=Rome", **{**SPEC, "kernel": {"name": "gaussian", "bandwidth": [1, 2]}})


def test_who_names_them_is_warned(api, name, dataset):
    job = api.train(name, dataset, target="city=Rome", features=["size", "city=Oslo", "city=Paris"], **SPEC)
    assert features(api, name) == ["size", "city=Oslo", "city=Paris"]
    assert any('"city=Oslo" is, as others are, of the same column of the table as a target' in m
               for m in messages(api, job, "warning"))
    job = api.train(name, dataset, target="price", features=["size", "city=Oslo"], **SPEC)
    assert not any("as a target" in m for m in messages(api, job, "warning"))


def test_names_alone_make_no_siblings(api, name):
    """Quantiles, which a table has as numbers."""
    rows = [(i, i + 0.5, i * 2, i % 5) for i in range(30)]
    made = api.upload(table(rows, "p=0.1,p=0.5,p=0.9,size"), target="size")["id"]
    api.train(name, made, target="p=0.5", test={"fraction": 0}, **SPEC)
    assert features(api, name) == ["p=0.1", "p=0.9", "size"]
    less = api.upload(table([row[1:] for row in rows], "p=0.5,p=0.9,size"), target="size")["id"]
    pointer, detail = refusal(api, dataset=made, test={"dataset": less})
    assert pointer == "#/test/dataset" and '"p=0.1"' in detail


def test_what_was_filled_in_is_no_feature_of_what_tells_it(api, name):
    rows = [("" if i % 4 == 1 else i % 7, "NA" if i % 5 == 2 else CITIES[i % 3], i % 3, i * 1.5) for i in range(40)]
    made = api.upload(table(rows, "size,city,rooms,price"), one_hot="true", missing="indicate")["id"]
    api.train(name, made, target="size_missing", test={"fraction": 0}, **SPEC)
    assert features(api, name) == [*WORDS, "rooms", "price", "city_missing"]
    api.train(name, made, target="city_missing", test={"fraction": 0}, **SPEC)
    assert features(api, name) == ["size", "rooms", "price", "size_missing"]
    job = api.train(name, made, target="size_missing", features=["rooms", "size"], **SPEC)
    assert any('"size" is of the same column' in m for m in messages(api, job, "warning"))
    for target in ("size", "city=Rome"):  # what was made up is no target
        assert refusal(api, dataset=made, target=target)[0] == "#/target"


# A test data set of its own.


def trial(api, name, dataset, other, **spec):
    job = api.train(name, dataset, test={"dataset": other}, **SPEC, **spec)
    return job, job["result"]["metrics"]


def test_a_word_that_no_test_row_has(api, name, dataset):
    rows = flats(["Paris", "Rome"], 12, 0.5)
    other = api.upload(table(rows), one_hot="true")["id"]
    job, metrics = trial(api, name, dataset, other)
    wanted = trial(api, name, dataset, api.upload(handmade(rows))["id"])[1]
    assert metrics == wanted
    assert any('calls for the column "city=Oslo", which it lacks: there it is 0' in m for m in messages(api, job, "info"))
    # Models on centers read rows where they are needed, in float32 or not.
    for spec in ({"centers": {"method": "uniform", "count": 10}}, {"precision": "float32"}):
        assert trial(api, name, dataset, other, **spec)[1] == trial(api, name, dataset, api.upload(handmade(rows))["id"], **spec)[1]


def test_words_that_no_training_row_has(api, name, dataset):
    rows = flats(["Paris", "Ghent", "Rome", "Bonn"], 14, 0.5)
    job, metrics = trial(api, name, dataset, api.upload(table(rows), one_hot="true")["id"])
    assert metrics == trial(api, name, dataset, api.upload(handmade(rows))["id"])[1]
    assert any('7 of 14 rows of the test data set have a word that the training data do not have ("city=Bonn" and others)' in m
               for m in messages(api, job, "warning"))
    # Where the job has none of the words, they do not matter.
    job = trial(api, name, dataset, api.upload(table(rows), one_hot="true")["id"], features=["size"])[0]
    assert not any("have a word" in m for m in messages(api, job, "warning"))
    # A word that is known and that the job does not take is not unknown.
    job = trial(api, name, dataset, api.upload(table(flats(["Paris", "Rome"], 12)), one_hot="true")["id"],
                 features=["size", "city=Rome"])[0]
    assert not any("have a word" in m for m in messages(api, job, "warning"))


def test_no_word_in_common(api, name, dataset):
    rows = flats(["Ghent"], 12, 0.5)
    job, metrics = trial(api, name, dataset, api.upload(table(rows), one_hot="true")["id"])
    assert metrics == trial(api, name, dataset, api.upload(handmade(rows))["id"])[1]
    assert any('"city=Oslo" and 2 more, which it lacks' in m for m in messages(api, job, "info"))
    assert any("12 of 12 rows of the test data set" in m for m in messages(api, job, "warning"))


def test_a_column_that_is_not_there(api, dataset):
    rows = [(size, price) for size, _, price in flats(CITIES, 12)]
    for other, names in ((api.upload(table(rows, "size,price"))["id"], '"city" (of words).'),
                         (api.upload(table([(p,) * 2 for _, p in rows], "rooms,price"))["id"], '"size", "city" (of words).'),
                         (api.upload(table([(s, s, p) for s, p in rows]))["id"], '"city" (of words).'),
                         (api.upload(handmade(flats(CITIES, 12), WORDS[:2]))["id"], '"city" (of words).')):
        pointer, detail = refusal(api, dataset=dataset, test={"dataset": other})
        assert pointer == "#/test/dataset" and detail.endswith("lacks columns of the training data: " + names)
    pointer, detail = refusal(api, dataset=dataset, target="city=Oslo", test={"dataset": api.upload(table(flats(["Rome"], 12)), one_hot="true")["id"]})
    assert pointer == "#/test/dataset" and '"city=Oslo"' in detail  # a target is not made up


# What tells where others are missing.

GAPS = [("" if i % 4 == 1 else i % 7, i % 3, i * 1.5) for i in range(40)]
WHOLE = [(i % 5, i % 3, i * 2) for i in range(12)]


def test_nothing_is_missing_in_the_test(api, name):
    made = api.upload(table(GAPS, "size,rooms,price"), missing="indicate")["id"]
    wanted = trial(api, name, made, api.upload(table([(s, r, 0, p) for s, r, p in WHOLE], "size,rooms,size_missing,price"))["id"])[1]
    for rule in ("refuse", "drop", "fill", "indicate"):
        job, metrics = trial(api, name, made, api.upload(table(WHOLE, "size,rooms,price"), missing=rule)["id"])
        assert metrics == wanted
        assert any('"size_missing", which it lacks' in m for m in messages(api, job, "info"))


def test_something_is_filled_in_without_telling(api, name):
    made = api.upload(table(GAPS, "size,rooms,price"), missing="indicate")["id"]
    some = table([("", 1, 5), *WHOLE], "size,rooms,price")
    pointer, detail = refusal(api, dataset=made, test={"dataset": api.upload(some, missing="fill")["id"]})
    assert pointer == "#/test/dataset" and '"size_missing"' in detail and "upload it with missing=indicate" in detail
    trial(api, name, made, api.upload(some, missing="indicate")["id"])
    trial(api, name, made, api.upload(some, missing="drop")["id"])
    lacks = api.upload(table([row[1:] for row in WHOLE], "rooms,price"))["id"]
    assert '"size", "size_missing".' in refusal(api, dataset=made, test={"dataset": lacks})[1]


def test_words_that_are_missing(api, name):
    rows = [(i % 7, "NA" if i % 5 == 2 else CITIES[i % 3], i * 1.5) for i in range(40)]
    made = api.upload(table(rows), one_hot="true", missing="indicate")["id"]
    whole = flats(["Rome", "Paris"], 12)
    job, metrics = trial(api, name, made, api.upload(table(whole), one_hot="true")["id"])
    same = api.upload(handmade(whole, [*WORDS, "city_missing"]))["id"]
    assert metrics == trial(api, name, made, same)[1]
    some = api.upload(table([(3, "", 5), *whole]), one_hot="true", missing="fill")["id"]
    assert '"city_missing"' in refusal(api, dataset=made, test={"dataset": some})[1]


# Centers of a data set.


def test_centers(api, name, dataset):
    rows = flats(["Paris", "Ghent"], 10, 0.5)
    X = [[size, *(float(f"city={city}" == word) for word in WORDS)] for size, city, _ in flats(CITIES)]
    found = []
    for centers in (api.upload(table(rows), one_hot="true"), api.upload(handmade(rows))):
        job = api.train(name, dataset, test={"fraction": 0}, centers={"method": "file", "dataset": centers["id"]}, **SPEC)
        found.append((job, api.predict(name, X).json()["predictions"]))
    assert found[0][1] == found[1][1]
    assert any("data set of the centers calls for the column" in m for m in messages(api, found[0][0], "info"))
    assert any('5 of 10 rows of the data set of the centers have a word' in m for m in messages(api, found[0][0], "warning"))
    bare = api.upload(table([(s, p) for s, _, p in rows], "size,price"))["id"]
    pointer, detail = refusal(api, dataset=dataset, centers={"method": "file", "dataset": bare})
    assert pointer == "#/centers/dataset" and '"city" (of words)' in detail


def test_restart(daemons):
    """Which columns were one of words stands in the data set's description."""
    daemon = daemons()
    made = daemon.api.upload(table(flats(CITIES)), one_hot="true")["id"]
    daemon.stop()
    daemon.start()
    daemon.api.train("m", made, target="city=Rome", **SPEC)
    assert features(daemon.api, "m") == ["size", "price"]
