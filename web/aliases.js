// Names such as prod that stand for a version: set, rolled back, deleted, with their history.
import {call, get, post, remove, segment} from "./api.js";
import {confirm} from "./dialog.js";
import {announce, empty, fill, freshId, h} from "./dom.js";
import {clock, shortId} from "./format.js";
import {attempt, into} from "./notices.js";

function moved(move) {
  const words = {set: "set", rollback: "rolled back", promotion: "promoted", delete: "deleted"}[move.kind] ?? move.kind;
  const to = move.to == null ? "" : ` to v${move.to}`;
  return h("li", null, `${clock(move.moved_at)} ${words}${to}`, move.from == null ? "" : ` from v${move.from}`,
    move.job ? [" by ", h("a", {href: `#/jobs/${move.job}`}, shortId(move.job))] : null);
}

// changed(): something was moved.
export function aliasPanel(name, version, changed) {
  const base = `/v1/models/${segment(name)}/aliases`;
  const list = h("ul", {class: "plain stack"});
  const element = h("div", {class: "stack"}, list);

  function line(alias) {
    const history = h("ol", {class: "plain hint"});
    const back = h("button", {type: "button", class: "small quiet", "aria-label": `Roll ${alias.alias} back`, onclick: async () => {
      const sure = await confirm(`Roll ${alias.alias} back?`, "It stands again for the version that it stood for before.", "Roll back");
      if (sure && await attempt(back, () => post(`${base}/${segment(alias.alias)}/rollback`))) changed();
    }}, "Roll back");
    const drop = h("button", {type: "button", class: "small danger-quiet", "aria-label": `Delete ${alias.alias}`, onclick: async () => {
      const sure = await confirm(`Delete the alias ${alias.alias}?`, "Requests by this name are refused from then on.", "Delete the alias");
      if (sure && await attempt(drop, () => remove(`${base}/${segment(alias.alias)}`))) changed();
    }}, "Delete");
    return h("li", null, h("div", {class: "line"}, h("span", null, h("strong", null, alias.alias), ` → v${alias.version}`),
      h("span", {class: "buttons"}, back, drop)),
    h("details", {ontoggle: (event) => {
      if (event.target.open) into(history, () => get(`${base}/${segment(alias.alias)}`), (one) => (one.history ?? []).map(moved));
    }}, h("summary", {class: "hint"}, `moved ${clock(alias.moved_at)}`), history));
  }

  const id = freshId("alias");
  const input = h("input", {id, type: "text", autocomplete: "off", placeholder: "prod", required: true, size: 12});
  const set = h("button", {type: "submit", class: "quiet"}, `Make it v${version}`);
  const form = h("form", {class: "buttons", onsubmit: async (event) => {
    event.preventDefault();
    const alias = input.value.trim();
    if (await attempt(set, () => call("PUT", `${base}/${segment(alias)}`, {json: {version}}))) {
      announce(`${alias} stands for version ${version}.`);
      changed();
    }
  }}, h("label", {for: id}, "Alias"), input, set);

  return {element, async load() {
    try {
      const {data} = await get(base);
      fill(list, data.length ? data.map(line) : h("li", null, empty("No aliases.")));
      if (!form.isConnected) element.append(form);
    } catch (problem) {
      fill(list, h("li", null, empty(problem.status === 404 ? "This krrd has no aliases." : problem.message)));
    }
  }};
}
