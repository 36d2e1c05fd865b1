// Alerts in a table: what raised each, the value with the bound that it crossed, and for how long.

import { h, table } from "../core/dom.js";
import { duration, number, shortPercent as percent, time, words } from "../core/format.js";
import { namedJob } from "./named.js";

/** How the value and the bound of a rule are written; others are numbers. */
const UNITS = {
  failure_share: percent,
  disk_nearly_full: percent,
  job_waits: duration,
};

function amount(alert, value) {
  if (value !== null) return (UNITS[alert.rule] ?? number)(value);
  return alert.rule === "loss_not_finite" ? "not finite" : null;
}

const JOB = { Job: (alert) => (alert.job_id === null ? "the gateway's host" : namedJob(alert.job_id)) };

const COLUMNS = {
  Rule: (alert) => words(alert.rule),
  Status: (alert) => h("span", { class: alert.status === "raised" ? "error" : "quiet" }, alert.status),
  Value: (alert) => amount(alert, alert.value),
  Bound: (alert) => (alert.bound === null ? null : amount(alert, alert.bound)),
  Raised: (alert) => time(alert.raised_at),
  "Lasted for": (alert) => duration((alert.resolved_at ?? Date.now() / 1000) - alert.raised_at),
  Why: (alert) => h("span", { class: "long" }, alert.message),
};

/** A table of alerts; with their jobs unless they are all of one. */
export function alertTable(caption, alerts, empty, { ofOneJob = false } = {}) {
  return table(caption, ofOneJob ? COLUMNS : { ...JOB, ...COLUMNS }, alerts, empty);
}
