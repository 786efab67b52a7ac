// The form for a job. What is left as it is stays out of the specification, so that the server
// chooses it; the specification is shown as it will be sent.
import {all, freshKey, get, post, segment} from "./api.js";
import {announce, card, fill, h, setText} from "./dom.js";
import {field} from "./fields.js";
import {BANDWIDTH, COUNT, DATA, MORE, PROMOTE, REGULARIZATION, SCALES, SEARCH, STOP, TEST, WEBHOOK} from "./job_fields.js";
import {methodFields} from "./method_fields.js";
import {problemBox} from "./notices.js";
import {planBox} from "./plan.js";
import {integer} from "./format.js";

// Fields that go together into one object of the specification; read() is undefined when all of
// them are as they were.
function group(defs, pointer, changed) {
  const fields = defs.map((def) => field(def, `${pointer}/${def.key}`, changed));
  return {
    fields,
    elements: fields.map((one) => one.element),
    by: Object.fromEntries(fields.map((one) => [one.def.key, one])),
    read() {
      const object = {};
      for (const one of fields) {
        const {value} = one.read();
        if (value !== undefined && value !== "") object[one.def.key] = value;
      }
      return Object.keys(object).length ? object : undefined;
    },
    write(value) {
      fields.forEach((one) => one.write(value?.[one.def.key] ?? one.def.default));
    },
  };
}

function bare(name, own, key) {
  return Object.keys(own).length ? {[key]: name, ...own} : name;
}

// All parts of the form, and the specification that they make together.
export function jobForm(catalog, changed) {
  const data = group(DATA, "#", changed);
  const test = group(TEST, "#/test", changed);
  const scales = group(SCALES, "#/standardize", changed);
  const ridge = group([REGULARIZATION], "#", changed);
  const stop = group(STOP, "#/stop", changed);
  const search = group(SEARCH, "#/search", changed);
  const promote = group(PROMOTE, "#/promote", changed);
  const webhook = group(WEBHOOK, "#/webhook", changed);
  const more = group(MORE, "#", changed);
  const kernel = methodFields({label: "kernel", methods: [{name: "auto", title: "", help: "Chosen by the data.", parameters: []},
    ...catalog.kernels], pointer: "#/kernel", fallback: "auto", changed, also: ridge.elements,
  extra: (m) => (m.bandwidth || m.name === "auto" ? [BANDWIDTH] : [])});
  const preconditioner = methodFields({label: "preconditioner", methods: catalog.preconditioners, none: "the server's choice",
    pointer: "#/solver/preconditioner", fallback: "", changed});
  const centers = methodFields({label: "centers chosen by", methods: catalog.center_selectors, none: "none: every row is a center (solver auto: up to 250,000 rows)",
    pointer: "#/centers", nameKey: "method", fallback: "", changed, extra: (m) => [COUNT,
      ...(m.name === "file" ? [{key: "dataset", label: "data set of the centers", type: "string", required: true, help: "Its id."}] : [])]});
  const preconditionerBox = h("div", null, preconditioner.element);
  const centersBox = h("div", null, centers.element);
  const solver = methodFields({label: "solver", methods: catalog.solvers, pointer: "#/solver", fallback: "auto",
    changed() {
      fit();
      changed();
    }});

  // What the solver does not take is not asked for.
  function fit() {
    const method = solver.current();
    preconditionerBox.hidden = !method?.preconditioner;
    centersBox.hidden = !(method?.centers || method?.name === "auto");
  }
  fit();

  function readSolver() {
    const {name, own} = solver.read();
    if (!preconditionerBox.hidden) {
      const inner = preconditioner.read();
      if (inner.name) own.preconditioner = bare(inner.name, inner.own, "name");
    }
    return name === "auto" && !Object.keys(own).length ? undefined : bare(name, own, "name");
  }
  function readKernel() {
    const {name, own} = kernel.read();
    return name === "auto" && !Object.keys(own).length ? undefined : bare(name, own, "name");
  }
  function readTest() {
    const value = test.read();
    if (!value) return undefined;
    for (const key of ["dataset", "mask", "fraction"]) if (value[key] !== undefined) return {[key]: value[key]};
    return undefined;
  }
  function readCenters() {
    const {name, own} = centers.read();
    return centersBox.hidden || !name ? undefined : bare(name, own, "method");
  }

  const methods = [kernel, solver, preconditioner, centers];
  const groups = [data, test, scales, ridge, stop, search, promote, webhook, more];
  return {
    data, test, scales, ridge, stop, search, promote, webhook, more, kernel, solver, preconditionerBox, centersBox,
    // The visible fields, in the order of the page.
    fields: () => [...data.fields, ...test.fields, ...scales.fields, ...kernel.fields(), ...ridge.fields, ...solver.fields(),
      ...(preconditionerBox.hidden ? [] : preconditioner.fields()), ...(centersBox.hidden ? [] : centers.fields()),
      ...stop.fields, ...search.fields, ...promote.fields, ...webhook.fields, ...more.fields],
    spec() {
      const {target, ...rest} = data.read() ?? {};
      const spec = {...rest, target: target && JSON.parse(target), test: readTest(), standardize: scales.read(), kernel: readKernel(), ...ridge.read(),
        solver: readSolver(), centers: readCenters(), stop: stop.read(), search: search.read(),
        promote: promote.read(), webhook: webhook.read(), ...more.read()};
      return JSON.parse(JSON.stringify(spec)); // without what is undefined
    },
    write(spec) {
      groups.forEach((one) => one.write({}));
      data.write({...spec, target: ""});
      test.write(spec.test);
      scales.write(spec.standardize);
      ridge.write(spec);
      stop.write(spec.stop);
      search.write({...spec.search, folds: spec.search?.folds === "loo" ? null : spec.search?.folds});
      promote.write(spec.promote);
      webhook.write(spec.webhook);
      more.write(spec);
      methods.forEach((one, i) => one.write([spec.kernel, spec.solver, spec.solver?.preconditioner ?? null, spec.centers][i]));
      fit();
    },
  };
}

