"""How sure predictions are: variances of models that know them, in every form, and who is refused."""

import concurrent.futures
import csv
import io
import json

import numpy as np
import pytest

import api as interface
import asking
import contract
import data
import handmade
import prometheus

CLOSE = {"rtol": 1e-9, "atol": 1e-11}
RIGHT = {"instances": [[1, 2, 3, 4]]}


@pytest.fixture(scope="module")
def one(api):
    process = handmade.regression()
    process.put(api, "sure")
    return "sure", process


@pytest.fixture(scope="module")
def two(api):
    process = handmade.regression(2, directions=20)
    process.put(api, "sure-two")
    return "sure-two", process


@pytest.fixture(scope="module")
def kinds(api):
    process = handmade.classifier()
    process.put(api, "sure-kinds")
    return "sure-kinds", process


@pytest.fixture(scope="module")
def plain(api):
    """A model without a variance."""
    X, y = data.regression(60, seed=72)
    api.train("unsure", api.upload_csv(X, y), kernel={"name": "gaussian", "bandwidth": 2.0})
    return "unsure"


def questions(n=30, d=4, seed=73):
    return data.regression(n, d=d, seed=seed)[0]


def ask(api, model, body, kind="application/json", expect=200, query="", accept=None):
    body = body if isinstance(body, (str, bytes)) else json.dumps(body)
    headers = {"Content-Type": kind, **({"Accept": accept} if accept else {})}
    return api.post(f"/v1/models/{model}/predict{query}", expect, data=body, headers=headers)


def sure(api, model, X, expect=200, **more):
    return ask(api, model, {"instances": X.tolist(), "return_variance": True, **more}, expect=expect)


def from_csv(answer):
    return list(csv.reader(io.StringIO(answer.text, newline="")))


def from_npy(answer):
    return np.load(io.BytesIO(answer.content))


def refusal(answer, pointer, *words):
    assert interface.problem_pointers(answer) == [pointer], answer.text
    assert all(word in answer.json()["detail"] for word in words), answer.text


# The right numbers, as JSON.


def test_one_target(api, one):
    name, process = one
    X = questions(300)
    answer = sure(api, name, X).json()
    assert set(answer) == {"model", "version", "digest", "predictions", "variances"}
    np.testing.assert_allclose(answer["variances"], process.variance(X)[:, 0], **CLOSE)
    np.testing.assert_allclose(answer["predictions"], process.predict(X)[:, 0], **CLOSE)
    assert max(answer["variances"]) > 10 * min(answer["variances"])  # near the data, and far from them
    without = ask(api, name, {"instances": X.tolist()}).json()
    assert "variances" not in without and without["predictions"] == answer["predictions"]
    said = ask(api, name, {"instances": X.tolist(), "return_variance": False}).json()
    assert said == without


def test_two_targets(api, two):
    name, process = two
    X = questions()
    answer = sure(api, name, X).json()
    assert np.shape(answer["variances"]) == (30, 2)
    np.testing.assert_allclose(answer["variances"], process.variance(X), **CLOSE)
    np.testing.assert_allclose(answer["predictions"], process.predict(X), **CLOSE)


def test_classes(api, kinds):
    """Of the scores, also where those are not told."""
    name, process = kinds
    X = data.classification(40, seed=74)[0]
    answer = sure(api, name, X).json()
    np.testing.assert_allclose(answer["variances"], process.variance(X), **CLOSE)
    np.testing.assert_allclose(answer["scores"], process.predict(X), **CLOSE)
    assert answer["classes"] == process.classes
    alone = sure(api, name, X, return_scores=False).json()
    assert "scores" not in alone
    assert (alone["variances"], alone["predictions"]) == (answer["variances"], answer["predictions"])


def test_a_row_alone_has_the_bits_it_has_in_a_batch(api, two):
    name, _ = two
    X = questions(5000)
    many = sure(api, name, X).json()["variances"]
    for i in (0, 1, 2500, 4999):
        assert sure(api, name, X[i:i + 1]).json()["variances"] == [many[i]]
    assert sure(api, name, X[17:40]).json()["variances"] == many[17:40]


