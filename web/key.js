// Asking for the API key. It stays in this tab (sessionStorage) and goes nowhere but to krrd.
import {ask} from "./dialog.js";
import {freshId, h} from "./dom.js";

export function askKey(refused) {
  const id = freshId("key");
  const input = h("input", {id, type: "password", autocomplete: "off", spellcheck: "false",
    required: true});
  return ask({
    title: "API key",
    action: "Use this key",
    body: h("div", {class: "stack"},
      h("p", null, refused ? "krrd did not accept the key." : "krrd asks for a key."),
      h("label", {for: id}, "Key"), input,
      h("p", {class: "hint"}, "It is kept until this tab is closed.")),
    value: () => input.value.trim(),
  });
}
