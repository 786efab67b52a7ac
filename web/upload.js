// One upload: fetch cannot say how much of a body has left, XMLHttpRequest can.
import {authorization, problemOf, Problem, query, renewKey, storedKey} from "./api.js";
import {isMissing} from "./rows.js";

const TYPES = {csv: "text/csv", tsv: "text/csv", txt: "text/csv", libsvm: "text/x-libsvm", svm: "text/x-libsvm",
  npy: "application/x-npy", npz: "application/x-npz"};

// "prices.csv.gz" is CSV, packed.
export function kindOf(fileName) {
  const packed = /\.gz$/i.test(fileName);
  const plain = packed ? fileName.slice(0, -3) : fileName;
  const ending = plain.slice(plain.lastIndexOf(".") + 1).toLowerCase();
  return {type: TYPES[ending] ?? null, packed, stem: plain.replace(/\.[^.]*$/, "")};
}

function send(file, path, headers, {progress, signal}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    for (const [name, value] of Object.entries({...headers, ...authorization()})) {
      request.setRequestHeader(name, value);
    }
    request.upload.addEventListener("progress", (event) => progress(event.loaded, event.total));
    request.upload.addEventListener("load", () => progress(file.size, file.size));
    request.addEventListener("load", () => {
      if (request.status === 201) resolve(JSON.parse(request.responseText));
      else reject(problemOf(request.status, request.responseText));
    });
    request.addEventListener("error", () => reject(new Problem(0, {title: "The upload broke off",
      detail: "krrd does not answer, or ended the connection before the file was there."})));
    request.addEventListener("abort", () => reject(new Problem(0, {title: "Stopped", detail: "The upload was stopped."})));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

// The data set. options: {name, target: […], ignore: […], format, task, one_hot, missing, decimal}; progress(sent, of).
export async function upload(file, options, hooks) {
  const kind = kindOf(file.name);
  const headers = {"Content-Type": kind.type ?? "text/csv"};
  if (kind.packed) headers["Content-Encoding"] = "gzip";
  const path = query("/v1/datasets", options);
  for (;;) {
    const key = storedKey();
    try {
      return await send(file, path, headers, hooks);
    } catch (problem) {
      if (problem.status !== 401 || !(await renewKey(key))) throw problem;
    }
  }
}

// The column names that a CSV file seems to have, for a choice of targets; none where it has none.
export async function columnsOf(file, split) {
  const kind = kindOf(file.name);
  if (kind.packed || kind.type !== "text/csv") return [];
  const line = (await file.slice(0, 1 << 16).text()).replace(/^\uFEFF/, "").split(/\r?\n/)[0];
  const names = split(line);
  return names.length > 1 && names.length <= 2000 && !names.every((name) => isMissing(name) || Number.isFinite(Number(name)))
    ? names : [];
}
