"""The serving core: batches, queues, deadlines, and the memory that loaded models share."""

import os
import pathlib
import resource
import signal
import socket
import threading
import time

import numpy as np
import pytest

import api as interface
import data
import prometheus
import wait
from asking import Asker, Stopped, predict, questions, waiting

KERNELS = {"gaussian": {"bandwidth": 2.0}, "laplacian": {"bandwidth": 3.0},
           "laplacian_l1": {"bandwidth": 6.0}, "matern12": {"bandwidth": 3.0},
           "matern32": {"bandwidth": 3.0}, "matern52": {"bandwidth": 3.0},
           "linear": {}, "polynomial": {}, "sigmoid": {}}


def infer(api, model, rows, expect=200, **parameters):
    body = {"inputs": [{"name": "X", "datatype": "FP64", "shape": [len(rows), len(rows[0])],
                        "data": np.asarray(rows).tolist()}], "parameters": parameters}
    return api.post(f"/v2/models/{model}/infer", expect, json=body)


def stats(api, model):
    return api.get(f"/v2/models/{model}/stats").json()["model_stats"][0]


@pytest.fixture
def small(daemons):
    """small(**options): a daemon with the model "m"."""

    def start(**options):
        daemon = daemons(**options)
        X, y = data.regression(60, seed=50)
        daemon.api.train("m", daemon.api.upload_npz(X, y), kernel={"name": "gaussian", "bandwidth": 2.0},
                         test={"fraction": 0})
        return daemon.api

    return start


# The same bits.


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_bits_of_a_row_do_not_depend_on_its_batch(api, name, regression_dataset, kernel, precision):
    api.train(name, regression_dataset, kernel={"name": kernel, **KERNELS[kernel]},
              precision=precision, test={"fraction": 0}, regularization=1e-3,
              solver={"name": "pcg", "preconditioner": "none"}, stop={"max_iterations": 20})
    Q = questions(4096)
    batch = api.predict(name, Q).json()["predictions"]
    some = [0, 1, 15, 16, 63, 64, 1000, 4095]
    assert [api.predict(name, Q[i:i + 1]).json()["predictions"][0] for i in some] == \
        [batch[i] for i in some]
    with Asker(api) as asker:  # neighbours from other requests
        asked = [asker.ask(predict, name, Q[i:i + 1 + i % 7]) for i in range(0, 1280, 10)]
        for i, one in zip(range(0, 1280, 10), asked):
            assert one.result()[0].json()["predictions"] == batch[i:i + 1 + i % 7]


def test_questions_that_wait_go_together(small):
    api = small()
    Q = questions(40)
    alone = [api.predict("m", Q[i:i + 1]).json()["predictions"][0] for i in range(40)]
    with Asker(api) as asker:
        with Stopped(api, asker, "m") as stopped:
            before = stats(api, "m")
            asked = [asker.ask(predict, "m", Q[i:i + 1]) for i in range(40)]
            stopped.until_asked(41)
        assert [one.result()[0].json()["predictions"][0] for one in asked] == alone
    after = stats(api, "m")
    assert after["inference_count"] - before["inference_count"] == 41
    assert after["execution_count"] - before["execution_count"] <= 2


# Queues, deadlines, priorities.


def test_a_deadline_passes(small):
    api = small()
    with Asker(api) as asker:
        with Stopped(api, asker, "m") as stopped:
            before = stats(api, "m")
            begun = time.monotonic()
            late = asker.ask(infer, "m", questions(1), expect=None, timeout=300_000)
            patient = asker.ask(infer, "m", questions(1), timeout=30_000_000)
            answer, at = late.result()
            assert answer.status_code == 504 and answer.json()["code"] == "deadline_exceeded"
            assert 0.25 < at - begun < 25
        stopped.away.result()
        patient.result()
    after = stats(api, "m")
    assert after["inference_count"] - before["inference_count"] == 2  # the late one was not computed
    assert after["inference_stats"]["fail"]["count"] == 1


