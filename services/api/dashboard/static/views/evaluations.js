// Evaluations with their intervals, and several of them compared with one.

import { poll, request } from "../api.js";
import { h, sameBy, show, table } from "../dom.js";
import { number, time } from "../format.js";
import { status } from "./jobs.js";

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
    tell();
  }

  function tell() {
    compare.disabled = chosen.size < 2;
    compare.textContent = chosen.size < 2 ? "Choose two or more to compare" : `Compare ${chosen.size} with the first`;
  }

  async function load() {
    const page = await request(`/v1/evaluations?limit=${PAGE}`, { signal });
    problem.textContent = "";
    const rows = page.data.flatMap(byBenchmark);
    show(list, table(`The latest ${page.data.length} evaluations`, columns(chosen, choose), rows, "No evaluation yet."));
  }

  async function showComparison() {
    const [baseline, ...candidates] = chosen;
    problem.textContent = "";
    try {
      const found = await request(`/v1/evaluations/${baseline}/compare`, { method: "POST", body: { candidates }, signal });
      comparison.replaceChildren(...compared(found));
    } catch (error) {
      if (!signal.aborted) problem.textContent = error.message;
    }
  }

  place.append(h("h1", {}, "Evaluations"), problem, h("div", { class: "row" }, compare), comparison, list,
    sameBy("/v1/evaluations", "temper ps --kind evaluation\ntemper compare BASELINE CANDIDATE"));
  tell();
  if (chosen.size > 1) showComparison();
  poll(REFRESH_SECONDS, load, (error) => { problem.textContent = error.message; }, signal);
}

/** A row for each benchmark of an evaluation; the first of them can be chosen for a comparison. */
function byBenchmark(one) {
  return (one.benchmarks ?? [one]).map((part, place) => ({ ...one, ...part, name: one.benchmarks ? part.name : one.benchmark, isFirst: place === 0 }));
}

const columns = (chosen, choose) => ({
  Compare: (one) => (one.status === "succeeded" && one.isFirst ? h("input", {
    type: "checkbox",
    checked: chosen.has(one.id),
    "aria-label": `Compare ${one.id}`,
    onchange: (event) => choose(one.id, event.target.checked),
  }) : ""),
  Evaluation: (one) => h("a", { href: `/ui/jobs/${one.id}` }, one.id),
  Model: (one) => (typeof one.model === "string" ? one.model : `${one.model.model} at ${one.model.base_url}`),
  Status: (one) => status({ ...one, kind: "evaluation" }),
  Benchmark: (one) => [typeof one.name === "string" ? one.name : "", one.split].filter(Boolean).join(", "),
  Accuracy: (one) => (one.metrics ? percent(one.metrics.accuracy) : ""),
  "95 % interval": (one) => (one.metrics ? one.metrics.ci95.map(percent).join(" to ") : ""),
  Samples: (one) => number(one.metrics?.samples),
  "Without a grade": (one) => number(one.metrics?.errors),
  Grader: (one) => one.grader.type.replaceAll("_", " "),
  Answers: (one) => h("a", { href: `/ui/jobs/${one.id}/results` }, "answers"),
  Created: (one) => time(one.created_at),
});

const COMPARED = {
  Candidate: (one) => one.candidate,
  Benchmark: (one) => one.benchmark ?? "",
  Items: (one) => number(one.items),
  Baseline: (one) => percent(one.baseline_mean),
  "The candidate": (one) => percent(one.candidate_mean),
  Difference: (one) => signed(one.difference),
  "95 % interval": (one) => one.ci95.map(signed).join(" to "),
  "p, corrected": (one) => number(one.p_adjusted),
  Gained: (one) => items(one.gained, one.gained_items),
  Lost: (one) => items(one.lost, one.lost_items),
};

function compared(found) {
  return [h("h2", {}, `Compared with ${found.baseline}`), table("Paired on the same items", COMPARED, found.comparisons, "")];
}

/** How many items changed, and which rows of the file they are. */
function items(count, rows) {
  if (!count) return "0";
  const shown = rows.slice(0, SHOWN_ITEMS).join(", ");
  return h("details", {}, h("summary", {}, String(count)), h("span", { class: "long" }, `rows ${shown}${count > SHOWN_ITEMS ? " …" : ""}`));
}

function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

function signed(share) {
  return `${share >= 0 ? "+" : ""}${percent(share)}`;
}
