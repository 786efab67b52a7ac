// Modal questions: the element <dialog> keeps the focus inside and gives it back.
import {freshId, h} from "./dom.js";

// Shows a dialog with a form; the promise is kept when it closes, with what `value` then gives, or
// null where it was left by Escape or Cancel.
export function ask({title, body, action, danger = false, value = () => true}) {
  const id = freshId("dialog");
  const cancel = h("button", {type: "button", class: "quiet"}, "Cancel");
  const go = h("button", {type: "submit", class: danger ? "danger" : "primary"}, action);
  const form = h("form", {method: "dialog"}, h("h2", {id}, title), body,
    h("div", {class: "buttons end"}, cancel, go));
  const dialog = h("dialog", {"aria-labelledby": id}, form);
  return new Promise((resolve) => {
    let result = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault(); // the policy allows no form to be sent anywhere
      result = value();
      dialog.close();
    });
    cancel.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(result);
    });
    document.body.append(dialog);
    dialog.showModal();
    (form.querySelector("input, select, textarea") ?? (danger ? cancel : go)).focus();
  });
}

export function confirm(title, text, action) {
  return ask({title, action, danger: true, body: h("p", null, text)});
}
