"""schemathesis makes hundreds of requests of api/openapi.yaml, right and wrong ones, for every operation: each answer
is documented, fits its schema, and none is a failure of the server."""

import pathlib
import re
import subprocess
import sys

import pytest

import data

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(sys.executable).with_name("schemathesis")
EXAMPLES = 3
SEED = 7


@pytest.mark.skipif(not PROGRAM.exists(), reason="schemathesis is not installed beside this Python")
def test_every_operation(daemons, tmp_path):
    daemon = daemons(max_queue=5, max_upload_bytes=1 << 20)
    X, y = data.regression(50)
    daemon.api.train("there", daemon.api.upload_csv(X, y))
    done = subprocess.run(
        [PROGRAM, "--config-file", ROOT / "tests/http/schemathesis.toml", "run", ROOT / "api/openapi.yaml", "--url",
         daemon.base, "--max-examples", str(EXAMPLES), "--seed", str(SEED), "--phases", "examples,coverage,fuzzing,stateful",
         "--generation-database", "none"],
        cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-2000:]
    tested = re.search(r"Tested: (\d+)", done.stdout)
    assert tested and int(tested.group(1)) > 50, done.stdout[-2000:]
    assert daemon.process.poll() is None
