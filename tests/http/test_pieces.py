"""Questions of much work go to a worker in pieces, so that others need not wait for all of them."""

import os
import signal

import numpy as np
import pytest

import data
import prometheus
from asking import Asker, Stopped, predict, waiting
from raw import Raw

ROWS, COLUMNS = 20_000, 300
PATH = "/v1/models/m/predict"
NPY = {"Content-Type": "application/x-npy", "Accept": "application/json"}


@pytest.fixture
def large(daemons):
    """A daemon whose model "m" has 4,000 centers: 20,000 rows are several pieces before any was timed."""
    api = daemons().api
    X = np.random.default_rng(5).standard_normal((4000, COLUMNS))
    api.train("m", api.upload_npz(X, X[:, 0]), kernel={"name": "gaussian", "bandwidth": 17.0},
              test={"fraction": 0}, precision="float32", regularization=1e-3,
              solver={"name": "pcg", "preconditioner": "none"}, stop={"max_iterations": 1})
    return api


def rows():
    return np.random.default_rng(6).standard_normal((ROWS, COLUMNS))


def ask(api, X, expect=200):
    return api.post(PATH, expect, data=data.npy(X), headers=NPY)


def counts(api):
    """Batches and rows that were computed, ever."""
    found = prometheus.scrape(api)
    return (found.value("krrd_prediction_batch_rows_count"), found.value("krrd_prediction_rows_total"))


def test_rows_are_as_they_would_be_alone(large):
    X = rows()
    batches, computed = counts(large)
    all_at_once = ask(large, X).json()["predictions"]
    assert len(all_at_once) == ROWS
    after = counts(large)
    assert after[0] - batches >= 2 and after[1] - computed == ROWS
    for i in (0, 1, 4095, 4096, 11_111, ROWS - 1):
        assert predict(large, "m", X[i:i + 1]).json()["predictions"][0] == all_at_once[i]


def test_others_go_between_the_pieces(large):
    X = rows()
    with Asker(large) as asker:
        with Stopped(large, asker, "m", X[:1]) as stopped:
            first = asker.ask(ask, X)
            stopped.until_asked(2)
            second = asker.ask(predict, "m", X[:1])
            stopped.until_asked(3)
        (all_of_it, when_all), (one_row, when_one) = first.result(), second.result()
    assert when_one < when_all
    assert one_row.json()["predictions"] == all_of_it.json()["predictions"][:1]


def test_two_that_are_large_take_turns(large):
    X = rows()
    with Asker(large) as asker:
        asked = [asker.ask(ask, X), asker.ask(ask, X[::-1])]
        one, other = (a.result()[0].json()["predictions"] for a in asked)
    assert one == other[::-1]


def test_who_leaves_gets_no_further_pieces(large):
    X = rows()
    with Asker(large) as asker:
        with Stopped(large, asker, "m", X[:1]) as stopped:
            computed = counts(large)[1]
            body = data.npy(X)
            with Raw(large.base) as client:
                client.request("POST", PATH, ["Content-Type: application/x-npy", f"Content-Length: {len(body)}"], body)
                stopped.until_asked(2)  # at the worker, behind the one that is away
                stopped.until(lambda: waiting(large) == 0)
            # Who left is looked for once a second: then the one that is away is left, and who asks for this.
            stopped.until(lambda: prometheus.scrape(large).value("krrd_http_requests_in_flight") == 2)
        predict(large, "m", X[:1])
    assert 2 + 256 <= counts(large)[1] - computed < ROWS


def test_a_deadline_ends_it_between_pieces(large):
    X = rows()
    with Asker(large) as asker:
        with Stopped(large, asker, "m", X[:1]) as stopped:
            computed = counts(large)[1]
            late = asker.ask(lambda api: api.post(PATH, 504, data=data.npy(X), headers={**NPY, "X-Request-Timeout": "1"}))
            stopped.until(late.done)
        late.result()
    predict(large, "m", X[:1])
    assert counts(large)[1] - computed < ROWS


def test_a_model_that_is_deleted_answers_what_was_asked(large):
    X = rows()
    with Asker(large) as asker:
        with Stopped(large, asker, "m", X[:1]) as stopped:
            asked = asker.ask(ask, X)
            stopped.until_asked(2)
            large.delete("/v1/models/m/versions/1")
        assert len(asked.result()[0].json()["predictions"]) == ROWS
    ask(large, X[:1], 404)


def test_a_worker_is_lost_between_pieces(large):
    X = rows()
    with Asker(large) as asker:
        with Stopped(large, asker, "m", X[:1]) as stopped:
            asked = asker.ask(ask, X)
            stopped.until_asked(2)
        os.kill(stopped.pid, signal.SIGKILL)
        found = asked.result()[0].json()["predictions"]
    assert len(found) == ROWS and found[-1:] == predict(large, "m", X[-1:]).json()["predictions"]


def test_a_row_of_a_later_piece_is_named(large):
    X = rows()
    X[ROWS - 2, 7] = 1e300
    problem = ask(large, X, 422).json()
    assert problem["detail"].startswith(f"Row {ROWS - 2} (counted from 0) has features that are too large")
    predict(large, "m", X[:1])
