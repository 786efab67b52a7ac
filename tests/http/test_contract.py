"""api/openapi.yaml and the server say the same."""

import hashlib
import json
import math
import re

import jsonschema
import pytest
import yaml

import contract
import data
import sse

ROUTE = re.compile(r'\{\s*"([A-Z]+)",\s*"(/[^"]*)"')


def test_document_is_sound():
    """Every $ref leads somewhere and every schema is one."""

    def walk(node):
        if isinstance(node, dict):
            if "$ref" in node:
                contract.resolve(node)
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(contract.DOCUMENT)
    assert contract.DOCUMENT["openapi"].startswith("3.1.")
    for schema in contract.DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    ids = [operation["operationId"] for operation in contract.operations().values()]
    assert len(set(ids)) == len(ids)
    for (method, template), operation in contract.operations().items():
        item = contract.DOCUMENT["paths"][template]
        parameters = [contract.resolve(p) for p in
                      item.get("parameters", []) + operation.get("parameters", [])]
        in_path = {p["name"] for p in parameters if p["in"] == "path"}
        assert in_path == set(re.findall(r"\{(\w+)\}", template)), (method, template)


def test_routes_are_the_documented_ones():
    source = (contract.ROOT / "src" / "server" / "api" / "routes.c").read_text()
    routes = ROUTE.findall(source)
    assert len(set(routes)) == len(routes)
    assert set(routes) == set(contract.operations())


def test_the_server_hands_out_the_document(api):
    answer = api.get("/openapi.yaml")
    assert yaml.safe_load(answer.content) == contract.DOCUMENT
    assert answer.content == (contract.ROOT / "api" / "openapi.yaml").read_bytes()


@pytest.mark.parametrize("schema, path", [("KernelName", "kernels"), ("SolverName", "solvers"),
                                          ("PreconditionerName", "preconditioners"),
                                          ("CenterSelectorName", "center_selectors")])
def test_names_of_methods(api, schema, path):
    listed = [method["name"] for method in api.get(f"/v1/{path}").json()["data"]]
    documented = contract.resolve(contract.component(schema))["enum"]
    # "auto" is a solver of its own, but the absence of a choice among kernels.
    assert set(documented) - {"auto"} == set(listed) - {"auto"}
    assert len(set(listed)) == len(listed)


def kernel_schema():
    either = contract.resolve(contract.component("JobSpec"))["properties"]["kernel"]["oneOf"]
    return next(s for s in either if "properties" in s)["properties"]


def test_parameters_of_kernels(api):
    """The kernel object of the contract has exactly the parameters the server validates with, and
    their limits: those of the kernel that allows most."""
    listed = {}
    for kernel in api.get("/v1/kernels").json()["data"]:
        for parameter in kernel["parameters"]:
            listed.setdefault(parameter["key"], []).append(parameter)
    assert set(kernel_schema()) == set(listed) | {"name", "bandwidth"}
    for key, parameters in listed.items():
        [documented] = [s for s in kernel_schema()[key].get("oneOf", [kernel_schema()[key]]) if "const" not in s]
        for limit, widest in [("minimum", min), ("exclusiveMinimum", min), ("maximum", max)]:
            name = "exclusive_minimum" if limit == "exclusiveMinimum" else limit
            found = [p[name] for p in parameters if name in p]
            assert documented.get(limit) == (widest(found) if found else None), (key, limit)


def number_leaves(schema, path=()):
    """(path, schema) of all numbers of a document; "0" in a path is an element of an array."""
    schema = contract.resolve(schema)
    kind = schema.get("type")
    if {"integer", "number"} & set(kind if isinstance(kind, list) else [kind]):
        yield path, schema
    for key, part in schema.get("properties", {}).items():
        yield from number_leaves(part, (*path, key))
    for part in schema.get("oneOf", []):
        yield from number_leaves(part, path)
    if "items" in schema:
        yield from number_leaves(schema["items"], (*path, "0"))


