// Tables of tool-call scores: predicted calls against the golds'.

import { facts, h, sameBy, table } from "../core/dom.js";
import { number } from "../core/format.js";
import { signedValue, value } from "../job/metric_value.js";

/** Score tables of each benchmark that has them; empty without any. */
export function toolCallScores(evaluation) {
  const found = (evaluation.benchmarks ?? [evaluation]).filter((one) => one.metrics?.tool_calls);
  const sections = found.map((one) => scoresOf(one.metrics.tool_calls, evaluation.benchmarks ? one.name : null));
  return found.length ? [...sections, sameBy(`/v1/evaluations/${evaluation.id}`, `temper show ${evaluation.id} --json`)] : [];
}

/** Score tables of baseline and candidate side by side, for each comparison that has them. */
export function comparedToolCalls(comparisons) {
  return comparisons.filter((one) => one.tool_calls).map(({ candidate, benchmark, tool_calls: { baseline, candidate: other } }) => {
    const about = [candidate, benchmark].filter(Boolean).join(", ");
    return h("section", {},
      h("h3", {}, "Tool calls of ", h("bdi", {}, about)),
      facts({ "Exact match, single-call golds": both(baseline.single, other.single), "Exact match, multi-call golds": both(baseline.multi, other.multi) }),
      beside(`Tools: baseline vs. ${about}`, "Tool", baseline.tools, other.tools),
      h("details", {}, h("summary", {}, "Parameters"), beside(`Parameters: baseline vs. ${about}`, "Parameter", baseline.parameters, other.parameters)));
  });
}

function both(baseline, candidate) {
  return baseline.total || candidate.total ? `baseline ${equal(baseline)}, candidate ${equal(candidate)}` : "";
}

/** A row for each name in either table, and both averages. */
function beside(caption, heading, ours, theirs) {
  const found = new Map(ours.entries.map((one) => [one.name, { baseline: one }]));
  for (const one of theirs.entries) found.set(one.name, { ...found.get(one.name), candidate: one });
  const listed = [...found].map(([name, scores]) => ({ name: h("bdi", {}, h("span", { class: "long" }, name)), ...scores }));
  const averages = ["micro", "macro"].map((kind) => ({ name: `${kind} average`, baseline: ours[`${kind}_avg`], candidate: theirs[`${kind}_avg`] }));
  return table(caption, comparedColumns(heading), listed.length ? [...listed, ...averages] : [], "No expected or predicted calls.");
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
    facts({ "Exact match, single-call golds": equal(single), "Exact match, multi-call golds": equal(multi) }),
    scores("Tools", "Tool", tools),
    h("details", {}, h("summary", {}, "Parameters"), scores("Tool parameters", "Parameter", parameters)));
}

function equal({ hits, total }) {
  return total ? `${number(hits)} of ${number(total)} (${value(hits / total, true)})` : "";
}

function scores(caption, heading, { entries, left_out: leftOut, micro_avg: micro, macro_avg: macro }) {
  const listed = entries.map((one) => ({ ...one, name: h("bdi", {}, h("span", { class: "long" }, one.name)) }));
  const averages = listed.length ? [{ name: "micro average", ...micro }, { name: "macro average", ...macro }] : [];
  return [
    table(caption, columns(heading), [...listed, ...averages], "No expected or predicted calls."),
    leftOut ? h("p", { class: "quiet" }, `${number(leftOut)} more count toward the averages only`) : null,
  ];
}

const columns = (heading) => ({
  [heading]: (one) => one.name,
  Precision: (one) => value(one.precision, true),
  Recall: (one) => value(one.recall, true),
  F1: (one) => value(one.f1, true),
  Expected: (one) => number(one.label_count),
  Predicted: (one) => number(one.pred_count),
  Correct: (one) => number(one.hit_count),
});
