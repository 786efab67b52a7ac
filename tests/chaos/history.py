"""Whether what the clients of a daemon saw can be: it looks at their log alone.

A log is a list of objects with "op" and what the operation saw:

    submitted  key, job, kind        202 to POST /v1/jobs with that Idempotency-Key; gate and ends are
                                     the promotion and the messages that it asked for, or null
    asked      job, what, status     what the answer to cancel, pause or resume said
    event      job, event            an event that some client read
    predicted  kind, digest          the digest of the predictions of a model of that kind
    ended      job, document         the job at the end
    events     job, events           all its events at the end
    models     models                [{"name", "version", "job", "sha256"}] at the end
    reference  kind, sha256, digest  of an uninterrupted job of that kind: model and predictions
    moving     versions              a move of the alias that is about to be asked for: where it may go
    moved      version, number       its acknowledgement; number is that of the move
    resolved   version               what the alias was said to stand for, to who moves it
    asked_by   version, digest       the version and digest of predictions by the alias
    versions   digests               the digest of the predictions of each version of the aliased model
    standing   alias, version, number, status  what an alias that promotions move stands for, and the
                                     status of that version's job, asked for afterwards; or null
    asked_gated version, digest      as asked_by, by such an alias
    gated_history alias, moves       all its moves at the end, the newest first
    told       id, status, body, signed  a webhook that arrived, how it was answered (null: not at all),
                                     and whether its signature was right
    kept       version               the version with the alias could not be deleted; null: it was
    history    moves                 [{"number", "from", "to"}] at the end, the newest first
    uploading  sha256, rows          a body that is about to be sent
    uploaded   id, sha256            its acknowledgement
    datasets   datasets              [{"id", "sha256", "rows"}] at the end
    checked    answer                what krrd check printed
"""

import collections
import operator

FINAL = ("succeeded", "failed", "cancelled")
GATED = "gated"  # the model whose aliases promotions move
COMPARE = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}