# What such a number needs beside it.
BESIDE = {("search", "folds"): {"bandwidth": [1]}, ("search", "max_rows"): {"bandwidth": [1]},
          ("warm_start", "version"): {"model": "nobody"}, ("kernel", "gamma"): {"name": "polynomial"},
          ("kernel", "coef0"): {"name": "sigmoid"}, ("kernel", "degree"): {"name": "polynomial"}}
LEAVES = dict(number_leaves(contract.component("JobSpec")))


def spec_with(path, value):
    for key in reversed(path):
        value = [value] if key == "0" else {key: value}
    if path[:2] in BESIDE:
        value[path[0]].update(BESIDE[path[:2]])
    if path[0] == "promote":
        value["promote"]["alias"] = "prod"
    return value


def limits_of(schema):
    """Values that are within, and beyond."""
    whole = schema["type"] == "integer" or schema["type"][0] == "integer"
    within, beyond = [], []
    for name, outwards in [("minimum", -math.inf), ("maximum", math.inf)]:
        if name in schema:
            edge = schema[name]
            within.append(edge)
            beyond.append(edge + (1 if outwards > 0 else -1) if whole else math.nextafter(edge, outwards))
        elif not whole and "exclusive" + name.capitalize() not in schema:
            within.append(math.copysign(1e300, outwards))
    for name, inwards in [("exclusiveMinimum", 1e-300), ("exclusiveMaximum", -1e-9)]:
        if name in schema:
            within.append(schema[name] + inwards)
            beyond.append(schema[name])
    return within, beyond


@pytest.mark.parametrize("path", LEAVES, ids="/".join)
def test_limits_of_numbers_of_a_job(api, regression_dataset, path):
    """The server refuses what the contract does, and nothing else."""
    pointer = "#/" + "/".join(path)

    def pointers(value):
        spec = {"model": "limits", "dataset": regression_dataset, **spec_with(path, value)}
        answer = api.request("POST", "/v1/jobs", params={"validate_only": "true"}, json=spec)
        assert answer.status_code in (200, 422), answer.text
        return [e["pointer"] for e in answer.json().get("errors", [])]

    schema = LEAVES[path]
    within, beyond = limits_of(schema)
    assert "maximum" in schema or schema["type"] == "number", "a whole number ends somewhere"
    for value in within:
        assert pointer not in pointers(value), value
    for value in beyond:
        assert pointers(value) == [pointer], value


@pytest.mark.parametrize("key, value, fits", [
    ("k", "v" * 512, True), ("k", "v" * 513, False), ("k", "é" * 256, True), ("k", "é" * 257, False), ("k", "", True),
    ("k" * 64, "v", True), ("k" * 65, "v", False), ("é" * 32, "v", True), ("é" * 33, "v", False), ("", "v", False)])
def test_limits_of_metadata(api, regression_dataset, key, value, fits):
    spec = {"model": "limits", "dataset": regression_dataset, "metadata": {key: value}}
    answer = api.request("POST", "/v1/jobs", 200 if fits else 422, params={"validate_only": "true"}, json=spec)
    assert fits or answer.json()["errors"][0]["pointer"] == f"#/metadata/{key}"


def test_defaults_are_what_the_server_fills_in(api, regression_dataset):
    job = api.create("defaults", regression_dataset)
    api.cancel(job["id"], expect=None)
    compared = []

    def compare(schema, value, path):
        schema = contract.resolve(schema)
        if "default" in schema:
            assert value == schema["default"], path
            compared.append(path)
        for key, part in schema.get("properties", {}).items():
            if isinstance(value, dict) and key in value:
                compare(part, value[key], f"{path}/{key}")

    compare(contract.component("JobSpec"), job["spec"], "#")
    assert {"#/task", "#/standardize/features", "#/stop/tolerance", "#/precision", "#/kernel_cache_bytes", "#/device",
            "#/regularization", "#/seed", "#/max_attempts"} <= set(compared)


