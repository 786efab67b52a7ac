"""A short run of churn.py; the long one is `tools/dev churn`."""

import churn


def test_predictions_while_everything_changes(tmp_path):
    faults, seen = churn.Churn(tmp_path, count=2500, connections=64, seed=1).run()
    assert faults == []
    assert seen[200] > 1500
    assert seen["kills"] >= 2 and seen["versions"] >= 2 and seen["loads and unloads"] >= 25
