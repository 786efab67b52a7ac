"""Who asks for predictions from several threads at once or on both sides of a restart, and a serving worker that takes
none for a while."""

import concurrent.futures
import os
import re
import signal
import time

import api as interface
import contract
import data
import prometheus
import wait


def questions(n, seed=51):
    return data.regression(n, seed=seed)[0]


def outlive_a_restart(daemon, dataset, answers):
    """The data set's description and what `answers` returns are as before when the daemon comes back."""
    before = answers()
    daemon.stop()
    daemon.start()
    assert daemon.api.get(f"/v1/datasets/{dataset['id']}").json() == dataset
    assert answers() == before
    return before


class Asker:
    """Asks from threads of its own, each over its own connection."""

    def __init__(self, api):
        self.base = api.base
        self.pool = concurrent.futures.ThreadPoolExecutor(64)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.shutdown()

    def ask(self, function, *args, **kwargs):
        """What function(api, …) returned, and when, later."""

        def run():
            with contract.Session() as session:
                answer = function(interface.Api(session, self.base), *args, **kwargs)
                return answer, time.monotonic()

        return self.pool.submit(run)


def predict(api, model, rows, expect=200):
    return api.predict(model, rows, expect=expect)


def waiting(api):
    """Questions in the daemon's queues."""
    return int(re.search(r"^krrd_predictions_waiting (\d+)", api.get("/metrics").text, re.M)[1])


def sent(api):
    """Questions that were sent to a worker, ever."""
    return int(prometheus.scrape(api).value("krrd_prediction_queue_seconds_count"))


class Stopped:
    """The serving worker takes nothing while this lasts; one question is away to it, and the first."""

    def __init__(self, api, asker, model, row=None):
        self.pid = api.worker_pid("serve")
        self.api, self.asker, self.model = api, asker, model
        self.row = questions(1) if row is None else row

    def __enter__(self):
        predict(self.api, self.model, self.row)
        self.before = sent(self.api)
        os.kill(self.pid, signal.SIGSTOP)
        self.away = self.asker.ask(predict, self.model, self.row)
        self.until(lambda: sent(self.api) == self.before + 1)
        return self

    def until(self, fits):
        try:
            wait.until(fits, lambda: f"{waiting(self.api)} wait, {sent(self.api) - self.before} were sent")
        except AssertionError:
            os.kill(self.pid, signal.SIGCONT)  # who asked would wait for ever
            raise

    def until_asked(self, count):
        """Until so many questions wait in the daemon or at the worker."""
        self.until(lambda: waiting(self.api) + sent(self.api) - self.before == count)

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)