def test_every_operation_answers(api, name, big_job):
    """One walk through the whole interface: every documented operation succeeds at least once."""
    before = set(contract.exercised)
    contract.exercised.clear()
    X, y = data.regression(60)
    dataset = api.upload_npz(X, y)
    api.get("/v1/datasets")
    api.get(f"/v1/datasets/{dataset}")
    api.get(f"/v1/datasets/{dataset}/preview", params={"rows": 3})
    body = data.npz(X, y)
    api.request("PUT", f"/v1/datasets/sha256:{hashlib.sha256(body).hexdigest()}", 200, data=body,
                headers={"Content-Type": "application/x-npz"})
    job = api.train(name, dataset)
    endless = big_job(name)
    api.post(f"/v1/jobs/{endless['id']}/pause")
    api.wait(endless["id"], ("paused",))
    api.post(f"/v1/jobs/{endless['id']}/resume")
    api.cancel(endless["id"])
    api.wait(endless["id"])
    api.get("/v1/jobs")
    api.events(job["id"])
    api.get(f"/v1/jobs/{job['id']}/test_predictions")
    with sse.listen(api.session, api.url(f"/v1/jobs/{job['id']}/events")) as stream:
        assert stream.events()
    api.get("/v1/models")
    api.get(f"/v1/models/{name}/limits")
    api.request("PUT", f"/v1/models/{name}/limits", 200, json={"queue": 100})
    api.get(f"/v1/models/{name}")
    version = f"/v1/models/{name}/versions/1"
    api.get(version)
    api.post(version + "/load")
    api.predict(name, X)
    api.predict(name, X, version=1)
    api.post(f"/v1/models/{name}:predict", json={"instances": X.tolist()})
    api.train("default", dataset)
    api.post("/invocations", json={"instances": X.tolist()})
    rows = {"inputs": [{"name": "X", "shape": list(X.shape), "datatype": "FP64", "data": X.tolist()}]}
    for model in (f"/v2/models/{name}", f"/v2/models/{name}/versions/1"):
        api.post(model + "/infer", json=rows)
        api.get("/v2/models/stats")
        for path in ("", "/ready", "/config", "/stats"):
            api.get(model + path)
    for path in ("index", f"models/{name}/load", f"models/{name}/unload"):
        api.post(f"/v2/repository/{path}")
    alias = f"/v1/models/{name}/aliases/prod"
    api.request("PUT", alias, 201, json={"version": 1})
    api.train(name, dataset)
    api.request("PUT", alias, 200, json={"version": 2})
    api.post(alias + "/rollback")
    api.get(alias)
    api.get(f"/v1/models/{name}/aliases")
    api.post(alias + "/predict", json={"instances": X.tolist()})
    api.delete(alias)
    exported = api.get(version + "/export").content
    api.post(f"/v1/models/{name}/import", 201, data=exported,
             headers={"Content-Type": "application/vnd.safetensors"})
    api.post(version + "/unload")
    api.delete(version)
    api.delete(f"/v1/jobs/{job['id']}")
    api.delete(f"/v1/datasets/{dataset}")
    for path in ("/v1/solvers", "/v1/kernels", "/v1/preconditioners", "/v1/center_selectors", "/v1/workers",
                 "/v1/devices", "/v2", "/v2/health/live", "/v2/health/ready", "/metrics", "/health", "/ping", "/openapi.yaml", "/",
                 "/ui/main.js", "/docs", "/favicon.ico"):
        api.get(path)
    answered = {(method, path) for method, path, status in contract.exercised if status < 300}
    contract.exercised.update(before)
    assert answered == set(contract.operations())


@pytest.mark.parametrize("path", sorted(contract.DOCUMENT["paths"]))
def test_other_methods_are_refused(api, path):
    """405 with Allow for what the contract does not offer; HEAD wherever GET is."""
    real = re.sub(r"\{\w+\}", "1", path)
    offered = {m for m, template in contract.operations() if template == path}
    for method in ("GET", "PUT", "POST", "DELETE", "PATCH"):
        if method in offered:
            continue
        answer = api.request(method, real, 405)
        allowed = {m.strip() for m in answer.headers["Allow"].split(",")}
        assert allowed - {"HEAD", "OPTIONS"} == offered
    if "GET" in offered:
        head, get = api.request("HEAD", real), api.request("GET", real)
        assert head.status_code == get.status_code and head.content == b""


