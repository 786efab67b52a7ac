"""Whether what the clients of a daemon saw can be: it looks at their log alone.

A log is a list of objects with "op" and what the operation saw:

    submitted  key, job, kind        202 to POST /v1/jobs with that Idempotency-Key
    asked      job, what, status     what the answer to cancel, pause or resume said
    event      job, event            an event that some client read
    predicted  kind, digest          the digest of the predictions of a model of that kind
    ended      job, document         the job at the end
    events     job, events           all its events at the end
    models     models                [{"name", "version", "job", "sha256"}] at the end
    reference  kind, sha256, digest  of an uninterrupted job of that kind: model and predictions
    checked    answer                what krrd check printed
"""

import collections

FINAL = ("succeeded", "failed", "cancelled")


class Checker:
    def __init__(self, log):
        self.by = collections.defaultdict(list)
        for entry in log:
            self.by[entry["op"]].append(entry)
        self.faults = []
        self.kinds = {e["job"]: e["kind"] for e in self.by["submitted"]}
        self.ended = {e["job"]: e["document"] for e in self.by["ended"]}
        self.events = {e["job"]: e["events"] for e in self.by["events"]}

    def fault(self, text):
        self.faults.append(text)

    def check_keys(self):
        jobs = {}
        for entry in self.by["submitted"]:
            if jobs.setdefault(entry["key"], entry["job"]) != entry["job"]:
                self.fault(f"one key, two jobs: {entry['job']} and {jobs[entry['key']]}")

    def check_ends(self):
        for job in self.kinds:
            document = self.ended.get(job)
            if document is None or document["status"] not in FINAL:
                self.fault(f"{job} was acknowledged and has not ended: {document}")
                continue
            told = [e["data"]["status"] for e in self.events.get(job, [])
                    if e["type"] == "status"]
            ends = [s for s in told if s in FINAL]
            if ends != [document["status"]] or told[-1:] != ends:
                self.fault(f"{job} is {document['status']}, but its events say {told}")

    def check_sequences(self):
        for job, events in self.events.items():
            ids = [e["id"] for e in events]
            if ids != list(range(1, len(ids) + 1)):
                self.fault(f"the events of {job} have a gap or a repeat: {ids}")
        for entry in self.by["event"]:
            kept = {e["id"]: e for e in self.events.get(entry["job"], [])}
            if kept.get(entry["event"]["id"]) != entry["event"]:
                self.fault(f"an event of {entry['job']} that was read is gone or has changed: "
                           f"{entry['event']}")

    def check_models(self):
        reference = {e["kind"]: e for e in self.by["reference"]}
        made = collections.defaultdict(list)
        for entry in self.by["models"]:
            for model in entry["models"]:
                made[model["job"]].append(model)
        for job, kind in self.kinds.items():
            succeeded = self.ended.get(job, {}).get("status") == "succeeded"
            if len(made[job]) != succeeded:
                self.fault(f"{job} has {len(made[job])} models, succeeded: {succeeded}")
            for model in made[job]:
                if model["sha256"] != reference[kind]["sha256"]:
                    self.fault(f"the model of {job} is not that of an uninterrupted job")
        for entry in self.by["predicted"]:
            if entry["digest"] != reference[entry["kind"]]["digest"]:
                self.fault("predictions differ from those of the uninterrupted job's model")

    def check_answers(self):
        for entry in self.by["asked"]:
            status = self.ended.get(entry["job"], {}).get("status")
            if entry["what"] == "cancel" and entry["status"] == "cancelled" != status:
                self.fault(f"{entry['job']} was said to be cancelled and is {status}")
        for entry in self.by["checked"]:
            if not entry["answer"]["ok"]:
                self.fault(f"krrd check: {entry['answer']['problems']}")
        if not self.by["checked"]:
            self.fault("nobody ran krrd check")


def check(log):
    """What is wrong with the history, as sentences; none: nothing."""
    checker = Checker(log)
    checker.check_keys()
    checker.check_ends()
    checker.check_sequences()
    checker.check_models()
    checker.check_answers()
    return checker.faults
