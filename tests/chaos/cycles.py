"""A model is loaded, asked and unloaded, over and over: the memory of daemon and worker stays flat.

    python3 tests/chaos/cycles.py [--cycles 10000]

Resident memory is read after a tenth of the cycles and at the end. Ends with 1 where it grew by more
than 5 %."""

import argparse
import json
import pathlib
import sys
import tempfile

import requests

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))

import daemon as programs  # noqa: E402
import data  # noqa: E402

GROWTH = 0.05


def resident_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])
    raise AssertionError(f"{pid} is gone")


def run(folder, cycles):
    """{"krrd": (before, after), "krrd-worker": …} in bytes."""
    daemon = programs.Daemon(folder, log_level="warning")
    try:
        X, y = data.regression(1500, d=8, seed=1)
        api = daemon.api
        api.train("m", api.upload_npz(X, y), test={"fraction": 0}, precision="float64",
                  kernel={"name": "gaussian", "bandwidth": 4.0},
                  solver={"name": "pcg", "preconditioner": "none"},
                  stop={"max_iterations": 2, "tolerance": 1e-12})
        pids = {"krrd": daemon.process.pid, "krrd-worker": api.worker_pid("serve")}
        path = api.base + "/v1/models/m/versions/1/"
        body = json.dumps({"instances": X[:3].tolist()})
        seen = {}
        with requests.Session() as session:
            for i in range(cycles):
                for action, text in (("load", None), ("predict", body), ("unload", None)):
                    answer = session.post(path + action, data=text, timeout=60)
                    assert answer.status_code == 200, answer.text
                if i == cycles // 10:
                    seen = {name: resident_bytes(pid) for name, pid in pids.items()}
        return {name: (seen[name], resident_bytes(pid)) for name, pid in pids.items()}
    finally:
        daemon.close()


def grown(seen):
    """The programs that took more than they may."""
    return [name for name, (before, after) in seen.items() if after > (1 + GROWTH) * before]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=10000)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="krrd-cycles-") as folder:
        seen = run(folder, a.cycles)
    print(json.dumps({name: {"before_bytes": b, "after_bytes": e, "growth": e / b - 1}
                      for name, (b, e) in seen.items()}))
    return 1 if grown(seen) else 0


if __name__ == "__main__":
    sys.exit(main())
