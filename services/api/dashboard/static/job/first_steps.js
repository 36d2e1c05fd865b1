// From nothing to a model of one's own: the next step of a stack on which little has been done yet.

import { request } from "../core/api.js";
import { h } from "../core/dom.js";

/** Each step: whether it is done is told by whether its route lists anything. */
const STEPS = [
  { path: "/v1/models?limit=1", text: "Add a model", href: "/ui/models", why: "a folder on this computer or a model of a hub, which training starts from" },
  { path: "/v1/files?limit=1", text: "Upload data", href: "/ui/data", why: "a file of conversations, preferences, texts or prompts; it is checked at once" },
  { path: "/v1/jobs?kind=fine_tuning&limit=1", text: "Start a fine-tune", href: "/ui/start/fine-tune", why: "with the defaults, or settings of your own" },
  { path: "/v1/jobs?kind=fine_tuning&status=succeeded&limit=1", text: "Watch it, then chat with the result", href: "/ui?kind=fine_tuning", why: "beside the model it was made from" },
  { path: "/v1/jobs?kind=evaluation&limit=1", text: "Evaluate it", href: "/ui/start/evaluation", why: "and compare it with its base" },
];

/** The section, which is hidden once every step is done. */
export function firstSteps(signal) {
  const element = h("section", { "aria-label": "First steps", class: "first-steps", hidden: true });
  const load = async () => {
    const done = await Promise.all(STEPS.map(async ({ path }) => (await request(path, { signal })).data.length > 0));
    const next = done.indexOf(false);
    if (next < 0) return;
    element.hidden = false;
    element.replaceChildren(
      h("h2", {}, next === 0 ? "From nothing to a model of your own" : `Next: ${STEPS[next].text.toLowerCase()}`),
      h("ol", {}, STEPS.map((step, index) => h("li", { class: done[index] ? "done" : null, "aria-current": index === next ? "step" : null },
        index === next ? h("a", { class: "button primary", href: step.href }, step.text) : h("span", {}, step.text, done[index] ? " (done)" : ""),
        h("span", { class: "quiet" }, ` ${step.why}`)))));
  };
  load().catch(() => {}); // the list below tells what does not work
  return element;
}
