"""Predictions: the right numbers, the same bits however they are asked for, and refusals."""

import concurrent.futures
import json

import numpy as np
import pytest

import api as interface
import contract
import data

BANDWIDTHS = {"gaussian": 2.0, "laplacian": 3.0, "laplacian_l1": 6.0, "matern12": 3.0,
              "matern32": 3.0, "matern52": 3.0}


@pytest.fixture(scope="module")
def model(api):
    """("served", X): two versions on all rows of X, gaussian and laplacian_l1."""
    X, y = data.regression(120, seed=30)
    dataset = api.upload_npz(X, y)
    references = []
    for kernel in ("gaussian", "laplacian_l1"):
        api.train("served", dataset, test={"fraction": 0}, regularization=1e-5,
                  kernel={"name": kernel, "bandwidth": BANDWIDTHS[kernel]})
        references.append(data.Ridge(X, y, kernel, BANDWIDTHS[kernel], 1e-5))
    return "served", X, references


def questions(n, seed=31):
    return data.regression(n, seed=seed)[0]


# The right numbers.


@pytest.mark.parametrize("kernel", BANDWIDTHS)
def test_numbers(api, name, kernel):
    X, y = data.regression(110, seed=32)
    api.train(name, api.upload_csv(X, y), test={"fraction": 0}, regularization=1e-5,
              kernel={"name": kernel, "bandwidth": BANDWIDTHS[kernel]})
    Q = questions(40)
    found = api.predict(name, Q).json()["predictions"]
    reference = data.Ridge(X, y, kernel, BANDWIDTHS[kernel], 1e-5).predict(Q)
    np.testing.assert_allclose(found, reference, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("features, target", [(False, True), (True, False), (False, False)])
def test_standardisation_can_be_switched_off(api, name, features, target):
    X, y = data.regression(90, seed=33)
    api.train(name, api.upload_npz(X, y), test={"fraction": 0}, regularization=1e-4,
              kernel={"name": "gaussian", "bandwidth": 4.0},
              standardize={"features": features, "target": target})
    reference = data.Ridge(X, y, "gaussian", 4.0, 1e-4, standardize=features)
    if not target:
        K = data.kernel_matrix("gaussian", reference.centers, reference.centers, 4.0)
        reference.coef = np.linalg.solve(K + 90 * 1e-4 * np.eye(90), y)
        reference.target_mean = 0.0
    found = api.predict(name, X[:30]).json()["predictions"]
    np.testing.assert_allclose(found, reference.predict(X[:30]), rtol=1e-7, atol=1e-9)


def test_labels_and_scores(api, name):
    X, labels = data.classification(120, seed=34)
    dataset = api.upload(data.csv(X, labels))
    api.train(name, dataset["id"], test={"fraction": 0}, regularization=1e-3,
              kernel={"name": "gaussian", "bandwidth": 1.5})
    answer = api.predict(name, X).json()
    classes = answer["classes"]
    assert classes == dataset["classes"]
    reference = data.Ridge(X, data.one_hot(labels, classes), "gaussian", 1.5, 1e-3)
    wanted, scores = reference.classify(X, classes)
    np.testing.assert_allclose(answer["scores"], scores, rtol=1e-7, atol=1e-9)
    assert answer["predictions"] == wanted
    assert np.mean(np.array(wanted) == labels) > 0.9


def test_odd_labels_come_back_as_they_were(api, name):
    labels = ['say "no"', "tab\there", "ümlaut", "🙂", "1"]
    X, y = data.classification(60, labels=labels, seed=35)
    rows = [",".join([*map(repr, r), '"' + t.replace('"', '""') + '"'])
            for r, t in zip(X.tolist(), y.tolist())]
    dataset = api.upload(("a,b,c,label\n" + "\n".join(rows)).encode(), task="classification")
    assert sorted(dataset["classes"]) == sorted(labels)
    api.train(name, dataset["id"], kernel={"name": "gaussian", "bandwidth": 0.5},
              test={"fraction": 0})
    assert api.predict(name, X).json()["predictions"] == y.tolist()


# The same bits.


def test_versions(api, model):
    name, _, references = model
    Q = questions(25)
    answers = {v: api.predict(name, Q, version=v).json() for v in (1, 2)}
    for version, answer in answers.items():
        assert (answer["model"], answer["version"]) == (name, version)
        np.testing.assert_allclose(answer["predictions"], references[version - 1].predict(Q),
                                   rtol=1e-7, atol=1e-9)
    assert api.predict(name, Q).json() == answers[2]  # the newest


@pytest.mark.parametrize("version", [1, 2])
def test_a_row_alone_has_the_bits_it_has_in_a_batch(api, model, version):
    name, X, _ = model
    Q = np.vstack([questions(300), X[:5]])
    batch = api.predict(name, Q, version=version).json()["predictions"]
    for i in [*range(0, 305, 23), 304]:
        assert api.predict(name, Q[i:i + 1], version=version).json()["predictions"] == [batch[i]]
    assert api.predict(name, Q[7:130], version=version).json()["predictions"] == batch[7:130]
    assert api.predict(name, Q[::-1], version=version).json()["predictions"] == batch[::-1]


def test_a_hundred_thousand_rows(api, model):
    name, _, references = model
    Q = questions(100000)
    found = np.array(api.predict(name, Q, version=1).json()["predictions"])
    assert found.shape == (100000,)
    some = np.arange(0, 100000, 997)
    np.testing.assert_allclose(found[some], references[0].predict(Q[some]), rtol=1e-7, atol=1e-9)
    tail = api.predict(name, Q[-3:], version=1).json()["predictions"]
    assert tail == found[-3:].tolist()


def test_sixteen_threads(api, model):
    name, _, _ = model
    Q = questions(64)
    expected = {v: api.predict(name, Q, version=v).json()["predictions"] for v in (1, 2)}

    def ask(worker):
        with contract.Session() as session:
            own = interface.Api(session, api.base)
            for round_ in range(12):
                version, start = 1 + (worker + round_) % 2, (worker * 7 + round_) % 60
                rows = Q[start:start + 1 + round_ % 4]
                found = own.predict(name, rows, version=version).json()["predictions"]
                assert found == expected[version][start:start + len(rows)]
        return True

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(16)))


