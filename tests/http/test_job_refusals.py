"""Job specifications that are refused: each with its status and a pointer to the field, and with
nothing queued."""

import json

import pytest

import api as interface
import data

UNKNOWN = "ds_00000000000000000000000000"
PAIRS = {f"k{i}": "v" for i in range(17)}

# What replaces or joins {"model", "dataset"} (REMOVED: takes it away), and the pointer.
REMOVED = object()
CASES = [
    ({"model": REMOVED}, "#/model"),
    ({"model": ""}, "#/model"),
    ({"model": 5}, "#/model"),
    ({"model": None}, "#/model"),
    ({"model": "-x"}, "#/model"),
    ({"model": "a/b"}, "#/model"),
    ({"model": "ä"}, "#/model"),
    ({"model": "a" * 65}, "#/model"),
    ({"dataset": REMOVED}, "#/dataset"),
    ({"dataset": "housing"}, "#/dataset"),
    ({"dataset": UNKNOWN}, "#/dataset"),
    ({"dataset": ["x"]}, "#/dataset"),
    ({"modell": "x"}, "#/modell"),
    ({"a/b~c": 1}, "#/a~1b~0c"),
    ({"target": "nothing"}, "#/target"),
    ({"target": ""}, "#/target"),
    ({"target": 4}, "#/target"),
    ({"target": []}, "#/target"),
    ({"target": ["y", "y"]}, "#/target/1"),
    ({"target": ["y", "nothing"]}, "#/target/1"),
    ({"target": [1]}, "#/target/0"),
    ({"features": []}, "#/features"),
    ({"features": "x0"}, "#/features"),
    ({"features": ["nothing"]}, "#/features/0"),
    ({"features": ["x0", "y"]}, "#/features/1"),
    ({"features": ["x0", "x0"]}, "#/features/1"),
    ({"target": ["y", "x0", "x1", "x2", "x3"]}, "#/features"),
    ({"task": "clustering"}, "#/task"),
    ({"task": "classification"}, "#/task"),
    ({"test": 0.2}, "#/test"),
    ({"test": {"fraction": 1}}, "#/test/fraction"),
    ({"test": {"fraction": -0.1}}, "#/test/fraction"),
    ({"test": {"fraction": "0.2"}}, "#/test/fraction"),
    ({"test": {"fraction": 0.2, "mask": "x0"}}, "#/test"),
    ({"test": {"mask": "nothing"}}, "#/test/mask"),
    ({"test": {"mask": "y"}}, "#/test/mask"),
    ({"test": {"dataset": UNKNOWN}}, "#/test/dataset"),
    ({"test": {"dataset": 3}}, "#/test/dataset"),
    ({"test": {"rows": 5}}, "#/test/rows"),
    ({"standardize": True}, "#/standardize"),
    ({"standardize": {"features": 1}}, "#/standardize/features"),
    ({"standardize": {"labels": True}}, "#/standardize/labels"),
    ({"kernel": 5}, "#/kernel"),
    ({"kernel": "rbf"}, "#/kernel"),
    ({"kernel": {"name": "rbf"}}, "#/kernel/name"),
    ({"kernel": {"name": 5}}, "#/kernel/name"),
    ({"kernel": {"name": "gaussian", "bandwidth": 0}}, "#/kernel/bandwidth"),
    ({"kernel": {"name": "gaussian", "bandwidth": -1.5}}, "#/kernel/bandwidth"),
    ({"kernel": {"name": "gaussian", "bandwidth": "wide"}}, "#/kernel/bandwidth"),
    ({"kernel": {"name": "gaussian", "bandwidth": [1, 2]}}, "#/kernel/bandwidth"),
    ({"kernel": {"name": "gaussian", "bandwidth": []}}, "#/kernel/bandwidth"),
    ({"kernel": {"name": "gaussian", "bandwidth": [1, 2, 3, 0]}}, "#/kernel/bandwidth/3"),
    ({"kernel": {"name": "linear", "bandwidth": 1}}, "#/kernel/bandwidth"),
    ({"kernel": {"name": "gaussian", "degree": 3}}, "#/kernel/degree"),
    ({"kernel": {"name": "polynomial", "degree": 0}}, "#/kernel/degree"),
    ({"kernel": {"name": "polynomial", "degree": 2.5}}, "#/kernel/degree"),
    ({"kernel": {"name": "polynomial", "gamma": 0}}, "#/kernel/gamma"),
    ({"regularization": -1e-9}, "#/regularization"),
    ({"regularization": 1.1e100}, "#/regularization"),
    ({"regularization": "small"}, "#/regularization"),
    ({"regularization": True}, "#/regularization"),
    ({"search": []}, "#/search"),
    ({"search": {}}, "#/search"),
    ({"search": {"regularization": 1e-6}}, "#/search/regularization"),
    ({"search": {"regularization": [1e-6, 0]}}, "#/search/regularization/1"),
    ({"search": {"regularization": [1e-6]}, "regularization": 1e-6}, "#/regularization"),
    ({"search": {"bandwidth": []}}, "#/search/bandwidth"),
    ({"search": {"bandwidth": [1, "median"]}}, "#/search/bandwidth/1"),
    ({"search": {"bandwidth": [1]}, "kernel": {"bandwidth": 2}}, "#/kernel/bandwidth"),
    ({"search": {"bandwidth": [1]}, "kernel": "linear"}, "#/search/bandwidth"),
    ({"search": {"bandwidth": [1], "folds": 1}}, "#/search/folds"),
    ({"search": {"bandwidth": [1], "folds": "five"}}, "#/search/folds"),
    ({"search": {"bandwidth": [1], "metric": "loss"}}, "#/search/metric"),
    ({"search": {"bandwidth": [1], "metric": "auc"}}, "#/search/metric"),
    ({"search": {"bandwidth": [1], "metric": "evidence"}}, "#/search/metric"),
    ({"search": {"bandwidth": [1], "metric": "evidence"}, "solver": "direct"}, "#/search/metric"),
    ({"search": {"bandwidth": [1], "metric": "evidence"}, "solver": {"name": "inducing", "approximation": "fitc"}},
     "#/search/metric"),
    ({"search": {"bandwidth": [1], "metric": "evidence", "folds": 3}, "solver": "kmcg"}, "#/search/folds"),
    ({"search": {"bandwidth": [1], "max_rows": 99}}, "#/search/max_rows"),
    ({"search": {"bandwidth": [1], "trials": 10}}, "#/search/trials"),
    ({"search": {"bandwidth": [1] * 20}, "regularization": "auto"}, "#/search"),
    ({"solver": "svd"}, "#/solver"),
    ({"solver": ["pcg"]}, "#/solver"),
    ({"solver": {"name": "svd"}}, "#/solver/name"),
    ({"solver": {"name": "cholesky", "block_size": 1}}, "#/solver/block_size"),
    ({"solver": {"name": "askotch", "beta": 1.5}}, "#/solver/beta"),
    ({"solver": {"name": "askotch", "mu": 0}}, "#/solver/mu"),
    ({"solver": {"name": "askotch2", "restarts": 1}}, "#/solver/restarts"),
    ({"solver": {"name": "skotch", "alpha": -0.1}}, "#/solver/alpha"),
    ({"solver": {"name": "skotch", "beta": 0}}, "#/solver/beta"),
    ({"solver": {"name": "sketchysaga", "learning_rate_scaling": 0}}, "#/solver/learning_rate_scaling"),
    ({"solver": {"name": "sketchykatyusha", "rho": 0}}, "#/solver/rho"),
    ({"solver": {"name": "eigenpro4", "residual_every": 0}}, "#/solver/residual_every"),
    ({"solver": {"name": "cholesky", "factor": "float16"}}, "#/solver/factor"),
    ({"solver": {"name": "cholesky", "preconditioner": "none"}}, "#/solver/preconditioner"),
    ({"solver": {"name": "pcg", "preconditioner": "ilu"}}, "#/solver/preconditioner"),
    ({"solver": {"name": "pcg", "preconditioner": {"name": "ilu"}}}, "#/solver/preconditioner/name"),
    ({"solver": {"name": "pcg", "preconditioner": {"name": "rpcholesky", "rank": 0}}},
     "#/solver/preconditioner/rank"),
    ({"solver": {"name": "pcg", "preconditioner": {"name": "none", "rank": 5}}},
     "#/solver/preconditioner/rank"),
    ({"solver": {"name": "pcg", "restart": 5}}, "#/solver/restart"),
    ({"solver": {"name": "kmcg", "directions": 0}}, "#/solver/directions"),
    ({"solver": {"name": "kmcg", "amplitude": 0}}, "#/solver/amplitude"),
    ({"solver": "kmcg", "regularization": 0}, "#/regularization"),
    ({"solver": "kmcg", "centers": "uniform"}, "#/centers"),
    ({"solver": "inducing", "precision": "float32"}, "#/precision"),
    ({"solver": "kmcg_restricted", "precision": "mixed"}, "#/precision"),
    ({"solver": "kmcg_restricted", "regularization": 0}, "#/regularization"),
    ({"solver": {"name": "kmcg_restricted", "approximation": "exact"}}, "#/solver/approximation"),
    ({"solver": {"name": "cholesky", "factor": "float64"}, "precision": "float32"}, "#/solver/factor"),
    ({"centers": 5}, "#/centers"),
    ({"centers": "farthest"}, "#/centers"),
    ({"centers": {"method": "farthest"}}, "#/centers/method"),
    ({"centers": {"method": "uniform", "spread": 3}}, "#/centers/spread"),
    ({"centers": {"count": 0}}, "#/centers/count"),
    ({"centers": {"count": "all"}}, "#/centers/count"),
    ({"centers": {"count": 10, "dataset": UNKNOWN}}, "#/centers/dataset"),
    ({"centers": "file"}, "#/centers/dataset"),
    ({"centers": {"method": "file", "dataset": "housing"}}, "#/centers/dataset"),
    ({"centers": {"method": "file", "dataset": UNKNOWN}}, "#/centers/dataset"),
    ({"centers": "uniform", "search": {"bandwidth": [1, 2], "folds": 3}}, "#/search/folds"),
    ({"centers": "uniform", "solver": "pcg"}, "#/centers"),
    ({"centers": "uniform", "solver": {"name": "cholesky"}}, "#/centers"),
    ({"stop": {"tolerance": 0}}, "#/stop/tolerance"),
    ({"stop": {"tolerance": 2}}, "#/stop/tolerance"),
    ({"stop": {"max_iterations": 0}}, "#/stop/max_iterations"),
    ({"stop": {"max_iterations": 1.5}}, "#/stop/max_iterations"),
    ({"stop": {"time_budget_s": 0}}, "#/stop/time_budget_s"),
    ({"stop": {"time_budget_s": "1h"}}, "#/stop/time_budget_s"),
    ({"stop": {"patience": 3}}, "#/stop/patience"),
    ({"stop": 5}, "#/stop"),
    ({"precision": "float16"}, "#/precision"),
    ({"kernel_cache_bytes": -1}, "#/kernel_cache_bytes"),
    ({"kernel_cache_bytes": "all"}, "#/kernel_cache_bytes"),
    ({"device": "gpu"}, "#/device"),
    ({"device": "cuda:01"}, "#/device"),
    ({"device": 0}, "#/device"),
    ({"seed": -1}, "#/seed"),
    ({"seed": 0.5}, "#/seed"),
    ({"seed": 2**53}, "#/seed"),
    ({"seed": 2**53 + 1}, "#/seed"),
    ({"priority": 101}, "#/priority"),
    ({"max_attempts": 0}, "#/max_attempts"),
    ({"max_attempts": 11}, "#/max_attempts"),
    ({"metadata": "x"}, "#/metadata"),
    ({"metadata": {"a": 5}}, "#/metadata/a"),
    ({"metadata": {"a": "x" * 513}}, "#/metadata/a"),
    ({"metadata": PAIRS}, "#/metadata"),
]

