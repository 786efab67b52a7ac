// One job: how far it is, its curves, what it said, what came of it.
import {get, segment} from "./api.js";
import {curves} from "./curves.js";
import {announce, card, empty, facts, fill, h, keyed, scrolling, setText} from "./dom.js";
import {watch} from "./feeds.js";
import {bytes, clock, duration, integer, number, percent, plural, rate, shortId} from "./format.js";
import {jobActions} from "./job_actions.js";
import {ACTIVE, FINAL, fraction, nameOf, reason, residual, searched, spoken, timeLeft, waits} from "./job_words.js";
import {problemBox} from "./notices.js";
import {testPlots} from "./plots.js";
import {poll} from "./poll.js";
import {badge, bar} from "./view_jobs.js";
import {metricFacts, targetFacts} from "./view_model.js";

const LOG_ROWS = 200;

// Of a job that runs: also while it has nothing to report.
function ran(job, now = Date.now()) {
  if (!ACTIVE.includes(job.status)) return job.progress && duration(job.progress.elapsed_s);
  return duration(Math.max(job.progress?.elapsed_s ?? 0, (now - Date.parse(job.started_at)) / 1000));
}

function progressFacts(job) {
  const p = job.progress ?? {};
  const ended = FINAL.includes(job.status);
  return [["Residual", residual(job) == null ? null : number(residual(job))], ...metricFacts(job.result?.metrics ?? p),
    ["Iteration", p.iteration > 0 ? integer(p.iteration) : null], // direct methods have none
    [{centers: "Selection", searching: "Search"}[p.phase] ?? "The next one", ended || p.step_fraction == null ? null : percent(p.step_fraction)],
    ...searched(job),
    [ended ? "Took" : "Running for", ended ? job.result && duration(job.result.seconds) : ran(job)],
    ["Time", timeLeft(job) || null],
    ["Kernel entries", p.kernel_entries_per_s == null ? null : rate(p.kernel_entries_per_s)]];
}

function resultFacts(job) {
  const r = job.result;
  return [["Job", h("code", null, job.id)],
    ["Model", job.model_version ? h("a", {href: `#/models/${job.model}/${job.model_version}`}, nameOf(job)) : job.model],
    ["Data set", h("code", null, shortId(job.dataset))], ["Worker", [job.worker, job.device].filter(Boolean).join(", ")], ["Attempt", job.attempt || null],
    ["Created", clock(job.created_at)], ["Started", job.started_at && clock(job.started_at)], ["Finished", job.finished_at && clock(job.finished_at)],
    ["Solver", r && [r.solver, r.preconditioner, r.rank ? `rank ${integer(r.rank)}` : ""].filter(Boolean).join(" · ")],
    ["Precision", r?.precision], ["Certificate", r && `${r.certificate}${r.relative_residual_bound != null ? `, at most ${number(r.relative_residual_bound)}` : ""}`],
    ["Residual, whitened", r?.whitened_residual == null ? null : number(r.whitened_residual)],
    ["Kernel", r?.kernel && `${r.kernel.name}${r.kernel.bandwidth == null ? "" : `, bandwidth ${number(r.kernel.bandwidth)}`}`],
    ...targetFacts(r?.target_metrics), ["Ridge", r && `${number(r.ridge)} (λ ${number(r.regularization)} a row)`], ["Log evidence", r?.log_evidence == null ? null : number(r.log_evidence)],
    ["Rows", r && `${integer(r.train_rows)} to train, ${integer(r.test_rows)} to test`], ["Centers", r && integer(r.centers)],
    ["Effective dimension", r?.leverage_scores && `${number(r.leverage_scores.effective_dimension)} (λ ${number(r.leverage_scores.regularization)} a row)`],
    ["Setup, iterations, finish", r?.phases && [r.phases.setup_s, r.phases.iterations_s, r.phases.finish_s].map(duration).join(", ")],
    ["Peak memory", r && bytes(r.peak_memory_bytes)], ["Planned memory", job.plan?.memory && bytes(job.plan.memory.host_bytes)], ["Kernel kept", r?.kernel_cache_bytes ? bytes(r.kernel_cache_bytes) : null],
    ...Object.entries(job.spec.metadata ?? {})];
}

function logTable() {
  const body = h("tbody");
  const element = scrolling("Events", h("table", {class: "log"}, h("thead", {class: "hidden"}, h("tr", null, ["Time", "Kind", "Message"].map((t) => h("th", {scope: "col"}, t)))), body));
  return {element, update(events) {
    keyed(body, events.slice(-LOG_ROWS).reverse(), (event) => event.id, (event) => ({element: h("tr", {"data-level": event.level},
      h("td", {class: "hint num"}, clock(event.created_at)), h("td", {class: "hint"}, event.level === "info" ? event.type : event.level),
      h("td", null, event.message || event.data?.status || ""))}));
  }};
}

