"""A daemon under test, on its own data directory and a free port of loopback."""

import os
import pathlib
import signal
import subprocess
import time

import api as interface
import contract

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_S = 60  # a sanitizer's build on a busy machine


def program(variable, path):
    """The path in the environment variable, else in the folder build/."""
    return os.environ.get(variable) or str(ROOT / "build" / path)


def make_key(path, name, scopes):
    """A new API key in the file, as `krrd key` makes it."""
    words = [program("KRRD_TEST_DAEMON", "src/server/krrd"), "key", name, scopes, "--api-keys", path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Daemon:
    """Options are settings with '_' for '-': max_queue=2; True is that of a flag."""

    def __init__(self, folder, **options):
        self.data_dir = pathlib.Path(folder) / "data"
        self.log_path = pathlib.Path(folder) / "log"
        self.options = {"workers": "cpu:1", "serve_workers": 1, "worker_threads": 1, **options}
        self.process = None
        self.base = None
        self.session = contract.Session()
        self.start()

    def command(self):
        options = {"listen": "127.0.0.1:0", "data_dir": self.data_dir, "log_level": "debug",
                   "worker_program": program("KRRD_TEST_WORKER", "src/worker/krrd-worker"),
                   **self.options}
        words = [program("KRRD_TEST_DAEMON", "src/server/krrd")]
        for key, value in options.items():
            flag = "--" + key.replace("_", "-")
            words += [flag] if value is True else [flag, str(value)]
        return words

    def start(self, **options):
        assert self.process is None, "it runs already"
        self.options.update(options)
        address = self.data_dir / "krrd.address"
        address.unlink(missing_ok=True)
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(self.command(), stdout=log, stderr=log,
                                        stdin=subprocess.DEVNULL)
        log.close()
        end = time.monotonic() + START_S
        while not address.exists():
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < end, "no address\n" + self.log()
            time.sleep(0.01)
        self.base = "http://" + address.read_text().strip()
        self.session.close()  # connections to the one before

    @property
    def api(self):
        return interface.Api(self.session, self.base)

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def ended(self, timeout):
        code = self.process.wait(timeout)
        self.process = None
        return code

    def stop(self, timeout=60, number=signal.SIGTERM):
        """The exit code."""
        self.process.send_signal(number)
        return self.ended(timeout)

    def kill(self):
        self.process.kill()
        return self.ended(60)

    def close(self):
        """Ends it and looks whether it ended well, and for a sanitizer's report."""
        code = 0
        if self.process is not None:
            try:
                code = self.stop()
            except subprocess.TimeoutExpired:
                code = self.kill()
        self.session.close()
        log = self.log()
        assert code == 0, f"exit code {code}\n{log[-4000:]}"
        for mark in ("AddressSanitizer", "LeakSanitizer", "runtime error:"):
            assert mark not in log, log[-8000:]
