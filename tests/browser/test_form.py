"""The form for a job against the contract and the parameter tables: it has every field, no other, and what it is
given as a specification it gives back."""

import pytest

import contract
import data

LOAD = """
    const {get} = await import("/ui/api.js");
    const {jobForm} = await import("/ui/view_new.js");
    const catalog = {};
    for (const kind of ["solvers", "kernels", "preconditioners", "center_selectors"]) catalog[kind] = (await get(`/v1/${kind}`)).data;
    const form = jobForm(catalog, () => {});
"""
METHODS = {"#/kernel": "kernels", "#/solver": "solvers", "#/solver/preconditioner": "preconditioners", "#/centers": "center_selectors"}


def expected(schema, pointer, found):
    """Pointers of all that a specification may have but for the parameters of methods, which are in no schema."""
    schema = contract.resolve(schema)
    for branch in schema.get("oneOf", []):
        expected(branch, pointer, found)
    for key, inner in schema.get("properties", {}).items():
        found.add(f"{pointer}/{key}")
        expected(inner, f"{pointer}/{key}", found)
    return found


def covered(pointer, fields):
    """A field is there for it, for something within it, or one that takes it as a whole (warm_start, promote/if)."""
    return pointer in fields or any(f.startswith(pointer + "/") or pointer.startswith(f + "/") for f in fields)


@pytest.fixture(scope="module")
def parameters(api):
    """What each method takes, by the tables."""
    found = set()
    for pointer, kind in METHODS.items():
        for method in api.get(f"/v1/{kind}").json()["data"]:
            found |= {f"{pointer}/{p['key']}" for p in method["parameters"]}
    return found


@pytest.fixture
def fields(page):
    """Pointers of every field that the form has for any choice of methods."""
    page.open()
    return set(page.module(LOAD + """
        const seen = new Set();
        const look = () => form.fields().forEach((one) => seen.add(one.pointer));
        for (const kernel of ["auto", ...catalog.kernels.map((m) => m.name)]) { form.write({kernel}); look(); }
        for (const {name} of catalog.solvers) { form.write({solver: name}); look(); }
        const inner = catalog.solvers.find((m) => m.preconditioner).name;
        for (const {name} of catalog.preconditioners) { form.write({solver: {name: inner, preconditioner: name}}); look(); }
        for (const {name} of catalog.center_selectors) { form.write({centers: name}); look(); }
        return [...seen];"""))


def test_the_form_has_every_field_of_the_contract(fields, parameters):
    wanted = expected(contract.component("JobSpec"), "#", set()) | parameters
    assert len(wanted) > 60 and {"#/promote/alias", "#/promote/if/smape/lt", "#/webhook/url"} <= wanted
    assert {p for p in wanted if not covered(p, fields)} == set()


def test_the_form_has_no_field_that_the_contract_has_not(fields, parameters):
    wanted = expected(contract.component("JobSpec"), "#", set()) | parameters
    assert fields - wanted == set()


SPECS = [
    {"model": "m", "dataset": "ds_00000000000000000000000000"},
    {"model": "m", "dataset": "ds_00000000000000000000000000", "target": "a", "features": ["b", "c"], "task": "classification",
     "test": {"fraction": 0.5}, "standardize": {"features": False, "target": False},
     "kernel": {"name": "gaussian", "bandwidth": 2.5}, "regularization": "auto",
     "solver": {"name": "pcg", "preconditioner": {"name": "rpcholesky", "rank": 77}},
     "stop": {"tolerance": 1e-3, "max_iterations": 9, "time_budget_s": 1.5},
     "search": {"regularization": [1e-8, 1e-4], "metric": "mae", "folds": 5, "max_rows": 500},
     "promote": {"alias": "prod", "if": {"smape": {"lt": 0.02, "le": "current"}, "r2": {"gt": -0.5, "ge": "current"}}},
     "webhook": {"url": "https://hooks.example/krrd", "events": ["failed"]},
     "precision": "mixed", "device": "cpu", "kernel_cache_bytes": 0, "seed": 7, "priority": -3, "max_attempts": 1,
     "warm_start": {"model": "old", "version": 3}, "metadata": {"team": "chem", "run": "a=b"}},
    {"model": "m", "dataset": "ds_00000000000000000000000000", "target": ["a", "b"], "test": {"mask": "held"}, "warm_start": "old", "promote": {"alias": "x"},
     "kernel": {"name": "polynomial", "degree": 2, "coef0": 0.5}, "centers": {"method": "file", "dataset": "ds_00000000000000000000000001", "count": 10}},
    {"model": "m", "dataset": "ds_00000000000000000000000000", "kernel": {"name": "matern52", "bandwidth": [1, 2.5]}, "centers": {"method": "kmeans", "count": 50}},
]


@pytest.mark.parametrize("number", range(len(SPECS)))
def test_a_specification_comes_back_as_it_was(page, number):
    spec = SPECS[number]
    contract.check_schema(contract.component("JobSpec"), spec, "the specification")
    page.open()
    back = page.module(LOAD + """
        const spec = args[0];
        form.data.by.dataset.options(["", "ds_00000000000000000000000000"]);
        form.test.by.dataset.options(["", "ds_00000000000000000000000000"]);
        form.data.by.target.options(["", JSON.stringify(spec.target ?? null)]);
        form.write(spec);
        if (spec.target) form.data.by.target.write(JSON.stringify(spec.target));
        return {spec: form.spec(), errors: form.fields().map((one) => one.read().error).filter(Boolean)};""", spec)
    assert back == {"spec": spec, "errors": []}


def test_conditions_are_written_as_people_do(page):
    page.open()
    read = page.module("""const m = await import("/ui/conditions.js"); return args[0].map((text) => m.readConditions(text));""", [
        "smape<0.02", " r2 >= current \n\nmae ≤ 1e-3", "smape < 1, rmse > 2", "smape = 2", "size < 3", "smape < much",
        "smape < 1\nsmape < 2", ""])
    assert [one.get("value") for one in read] == [
        {"smape": {"lt": 0.02}}, {"r2": {"ge": "current"}, "mae": {"le": 0.001}}, {"smape": {"lt": 1}, "rmse": {"gt": 2}},
        None, None, None, None, {}]
    assert all(("error" in one) == ("value" not in one) for one in read)


def test_a_gate_from_the_form_holds(page, api, name):
    """From the page to the end of the job: promoted where it is good enough, and what is refused stands at its field."""
    X, y = data.regression(60)
    dataset = api.upload_csv(X, y)
    page.expected.append("422")
    page.open(f"new/data/{dataset}")
    page.put("Model", name)
    page.script("for (const one of document.querySelectorAll('details')) one.open = true")
    page.put("If", "accuracy > 0.9")
    page.put("Alias", "prod")
    page.button("Train").click()
    page.wait(lambda: page.find("[aria-invalid=true]"), "refused field")
    assert page.labelled("If").get_attribute("aria-invalid") == "true"
    assert page.one("[role=alert]").text.count("does not judge a regression") == 1  # once, and where
    page.put("If", "smape < 1.9")
    page.wait(lambda: not page.find(".notice"), "form without the refusal of what was there before")
    page.text('"alias": "prod"', "pre.spec")
    page.screenshot("new-promote")
    page.button("Train").click()
    page.text("succeeded", "h1", timeout=60)
    assert api.get(f"/v1/models/{name}/aliases/prod").json()["version"] == 1
