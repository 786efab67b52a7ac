// Workers and the devices they have, as GET /v1/workers tells.
import {h, keyed, setAttribute, setText} from "./dom.js";
import {clock, rate, shortId} from "./format.js";

function row(worker) {
  const state = h("span", {class: "badge"});
  const device = h("span");
  const note = h("span", {class: "hint"});
  const element = h("li", null,
    h("div", {class: "line"}, h("strong", null, worker.name), state),
    h("div", {class: "hint"}, device, " ", note));
  return {element, update(next) {
    setText(state, next.state);
    setAttribute(state, "data-status", next.state);
    setText(device, [next.kind === "train" ? "trains" : "predicts", next.device].filter(Boolean).join(" on "));
    const words = [];
    if (next.job) words.push(`job ${shortId(next.job)}`);
    if (next.entries > 0) words.push(`${rate(next.entries)} kernel entries`);
    if (next.restarts) words.push(`restarted ${next.restarts} ×`);
    if (next.quarantine_reason) words.push(`${next.quarantine_reason} until ${clock(next.quarantined_until)}`);
    setText(note, words.length ? `· ${words.join(" · ")}` : "");
  }};
}

export function workersTable() {
  const element = h("ul", {class: "plain workers"});
  return {element, update(workers) {
    keyed(element, workers, (worker) => worker.name, row);
  }};
}