def test_the_description(api, one, two, kinds, plain):
    for name, process, directions in ((*one, 60), (*two, 20), (*kinds, 60)):
        variance = api.get(f"/v1/models/{name}/versions/1").json()["description"]["variance"]
        assert variance["directions"] == directions
        assert variance["prior"] == process.prior.tolist() and variance["noise"] == process.noise.tolist()
    assert api.get(f"/v1/models/{plain}/versions/1").json()["description"]["variance"] is None


# CSV and NPY.


def test_csv(api, one, two, kinds):
    X = questions()
    body = data.csv(X, X[:, 0]).decode()
    wanted = sure(api, one[0], X).json()
    lines = from_csv(ask(api, one[0], body, "text/csv", query="?return_variance=true"))
    assert lines[0] == ["y", "y_variance"]
    assert [[float(c) for c in line] for line in lines[1:]] == \
        [list(row) for row in zip(wanted["predictions"], wanted["variances"])]
    assert from_csv(ask(api, one[0], body, "text/csv"))[0] == ["y"]
    wanted = sure(api, two[0], X).json()
    lines = from_csv(ask(api, two[0], {"instances": X.tolist(), "return_variance": True}, accept="text/csv"))
    assert lines[0] == ["y0", "y1", "y0_variance", "y1_variance"]
    assert [[float(c) for c in line] for line in lines[1:]] == \
        [p + v for p, v in zip(wanted["predictions"], wanted["variances"])]
    C = data.classification(20, seed=75)[0]
    wanted = sure(api, kinds[0], C).json()
    variances = [f"{label}_variance" for label in kinds[1].classes]
    for query, scores in (("", kinds[1].classes), ("&return_scores=false", [])):
        lines = from_csv(ask(api, kinds[0], data.npy(C), "application/x-npy", accept="text/csv",
                             query="?return_variance=true" + query))
        assert lines[0] == ["prediction", *scores, *variances]
        assert [line[0] for line in lines[1:]] == wanted["predictions"]
        assert [[float(c) for c in line[-3:]] for line in lines[1:]] == wanted["variances"]


def test_npy(api, one, two, kinds):
    X = questions()
    for name, columns in ((one[0], 1), (two[0], 2)):
        wanted = sure(api, name, X).json()
        found = from_npy(ask(api, name, data.npy(X), "application/x-npy", query="?return_variance=true"))
        assert found.shape == (30, 2 * columns)
        assert np.array_equal(found[:, :columns], np.reshape(wanted["predictions"], (30, columns)))
        assert np.array_equal(found[:, columns:], np.reshape(wanted["variances"], (30, columns)))
    C = data.classification(20, seed=75)[0]
    wanted = sure(api, kinds[0], C).json()
    both = np.column_stack([wanted["scores"], wanted["variances"]])
    for query in ("", "&return_scores=true"):
        found = from_npy(ask(api, kinds[0], data.npy(C), "application/x-npy", query="?return_variance=true" + query))
        assert np.array_equal(found, both)
    body = {"instances": C.tolist(), "return_variance": True}
    assert np.array_equal(from_npy(ask(api, kinds[0], body, accept="application/x-npy")), both)
    refusal(ask(api, kinds[0], {**body, "return_scores": False}, accept="application/x-npy", expect=422),
            "#/return_variance", "JSON or CSV")
    refusal(ask(api, kinds[0], data.npy(C), "application/x-npy", 422, "?return_variance=true&return_scores=false"),
            "#/query/return_variance", "JSON or CSV")
    assert from_npy(ask(api, kinds[0], data.npy(C), "application/x-npy")).tolist() == wanted["predictions"]


# Refusals.


def test_models_without(api, plain):
    refusal(ask(api, plain, {**RIGHT, "return_variance": True}, expect=422), "#/return_variance", "kmcg", "inducing")
    refusal(ask(api, plain, RIGHT, expect=422, query="?return_variance=true"), "#/query/return_variance",
            "kmcg", "inducing")
    refusal(ask(api, plain, "1,2,3,4\n", "text/csv", 422, "?return_variance=true"), "#/query/return_variance")
    ask(api, plain, RIGHT, query="?return_variance=false")
    ask(api, plain, {**RIGHT, "return_variance": False})