# Refusals. Each body, the status, and the pointer (None: a malformed text has none that is fixed).

REFUSED = [
    ('{"instances": [[1, 2, 3]]}', 422, "#/instances/0"),
    ('{"instances": [[1, 2, 3, 4], [1, 2, 3, 4, 5]]}', 422, "#/instances/1"),
    ('{"instances": [[1, 2, 3, 4], []]}', 422, "#/instances/1"),
    ('{"instances": [[1, 2, 3, "4"]]}', 422, "#/instances/0/3"),
    ('{"instances": [[1, null, 3, 4]]}', 422, "#/instances/0/1"),
    ('{"instances": [[1, 2, true, 4]]}', 422, "#/instances/0/2"),
    ('{"instances": [[1, 2, [3], 4]]}', 422, "#/instances/0/2"),
    ('{"instances": [[1, 2, {"x": 3}, 4]]}', 422, "#/instances/0/2"),
    ('{"instances": [1, 2, 3, 4]}', 422, "#/instances/0"),
    ('{"instances": ["text"]}', 422, "#/instances/0"),
    ('{"instances": [null]}', 422, "#/instances/0"),
    ('{"instances": []}', 422, "#/instances"),
    ('{"instances": {}}', 422, "#/instances"),
    ('{"instances": "x"}', 422, "#/instances"),
    ('{"instances": null}', 422, "#/instances"),
    ("{}", 422, "#/instances"),
    ('{"rows": [[1, 2, 3, 4]]}', 422, "#/rows"),
    ('{"instances": [[1, 2, 3, 4]], "extra": 1}', 422, "#/extra"),
    ('{"a/b~c": 1}', 422, "#/a~1b~0c"),
    ('{"' + "k" * 149 + '\u00e9": 1}', 422, "#/" + "k" * 149 + "\u00e9"),
    ('{"' + "k" * 189 + '\u00e9": 1}', 422, "#/" + "k" * 189),
    ("[[1, 2, 3, 4]]", 422, "#"),
    ("5", 422, "#"),
    ('{"instances": [[NaN, 2, 3, 4]]}', 400, None),
    ('{"instances": [[Infinity, 2, 3, 4]]}', 400, None),
    ('{"instances": [[-Infinity, 2, 3, 4]]}', 400, None),
    ('{"instances": [[1e999, 2, 3, 4]]}', 400, None),
    ('{"instances": [[1, 2, 3, 4]], "instances": [[1, 2, 3, 4]]}', 400, "#/instances"),
    ('{"instances": [[1, 2, 3, 4]]} trailing', 400, None),
    ('{"instances": [[1, 2, 3, 4]]}{}', 400, None),
    ('{"instances": [[1, 2, 3, 4],]}', 400, None),
    ('{"instances": [[1, 2, 3, 4]]', 400, None),
    ('{"instances": [[1 2 3 4]]}', 400, None),
    ('{"instances": [[01, 2, 3, 4]]}', 400, None),
    ('{"instances": [[.5, 2, 3, 4]]}', 400, None),
    ('{"instances": [[+1, 2, 3, 4]]}', 400, None),
    ('{"instances": [[0x1, 2, 3, 4]]}', 400, None),
    ('{"instances": ' + "[" * 3000, None, None),
    ("", 400, None),
    ("instances", 400, None),
    ("\xff\xfe", 400, None),
    ("\ufeff{}", 400, None),
    ("\x00", 400, None),
]


@pytest.mark.parametrize("body, status, pointer", REFUSED,
                         ids=lambda v: ascii(v)[:50] if isinstance(v, str) else "")
def test_refused(api, model, body, status, pointer):
    raw = body.encode("latin-1") if body.startswith("\xff") else body.encode()
    answer = api.request("POST", "/v1/models/served/predict", status, data=raw,
                         headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    if pointer:
        assert interface.problem_pointers(answer) == [pointer], answer.text
    if pointer == "#/instances/0" and "[1, 2, 3]]" in body:
        assert "3 numbers" in answer.json()["detail"] and "4 features" in answer.json()["detail"]


def test_numbers_too_large_for_an_answer(api, name, regression_dataset):
    """A polynomial can leave float64: that is said, not printed as null."""
    api.train(name, regression_dataset, kernel="polynomial")
    answer = api.predict(name, [[1e300, 1e300, 1e300, 1e300]], expect=422)
    assert interface.problem_pointers(answer) == ["#/instances"]


def test_content_types(api, model):
    body = json.dumps({"instances": [[1, 2, 3, 4]]})
    path = "/v1/models/served/predict"
    for good in ("application/json", "application/json; charset=utf-8",
                 "application/x-www-form-urlencoded"):
        api.post(path, 200, data=body, headers={"Content-Type": good})
    api.post(path, 200, data=body, headers={"Content-Type": None})
    for bad in ("text/plain", "application/x-npz", "application/jsonx"):
        api.post(path, 415, data=body, headers={"Content-Type": bad})


def test_unknown_query(api, model):
    answer = api.post("/v1/models/served/predict?verbose=1", 422, json={"instances": [[1, 2, 3, 4]]})
    assert interface.problem_pointers(answer) == ["#/query/verbose"]
