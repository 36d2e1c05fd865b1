// How well the answers of an evaluation state the calls of their golds, as tables.

import { facts, h, sameBy, table } from "./dom.js";
import { number } from "./format.js";
import { value } from "./metric_value.js";

/** The scores of each benchmark that has them, under a heading; empty without any. */
export function toolCallScores(evaluation) {
  const found = (evaluation.benchmarks ?? [evaluation]).filter((one) => one.metrics?.tool_calls);
  const sections = found.map((one) => scoresOf(one.metrics.tool_calls, evaluation.benchmarks ? one.name : null));
  return found.length ? [...sections, sameBy(`/v1/evaluations/${evaluation.id}`, `temper show ${evaluation.id} --json`)] : [];
}

function scoresOf({ tools, parameters, single, multi }, benchmark) {
  return h("section", {},
    h("h2", {}, "Tool calls", benchmark === null ? null : [" of ", h("bdi", {}, benchmark)]),
    facts({ "Equal to a gold with one call": equal(single), "Equal to a gold with several": equal(multi) }),
    scores("Tools", "Tool", tools),
    h("details", {}, h("summary", {}, "Parameters"), scores("Parameters of tools", "Parameter", parameters)));
}

function equal({ hits, total }) {
  return total ? `${number(hits)} of ${number(total)} (${value(hits / total, true)})` : "";
}

function scores(caption, heading, { entries, left_out: leftOut, micro_avg: micro, macro_avg: macro }) {
  const listed = entries.map((one) => ({ ...one, name: h("bdi", {}, h("span", { class: "long" }, one.name)) }));
  const averages = listed.length ? [{ name: "micro average", ...micro }, { name: "macro average", ...macro }] : [];
  return [
    table(caption, columns(heading), [...listed, ...averages], "No call was expected or stated."),
    leftOut ? h("p", { class: "quiet" }, `${number(leftOut)} more are in the averages only`) : null,
  ];
}

const columns = (heading) => ({
  [heading]: (one) => one.name,
  Precision: (one) => value(one.precision, true),
  Recall: (one) => value(one.recall, true),
  F1: (one) => value(one.f1, true),
  Expected: (one) => number(one.label_count),
  Stated: (one) => number(one.pred_count),
  Right: (one) => number(one.hit_count),
});