def test_contradictions(api, one):
    for said, asked in ((True, "false"), (False, "true")):
        refusal(ask(api, one[0], {**RIGHT, "return_variance": said}, expect=422, query=f"?return_variance={asked}"),
                "#/query/return_variance", "otherwise")
        same = ask(api, one[0], {**RIGHT, "return_variance": said}, query=f"?return_variance={str(said).lower()}")
        assert ("variances" in same.json()) == said
    for bad in ("1", "yes", "", "TRUE"):
        refusal(ask(api, one[0], RIGHT, expect=422, query=f"?return_variance={bad}"), "#/query/return_variance")
    for bad in (1, None, "true"):
        refusal(ask(api, one[0], {**RIGHT, "return_variance": bad}, expect=422), "#/return_variance")


def test_an_answer_too_large_for_a_worker(api, name):
    """Said before anything is computed, and only of those that ask for too much."""
    X = np.linspace(-1, 1, 8)[:, None]
    handmade.Process(X, np.column_stack([X ** k for k in range(1, 9)])).put(api, name)
    rows = np.zeros((600_000, 1))
    for query, status in (("?return_variance=true", 413), ("", 200)):
        answer = ask(api, name, data.npy(rows), "application/x-npy", status, query)
        assert status == 200 or "fewer rows" in answer.text


# The other protocols.


def test_invocations(api):
    process = handmade.regression(seed=76)
    process.put(api, "default")  # the daemon's --default-model
    X = questions()
    body = {"dataframe_split": {"columns": process.features, "data": X.tolist()}, "return_variance": True}
    answer = api.post("/invocations", json=body).json()
    np.testing.assert_allclose(answer["variances"], process.variance(X)[:, 0], **CLOSE)
    table = api.post("/invocations?return_variance=true", data=data.csv(X, X[:, 0]), headers={"Content-Type": "text/csv"})
    assert from_csv(table)[0] == ["y", "y_variance"]


def infer(api, model, X, outputs=None, expect=200, **more):
    body = {"inputs": [{"name": "X", "shape": list(X.shape), "datatype": "FP64", "data": X.ravel().tolist()}], **more}
    if outputs is not None:
        body["outputs"] = [{"name": name} for name in outputs]
    return api.post(f"/v2/models/{model}/infer", expect, json=body)


def test_inference_protocol(api, one, kinds, plain):
    metadata = api.get(f"/v2/models/{one[0]}").json()
    assert metadata["outputs"] == [{"name": "y", "datatype": "FP64", "shape": [-1, 1]},
                                   {"name": "variance", "datatype": "FP64", "shape": [-1, 1]}]
    config = api.get(f"/v2/models/{kinds[0]}/config").json()
    assert config["output"][2] == {"name": "variance", "data_type": "TYPE_FP64", "dims": [3]}
    X = questions()
    wanted = sure(api, one[0], X).json()
    assert [o["name"] for o in infer(api, one[0], X).json()["outputs"]] == ["y"]  # it costs: only who names it
    outputs = infer(api, one[0], X, ["variance", "y"]).json()["outputs"]
    assert [o["name"] for o in outputs] == ["variance", "y"]
    assert (outputs[0]["data"], outputs[1]["data"]) == (wanted["variances"], wanted["predictions"])
    C = data.classification(20, seed=75)[0]
    (output,) = infer(api, kinds[0], C, ["variance"]).json()["outputs"]
    assert output["shape"] == [20, 3] and output["data"] == np.ravel(sure(api, kinds[0], C).json()["variances"]).tolist()
    binary = infer(api, kinds[0], C, ["y", "scores", "variance"], parameters={"binary_data_output": True})
    length = int(binary.headers["Inference-Header-Content-Length"])
    assert [o["name"] for o in json.loads(binary.content[:length])["outputs"]] == ["y", "scores", "variance"]
    assert np.frombuffer(binary.content[-480:], "<f8").tolist() == output["data"]
    refusal(infer(api, plain, X, ["variance"], 422), "#/outputs/0", "kmcg")
    refusal(infer(api, one[0], X, ["y", "scores"], 422), "#/outputs/1", '"y", "variance"')
    refusal(infer(api, one[0], X, ["variance", "variance"], 422), "#/outputs/1", "twice")