# Bodies that are no JSON object at all, the status, and a pointer where one can be given.
BODIES = [
    ("", 400, None),
    ("{", 400, None),
    ('{"model": "m"} x', 400, None),
    ('{"model": "m", "model": "m"}', 400, None),
    ('{"model": "m", "regularization": NaN}', 400, None),
    ('{"model": "m", "regularization": Infinity}', 400, None),
    ('{"model": "m", "regularization": 1e999}', 400, None),
    ("{'model': 'm'}", 400, None),
    ('{"model": "m",}', 400, None),
    ('{"model": "\ud800"}', 400, None),
    ("[" * 5000, 400, None),
    ("[]", 422, "#"),
    ("null", 422, "#"),
    ('"m"', 422, "#"),
]


# Parameters that another one leaves without effect, the first of each pair.
CLASHES = [
    ("solver", {"name": "sketchysaga"}, {"damping": 2, "rho": 0.5}),
    ("solver", {"name": "sketchykatyusha"}, {"damping": 2, "rho": 0.5}),
    *[("solver", {"name": name}, {"rank": 50, "block_preconditioner": blocks})
      for name in ("askotch2", "askotch", "skotch") for blocks in ("cholesky", "none")],
    ("solver", {"name": "skotch"}, {"damping": "regularization", "block_preconditioner": "cholesky"}),
    ("solver", {"name": "askotch"}, {"damping": "regularization", "block_preconditioner": "none"}),
    ("solver", {"name": "askotch2"}, {"power_iterations": 5, "block_preconditioner": "cholesky"}),
    ("solver", {"name": "askotch2"}, {"mu": 1e-3, "accelerated": False}),
    ("solver", {"name": "askotch2"}, {"nu": 7, "accelerated": False}),
    ("solver", {"name": "askotch2"}, {"restarts": False, "accelerated": False}),
    ("solver", {"name": "eigenpro2"}, {"alpha": 0.5, "eigenvectors": 0}),
    ("solver", {"name": "eigenpro3"}, {"alpha": 0.5, "eigenvectors": 0}),
    ("solver", {"name": "eigenpro4"}, {"batch_memory_mib": 10, "batch_size": 100}),
    ("solver", {"name": "eigenpro3"}, {"projection_epochs": 2, "projection": "exact"}),
    ("solver", {"name": "eigenpro4"}, {"residual_every": 5, "plain_epochs": 0}),
    ("centers", {"method": "kmeans"}, {"batch_size": 100, "rows": 0}),
]


