// Colours: the system's, or the choice that this browser remembers.
const NAME = "krrd.theme";
const listeners = new Set();
const dark = matchMedia("(prefers-color-scheme: dark)");

function apply(choice) {
  if (choice) document.documentElement.dataset.theme = choice;
  else delete document.documentElement.dataset.theme;
  listeners.forEach((listener) => listener());
}

export function startTheme(select) {
  select.value = localStorage.getItem(NAME) ?? "";
  apply(select.value);
  select.addEventListener("change", () => {
    if (select.value) localStorage.setItem(NAME, select.value);
    else localStorage.removeItem(NAME);
    apply(select.value);
  });
  dark.addEventListener("change", () => listeners.forEach((listener) => listener()));
}

// Calls listener() when colours have changed; returns what stops it.
export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const probe = document.createElement("span");
probe.hidden = true;

// What the style sheet's custom property is now, as a colour that a canvas understands.
export function colour(name) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

export const SERIES = 8;

export function seriesColour(slot) {
  return colour(`--series-${slot % SERIES}`);
}
