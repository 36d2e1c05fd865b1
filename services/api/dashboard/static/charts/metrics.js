// A job's metrics: values by step, and the time of each step.

import { request, withQuery } from "../core/api.js";
import { Means } from "./means.js";
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
    this.means = new Map(); // Means by name
    this.gone = new Map(); // the number of steps that were not finite, by name
    this.loadedTo = 0; // the last step that the gateway has counted
    this.times = new Series(capacity);
    this.startedAt = null;
    this.jobId = null;
    this.isComplete = true; // whether no step was dropped
    this.finer = new Map(); // values by step of the last requested range, by name
    this.finerMeans = new Map(); // its intervals, by name
    this.asked = null;
  }

  /** Load the job's downsampled metrics so far, and all of its latest steps. */
  async load(jobId, signal) {
    this.jobId = jobId;
    const found = await request(metricsPath(jobId), { signal });
    this.isComplete = found.complete;
    for (const [name, curve] of Object.entries(found.metrics)) {
      this.series.delete(name);
      this.means.delete(name);
      this.gone.set(name, curve.nonfinite_count ?? (curve.nonfinite_steps ?? []).length);
    }
    this.keep(found);
    this.loadedTo = this.lastStep();
    if (this.isComplete) return;
    this.keep(await request(metricsPath(jobId, { from_step: Math.max(1, this.loadedTo - LATEST + 1) }), { signal }));
    this.loadedTo = this.lastStep();
  }

  lastStep() {
    return Math.max(0, ...[...this.series.values()].map((values) => [...values.keys()].at(-1) ?? 0));
  }

  /** Add the curves of a response. */
  keep({ metrics }) {
    for (const [name, values] of this.ingest({ metrics })) for (const [step, value] of values) this.put(name, step, value);
    for (const [name, curve] of Object.entries(metrics)) {
      const known = this.means.get(name) ?? new Means(this.capacity);
      this.means.set(name, known.refined(intervalsOf(curve)));
    }
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
    this.finerMeans = new Map(Object.entries(found.metrics).map(([name, curve]) => [name, intervalsOf(curve)]));
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
      this.report(name, step, value);
    }
    return true;
  }

  /** Add a new value; a resumed job reports a step again. */
  report(name, step, value) {
    const before = this.series.get(name)?.get(step);
    this.put(name, step, value);
    if (!this.means.has(name)) this.means.set(name, new Means(this.capacity));
    if (value === null) this.means.get(name).remove(step);
    else this.means.get(name).add(step, value);
    const isGone = value === null && before !== null && (before !== undefined || step > this.loadedTo);
    const isBack = value !== null && before === null;
    this.gone.set(name, (this.gone.get(name) ?? 0) + isGone - isBack);
  }

  /** How many steps have a value of a metric, also those that were left out. */
  count(name) {
    return this.means.get(name)?.count ?? 0;
  }

  /** The steps at which a metric was not finite; the first of each interval where steps were left out, see `gone`. */
  gaps(name) {
    const values = this.series.get(name) ?? new Map();
    return [...values].filter(([, value]) => value === null).map(([step]) => step);
  }

  /** A metric's values by their position on an axis: step, or seconds since the job's start. */
  points(name, axis) {
    // Newer values win, as a resumed job reports steps again.
    return this.placed(new Map([...(this.finer.get(name) ?? []), ...this.series.get(name)]), axis);
  }

  /** The moving average of all values of a metric by their position on an axis, and its gaps. */
  smoothed(name, axis, weight) {
    const means = this.means.get(name) ?? new Means(this.capacity);
    const gaps = this.gaps(name).map((step) => [step, null]);
    return this.placed(new Map([...gaps, ...means.refined(this.finerMeans.get(name) ?? []).smoothed(weight)]), axis);
  }

  /** Values by step at their positions on an axis. */
  placed(values, axis) {
    if (axis === "step") return values;
    const timed = [...values].filter(([step]) => this.times.between(step) !== undefined).sort(([one], [other]) => one - other);
    // Rows reused from another job are older than this one.
    const start = Math.min(this.startedAt ?? Infinity, ...timed.slice(0, 1).map(([step]) => this.times.between(step)));
    let latest = 0;
    const places = spread(timed.map(([step]) => {
      latest = Math.max(latest, this.times.between(step) - start); // clocks can go backward, steps cannot
      return latest;
    }));
    return new Map(timed.map(([, value], index) => [places[index], value]));
  }
}

/** The intervals of a curve from the gateway; of one with all steps, each is one. */
function intervalsOf({ steps, values, interval_ends: ends = [], interval_means: means, interval_counts: counts }) {
  if (!ends.length) return steps.map((step, index) => ({ end: step, mean: values[index], count: 1 }));
  return ends.map((end, index) => ({ end, mean: means[index], count: counts[index] }));
}

/** Times in order with those that are equal spread, as events know only the second: until the next time, at most one second. */
function spread(times) {
  const found = [...times];
  for (let first = 0, next; first < times.length; first = next) {
    next = first + 1;
    while (next < times.length && times[next] === times[first]) next += 1;
    const length = Math.min(1, (times[next] ?? Infinity) - times[first]);
    for (let at = first + 1; at < next; at += 1) found[at] = times[first] + (length * (at - first)) / (next - first);
  }
  return found;
}
