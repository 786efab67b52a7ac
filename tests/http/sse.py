"""Reading a stream of server-sent events by the rules of the HTML standard, as far as used here."""

import contextlib
import json

import contract


class Stream:
    """Iterates over ("comment", text) and ("event", id, type, data) until the server ends it."""

    def __init__(self, answer):
        self.answer = answer

    def __iter__(self):
        fields = {}
        for line in self.lines():
            if line.startswith(":"):
                yield ("comment", line[1:].strip())
            elif line:
                name, _, value = line.partition(":")
                value = value[1:] if value.startswith(" ") else value
                fields[name] = fields[name] + "\n" + value if name in fields else value
            else:
                event, fields = fields, {}
                if "data" in event:  # else "retry:" alone, say
                    yield self.event(event)
        assert not fields, f"the stream ended within an event: {fields}"

    def event(self, fields):
        data = contract.strict_json(fields["data"])
        contract.check_event(data)
        assert fields["id"] == str(data["id"]), fields
        assert fields["event"] == data["type"], fields
        return ("event", data["id"], data["type"], data)

    def lines(self):
        rest = b""
        for piece in self.answer.iter_content(chunk_size=None):
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.decode()
        assert not rest, f"the stream ended within a line: {rest!r}"

    def events(self):
        """The rest of the stream's events."""
        return [item[3] for item in self if item[0] == "event"]


@contextlib.contextmanager
def listen(session, url, last_event_id=None, timeout=60):
    headers = {"Accept": "text/event-stream"}
    if last_event_id is not None:
        headers["Last-Event-ID"] = str(last_event_id)
    with session.get(url, headers=headers, stream=True, timeout=timeout) as answer:
        assert answer.status_code == 200, answer.text
        assert answer.headers["Content-Type"].startswith("text/event-stream"), answer.headers
        yield Stream(answer)


def dump(events):
    return [json.dumps(event, sort_keys=True) for event in events]
