"""Small file systems of a test's own, and filling them. Mounting needs a right that many test
machines do not grant: then the test is skipped, with the reason."""

import contextlib
import os
import subprocess
import time

import pytest


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=False)


def mount(folder, *words):
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    answer = run("mount", *words, str(folder))
    if answer.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {answer.stderr.strip()}")


def unmount(folder):
    for _ in range(50):
        answer = run("umount", str(folder))
        if answer.returncode == 0:
            return
        time.sleep(0.1)  # a worker that is on its way out may have a file open
    raise AssertionError(answer.stderr)


@contextlib.contextmanager
def tmpfs(folder, mib):
    mount(folder, "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs")
    try:
        yield folder
    finally:
        unmount(folder)


def free_bytes(folder):
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def fill(folder, leave=0):
    """A file that takes what is free but for so many bytes."""
    path = folder / "filler"
    with open(path, "ab", buffering=0) as f:
        for size in (65536, 4096):
            with contextlib.suppress(OSError):
                while free_bytes(folder) >= leave + size:
                    f.write(b"\0" * size)
    return path


def grow(folder, mib):
    answer = run("mount", "-o", f"remount,size={mib}m", str(folder))
    assert answer.returncode == 0, answer.stderr
