// GET /metrics, read for the few numbers that no other answer has. A pure function but for load().
import {call} from "./api.js";

// [{name, labels: {…}, value}] of Prometheus's text.
export function parseMetrics(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, key, value] of (match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[key] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    }
    found.push({name: match[1], labels, value: Number(match[3])});
  }
  return found;
}

// {of(name, labels)}: the first value with these labels, or null.
export async function loadGauges() {
  const answer = await call("GET", "/metrics", {accept: "text/plain"});
  const all = parseMetrics(await answer.text());
  return {all, of(name, labels = {}) {
    return all.find((one) => one.name === name && Object.entries(labels).every(([k, v]) => one.labels[k] === v))?.value ?? null;
  }};
}
