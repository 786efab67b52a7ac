"""A receiver of webhooks that keeps what arrives, and their signatures recomputed."""

import base64
import contextlib
import hashlib
import hmac
import http.server
import threading
import time

KEY = b"0123456789abcdef0123456789abcdef"


def write_secrets(path, keys=(KEY,)):
    path.write_text("".join(f"whsec_{base64.b64encode(k).decode()}\n" for k in keys))
    return path


def signatures(message, keys=(KEY,)):
    headers, body, _ = message
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    return " ".join("v1," + base64.b64encode(hmac.new(k, signed, hashlib.sha256).digest()).decode()
                    for k in keys)


class Receiver:
    """Answers with the next of `answers`, and with the last one for good; keeps what arrived."""

    def __init__(self, answers=(200,), context=None, delay=0.0, body=b"thanks"):
        self.answers, self.delay, self.body = list(answers), delay, body
        self.arrived = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                content = self.rfile.read(int(self.headers["Content-Length"]))
                status = outer.take((dict(self.headers.items()), content, self.path))
                time.sleep(outer.delay)
                if status is None:
                    self.close_connection = True
                    return
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    if 300 <= status < 400:
                        self.send_header("Location", outer.url + "/elsewhere")
                    self.send_header("Content-Length", str(len(outer.body)))
                    self.end_headers()
                    self.wfile.write(outer.body)

            do_GET = do_POST

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self.url = f"https://localhost:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, message):
        """What to answer; None: the connection is closed without a word."""
        self.arrived.append(message)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def wait(self, count, timeout=120):
        end = time.monotonic() + timeout
        while len(self.arrived) < count:
            assert time.monotonic() < end, f"{len(self.arrived)} of {count} arrived"
            time.sleep(0.02)
        return self.arrived

    def close(self):
        self.server.shutdown()
        self.server.server_close()
