// Names of jobs, which people read, with their ids, which commands need.

import { h } from "../core/dom.js";
import { duration } from "../core/format.js";

/** A button that copies an id; null where browsers offer no clipboard: only over HTTPS and on loopback. */
export function copyButton(id) {
  if (!window.isSecureContext) return null;
  const copy = async ({ currentTarget: button }) => {
    const isCopied = await navigator.clipboard.writeText(id).then(() => true, () => false);
    button.textContent = isCopied ? "copied" : "not allowed";
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  };
  return h("button", { type: "button", class: "copy", "aria-label": `Copy ${id}`, onclick: copy }, "copy");
}

/** The id of something, as a link if it has an address, with a button that copies it. */
export function copyable(id, address = null) {
  return h("span", { class: "id" }, address ? h("a", { href: address }, id) : h("code", {}, id), copyButton(id));
}

/** A link to a job by its name, above its id. */
export function jobName(job) {
  const address = `/ui/jobs/${job.id}`;
  return h("span", { class: "named" }, h("a", { href: address, class: "name" }, h("bdi", {}, job.name || job.id)), job.name ? copyable(job.id, address) : null);
}

/** Links to the jobs that hold what a job waits for; null without any. */
export function waitsFor(job) {
  if (!job.waits_for?.length) return null;
  return ["held by ", job.waits_for.map((each, index) => [
    index ? ", " : null,
    h("a", { href: `/ui/jobs/${each.id}` }, h("bdi", {}, each.name)),
    each.eta_seconds === null ? null : ` (${duration(each.eta_seconds)} left)`,
  ])];
}