def test_the_more_urgent_goes_first(small):
    api = small(serve_batch_rows=1)
    with Asker(api) as asker:
        with Stopped(api, asker, "m") as stopped:
            usual = [asker.ask(infer, "m", questions(2000)) for _ in range(40)]
            stopped.until_asked(41)
            urgent = asker.ask(infer, "m", questions(1), priority=1)
            stopped.until_asked(42)
        at = urgent.result()[1]
        # In the order of arrival it would be the last; threads here are told with some delay.
        assert sum(one.result()[1] < at for one in usual) <= 20


@pytest.mark.parametrize(("limits", "status"), [({"serve_queue": 4}, 503), ({"serve_model_queue": 3}, 429),
                                              ({"serve_model_queue": 3, "serve_queue": 4}, 429)])
def test_a_full_queue(small, limits, status):
    """429 where it is the model's own queue (also when both are full), 503 where it is the one of all models."""
    api = small(**limits)
    with Asker(api) as asker:
        with Stopped(api, asker, "m") as stopped:
            taken = [asker.ask(predict, "m", questions(1)) for _ in range(3)]
            stopped.until_asked(4)
            refused = api.predict("m", questions(1), expect=status)
            assert refused.json()["code"] == "busy" and refused.json()["status"] == status
            assert f"(--{list(limits)[0].replace('_', '-')})" in refused.json()["detail"]
            assert 1 <= int(refused.headers["Retry-After"]) <= 60
        for one in taken:
            one.result()
    api.predict("m", questions(1))


def test_the_newest_version_is_deleted_meanwhile(small):
    """Who asked for the model is answered, by what was the newest then or by what is now."""
    api = small()
    X, y = data.regression(60, seed=50)
    api.train("m", api.upload_npz(X[:, :2], y), test={"fraction": 0})
    api.train("m", api.upload_npz(X, y), kernel="laplacian", test={"fraction": 0})
    large = questions(3000)
    with Asker(api) as asker:
        with Stopped(api, asker, "m") as stopped:
            loaded = [asker.ask(predict, "m", rows) for rows in (large[:3], large)]
            stopped.until_asked(3)
            api.delete("/v1/models/m/versions/3")
        assert [one.result()[0].json()["version"] for one in [stopped.away, *loaded]] == [3] * 3
    # Version 2 has other features, and is not loaded before the worker goes on.
    api.delete("/v1/models/m/versions/2")
    api.train("m", api.upload_npz(X, y), kernel="laplacian", test={"fraction": 0})
    expected = api.predict("m", large, version=1).json()["predictions"]
    pid = api.worker_pid("serve", "idle")
    with Asker(api) as asker:
        os.kill(pid, signal.SIGSTOP)
        waits = [asker.ask(predict, "m", large[:3]), asker.ask(predict, "m", large), asker.ask(infer, "m", large[:3])]
        late = asker.ask(lambda own: own.predict("m", large[:3], version=4, expect=404))
        wait.until(lambda: waiting(api) == 4)
        api.delete("/v1/models/m/versions/4")
        assert 'no version 4' in late.result()[0].json()["detail"]
        os.kill(pid, signal.SIGCONT)
        few, many, inferred = (one.result()[0].json() for one in waits)
    assert (few["version"], many["version"], inferred["model_version"]) == (1, 1, "1")
    assert many["predictions"] == expected and few["predictions"] == expected[:3]
    wait.until(lambda: prometheus.scrape(api).value("krrd_models_loaded") == 1)


def test_nobody_is_refused_while_versions_are_deleted(small):
    api = small()
    X, y = data.regression(60, seed=50)
    dataset = api.upload_npz(X, y)
    for _ in range(8):
        api.train("m", dataset, kernel="linear", test={"fraction": 0})
    over = threading.Event()

    def ask(own):
        versions = set()
        while not over.is_set():
            versions.add(own.predict("m", X[:2]).json()["version"])
        return versions

    with Asker(api) as asker:
        asked = [asker.ask(ask) for _ in range(6)]
        for version in range(9, 1, -1):
            time.sleep(0.2)
            api.delete(f"/v1/models/m/versions/{version}")
        time.sleep(0.2)
        over.set()
        assert {version for one in asked for version in one.result()[0]} >= {1, 9}