def test_unknown_paths(api):
    for path in ("/v1", "/v1/", "/v1/job", "/v1/jobs/", "/v3/health", "/v1/models/a/b", "//"):
        assert api.request("GET", path, 404).json()["code"] == "not_found"


def test_request_ids_are_echoed(api):
    for path in ("/health", "/v1/jobs", "/v1/jobs/nothing", "/nowhere"):
        answer = api.request("GET", path, headers={"X-Request-Id": "abc-123"})
        assert answer.headers["X-Request-Id"] == "abc-123"
    ids = {api.get("/health").headers["X-Request-Id"] for _ in range(5)}
    assert len(ids) == 5


# The checker itself: it must notice what it is there to notice.


def answer_of(method, target, status, body, content_type="application/json"):
    headers = {"Content-Type": content_type, "X-Request-Id": "x"}
    contract.check(method, target, status, headers, body)


READY = {"live": True, "ready": True}


def test_the_checker_accepts_what_is_right():
    answer_of("GET", "/health", 200, json.dumps(READY).encode())


@pytest.mark.parametrize("method, target, status, body, content_type", [
    ("GET", "/health", 200, json.dumps({**READY, "more": 1}), "application/json"),
    ("GET", "/health", 200, json.dumps({"live": True}), "application/json"),
    ("GET", "/health", 200, json.dumps({**READY, "ready": "yes"}), "application/json"),
    ("GET", "/health", 200, json.dumps(READY), "text/plain"),
    ("GET", "/health", 202, json.dumps(READY), "application/json"),
    ("GET", "/health", 200, '{"live": true, "ready": NaN}', "application/json"),
    ("GET", "/health", 200, '{"live": true, "live": true, "ready": true}', "application/json"),
    ("GET", "/v9/health", 200, json.dumps(READY), "application/json"),
    ("PUT", "/health", 200, json.dumps(READY), "application/json"),
    ("GET", "/v1/jobs/job_x", 404, json.dumps({"error": "x"}), "application/problem+json"),
    ("GET", "/v1/jobs/job_x", 404, json.dumps({"error": "x"}), "application/json"),
    ("DELETE", "/v1/jobs/job_x", 204, "{}", "application/json"),
    ("GET", "/v1/jobs/job_x", 500, "{}", "application/problem+json"),
])
def test_the_checker_notices_what_is_wrong(method, target, status, body, content_type):
    with pytest.raises(contract.ContractError):
        answer_of(method, target, status, body.encode(), content_type)


def test_the_checker_knows_a_stamp():
    assert contract.is_stamp("2024-02-29T12:00:00.000Z")
    for wrong in ("2024-02-29T12:00:00Z", "2024-02-29 12:00:00.000Z", "2024-02-29T12:00:00.000+00:00"):
        assert not contract.is_stamp(wrong)


def numbers_in(schema, path=""):
    """(path, schema) of everything that is a number alone."""
    if isinstance(schema, dict):
        kind = schema.get("type")
        if {"integer", "number"} & set(kind if isinstance(kind, list) else [str(kind)]):
            yield path, schema
    parts = schema.items() if isinstance(schema, dict) else enumerate(schema) if isinstance(schema, list) else ()
    for key, part in parts:
        yield from numbers_in(part, f"{path}/{key}")


def test_numbers_are_wide():
    """Generators of languages with narrow numbers make them 32 bits unless a format says more."""
    for path, schema in numbers_in(contract.DOCUMENT):
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if set(kinds) <= {"integer", "number", "null"}:
            assert schema.get("format") == ("int64" if "integer" in kinds else "double"), path


def keys_in(part):
    if isinstance(part, dict):
        yield from part
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from keys_in(inner)


def test_no_text_became_a_key():
    """As behind a comma in a text without quotes."""
    assert [key for key in keys_in(contract.DOCUMENT["components"]) if " " in str(key)] == []
