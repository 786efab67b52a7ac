// Building and changing the page. Text goes in as text nodes: nothing here, or anywhere else in the
// dashboard, reads a string as markup.

// h("td", {class: "num", onclick: f}, "text", node, null): an element. Properties that begin with
// "on" are listeners; true stands for an empty attribute, false and null for none.
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, String(value));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(element, child);
    else if (child != null && child !== false) element.append(child);
  }
}

export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

// Touches the page only where something has changed, so that a selection or the reading of a screen
// reader is not disturbed once a second.
export function setText(element, text) {
  const wanted = String(text ?? "");
  if (element.textContent !== wanted) element.textContent = wanted;
}

export function setAttribute(element, name, value) {
  if (value == null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

const kept = new WeakMap();

// Keeps the children of `parent` in step with `items`: elements live as long as their key does, so
// that focus stays where it is. create(item) gives {element, update(item)}.
export function keyed(parent, items, keyOf, create) {
  const before = kept.get(parent) ?? new Map();
  const now = new Map();
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    const entry = before.get(key) ?? create(item);
    entry.update?.(item);
    now.set(key, entry);
    if (entry.element === place) place = place.nextElementSibling;
    else parent.insertBefore(entry.element, place);
  }
  for (const [key, entry] of before) {
    if (!now.has(key)) entry.element.remove();
  }
  kept.set(parent, now);
}

// Says something to screen readers, once.
export function announce(text) {
  const region = document.getElementById("announcer");
  region.textContent = "";
  setTimeout(() => { region.textContent = text; }, 50);
}

let ids = 0;
export function freshId(prefix) {
  return `${prefix}-${++ids}`;
}

// A table that scrolls sideways on narrow screens, reachable by keyboard.
export function scrolling(label, table) {
  return h("div", {class: "scroll", role: "region", "aria-label": label, tabindex: 0}, table);
}

// A card with a heading; more may stand beside the heading.
export function card(title, body, {beside = null, level = 2, kind = ""} = {}) {
  const id = freshId("card");
  return h("section", {class: `card ${kind}`, "aria-labelledby": id},
    h("div", {class: "card-head"}, h(`h${level}`, {id}, title), beside), body);
}

export function empty(text, ...more) {
  return h("p", {class: "empty"}, text, ...more);
}

// Name and value pairs.
export function facts(pairs) {
  return h("dl", {class: "facts"}, pairs.filter(([, value]) => value != null && value !== "")
    .map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}