function unfold(one) {
  const details = one.element.closest("details");
  if (details) details.open = true;
}

// Puts what the server refused beside the fields that it points at; the first of them.
function blame(form, problem) {
  let first = null;
  for (const error of problem.errors) {
    const fits = form.fields().filter((one) => error.pointer === one.pointer || error.pointer.startsWith(`${one.pointer}/`) ||
      (one.pointer.startsWith(`${error.pointer}/`) && ["name", "method"].includes(one.def.key)));
    const one = fits.at(-1);
    if (!one) continue;
    one.fail(error.detail);
    unfold(one);
    first ??= one;
  }
  return first;
}

async function load() {
  const names = ["solvers", "kernels", "preconditioners", "center_selectors"];
  const [datasets, models, ...lists] = await Promise.all([all("/v1/datasets"), all("/v1/models"),
    ...names.map((name) => get(`/v1/${name}`))]);
  return {datasets, models, catalog: Object.fromEntries(names.map((name, i) => [name, lists[i].data]))};
}

function folded(title, ...body) {
  return h("details", {class: "card"}, h("summary", null, h("h2", null, title)), ...body);
}

function fieldset(title, ...elements) {
  return card(title, h("div", {class: "fields"}, ...elements));
}

// Choices are JSON, as the specification has them: a name, or an array where there are several.
function offerTargets(form, names, dataset, chosen = null) {
  const targets = [...names, ...(Array.isArray(chosen) ? [chosen] : [])];
  const words = Object.fromEntries(targets.map((one) => [JSON.stringify(one), [one].flat().join(", ")]));
  form.data.by.target.options(["", ...Object.keys(words)],
    {...words, "": dataset ? `default: ${[dataset.target].flat().join(", ")}` : "default"});
  if (chosen != null) form.data.by.target.write(JSON.stringify(chosen));
}

// The form on the page, with the specification and the button beside it.
// What a model of this data set may be called: the same, of what names hold.
export function modelName(name) {
  return name.replace(/\.[^.]*$/, "").replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^[^A-Za-z0-9]+/, "").slice(0, 64);
}

