// How a model does on its test rows: truth against prediction, residuals, confusions.
import {get, query, segment} from "./api.js";
import {chart} from "./charts.js";
import {empty, fill, h, scrolling} from "./dom.js";
import {integer, number, percent, plural} from "./format.js";

const SHOWN = 1000;
const BINS = 31;

// Truth and prediction of one target; without rows whose prediction is null, which no axis has a place for.
export function pointsOf(sample, target) {
  const take = (row) => (Array.isArray(row) ? row[target] : row);
  return sample.truth.map((row, i) => ({truth: take(row), predicted: take(sample.predictions[i])}))
    .filter((point) => point.predicted !== null);
}

export function histogram(values, bins = BINS) {
  const size = Math.max(...values.map(Math.abs));
  if (!(size > 0)) return [{x: 0, y: values.length}];
  const counts = Array(bins).fill(0);
  for (const v of values) counts[Math.min(bins - 1, Math.floor((v / size + 1) / 2 * bins))] += 1;
  return counts.map((y, i) => ({x: ((i + 0.5) / bins * 2 - 1) * size, y}));
}

function regression(sample, closers) {
  const pictures = [
    chart("scatter", {title: "Prediction against truth", x: "Truth", y: "Prediction", nothing: ""}),
    chart("scatter", {title: "Residual against truth", x: "Truth", y: "Prediction − truth", nothing: ""}),
    chart("bar", {title: "Residuals", x: "Prediction − truth", y: "Test rows", nothing: ""}),
  ];
  pictures.forEach((picture) => closers.push(() => picture.close()));
  const dots = {pointRadius: 2, borderWidth: 0};
  function draw(target) {
    const points = pointsOf(sample, target);
    const low = Math.min(...points.map((p) => Math.min(p.truth, p.predicted)));
    const high = Math.max(...points.map((p) => Math.max(p.truth, p.predicted)));
    const line = (from, to) => ({label: "exact", ink: "--muted", type: "line", borderDash: [5, 4], borderWidth: 1, pointRadius: 0, data: [from, to]});
    const off = points.map((p) => p.predicted - p.truth);
    const worst = Math.max(...off.map(Math.abs));
    pictures[0].draw([{label: "test rows", slot: 0, ...dots, data: points.map((p) => ({x: p.truth, y: p.predicted}))},
      line({x: low, y: low}, {x: high, y: high})], {summary: `${plural(points.length, "row")} from ${number(low)} to ${number(high)}.`});
    pictures[1].draw([{label: "test rows", slot: 1, ...dots, data: points.map((p, i) => ({x: p.truth, y: off[i]}))},
      line({x: low, y: 0}, {x: high, y: 0})], {summary: `Largest difference ${number(worst)}.`});
    pictures[2].draw([{label: "test rows", slot: 0, barPercentage: 1, categoryPercentage: 1, data: histogram(off)}],
      {summary: `Differences up to ${number(worst)} either way.`});
  }
  const choose = sample.targets.length > 1
    ? h("label", {class: "choice"}, "Target ", h("select", {onchange: (event) => draw(Number(event.target.value))},
      sample.targets.map((name, i) => h("option", {value: i}, name)))) : null;
  draw(0);
  return h("div", {class: "stack"}, choose, h("div", {class: "triple"}, pictures.map((picture) => picture.element)));
}

function classification(sample) {
  const classes = sample.classes;
  const at = new Map(classes.map((name, i) => [name, i]));
  const counts = classes.map(() => Array(classes.length).fill(0));
  sample.truth.forEach((name, i) => { counts[at.get(name)][at.get(sample.predictions[i])] += 1; });
  const most = Math.max(...counts.flat());
  const cell = (count, right) => {
    const td = h("td", {class: `num ${count ? right ? "right" : "off" : ""}`}, integer(count));
    td.style.setProperty("--share", String(count / most));
    return td;
  };
  return scrolling("Confusion of classes", h("table", {class: "confusion"},
    h("caption", null, "Rows: the truth. Columns: what is predicted."),
    h("thead", null, h("tr", null, h("th", {scope: "col"}, "Truth"), classes.map((name) => h("th", {scope: "col", class: "num"}, name)),
      h("th", {scope: "col", class: "num"}, "Found"))),
    h("tbody", null, counts.map((row, i) => {
      const all = row.reduce((a, b) => a + b, 0);
      return h("tr", null, h("th", {scope: "row"}, classes[i]), row.map((count, j) => cell(count, i === j)),
        h("td", {class: "num"}, all ? percent(row[i] / all, 1) : "–"));
    }))));
}

// {element, load(job id), close()}.
export function testPlots() {
  const element = h("div");
  const closers = [];
  const close = () => closers.splice(0).forEach((one) => one());
  return {element, close, async load(job) {
    close();
    try {
      const sample = await get(query(`/v1/jobs/${segment(job)}/test_predictions`, {limit: SHOWN}));
      const count = sample.truth.length;
      fill(element, count === 0 ? empty("The job had no test rows.") : [
        h("p", {class: "hint"}, count < sample.test_rows ? `A sample of ${integer(count)} of ${integer(sample.test_rows)} test rows.`
          : `${plural(count, "test row")}.`),
        sample.task === "classification" ? classification(sample) : regression(sample, closers)]);
    } catch (problem) {
      fill(element, empty(problem.status === 404 ? "There are no test predictions of this job." : problem.message));
    }
  }};
}
