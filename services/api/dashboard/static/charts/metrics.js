// A job's metrics: values by step, and the time of each step.

import { request, withQuery } from "../core/api.js";
import { LATEST, Series } from "./series.js";

const POINTS = 1000;
const CAPACITY = 1200; // points of a metric
const MIN_CAPACITY = 400; // about as many as the chart has pixels
const OF_A_PAGE = 8000; // points of a metric in all runs of a page

/** How many points of a metric each of several runs on one page has. */
export function capacityOf(runs) {
  return Math.max(MIN_CAPACITY, Math.min(CAPACITY, Math.floor(OF_A_PAGE / runs)));
}

/** The path of a job's downsampled metrics, for all steps or a range of them. */
export function metricsPath(jobId, range = {}) {
  return withQuery(`/v1/jobs/${jobId}/metrics`, { points: POINTS, ...range });
}

/** The metrics of a job: values by step of each name, null where one was not finite, and the time of each step. */
export class Metrics {
  constructor(capacity = CAPACITY) {
    this.capacity = capacity;
    this.series = new Map(); // a Series by name
    this.times = new Series(capacity);
    this.startedAt = null;
    this.jobId = null;
    this.isComplete = true; // whether no step was dropped
    this.finer = new Map(); // series of the last requested range
    this.asked = null;
  }

  /** Load the job's downsampled metrics so far, and all of its latest steps. */
  async load(jobId, signal) {
    this.jobId = jobId;
    const found = await request(metricsPath(jobId), { signal });
    this.isComplete = found.complete;
    for (const name of Object.keys(found.metrics)) this.series.delete(name);
    this.keep(this.ingest(found));
    if (!this.isComplete) {
      let last = 0;
      for (const values of this.series.values()) for (const step of values.keys()) last = Math.max(last, step);
      this.keep(this.ingest(await request(metricsPath(jobId, { from_step: Math.max(1, last - LATEST + 1) }), { signal })));
    }
  }

  /** Add values by step of each name. */
  keep(found) {
    for (const [name, values] of found) for (const [step, value] of values) this.put(name, step, value);
  }

  put(name, step, value) {
    if (!this.series.has(name)) this.series.set(name, new Series(this.capacity));
    const values = this.series.get(name);
    values.set(step, value);
    if (values.isThinned) this.isComplete = false;
  }

  /** Load finer points for a range of an axis; returns whether there are new ones. */
  async refine(axis, [from, to], signal) {
    const rangeKey = `${axis} ${from} ${to}`;
    if (this.isComplete || rangeKey === this.asked) return false;
    this.asked = rangeKey;
    const [first, last] = axis === "step" ? [from, to] : this.stepsOf(from, to);
    const range = { from_step: Math.max(0, Math.floor(first)), to_step: Math.max(0, Math.ceil(last)) };
    const found = await request(metricsPath(this.jobId, range), { signal });
    if (rangeKey !== this.asked) return false;
    this.finer = this.ingest(found);
    return true;
  }

  /** The known steps that enclose a range of seconds since the start. */
  stepsOf(from, to) {
    const steps = [...this.times.keys()].sort((a, b) => a - b);
    const start = Math.min(this.startedAt ?? Infinity, this.times.get(steps[0]) ?? 0);
    const before = steps.findLast((step) => this.times.get(step) - start < from);
    const behind = steps.find((step) => this.times.get(step) - start > to);
    return [before ?? 0, behind ?? steps.at(-1) ?? 0];
  }

  /** The series of a response; records their step times. */
  ingest({ metrics }) {
    return new Map(Object.entries(metrics).map(([name, { steps, values, times, nonfinite_steps: gaps = [] }]) => {
      steps.forEach((step, index) => { if (times[index] !== null) this.times.set(step, times[index]); });
      return [name, new Map([...steps.map((step, index) => [step, values[index]]), ...gaps.map((step) => [step, null])])];
    }));
  }

  /** Add an event; returns whether it had metrics. */
  add(event) {
    if (event.type !== "metrics" || !Number.isFinite(event.data?.step)) return false;
    const { step, ...values } = event.data;
    // Event times are in whole seconds.
    if (Math.floor(this.times.get(step) ?? NaN) !== event.created_at) this.times.set(step, event.created_at);
    for (const [name, value] of Object.entries(values)) {
      if (value !== null && !Number.isFinite(value)) continue;
      this.put(name, step, value); // a resumed job reports a step again
    }
    return true;
  }

  /** The steps at which a metric was not finite. */
  gaps(name) {
    const values = this.series.get(name) ?? new Map();
    return [...values].filter(([, value]) => value === null).map(([step]) => step);
  }

  /** A metric's values by their position on an axis: step, or seconds since the job's start. */
  points(name, axis) {
    // Newer values win, as a resumed job reports steps again.
    const values = new Map([...(this.finer.get(name) ?? []), ...this.series.get(name)]);
    if (axis === "step") return values;
    const timed = [...values].filter(([step]) => this.times.between(step) !== undefined).sort(([one], [other]) => one - other);
    // Rows reused from another job are older than this one.
    const start = Math.min(this.startedAt ?? Infinity, ...timed.slice(0, 1).map(([step]) => this.times.between(step)));
    let latest = 0;
    return new Map(timed.map(([step, value]) => {
      latest = Math.max(latest, this.times.between(step) - start); // clocks can go backward, steps cannot
      return [latest, value];
    }));
  }
}
