// Data sets: bringing them here by drop or choice, looking at their first rows, deleting them.
import {all, get, query, remove, segment} from "./api.js";
import {confirm} from "./dialog.js";
import {announce, card, empty, facts, fill, freshId, h, keyed, scrolling, setAttribute, setText} from "./dom.js";
import {bytes, clock, duration, integer, number, percent, plural, rate, remaining, shortId} from "./format.js";
import {attempt, into, problemBox} from "./notices.js";
import {poll} from "./poll.js";
import {cells, separatorOf} from "./rows.js";
import {columnsOf, kindOf, upload} from "./upload.js";

function labelled(label, control, hint) {
  const id = freshId("up");
  control.id = id;
  return h("div", {class: "field"}, h("label", {for: id}, label), control, hint ? h("span", {class: "hint"}, hint) : null);
}

// The line of an upload that runs: how far, how fast, how long still; then what came of it.
function journey(file, options, done) {
  const abort = new AbortController();
  const begun = performance.now();
  const inner = h("span", {class: "bar-fill"});
  const bar = h("span", {class: "progress", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100,
    "aria-label": `Upload of ${file.name}`}, inner);
  const words = h("span", {class: "hint"});
  const stop = h("button", {type: "button", class: "small danger-quiet", onclick: () => abort.abort()}, "Stop");
  const result = h("div", {role: "status"});
  const element = h("li", {class: "upload"}, h("div", {class: "line"}, h("strong", null, file.name), stop), bar, words, result);

  function progress(sent, of) {
    const seconds = (performance.now() - begun) / 1000;
    const speed = sent / Math.max(seconds, 0.001);
    const left = seconds >= 1 && sent > 0 ? remaining((of - sent) / speed) : ""; // the first pieces fill buffers
    inner.style.width = percent(sent / of, 1).replace(" ", "");
    setAttribute(bar, "aria-valuenow", Math.round(100 * sent / of));
    setText(words, sent < of
      ? [`${bytes(sent)} of ${bytes(of)}`, sent > 0 && rate(speed, "B/s"), left].filter(Boolean).join(" · ")
      : `${bytes(of)} sent in ${duration(seconds)}; krrd reads them …`);
  }
  progress(0, Math.max(file.size, 1));
  upload(file, options, {progress, signal: abort.signal}).then((dataset) => {
    bar.remove();
    stop.remove();
    setText(words, "");
    fill(result, h("div", {class: "notice good"}, h("p", null, `${dataset.name}: ${plural(dataset.rows, "row")}, `,
      `${plural(dataset.columns, "column")}, ${dataset.task} of ${[dataset.target].flat().join(", ")}. `,
      h("a", {href: `#/new/data/${dataset.id}`}, "Train on it")),
    dataset.warnings.length ? h("ul", null, dataset.warnings.map((text) => h("li", null, text))) : null));
    announce(`${dataset.name} is uploaded.`);
    done();
  }, (problem) => {
    bar.remove();
    stop.remove();
    setText(words, "");
    fill(result, problemBox(problem));
  });
  return element;
}

// The zone that files are dropped on, and what is asked of each before it leaves.
function uploads(done) {
  const pick = h("input", {type: "file", multiple: true, class: "hidden", id: freshId("file"), tabindex: -1, "aria-hidden": "true",
    accept: ".csv,.tsv,.txt,.gz,.libsvm,.svm,.npy,.npz"});
  const button = h("button", {type: "button", class: "primary", onclick: () => pick.click()}, "Choose files");
  const waiting = h("div", {class: "stack"});
  const running = h("ul", {class: "plain stack"});
  const zone = h("div", {class: "drop"}, h("p", null, "Drop tables here, or ", button, pick),
    h("p", {class: "hint"}, "CSV (also .gz), LIBSVM, NPY, NPZ. A text target becomes class labels."));

  async function offer(file) {
    const kind = kindOf(file.name);
    const name = h("input", {type: "text", value: kind.stem, maxlength: 200});
    const target = h("input", {type: "text", placeholder: "last column", list: freshId("columns"), autocomplete: "off"});
    const task = h("select", null, ["auto", "regression", "classification"].map((t) => h("option", {value: t}, t)));
    const format = h("select", null, h("option", {value: ""}, kind.type ? `by name: ${kind.type}` : "CSV"),
      ["csv", "libsvm", "npy", "npz"].map((f) => h("option", {value: f}, f)));
    const ignore = h("input", {type: "text", list: target.getAttribute("list"), autocomplete: "off"});
    const list = (text) => text.split(",").map((t) => t.trim()).filter(Boolean);
    const oneHot = h("input", {type: "checkbox"});
    const missing = h("select", null, [["", "refuse the table"], ["drop", "leave out their rows"], ["fill", "fill them in"], ["indicate", "fill them in, and tell where"]].map(([value, text]) => h("option", {value}, text)));
    const decimal = h("select", null, [["", "point: 1.5"], ["comma", "comma: 1,5"]].map(([value, text]) => h("option", {value}, text)));
    const columns = h("datalist", {id: target.getAttribute("list")});
    const form = h("form", {class: "offer", "aria-label": `Upload ${file.name}`, onsubmit: (event) => {
      event.preventDefault();
      form.remove();
      running.prepend(journey(file, {name: name.value.trim(), target: list(target.value), ignore: list(ignore.value),
        task: task.value === "auto" ? "" : task.value, format: format.value, one_hot: oneHot.checked ? "true" : "",
        missing: missing.value, decimal: decimal.value}, done));
    }}, h("div", {class: "line"}, h("strong", null, file.name), h("span", {class: "hint"}, bytes(file.size))),
    h("div", {class: "fields"}, labelled("Name", name), labelled("Target", target, "A column, or several with commas."),
      labelled("Leave out", ignore, "Columns of words or dates, say; several with commas."), labelled("Task", task), labelled("Format", format), labelled("Text columns as 0/1", oneHot),
      labelled("Missing values", missing, "Empty cells, NA, NaN, ? and the like."),
      labelled("Decimal sign", decimal, "Of a CSV; with commas, semicolons or tabs part the cells.")), columns,
    h("div", {class: "buttons"}, h("button", {type: "submit", class: "primary"}, "Upload"),
      h("button", {type: "button", class: "quiet", onclick: () => form.remove()}, "Leave it")));
    waiting.append(form);
    target.focus();
    const names = await columnsOf(file, (line) => cells(line, separatorOf(line))).catch(() => []);
    fill(columns, names.map((one) => h("option", {value: one})));
    if (names.length) target.placeholder = `last column: ${names.at(-1)}`;
  }
  pick.addEventListener("change", () => {
    [...pick.files].forEach(offer);
    pick.value = "";
  });
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    [...event.dataTransfer.files].forEach(offer);
  });
  return h("div", {class: "stack"}, zone, waiting, running);
}

