// Trying a model: a form made of its features, or rows that are pasted.
import {get, post, query, segment} from "./api.js";
import {empty, fill, freshId, h, scrolling} from "./dom.js";
import {exact, number, plural} from "./format.js";
import {problemBox} from "./notices.js";
import {isMissing, parseRows, RowsError, toCsv} from "./rows.js";
import {save} from "./save.js";

const MOST_FIELDS = 60;
const SHOWN_ROWS = 200;

// " ± 0.2", a standard deviation, where the answer has variances: of row i's k-th number.
function spread(answer, i, k) {
  return answer.variances ? ` ± ${number(Math.sqrt([answer.variances[i]].flat()[k]), 2)}` : "";
}

function scores(answer, i) {
  if (!answer.scores) return "";
  return answer.classes.map((name, k) => [name, answer.scores[i][k], spread(answer, i, k)]).sort((a, b) => b[1] - a[1]).slice(0, 3)
    .map(([name, score, more]) => `${name} ${number(score)}${more}`).join(", ");
}

function flat(answer, model) {
  const targets = model.description.targets ?? ["prediction"];
  return {
    names: Array.isArray(answer.predictions[0]) ? targets : [targets.length === 1 ? targets[0] : "prediction"],
    rows: answer.predictions.map((value) => [value].flat()),
  };
}

function table(answer, rows, model, all) {
  const {names, rows: values} = flat(answer, model);
  const features = all.slice(0, 6);
  return scrolling("Predictions", h("table", null,
    h("thead", null, h("tr", null, h("th", {scope: "col", class: "num"}, "Row"), names.map((name) => h("th", {scope: "col", class: "num"}, name)),
      answer.scores ? h("th", {scope: "col"}, "Scores") : null, features.map((name) => h("th", {scope: "col", class: "num hint"}, name)))),
    h("tbody", null, values.slice(0, SHOWN_ROWS).map((cells, i) => h("tr", null, h("td", {class: "num hint"}, i + 1),
      cells.map((cell, k) => h("td", {class: "num"}, h("strong", null, exact(cell)), answer.scores ? null : h("span", {class: "hint"}, spread(answer, i, k)))),
      answer.scores ? h("td", {class: "hint"}, scores(answer, i)) : null,
      features.map((_, j) => h("td", {class: "num hint"}, number(rows[i][j]))))))));
}

function saveLink(answer, rows, model, features) {
  const {names, rows: values} = flat(answer, model);
  const sure = (i) => answer.variances ? [answer.variances[i]].flat() : [];
  const behind = answer.variances ? (answer.classes ?? names).map((name) => `${name}_variance`) : [];
  const text = toCsv([...features, ...names, ...behind], rows.map((row, i) => [...row, ...values[i], ...sure(i)]));
  return h("button", {type: "button", class: "quiet",
    onclick: () => save(new Blob([text], {type: "text/csv"}), `${model.name}-v${model.version}.csv`)}, "Save as CSV");
}

function inputs(features, required) {
  return features.map((name) => {
    const id = freshId("x");
    const input = h("input", {id, type: "text", inputmode: "decimal", autocomplete: "off", required});
    return {name, input, element: h("div", {class: "field"}, h("label", {for: id}, name), input)};
  });
}

// The values of a row of the data set that the model was trained on, if it is still there.
async function example(model) {
  const base = `/v1/datasets/${segment(model.dataset)}/preview`;
  const {columns, rows} = await get(query(base, {rows: 20}));
  const row = rows[Math.floor(Math.random() * rows.length)];
  return Object.fromEntries(columns.map((name, i) => [name, row[i]]));
}