def test_who_leaves_is_not_computed(small):
    api = small()
    host, port = api.base.removeprefix("http://").split(":")
    body = b'{"instances": [[1, 2, 3, 4]]}'
    with Asker(api) as asker:
        with Stopped(api, asker, "m") as stopped:
            before = stats(api, "m")
            for _ in range(5):
                with socket.create_connection((host, int(port))) as s:
                    s.sendall(b"POST /v1/models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                              + str(len(body)).encode() + b"\r\n\r\n" + body)
                    stopped.until(lambda: waiting(api) >= 1)
            # Clients that left are looked for once a second: then the one that is away is left, and who asks for this.
            stopped.until(lambda: prometheus.scrape(api).value("krrd_http_requests_in_flight") == 2)
        after = stats(api, "m")
        api.predict("m", questions(1))
    assert stats(api, "m")["inference_count"] - before["inference_count"] == 2
    assert after["execution_count"] - before["execution_count"] <= 1


def test_who_asks_beside_a_row_that_is_refused_is_answered(small):
    """A number that is too large once it is scaled is found out by the worker, which has all rows as one matrix."""
    api = small()
    Q = questions(6)
    expected = api.predict("m", Q).json()["predictions"]
    with Asker(api) as asker:
        with Stopped(api, asker, "m") as stopped:
            before = stats(api, "m")["execution_count"]
            fine = [asker.ask(predict, "m", Q[i:i + 1]) for i in range(3)]
            wrong = asker.ask(predict, "m", np.vstack([Q[:2], [[1.7e308] * 4]]), expect=422)
            fine += [asker.ask(predict, "m", Q[i:i + 1]) for i in range(3, 6)]
            stopped.until(lambda: waiting(api) == 7)
        assert [one.result()[0].json()["predictions"][0] for one in fine] == expected
        problem = wrong.result()[0].json()
    assert problem["code"] == "invalid_value" and problem["errors"][0]["pointer"] == "#"
    assert problem["detail"].startswith("Row 2 (counted from 0) has features that are too large")
    assert stats(api, "m")["execution_count"] - before >= 2  # they were one batch first


def test_a_batch_waits_for_others(small):
    api = small(serve_batch_delay_us=2_000_000, serve_batch_rows=2)
    begun = time.monotonic()
    api.predict("m", questions(1))
    assert time.monotonic() - begun >= 1.99
    with Asker(api) as asker:
        begun = time.monotonic()
        ends = [asker.ask(predict, "m", questions(1)).result()[1] for _ in range(1)]
        pair = [asker.ask(predict, "m", questions(1)) for _ in range(2)]
        at = max(one.result()[1] for one in pair)
        assert ends[0] - begun >= 1.99
        assert at - ends[0] < 1.99  # the second made the batch full


# Looking for the next message instead of sleeping.


def processor_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def arguments(pid):
    return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")


@pytest.mark.parametrize("busy_poll_us", [0, 1000])
def test_who_looks_answers_as_who_sleeps(daemons, busy_poll_us):
    """And looks for a moment alone: nobody spends the second in which no answer comes."""
    daemon = daemons(busy_poll_us=busy_poll_us)
    api = daemon.api
    X, y = data.regression(60, seed=50)
    api.train("m", api.upload_npz(X, y), kernel={"name": "gaussian", "bandwidth": 2.0},
              test={"fraction": 0})
    words = arguments(api.worker_pid("serve"))
    assert words[words.index("--busy-poll-us") + 1] == str(busy_poll_us)
    Q = questions(200)
    together = api.predict("m", Q).json()["predictions"]
    assert [api.predict("m", Q[i:i + 1]).json()["predictions"][0] for i in range(200)] == together
    with Asker(api) as asker, Stopped(api, asker, "m"):
        before = processor_s(daemon.process.pid)
        answer = infer(api, "m", Q[:1], expect=None, timeout=1_000_000)
        assert answer.status_code == 504
        assert processor_s(daemon.process.pid) - before < 0.5


# Memory.


@pytest.fixture
def three(daemons):
    """Models a, b and c of about 160 kB, and a budget for two."""
    daemon = daemons(serve_memory_bytes=420_000)
    X, y = data.regression(2000, d=8, seed=52)
    dataset = daemon.api.upload_npz(X, y)
    for model in "abc":
        daemon.api.train(model, dataset, kernel={"name": "gaussian", "bandwidth": 4.0},
                         precision="float64", test={"fraction": 0},
                         solver={"name": "pcg", "preconditioner": "none"},
                         stop={"max_iterations": 2, "tolerance": 1e-12})
    return daemon


def states(api):
    return {m: api.get(f"/v1/models/{m}/versions/1").json()["state"] for m in "abc"}


def load(api, model, expect=200, **body):
    path = f"/v1/models/{model}/versions/1/load"
    return api.post(path, expect, **({"json": body} if body else {})).json()


def test_the_longest_unused_goes(three):
    api = three.api
    Q = data.regression(1, d=8)[0]
    found = load(api, "a")
    assert found["state"] == "loaded" and not found["pinned"]
    assert 144_000 < found["memory_bytes"] < 200_000
    load(api, "b")
    api.predict("a", Q)
    load(api, "c")
    assert states(api) == {"a": "loaded", "b": "unloaded", "c": "loaded"}
    api.predict("b", Q)  # comes back by itself
    assert states(api) == {"a": "unloaded", "b": "loaded", "c": "loaded"}


def test_pinned_models_stay(three):
    api = three.api
    assert load(api, "a", pin=True)["pinned"]
    load(api, "b")
    load(api, "c")
    assert states(api) == {"a": "loaded", "b": "unloaded", "c": "loaded"}
    assert load(api, "c", pin=True)["pinned"]
    refused = load(api, "b", expect=409)
    assert "--serve-memory-bytes" in refused["detail"]
    assert api.predict("b", data.regression(1, d=8)[0], expect=409).json()["code"] == "conflict"
    assert not load(api, "c", pin=False)["pinned"]
    load(api, "b")
    assert states(api) == {"a": "loaded", "b": "loaded", "c": "unloaded"}
    pid = api.worker_pid("serve")
    os.kill(pid, signal.SIGKILL)
    wait.until(lambda: api.worker_pid("serve") != pid and states(api)["a"] == "loaded")
    three.stop()
    three.start()
    api = three.api
    wait.until(lambda: states(api)["a"] == "loaded")
    assert states(api)["b"] == "unloaded"
    gone = api.post("/v1/models/a/versions/1/unload").json()
    assert gone["state"] == "unloaded" and not gone["pinned"] and gone["memory_bytes"] is None
    three.stop()
    three.start()
    three.api.predict("b", data.regression(1, d=8)[0])  # comes after what is loaded at the start
    assert states(three.api)["a"] == "unloaded"


def test_what_the_repository_unloads_stays_so(three):
    api = three.api
    assert load(api, "a", pin=True)["pinned"]
    api.post("/v2/repository/models/a/unload")
    assert states(api)["a"] == "unloaded"
    three.stop()
    three.start()
    three.api.predict("b", data.regression(1, d=8)[0])  # comes after what is loaded at the start
    gone = three.api.get("/v1/models/a/versions/1").json()
    assert gone["state"] == "unloaded" and not gone["pinned"]


def test_a_model_larger_than_the_budget(daemons):
    daemon = daemons(serve_memory_bytes=100_000)
    X, y = data.regression(2000, d=8, seed=52)
    daemon.api.train("a", daemon.api.upload_npz(X, y), test={"fraction": 0}, precision="float64",
                     kernel={"name": "gaussian", "bandwidth": 4.0},
                     solver={"name": "pcg", "preconditioner": "none"},
                     stop={"max_iterations": 2, "tolerance": 1e-12})
    refused = load(daemon.api, "a", expect=409)
    assert refused["code"] == "conflict" and "100000" in refused["detail"]


@pytest.mark.parametrize("body, pointer", [({"pin": 1}, "#/pin"), ({"stay": True}, "#/stay"), ([], "#")])
def test_bad_loads(api, name, regression_dataset, body, pointer):
    api.train(name, regression_dataset, test={"fraction": 0})
    answer = api.post(f"/v1/models/{name}/versions/1/load", 422, json=body)
    assert interface.problem_pointers(answer) == [pointer]


def test_two_workers(daemons):
    """Models are spread over workers; the loss of one leaves the other's models alone."""
    daemon = daemons(serve_workers=2)
    api = daemon.api
    X, y = data.regression(60, seed=50)
    dataset = api.upload_npz(X, y)
    for model in "ab":
        api.train(model, dataset, kernel={"name": "gaussian", "bandwidth": 2.0}, test={"fraction": 0})
        api.post(f"/v1/models/{model}/versions/1/load")
    Q = questions(8)
    expected = api.predict("a", Q).json()["predictions"]
    stop = threading.Event()
    with Asker(api) as asker:

        answered = []

        def go_on(own):
            while not stop.is_set():
                for model in "ab":
                    found = own.predict(model, Q).json()["predictions"]
                    assert found == expected
                    answered.append(model)

        def some_more(asked):
            wanted = len(answered) + 20
            wait.until(lambda: len(answered) >= wanted or any(one.done() for one in asked))

        asked = [asker.ask(go_on) for _ in range(4)]
        for worker in api.workers("serve"):
            some_more(asked)
            os.kill(worker["pid"], signal.SIGKILL)
        some_more(asked)
        stop.set()
        for one in asked:
            one.result()


def test_a_batch_of_much_work_takes_no_other_questions_and_waits_at_the_worker(three):
    api = three.api
    large, little = data.regression(2000, d=8)[0], data.regression(1, d=8)[0]
    load(api, "a")
    before = stats(api, "a")["execution_count"]

    def batches():
        return stats(api, "a")["execution_count"] - before

    with Asker(api) as asker:
        with Stopped(api, asker, "a", little):
            asked = [asker.ask(predict, "a", little) for _ in range(3)]
            assert batches() == 2  # those of Stopped: one row does not go behind another
            asked += [asker.ask(predict, "a", large) for _ in range(2)]
            wait.until(lambda: batches() == 3)
            asked += [asker.ask(predict, "a", large)]
        for one in asked:
            one.result()
    assert batches() == 5


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])
    raise AssertionError(pid)


