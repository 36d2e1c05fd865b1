// What a job reports at its steps: values of each metric, and when they were reported.

import { request, withQuery } from "./api.js";

const POINTS = 1000;
const LATEST_STEPS = 64;

/** The path at which a job's metrics are read, thinned; of all steps or of a range of them. */
export function metricsPath(jobId, range = {}) {
  return withQuery(`/v1/jobs/${jobId}/metrics`, { points: POINTS, ...range });
}

/** The metrics of a job: values by step of each name, and the time of each step. */
export class Metrics {
  constructor() {
    this.series = new Map();
    this.times = new Map();
    this.startedAt = null;
    this.jobId = null;
    this.isComplete = true; // whether no step was left out
    this.finer = new Map(); // the series of the stretch that was asked for last
    this.asked = null;
  }

  /** Load what the job has reported so far, thinned, and all of its latest steps. */
  async load(jobId, signal) {
    this.jobId = jobId;
    const found = await request(metricsPath(jobId), { signal });
    this.isComplete = found.complete;
    const loaded = this.taken(found);
    if (!this.isComplete) {
      let last = 0;
      for (const values of loaded.values()) for (const step of values.keys()) last = Math.max(last, step);
      const latest = await request(metricsPath(jobId, { from_step: Math.max(1, last - LATEST_STEPS + 1) }), { signal });
      for (const [name, values] of this.taken(latest)) loaded.set(name, new Map([...(loaded.get(name) ?? []), ...values]));
    }
    for (const [name, values] of loaded) this.series.set(name, values);
  }

  /** Load finer points of a stretch of an axis; returns whether there are new ones. */
  async refine(axis, [from, to], signal) {
    const stretch = `${axis} ${from} ${to}`;
    if (this.isComplete || stretch === this.asked) return false;
    this.asked = stretch;
    const [first, last] = axis === "step" ? [from, to] : this.stepsOf(from, to);
    const range = { from_step: Math.max(0, Math.floor(first)), to_step: Math.max(0, Math.ceil(last)) };
    const found = await request(metricsPath(this.jobId, range), { signal });
    if (stretch !== this.asked) return false;
    this.finer = this.taken(found);
    return true;
  }

  /** The steps of seconds since the start, from the known one before to the known one behind. */
  stepsOf(from, to) {
    const steps = [...this.times.keys()].sort((a, b) => a - b);
    const start = Math.min(this.startedAt ?? Infinity, this.times.get(steps[0]) ?? 0);
    const before = steps.findLast((step) => this.times.get(step) - start < from);
    const behind = steps.find((step) => this.times.get(step) - start > to);
    return [before ?? 0, behind ?? steps.at(-1) ?? 0];
  }

  /** The series of an answer, whose times are kept. */
  taken({ metrics }) {
    return new Map(Object.entries(metrics).map(([name, { steps, values, times }]) => {
      steps.forEach((step, index) => { if (times[index] !== null) this.times.set(step, times[index]); });
      return [name, new Map(steps.map((step, index) => [step, values[index]]))];
    }));
  }

  /** Take in an event; returns whether it held metrics. */
  add(event) {
    if (event.type !== "metrics" || !Number.isFinite(event.data?.step)) return false;
    const { step, ...values } = event.data;
    // An event knows whole seconds only.
    if (Math.floor(this.times.get(step) ?? NaN) !== event.created_at) this.times.set(step, event.created_at);
    for (const [name, value] of Object.entries(values)) {
      if (!Number.isFinite(value)) continue;
      if (!this.series.has(name)) this.series.set(name, new Map());
      this.series.get(name).set(step, value); // a resumed job reports a step again
    }
    return true;
  }

  /** The values of a metric by their places on an axis: steps, or seconds since the job's start. */
  points(name, axis) {
    // What came since counts, as a resumed job reports a step again.
    const values = new Map([...(this.finer.get(name) ?? []), ...this.series.get(name)]);
    if (axis === "step") return values;
    const timed = [...values].filter(([step]) => this.times.has(step)).sort(([one], [other]) => one - other);
    // Rows that were taken over from another job are older than this one.
    const start = Math.min(this.startedAt ?? Infinity, ...timed.slice(0, 1).map(([step]) => this.times.get(step)));
    let latest = 0;
    return new Map(timed.map(([step, value]) => {
      latest = Math.max(latest, this.times.get(step) - start); // clocks are set back, steps are not
      return [latest, value];
    }));
  }
}
