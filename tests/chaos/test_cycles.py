"""A short run of cycles.py, and one with a worker that leaks, which must not pass."""

import os

import pytest

import cycles

CYCLES = 300


@pytest.mark.skipif("KRRD_TEST_SANITIZER" in os.environ, reason="a sanitizer keeps what is freed")
def test_memory_stays_flat(tmp_path):
    seen = cycles.run(tmp_path, CYCLES)
    assert cycles.grown(seen) == [], seen


@pytest.mark.skipif("KRRD_TEST_SANITIZER" in os.environ, reason="it would report the leak itself")
def test_a_worker_that_leaks(tmp_path, monkeypatch):
    monkeypatch.setenv("KRRD_TEST_WORKER", cycles.programs.program(
        "KRRD_TEST_LEAKY", "tests/chaos/krrd-worker-leaky"))
    seen = cycles.run(tmp_path, CYCLES)
    assert cycles.grown(seen) == ["krrd-worker"], seen
