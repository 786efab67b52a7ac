// The frame: which page is shown, how krrd is, the key, the colours.
import {storeKey, storedKey} from "./api.js";
import {announce, fill, h, setAttribute, setText} from "./dom.js";
import {askKey} from "./key.js";
import {problemBox} from "./notices.js";
import {poll} from "./poll.js";
import {startTheme} from "./theme.js";
import * as data from "./view_data.js";
import * as job from "./view_job.js";
import * as jobs from "./view_jobs.js";
import * as model from "./view_model.js";
import * as models from "./view_models.js";
import * as form from "./view_new.js";
import * as system from "./view_system.js";

// By the first word of the address; the second page of a pair takes over where more words follow.
const VIEWS = {jobs: [jobs, job], new: [form, form], data: [data, data], models: [models, model], system: [system, system]};
const main = document.getElementById("main");
const health = document.getElementById("health");
let view = null;

const context = {reached(problem) {
  if (problem && problem.status === 0) showHealth("no answer", "bad", problem.detail);
}};

function showHealth(text, kind, title) {
  setText(health, text);
  setAttribute(health, "data-kind", kind);
  setAttribute(health, "title", title);
}

function place() {
  const [name, ...parts] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  return {name: name || "jobs", parts};
}

function show(focus) {
  const {name, parts} = place();
  view?.close?.();
  view = null;
  fill(main);
  for (const link of document.querySelectorAll("#nav a")) {
    setAttribute(link, "aria-current", link.hash === `#/${name}` ? "page" : null);
  }
  const page = VIEWS[name]?.[parts.length > 0 ? 1 : 0];
  if (!page) {
    fill(main, h("h1", {tabindex: -1}, "No such page"), h("p", null, h("a", {href: "#/jobs"}, "To the jobs")));
  } else {
    try {
      view = page.open(main, parts, context);
    } catch (problem) {
      fill(main, problemBox(problem));
    }
  }
  document.title = view ? `${view.title} – krrd` : "krrd";
  window.scrollTo(0, 0);
  if (focus) {
    (main.querySelector("h1") ?? main).focus({preventScroll: true});
    announce(view?.title ?? "No such page");
  }
}

async function checkHealth() {
  let answer;
  try {
    answer = await fetch("/v2/health/ready", {cache: "no-store"});
  } catch {
    showHealth("no answer", "bad", "krrd does not answer.");
    return;
  }
  const body = await answer.json().catch(() => ({}));
  if (body.ready) showHealth("ready", "good", "");
  else showHealth("not ready", "warn", body.reason ?? `Status ${answer.status}`);
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash names the page
  main.focus();
});
document.getElementById("key").addEventListener("click", async () => {
  const key = await askKey(false);
  if (key == null) return;
  storeKey(key);
  announce(storedKey() ? "The key is used from now on." : "");
  show(false);
});
startTheme(document.getElementById("theme"));
addEventListener("hashchange", () => show(true));
poll(5, checkHealth);
show(false);
