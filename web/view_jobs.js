// The first page: what runs, what waits, what has ended, and the curves of the chosen ones.
import {get, some} from "./api.js";
import {curves} from "./curves.js";
import {announce, card, empty, fill, h, keyed, scrolling, setAttribute, setText} from "./dom.js";
import {clock, integer, number, plural, shortId} from "./format.js";
import {jobActions} from "./job_actions.js";
import {ACTIVE, FINAL, fraction, method, metric, nameOf, reason, residual, spoken, step, waits, when} from "./job_words.js";
import {panel} from "./panel.js";
import {workersTable} from "./workers.js";
import {SERIES} from "./theme.js";

const PAGE = 30;
const MOST = 100; // rows of the table
const NEXT = 10; // of the queue
const CHOSEN = "krrd.curves";
const STATUSES = ["running", "queued", "paused", "cancelling", "succeeded", "failed", "cancelled"];

export function badge() {
  const element = h("span", {class: "badge"});
  return {element, update(job) {
    setText(element, job.status);
    setAttribute(element, "data-status", job.status);
  }};
}

export function bar() {
  const inner = h("span", {class: "bar-fill"});
  const element = h("span", {class: "progress", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100}, inner);
  return {element, update(job) {
    const share = fraction(job);
    element.hidden = share == null || FINAL.includes(job.status);
    inner.style.width = `${100 * (share ?? 0)}%`;
    setAttribute(element, "aria-valuenow", share == null ? null : Math.round(100 * share));
    setAttribute(element, "aria-label", `Progress of ${nameOf(job)}`);
  }};
}

// One row of the table. chosen(job) and choose(job, yes) are about its curve.
function row(job, chosen, choose, changed) {
  const cells = {};
  const cell = (name, kind = "") => (cells[name] = h("td", {class: kind}));
  const box = h("input", {type: "checkbox", onchange: () => choose(current, box.checked)});
  const swatch = h("span", {class: "swatch"});
  const link = h("a");
  const status = badge();
  const why = h("span", {class: "hint"});
  const progress = bar();
  const at = h("span", {class: "hint"});
  const actions = jobActions(changed);
  let current = job;
  let said = null;
  const element = h("tr", null,
    h("td", {class: "pick"}, box, swatch),
    h("th", {scope: "row"}, link, " ", h("span", {class: "hint mono"}, shortId(job.id))),
    h("td", null, status.element, " ", why), cell("method", "optional"),
    h("td", {class: "wide"}, progress.element, at),
    cell("residual", "num"), cell("smape", "num"), cell("when", "num"), cell("created", "num optional"),
    h("td", null, actions.element));
  return {element, update(next) {
    current = next;
    const slot = chosen(next);
    box.checked = slot != null;
    setAttribute(box, "aria-label", `Show the curves of ${nameOf(next)} (${shortId(next.id)})`);
    setAttribute(swatch, "class", slot != null ? `swatch s${slot}` : "swatch");
    setText(link, nameOf(next));
    setAttribute(link, "href", `#/jobs/${next.id}`);
    status.update(next);
    setText(why, reason(next));
    progress.update(next);
    setText(at, step(next));
    setText(cells.method, method(next));
    setText(cells.residual, number(residual(next)));
    const smape = metric(next, "smape");
    const accuracy = metric(next, "accuracy");
    setText(cells.smape, smape == null && accuracy != null ? `acc. ${number(accuracy)}` : number(smape));
    setText(cells.when, when(next));
    setText(cells.created, clock(next.created_at));
    actions.update(next);
    if (said && said !== next.status) announce(spoken(next));
    said = next.status;
  }};
}

const HEADINGS = [["Curve", ""], ["Model", ""], ["Status", ""], ["Method", "optional"], ["Progress", ""],
  ["Residual", "num"], ["SMAPE", "num"], ["Time", "num"], ["Created", "num optional"], ["Actions", ""]];

function readChosen() {
  try {
    return JSON.parse(sessionStorage.getItem(CHOSEN)) ?? null;
  } catch {
    return null;
  }
}

// Which jobs have curves, and in which colour: at first what runs, then what somebody chose.
function selection() {
  const slots = new Map();
  const put = readChosen();
  let byHand = put != null;
  if (put) put.forEach(([id, slot]) => slots.set(id, slot));
  const free = () => [...Array(SERIES).keys()].find((slot) => ![...slots.values()].includes(slot));
  return {
    slotOf: (job) => slots.get(job.id),
    choose(job, yes) {
      byHand = true;
      if (!yes) slots.delete(job.id);
      else if (free() === undefined) announce(`No more than ${SERIES} curves at a time.`);
      else slots.set(job.id, free());
      sessionStorage.setItem(CHOSEN, JSON.stringify([...slots]));
    },
    // What runs is added by itself; without anything chosen the newest with a result is shown.
    follow(jobs) {
      for (const job of jobs) {
        if (ACTIVE.includes(job.status) && !byHand && !slots.has(job.id) && free() !== undefined) slots.set(job.id, free());
      }
      const newest = jobs.find((job) => job.progress?.iteration > 0);
      if (slots.size === 0 && !byHand && newest) slots.set(newest.id, 0);
    },
  };
}

