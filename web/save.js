// Files for who looks at the page: what is there already is handed to the browser as a download.
import {h} from "./dom.js";

export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
