// The number that tells most about a job, with its interval or its curve.

import { h } from "../core/dom.js";
import { number, words } from "../core/format.js";
import { interval, value } from "./metric_value.js";
import { sparkline } from "../charts/sparkline.js";

/** The main number of a job as an element; null without one. */
export function mainNumber({ main_number: found }) {
  if (!found) return null;
  const share = found.share;
  const shown = found.not_finite ? "not finite" : share ? value(found.value, true) : number(found.value);
  const ends = interval(found.ci95, (end, more) => value(end, share, more));
  return h("span", { class: "number" }, h("span", { class: "quiet" }, `${words(found.name)} `), h("strong", { class: found.not_finite ? "error" : null }, shown),
    ends ? h("span", { class: "quiet" }, ` ${ends}`) : null, sparkline(found.recent ?? []),
    found.nothing_learned ? h("span", { class: "doubt", title: "In half of its latest steps or more, groups had equal rewards or the gradient was zero." }, "▲ nothing learned") : null);
}
