"""Kills a daemon and its workers at random moments while clients work, and keeps their log.

    python3 tests/chaos/chaos.py [--kills 200] [--seed 1] [--log FILE]

Ends with 1 where the history is impossible (history.py says how it looks at it)."""

import argparse
import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import requests

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))

import daemon as programs  # noqa: E402
import data  # noqa: E402
import history  # noqa: E402
import outcomes  # noqa: E402
import receiver  # noqa: E402

FINAL = history.FINAL
ALIAS = "/v1/models/aliased/aliases/prod"
VERSIONS = 3
PLAIN = {"name": "pcg", "preconditioner": "none"}
KINDS = {"plain": {"solver": PLAIN},
         "rpcholesky": {"solver": {"name": "pcg", "preconditioner": "rpcholesky"}},
         "fine": {"solver": PLAIN, "test": {"fraction": 0.2}, "regularization": 1e-6},
         "coarse": {"solver": PLAIN, "test": {"fraction": 0.2}, "regularization": 0.1}}
GATED_KINDS = ("fine", "coarse")


class Log:
    def __init__(self):
        self.entries = []
        self.lock = threading.Lock()

    def add(self, op, **seen):
        with self.lock:
            self.entries.append({"op": op, **seen})


class Chaos:
    def __init__(self, folder, kills, seed, jobs=0, kinds=tuple(KINDS)):
        self.rng = random.Random(seed)
        self.kills, self.least, self.kinds = kills, jobs, kinds
        self.log = Log()
        self.jobs = {}  # id -> kind, of what was acknowledged
        self.over = threading.Event()
        self.failures = []
        self.receiver = outcomes.Receiver(self.log, seed)
        secrets = receiver.write_secrets(pathlib.Path(folder) / "secrets")
        self.daemon = programs.Daemon(folder, workers="cpu:2", checkpoint_interval_s=0,
                                      retry_delay_s=0.05, cancel_grace_s=2,
                                      quarantine_after=1000000, webhooks=True, webhook_http=True,
                                      webhook_secret_file=secrets, webhook_retry_s=0.1,
                                      webhook_allow="127.0.0.0/8")
        self.X, y = data.regression(700, d=6, seed=99)
        self.upload = data.npz(self.X, y)

    # ---- requests that may meet a daemon that is gone ----

    def request(self, method, path, **kwargs):
        """The answer, or None where the daemon did not live to give one."""
        try:
            return requests.request(method, self.daemon.base + path, timeout=20, **kwargs)
        except requests.RequestException:
            return None

    def insist(self, method, path, **kwargs):
        """The first answer that is not a refusal for the moment."""
        for _ in range(2000):
            answer = self.request(method, path, **kwargs)
            if answer is not None and answer.status_code not in (409, 429, 503):
                return answer
            time.sleep(0.03)
        raise AssertionError(f"no answer to {method} {path}: {answer and answer.text}")

    def spec(self, kind, model):
        return {"model": model, "dataset": self.dataset,
                "kernel": {"name": "gaussian", "bandwidth": 3.0}, "regularization": 1e-13,
                "precision": "float64", "test": {"fraction": 0}, "max_attempts": 10,
                "stop": {"tolerance": 1e-15, "max_iterations": 300}, **KINDS[kind]}

    def submit(self, kind, name, key, gate=None, ends=None):
        spec = self.spec(kind, name)
        spec |= {"promote": gate} if gate else {}
        spec |= {"webhook": {"url": self.receiver.url, "events": ends}} if ends else {}
        answer = self.insist("POST", "/v1/jobs", json=spec, headers={"Idempotency-Key": key})
        assert answer.status_code == 202, answer.text
        job = answer.json()["id"]
        self.log.add("submitted", key=key, job=job, kind=kind, gate=gate, ends=ends)
        self.jobs[job] = kind
        return job

    def predict(self, name, kind, version=1):
        answer = self.request("POST", f"/v1/models/{name}/versions/{version}/predict",
                              json={"instances": self.X[:20].tolist()})
        if answer is not None and answer.ok:
            self.log.add("predicted", kind=kind, digest=self.digest(answer))

    @staticmethod
    def digest(answer):
        return hashlib.sha256(json.dumps(answer.json()["predictions"]).encode()).hexdigest()

    # ---- the clients ----

    def submitter(self, rng):
        count = 0
        while not self.over.is_set():
            unfinished = sum(job not in self.ended_seen for job in list(self.jobs))
            if unfinished < 6:
                count += 1
                kind = rng.choice(self.kinds)
                gated = kind in GATED_KINDS
                name = outcomes.GATED if gated else f"{kind}-{count}"
                gate = outcomes.gate(rng, count, self.middle) if gated else None
                ends = outcomes.ends(rng)
                self.aliases = max(self.aliases, count // outcomes.PER_ALIAS + 1)
                for _ in range(rng.choice((1, 1, 2))):  # who is unsure asks once more
                    self.submit(kind, name, f"key-{count}", gate, ends)
            time.sleep(0.05 + 0.1 * rng.random())

    def meddler(self, rng):
        while not self.over.is_set():
            time.sleep(0.05 + 0.2 * rng.random())
            running = [job for job in list(self.jobs) if job not in self.ended_seen]
            if not running:
                continue
            job = rng.choice(running)
            what = rng.choice(("pause", "resume", "resume", "resume", "cancel"))
            answer = self.request("POST", f"/v1/jobs/{job}/{what}")
            if answer is not None and answer.ok:
                self.log.add("asked", job=job, what=what, status=answer.json()["status"])

    def reader(self, rng):
        after = {}
        while not self.over.is_set():
            time.sleep(0.03)
            if not self.jobs:
                continue
            job = rng.choice(list(self.jobs))
            answer = self.request("GET", f"/v1/jobs/{job}/events",
                                  params={"after": after.get(job, 0), "limit": 1000})
            if answer is None or not answer.ok:
                continue
            for event in answer.json()["data"]:
                self.log.add("event", job=job, event=event)
                after[job] = event["id"]
                if event["type"] == "status" and event["data"]["status"] in FINAL:
                    self.ended_seen.add(job)

    def visitor(self, rng):
        """Predictions and uploads."""
        while not self.over.is_set():
            time.sleep(0.05 + 0.1 * rng.random())
            kind = rng.choice(self.kinds)
            self.predict(f"reference-{kind}", kind)
            self.predict_by_alias()
            if rng.random() < 0.2:
                rows = rng.randrange(50, 5000)
                self.send(data.npz(*data.regression(rows, seed=rng.randrange(10**9))), rows)

    def send(self, body, rows):
        """Uploads a body that no other upload has; the answer, or None."""
        digest = hashlib.sha256(body).hexdigest()
        self.log.add("uploading", sha256=digest, rows=rows)
        answer = self.request("POST", "/v1/datasets", data=body,
                              headers={"Content-Type": "application/x-npz"})
        if answer is not None and answer.status_code == 201:
            self.log.add("uploaded", id=answer.json()["id"], sha256=digest)
        return answer

    def predict_by_alias(self):
        answer = self.request("POST", f"{ALIAS}/predict", json={"instances": self.X[:20].tolist()})
        if answer is not None and answer.ok:
            self.log.add("asked_by", version=answer.json()["version"], digest=self.digest(answer))

    def watcher(self, rng):
        """Looks at what promotions do: a version that an alias stands for is that of a job that has
        succeeded."""
        while not self.over.is_set():
            time.sleep(0.03 + 0.1 * rng.random())
            name = f"best-{rng.randrange(self.aliases)}"
            path = f"/v1/models/{outcomes.GATED}/aliases/{name}"
            answer = self.request("GET", path)
            if answer is None or not answer.ok:
                continue
            alias = answer.json()
            job = self.request("GET", f"/v1/jobs/{alias['history'][0]['job']}")
            self.log.add("standing", alias=name, version=alias["version"], number=alias["moves"],
                         status=job.json()["status"] if job is not None and job.ok else None)
            answer = self.request("POST", f"{path}/predict", json={"instances": self.X[:20].tolist()})
            if answer is not None and answer.ok:
                self.log.add("asked_gated", version=answer.json()["version"],
                             digest=self.digest(answer))

    def mover(self, rng):
        """The only client that moves the alias; the versions are 1 to VERSIONS."""
        while not self.over.is_set():
            time.sleep(0.02 + 0.1 * rng.random())
            back = rng.random() < 0.3
            version = rng.randint(1, VERSIONS)
            self.log.add("moving",
                         versions=list(range(1, VERSIONS + 1)) if back else [version])
            answer = (self.request("POST", f"{ALIAS}/rollback") if back else
                      self.request("PUT", ALIAS, json={"version": version}))
            if answer is not None and answer.ok:
                self.log.add("moved", version=answer.json()["version"],
                             number=answer.json()["moves"])
            self.resolve()
            if rng.random() < 0.1:
                self.try_to_delete()

    def resolve(self):
        answer = self.request("GET", ALIAS)
        if answer is not None and answer.ok:
            self.log.add("resolved", version=answer.json()["version"])
            return answer.json()
        return None

    def try_to_delete(self):
        alias = self.resolve()
        if alias is None:
            return
        version = alias["version"]
        answer = self.request("DELETE", f"/v1/models/aliased/versions/{version}")
        if answer is not None and answer.status_code in (204, 409):
            self.log.add("kept", version=version if answer.status_code == 409 else None)

    # ---- the killer ----

    def kill_worker(self):
        answer = self.request("GET", "/v1/workers")
        pids = [w["pid"] for w in answer.json()["data"] if w["pid"]] if answer is not None else []
        if pids:
            try:
                os.kill(self.rng.choice(pids), signal.SIGKILL)
            except ProcessLookupError:
                pass  # It was lost by itself, with the daemon that was killed before.

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.start()

    def killer(self):
        for _ in range(self.kills):
            time.sleep(self.rng.choice((0.02, 0.2, 0.6)) * (0.2 + self.rng.random()))
            if self.rng.random() < 0.5:
                self.kill_worker()
            else:
                self.kill_daemon()
            if self.failures:
                return
        while len(self.jobs) < self.least and not self.failures:
            time.sleep(0.05)

    # ---- the whole ----

    def prepare(self):
        self.ended_seen = set()
        self.aliases = 1
        errors = []
        self.dataset = self.send(self.upload, len(self.X)).json()["id"]
        for kind in self.kinds:
            name = f"reference-{kind}"
            job = self.submit(kind, name, name)
            done = self.daemon.api.wait(job)
            assert done["status"] == "succeeded"
            errors += [done["result"]["metrics"]["smape"]] if kind in GATED_KINDS else []
            model = self.daemon.api.get(f"/v1/models/{name}/versions/1").json()
            digest = self.digest(self.insist("POST", f"/v1/models/{name}/predict",
                                             json={"instances": self.X[:20].tolist()}))
            self.log.add("reference", kind=kind, sha256=model["sha256"], digest=digest)
            self.ended_seen.add(job)
        assert errors[0] < errors[1], errors
        self.middle = sum(errors) / 2
        self.prepare_alias()

    def prepare_alias(self):
        api, digests = self.daemon.api, {}
        for version in range(1, VERSIONS + 1):
            api.train("aliased", self.dataset, regularization=1e-4,
                      kernel={"name": "gaussian", "bandwidth": float(version)})
            digests[version] = self.digest(api.predict("aliased", self.X[:20], version=version))
        self.log.add("versions", digests=digests)
        self.log.add("moving", versions=[1])
        made = api.request("PUT", ALIAS, 201, json={"version": 1}).json()
        self.log.add("moved", version=1, number=made["moves"])

    def guarded(self, client, seed):
        def run():
            try:
                client(random.Random(seed))
            except Exception as e:  # pylint: disable=broad-except
                self.failures.append(f"{client.__name__}: {e!r}")
        return threading.Thread(target=run)

    def settle(self):
        """Nobody kills any more: everything that was acknowledged ends."""
        api = self.daemon.api
        waits = {e["job"] for e in self.log.entries if e["op"] == "submitted" and e["ends"]}
        end = time.monotonic() + 300
        for job, kind in self.jobs.items():
            while True:
                document = api.job(job)
                told = job not in waits or (document["webhook"] or {}).get("state") != "pending"
                if (document["status"] in FINAL and told) or time.monotonic() > end:
                    break
                if document["status"] == "paused":
                    api.post(f"/v1/jobs/{job}/resume")
                time.sleep(0.02)
            self.log.add("ended", job=job, document=document)
            self.log.add("events", job=job, events=api.events(job))
            if document["status"] == "succeeded":
                self.predict(document["model"], kind, document["model_version"])

    def datasets(self):
        after = None
        while True:
            page = self.daemon.api.get("/v1/datasets", params={"limit": 100, "after": after}).json()
            for found in page["data"]:
                yield {k: found[k] for k in ("id", "sha256", "rows")}
            if not page["has_more"]:
                return
            after = page["last_id"]

    def models(self):
        for name in {self.daemon.api.job(job)["model"] for job in self.jobs}:
            answer = self.daemon.api.request("GET", f"/v1/models/{name}")
            for version in answer.json()["versions"] if answer.ok else ():
                yield {k: version[k] for k in ("name", "version", "job", "sha256")}

    def look_around(self):
        api = self.daemon.api
        self.log.add("models", models=list(self.models()))
        for name in (f"best-{i}" for i in range(self.aliases)):
            answer = api.request("GET", f"/v1/models/{outcomes.GATED}/aliases/{name}")
            self.log.add("gated_history", alias=name, moves=answer.json()["history"] if answer.ok else [])
        alias = api.get(ALIAS).json()
        self.log.add("resolved", version=alias["version"])
        self.log.add("history", moves=[{k: m[k] for k in ("number", "from", "to")}
                                       for m in alias["history"]])
        self.log.add("datasets", datasets=list(self.datasets()))
        command = [self.daemon.command()[0], "check", "--data-dir", str(self.daemon.data_dir)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        self.log.add("checked", answer=json.loads(answer.stdout))

    def run(self):
        self.prepare()
        clients = [self.guarded(c, i) for i, c in enumerate(
            (self.submitter, self.meddler, self.reader, self.visitor, self.mover, self.watcher))]
        for client in clients:
            client.start()
        try:
            self.killer()
        finally:
            self.over.set()
            for client in clients:
                client.join()
        assert not self.failures, self.failures
        self.settle()
        self.look_around()
        self.daemon.close()
        self.receiver.close()
        return self.log.entries


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", help="keep the history here, a JSON line an entry")
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="krrd-chaos-") as folder:
        log = Chaos(folder, arguments.kills, arguments.seed).run()
    if arguments.log:
        with open(arguments.log, "w") as out:
            out.writelines(json.dumps(entry) + "\n" for entry in log)
    faults = history.check(log)
    for fault in faults:
        print(fault)
    resumed = sum("Resumed from the checkpoint" in e["message"]
                  for entry in log if entry["op"] == "events" for e in entry["events"])
    ended = [e["document"] for e in log if e["op"] == "ended"]
    told = [e for e in log if e["op"] == "told"]
    promoted = sum(bool(d["promotion"] and d["promotion"]["promoted"]) for d in ended)
    gated = sum(d["promotion"] is not None for d in ended)
    print(f"{promoted} of {gated} models promoted, {len(told)} messages of {len({e['id'] for e in told})} webhooks")
    print(f"{arguments.kills} kills, {len(ended)} jobs ("
          + ", ".join(f"{sum(d['status'] == s for d in ended)} {s}" for s in FINAL)
          + f"; {sum(d['attempt'] > 1 for d in ended)} of them in several attempts, {resumed} resumptions), {len(log)} "
          f"entries, {time.monotonic() - began:.0f} s: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
