// Residual and test metric of several jobs, over iterations or seconds, as they come.
import {chart} from "./charts.js";
import {h, freshId} from "./dom.js";
import {watch} from "./feeds.js";
import {number} from "./format.js";

export const METRICS = {
  smape: "SMAPE", rmse: "RMSE", mae: "MAE", r2: "R²", accuracy: "Accuracy", auc: "AUC",
};
const LOGARITHMIC = ["smape", "rmse", "mae"];
const OVER = {iteration: "Iteration", elapsed_s: "Seconds"};

function choice(label, options, value, change) {
  const id = freshId("choice");
  const select = h("select", {id, onchange: () => change(select.value)},
    Object.entries(options).map(([key, text]) => h("option", {value: key, selected: key === value}, text)));
  return h("span", {class: "choice"}, h("label", {for: id}, label), select);
}

// "homo v2: 1.2e-5 at 1200; …", for those who do not see the curves.
function summary(sets, x) {
  return sets.map((set) => {
    const end = set.data.at(-1);
    return end ? `${set.label}: ${number(end.y)} at ${x.toLowerCase()} ${number(end.x, 6)}` : "";
  }).filter(Boolean).join("; ");
}

function allEnded(jobs) {
  return jobs.length > 0 && jobs.every((job) => job.ended);
}

// nothing: what stands there before there is a curve.
export function curves(nothing) {
  let over = "iteration";
  let quantity = "smape";
  let asked = false; // somebody has chosen the quantity
  let jobs = []; // [{id, label, slot, ended}]
  const watches = new Map();
  const residual = chart("line", {title: "Relative residual", x: OVER[over], y: "Residual",
    logarithmic: true, nothing});
  const metricBox = h("div");
  let test = null;

  function newTest() {
    test?.close();
    test = chart("line", {title: `Test ${METRICS[quantity]}`, x: OVER[over], y: METRICS[quantity],
      logarithmic: LOGARITHMIC.includes(quantity),
      nothing: allEnded(jobs)
        ? `No ${METRICS[quantity]}: what has ended has not told it.`
        : `No ${METRICS[quantity]} yet: it is computed on the test rows now and then.`});
    metricBox.replaceChildren(test.element);
  }
  function setQuantity(value) {
    quantity = value;
    quantityChoice.querySelector("select").value = value;
    newTest();
  }
  // Classifiers have no SMAPE: where none of the jobs has one, and some an accuracy, that is shown.
  function fitQuantity() {
    const has = (name) => jobs.some((job) => watches.get(job.id)?.feed.series.curve(name, over, false).length > 0);
    const fits = !has("smape") && has("accuracy") ? "accuracy" : "smape";
    if (!asked && fits !== quantity) setQuantity(fits);
  }

  function sets(name, logarithmic) {
    return jobs.map((job) => ({label: job.label, slot: job.slot,
      data: watches.get(job.id)?.feed.series.curve(name, over, logarithmic) ?? []}));
  }

  const nothingYet = () => (allEnded(jobs) ? "No curve: what has ended told of no iteration; direct methods have none." : nothing);

  let due = false;
  function draw() {
    due = false;
    fitQuantity();
    for (const [picture, name, log] of [[residual, "relative_residual", true],
      [test, quantity, LOGARITHMIC.includes(quantity)]]) {
      const all = sets(name, log);
      picture.draw(all, {x: OVER[over], summary: summary(all, OVER[over]), ...(picture === residual && {empty: nothingYet()})});
    }
  }
  // Ten pictures a second are plenty.
  function redraw() {
    if (!due) setTimeout(draw, 100);
    due = true;
  }

  const quantityChoice = choice("Test metric", METRICS, quantity, (value) => { asked = true; setQuantity(value); draw(); });
  newTest();
  const controls = h("div", {class: "choices"},
    choice("Over", {iteration: "iterations", elapsed_s: "seconds"}, over, (value) => { over = value; draw(); }),
    quantityChoice);
  return {
    controls,
    element: h("div", {class: "pair"}, residual.element, metricBox),
    // Shows these jobs and no others.
    show(next) {
      const other = allEnded(next) !== allEnded(jobs);
      jobs = next;
      if (other) newTest(); // what stands there without a curve
      const wanted = new Set(next.map((job) => job.id));
      for (const [id, one] of watches) {
        if (!wanted.has(id)) {
          one.stop();
          watches.delete(id);
        }
      }
      for (const id of wanted) {
        if (!watches.has(id)) watches.set(id, watch(id, redraw));
      }
      redraw();
    },
    close() {
      watches.forEach((one) => one.stop());
      watches.clear();
      residual.close();
      test.close();
    },
  };
}
