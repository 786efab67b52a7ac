// Rows that somebody pasted, as numbers in the order of a model's features. Pure functions.

export class RowsError extends Error {}

// What is read as missing where a model fills it in: the list of src/wire/missing.c.
const MARKS = new Set(["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None", "?"]);

export const isMissing = (text) => MARKS.has(text.trim());

// Of a cell's text, or of what stands in JSON. null where it is missing, of a model that fills it in (lacks).
function numberOf(value, where, lacks) {
  const text = typeof value === "string" ? value.trim() : value;
  if (lacks && (text === null || (typeof text === "string" && isMissing(text)))) return null;
  const number = typeof text === "number" || (typeof text === "string" && text !== "") ? Number(text) : NaN;
  if (!Number.isFinite(number)) {
    throw new RowsError(`${where}: “${typeof value === "object" && value ? JSON.stringify(value) : value ?? ""}” is no number.`);
  }
  return number;
}

// The cells of one line of CSV, quotes resolved.
export function cells(line, separator) {
  const out = [];
  let cell = "";
  let quoted = false;
  for (let i = 0; i < line.length; i++) {
    const c = line[i];
    if (quoted && c === '"' && line[i + 1] === '"') {
      cell += '"';
      i += 1;
    } else if (c === '"') {
      quoted = !quoted;
    } else if (c === separator && !quoted) {
      out.push(cell);
      cell = "";
    } else {
      cell += c;
    }
  }
  out.push(cell);
  return out.map((one) => one.trim());
}

// The separator that the line has most of.
export function separatorOf(line) {
  const count = (c) => line.split(c).length;
  return [",", ";", "\t"].reduce((best, c) => (count(c) > count(best) ? c : best), ",");
}

const isNumber = (text) => text !== "" && Number.isFinite(Number(text));

// Where each feature stands in a row with these column names.
function places(names, features) {
  return features.map((feature) => {
    const at = names.indexOf(feature);
    if (at < 0) throw new RowsError(`The column “${feature}” is missing.`);
    return at;
  });
}

// The lines that are rows, each with its number, and what separates their cells. A line of tabs between
// rows with tabs is a row, all of whose cells are empty; before and behind them it was selected besides.
function linesOf(text) {
  const all = text.split(/\r?\n/).map((line, index) => [line, index + 1]);
  const isBlank = ([line]) => line.trim() === "";
  const lines = all.slice(all.findIndex((line) => !isBlank(line)), all.findLastIndex((line) => !isBlank(line)) + 1);
  const separator = separatorOf(lines[0][0]);
  return {separator, lines: lines.filter((line) => !isBlank(line) || (separator === "\t" && line[0].includes("\t")))};
}

function fromCsv(text, features, lacks) {
  const {separator, lines} = linesOf(text);
  const first = cells(lines[0][0], separator);
  const headed = !first.every((cell) => isNumber(cell) || (lacks && isMissing(cell)));
  const order = headed ? places(first, features) : features.map((_, index) => index);
  return lines.slice(headed ? 1 : 0).map(([line, at]) => {
    const row = cells(line, separator);
    const wanted = headed ? first.length : features.length;
    if (row.length !== wanted) {
      throw new RowsError(`Line ${at} has ${row.length} values, not ${wanted}.`);
    }
    return order.map((place) => numberOf(row[place], `Line ${at}`, lacks));
  });
}

// A key that is not there is misspelt more often than its value is missing, which null says.
function fromObject(item, features, where, lacks) {
  return features.map((feature) => {
    if (!Object.hasOwn(item, feature)) {
      throw new RowsError(`${where}: the column “${feature}” is missing.${lacks ? " A value that is missing is null." : ""}`);
    }
    return numberOf(item[feature], `${where}, “${feature}”`, lacks);
  });
}

function fromJson(text, features, lacks) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new RowsError(`This is no JSON: ${error.message}`);
  }
  const items = Array.isArray(value) ? value : value?.instances ?? [value];
  const rows = Array.isArray(items) && items.length && !items.some((i) => i !== null && typeof i === "object")
    ? [items] : items;
  if (!Array.isArray(rows)) throw new RowsError("Rows are an array of arrays or of objects.");
  return rows.map((item, index) => {
    const where = `Row ${index + 1}`;
    if (item === null || typeof item !== "object") throw new RowsError(`${where} is neither an array nor an object.`);
    if (!Array.isArray(item)) return fromObject(item, features, where, lacks);
    if (item.length !== features.length) {
      throw new RowsError(`${where} has ${item.length} values, not ${features.length}.`);
    }
    return item.map((cell) => numberOf(cell, where, lacks));
  });
}

// [[…], …] of CSV (with or without a header row) or JSON (arrays, or objects by feature name);
// throws a RowsError that says where it is wrong. lacks: cells may be missing, and are null.
export function parseRows(text, features, lacks) {
  const trimmed = text.trim();
  if (trimmed === "") throw new RowsError("There are no rows.");
  const rows = /^[[{]/.test(trimmed) ? fromJson(trimmed, features, lacks) : fromCsv(text, features, lacks);
  if (rows.length === 0) throw new RowsError("There are no rows beneath the header.");
  return rows;
}

function csvCell(value) {
  const text = String(value ?? "");
  return /[",;\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function toCsv(columns, rows) {
  return [columns, ...rows].map((row) => row.map(csvCell).join(",")).join("\n") + "\n";
}
