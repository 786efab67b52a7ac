// Devices, the workers on them, and the methods that this krrd knows.
import {get} from "./api.js";
import {card, empty, fill, h, keyed, scrolling, setAttribute, setText} from "./dom.js";
import {bytes, clock, integer, rate} from "./format.js";
import {loadGauges} from "./gauges.js";
import {into} from "./notices.js";
import {panel} from "./panel.js";

const HEADINGS = [["Worker", ""], ["Does", ""], ["State", ""], ["Device", ""], ["Memory", "num"], ["Kernel entries", "num"], ["Job", ""],
  ["Process", "num optional"], ["Restarts", "num"], ["Heard of", "num optional"]];
const DEVICE_HEADINGS = [["Device", ""], ["Workers", "num"], ["Memory", ""], ["Kernel entries", "num"], ["Measured, float32", "num"],
  ["Measured, float64", "num"]];
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

// "112 MiB taken by workers, 18.0 GiB free of 23.5 GiB"; memory of a device's own has a size alone.
function memoryWords({total_bytes: total, free_bytes: free, workers_bytes: workers}) {
  return free == null ? bytes(total) : `${bytes(workers)} taken by workers, ${bytes(free)} free of ${bytes(total)}`;
}

function deviceRow(first) {
  const cells = DEVICE_HEADINGS.map(([, kind]) => h("td", {class: kind}));
  const element = h("tr", null, h("th", {scope: "row"}, first.name), cells.slice(1));
  return {element, update(device) {
    const {threads, workers, busy_workers: busy, memory, kernel_entries_per_s: entries, rates} = device;
    setText(cells[1], `${integer(busy)} of ${integer(workers.length)} busy, ${integer(threads)} ${threads === 1 ? "thread" : "threads"} each`);
    setText(cells[2], memoryWords(memory));
    setText(cells[3], entries > 0 ? rate(entries) : "–");
    setText(cells[4], rate(rates?.kernel_values_float32_per_s ?? null));
    setText(cells[5], rate(rates?.kernel_values_float64_per_s ?? null));
  }};
}

function head(headings) {
  return h("thead", null, h("tr", null, headings.map(([text, kind]) => h("th", {scope: "col", class: kind}, text))));
}

// "integer ≥ 1, ≤ 100; auto. Default auto."
function kindOf(parameter) {
  const low = parameter.exclusive_minimum != null ? `> ${parameter.exclusive_minimum}` : parameter.minimum != null ? `≥ ${parameter.minimum}` : "";
  const high = parameter.maximum != null ? `≤ ${parameter.maximum}` : "";
  const words = parameter.choices ? parameter.choices.join(", ") : [low, high].filter(Boolean).join(", ");
  const kind = parameter.choices ? words : [parameter.type, words].filter(Boolean).join(" ");
  return `${kind}${parameter.auto ? "; auto" : ""}. Default ${parameter.default ?? "none"}.`;
}

function method(one) {
  return h("details", {class: "method-doc"}, h("summary", null, h("strong", null, one.name), " ", h("span", {class: "hint"}, one.title)),
    h("p", null, one.help), one.paper ? h("p", {class: "hint"}, one.paper) : null,
    one.parameters.length === 0 ? empty("No parameters.") : h("dl", {class: "parameters"}, one.parameters.flatMap((p) => [
      h("dt", null, h("code", null, p.key), " ", h("span", {class: "hint"}, kindOf(p))), h("dd", null, p.help)])));
}

export function open(root, _parts, context) {
  const body = h("tbody");
  const devices = h("tbody");
  const methods = h("div", {class: "columns"});
  const machines = panel(2, () => get("/v1/devices"), ({data}) => keyed(devices, data, (one) => one.name, deviceRow), context);
  const unmeasured = h("p", {class: "hint"}); // why memory and rates are missing
  const workers = panel(2, () => Promise.all([get("/v1/workers"), loadGauges().catch((problem) => ({of: () => null, problem}))]), ([{data}, gauges]) => {
    setText(unmeasured, gauges.problem ? `Memory and kernel entries are not known: ${gauges.problem.message}` : "");
    keyed(body, data.map((worker) => ({worker, memory: gauges.of("krrd_worker_resident_memory_bytes", {worker: worker.name}),
      entries: gauges.of("krrd_worker_kernel_entries_per_second", {worker: worker.name})})), (one) => one.worker.name, row);
  }, context);
  fill(root, h("h1", {tabindex: -1}, "System"), h("div", {class: "stack"},
    card("Devices", h("div", {class: "stack"}, machines.trouble, scrolling("Devices", h("table", null, head(DEVICE_HEADINGS), devices)),
      h("p", {class: "hint"}, "Kernel entries: what jobs compute in a second now. Measured: by a worker as it started, with all its threads."))),
    card("Workers", h("div", {class: "stack"}, workers.trouble, scrolling("Workers", h("table", null, head(HEADINGS), body)), unmeasured)),
    methods));
  for (const [kind, title] of Object.entries(KINDS)) {
    const list = h("div");
    methods.append(card(title, list));
    into(list, () => get(`/v1/${kind}`), (one) => one.data.map(method));
  }
  return {title: "System", close() {
    machines.stop();
    workers.stop();
  }};
}