class Checker:
    def __init__(self, log):
        self.by = collections.defaultdict(list)
        self.log = list(log)
        for entry in self.log:
            self.by[entry["op"]].append(entry)
        self.faults = []
        self.kinds = {e["job"]: e["kind"] for e in self.by["submitted"]}
        self.ended = {e["job"]: e["document"] for e in self.by["ended"]}
        self.events = {e["job"]: e["events"] for e in self.by["events"]}
        self.asked = {e["job"]: e for e in self.by["submitted"]}

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
            if len(made[job]) != int(succeeded):
                self.fault(f"{job} has {len(made[job])} models, succeeded: {succeeded}")
            for model in made[job]:
                if model["sha256"] != reference[kind]["sha256"]:
                    self.fault(f"the model of {job} is not that of an uninterrupted job")
        for entry in self.by["predicted"]:
            if entry["digest"] != reference[entry["kind"]]["digest"]:
                self.fault("predictions differ from those of the uninterrupted job's model")

    def check_alias(self):
        """One client moves the alias: between a request and its answer it stands for what it stood
        for or for where it goes, else for the last one that was acknowledged or seen."""
        possible, numbers = {None}, {}
        for entry in self.log:
            if entry["op"] == "moving":
                possible = possible | set(entry["versions"])
            elif entry["op"] in ("moved", "resolved"):
                if entry["version"] not in possible:
                    self.fault(f"the alias stands for {entry['version']}, not for one of {possible}")
                possible = {entry["version"]}
        for entry in self.by["moved"]:
            if numbers.setdefault(entry["number"], entry["version"]) != entry["version"]:
                self.fault(f"two moves of the alias have the number {entry['number']}")
        digests = {int(v): d for e in self.by["versions"] for v, d in e["digests"].items()}
        for entry in self.by["asked_by"]:
            if digests.get(entry["version"]) != entry["digest"]:
                self.fault(f"predictions by the alias are not those of version {entry['version']}")
        for entry in self.by["kept"]:
            if entry["version"] is None:
                self.fault("a version was deleted that an alias stands for")

    def check_moves(self, listed):
        """Each begins where the one before ended. By their numbers, and the oldest of those."""
        moves = {m["number"]: m for m in listed}
        oldest = min(moves, default=0)
        if sorted(m["number"] for m in listed) != list(range(oldest, oldest + len(moves))):
            self.fault(f"the history of the alias has a gap or a repeat: {sorted(moves)}")
        for number, move in moves.items():
            before = moves.get(number - 1, {}).get("to")
            if number > oldest and move["from"] != before:
                self.fault(f"move {number} of the alias does not begin where the one before ended")
        return moves, oldest

    def check_alias_history(self):
        moves, oldest = self.check_moves([m for e in self.by["history"] for m in e["moves"]])
        for entry in self.by["moved"]:
            if entry["number"] >= oldest and \
                    moves.get(entry["number"], {}).get("to") != entry["version"]:
                self.fault(f"the history does not have the move that was acknowledged: {entry}")

    def check_uploads(self):
        sent = {(e["sha256"], e["rows"]) for e in self.by["uploading"]}
        there = {d["id"]: d for e in self.by["datasets"] for d in e["datasets"]}
        for entry in self.by["uploaded"]:
            if there.get(entry["id"], {}).get("sha256") != entry["sha256"]:
                self.fault(f"an upload that was acknowledged is gone or another one: {entry}")
        for found in there.values():
            if (found["sha256"], found["rows"]) not in sent:
                self.fault(f"a data set is not what anybody sent: {found}")

    def metrics_of(self, version):
        job = self.job_of.get(version)
        return self.ended.get(job, {}).get("result", {}).get("metrics", {})

    def gate_holds(self, gate, document, before):
        """Whether the job should have been promoted, where the alias stood for `before`."""
        for metric, comparisons in (gate.get("if") or {}).items():
            value = document["result"]["metrics"][metric]
            for op, limit in comparisons.items():
                if limit == "current" and before is None:
                    continue
                bound = self.metrics_of(before).get(metric) if limit == "current" else limit
                if bound is None or not COMPARE[op](value, bound):
                    return False
        return True

    def check_promotion(self, job, gate, moves):
        """`moves`: those that name the job."""
        document = self.ended.get(job, {})
        found = document.get("promotion")
        if gate is None or document.get("status") != "succeeded":
            if found is not None or moves:
                self.fault(f"{job} was promoted, or said to be, for no reason: {found}, {moves}")
            return
        if found is None:
            self.fault(f"nothing was decided of the promotion of {job}")
            return
        if found["promoted"] != self.gate_holds(gate, document, found["from"]):
            self.fault(f"the gate of {job} was not kept: {gate}, {found}")
        due = [(gate["alias"], "promotion", found["from"], document["model_version"])]
        if moves != (due if found["promoted"] else []):
            self.fault(f"the promotion of {job} is no move, or several: {found}, {moves}")
        if sum(e["data"] == found for e in self.events.get(job, [])) != 1:
            self.fault(f"the promotion of {job} is not told of once in its events")

    def check_promotions(self):
        self.job_of = {m["version"]: m["job"] for e in self.by["models"] for m in e["models"]
                       if m["name"] == GATED}
        made, kept = collections.defaultdict(list), {}
        for entry in self.by["gated_history"]:
            kept[entry["alias"]] = self.check_moves(entry["moves"])[0]
            for m in entry["moves"]:
                made[m["job"]].append((entry["alias"], m["kind"], m["from"], m["to"]))
        for job, asked in self.asked.items():
            self.check_promotion(job, asked.get("gate"), made.pop(job, []))
        for job, moves in made.items():
            self.fault(f"an alias was moved by nobody's job {job}: {moves}")
        self.check_standing(kept)

    def check_standing(self, kept):
        last = {}
        for entry in self.by["standing"]:
            move = kept.get(entry["alias"], {}).get(entry["number"], {})
            if move.get("to") != entry["version"] or entry["number"] < last.get(entry["alias"], 0):
                self.fault(f"what an alias was seen to stand for is not in its history: {entry}")
            last[entry["alias"]] = entry["number"]
            if entry["status"] not in (None, "succeeded"):
                self.fault(f"an alias stood for the version of a job that had not succeeded: {entry}")
        reference = {e["kind"]: e["digest"] for e in self.by["reference"]}
        for entry in self.by["asked_gated"]:
            kind = self.kinds.get(self.job_of.get(entry["version"]))
            if reference.get(kind) != entry["digest"]:
                self.fault(f"predictions by a promoted alias are not those of its version: {entry}")

    def check_webhook(self, job, ends, arrived):
        document = self.ended.get(job, {})
        state = document.get("webhook")
        if document.get("status") not in (ends or ()):
            if arrived or state is not None:
                self.fault(f"{job} did not end so, or asked for no message: {state}, {arrived}")
            return
        if not any(e["status"] in (200, 204) for e in arrived):
            self.fault(f"the end of {job} was not told to who asked for it: {state}, {arrived}")
        if {e["id"] for e in arrived} != {(state or {}).get("id")}:
            self.fault(f"messages of {job} have other ids than one: {state}, {arrived}")
        if (state or {}).get("state") != "delivered":
            self.fault(f"the message of {job} was taken, or not, and is said to be: {state}")
        for entry in arrived:
            said, status = entry["body"]["data"], document["status"]
            if entry["body"] != arrived[0]["body"] or not entry["signed"]:
                self.fault(f"a message of {job} differs from another, or is not signed: {entry}")
            if (entry["body"]["type"] != f"job.{status}"
                    or any(said[k] != document[k] for k in ("status", "model_version", "result"))):
                self.fault(f"a message of {job} tells of another end: {entry}")

    def check_webhooks(self):
        arrived = collections.defaultdict(list)
        for entry in self.by["told"]:
            arrived[entry["body"]["data"]["id"]].append(entry)
        for job, asked in self.asked.items():
            self.check_webhook(job, asked.get("ends"), arrived.pop(job, []))
        for job, entries in arrived.items():
            self.fault(f"messages of a job that nobody submitted: {job}, {entries}")

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
    checker.check_alias()
    checker.check_alias_history()
    checker.check_promotions()
    checker.check_webhooks()
    checker.check_uploads()
    checker.check_answers()
    return checker.faults
