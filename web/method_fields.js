// A method (kernel, solver, preconditioner, center selector) and its parameters, from the tables
// that the server validates with.
import {fill, h, setText} from "./dom.js";
import {field} from "./fields.js";

// {element, fields(), read() -> {name, own: {key: value}}, write(object), current()}. extra: further
// definitions that a method may take, by a function of the method. `none`: a choice that stands for
// no method at all; `also`: elements to stand beside the parameters.
export function methodFields({label, methods, pointer, nameKey = "name", fallback, extra = () => [], none, also = [], changed}) {
  const names = [...(none ? [""] : []), ...methods.map((m) => m.name)];
  const titles = {"": none ?? ""};
  methods.forEach((m) => { titles[m.name] = m.name; });
  const about = h("p", {class: "hint about"});
  const paper = h("p", {class: "hint about"});
  const place = h("div", {class: "fields"});
  const kept = new Map(); // what was typed for a method stays when another one is looked at
  let shown = [];

  const choose = field({key: nameKey, label, type: "string", choices: names, names: titles, default: fallback, help: ""},
    `${pointer}/${nameKey}`, () => {
      show();
      changed();
    });
  const current = () => methods.find((m) => m.name === choose.input.value) ?? null;

  function fieldsOf(method) {
    if (!kept.has(method.name)) {
      kept.set(method.name, [...extra(method), ...method.parameters]
        .map((def) => field(def, `${pointer}/${def.key}`, changed)));
    }
    return kept.get(method.name);
  }
  function show() {
    const method = current();
    shown = method ? fieldsOf(method) : [];
    setText(about, method ? [method.title, method.help].filter(Boolean).join(". ").replaceAll("..", ".") : "");
    setText(paper, method?.paper ?? "");
    paper.hidden = !method?.paper;
    fill(place, shown.map((one) => one.element), also);
  }
  show();
  return {
    element: h("div", {class: "method"}, h("div", {class: "method-head"}, choose.element, h("div", null, about, paper)), place),
    current, choose,
    fields: () => [choose, ...shown],
    read() {
      const own = {};
      for (const one of shown) {
        const {value} = one.read();
        if (value !== undefined) own[one.def.key] = value;
      }
      return {name: choose.input.value, own};
    },
    write(value) {
      const object = typeof value === "string" ? {[nameKey]: value} : value ?? {};
      const open = none && (value === null || (object[nameKey] === "auto" && !names.includes("auto")));
      choose.write(open ? "" : object[nameKey] ?? fallback);
      show();
      shown.forEach((one) => one.write(object[one.def.key] ?? one.def.default));
    },
  };
}
