// The public API: requests, problems, the key. Every call of the dashboard passes here.
import {askKey} from "./key.js";

const KEY = "krrd.key";

// An answer that says no, as application/problem+json has it, or no answer at all (status 0).
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? "The request failed.");
    this.name = "Problem";
    this.status = status;
    this.title = body.title ?? (status ? `Status ${status}` : "No answer");
    this.detail = body.detail ?? "";
    this.code = body.code ?? "";
    this.errors = Array.isArray(body.errors) ? body.errors : [];
  }
}

export function storedKey() {
  return sessionStorage.getItem(KEY) ?? "";
}

let declined = false; // who closed the dialog is not asked at every turn

export function storeKey(key) {
  declined = false;
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

export function authorization() {
  const key = storedKey();
  return key ? {Authorization: `Bearer ${key}`} : {};
}

export function problemOf(status, text) {
  try {
    const body = JSON.parse(text);
    if (body && typeof body === "object") return new Problem(status, body);
  } catch {
    // Not from krrd: a proxy's page, say.
  }
  return new Problem(status, {title: `Status ${status}`, detail: text.slice(0, 300)});
}

let asking = null;

// Asks for a key, once for all calls that were refused for want of one; false: none was given.
export function renewKey(refused) {
  if (refused !== storedKey()) return Promise.resolve(true);
  if (declined) return Promise.resolve(false);
  asking ??= askKey(refused !== "").then((key) => {
    asking = null;
    if (key) storeKey(key);
    else declined = true;
    return Boolean(key);
  });
  return asking;
}

async function send(method, path, options) {
  const {json, body, type, accept, signal, headers} = options;
  try {
    return await fetch(path, {
      method, signal, cache: "no-store", credentials: "same-origin",
      body: json !== undefined ? JSON.stringify(json) : body,
      headers: {
        Accept: accept ?? "application/json",
        ...(json !== undefined ? {"Content-Type": "application/json"} : type && {"Content-Type": type}),
        ...headers, ...authorization(),
      },
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, {title: "No answer", detail: "krrd does not answer."});
  }
}

// The answer of a call that succeeded; else throws a Problem.
export async function call(method, path, options = {}) {
  for (;;) {
    const key = storedKey();
    const answer = await send(method, path, options);
    if (answer.ok) return answer;
    const text = await answer.text();
    if (answer.status !== 401 || !(await renewKey(key))) throw problemOf(answer.status, text);
  }
}

export async function get(path, options) {
  return (await call("GET", path, options)).json();
}

export async function post(path, json, options) {
  return (await call("POST", path, {json, ...options})).json();
}

export async function remove(path) {
  await call("DELETE", path);
}

export function query(path, parameters) {
  const text = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of [value].flat()) {
      if (one != null && one !== "") text.append(name, one);
    }
  }
  return text.size ? `${path}?${text}` : path;
}

// All pages of a list, up to `most` items.
export async function all(path, parameters = {}, most = 500) {
  const items = [];
  let after = null;
  do {
    const page = await get(query(path, {limit: 100, ...parameters, after}));
    items.push(...page.data);
    after = page.has_more ? page.last_id : null;
  } while (after != null && items.length < most);
  return items;
}

// A page of `count` items, of which large ones come in several answers: not in more than `answers`.
export async function some(path, parameters, count, answers = 4) {
  const whole = {data: [], has_more: true, last_id: null};
  for (let i = 0; i < answers && whole.has_more && whole.data.length < count; i++) {
    const part = await get(query(path, {...parameters, limit: count - whole.data.length, after: whole.last_id}));
    whole.data.push(...part.data);
    whole.has_more = part.has_more;
    whole.last_id = part.last_id;
  }
  return whole;
}

// A model with its newest versions, and with the one that is looked for.
export async function model(name, version = null) {
  const path = `/v1/models/${segment(name)}`;
  const whole = await get(path);
  if (version != null && whole.has_more && !whole.versions.some((one) => String(one.version) === String(version))) {
    whole.versions.push(await get(`${path}/versions/${segment(version)}`));
  }
  return whole;
}

// An Idempotency-Key: a request that is sent twice is done once.
export function freshKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
}

export const segment = encodeURIComponent;
