// Formatting of metric values: shares in percent, scores unchanged, and the better direction.

import { h } from "../core/dom.js";
import { number, percent } from "../core/format.js";

/** Whether the mean of metrics with these names is a share in [0, 1]; scores have their grader's scale. */
export function areShares(metricNames) {
  return !metricNames.includes("mean_score");
}

/** Format a metric value, with `more` digits than usual. */
export function value(found, share, more = 0) {
  return share ? percent(found, 1 + more) : number(found, 4 + more);
}

/** Format a difference, with its sign and `more` digits than usual. */
export function signedValue(found, share, more = 0) {
  return `${found >= 0 ? "+" : ""}${value(found, share, more)}`;
}

const MOST_MORE = 8; // digits

/** Format an interval with as many digits as tell its ends apart; empty without one. `one` formats an end with some more digits. */
export function interval(ends, one) {
  if (!ends) return "";
  let texts = [];
  for (let more = 0; more <= MOST_MORE; more += 1) {
    texts = ends.map((end) => one(end, more));
    if (texts[0] !== texts[1] || ends[0] === ends[1]) break;
  }
  return texts.join(" to ");
}

/** An arrow in the better direction of a metric. */
export function better(direction) {
  const meaning = direction === "minimize" ? "lower is better" : "higher is better";
  return h("span", { role: "img", "aria-label": meaning, title: meaning }, direction === "minimize" ? "↓" : "↑");
}
