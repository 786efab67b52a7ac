// Numbers, sizes and times for people. Pure functions; what is not there reads as a dash.
const NONE = "–";
const grouped = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});

export function integer(value) {
  return value == null ? NONE : grouped.format(value);
}

// Four significant digits, in powers of ten where the value is small or large.
export function number(value, digits = 4) {
  if (value == null || !Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) {
    const [mantissa, exponent] = value.toExponential(Math.max(digits - 2, 0)).split("e");
    return `${mantissa}e${Number(exponent)}`;
  }
  return String(Number(value.toPrecision(digits)));
}

// A value as it is, to the last digit: what a model predicts.
export function exact(value) {
  return typeof value === "number" ? String(value) : String(value ?? NONE);
}

export function percent(fraction, digits = 0) {
  return fraction == null ? NONE : `${(100 * fraction).toFixed(digits)} %`;
}

function scaled(value, base, units) {
  let step = 0;
  while (value >= base && step < units.length - 1) {
    value /= base;
    step += 1;
  }
  const digits = step === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[step]}`.trim();
}

export function bytes(value) {
  return value == null ? NONE : scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
}

export function rate(value, unit = "/s") {
  if (value == null || !Number.isFinite(value)) return NONE;
  return scaled(value, 1000, ["", "k", "M", "G", "T", "P"]) + unit;
}

const two = (value) => String(value).padStart(2, "0");

export function duration(seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return NONE;
  if (seconds > 0 && seconds < 0.0005) return "< 1 ms";
  if (seconds < 0.0995) return `${Math.round(1000 * seconds)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${two(whole % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${two(minutes % 60)} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// A value beside an axis, short: 250k, 1.5M.
export function tick(value) {
  const size = Math.abs(value);
  if (size < 1e4 || size >= 1e15) return number(value);
  const step = Math.floor(Math.log10(size) / 3);
  return `${Number((value / 1000 ** step).toPrecision(4))}${["", "k", "M", "G", "T"][step]}`;
}

// What is left, where that is known, else "": nobody knows it to a tenth of a second.
export function remaining(seconds) {
  if (seconds == null || !Number.isFinite(seconds) || seconds < 0) return "";
  if (seconds < 1) return "under 1 s left";
  return `${seconds < 59.5 ? `${Math.round(seconds)} s` : duration(seconds)} left`;
}

// The local time; the date only where it is another day than `now`.
export function clock(stamp, now = new Date()) {
  if (stamp == null) return NONE;
  const at = new Date(stamp);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  if (at.toDateString() === now.toDateString()) return time;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

// The end of an id, by which people tell ids apart: their beginnings are times.
export function shortId(id) {
  return id.length > 12 ? `…${id.slice(-6)}` : id;
}

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

// 10⁻³ for 0.001; other values as numbers. For the ticks of a logarithmic axis.
export function power(value) {
  const exponent = Math.round(Math.log10(value));
  if (Math.abs(value / 10 ** exponent - 1) > 1e-9) return number(value, 2);
  const digits = [...String(Math.abs(exponent))].map((digit) => SUPERSCRIPTS[digit]).join("");
  return `10${exponent < 0 ? "⁻" : ""}${digits}`;
}

export function plural(count, one, many = `${one}s`) {
  return `${integer(count)} ${count === 1 ? one : many}`;
}
