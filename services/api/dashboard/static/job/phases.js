// Time a job spent waiting and in each phase, from its events and attempts.

import { h, sameBy, show } from "../core/dom.js";
import { duration, isFinal } from "../core/format.js";

export class Phases {
  constructor(jobId) {
    this.job = null;
    this.attempts = []; // latest first
    this.isComplete = true; // whether every event was added
    this.reported = new Map();
    this.list = h("ol", { class: "row", "aria-label": "Phases in order of first occurrence" });
    this.note = h("p", { class: "quiet" });
    this.element = h("section", {}, h("h2", {}, "Phases"), this.list, this.note, sameBy(`/v1/jobs/${jobId}/events`, `temper logs ${jobId}`));
  }

  /** Add an event, in any order, if it reports a phase. */
  add(event) {
    if (event.type !== "message" || typeof event.data?.phase !== "string") return;
    this.reported.set(eventNumber(event), { at: event.created_at, name: event.data.phase.replaceAll("_", " ") });
    this.draw();
  }

  draw() {
    if (this.job === null) return;
    const reported = [...this.reported].sort(([one], [other]) => one - other).map(([, phase]) => phase);
    const marks = marksOf(this.job, this.attempts.toReversed(), reported);
    const end = this.job.finished_at ?? Date.now() / 1000;
    show(this.list, sums(marks, end).map(({ name, seconds, times }, index, all) => h("li", {},
      h("span", { class: "quiet" }, h("bdi", {}, name)), ` ${duration(seconds)}`, times > 1 ? ` over ${times} periods` : null,
      index === all.length - 1 ? null : ",")));
    this.note.textContent = this.isComplete ? "" : "Only the first and latest events are loaded; a phase between them is counted toward the phase before it.";
  }
}

/** The number of an event within its job, counted from 1. */
export function eventNumber(event) {
  return Number(event.id.slice(event.id.lastIndexOf("-") + 1));
}

/** Phase starts in order; `attempts` and `reported` phases are given oldest first. */
function marksOf(job, attempts, reported) {
  const marks = [{ at: job.created_at, name: "validation and queue" }];
  const rest = [...reported];
  const takeUntil = (end) => {
    while (rest.length && rest[0].at <= end) marks.push(rest.shift());
  };
  // Some jobs, such as campaigns, have no recorded attempts.
  const whole = job.started_at === null ? [] : [{ started_at: job.started_at, ended_at: job.finished_at }];
  const runs = attempts.length ? attempts : whole;
  for (const [index, run] of runs.entries()) {
    const isLast = index === runs.length - 1;
    takeUntil(run.started_at - 1);
    marks.push({ at: run.started_at, name: "starting" });
    takeUntil(run.ended_at ?? Infinity);
    if (run.ended_at !== null && !(isLast && isFinal(job))) marks.push({ at: run.ended_at, name: isLast ? job.status : "between attempts" });
  }
  takeUntil(Infinity);
  return marks;
}

/** Total seconds and number of periods of each phase, in order of first occurrence. */
function sums(marks, end) {
  const all = new Map();
  for (const [index, { at, name }] of marks.entries()) {
    const until = marks[index + 1]?.at ?? end;
    const sum = all.get(name) ?? { name, seconds: 0, times: 0 };
    all.set(name, { name, seconds: sum.seconds + Math.max(0, until - at), times: sum.times + 1 });
  }
  return [...all.values()];
}
