// Server-sent events over fetch, which EventSource cannot do with an Authorization header.
import {call} from "./api.js";

// Splits a stream's text into events: feed(text) calls event({id, type, data}) for each whole one.
// Rules of the HTML standard, as far as krrd uses them (lines end in \n).
export function parser(event) {
  let rest = "";
  let fields = {};
  function line(text) {
    if (text === "") {
      if (fields.data !== undefined) event(fields);
      fields = {};
      return;
    }
    const colon = text.indexOf(":");
    if (colon === 0) return; // a comment, the heartbeat
    const name = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(colon + 1).replace(/^ /, "");
    const key = name === "event" ? "type" : name;
    if (key === "data" && fields.data !== undefined) fields.data += `\n${value}`;
    else if (["data", "type", "id"].includes(key)) fields[key] = value;
  }
  return (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    lines.forEach(line);
  };
}

// Reads events after `lastId` until the server ends the stream; throws when it breaks.
export async function listen(path, lastId, signal, onEvent) {
  const headers = lastId > 0 ? {"Last-Event-ID": String(lastId)} : {};
  const answer = await call("GET", path, {accept: "text/event-stream", headers, signal});
  const feed = parser((fields) => onEvent(JSON.parse(fields.data)));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    feed(value);
  }
}