@pytest.mark.skipif("KRRD_TEST_SANITIZER" in os.environ, reason="a sanitizer keeps what is freed")
def test_memory_is_what_the_worker_grows_by(daemons):
    """4,000 centers of 300 features, kept for panels and for lanes; and after a large batch."""
    api = daemons().api
    rng = np.random.default_rng(5)
    X = rng.standard_normal((4000, 300))
    api.train("m", api.upload_npz(X, X[:, 0]), kernel={"name": "gaussian", "bandwidth": 17.0},
              test={"fraction": 0}, precision="float64", regularization=1e-3,
              solver={"name": "pcg", "preconditioner": "none"}, stop={"max_iterations": 1})
    pid = api.worker_pid("serve", "idle")

    def told():
        return api.get("/v1/models/m/versions/1").json()["memory_bytes"]

    path = "/v1/models/m/versions/1"
    api.post(f"{path}/load", 200)
    loaded, full = told(), resident(pid)
    assert loaded > 2.1 * 4000 * 300 * 8
    api.post(f"{path}/unload", 200)
    end = time.monotonic() + 20
    while full - resident(pid) < 0.85 * loaded:
        assert time.monotonic() < end, (full, resident(pid), loaded)
        time.sleep(0.05)
    empty = resident(pid)
    assert full - empty < 1.15 * loaded
    api.predict("m", X[:2000])  # loads it again
    assert told() >= loaded + 2000 * 300 * 8
    assert resident(pid) - empty > 0.85 * told()


