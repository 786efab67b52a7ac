// What a job says of itself, in words.
import {clock, duration, integer, number, plural, remaining} from "./format.js";

export const FINAL = ["succeeded", "failed", "cancelled"];
export const ACTIVE = ["running", "cancelling"];

const REASONS = {
  converged: "converged",
  iteration_limit: "iteration limit",
  time_budget: "time budget",
  stagnated: "stagnated",
  breakdown: "breakdown",
  diverged: "diverged",
  not_positive_definite: "not positive definite",
  out_of_memory: "out of memory",
  cancelled: "",
  worker_lost: "worker lost",
  invalid_spec: "refused by the worker",
  failed: "",
  paused: "to be paused",
  daemon_stopped: "krrd was stopped",
};

export function reason(job) {
  if (!job.reason || job.reason === job.status) return "";
  return REASONS[job.reason] ?? job.reason.replaceAll("_", " ");
}

// Of a queued job: what it waits for.
export function waits(job) {
  return job.waiting_for?.detail ?? "";
}

export function nameOf(job) {
  return job.model_version ? `${job.model} v${job.model_version}` : job.model;
}

function named(value, fallback) {
  return (typeof value === "string" ? value : value?.name) ?? fallback;
}

// "pcg · gaussian", as far as it is known.
export function method(job) {
  const solver = job.result?.solver ?? named(job.spec.solver, "auto");
  return `${solver} · ${named(job.spec.kernel, "auto")}`;
}

export function metric(job, name) {
  return job.result?.metrics?.[name] ?? job.progress?.[name] ?? null;
}

export function residual(job) {
  return job.result?.relative_residual ?? job.progress?.relative_residual ?? null;
}

// What a running job has left, "" where nobody knows.
export function timeLeft(job) {
  return job.status === "running" ? remaining(job.progress?.eta_s) : "";
}

// What stands in the place of the time left.
export function when(job, now = Date.now()) {
  switch (job.status) {
  case "queued":
    if (job.next_attempt_at && Date.parse(job.next_attempt_at) > now) {
      return `attempt ${job.attempt + 1} at ${clock(job.next_attempt_at)}`;
    }
    return job.queue_position == null ? "" : `place ${integer(job.queue_position + 1)}`;
  case "running":
  case "cancelling":
    return timeLeft(job) || `for ${duration(Math.max(now - Date.parse(job.started_at), 0) / 1000)}`;
  case "paused":
    return "";
  default:
    return job.result?.seconds != null ? `took ${duration(job.result.seconds)}` : "";
  }
}

export function step(job) {
  const p = job.progress;
  if (FINAL.includes(job.status)) {
    return job.result?.iterations > 0 ? plural(job.result.iterations, "iteration") : ""; // direct methods have none
  }
  if (!p) return "";
  return p.iteration > 0 ? `${p.phase} ${integer(p.iteration)}` : p.phase;
}

// Of a search, until the job ends: how many pairs it has tried, and what the best has. [name, words] each.
export function searched(job) {
  const search = FINAL.includes(job.status) ? null : job.progress?.search;
  if (!search) return [];
  const best = search.best;
  const at = best && [`λ ${number(best.regularization)} a row`, best.bandwidth == null ? "" : `bandwidth ${number(best.bandwidth)}`];
  return [["Pairs tried", `${integer(search.tried)} of ${integer(search.pairs)}`],
    [`Best ${search.metric.toUpperCase()}`, best && `${number(best.value)} at ${at.filter(Boolean).join(", ")}`]];
}

// How far it is, 0 to 1, or null.
export function fraction(job) {
  if (job.status === "succeeded") return 1;
  return job.progress?.fraction ?? null;
}

export function spoken(job) {
  const parts = [nameOf(job), job.status];
  if (reason(job)) parts.push(reason(job));
  if (job.status === "succeeded" && metric(job, "smape") != null) {
    parts.push(`SMAPE ${number(metric(job, "smape"))}`);
  }
  return parts.join(", ");
}
