// Why a job does not go on, and what to do about it: the same words wherever a job is shown.

import { h } from "../core/dom.js";
import { isFinal, words } from "../core/format.js";
import { waitsFor } from "./name.js";
import { jobLink } from "./named.js";

const ID = /\b([a-z]+-[0-9a-f]{24})\b/;
const WORKERS = () => h("a", { href: "/ui/workers" }, "workers");

/** What to do, by how the reason begins; the first that fits counts. */
const REMEDIES = [
  [/^no .* is running/, () => ["see ", WORKERS()]],
  [/^no /, () => ["see what the ", WORKERS(), " have"]],
  [/^waiting for .*(slot|GPU|free on|held by)/, () => ["it starts by itself; to start it now, pause or cancel what holds them"]],
  [/^waiting for its turn/, () => ["jobs of a higher priority and older ones come first"]],
  [/^waiting to be retried/, () => ["it starts again by itself; its events say what was lost"]],
  [/^waiting for the LLM/, () => ["it asks again by itself; check the address and the key of the LLM"]],
  [/^waiting for the sandbox/, () => ["it asks again by itself; see which services do not run: ", WORKERS()]],
  [/^waiting for the gateway/, () => ["it goes on by itself once the gateway answers"]],
  [/^waiting for [a-z]+-[0-9a-f]{24}$/, () => ["it goes on once that job has ended"]],
  [/^waiting for .* of loop \d+$/, () => ["an earlier loop comes first"]],
  [/^waiting for .* minutes$/, () => ["its script runs in the sandbox; cancel the campaign to stop it"]],
  [/^waiting for space/, () => ["delete files or campaigns that are no longer needed"]],
];

/** Phases that come before the work, and what they take. */
const PHASES = {
  starting: "its process starts",
  starting_engine: "its engine starts: about a minute on a processor, and longer for the first time",
  loading_model: "its model is loaded: about a minute on a processor, longer for a large one",
  downloading_model: "its model is downloaded from the hub",
  checking_model: "its model is checked",
  validating_files: "its files are checked",
};

/** Whether a job has been claimed and only prepares its work. */
function isPreparing(job) {
  return job.status === "running" && job.phase in PHASES;
}

/** Why a job waits, and what to do, as children of an element; null for one that goes on or has ended. */
export function waiting(job) {
  if (job.status === "paused") return ["paused: resume it to go on from its last checkpoint"];
  if (isPreparing(job)) return [PHASES[job.phase]];
  if (isFinal(job)) return null;
  if (job.queue_reason) return explained(job);
  return job.status === "validating_files" && !job.started_at ? ["a worker checks its files first"] : null;
}

function explained(job) {
  const [, remedy] = REMEDIES.find(([pattern]) => pattern.test(job.queue_reason)) ?? [];
  const holders = waitsFor(job);
  const reason = job.queue_reason.split(ID).map((part) => (ID.test(part) ? jobLink(part) : part));
  return [h("bdi", {}, reason), holders ? [", ", holders] : null, remedy ? h("span", { class: "quiet" }, " (", remedy(), ")") : null];
}

/** Why a model does not answer yet: the state of its engine's job. */
export function engineWaiting(job) {
  return waiting(job) ?? [`its engine is ${words(job.phase ?? job.status)}`];
}