def refused_by(answer, pointer):
    pointers = interface.problem_pointers(answer)
    assert pointers == [pointer], answer.text
    detail = answer.json()["errors"][0]["detail"]
    assert detail and detail[0].isupper() and detail.endswith("."), detail


@pytest.mark.parametrize("change, pointer", CASES, ids=lambda v: json.dumps(
    v, default=lambda _: "removed")[:60] if isinstance(v, dict) else v)
def test_refused_field(api, regression_dataset, change, pointer):
    spec = {"model": "refused", "dataset": regression_dataset, **change}
    spec = {key: value for key, value in spec.items() if value is not REMOVED}
    refused_by(api.post("/v1/jobs", 422, json=spec), pointer)


@pytest.mark.parametrize("key, method, pair", CLASHES)
def test_a_parameter_without_effect(api, regression_dataset, key, method, pair):
    """It is refused, naming both; either alone is not, nor is what a job's own document says of it."""
    spec = {"model": "m", "dataset": regression_dataset}
    answer = api.post("/v1/jobs", 422, json={**spec, key: {**method, **pair}})
    refused_by(answer, f"#/{key}/{next(iter(pair))}")
    assert all(f'"{name}"' in answer.json()["detail"] for name in pair)
    for name, value in pair.items():
        told = api.post("/v1/jobs?validate_only=true", 200, json={**spec, key: {**method, name: value}}).json()
        assert told["spec"][key][name] == value
        api.post("/v1/jobs?validate_only=true", 200, json={**spec, key: told["spec"][key]})


