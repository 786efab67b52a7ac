// Charts on the distribution's Chart.js (window.Chart), with what it lacks: a text beside the
// picture, colours that follow the scheme, and ticks in powers of ten.
import {fill, freshId, h, scrolling, setAttribute, setText} from "./dom.js";
import {number, power, tick} from "./format.js";
import {colour, onTheme, seriesColour} from "./theme.js";

const DASHES = [[], [7, 3], [2, 2], [9, 3, 2, 3]];
const TABLE_ROWS = 12;

// Which leading digits get a line, by how far the axis goes.
function leading(ratio) {
  return ratio > 1e3 ? [1] : ratio > 5 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
}

function thinned(scale) {
  const digits = leading(scale.max / scale.min);
  const step = Math.ceil(Math.log10(scale.max / scale.min) / 9);
  scale.ticks = scale.ticks.filter(({value}) => {
    const exponent = Math.floor(Math.log10(value) + 1e-9);
    return digits.includes(Math.round(value / 10 ** exponent)) && (digits.length > 1 || exponent % step === 0);
  });
}

function axis(title, logarithmic, fromZero = false) {
  return {
    type: logarithmic ? "logarithmic" : "linear",
    title: {display: true, text: title},
    grid: {},
    beginAtZero: fromZero,
    afterBuildTicks: logarithmic ? thinned : undefined,
    ticks: {maxRotation: 0, maxTicksLimit: 9, autoSkip: true, autoSkipPadding: 12, callback: logarithmic ? function label(value) {
      return this.max / this.min > 1e3 ? power(value) : number(value);
    } : tick},
  };
}

function options(x, y, logarithmic, fromZero) {
  return {
    animation: false,
    parsing: false,
    normalized: true,
    responsive: true,
    maintainAspectRatio: false,
    interaction: {mode: "nearest", axis: "x", intersect: false},
    scales: {x: axis(x, false, fromZero), y: axis(y, logarithmic)},
    plugins: {
      legend: {display: false},
      tooltip: {callbacks: {
        title: (items) => (items.length ? `${x} ${number(items[0].parsed.x, 6)}` : ""),
        label: (item) => `${item.dataset.label}: ${number(item.parsed.y)}`,
      }},
    },
  };
}

function paint(chart) {
  const line = colour("--line");
  const text = colour("--muted");
  for (const scale of Object.values(chart.options.scales)) {
    scale.grid.color = line;
    scale.grid.borderColor = line;
    scale.ticks.color = text;
    scale.title.color = text;
  }
  chart.options.plugins.tooltip.backgroundColor = colour("--tip");
  chart.options.plugins.tooltip.titleColor = colour("--tip-ink");
  chart.options.plugins.tooltip.bodyColor = colour("--tip-ink");
  for (const set of chart.data.datasets) {
    const ink = set.ink ? colour(set.ink) : seriesColour(set.slot);
    set.borderColor = ink;
    set.backgroundColor = ink;
  }
}

function textTable(title, x, y, sets) {
  const rows = [];
  for (const set of sets) {
    const step = Math.max(1, Math.ceil(set.data.length / TABLE_ROWS));
    set.data.forEach((point, index) => {
      if (index % step === 0 || index === set.data.length - 1) {
        rows.push(h("tr", null, h("th", {scope: "row"}, set.label),
          h("td", {class: "num"}, number(point.x, 6)), h("td", {class: "num"}, number(point.y))));
      }
    });
  }
  return scrolling(`${title}, as a table`, h("table", null,
    h("thead", null, h("tr", null, h("th", {scope: "col"}, "Series"),
      h("th", {scope: "col", class: "num"}, x), h("th", {scope: "col", class: "num"}, y))),
    h("tbody", null, rows)));
}

// A chart in a figure. draw(sets, {x, y, title, summary, empty}) shows sets of {label, slot, data, ...};
// `kind` is Chart.js's type, "line" or "scatter". nothing: the text while there is no data, unless draw has another.
export function chart(kind, {title, x, y, logarithmic = false, nothing, legend = false}) {
  const id = freshId("chart");
  const canvas = h("canvas", {role: "img", "aria-label": title});
  const none = h("p", {class: "empty chart-empty"}, nothing);
  const key = h("ul", {class: "legend"});
  const table = h("div");
  const more = h("details", {class: "chart-table"}, h("summary", null, "As a table"), table);
  const heading = h("figcaption", {id}, title);
  const element = h("figure", {class: "chart", "aria-labelledby": id}, heading,
    h("div", {class: "chart-box"}, canvas, none), legend && key, more);
  const names = {title, x, y};
  let picture = null;
  let sets = [];

  function listed() {
    if (more.open) fill(table, textTable(names.title, names.x, names.y, sets));
  }
  more.addEventListener("toggle", listed);

  function scale() {
    Object.assign(picture.options.scales, {x: axis(names.x, false, kind === "line"), y: axis(names.y, logarithmic)});
  }

  function draw(next, {summary = "", empty = nothing, ...renamed} = {}) {
    Object.assign(names, renamed);
    setText(none, empty);
    sets = next.filter((set) => set.data.length > 0);
    heading.textContent = names.title;
    none.hidden = sets.length > 0;
    canvas.hidden = more.hidden = sets.length === 0;
    if (!sets.length) return;
    setAttribute(canvas, "aria-label", summary ? `${names.title}. ${summary}` : names.title);
    fill(key, sets.map((set) => h("li", null, h("span", {class: `swatch s${set.slot}`}), set.label)));
    picture ??= new globalThis.Chart(canvas,
      {type: kind, data: {datasets: []}, options: options(names.x, names.y, logarithmic, kind === "line")});
    scale();
    picture.data.datasets = sets.map((set) => ({
      borderWidth: 1.75, pointRadius: set.data.length < 3 ? 3 : 0, pointHitRadius: 6,
      borderDash: DASHES[Math.floor((set.slot ?? 0) / 2) % DASHES.length], ...set,
    }));
    paint(picture);
    picture.update("none");
    listed();
  }

  const forget = onTheme(() => {
    if (!picture) return;
    paint(picture);
    picture.update("none");
  });
  draw([]);
  return {
    element, draw,
    close() {
      forget();
      picture?.destroy();
    },
  };
}