# Beside those who do not want them.


def test_sixteen_threads(api, two):
    name, _ = two
    X = questions(64)
    wanted = sure(api, name, X).json()

    def ask_often(worker):
        with contract.Session() as session:
            own = interface.Api(session, api.base)
            for turn in range(16):
                at = (7 * worker + turn) % 60
                wants = (worker + turn) % 2 == 0
                rows = X[at:at + 1 + turn % 4]
                found = (sure if wants else interface.Api.predict)(own, name, rows).json()
                assert found["predictions"] == wanted["predictions"][at:at + len(rows)]
                assert found.get("variances") == (wanted["variances"][at:at + len(rows)] if wants else None)
        return True

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask_often, range(16)))


def test_a_batch_has_one_kind_of_question(daemons):
    """Six and six that wait by turns go as two batches; nothing is computed for who did not ask."""
    api = daemons().api
    process = handmade.regression()
    process.put(api, "m")
    X = questions(12)
    wanted = sure(api, "m", X).json()
    with asking.Asker(api) as asker:
        with asking.Stopped(api, asker, "m", X[:1]) as stopped:
            before = prometheus.scrape(api).value("krrd_prediction_batch_rows_count")
            waiting = []
            for i in range(12):
                waiting.append(asker.ask(sure if i % 2 else interface.Api.predict, "m", X[i:i + 1]))
                stopped.until_asked(2 + i)
        found = [one.result()[0].json() for one in waiting]
    assert [one["predictions"][0] for one in found] == wanted["predictions"]
    assert [one.get("variances") for one in found] == \
        [[wanted["variances"][i]] if i % 2 else None for i in range(12)]
    assert prometheus.scrape(api).value("krrd_prediction_batch_rows_count") - before == 2


def test_the_more_urgent_are_not_overtaken(daemons):
    """By its kind the last would go with the first; but the second is more urgent than it."""
    api = daemons().api
    handmade.regression().put(api, "m")
    X = questions(1)
    order = [(1, ["y"]), (2, ["variance"]), (3, ["y"])]
    with asking.Asker(api) as asker:
        with asking.Stopped(api, asker, "m", X) as stopped:
            before = prometheus.scrape(api).value("krrd_prediction_batch_rows_count")
            waiting = []
            for i, (priority, outputs) in enumerate(order):
                waiting.append(asker.ask(infer, "m", X, outputs, parameters={"priority": priority}))
                stopped.until_asked(2 + i)
        assert all(one.result() for one in waiting)
    assert prometheus.scrape(api).value("krrd_prediction_batch_rows_count") - before == 3


# Files.


def test_a_model_goes_elsewhere(api, two, name):
    """The safetensors export has all of it."""
    origin, process = two
    content = api.get(f"/v1/models/{origin}/versions/1/export").content
    metadata = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    assert "variance_factor" in metadata["variance_formula"]
    copy = api.post(f"/v1/models/{name}/import", 201, data=content, headers=handmade.TYPE).json()
    assert copy["sha256"] == api.get(f"/v1/models/{origin}/versions/1").json()["sha256"]
    X = questions()
    assert sure(api, name, X).json()["variances"] == sure(api, origin, X).json()["variances"]
    np.testing.assert_allclose(sure(api, name, X).json()["variances"], process.variance(X), **CLOSE)


@pytest.mark.parametrize("changes, part", [
    ({"variance_factor": None}, "no factor"),
    ({"variance_factor": np.ones((3, 2))}, "shape"),
    ({"variance_factor": np.full((60, 2), np.nan)}, "infinity or NaN"),
    ({"prior_variance": None}, "tensors"),
    ({"prior_variance": [-1.0]}, "negative"),
    ({"noise_variance": [-1e-9]}, "negative"),
    ({"noise_variance": [1.0, 2.0]}, "shape"),
])
def test_files_that_are_not_whole(api, name, changes, part):
    problem = handmade.regression().put(api, name, 422, **changes)
    assert part in problem["detail"], problem
    api.get(f"/v1/models/{name}", 404)