@pytest.mark.parametrize("body, status, pointer", BODIES, ids=lambda v: str(v)[:30].encode(
    "ascii", "backslashreplace").decode())
def test_refused_body(api, body, status, pointer):
    answer = api.post("/v1/jobs", status, data=body.encode("utf-8", "surrogatepass"),
                      headers={"Content-Type": "application/json"})
    if pointer:
        refused_by(answer, pointer)


@pytest.mark.parametrize("ascii", range(4))
def test_a_name_that_is_cut_keeps_whole_characters(api, regression_dataset, ascii):
    """Of a long name its beginning is told, wherever among the bytes of a character that ends."""
    name = "x" * ascii + "\N{GRINNING FACE}" * 40
    answer = api.post("/v1/jobs", 422, json={"model": "refused", "dataset": regression_dataset, "features": [name]})
    refused_by(answer, "#/features/0")
    told = answer.json()["detail"].split('"')[1]
    assert 10 < len(told) < len(name) and name.startswith(told)
    model = api.get("/v1/models/x/versions/" + name, 404).json()
    assert name.startswith(model["detail"].split('"')[1])


def test_refused_content_type(api, regression_dataset):
    body = json.dumps({"model": "refused", "dataset": regression_dataset})
    api.post("/v1/jobs", 415, data=body, headers={"Content-Type": "text/csv"})


