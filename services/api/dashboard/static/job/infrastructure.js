// What failing tools, rewards and engines cost a job, by source; hidden without any.

import { h, show, table } from "../core/dom.js";
import { number } from "../core/format.js";

const PREFIX = "infrastructure_failures/";
const WINDOW = 64; // steps, of which `Metrics` has all
const MOST_SOURCES = 20;

export class Infrastructure {
  /** Rollout jobs count from their start, trainings in each step. */
  constructor(job) {
    this.counts = job.kind === "rollout" ? "so far" : `in the latest ${WINDOW} steps`;
    this.isTotal = job.kind === "rollout";
    this.lost = h("p");
    this.list = h("div");
    const rollouts = `/ui/jobs/${job.id}/trajectories?finish_reason=tool_unavailable`;
    this.element = h("section", { "aria-label": "Failed tools and services", hidden: true },
      h("h2", {}, "Failed tools and services"), this.lost, this.list,
      h("p", {}, h("a", { href: rollouts }, "Rollouts whose tool was unavailable")));
  }

  update(metrics) {
    const sources = [...metrics.series.keys()].filter((name) => name.startsWith(PREFIX));
    if (!sources.length) return;
    let last = 0;
    for (const step of metrics.times.keys()) last = Math.max(last, step);
    const rows = sources.map((name) => ({ id: name, source: name.slice(PREFIX.length), ...this.sum(metrics, name, last) }));
    const failed = rows.filter((row) => row.count > 0).sort((one, other) => other.count - one.count).slice(0, MOST_SOURCES);
    this.element.hidden = failed.length === 0;
    this.lost.textContent = `Samples left out ${this.counts}: ${number(this.sum(metrics, "samples_left_out", last).count)}. They count in no advantage, loss or mean.`;
    show(this.list, table(`Failures ${this.counts}, also those that a repeat repaired`, COLUMNS, failed, ""));
  }

  /** A metric's number in the latest steps, and the latest step with one. */
  sum(metrics, name, last) {
    const values = metrics.series.get(name) ?? new Map();
    let count = 0;
    let latest = null;
    for (let step = Math.max(0, last - WINDOW + 1); step <= last; step += 1) {
      const value = values.get(step) ?? 0;
      if (value > 0) latest = step;
      count = this.isTotal ? Math.max(count, value) : count + value;
    }
    return { count, latest };
  }
}

const COLUMNS = {
  Source: (row) => h("bdi", {}, row.source),
  Failures: (row) => number(row.count),
  "Latest step": (row) => number(row.latest),
};
