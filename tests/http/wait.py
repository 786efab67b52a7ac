"""Waiting for states, on a machine with much else to do. No test waits for a time to pass in which something is to have
happened."""

import time

import prometheus

PATIENCE_S = 180


def until(fits, what=None, timeout=PATIENCE_S):
    """The first true value that fits() gives; `what` tells, if called, what was there instead."""
    end = time.monotonic() + timeout
    while not (found := fits()):
        assert time.monotonic() < end, f"not within {timeout} s: {what() if callable(what) else what or fits}"
        time.sleep(0.02)
    return found


def until_metric(api, name, fits, headers=None, **labels):
    """Until the metric has a value, or one that fits a function."""
    def found():
        value = prometheus.scrape(api, headers=headers).value(name, **labels)
        return fits(value) if callable(fits) else value == fits

    until(found, f"{name} {labels or ''}")


def until_said(daemon, text):
    until(lambda: text in daemon.log(), lambda: f"{text!r} in {daemon.log()[-2000:]}")