function searchTable(search) {
  if (!search) return null;
  const metric = search.metric;
  return card("Search", h("div", {class: "stack"}, h("p", {class: "hint"},
    `${plural(search.path.length, "pair")} on ${plural(search.rows, "row")}${search.sampled ? ", a sample" : ""}${search.centers ? `, of models on ${plural(search.centers, "center")}` : ""}; judged by ${metric}, ${metric === "evidence" ? "of all rows" : search.folds === "loo" ? "leaving one out" : `${search.folds} folds`}.`),
  scrolling("Search", h("table", null, h("thead", null, h("tr", null, ["λ a row", "Bandwidth", metric.toUpperCase()].map((t) => h("th", {scope: "col", class: "num"}, t)))),
    h("tbody", null, search.path.map((pair, i) => h("tr", {class: i === search.best ? "chosen" : ""}, h("td", {class: "num"}, number(pair.regularization)),
      h("td", {class: "num"}, number(pair.bandwidth)), h("td", {class: "num"}, number(pair[metric])))))))));
}

export function open(root, [id], context) {
  const heading = h("h1", {tabindex: -1}, "Job");
  const title = h("span");
  const status = badge();
  const why = h("span", {class: "hint"});
  const progress = bar();
  const now = h("div", {class: "big grow"});
  const actions = jobActions((name) => {
    if (name === "delete") location.hash = "#/jobs";
    else list.now();
  }, {small: false});
  const picture = curves("Curves appear once the job iterates; direct methods do not.");
  const log = logTable();
  const about = h("div");
  const trouble = h("div");
  const failure = h("div");
  const plots = testPlots();
  const plotsCard = card("On its test rows", plots.element);
  const search = h("div");
  const spec = h("pre", {class: "spec", tabindex: 0, "aria-label": "Specification"});
  plotsCard.hidden = true;
  fill(heading, title, " ", status.element, " ", why);
  fill(root, heading, trouble, h("div", {class: "stack"}, failure,
    h("section", {class: "card", "aria-label": "Progress"}, h("div", {class: "line"}, now, h("div", {class: "buttons"}, actions.element,
      h("a", {class: "button", href: `#/new/like/${id}`}, "New job like this"))), progress.element),
    card("Curves", picture.element, {beside: picture.controls}), plotsCard, search,
    h("div", {class: "halves"}, card("What it is", about), card("Events", log.element)),
    h("details", {class: "card"}, h("summary", null, h("h2", null, "Specification")), spec)));
  let said = null;
  let job = null;
  function showProgress() {
    progress.update(job);
    fill(now, facts(progressFacts(job)));
    setText(why, [reason(job), !FINAL.includes(job.status) && fraction(job) != null ? percent(fraction(job)) : "",
      job.queue_position != null ? `place ${integer(job.queue_position + 1)}` : "", waits(job)].filter(Boolean).join(" · "));
  }
  // Events come as they happen; the job itself is asked for now and then.
  const events = watch(id, (feed) => {
    log.update(feed.log);
    if (job && !FINAL.includes(job.status) && feed.series.last?.elapsed_s > (job.progress?.elapsed_s ?? 0)) {
      job.progress = feed.series.last;
      showProgress();
    }
  });
  const list = poll(1.5, async () => {
    const newest = await get(`/v1/jobs/${segment(id)}`);
    const ahead = job?.progress?.elapsed_s > newest.progress?.elapsed_s && newest.attempt === job.attempt && !FINAL.includes(newest.status);
    job = ahead ? {...newest, progress: job.progress} : newest;
    setText(title, nameOf(job));
    document.title = `${nameOf(job)} – krrd`;
    status.update(job);
    showProgress();
    actions.update(job);
    picture.show([{id, slot: 0, label: nameOf(job), ended: FINAL.includes(job.status)}]);
    if (said === job.status) return;
    if (said) announce(spoken(job));
    said = job.status;
    fill(about, facts(resultFacts(job)));
    fill(failure, job.error ? problemBox(job.error, {live: false}) : null,
      job.error?.cause?.stderr?.length ? h("pre", {class: "spec", tabindex: 0, "aria-label": "What the worker wrote last"}, job.error.cause.stderr.join("\n")) : null);
    setText(spec, JSON.stringify(job.spec, null, 2));
    fill(search, searchTable(job.result?.search));
    const tested = job.status === "succeeded" && job.result?.test_rows > 0;
    plotsCard.hidden = !tested;
    if (tested) plots.load(id);
  }, (problem) => {
    fill(trouble, problem ? problemBox(problem, {live: false}) : null);
    if (problem?.status === 404) {
      list.stop();
      fill(root, h("h1", {tabindex: -1}, "Job"), problemBox(problem), empty(h("a", {href: "#/jobs"}, "To the jobs")));
    }
    context.reached(problem);
  });
  return {title: "Job", close() {
    list.stop();
    events.stop();
    picture.close();
    plots.close();
  }};
}
