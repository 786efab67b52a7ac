"""Plans learn from jobs that have finished: their seconds are corrected, and say so."""

import math
import sqlite3

import pytest

import data

# Ends at its iteration limit, after some tenths of a second.
SPEC = {"kernel": {"name": "gaussian", "bandwidth": 3.0}, "solver": {"name": "pcg", "preconditioner": "none"},
        "kernel_cache_bytes": 0, "precision": "float64", "regularization": 1e-13, "test": {"fraction": 0},
        "stop": {"tolerance": 1e-15, "max_iterations": 60}}
LONGER = {**SPEC, "stop": {"tolerance": 1e-15, "max_iterations": 100_000}}
LEAST_S = 0.05  # a phase that took less says nothing
PRIOR = 0.15
PHASES = ("setup", "iteration", "finish")


@pytest.fixture(name="daemon")
def a_daemon(daemons):
    return daemons()


def rows(api):
    return api.upload_npz(*data.regression(3000, d=6, seed=99))


def seconds_of(api, dataset, **spec):
    answer = api.post("/v1/jobs?validate_only=true", 200, json={"model": "m", "dataset": dataset, **spec}).json()
    return answer["plan"]["seconds"]


def factors(seconds):
    said = seconds["experience"]
    return [said[f"{phase}_factor"] for phase in PHASES] if said else [1, 1, 1]


def plain(seconds):
    """As the machine's rates alone have them."""
    return [seconds[phase] / factor for phase, factor in zip(PHASES, factors(seconds))]


def taken(job):
    """Seconds of each phase where it was long enough to say something."""
    result = job["result"]
    used = list(result["phases"].values())
    each = [used[0], used[1] / max(result["iterations"], 1), used[2]]
    return [one if all_ >= LEAST_S else None for one, all_ in zip(each, used)]


def taught(planned, used):
    """The factors that one job makes."""
    most = math.log(8)
    logs = [math.log(u / p) if u is not None else 0 for p, u in zip(planned, used)]
    return [math.exp(min(max(one, -most), most) / (1 + PRIOR)) for one in logs]


def records(daemon):
    with sqlite3.connect(daemon.data_dir / "krrd.db") as db:
        count = db.execute("SELECT count(*) FROM plan_experience").fetchone()[0]
    db.close()
    return count


def test_a_job_teaches_the_plans_of_others_like_it(daemon):
    api = daemon.api
    dataset = rows(api)
    before = seconds_of(api, dataset, **SPEC)
    assert before["experience"] is None
    job = api.train("m", dataset, **SPEC)
    assert job["plan"]["seconds"]["experience"] is None
    used = taken(job)
    assert used[1] is not None, job["result"]["phases"]

    after = seconds_of(api, dataset, **SPEC)
    assert after["experience"]["jobs"] == 1
    assert factors(after) == pytest.approx(taught(plain(job["plan"]["seconds"]), used), rel=1e-9)
    assert plain(after) == pytest.approx(plain(before), rel=1e-9)
    assert after["total"] == pytest.approx(after["setup"] + 60 * after["iteration"] + after["finish"])

    # Half the rows are nearly the same job, another solver is not, and another model's name is nothing.
    few = api.upload_npz(*data.regression(1500, d=6))
    assert 0 < math.log(factors(seconds_of(api, few, **SPEC))[1]) / math.log(factors(after)[1]) < 1
    other = seconds_of(api, dataset, **{**SPEC, "solver": {"name": "askotch2"}})
    assert abs(math.log(factors(other)[1])) <= 0.2 * abs(math.log(factors(after)[1]))

    # A job keeps the plan that it was given, and teaches by what its formulas said.
    second = api.train("other", dataset, **SPEC)
    assert factors(second["plan"]["seconds"]) == pytest.approx(factors(after), rel=1e-9)
    learned = seconds_of(api, dataset, **SPEC)
    assert learned["experience"]["jobs"] == 2

    daemon.stop()
    assert records(daemon) == 2
    daemon.start()
    again = seconds_of(daemon.api, dataset, **SPEC)  # the machine is measured anew, what was learned is not
    assert again["experience"]["jobs"] == 2
    assert factors(again) == pytest.approx(factors(learned), rel=1e-9)


def test_what_did_not_run_through_teaches_nothing(daemon):
    api = daemon.api
    dataset = rows(api)
    cancelled = api.create("m", dataset, **LONGER)
    api.wait(cancelled["id"], lambda job: (job["progress"] or {}).get("iteration", 0) > 0)
    api.cancel(cancelled["id"])
    assert api.wait(cancelled["id"])["status"] == "cancelled"
    api.train("m", dataset, "failed", kernel="linear", regularization=0, solver="cholesky", test={"fraction": 0})
    resumed = api.create("m", dataset, **{**SPEC, "stop": {"tolerance": 1e-15, "max_iterations": 200}})
    api.wait(resumed["id"], lambda job: (job["progress"] or {}).get("iteration", 0) > 0)
    api.post(f"/v1/jobs/{resumed['id']}/pause", 200)
    api.wait(resumed["id"], ("paused",))
    api.post(f"/v1/jobs/{resumed['id']}/resume", 200)
    resumed = api.wait(resumed["id"])
    assert resumed["status"] == "succeeded" and resumed["result"]["phases"] is None
    assert seconds_of(api, dataset, **SPEC)["experience"] is None
    daemon.stop()
    assert records(daemon) == 0


def test_a_time_budget_says_something_of_iterations_alone(daemon):
    api = daemon.api
    dataset = rows(api)
    job = api.train("m", dataset, **{**LONGER, "stop": {"tolerance": 1e-15, "max_iterations": 10**6, "time_budget_s": 1}})
    assert job["reason"] == "time_budget"
    after = seconds_of(api, dataset, **LONGER)
    used = taken(job)
    assert factors(after) == pytest.approx(taught(plain(job["plan"]["seconds"]), [None, used[1], None]), rel=1e-9)
    assert seconds_of(api, dataset, **{**LONGER, "stop": {"time_budget_s": 2}})["total"] <= 2 + after["finish"] + 1e-9


def test_records_that_are_damaged_are_left_out(daemon):
    api = daemon.api
    dataset = rows(api)
    api.train("m", dataset, **SPEC)
    daemon.stop()
    with sqlite3.connect(daemon.data_dir / "krrd.db") as db:
        db.executemany("INSERT INTO plan_experience (record) VALUES (?)", [("{{",), ("[]",), ('{"solver":"pcg"}',)])
    db.close()
    daemon.start()
    assert seconds_of(daemon.api, dataset, **SPEC)["experience"]["jobs"] == 1
    daemon.api.train("m", dataset, **SPEC)
    daemon.stop()
    assert records(daemon) == 5
