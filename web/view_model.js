// One model: its versions, what one of them is, aliases, a try-out, how it does on its test rows.
import {call, get, model as fetchModel, post, query, remove, segment} from "./api.js";
import {aliasPanel} from "./aliases.js";
import {confirm} from "./dialog.js";
import {announce, card, empty, facts, fill, h, scrolling, setAttribute, setText} from "./dom.js";
import {bytes, clock, duration, integer, number, plural, shortId} from "./format.js";
import {METRICS} from "./curves.js";
import {attempt, problemBox} from "./notices.js";
import {testPlots} from "./plots.js";
import {poll} from "./poll.js";
import {save} from "./save.js";
import {tryout} from "./tryout.js";

function kernelText(kernel) {
  if (!kernel) return null;
  return Object.entries(kernel).filter(([key]) => key !== "name").reduce((text, [key, value]) =>
    `${text}, ${key} ${Array.isArray(value) ? `${value.length} values` : number(value)}`, kernel.name);
}

// Of several targets each has its own; the metrics above are those of all of them.
export function targetFacts(targets) {
  return targets ? [["R² of each target", targets.slice(0, 8).map((one) => `${one.target} ${number(one.r2)}`).join(", ")]] : [];
}

export function metricFacts(metrics = {}) {
  return Object.entries(METRICS).filter(([key]) => metrics[key] != null).map(([key, name]) => [name, number(metrics[key])]);
}

// What the model knows of its own errors: only where its solver finds more than means.
function sureness(variance) {
  if (!variance) return [];
  const noise = variance.noise.slice(0, 8).map((value) => number(Math.sqrt(value))).join(", ");
  return [["Variance", `of the prediction, by ${plural(variance.directions, "direction")}`], ["Noise, standard deviation", noise]];
}

function about(model) {
  const d = model.description ?? {};
  const r = d.result ?? {};
  return h("div", {class: "stack"}, h("div", {class: "big"}, facts(metricFacts(r.metrics))),
    facts([["Task", d.task], ["Kernel", kernelText(d.kernel)], ["Ridge λ per row", number(d.regularization)],
      ["Solver", [r.solver, r.preconditioner].filter(Boolean).join(" · ")], ["Precision", d.precision],
      ["Residual, certified", r.relative_residual == null ? null : `${number(r.relative_residual)} (${r.certificate})`],
      ["Residual, whitened", r.whitened_residual == null ? null : number(r.whitened_residual)],
      ["Stopped", r.stop_reason?.replaceAll("_", " ")], ["Iterations", r.iterations > 0 ? integer(r.iterations) : null], ["Took", duration(r.seconds)],
      ["Training rows", integer(r.train_rows)], ["Test rows", integer(r.test_rows)], ["Centers", integer(d.centers)],
      ["Features", integer(d.features?.length)], ["Targets", d.targets?.slice(0, 8).join(", ")], ...targetFacts(r.target_metrics), ["Classes", d.classes?.slice(0, 12).join(", ")], ...sureness(d.variance),
      ["Size", bytes(model.bytes)], ["SHA-256", h("code", null, `${model.sha256.slice(0, 16)}…`)], ["Created", clock(model.created_at)],
      ["Job", model.job ? h("a", {href: `#/jobs/${model.job}`}, shortId(model.job)) : "none: it was imported"],
      ["Data set", model.dataset ? h("code", null, shortId(model.dataset)) : null]]));
}

function versionsTable(versions, chosen) {
  const classes = versions.some((one) => one.description?.task === "classification");
  return scrolling("Versions", h("table", null, h("thead", null, h("tr", null,
    [["Version", ""], ["State", ""], [classes ? "Accuracy" : "SMAPE", "num"]]
      .map(([text, kind]) => h("th", {scope: "col", class: kind}, text)))),
  h("tbody", null, versions.map((one) => {
    const m = one.description?.result?.metrics ?? {};
    return h("tr", {class: one.version === chosen ? "chosen" : ""},
      h("th", {scope: "row"}, h("a", {href: `#/models/${one.name}/${one.version}`, "aria-current": one.version === chosen ? "true" : null}, `v${one.version}`), " ",
        h("span", {class: "hint"}, (one.aliases ?? []).join(", "))),
      h("td", null, h("span", {class: "badge", "data-status": one.state}, one.state)), h("td", {class: "num"}, number(classes ? m.accuracy : m.smape)));
  }))));
}