# Workers that fail while a model is sent to them.


def make_large(api, columns=256, model="m"):
    """8 MB of centers, in two chunks: a worker that does not read holds up the first. Not loaded; two rows for it."""
    X = np.random.default_rng(5).standard_normal((4000, columns))
    api.train(model, api.upload_npz(X, X[:, 0]), kernel={"name": "gaussian", "bandwidth": columns**0.5},
              test={"fraction": 0}, precision="float64", regularization=1e-3,
              solver={"name": "pcg", "preconditioner": "none"}, stop={"max_iterations": 1})
    return X[:2].tolist()


def state_of(api, model="m"):
    return api.get(f"/v1/models/{model}/versions/1").json()["state"]


@pytest.mark.parametrize("pinned", [False, True])
def test_a_worker_is_lost_while_a_model_is_sent_to_it(daemons, pinned):
    """The next one gets it from the beginning, and who asked has the answer; as has who asks for another model."""
    api = daemons().api
    Q = make_large(api)
    X, y = data.regression(60, seed=50)
    api.train("other", api.upload_npz(X, y), test={"fraction": 0})
    expected = api.predict("m", Q).json()["predictions"]
    api.post("/v1/models/m/versions/1/unload")
    pid = api.worker_pid("serve", "idle")
    with Asker(api) as asker:
        os.kill(pid, signal.SIGSTOP)
        if pinned:
            asked = asker.ask(lambda own: own.post("/v1/models/m/versions/1/load", json={"pin": True}))
        else:
            asked = asker.ask(predict, "m", Q)
        wait.until(lambda: state_of(api) == "loading")
        other = asker.ask(predict, "other", X[:2])
        wait.until(lambda: state_of(api, "other") == "loading")
        os.kill(pid, signal.SIGKILL)
        asked.result()
        other.result()
    assert api.predict("m", Q).json()["predictions"] == expected
    page = prometheus.scrape(api)
    assert page.value("krrd_models_loaded") == 2
    assert page.value("krrd_model_loads_total", outcome="failed") == 0
    assert page.value("krrd_worker_lost_total", kind="serve") == 1


