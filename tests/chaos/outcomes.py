"""What chaos.py's jobs have beside their training: gates of promotions, and who is told of their ends."""

import hmac
import json
import random
import time

import history
import receiver

GATED = history.GATED
ENDS = list(history.FINAL)
PER_ALIAS = 60  # jobs; fewer than an alias shows moves of


def alias(count):
    return f"best-{count // PER_ALIAS}"


def gate(rng, count, middle):
    """Of the count-th job: a `promote` that always, never or sometimes holds; `middle` lies between
    the errors of the two kinds of jobs."""
    condition = rng.choice((None, {"smape": {"lt": 1e-9}}, {"smape": {"lt": middle}},
                            {"smape": {"le": "current"}}, {"smape": {"lt": "current"}},
                            {"smape": {"gt": "current"}, "rmse": {"gt": 0}}))
    return {"alias": alias(count), **({"if": condition} if condition else {})}


def ends(rng):
    """Which ends of a job are to be told; None: none of them."""
    return rng.choice((None, ENDS, ENDS, ["succeeded"], ["failed", "cancelled"]))


class Receiver(receiver.Receiver):
    """Takes most messages, and refuses, is slow or hangs up now and then. All of it is logged."""

    def __init__(self, log, seed):
        self.log, self.rng = log, random.Random(seed)
        super().__init__()

    def take(self, message):
        headers, body, _ = message
        status = self.rng.choice((200, 200, 204, 500, 503, None))
        self.log.add("told", id=headers["webhook-id"], status=status, body=json.loads(body),
                     signed=hmac.compare_digest(headers["webhook-signature"],
                                                receiver.signatures(message)))
        time.sleep(self.rng.choice((0, 0, 0.2)))
        return status
