// What a job reports at its steps: values of each metric, and when they were reported.

import { request, withQuery } from "./api.js";

const POINTS = 1000;

/** The path at which a job's metrics are read, thinned. */
export function metricsPath(jobId) {
  return withQuery(`/v1/jobs/${jobId}/metrics`, { points: POINTS });
}

/** The metrics of a job: values by step of each name, and the time of each step. */
export class Metrics {
  constructor() {
    this.series = new Map();
    this.times = new Map();
    this.startedAt = null;
  }

  /** Load what the job has reported so far, thinned. */
  async load(jobId, signal) {
    const { metrics } = await request(metricsPath(jobId), { signal });
    for (const [name, { steps, values, times }] of Object.entries(metrics)) {
      this.series.set(name, new Map(steps.map((step, index) => [step, values[index]])));
      steps.forEach((step, index) => { if (times[index] !== null) this.times.set(step, times[index]); });
    }
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
    const values = this.series.get(name);
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
