"""Worker programs that claim to have GPUs and compute on the CPU: what is tried with them is where
jobs go, and what the daemon takes their memory to be."""

import stat

from daemon import program

SCRIPT = """#!/bin/sh
if [ "$1" = --devices ]; then
    echo '{answer}'
    exit 0
fi
{first}
export KRRD_TEST_DEVICE_BYTES={device_bytes} KRRD_TEST_BALLAST_BYTES={ballast_bytes}
for word; do
    shift
    case $word in cuda:*) word=cpu ;; esac
    set -- "$@" "$word"
done
exec {worker} "$@"
"""


def write(path, answer='{"devices": ["cuda:0", "cuda:1", "cpu"], "detail": null}', device_bytes=0,
          ballast_bytes=0, first=""):
    """`device_bytes`: of its device's own memory, where it has such; `first`: a line of shell."""
    path.write_text(SCRIPT.format(
        answer=answer, device_bytes=device_bytes, ballast_bytes=ballast_bytes, first=first,
        worker=program("KRRD_TEST_CLAIMANT", "tests/http/krrd-worker-claimant")))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