def test_who_asked_leaves_and_the_worker_is_lost(daemons):
    """Nobody waits for the model then: it is not loaded again before somebody does."""
    daemon = daemons()
    api = daemon.api
    Q = make_large(api)
    pid = api.worker_pid("serve", "idle")
    os.kill(pid, signal.SIGSTOP)
    answer = api.post("/v1/models/m/predict", None, json={"instances": Q}, headers={"X-Request-Timeout": "0.2"})
    assert answer.status_code == 504 and state_of(api) == "loading"
    os.kill(pid, signal.SIGKILL)
    wait.until(lambda: state_of(api) == "unloaded")
    wait.until(lambda: api.worker_pid("serve", "idle") != pid)
    assert prometheus.scrape(api).value("krrd_model_loads_total", outcome="ok") == 0
    api.predict("m", Q)


def limit_memory(pid, more=None):
    """The process gets so many bytes more than it has; None: as many as it likes."""
    size = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
    most = resource.RLIM_INFINITY if more is None else size + more
    resource.prlimit(pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def test_a_worker_has_no_memory_for_a_model_that_is_sent_to_it(daemons):
    """It says so at the first frame, while the rest is on its way. The next load begins anew, and the other model stays."""
    if os.environ.get("KRRD_TEST_SANITIZER"):
        pytest.skip("a sanitizer's runtime takes address space as it likes, and ends where it gets none")
    api = daemons().api
    Q = make_large(api, columns=2000)
    X, y = data.regression(60, seed=50)
    api.train("other", api.upload_npz(X, y), test={"fraction": 0})
    api.predict("other", X[:2])
    pid = api.worker_pid("serve", "idle")
    limit_memory(pid, 32 << 20)  # half of the model; a frame on its way takes some 16 MiB, without which a worker ends
    for count in range(1, 4):
        answer = api.predict("m", Q, expect=500)
        assert answer.json()["code"] == "out_of_memory"
        assert state_of(api) == "failed"
        assert prometheus.scrape(api).value("krrd_model_loads_total", outcome="failed") == count
        api.predict("other", X[:2])
    limit_memory(pid)
    api.predict("m", Q)
    assert api.worker_pid("serve", "idle") == pid and state_of(api) == state_of(api, "other") == "loaded"
