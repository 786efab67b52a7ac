// Telling people what went wrong, with the fields that the server points at.
import {fill, h} from "./dom.js";

// What stands above is not said again.
function pointed(error, detail) {
  return h("li", null, h("code", null, error.pointer), error.detail === detail ? "" : ` ${error.detail}`);
}

// The body of a problem: what, why, where.
export function problemBox(problem, {live = true} = {}) {
  return h("div", {class: "notice bad", role: live ? "alert" : null},
    h("p", null, h("strong", null, problem.title ?? "Failed"),
      problem.status ? h("span", {class: "hint"}, ` ${problem.status}`) : null),
    problem.detail || problem.message ? h("p", null, problem.detail || problem.message) : null,
    problem.errors?.length ? h("ul", {class: "plain"},
      problem.errors.filter((error) => error.pointer || error.detail !== problem.detail)
        .map((error) => pointed(error, problem.detail))) : null);
}

// A notice in the corner that stays until it is closed.
export function toast(problem) {
  const close = h("button", {type: "button", class: "quiet small", "aria-label": "Close this notice"}, "Close");
  const box = h("div", {class: "toast"}, problemBox(problem), close);
  close.addEventListener("click", () => box.remove());
  document.getElementById("toasts").append(box);
}

// Runs work() with its button disabled; a failure becomes a notice. True when it went well.
export async function attempt(button, work) {
  if (button) button.disabled = true;
  try {
    await work();
    return true;
  } catch (problem) {
    toast(problem);
    return false;
  } finally {
    if (button) button.disabled = false;
  }
}

// Shows what load() gives in `place`, or why it does not come.
export async function into(place, load, show) {
  try {
    const value = await load();
    fill(place, show(value));
  } catch (problem) {
    fill(place, problemBox(problem));
  }
}
