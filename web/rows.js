// Rows that somebody pasted, as numbers in the order of a model's features. Pure functions.

export class RowsError extends Error {}

// null where it is missing, of a model that fills it in (lacks).
function numberOf(text, where, lacks) {
  const trimmed = typeof text === "string" ? text.trim() : text;
  const none = trimmed === "" || trimmed == null;
  if (none && lacks) return null;
  const value = none ? NaN : Number(trimmed);
  if (!Number.isFinite(value)) throw new RowsError(`${where}: “${text ?? ""}” is no number.`);
  return value;
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

function fromCsv(text, features, lacks) {
  const lines = text.split(/\r?\n/).map((line, index) => [line, index + 1]).filter(([line]) => line.trim() !== "");
  const separator = separatorOf(lines[0][0]);
  const first = cells(lines[0][0], separator);
  const headed = !first.every((cell) => isNumber(cell) || (lacks && cell === ""));
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

function fromObject(item, features, where, lacks) {
  return features.map((feature) => numberOf(item[feature] ?? null, `${where}, “${feature}”`, lacks));
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
    if (!Array.isArray(item)) return fromObject(item ?? {}, features, where, lacks);
    if (item.length !== features.length) {
      throw new RowsError(`${where} has ${item.length} values, not ${features.length}.`);
    }
    return item.map((cell) => numberOf(cell, where, lacks));
  });
}

// [[…], …] of CSV (with or without a header row) or JSON (arrays, or objects by feature name);
// throws a RowsError that says where it is wrong. lacks: cells may be empty, and are null.
export function parseRows(text, features, lacks) {
  const trimmed = text.trim();
  if (trimmed === "") throw new RowsError("There are no rows.");
  const rows = /^[[{]/.test(trimmed) ? fromJson(trimmed, features, lacks) : fromCsv(trimmed, features, lacks);
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
