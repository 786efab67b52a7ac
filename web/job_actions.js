// What can be done to a job: cancel, pause, resume, delete, each asked for once more where it
// cannot be taken back.
import {post, remove, segment} from "./api.js";
import {confirm} from "./dialog.js";
import {announce, h} from "./dom.js";
import {attempt} from "./notices.js";
import {FINAL, nameOf} from "./job_words.js";

const ACTIONS = {
  pause: {
    label: "Pause", when: (job) => ["queued", "running"].includes(job.status) && job.reason !== "paused",
  },
  resume: {label: "Resume", when: (job) => job.status === "paused"},
  cancel: {
    label: "Cancel", danger: true,
    when: (job) => ["queued", "running", "paused"].includes(job.status),
    ask: (job) => [`Cancel ${job.model}?`, "It ends without a model. A paused job can be resumed, a cancelled one cannot.", "Cancel the job"],
  },
  delete: {
    label: "Delete", danger: true, when: (job) => FINAL.includes(job.status),
    ask: (job) => [`Delete this job of ${nameOf(job)}?`, "The job and its events are removed. Models that it has made stay.", "Delete the job"],
  },
};

async function act(name, job) {
  const path = `/v1/jobs/${segment(job.id)}`;
  if (name === "delete") await remove(path);
  else await post(`${path}/${name}`);
}

// Buttons for a job that changes: update(job) shows those that fit. changed(name) is called after
// one has worked.
export function jobActions(changed, {small = true} = {}) {
  let job = null;
  const element = h("div", {class: "buttons"});
  const buttons = Object.entries(ACTIONS).map(([name, action]) => {
    const button = h("button", {type: "button", class: `${small ? "small " : ""}${action.danger ? "danger-quiet" : "quiet"}`,
      onclick: async () => {
        const target = job;
        if (action.ask && !(await confirm(...action.ask(target)))) return;
        if (await attempt(button, () => act(name, target))) {
          announce(`${action.label}: ${nameOf(target)}`);
          changed(name);
        }
      }}, action.label);
    return {action, button};
  });
  return {
    element,
    update(next) {
      job = next;
      for (const {action, button} of buttons) {
        const fits = action.when(job);
        if (fits !== button.isConnected || fits !== (button.parentNode === element)) {
          if (fits) element.append(button);
          else button.remove();
        }
        button.setAttribute("aria-label", `${action.label} ${nameOf(job)} (${job.id.slice(-6)})`);
      }
    },
  };
}