export function tryout(model) {
  const told = model.description.indicates ?? []; // features that the server makes of what is missing
  const features = (model.description.features ?? []).filter((_, j) => (told[j] ?? null) === null);
  const path = `/v1/models/${segment(model.name)}/versions/${model.version}/predict`;
  const out = h("div", {"aria-live": "polite", class: "stack"});
  const lacks = model.description.fill != null; // what is missing is filled in
  const fields = features.length <= MOST_FIELDS ? inputs(features, !lacks) : [];
  const id = freshId("rows");
  const words = features.some((name) => name.includes("=")); // may be a column of words
  const passing = h("input", {type: "checkbox", id: freshId("pass")});
  const area = h("textarea", {id, spellcheck: "false", placeholder: `${features.slice(0, 4).join(",")}${features.length > 4 ? ",…" : ""}\n…`});

  // Words that the model does not know, of the rows that were read last.
  let unknown = 0;
  function pass(why) {
    if (!passing.checked) throw new RowsError(`${why} With “Let unknown words pass” it counts as none of those that it knows.`);
    unknown += 1;
  }
  async function predict(event, read) {
    event.preventDefault();
    const button = event.submitter;
    try {
      unknown = 0;
      const rows = read();
      if (button) button.disabled = true;
      fill(out, empty("Predicting …"));
      const begun = performance.now();
      const answer = await post(path, {instances: rows, return_variance: model.description.variance != null});
      const took = performance.now() - begun;
      fill(out, h("p", {class: "hint"}, `${plural(rows.length, "prediction")} of ${answer.model} v${answer.version} in ${took.toFixed(0)} ms, the way included.`,
        unknown ? ` The model does not know ${unknown} of the words.` : "",
        rows.length > SHOWN_ROWS ? ` The first ${SHOWN_ROWS} are shown.` : "",
        answer.variances ? " Behind ± stands the standard deviation of the function; an observation has the noise besides." : ""), table(answer, rows, model, features), h("div", {class: "buttons"}, saveLink(answer, rows, model, features)));
    } catch (problem) {
      if (problem instanceof RowsError) fill(out, problemBox({title: "These rows cannot be read", detail: problem.message}));
      else fill(out, problemBox(problem));
    } finally {
      if (button) button.disabled = false;
    }
  }
  function readFields() {
    let bad = null;
    const row = fields.map(({name, input}) => {
      const none = input.value.trim() === "";
      const value = none ? NaN : Number(input.value);
      input.toggleAttribute("aria-invalid", false);
      if (lacks && isMissing(input.value)) return null;
      if (!Number.isFinite(value)) {
        input.setAttribute("aria-invalid", "true");
        bad ??= {name, input};
      }
      return value;
    });
    if (!bad) return [row];
    bad.input.focus();
    throw new RowsError(`“${bad.name}” needs a number.`);
  }
  const fillIn = !model.dataset ? null : h("button", {type: "button", class: "quiet", onclick: async () => {
    try {
      const values = await example(model);
      fields.forEach(({name, input}) => { if (name in values) input.value = String(values[name]); });
    } catch (problem) {
      fill(out, problemBox(problem.status === 404 ? {title: "No example", detail: "The data set that the model was trained on is gone."} : problem));
    }
  }}, "Fill in an example");

  return h("div", {class: "stack"},
    fields.length ? h("form", {novalidate: true, "aria-label": "One row", onsubmit: (event) => predict(event, readFields)},
      h("div", {class: "fields tight"}, fields.map((one) => one.element)),
      h("div", {class: "buttons"}, h("button", {type: "submit", class: "primary"}, "Predict"), fillIn)) : null,
    h("details", {open: fields.length === 0}, h("summary", null, "Paste rows"),
      h("form", {novalidate: true, "aria-label": "Several rows", onsubmit: (event) => predict(event, () => parseRows(area.value, features, lacks, pass))},
        h("label", {for: id}, "Rows, as CSV or JSON"), area,
        h("p", {class: "hint"}, "With a header row or as objects, columns are found by name; else they stand in the order of the features.", lacks ? " What is missing may be left empty, or be NA, NaN, ? and the like; in JSON it is null." : "",
          words ? " Columns of words may be there as they were in the table." : ""),
        words ? h("div", {class: "field"}, h("label", {for: passing.id}, "Let unknown words pass"), passing,
          h("span", {class: "hint"}, "They count as none of the words that the model knows.")) : null,
        h("div", {class: "buttons"}, h("button", {type: "submit", class: "primary"}, "Predict rows")))),
    out);
}