def test_refused_query(api, regression_dataset):
    answer = api.post("/v1/jobs?dry_run=1", 422,
                      json={"model": "refused", "dataset": regression_dataset})
    refused_by(answer, "#/query/dry_run")


def test_centers_without_a_feature(api, regression_dataset):
    """The data set of the centers lacks x3."""
    X, y = data.regression(20, d=3)
    centers = {"method": "file", "dataset": api.upload_csv(X, y)}
    answer = api.post("/v1/jobs", 422, json={"model": "refused", "dataset": regression_dataset,
                                             "centers": centers})
    refused_by(answer, "#/centers/dataset")
    assert '"x3"' in answer.json()["detail"]


def refused_test(api, dataset, other, part):
    for query in ("", "?validate_only=true"):
        answer = api.post(f"/v1/jobs{query}", 422, json={"model": "refused", "dataset": dataset,
                                                         "test": {"dataset": other}})
        refused_by(answer, "#/test/dataset")
        assert part in answer.json()["detail"]


def test_test_without_a_column(api, regression_dataset):
    """The test data set lacks x3, or the target."""
    X, y = data.regression(20, d=3)
    refused_test(api, regression_dataset, api.upload_csv(X, y), '"x3"')
    X, y = data.regression(20)
    refused_test(api, regression_dataset, api.upload_csv(X, y, target="z"), '"y"')


def test_test_with_other_classes(api):
    X, labels = data.classification(60)
    others = ["elsewhere" if i == 3 else label for i, label in enumerate(labels)]
    dataset = api.upload_csv(X, labels)
    refused_test(api, dataset, api.upload_csv(X, others), '"elsewhere"')


def test_more_folds_than_rows(api):
    X, y = data.regression(20)
    job = {"model": "refused", "dataset": api.upload_csv(X, y),
           "search": {"bandwidth": [1], "folds": 17}}
    for query in ("", "?validate_only=true"):
        answer = api.post(f"/v1/jobs{query}", 422, json=job)
        refused_by(answer, "#/search/folds")
        assert "17 folds and 16 training rows" in answer.json()["detail"]


def test_device_cuda(api, regression_dataset):
    for device in ("cuda", "cuda:1"):
        answer = api.post("/v1/jobs", 422, json={"model": "refused", "dataset": regression_dataset,
                                                 "device": device})
        refused_by(answer, "#/device")
        assert "CUDA" in answer.json()["detail"] and '"cpu"' in answer.json()["detail"]


def test_nothing_was_queued(api):
    """Runs last in this file: whatever was refused above left no job behind."""
    for model in ("refused", "m"):
        assert api.get("/v1/jobs", params={"model": model}).json()["data"] == []


def test_longer_names_than_a_model_keeps(api):
    """Said before anything is trained: a worker could not tell of such a model."""
    names = [f"{i:06d}" + "x" * 244 for i in range(52000)]
    row = ",".join(["0", "1"] * 26000)
    made = api.upload("\n".join([",".join(names), row, row.replace("1", "2"), row, row]))
    answer = api.post("/v1/jobs", 422, json={"model": "wide", "dataset": made["id"], "kernel": "linear"})
    [error] = answer.json()["errors"]
    assert error["pointer"] == "#/features" and "10485760 at most" in error["detail"]
    api.delete("/v1/datasets/" + made["id"])
