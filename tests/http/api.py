"""The interface as a user of it sees it: upload, train, wait, predict. Answers are checked against
the contract by the session; what is unexpected raises with the answer's text."""

import time

import data

FINAL = ("succeeded", "failed", "cancelled")
PATIENCE_S = 180  # for a state that comes, on a machine with much else to do


class Api:
    def __init__(self, session, base):
        self.session = session
        self.base = base.rstrip("/")

    def url(self, path):
        return self.base + path

    def request(self, method, path, expect=None, **kwargs):
        answer = self.session.request(method, self.url(path), **kwargs)
        if expect is not None:
            assert answer.status_code == expect, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer

    def get(self, path, expect=200, **kwargs):
        return self.request("GET", path, expect, **kwargs)

    def post(self, path, expect=200, **kwargs):
        return self.request("POST", path, expect, **kwargs)

    def delete(self, path, expect=204, **kwargs):
        return self.request("DELETE", path, expect, **kwargs)

    # Data sets.

    def upload(self, body, content_type="text/csv", expect=201, **query):
        answer = self.request("POST", "/v1/datasets", expect, data=body, params=query,
                              headers={"Content-Type": content_type})
        return answer.json()

    def upload_csv(self, X, y, names=None, target="y", **query):
        return self.upload(data.csv(X, y, names, target), **query)["id"]

    def upload_npz(self, X, y, **query):
        return self.upload(data.npz(X, y), "application/x-npz", **query)["id"]

    # Jobs.

    def create(self, model, dataset, **spec):
        return self.post("/v1/jobs", 202, json={"model": model, "dataset": dataset, **spec}).json()

    def job(self, job_id):
        return self.get(f"/v1/jobs/{job_id}").json()

    def wait(self, job_id, until=FINAL, timeout=PATIENCE_S):
        """Polls until the job has one of the statuses, or fits a function."""
        fits = until if callable(until) else lambda job: job["status"] in until
        end = time.monotonic() + timeout
        while True:
            job = self.job(job_id)
            if fits(job):
                return job
            assert job["status"] not in FINAL, f"the job ended: {job}"
            assert time.monotonic() < end, f"after {timeout} s: {job}"
            time.sleep(0.02)

    def wait_running(self, job_id, timeout=PATIENCE_S):
        """Until a worker has reported progress from within the solver."""
        return self.wait(job_id, lambda job: job["status"] == "running" and
                         (job["progress"] or {}).get("iteration", 0) > 0, timeout)

    def train(self, model, dataset, expect="succeeded", timeout=PATIENCE_S, **spec):
        job = self.wait(self.create(model, dataset, **spec)["id"], timeout=timeout)
        assert job["status"] == expect, job
        return job

    def cancel(self, job_id, expect=200):
        return self.post(f"/v1/jobs/{job_id}/cancel", expect).json()

    def events(self, job_id, limit=1000):
        """The whole log, page by page."""
        events, after = [], 0
        while True:
            page = self.get(f"/v1/jobs/{job_id}/events",
                            params={"after": after, "limit": limit}).json()
            events += page["data"]
            if not page["has_more"]:
                return events
            after = page["last_id"]

    # Models and workers.

    def predict(self, model, X, version=None, expect=200):
        path = f"/v1/models/{model}" + (f"/versions/{version}" if version else "")
        rows = X.tolist() if hasattr(X, "tolist") else X
        return self.post(path + "/predict", expect, json={"instances": rows})

    def workers(self, kind):
        return [w for w in self.get("/v1/workers").json()["data"] if w["kind"] == kind]

    def worker_pid(self, kind, state=None, timeout=PATIENCE_S):
        """The pid of the first worker of that kind, once it is up (and in that state)."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            for worker in self.workers(kind):
                up = worker["pid"] and worker["state"] not in ("starting", "stopping", "down")
                if up and state in (None, worker["state"]):
                    return worker["pid"]
            time.sleep(0.02)
        raise AssertionError(f"no {kind} worker within {timeout} s: {self.workers(kind)}")


def problem_pointers(answer):
    return [item["pointer"] for item in answer.json().get("errors", [])]
