// Small languages of the form: conditions of a promotion as people write them, and models with their
// versions. Pure functions; readers give {value} or {error}.

const OPS = {"<": "lt", "<=": "le", "≤": "le", ">": "gt", ">=": "ge", "≥": "ge"};
const SIGNS = {lt: "<", le: "<=", gt: ">", ge: ">="};
const METRICS = ["smape", "rmse", "mae", "r2", "accuracy", "auc"];

function readLine(line, into) {
  const match = /^\s*(\w+)\s*(<=|>=|≤|≥|<|>)\s*(\S+)\s*$/.exec(line);
  if (!match) return `“${line}”: write a metric, <, <=, > or >=, and a number or current.`;
  const [, metric, sign, limit] = match;
  const number = Number(limit);
  if (!METRICS.includes(metric)) return `“${metric}” is none of ${METRICS.join(", ")}.`;
  if (limit !== "current" && !Number.isFinite(number)) return `“${limit}” is neither a number nor current.`;
  const op = OPS[sign];
  if (into[metric]?.[op] !== undefined) return `“${metric} ${SIGNS[op]}” is there twice.`;
  into[metric] = {...into[metric], [op]: limit === "current" ? limit : number};
  return null;
}

// "smape < 0.02", one a line, as {"smape": {"lt": 0.02}}.
export function readConditions(text) {
  const value = {};
  for (const line of text.split(/[\n,]+/).filter((one) => one.trim() !== "")) {
    const error = readLine(line, value);
    if (error) return {error};
  }
  return {value};
}

export function writeConditions(value) {
  return Object.entries(value ?? {}).flatMap(([metric, limits]) =>
    Object.entries(limits).map(([op, limit]) => `${metric} ${SIGNS[op]} ${limit}`)).join("\n");
}

// "prices" as it is; "prices@3" as {"model": "prices", "version": 3}.
export function readModel(text) {
  const [model, version, ...more] = text.trim().split("@");
  if (version === undefined) return {value: model};
  if (more.length || !/^[1-9]\d{0,8}$/.test(version)) return {error: "Write a model, or a model@version."};
  return {value: {model, version: Number(version)}};
}

export function writeModel(value) {
  if (typeof value === "string" || value == null) return value ?? "";
  return value.version == null ? value.model : `${value.model}@${value.version}`;
}