function build(root, {datasets, models, catalog}, [source, id]) {
  const preview = h("pre", {class: "spec", tabindex: 0, "aria-label": "The request"});
  const trouble = h("div");
  const draw = () => setText(preview, JSON.stringify(form.spec(), null, 2));
  const form = jobForm(catalog, () => {
    fill(trouble); // it was about what stood there before
    draw();
  });
  const titles = Object.fromEntries(datasets.map((d) => [d.id, `${d.name} (${integer(d.rows)} × ${integer(d.columns)})`]));
  form.data.by.dataset.options(["", ...datasets.map((d) => d.id)], {"": datasets.length ? "choose" : "none uploaded yet", ...titles});
  form.test.by.dataset.options(["", ...datasets.map((d) => d.id)], {"": "none", ...titles});

  async function columns(chosen = null) {
    const dataset = form.data.by.dataset.input.value;
    let names = [];
    if (dataset) {
      const whole = await get(`/v1/datasets/${segment(dataset)}`).catch(() => null);
      names = whole ? [...[whole.target].flat(), ...whole.features] : [];
      offerTargets(form, names, whole, chosen);
    }
    draw();
  }
  form.data.by.dataset.input.addEventListener("change", () => columns());
  const go = h("button", {type: "submit", class: "primary"}, "Train");
  const check = h("button", {type: "submit", class: "quiet"}, "Check");

  async function submit(event) {
    event.preventDefault();
    const only = event.submitter === check;
    fill(trouble);
    let first = null;
    for (const one of form.fields()) {
      const {error} = one.read();
      one.fail(error ?? null);
      if (error) first ??= one;
    }
    if (first) {
      unfold(first);
      first.focus();
      announce("Some fields are not right yet.");
      return;
    }
    go.disabled = check.disabled = true;
    try {
      if (only) {
        fill(trouble, planBox((await post("/v1/jobs?validate_only=true", form.spec())).plan));
        return;
      }
      const job = await post("/v1/jobs", form.spec(), {headers: {"Idempotency-Key": freshKey()}});
      announce("The job is queued.");
      location.hash = `#/jobs/${job.id}`;
    } catch (problem) {
      fill(trouble, problemBox(problem));
      if (problem.errors) blame(form, problem)?.focus();
    } finally {
      go.disabled = check.disabled = false;
    }
  }

  fill(root, h("form", {novalidate: true, onsubmit: submit},
    h("h1", {tabindex: -1}, "New job"),
    h("div", {class: "split form-split"},
      h("div", {class: "stack"},
        fieldset("Data", ...form.data.elements), card("Kernel and ridge", form.kernel.element),
        card("Solver", h("div", {class: "stack"}, form.solver.element, form.preconditionerBox, form.centersBox)),
        fieldset("When to stop", ...form.stop.elements),
        folded("Test rows and scales", h("div", {class: "fields"}, ...form.test.elements, ...form.scales.elements)),
        folded("Search for regularization and bandwidth", h("p", {class: "hint"},
          "Every pair is tried on the training rows; leave the fields above empty that are searched for."),
        h("div", {class: "fields"}, ...form.search.elements)),
        folded("When it is done", h("p", {class: "hint"}, "An alias for the new version, and somebody to tell."),
          h("div", {class: "fields"}, ...form.promote.elements, ...form.webhook.elements)),
        folded("More", h("div", {class: "fields"}, ...form.more.elements))),
      h("div", {class: "stack side sticky"}, card("Request", h("div", {class: "stack"},
        h("p", {class: "hint"}, "POST /v1/jobs. What is not in it, krrd chooses and reports."), preview, trouble,
        h("div", {class: "buttons"}, go, check))))),
    h("datalist", {id: "model-names"}, models.map((m) => h("option", {value: m.name})))));

  if (source === "data" && id) {
    form.data.by.dataset.write(id);
    form.data.by.model.write(modelName(datasets.find((d) => d.id === id)?.name ?? ""));
  }
  columns();
  draw();
  return {form, columns};
}

export function open(root, parts) {
  fill(root, h("h1", {tabindex: -1}, "New job"), h("p", {class: "empty"}, "Loading the parameter tables …"));
  let closed = false;
  (async () => {
    try {
      const [loaded, job] = await Promise.all([load(),
        parts[0] === "like" ? get(`/v1/jobs/${segment(parts[1])}`) : null]);
      if (closed) return;
      const {form, columns} = build(root, loaded, parts);
      if (job) {
        form.write(job.spec);
        await columns(job.spec.target);
      }
    } catch (problem) {
      if (!closed) fill(root, h("h1", {tabindex: -1}, "New job"), problemBox(problem));
    }
  })();
  return {title: "New job", close() { closed = true; }};
}
