// One field of a form, made from an entry of a parameter table: {key, type, minimum,
// exclusive_minimum, maximum, choices, auto, default, help}, as /v1/solvers and its like have them.
import {readConditions, readModel, writeConditions, writeModel} from "./conditions.js";
import {fill, freshId, h} from "./dom.js";

const isEmpty = (text) => text.trim() === "";

function shown(value) {
  if (value == null) return "none";
  if (typeof value === "number") return Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-3)
    ? value.toExponential().replace("e+", "e") : String(value);
  return Array.isArray(value) ? value.join(", ") : String(value);
}

// "Whole number from 1 up to 10000, or auto; default auto."
function range(def) {
  if (def.choices || def.type === "boolean") return "";
  const words = [];
  if (def.type === "integer") words.push("Whole number");
  const low = def.exclusive_minimum != null ? `above ${shown(def.exclusive_minimum)}`
    : def.minimum != null ? `from ${shown(def.minimum)}` : "";
  const high = def.maximum != null ? `up to ${shown(def.maximum)}` : "";
  if (low || high) words.push([low, high].filter(Boolean).join(" "));
  if (words.length && def.auto) words.push("or auto");
  const fallback = def.default !== undefined && def.default !== "" && !def.required ? `default ${shown(def.default)}` : "";
  const text = [words.join(" "), fallback].filter(Boolean).join("; ");
  return text && `${text[0].toUpperCase()}${text.slice(1)}.`;
}

// The number in `text`, or a sentence that says what is wrong with it.
function readNumber(text, def) {
  const trimmed = text.trim();
  if (def.auto && trimmed === "auto") return {value: "auto"};
  const value = Number(trimmed);
  const whole = def.type === "integer";
  if (trimmed === "" || !Number.isFinite(value) || (whole && !Number.isInteger(value))) {
    return {error: `This is no ${whole ? "whole " : ""}number.`};
  }
  if (def.minimum != null && value < def.minimum) return {error: `At least ${shown(def.minimum)}.`};
  if (def.exclusive_minimum != null && value <= def.exclusive_minimum) {
    return {error: `More than ${shown(def.exclusive_minimum)}.`};
  }
  if (def.maximum != null && value > def.maximum) return {error: `At most ${shown(def.maximum)}.`};
  return {value};
}

function readList(text, def) {
  const values = [];
  for (const word of text.split(/[\s,;]+/).filter(Boolean)) {
    const one = readNumber(word, {...def, auto: false});
    if (one.error) return {error: `“${word}”: ${one.error}`};
    values.push(one.value);
  }
  return {value: values};
}

function control(def, id, described) {
  const common = {id, "aria-describedby": described};
  if (def.type === "boolean") return h("input", {...common, type: "checkbox"});
  if (def.choices) {
    const words = def.auto && !def.choices.includes("auto") ? ["auto", ...def.choices] : def.choices;
    return h("select", common, words.map((word) => h("option", {value: word}, def.names?.[word] ?? (word || "–"))));
  }
  if (def.type === "pairs" || def.type === "conditions" || def.long) {
    return h("textarea", {...common, rows: 2, spellcheck: "false", class: "short", placeholder: def.example ?? ""});
  }
  return h("input", {...common, type: "text", autocomplete: "off", spellcheck: "false",
    inputmode: ["integer", "number", "numbers"].includes(def.type) && !def.auto ? "decimal" : null,
    list: def.list ?? null, required: def.required,
    placeholder: def.required ? def.example ?? "" : shown(def.default ?? def.example ?? "")});
}

const READERS = {
  integer: readNumber,
  number: readNumber,
  numbers: readList,
  string: (text) => ({value: text.trim()}),
  words: (text) => ({value: text.split(/[\n,]+/).map((word) => word.trim()).filter(Boolean)}),
  conditions: readConditions,
  model: readModel,
  // A number, a word, or one number a feature.
  bandwidth: (text, def) => {
    if (["median", "auto"].includes(text.trim())) return {value: text.trim()};
    const list = readList(text, def);
    return list.error ? list : {value: list.value.length === 1 ? list.value[0] : list.value};
  },
  pairs: (text) => {
    const value = {};
    for (const line of text.split("\n").filter((one) => one.trim() !== "")) {
      const at = line.indexOf("=");
      if (at < 1) return {error: `“${line}”: write name=value.`};
      value[line.slice(0, at).trim()] = line.slice(at + 1).trim();
    }
    return {value};
  },
};

function written(value, def) {
  if (def.type === "pairs") return Object.entries(value ?? {}).map(([k, v]) => `${k}=${v}`).join("\n");
  if (def.type === "conditions") return writeConditions(value);
  if (def.type === "model") return writeModel(value);
  if (def.type === "words") return (value ?? []).join("\n");
  return value == null ? "" : shown(value);
}

// {element, pointer, read() -> {value} or {} for the default or {error}, write(value), fail(text),
// focus()}. pointer: where the value goes in the job, "#/solver/rank".
export function field(def, pointer, changed = () => {}) {
  const id = freshId("field");
  const help = h("span", {class: "hint", id: `${id}-help`}, [def.help, range(def)].filter(Boolean).join(" "));
  const wrong = h("span", {class: "wrong", id: `${id}-wrong`, hidden: true});
  const input = control(def, id, `${id}-wrong ${id}-help`);
  const name = def.label ?? def.key.replaceAll("_", " ");
  const label = h("label", {for: id}, name[0].toUpperCase() + name.slice(1));
  const element = h("div", {class: `field ${def.type === "boolean" ? "check" : ""} ${def.wide ? "wide-field" : ""}`},
    label, input, wrong, help);

  function fail(text) {
    wrong.textContent = text ?? "";
    wrong.hidden = !text;
    if (text) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }
  function read() {
    if (def.type === "boolean") return input.checked === def.default ? {} : {value: input.checked};
    if (isEmpty(input.value)) return def.required ? {error: "This is needed."} : {};
    const got = READERS[def.type](input.value, def);
    return got.value !== undefined && JSON.stringify(got.value) === JSON.stringify(def.default) ? {} : got;
  }
  function write(value) {
    if (def.type === "boolean") input.checked = value ?? def.default;
    else if (def.choices) input.value = value ?? def.default ?? input.options[0]?.value ?? "";
    else input.value = JSON.stringify(value) === JSON.stringify(def.default) ? "" : written(value, def);
  }
  write(def.default);
  for (const kind of ["input", "change"]) {
    input.addEventListener(kind, () => {
      fail(read().error && !isEmpty(input.value ?? "") ? read().error : null);
      changed();
    });
  }
  return {element, pointer, input, def, read, write, fail, focus: () => input.focus(),
    options(words, names = {}) { // other choices, for lists that come later
      const value = input.value;
      fill(input, words.map((word) => h("option", {value: word}, names[word] ?? word)));
      if (words.includes(value)) input.value = value;
    }};
}
