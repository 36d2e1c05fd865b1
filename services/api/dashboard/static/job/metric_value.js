// Formatting of metric values: shares in percent, scores unchanged, and the better direction.

import { h } from "../core/dom.js";
import { number } from "../core/format.js";

/** Whether the mean of metrics with these names is a share in [0, 1]; scores have their grader's scale. */
export function areShares(metricNames) {
  return !metricNames.includes("mean_score");
}

/** Format a metric value. */
export function value(found, share) {
  return share ? `${(100 * found).toFixed(1)}%` : number(found);
}

/** Format a difference, with its sign. */
export function signedValue(found, share) {
  return `${found >= 0 ? "+" : ""}${value(found, share)}`;
}

/** Format an interval; empty without one. */
export function interval(ends, one) {
  return ends?.map(one).join(" to ") ?? "";
}

/** An arrow in the better direction of a metric. */
export function better(direction) {
  const meaning = direction === "minimize" ? "lower is better" : "higher is better";
  return h("span", { role: "img", "aria-label": meaning, title: meaning }, direction === "minimize" ? "↓" : "↑");
}
