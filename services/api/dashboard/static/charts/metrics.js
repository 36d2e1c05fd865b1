// A job's metrics: values by step, and the time of each step.

import { request, withQuery } from "../core/api.js";

const POINTS = 1000;
const LATEST_STEPS = 64;
const MOST_POINTS = 1200; // of a metric; a page may stay open for as long as a job runs
const GROUP = 4; // of older points, of which the least and the greatest stay

/** The path of a job's downsampled metrics, for all steps or a range of them. */
export function metricsPath(jobId, range = {}) {
  return withQuery(`/v1/jobs/${jobId}/metrics`, { points: POINTS, ...range });
}

/** The metrics of a job: values by step of each name, null where one was not finite, and the time of each step. */
export class Metrics {
  constructor() {
    this.series = new Map();
    this.times = new Map();
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
    const loaded = this.ingest(found);
    if (!this.isComplete) {
      let last = 0;
      for (const values of loaded.values()) for (const step of values.keys()) last = Math.max(last, step);
      const latest = await request(metricsPath(jobId, { from_step: Math.max(1, last - LATEST_STEPS + 1) }), { signal });
      for (const [name, values] of this.ingest(latest)) loaded.set(name, new Map([...(loaded.get(name) ?? []), ...values]));
    }
    for (const [name, values] of loaded) this.series.set(name, values);
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
      if (!this.series.has(name)) this.series.set(name, new Map());
      this.series.get(name).set(step, value); // a resumed job reports a step again
      if (this.series.get(name).size > MOST_POINTS) this.thin();
    }
    return true;
  }

  /** Leave out about half of the older points, as the gateway does; a zoom loads them again. */
  thin() {
    for (const [name, values] of this.series) if (values.size > MOST_POINTS / 2) this.series.set(name, thinned(values));
    const kept = new Set([...this.series.values()].flatMap((values) => [...values.keys()]));
    for (const step of this.times.keys()) if (!kept.has(step)) this.times.delete(step);
    this.isComplete = false;
  }

  /** The steps at which a metric was not finite. */
  gaps(name) {
    const values = this.series.get(name) ?? new Map();
    return [...values].filter(([, value]) => value === null).map(([step]) => step).sort((one, other) => one - other);
  }

  /** A metric's values by their position on an axis: step, or seconds since the job's start. */
  points(name, axis) {
    // Newer values win, as a resumed job reports steps again.
    const values = new Map([...(this.finer.get(name) ?? []), ...this.series.get(name)]);
    if (axis === "step") return values;
    const timed = [...values].filter(([step]) => this.times.has(step)).sort(([one], [other]) => one - other);
    // Rows reused from another job are older than this one.
    const start = Math.min(this.startedAt ?? Infinity, ...timed.slice(0, 1).map(([step]) => this.times.get(step)));
    let latest = 0;
    return new Map(timed.map(([step, value]) => {
      latest = Math.max(latest, this.times.get(step) - start); // clocks can go backward, steps cannot
      return [latest, value];
    }));
  }
}

/** The latest points of a metric, and of each group of earlier ones the extremes and one that is not finite. */
function thinned(values) {
  const points = [...values].sort(([one], [other]) => one - other);
  const latest = points.splice(-LATEST_STEPS);
  const kept = [];
  for (let first = 0; first < points.length; first += GROUP) {
    const group = points.slice(first, first + GROUP);
    const finite = group.filter(([, value]) => value !== null).sort(([, one], [, other]) => one - other);
    kept.push(...new Set([group.find(([, value]) => value === null), finite[0], finite.at(-1)].filter(Boolean)));
  }
  return new Map([...kept.sort(([one], [other]) => one - other), ...latest]);
}
