// Rows that somebody pasted, as numbers in the order of a model's features. Pure functions.

export class RowsError extends Error {}

function refuse(why) {
  throw new RowsError(why);
}

// What is read as missing where a model fills it in: the list of src/wire/missing.c.
const MARKS = new Set(["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None", "?"]);

export const isMissing = (text) => MARKS.has(text.trim());

// Of a cell's text, or of what stands in JSON. null where it is missing, of a model that fills it in (lacks).
function numberOf(value, where, lacks) {
  const text = typeof value === "string" ? value.trim() : value;
  if (lacks && (text === null || (typeof text === "string" && isMissing(text)))) return null;
  const number = typeof text === "number" || (typeof text === "string" && text !== "") ? Number(text) : NaN;
  if (!Number.isFinite(number)) {
    const comma = typeof text === "string" && /^[-+]?\d*,\d+$/.test(text) ? " It has a decimal comma: numbers take a point here." : "";
    throw new RowsError(`${where}: “${typeof value === "object" && value ? JSON.stringify(value) : value ?? ""}” is no number.${comma}`);
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

// The column that a feature is made of: itself, or for "city=Rome" the words of "city", where the rows have that. null: none.
function sourceOf(feature, has) {
  if (has(feature)) return {name: feature};
  for (let i = feature.indexOf("="); i > 0; i = feature.indexOf("=", i + 1)) {
    const name = feature.slice(0, i);
    if (has(name)) return {name, word: feature.slice(i + 1)};
  }
  return null;
}

// The words that a model knows of each column of words: {city: Set {"Rome", …}}.
function wordsOf(sources) {
  const known = new Map();
  for (const {name, word} of sources.filter((source) => source?.word !== undefined)) {
    if (!known.has(name)) known.set(name, new Set());
    known.get(name).add(word);
  }
  return known;
}

// Whether the cell holds the word: 1 or 0, or null where it is missing, of a model that fills it in.
function isWord(value, word, where, lacks) {
  const text = typeof value === "string" ? value.trim() : value;
  if (lacks && (text === null || (typeof text === "string" && isMissing(text)))) return null;
  if (typeof text !== "string" || text === "") throw new RowsError(`${where}: “${value ?? ""}” is no word.`);
  return Number(text === word);
}

// Asks `unknown` about every word that the model does not know; an empty cell is none.
function checkWords(known, cellOf, where, lacks, unknown) {
  for (const [name, words] of known) {
    const text = cellOf(name);
    const cell = typeof text === "string" ? text.trim() : "";
    if (cell !== "" && !words.has(cell) && !(lacks && isMissing(cell))) {
      unknown(`${where}: the model does not know the word “${cell}” of the column “${name}”.`);
    }
  }
}

// One row of the features, of cells that have names.
function rowOf(sources, known, cellOf, where, options) {
  checkWords(known, cellOf, where(), options.lacks, options.unknown);
  return sources.map(({name, word}) => (word === undefined ? numberOf(cellOf(name), where(name), options.lacks)
    : isWord(cellOf(name), word, where(name), options.lacks)));
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

function fromHeaded(names, lines, separator, features, options) {
  const at = new Map(names.map((name, place) => [name, place]));
  const sources = features.map((feature) => {
    const source = sourceOf(feature, (name) => at.has(name));
    if (!source) throw new RowsError(`The column “${feature}” is missing.`);
    return source;
  });
  const known = wordsOf(sources);
  return lines.map(([line, number]) => {
    const row = cells(line, separator);
    if (row.length !== names.length) throw new RowsError(`Line ${number} has ${row.length} values, not ${names.length}.`);
    return rowOf(sources, known, (name) => row[at.get(name)], () => `Line ${number}`, options);
  });
}

function fromCsv(text, features, options) {
  const {separator, lines} = linesOf(text);
  const first = cells(lines[0][0], separator);
  const headed = !first.every((cell) => isNumber(cell) || (options.lacks && isMissing(cell)));
  if (headed) return fromHeaded(first, lines.slice(1), separator, features, options);
  return lines.map(([line, at]) => {
    const row = cells(line, separator);
    if (row.length !== features.length) {
      throw new RowsError(`Line ${at} has ${row.length} values, not ${features.length}.`);
    }
    return row.map((cell) => numberOf(cell, `Line ${at}`, options.lacks));
  });
}

// A key that is not there is misspelt more often than its value is missing, which null says.
function fromObject(item, features, where, options) {
  const sources = features.map((feature) => {
    const source = sourceOf(feature, (name) => Object.hasOwn(item, name));
    if (source) return source;
    throw new RowsError(`${where}: the column “${feature}” is missing.${options.lacks ? " A value that is missing is null." : ""}`);
  });
  const at = (name) => (name === undefined ? where : `${where}, “${name}”`);
  return rowOf(sources, wordsOf(sources), (name) => item[name], at, options);
}

function fromJson(text, features, options) {
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
    if (!Array.isArray(item)) return fromObject(item, features, where, options);
    if (item.length !== features.length) {
      throw new RowsError(`${where} has ${item.length} values, not ${features.length}.`);
    }
    return item.map((cell) => numberOf(cell, where, options.lacks));
  });
}

// [[…], …] of CSV (with or without a header row) or JSON (arrays, or objects by feature name);
// throws a RowsError that says where it is wrong. lacks: cells may be missing, and are null. Features "city=Rome" may be
// one column "city" of words; unknown is told of those that are in no feature, and refuses them unless said.
export function parseRows(text, features, lacks, unknown = refuse) {
  const options = {lacks, unknown};
  const trimmed = text.trim();
  if (trimmed === "") throw new RowsError("There are no rows.");
  const rows = /^[[{]/.test(trimmed) ? fromJson(trimmed, features, options) : fromCsv(text, features, options);
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
