"""A gateway before the daemon that asks for a key, as a reverse proxy of a site does: everything
but the dashboard's own files and health needs it, and events pass through as they come."""

import contextlib
import http.client
import http.server
import json
import threading
from urllib.parse import urlsplit

OPEN = ("/ui/", "/v2/health/")
REFUSAL = {"type": "about:blank", "title": "Unauthorized", "status": 401, "detail": "A key is needed.",
           "error": "A key is needed."}


def is_open(path):
    return path == "/" or path.startswith(OPEN)


def handler_of(daemon, key, seen):
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def refuse(self):
            body = json.dumps(REFUSAL).encode()
            self.send_response(401)
            for name, value in (("Content-Type", "application/problem+json"), ("WWW-Authenticate", "Bearer"),
                                ("Content-Length", len(body))):
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(body)

        def forward(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            given = self.headers.get("Authorization")
            seen.append((self.command, self.path, given))
            if not is_open(self.path) and given != f"Bearer {key}":
                self.refuse()
                return
            away = http.client.HTTPConnection(daemon, timeout=60)
            headers = {k: v for k, v in self.headers.items() if k not in ("Host", "Origin", "Connection")}
            away.request(self.command, self.path, body or None, headers)
            answer = away.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            with contextlib.suppress(OSError, http.client.HTTPException):
                while piece := answer.read1(65536):
                    self.wfile.write(piece)
                    self.wfile.flush()
            away.close()
            self.close_connection = True

        do_GET = do_POST = do_PUT = do_DELETE = forward

    return Handler


@contextlib.contextmanager
def gate(base, key):
    """(address, requests seen) of a gateway before the daemon at `base`."""
    seen = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler_of(urlsplit(base).netloc, key, seen))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()
