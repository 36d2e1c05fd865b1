// Evaluations with confidence intervals, and the comparison of several with a baseline.

import { latestOf, poll, request, withQuery } from "../core/api.js";
import { h, inline, keyed, sameBy, show, table, when } from "../core/dom.js";
import { isFinal, number } from "../core/format.js";
import { copyable, jobName } from "../job/name.js";
import { areShares, better, interval, signedValue, value } from "../job/metric_value.js";
import { waiting } from "../job/waiting.js";
import { comparedToolCalls } from "../trajectory/tool_call_scores.js";
import { progress, status } from "./jobs/jobs.js";

const REFRESH_SECONDS = 5;
const PAGE = 100;
const SHOWN_ITEMS = 100;

export function evaluationsView({ place, signal, query, setQuery }) {
  const chosen = new Set((query.get("compare") ?? "").split(",").filter(Boolean));
  const list = h("div");
  const comparison = h("div", { "aria-live": "polite" });
  const problem = h("p", { class: "error", role: "alert" });
  const compare = h("button", { type: "button", onclick: () => showComparison() }, "Compare");

  function choose(id, isChosen) {
    if (isChosen) chosen.add(id);
    else chosen.delete(id);
    setQuery({ compare: [...chosen].join(",") });
    updateButton();
  }

  function updateButton() {
    compare.disabled = chosen.size < 2;
    compare.textContent = chosen.size < 2 ? "Select two or more to compare" : `Compare ${chosen.size} with the first`;
  }

  async function load() {
    const page = await request(`/v1/evaluations?limit=${PAGE}`, { signal });
    problem.textContent = "";
    const rows = page.data.flatMap(byBenchmark);
    const isNeeded = { Benchmark: rows.some((one) => typeof one.name === "string" || one.split || one.macro), "Left out": rows.some((one) => one.metrics?.left_out) };
    const always = Object.entries(columns(chosen, choose)).filter(([name]) => isNeeded[name] ?? true);
    const shown = { ...Object.fromEntries(always), ...(rows.some(callsOf) ? TOOL_CALL_COLUMNS : {}) };
    show(list, table(`Latest ${page.data.length} evaluations`, shown, rows, "No evaluations yet."));
  }

  const failed = (error) => { problem.textContent = error.message; };

  const showComparison = latestOf(async (latest) => {
    const [baseline, ...candidates] = chosen;
    problem.textContent = "";
    const names = await namesOnceEnded([...chosen], comparison, latest);
    if (names === null) return;
    const found = await request(`/v1/evaluations/${baseline}/compare`, { method: "POST", body: { candidates }, signal: latest });
    comparison.replaceChildren(...comparisonOf(found, names));
  }, failed, signal);

  place.append(h("h1", {}, "Evaluations"), problem, h("div", { class: "row" }, compare), comparison, list,
    sameBy("/v1/evaluations", "temper ps --kind evaluation\ntemper compare BASELINE CANDIDATE"));
  updateButton();
  if (chosen.size > 1) showComparison();
  poll(REFRESH_SECONDS, load, failed, signal);
}

/** Wait for evaluations to end, and say so in `place`; their names by id, or null if one did not succeed. */
async function namesOnceEnded(ids, place, signal) {
  for (;;) {
    const jobs = await Promise.all(ids.map((id) => request(`/v1/jobs/${id}`, { signal })));
    const failed = jobs.filter((job) => isFinal(job) && job.status !== "succeeded");
    const open = jobs.filter((job) => !isFinal(job));
    if (!failed.length && !open.length) return new Map(jobs.map((job) => [job.id, job.name || job.id]));
    const line = (job) => h("li", {}, jobName(job), status(job), " ", progress(job), " ", job.error?.message ?? waiting(job));
    show(place, h("p", {}, failed.length ? "There is no comparison, as not all of these have succeeded:" : "The comparison appears here once these have ended:"),
      h("ul", {}, (failed.length ? failed : open).map((job) => keyed(job.id, line(job)))));
    if (failed.length) return null;
    await new Promise((resolve) => { setTimeout(resolve, 1000 * REFRESH_SECONDS); });
    signal.throwIfAborted();
  }
}

/**
 * A row for each benchmark of an evaluation, and one for their mean; the first has the checkbox for
 * comparisons. `main` is the main metric of a row; null before there are results.
 */
function byBenchmark(one) {
  const rows = (one.benchmarks ?? [one]).map((part, place) => ({
    ...one,
    ...part,
    jobName: one.name,
    name: one.benchmarks ? part.name : one.benchmark,
    isFirst: place === 0,
    main: part.main_metric,
  }));
  return one.macro_average ? [...rows, { ...one, jobName: one.name, macro: one.macro_average, main: mainOfMean(one.macro_average) }] : rows;
}

function mainOfMean({ metrics, mean }) {
  return mean && { ...mean, name: "mean", direction: "maximize", share: areShares(Object.values(metrics)) };
}

function benchmarkOf(one) {
  if (one.macro) return meanOf(one.macro);
  return [typeof one.name === "string" ? h("bdi", {}, one.name) : "", one.split ? `, ${one.split}` : ""];
}

/** The parts of a mean, or why there is none. */
function meanOf({ metrics, missing }) {
  if (missing !== null) return ["no mean: ", h("bdi", {}, missing)];
  const parts = inline(Object.entries(metrics), ", ", ([name, metric]) => [h("bdi", {}, name), ` by ${metric.replaceAll("_", " ")}`]);
  return ["mean over ", parts];
}