# ---- trained here ----

def log_evidence(process, Y):
    """ln N(y; 0, s² (K + noise I)) of standardised targets with the likeliest s²."""
    K = process.kernel(process.centers * process.scale + process.mean) + process.noise[0] / process.prior[0] * np.eye(len(Y))
    y = (np.asarray(Y, dtype=float) - process.target_mean) / process.target_scale
    n, s2 = len(y), float(y @ np.linalg.solve(K, y)) / len(y)
    return -0.5 * (n + n * np.log(2 * np.pi * s2) + np.linalg.slogdet(K)[1]), s2


@pytest.mark.parametrize("solver, centers", [
    ({"name": "kmcg"}, None),
    ({"name": "inducing"}, {"method": "uniform", "count": 150}),
    ({"name": "inducing", "approximation": "fitc"}, {"method": "uniform", "count": 150}),
    ({"name": "kmcg_restricted"}, {"method": "uniform", "count": 150}),
], ids=["kmcg", "vfe", "fitc", "kmcg_restricted"])
def test_trained_models_are_the_exact_process(api, solver, centers):
    """With all rows as centers, or as many directions as there are rows."""
    X, y = data.regression(150, seed=81)
    noise = 0.05
    spec = {"kernel": {"name": "gaussian", "bandwidth": 2.0}, "regularization": noise / len(X), "solver": solver,
            "test": {"fraction": 0}, "stop": {"tolerance": 1e-14}, **({"centers": centers} if centers else {})}
    job = api.train("exact-" + "-".join(str(v) for v in solver.values()).replace(".", ""), api.upload_csv(X, y), **spec)
    process = handmade.Process(X, y, bandwidth=2.0, noise=noise)
    expected, s2 = log_evidence(process, y)
    result = job["result"]
    assert result["log_evidence"] == pytest.approx(expected, rel=1e-6)
    assert 100 < result["directions"] <= 150
    name = job["model"]
    known = api.get(f"/v1/models/{name}").json()["versions"][0]["description"]["variance"]
    np.testing.assert_allclose(known["prior"], s2 * process.prior, rtol=1e-6)
    np.testing.assert_allclose(known["noise"], s2 * process.noise, rtol=1e-6)
    Q = questions(40, d=X.shape[1])
    answer = sure(api, name, Q).json()
    np.testing.assert_allclose(answer["predictions"], process.predict(Q)[:, 0], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(answer["variances"], s2 * process.variance(Q)[:, 0], rtol=1e-5, atol=1e-8)


def test_a_variance_does_not_depend_on_the_targets(api):
    """Nor does it take any that differ, where the amplitude is named."""
    X, y = data.regression(150, seed=81)
    spec = {"kernel": {"name": "gaussian", "bandwidth": 2.0}, "regularization": 0.05 / len(X), "test": {"fraction": 0},
            "solver": {"name": "kmcg", "amplitude": 2}, "stop": {"tolerance": 1e-14}}
    Q = questions(40, d=X.shape[1])
    process = handmade.Process(X, y, bandwidth=2.0, noise=0.05)
    for model, targets in (("some", y), ("same", np.full(len(X), 3.0))):
        api.train(f"targets-{model}", api.upload_csv(X, targets), **spec)
        answer = sure(api, f"targets-{model}", Q).json()
        prior = api.get(f"/v1/models/targets-{model}").json()["versions"][0]["description"]["variance"]["prior"][0]
        np.testing.assert_allclose(np.array(answer["variances"]) / prior, process.variance(Q)[:, 0] / process.prior[0],
                                   rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(answer["predictions"], 3.0)


def test_directions_among_centers(api):
    """A few know less than all centers, and their model says so; all know the same."""
    X, y = data.regression(400, seed=83)
    dataset, Q = api.upload_csv(X, y), questions(40, d=X.shape[1])
    spec = {"kernel": {"name": "gaussian", "bandwidth": 2.0}, "regularization": 1e-4, "test": {"fraction": 0}, "seed": 5,
            "centers": {"method": "uniform", "count": 100}, "stop": {"tolerance": 1e-12}}
    solvers = {"few": {"name": "kmcg_restricted", "directions": 32, "amplitude": 1},
               "all": {"name": "kmcg_restricted", "amplitude": 1}, "inducing": {"name": "inducing", "amplitude": 1}}
    jobs = {model: api.train(f"among-{model}", dataset, **spec, solver=solver) for model, solver in solvers.items()}
    answers = {model: sure(api, f"among-{model}", Q).json() for model in solvers}
    few, all_, inducing = (jobs[model]["result"] for model in ("few", "all", "inducing"))
    assert (few["directions"], few["stop_reason"], few["iterations"]) == (32, "iteration_limit", 1)
    assert 1e-6 < few["relative_residual"] < 1 and few["log_evidence"] < inducing["log_evidence"]
    assert np.all(np.array(answers["few"]["variances"]) > np.array(answers["inducing"]["variances"]) * (1 - 1e-6))
    assert 80 < all_["directions"] <= 100
    assert all_["log_evidence"] == pytest.approx(inducing["log_evidence"], rel=1e-6)
    for field in ("predictions", "variances"):
        np.testing.assert_allclose(answers["all"][field], answers["inducing"][field], rtol=1e-4, atol=1e-6)


def test_a_model_without_directions_enough_is_cautious(api):
    """Its mean is exact all the same; its variances are not below the exact ones."""
    X, y = data.regression(300, seed=82)
    noise = 0.05
    job = api.train("cautious", api.upload_csv(X, y), kernel={"name": "gaussian", "bandwidth": 2.0},
                    regularization=noise / len(X), solver={"name": "kmcg", "directions": 32},
                    test={"fraction": 0}, stop={"tolerance": 1e-10})
    process = handmade.Process(X, y, bandwidth=2.0, noise=noise)
    assert job["result"]["stop_reason"] == "converged" and job["result"]["directions"] == 32
    Q = questions(40, d=X.shape[1])
    answer = sure(api, "cautious", Q).json()
    np.testing.assert_allclose(answer["predictions"], process.predict(Q)[:, 0], rtol=1e-6, atol=1e-7)
    prior = api.get("/v1/models/cautious").json()["versions"][0]["description"]["variance"]["prior"][0]
    assert prior == pytest.approx(log_evidence(process, y)[1] * process.prior[0], rel=1e-6)
    exact = process.variance(Q)[:, 0] / process.prior[0] * prior
    assert np.all(np.array(answer["variances"]) > exact * (1 - 1e-6))
    assert np.mean(answer["variances"] / exact) > 1.05


def test_joint_covariances_follow_from_an_export(api, name):
    """As docs/solvers.md has it, for each pair of points: s² (k(x, x') - k(x, Z) V V' k(Z, x'))."""
    X, y = data.regression(120, seed=84)
    api.train(name, api.upload_csv(X, y), kernel={"name": "gaussian", "bandwidth": 2.0}, regularization=1e-3,
              solver={"name": "inducing", "amplitude": 1}, centers={"method": "uniform", "count": 120}, test={"fraction": 0})
    process = handmade.Process(X, y, bandwidth=2.0, noise=0.12)
    Q = data.regression(9, d=X.shape[1], seed=85)[0]
    e = handmade.tensors(api.get(f"/v1/models/{name}/versions/1/export").content)
    P = (Q - e["feature_mean"]) / e["feature_scale"]
    known = data.kernel_matrix("gaussian", P, e["centers"], 2.0) @ e["variance_factor"]
    joint = e["prior_variance"][0] * (data.kernel_matrix("gaussian", P, P, 2.0) - known @ known.T)
    rows = process.kernel(Q)
    K = data.kernel_matrix("gaussian", process.centers, process.centers, 2.0) + 0.12 * np.eye(len(X))
    exact = process.prior[0] * (data.kernel_matrix("gaussian", P, P, 2.0) - rows @ np.linalg.solve(K, rows.T))
    np.testing.assert_allclose(joint, exact, atol=1e-6 * process.prior[0])
    assert np.abs(joint - np.diag(np.diag(joint))).max() > 1e-3 * np.diag(joint).max()
    np.testing.assert_allclose(np.diag(joint), sure(api, name, Q).json()["variances"], rtol=1e-6, atol=1e-9)
