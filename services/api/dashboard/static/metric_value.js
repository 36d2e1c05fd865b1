// Values of metrics as text: shares in percent, scores as they are; and which values are better.

import { h } from "./dom.js";
import { number } from "./format.js";

/** Whether values lie between 0 and 1 and count answers; the scale of scores is their grader's. */
export function isShare(metricName) {
  return metricName !== "mean_score";
}

/** A value of a metric. */
export function value(found, share) {
  return share ? `${(100 * found).toFixed(1)} %` : number(found);
}

/** A difference of two values, with its sign. */
export function signedValue(found, share) {
  return `${found >= 0 ? "+" : ""}${value(found, share)}`;
}

/** The two ends of an interval; empty without one. */
export function interval(ends, one) {
  return ends?.map(one).join(" to ") ?? "";
}

/** An arrow to the better values of a metric. */
export function better(direction) {
  const meaning = direction === "minimize" ? "lower is better" : "higher is better";
  return h("span", { role: "img", "aria-label": meaning, title: meaning }, direction === "minimize" ? "↓" : "↑");
}