async function preview(id, place) {
  await into(place, () => Promise.all([get(`/v1/datasets/${segment(id)}`), get(query(`/v1/datasets/${segment(id)}/preview`, {rows: 8}))]),
    ([whole, first]) => h("div", {class: "stack"},
      facts([["Id", h("code", null, whole.id)], ["Task", whole.task], ["Target", [whole.target].flat().join(", ")],
        ["Classes", whole.classes.length ? whole.classes.slice(0, 20).join(", ") : null], ["Stored as", whole.dtype],
        ["SHA-256", h("code", null, `${whole.sha256.slice(0, 16)}…`)]]),
      whole.warnings.length ? h("ul", {class: "notice warn"}, whole.warnings.map((text) => h("li", null, text))) : null,
      scrolling(`First rows of ${whole.name}`, h("table", null,
        h("thead", null, h("tr", null, first.columns.map((name) => h("th", {scope: "col", class: "num"}, name)))),
        h("tbody", null, first.rows.map((row) => h("tr", null, row.map((v) => h("td", {class: "num"}, number(v, 5))))))))));
}

function row(dataset, changed) {
  const place = h("td", {colspan: 8});
  const more = h("tr", {class: "more", hidden: true}, place);
  const look = h("button", {type: "button", class: "small quiet", "aria-expanded": "false", onclick: () => {
    more.hidden = !more.hidden;
    look.setAttribute("aria-expanded", String(!more.hidden));
    if (!more.hidden) preview(dataset.id, place);
  }}, "Look");
  const drop = h("button", {type: "button", class: "small danger-quiet", onclick: async () => {
    const sure = await confirm(`Delete ${dataset.name}?`, "The rows are removed. Models that were trained on them stay.", "Delete the data set");
    if (sure && await attempt(drop, () => remove(`/v1/datasets/${segment(dataset.id)}`))) changed();
  }}, "Delete");
  for (const [button, word] of [[look, "Look at"], [drop, "Delete"]]) button.setAttribute("aria-label", `${word} ${dataset.name}`);
  return {element: h("tbody", null, h("tr", null, h("th", {scope: "row"}, dataset.name === dataset.id ? null : [dataset.name, " "], h("span", {class: "hint mono"}, shortId(dataset.id))),
    h("td", {class: "num"}, integer(dataset.rows)), h("td", {class: "num"}, integer(dataset.columns)), h("td", null, [dataset.target].flat().join(", ")),
    h("td", {class: "optional"}, dataset.task), h("td", {class: "num optional"}, bytes(dataset.bytes)), h("td", {class: "num optional"}, clock(dataset.created_at)),
    h("td", null, h("div", {class: "buttons"}, look, h("a", {class: "button small", href: `#/new/data/${dataset.id}`}, "Train"), drop))), more)};
}

export function open(root, _parts, context) {
  const trouble = h("div");
  const none = empty("No data sets yet.");
  none.hidden = true;
  const table = h("table", {class: "named"}, h("thead", null, h("tr", null,
    [["Name", ""], ["Rows", "num"], ["Columns", "num"], ["Target", ""], ["Task", "optional"], ["Size", "num optional"], ["Created", "num optional"], ["Actions", ""]]
      .map(([text, kind]) => h("th", {scope: "col", class: kind}, text)))));
  const holder = scrolling("Data sets", table);
  const head = {element: table.tHead, update() {}};
  fill(root, h("h1", {tabindex: -1}, "Data"), h("div", {class: "stack"}, card("Upload", uploads(() => list.now())), trouble,
    card("Data sets", h("div", null, none, holder))));
  const list = poll(10, async () => {
    const sets = await all("/v1/datasets", {}, 300);
    none.hidden = sets.length > 0;
    holder.hidden = sets.length === 0;
    keyed(table, [{id: "head"}, ...sets], (one) => one.id, (one) => (one.id === "head" ? head : row(one, () => list.now())));
  }, (problem) => {
    fill(trouble, problem ? problemBox(problem, {live: false}) : null);
    context.reached(problem);
  });
  return {title: "Data", close: () => list.stop()};
}
