"""HTTP by hand, for what no HTTP library would send."""

import socket

from requests.structures import CaseInsensitiveDict

import contract


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body


class Raw:
    """One connection. A write to a server that has closed is no error here: what counts is what it
    said before."""

    def __init__(self, base, timeout=20):
        host, port = base.removeprefix("http://").rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self.rest = b""
        self.asked = []  # (method, path) of requests whose answer has not been read

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def request(self, method, path, headers=(), body=b""):
        self.asked.append((method, path))
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
        return self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def more(self):
        """Appends what arrives; False at the end of the stream."""
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.rest += data
        return data != b""

    def until(self, mark):
        while mark not in self.rest:
            assert self.more(), f"ended before {mark!r}: {self.rest!r}"
        head, self.rest = self.rest.split(mark, 1)
        return head

    def exactly(self, count):
        while len(self.rest) < count:
            assert self.more(), f"ended after {len(self.rest)} of {count} bytes"
        data, self.rest = self.rest[:count], self.rest[count:]
        return data

    def answer(self, head_only=False):
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status = lines[0].split(" ", 2)[:2]
        assert version == "HTTP/1.1", lines[0]
        headers = CaseInsensitiveDict()
        for line in lines[1:]:
            key, value = line.split(":", 1)
            headers[key] = value.strip()
        length = 0 if head_only or status == "100" else int(headers.get("content-length", 0))
        answer = Answer(int(status), headers, self.exactly(length))
        if self.asked and answer.status != 100:
            method, path = self.asked.pop(0)
            # Without an id it is the HTTP library's answer to what was no request.
            if "X-Request-Id" in headers or answer.status not in (400, 413, 431):
                contract.check(method, path, answer.status, headers,
                               None if head_only else answer.body)
        return answer

    def closed(self):
        """Waits for the end of the stream; False when something else comes."""
        return self.rest == b"" and not self.more()
