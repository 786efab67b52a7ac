// Models: the newest version of each, how good it is, whether it is loaded.
import {all} from "./api.js";
import {card, empty, fill, h, keyed, scrolling, setAttribute, setText} from "./dom.js";
import {bytes, clock, integer, number} from "./format.js";
import {problemBox} from "./notices.js";
import {poll} from "./poll.js";

const HEADINGS = [["Model", ""], ["Task", "optional"], ["Kernel", ""], ["Solver", "optional"], ["Centers", "num optional"], ["SMAPE", "num"],
  ["R²", "num"], ["Accuracy", "num"], ["Residual", "num optional"], ["Size", "num optional"], ["State", ""], ["Created", "num optional"]];

function row(model) {
  const link = h("a");
  const aliases = h("span", {class: "hint"});
  const state = h("span", {class: "badge"});
  const cells = HEADINGS.map(([, kind]) => h("td", {class: kind}));
  const element = h("tr", null, h("th", {scope: "row"}, link, " ", aliases), cells.slice(1));
  cells[10].append(state);
  return {element, update(next) {
    const d = next.description ?? {};
    const m = d.result?.metrics ?? {};
    setText(link, `${next.name} v${next.version}`);
    setAttribute(link, "href", `#/models/${next.name}`);
    setText(aliases, (next.aliases ?? []).join(", "));
    [null, d.task, d.kernel?.name, d.result?.solver, integer(d.centers), number(m.smape), number(m.r2), number(m.accuracy),
      number(d.result?.relative_residual), bytes(next.bytes), null, clock(next.created_at)]
      .forEach((text, i) => { if (text != null) setText(cells[i], text); });
    setText(state, next.state);
    setAttribute(state, "data-status", next.state);
  }};
}

export function open(root, _parts, context) {
  const trouble = h("div");
  const body = h("tbody");
  const none = empty("No models yet. A job that succeeds makes one: ", h("a", {href: "#/new"}, "train a model"), ".");
  none.hidden = true;
  const table = scrolling("Models", h("table", {class: "named"}, h("thead", null, h("tr", null,
    HEADINGS.map(([text, kind]) => h("th", {scope: "col", class: kind}, text)))), body));
  fill(root, h("h1", {tabindex: -1}, "Models"), trouble, card("Newest versions", h("div", null, none, table)));
  const list = poll(5, async () => {
    const models = await all("/v1/models");
    none.hidden = models.length > 0;
    table.hidden = models.length === 0;
    keyed(body, models, (model) => model.name, row);
  }, (problem) => {
    fill(trouble, problem ? problemBox(problem, {live: false}) : null);
    context.reached(problem);
  });
  return {title: "Models", close: () => list.stop()};
}
