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

/** The id of something, with a button that copies it. */
export function copyable(id) {
  return h("span", { class: "id" }, h("code", {}, id), copyButton(id));
}

/** The heading of a page about a job: what it shows, and of which job, by name; then the job's id. */
export function headingOf(shown, job) {
  return [h("h1", {}, shown, " ", h("a", { href: `/ui/jobs/${job.id}` }, h("bdi", {}, job.name || job.id))), job.name ? copyable(job.id) : ""];
}

/** A link to a job by its name, above its id. */
export function jobName(job) {
  return h("span", { class: "named" }, h("a", { href: `/ui/jobs/${job.id}`, class: "name" }, h("bdi", {}, job.name || job.id)), job.name ? copyable(job.id) : null);
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
