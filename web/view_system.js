// Workers with their devices, and the methods that this krrd knows.
import {get} from "./api.js";
import {card, empty, fill, h, keyed, scrolling, setAttribute, setText} from "./dom.js";
import {bytes, clock, integer, rate} from "./format.js";
import {loadGauges} from "./gauges.js";
import {into, problemBox} from "./notices.js";
import {poll} from "./poll.js";

const HEADINGS = [["Worker", ""], ["Does", ""], ["State", ""], ["Device", ""], ["Memory", "num"], ["Kernel entries", "num"], ["Job", ""],
  ["Process", "num optional"], ["Restarts", "num"], ["Heard of", "num optional"]];
const KINDS = {solvers: "Solvers", kernels: "Kernels", preconditioners: "Preconditioners", center_selectors: "Center selectors"};

function row(first) {
  const cells = HEADINGS.map(([, kind]) => h("td", {class: kind}));
  const state = h("span", {class: "badge"});
  const why = h("span", {class: "hint"});
  const job = h("a");
  cells[2].append(state, " ", why);
  cells[6].append(job);
  const element = h("tr", null, h("th", {scope: "row"}, first.worker.name), cells.slice(1));
  return {element, update({worker, memory, entries}) {
    setText(cells[1], worker.kind === "train" ? "trains" : "predicts");
    setText(state, worker.state);
    setAttribute(state, "data-status", worker.state);
    setText(why, worker.quarantine_reason ? `${worker.quarantine_reason} until ${clock(worker.quarantined_until)}` : "");
    setText(cells[3], worker.device ?? "–");
    setText(cells[4], bytes(memory));
    setText(cells[5], worker.job ? rate(entries) : "–");
    setText(job, worker.job ? `…${worker.job.slice(-6)}` : "");
    setAttribute(job, "href", worker.job ? `#/jobs/${worker.job}` : null);
    setText(cells[7], worker.pid == null ? "–" : String(worker.pid));
    setText(cells[8], integer(worker.restarts));
    setText(cells[9], clock(worker.last_seen_at));
  }};
}

function range(parameter) {
  const low = parameter.exclusive_minimum != null ? `> ${parameter.exclusive_minimum}` : parameter.minimum != null ? `≥ ${parameter.minimum}` : "";
  const high = parameter.maximum != null ? `≤ ${parameter.maximum}` : "";
  const words = parameter.choices ? parameter.choices.join(", ") : [low, high].filter(Boolean).join(", ");
  return [words, parameter.auto ? "auto" : ""].filter(Boolean).join("; ");
}

function method(one) {
  return h("details", {class: "method-doc"}, h("summary", null, h("strong", null, one.name), " ", h("span", {class: "hint"}, one.title)),
    h("p", null, one.help), one.paper ? h("p", {class: "hint"}, one.paper) : null,
    one.parameters.length === 0 ? empty("No parameters.") : scrolling(`Parameters of ${one.name}`, h("table", null,
      h("thead", null, h("tr", null, ["Parameter", "Type", "Range", "Default", "What it is"].map((t) => h("th", {scope: "col"}, t)))),
      h("tbody", null, one.parameters.map((p) => h("tr", null, h("th", {scope: "row"}, h("code", null, p.key)), h("td", null, p.type), h("td", null, range(p)),
        h("td", null, JSON.stringify(p.default)), h("td", null, p.help)))))));
}

export function open(root, _parts, context) {
  const trouble = h("div");
  const body = h("tbody");
  const methods = h("div", {class: "columns"});
  fill(root, h("h1", {tabindex: -1}, "System"), trouble, h("div", {class: "stack"},
    card("Workers", scrolling("Workers", h("table", null, h("thead", null, h("tr", null, HEADINGS.map(([text, kind]) => h("th", {scope: "col", class: kind}, text)))), body))),
    methods));
  const list = poll(2, async () => {
    const [{data}, gauges] = await Promise.all([get("/v1/workers"), loadGauges().catch(() => null)]);
    keyed(body, data.map((worker) => ({worker, memory: gauges?.of("krrd_worker_resident_memory_bytes", {worker: worker.name}) ?? null,
      entries: gauges?.of("krrd_worker_kernel_entries_per_second", {worker: worker.name}) ?? null})), (one) => one.worker.name, row);
  }, (problem) => {
    fill(trouble, problem ? problemBox(problem, {live: false}) : null);
    context.reached(problem);
  });
  into(methods, () => Promise.all(Object.keys(KINDS).map((kind) => get(`/v1/${kind}`))),
    (lists) => lists.map((one, i) => card(Object.values(KINDS)[i], h("div", null, one.data.map(method)))));
  return {title: "System", close: () => list.stop()};
}