function queueCard() {
  const list = h("ol", {class: "plain queue"});
  const none = empty("Nothing waits.");
  none.hidden = true;
  const count = h("span", {class: "hint"});
  const trouble = h("div");
  const element = card("Queue", h("div", null, trouble, none, list), {beside: count});
  return {element, trouble, update(queued, more) {
    none.hidden = queued.length > 0;
    setText(count, more ? `the next ${NEXT}` : queued.length ? plural(queued.length, "job") : "");
    keyed(list, queued, (job) => job.id, (job) => {
      const link = h("a", {href: `#/jobs/${job.id}`});
      const why = h("span", {class: "hint"});
      const place = h("span", {class: "num place"});
      return {element: h("li", null, place, link, " ", why), update(next) {
        setText(place, next.queue_position == null ? "" : integer(next.queue_position + 1));
        setText(link, nameOf(next));
        const late = next.next_attempt_at && Date.parse(next.next_attempt_at) > Date.now();
        const words = [waits(next) || reason(next), late ? when(next) : "", next.spec.priority ? `priority ${next.spec.priority}` : ""];
        setText(why, words.filter(Boolean).join(" · ") || `since ${clock(next.queued_at)}`);
      }};
    });
  }};
}

export function open(root, _parts, context) {
  const picked = selection();
  const picture = curves("Curves appear when a job is chosen in the table and iterates.");
  const body = h("tbody");
  const trouble = h("div");
  const none = empty("No jobs yet. ", h("a", {href: "#/data"}, "Upload a table"), ", then ",
    h("a", {href: "#/new"}, "train a model"), ".");
  let status = "";
  let shown = PAGE; // wished for; of large jobs fewer come, and each further wish brings more answers
  const more = h("button", {type: "button", class: "quiet", onclick: () => {
    shown += PAGE;
    jobsPoll.now();
  }}, "Show more");
  const filter = h("select", {id: "status-filter", onchange: () => {
    status = filter.value;
    jobsPoll.now();
  }}, h("option", {value: ""}, "all"), STATUSES.map((name) => h("option", {value: name}, name)));
  const table = scrolling("Jobs", h("table", {class: "jobs"},
    h("thead", null, h("tr", null, HEADINGS.map(([text, kind]) => h("th", {scope: "col", class: kind}, text)))),
    body));
  none.hidden = table.hidden = more.hidden = true; // until it is known what there is
  const queue = queueCard();
  const workers = workersTable();

  let latest = [];
  function showCurves() {
    picture.show(latest.filter((job) => picked.slotOf(job) != null)
      .map((job) => ({id: job.id, slot: picked.slotOf(job), label: `${nameOf(job)} ${shortId(job.id)}`,
        ended: FINAL.includes(job.status)})));
  }
  function draw() {
    keyed(body, latest, (job) => job.id, (job) => row(job, picked.slotOf,
      (one, yes) => {
        picked.choose(one, yes);
        draw();
      }, () => jobsPoll.now()));
    showCurves();
  }

  fill(root, h("h1", {class: "hidden", tabindex: -1}, "Jobs"), trouble,
    h("div", {class: "split"},
      h("div", {class: "stack"},
        card("Curves", picture.element, {beside: picture.controls}),
        card("Jobs", h("div", null, none, table, h("div", {class: "buttons"}, more)), {beside:
          h("span", {class: "choice"}, h("label", {for: "status-filter"}, "Status"), filter)})),
      h("div", {class: "stack side"}, queue.element,
        card("Workers", h("div", null, workers.element)))));

  const jobsPoll = panel(1.5, () => some("/v1/jobs", {status}, Math.min(shown, MOST), 4 * shown / PAGE), (page) => {
    latest = page.data;
    none.hidden = latest.length > 0 || status !== "";
    table.hidden = latest.length === 0 && status === "";
    more.hidden = !page.has_more || latest.length >= MOST;
    picked.follow(latest);
    draw();
  }, context);
  const queuePoll = panel(3, () => some("/v1/jobs", {order: "queue"}, NEXT), (page) =>
    queue.update(page.data, page.has_more), context);
  const workersPoll = panel(3, () => get("/v1/workers"), ({data}) => {
    const entries = new Map(latest.map((job) => [job.id, job.progress?.kernel_entries_per_s]));
    workers.update(data.map((worker) => ({...worker, entries: worker.job ? entries.get(worker.job) : null})));
  }, context);
  trouble.append(jobsPoll.trouble);
  queue.trouble.append(queuePoll.trouble);
  workers.element.before(workersPoll.trouble);
  return {title: "Jobs", close() {
    jobsPoll.stop();
    queuePoll.stop();
    workersPoll.stop();
    picture.close();
  }};
}