/** The name of a main metric and its better direction. */
function metric({ name, direction }) {
  return [name.replaceAll("_", " "), " ", better(direction)];
}

/** The value of a main metric, or why there is none. */
function mainValue({ mean, share }) {
  return mean === null ? h("span", { class: "quiet" }, "nothing graded") : value(mean, share);
}

/** The number of correct samples; the main metric may be another one. */
function correctOf({ correct, samples }) {
  return `${number(correct)} of ${number(samples)}`;
}

const columns = (chosen, choose) => ({
  Compare: (one) => (one.status === "succeeded" && one.isFirst ? h("input", {
    type: "checkbox",
    checked: chosen.has(one.id),
    "aria-label": `Compare ${one.jobName || one.id}`,
    title: one.id,
    onchange: (event) => choose(one.id, event.target.checked),
  }) : ""),
  Evaluation: (one) => jobName({ id: one.id, name: one.jobName }),
  Model: (one) => (typeof one.model === "string" ? one.model : `${one.model.model} at ${one.model.base_url}`),
  Status: (one) => status({ ...one, kind: "evaluation" }),
  Benchmark: benchmarkOf,
  "Main metric": ({ main }) => main && metric(main),
  Value: ({ main }) => main && mainValue(main),
  "95% CI": ({ main }) => interval(main?.ci95, (end, more) => value(end, main.share, more)),
  Correct: (one) => one.metrics && correctOf(one.metrics),
  Ungraded: (one) => number(one.metrics?.errors),
  "Cut off": (one) => number(one.metrics?.cut_off),
  "Left out": (one) => number(one.metrics?.left_out),
  Grader: (one) => one.grader?.type.replaceAll("_", " ") ?? "",
  Answers: (one) => h("a", { href: `/ui/jobs/${one.id}/results` }, "answers"),
  Created: (one) => when(one.created_at),
});

const callsOf = (one) => one.metrics?.tool_calls;

/** Columns for graded tool calls; the answers page has each tool and parameter. */
const TOOL_CALL_COLUMNS = {
  "Tool-call precision": (one) => callsOf(one) && value(callsOf(one).tools.micro_avg.precision, true),
  "Tool-call recall": (one) => callsOf(one) && value(callsOf(one).tools.micro_avg.recall, true),
  "Tool-call F1": (one) => callsOf(one) && h("a", { href: `/ui/jobs/${one.id}/results` }, value(callsOf(one).tools.micro_avg.f1, true)),
};

const compared = (baseline, names) => ({
  Candidate: (one) => jobName({ id: one.candidate, name: names.get(one.candidate) }),
  Benchmark: (one) => one.benchmark ?? "",
  Metric: (one) => [one.value === "score" ? "mean score" : "accuracy", " ", better(one.direction)],
  Items: (one) => number(one.items),
  "Baseline mean": (one) => side(one, "baseline"),
  "Candidate mean": (one) => side(one, "candidate"),
  Difference: (one) => difference(one.difference, one),
  "95% CI": (one) => interval(one.ci95, (end, more) => difference(end, one, more)),
  "Adjusted p": (one) => (one.p_adjusted === 0 ? "< 1e-300" : number(one.p_adjusted)),
  Better: (one) => one.better ?? "neither, at 5%",
  Gained: (one) => changed(baseline, one, one.gained, one.gained_items),
  Lost: (one) => changed(baseline, one, one.lost, one.lost_items),
});

function comparisonOf(found, names) {
  const comparisons = bestFirst(found.comparisons);
  const name = names.get(found.baseline);
  return [
    h("h2", {}, "Compared with ", h("a", { href: `/ui/jobs/${found.baseline}` }, h("bdi", {}, name))),
    copyable(found.baseline),
    table("Paired on the same items", compared(found.baseline, names), comparisons, ""),
    ...comparedToolCalls(comparisons.map((one) => ({ ...one, candidate: names.get(one.candidate) }))),
  ];
}

/** The candidates of each benchmark from best to worst; the order of benchmarks is kept. */
function bestFirst(comparisons) {
  const gain = (one) => (one.direction === "minimize" ? -one.difference : one.difference);
  const groups = [...Map.groupBy(comparisons, (one) => one.benchmark).values()];
  return groups.flatMap((group) => group.toSorted((one, other) => gain(other) - gain(one)));
}

/** The mean of one side, marked if it is better. */
function side(one, name) {
  const mean = value(one[`${name}_mean`], one.value === "correct");
  return one.better === name ? h("strong", { class: "better" }, mean) : mean;
}

function difference(found, one, more = 0) {
  return signedValue(found, one.value === "correct", more);
}

/** The number of changed items, and their rows with links to both answers. */
function changed(baseline, { candidate, benchmark }, count, rows) {
  if (!count) return "0";
  const answers = (id, row) => withQuery(`/ui/jobs/${id}/results`, { benchmark, row });
  const both = (row) => [
    `${row} (`,
    h("a", { href: answers(baseline, row), "aria-label": `row ${row} of the baseline` }, "baseline"),
    ", ",
    h("a", { href: answers(candidate, row), "aria-label": `row ${row} of the candidate` }, "candidate"),
    ")",
  ];
  return h("details", {},
    h("summary", {}, String(count)),
    h("span", { class: "long" }, "rows ", inline(rows.slice(0, SHOWN_ITEMS), "; ", both), count > SHOWN_ITEMS ? " …" : ""));
}
