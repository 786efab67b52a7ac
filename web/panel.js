// A part of a page that asks for itself: what fails is told there, and takes nothing else with it.
import {fill, h} from "./dom.js";
import {problemBox} from "./notices.js";
import {poll} from "./poll.js";

// Shows what load() gives, every `seconds`. What was shown before a failure stays, beneath `trouble`.
export function panel(seconds, load, show, context) {
  const trouble = h("div");
  const list = poll(seconds, async () => show(await load()), (problem) => {
    fill(trouble, problem ? problemBox(problem, {live: false}) : null);
    context.reached(problem);
  });
  return {trouble, now: list.now, stop: list.stop};
}
