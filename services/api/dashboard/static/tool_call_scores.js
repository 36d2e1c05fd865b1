// How well the answers of evaluations state the calls of their golds, as tables.

import { facts, h, sameBy, table } from "./dom.js";
import { number } from "./format.js";
import { signedValue, value } from "./metric_value.js";

/** The scores of each benchmark that has them, under a heading; empty without any. */
export function toolCallScores(evaluation) {
  const found = (evaluation.benchmarks ?? [evaluation]).filter((one) => one.metrics?.tool_calls);
  const sections = found.map((one) => scoresOf(one.metrics.tool_calls, evaluation.benchmarks ? one.name : null));
  return found.length ? [...sections, sameBy(`/v1/evaluations/${evaluation.id}`, `temper show ${evaluation.id} --json`)] : [];
}

/** The scores of both sides of each comparison that has them, beside each other. */
export function comparedToolCalls(comparisons) {
  return comparisons.filter((one) => one.tool_calls).map(({ candidate, benchmark, tool_calls: { baseline, candidate: other } }) => {
    const about = [candidate, benchmark].filter(Boolean).join(", ");
    return h("section", {},
      h("h3", {}, "Tool calls of ", h("bdi", {}, about)),
      facts({ "Equal to a gold with one call": both(baseline.single, other.single), "Equal to a gold with several": both(baseline.multi, other.multi) }),
      beside(`Tools: the baseline and ${about}`, "Tool", baseline.tools, other.tools),
      h("details", {}, h("summary", {}, "Parameters"), beside(`Parameters: the baseline and ${about}`, "Parameter", baseline.parameters, other.parameters)));
  });
}

function both(baseline, candidate) {
  return baseline.total || candidate.total ? `baseline ${equal(baseline)}, candidate ${equal(candidate)}` : "";
}

/** A row for each name of either table, and both averages. */
function beside(caption, heading, ours, theirs) {
  const found = new Map(ours.entries.map((one) => [one.name, { baseline: one }]));
  for (const one of theirs.entries) found.set(one.name, { ...found.get(one.name), candidate: one });
  const listed = [...found].map(([name, scores]) => ({ name: h("bdi", {}, h("span", { class: "long" }, name)), ...scores }));
  const averages = ["micro", "macro"].map((kind) => ({ name: `${kind} average`, baseline: ours[`${kind}_avg`], candidate: theirs[`${kind}_avg`] }));
  return table(caption, comparedColumns(heading), listed.length ? [...listed, ...averages] : [], "No call was expected or stated.");
}

const SCORES = { Precision: "precision", Recall: "recall", F1: "f1" };

const comparedColumns = (heading) => ({
  [heading]: (one) => one.name,
  ...Object.fromEntries(Object.entries(SCORES).flatMap(([title, name]) => [
    [`${title}, baseline`, (one) => one.baseline && value(one.baseline[name], true)],
    [`${title}, candidate`, (one) => one.candidate && value(one.candidate[name], true)],
  ])),
  "F1, difference": (one) => one.baseline && one.candidate && signedValue(one.candidate.f1 - one.baseline.f1, true),
});

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