function actions(model, changed) {
  const path = `/v1/models/${segment(model.name)}/versions/${model.version}`;
  const name = `${model.name} v${model.version}`;
  const act = (word) => {
    const button = h("button", {type: "button", class: "quiet", onclick: async () => {
      if (await attempt(button, () => post(`${path}/${word}`))) {
        announce(`${name} is ${word}ed.`);
        changed();
      }
    }}, word === "load" ? "Load" : "Unload");
    return button;
  };
  const drop = h("button", {type: "button", class: "danger-quiet", onclick: async () => {
    const sure = await confirm(`Delete ${name}?`, "The version is removed for good; its number is not used again.", "Delete the version");
    if (sure && await attempt(drop, () => remove(path))) location.hash = "#/models";
  }}, "Delete");
  return h("div", {class: "buttons"}, model.state === "loaded" ? act("unload") : act("load"), drop);
}

// The version as a file, for other programs.
function exports(model) {
  const path = `/v1/models/${segment(model.name)}/versions/${model.version}/export`;
  const button = (format, word) => {
    const element = h("button", {type: "button", class: "quiet", "aria-label": `Export as ${word}`, onclick: () => attempt(element, async () => {
      const answer = await call("GET", query(path, {format}), {accept: "*/*"});
      save(await answer.blob(), `${model.name}-v${model.version}.${format}`);
      announce(`${model.name} v${model.version} is exported.`);
    })}, word);
    return element;
  };
  return h("div", {class: "stack"}, h("p", {class: "hint"}, "All that it takes to predict, raw units in and out."),
    h("div", {class: "buttons"}, button("safetensors", "safetensors"), button("onnx", "ONNX")));
}

export function open(root, [name, version], context) {
  const plots = testPlots();
  let closed = false;
  let show = null; // (the model's answer) once the page stands
  let missing = false;
  fill(root, h("h1", {tabindex: -1}, name), empty("Loading …"));

  async function draw() {
    let whole;
    try {
      whole = await fetchModel(name, version);
    } catch (problem) {
      missing = problem.status === 404;
      if (!closed) fill(root, h("h1", {tabindex: -1}, name), problemBox(problem));
      return;
    }
    if (closed) return;
    const model = whole.versions.find((one) => String(one.version) === version) ?? (version ? null : whole.versions[0]);
    missing = !model;
    if (missing) {
      fill(root, h("h1", {tabindex: -1}, name), problemBox({title: "No such version", detail: `${name} has no version ${version}.`}));
      return;
    }
    const aliases = aliasPanel(name, model.version, draw);
    const state = h("span", {class: "badge"});
    const buttons = h("div");
    const versions = h("div");
    let seen = null;
    // What may change while somebody looks: what they have typed stays.
    show = (now) => {
      const one = now.versions.find((each) => each.version === model.version);
      const text = JSON.stringify(now.versions.map((each) => [each.version, each.state, each.aliases]));
      if (!one || text === seen) return;
      seen = text;
      setText(state, one.state);
      setAttribute(state, "data-status", one.state);
      fill(buttons, actions(one, () => list.now()));
      fill(versions, versionsTable(now.versions, one.version));
    };
    fill(root, h("h1", {tabindex: -1}, `${name} v${model.version} `, state),
      h("div", {class: "split"},
        h("div", {class: "stack"}, card("What it is", about(model), {beside: buttons}), card("Try it", tryout(model)), card("On its test rows", plots.element)),
        h("div", {class: "stack side"}, card("Versions", versions), card("Aliases", aliases.element), card("Export", exports(model)))));
    show(whole);
    aliases.load();
    if (model.description?.result?.test_rows > 0) plots.load(model.job);
    else fill(plots.element, empty(model.job ? "The job had no test rows." : "The model was imported: what it was tested on is not known."));
  }
  const list = poll(3, async () => {
    if (show) show(await fetchModel(name, version));
    else if (!missing) await draw();
  }, (problem) => context.reached(problem));
  return {title: name, close() {
    closed = true;
    list.stop();
    plots.close();
  }};
}
