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
    return daemons(worker_threads=1)  # with all that a large machine has, the phases are too short to tell anything


def rows(api):
    return api.upload_npz(*data.regression(3000, d=6, seed=99))


def plan_of(api, dataset, **spec):
    return api.post("/v1/jobs?validate_only=true", 200, json={"model": "m", "dataset": dataset, **spec}).json()["plan"]


def factors(plan):
    said = plan["seconds"]["experience"]
    return [said[f"{phase}_factor"] for phase in PHASES] if said else [1, 1, 1]


def plain(plan):
    """Seconds as the machine's rates alone have them."""
    return [plan["seconds"][phase] / factor for phase, factor in zip(PHASES, factors(plan))]


def taken(job):
    """Seconds of each phase where it was long enough to say something."""
    result = job["result"]
    used = [result["phases"][key] for key in ("setup_s", "iterations_s", "finish_s")]
    each = [used[0], used[1] / max(result["iterations"], 1), used[2]]
    return [one if all_ >= LEAST_S else None for one, all_ in zip(each, used)]


def speed(plan):
    """The mean of the rates that it was made with but those of near rows, in powers of two."""
    rates = [rate for key, rate in plan["rates"].items() if not key.startswith("near_")]
    return sum(math.log2(rate) for rate in rates) / len(rates)


def expected(plan, jobs, phases):
    """The logarithms that such jobs, all of the plan's own kind, the newest first, come to, and what they rest on."""
    sums, supports = [0, 0, 0], [0, 0, 0]
    all_sums, all_weights = [0, 0, 0], [5] * 3
    for age, job in enumerate(jobs):
        faster = speed(plan) - speed(job["plan"])
        weight, late = (math.exp(-faster**2 / 2 - math.log(2) * age / life) for life in (128, 16))
        for phase in phases:
            one = lesson(job, phase, faster)
            if one is not None:
                sums[phase] += weight * one
                supports[phase] += weight
                all_sums[phase] += late * one
                all_weights[phase] += late
    machine = [total / weight for total, weight in zip(all_sums, all_weights)]
    return [(total + PRIOR * base) / (weight + PRIOR)
            for total, weight, base in zip(sums, supports, machine)], supports


def lesson(job, phase, faster=0):
    """The logarithm of what the phase took of what was planned; None: it was too short to tell."""
    used, most = taken(job)[phase], math.log(8)
    if used is None:
        return None
    return min(max(math.log(used / plain(job["plan"])[phase]) + math.log(2) * faster, -most), most)


def surprise(job, before, phases):
    """Its weight and the logarithm of what the job took of what those before it let expect."""
    logs, supports = expected(job["plan"], before, phases)
    told = [(supports[p] / (1 + supports[p]), lesson(job, p) - logs[p]) for p in phases if lesson(job, p) is not None]
    weight = sum(w for w, _ in told)
    return (weight / len(told), sum(w * s for w, s in told) / weight) if weight else (0, 0)


def taught(plan, *jobs, phases=(0, 1, 2)):
    """The factors that they come to."""
    logs, _ = expected(plan, jobs, phases)
    total, weight = 0, 2
    for age, job in enumerate(jobs):
        own, log = surprise(job, jobs[age + 1:], phases)
        total, weight = total + 2 ** (-age / 8) * own * log, weight + 2 ** (-age / 8) * own
    most = math.log(8)
    return pytest.approx([math.exp(min(max(log + total / weight, -most), most)) for log in logs], rel=1e-9)


def records(daemon):
    with sqlite3.connect(daemon.data_dir / "krrd.db") as db:
        count = db.execute("SELECT count(*) FROM plan_experience").fetchone()[0]
    db.close()
    return count


def test_a_job_teaches_the_plans_of_others_like_it(daemon):
    api = daemon.api
    dataset = rows(api)
    first = api.train("m", dataset, **SPEC)
    assert first["plan"]["seconds"]["experience"] is None
    assert taken(first)[1] is not None, first["result"]["phases"]

    plan = plan_of(api, dataset, **SPEC)
    seconds = plan["seconds"]
    assert seconds["experience"]["jobs"] == 1
    assert factors(plan) == taught(plan, first)
    assert seconds["total"] == pytest.approx(seconds["setup"] + 60 * seconds["iteration"] + seconds["finish"])

    # Half the rows are nearly the same job, another solver is not.
    few = plan_of(api, api.upload_npz(*data.regression(1500, d=6)), **SPEC)
    assert 0 < math.log(factors(few)[1]) / math.log(factors(plan)[1]) < 1
    other = plan_of(api, dataset, **{**SPEC, "solver": {"name": "askotch2"}})
    assert abs(math.log(factors(other)[1])) <= 0.25 * abs(math.log(factors(plan)[1]))

    # A job keeps the plan that it was given, and teaches by what its formulas said.
    second = api.train("other", dataset, **SPEC)
    assert factors(second["plan"]) == taught(second["plan"], first)
    plan = plan_of(api, dataset, **SPEC)
    assert plan["seconds"]["experience"]["jobs"] == 2
    assert factors(plan) == taught(plan, second, first)

    daemon.stop()
    assert records(daemon) == 2
    daemon.start()
    again = plan_of(daemon.api, dataset, **SPEC)  # the machine is measured anew, what was learned is not
    assert again["seconds"]["experience"]["jobs"] == 2
    assert factors(again) == taught(again, second, first)


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
    assert plan_of(api, dataset, **SPEC)["seconds"]["experience"] is None
    daemon.stop()
    assert records(daemon) == 0


def test_a_time_budget_says_something_of_iterations_alone(daemon):
    api = daemon.api
    dataset = rows(api)
    job = api.train("m", dataset, **{**LONGER, "stop": {"tolerance": 1e-15, "max_iterations": 10**6, "time_budget_s": 1}})
    assert job["reason"] == "time_budget"
    plan = plan_of(api, dataset, **LONGER)
    assert factors(plan) == taught(plan, job, phases=[1])
    short = plan_of(api, dataset, **{**LONGER, "stop": {"max_iterations": 10**6, "time_budget_s": 2}})["seconds"]
    assert short["total"] == pytest.approx(2 + short["finish"])


def test_records_that_are_damaged_are_left_out(daemon):
    api = daemon.api
    dataset = rows(api)
    api.train("m", dataset, **SPEC)
    daemon.stop()
    with sqlite3.connect(daemon.data_dir / "krrd.db") as db:
        db.executemany("INSERT INTO plan_experience (record) VALUES (?)", [("{{",), ("[]",), ('{"solver":"pcg"}',)])
    db.close()
    daemon.start()
    assert plan_of(daemon.api, dataset, **SPEC)["seconds"]["experience"]["jobs"] == 1
    daemon.api.train("m", dataset, **SPEC)
    daemon.stop()
    assert records(daemon) == 5
