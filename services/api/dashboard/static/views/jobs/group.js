// Jobs that share a label, such as those of a sweep: what differs between them, the best first.

import { poll, request, withQuery } from "../../core/api.js";
import { field, h, sameBy, select, show, table } from "../../core/dom.js";
import { duration, isFinal, json, number, shellQuoted, took } from "../../core/format.js";
import { Metrics } from "../../charts/metrics.js";
import { leavesOf, valueAt } from "../../forms/grid.js";
import { withoutNulls } from "../../forms/request_difference.js";
import { mainNumber } from "../../job/main_number.js";
import { jobName } from "../../job/name.js";
import { waiting } from "../../job/waiting.js";
import { progress, status } from "./jobs.js";

const REFRESH_SECONDS = 5;
const MOST = 100;
const MOST_COMPARED = 20;
const MAIN = ""; // the main number of each job
const LOWER = /loss|perplexity|error|seconds|failure|kl/;

export function groupView({ place, signal, query, setQuery }) {
  const label = query.get("metadata") ?? "";
  const state = { by: query.get("by") ?? MAIN, better: query.get("better") ?? "" };
  const requests = new Map();
  const finals = new Map(); // of the chosen metric, by job
  const names = h("datalist", { id: "metrics" });
  const list = h("div");
  const problem = h("p", { class: "error", role: "alert" });
  const links = h("p", { class: "row" });
  const by = h("input", { type: "search", list: "metrics", value: state.by, placeholder: "the main number", autocomplete: "off", onchange: (event) => change({ by: event.target.value.trim() }) });
  const better = select({ "": "by its name", lower: "lower", higher: "higher" }, state.better, (value) => change({ better: value }));

  function change(changes) {
    Object.assign(state, changes);
    finals.clear();
    setQuery(state);
    load().catch(failed);
  }

  const failed = (error) => { if (!signal.aborted) problem.textContent = error.message; };

  async function load() {
    if (label.indexOf("=") < 1) {
      show(list, h("p", {}, "The address needs a label: ", h("code", {}, "?metadata=key=value"), "."));
      return false;
    }
    const { data: jobs, has_more: hasMore } = await request(withQuery("/v1/jobs", { metadata: label, limit: MOST }), { signal });
    await Promise.all(jobs.filter((job) => !requests.has(job.id)).map(async (job) => {
      requests.set(job.id, withoutNulls((await request(`/v1/jobs/${job.id}/request`, { signal })).body));
    }));
    await Promise.all(jobs.map((job) => read(job)));
    problem.textContent = "";
    draw(jobs, hasMore);
    return jobs.some((job) => !isFinal(job)) || !jobs.length;
  }

  /** The last value of the chosen metric of a job; of one that has ended, only once. */
  async function read(job) {
    if (state.by === MAIN || (finals.has(job.id) && isFinal(job))) return;
    const metrics = new Metrics();
    await metrics.load(job.id, signal);
    names.replaceChildren(...[...metrics.series.keys()].sort().map((each) => h("option", { value: each })));
    const values = [...(metrics.series.get(state.by) ?? [])].sort(([one], [other]) => one - other);
    finals.set(job.id, values.findLast(([, value]) => value !== null)?.[1] ?? null);
  }

  function draw(jobs, hasMore) {
    const valueOf = (job) => (state.by === MAIN ? job.main_number?.value : finals.get(job.id)) ?? null;
    const metric = state.by || (jobs.find((job) => job.main_number)?.main_number.name ?? "");
    const isLower = state.better ? state.better === "lower" : LOWER.test(metric);
    const rank = (job) => (valueOf(job) === null ? Infinity : isLower ? valueOf(job) : -valueOf(job));
    const ranked = [...jobs].sort((one, other) => rank(one) - rank(other) || (one.id < other.id ? -1 : 1));
    const best = ranked.length && rank(ranked[0]) < Infinity ? ranked[0].id : null;
    const shown = {
      Job: (job) => [jobName(job), job.id === best ? h("strong", { class: "better" }, "best") : null],
      ...Object.fromEntries(differing([...requests.values()]).map((name) => [name.slice(name.lastIndexOf(".") + 1), (job) => h("bdi", {}, textOf(valueAt(requests.get(job.id), name)))])),
      [metric ? `${metric} (${isLower ? "lower" : "higher"} is better)` : "Result"]: (job) => (state.by === MAIN ? mainNumber(job) : h("span", { class: "number" }, number(valueOf(job)))),
      Status: (job) => [status(job), " ", progress(job), waiting(job) && h("span", { class: "long quiet" }, waiting(job))],
      Duration: (job) => duration(took(job)),
    };
    show(list, table(hasMore ? `The newest ${MOST} jobs, the best first` : `${jobs.length} jobs, the best first`, shown, ranked, "No job has this label."));
    const compared = ranked.slice(0, MOST_COMPARED).map((job) => job.id).join(",");
    show(links, compared ? h("a", { class: "button", href: withQuery("/ui/compare", { jobs: compared, curves: state.by }) }, ranked.length > MOST_COMPARED ? `Curves of the best ${MOST_COMPARED}` : "Curves") : null);
  }

  place.append(h("h1", {}, "Jobs with ", h("bdi", {}, label)), names,
    h("div", { class: "row", role: "search" }, field("Best by", by), field("Better is", better)),
    problem, links, list, sameBy(withQuery("/v1/jobs", { metadata: label }), `temper ps --metadata ${shellQuoted(label)}`));
  poll(REFRESH_SECONDS, load, failed, signal);
}

/** The dotted names of the fields in which requests differ, but for their labels. */
function differing(requests) {
  const names = [...new Set(requests.flatMap((each) => leavesOf(each)))].filter((name) => !/^(metadata|name|suffix)(\.|$)/.test(name));
  const found = names.filter((name) => new Set(requests.map((each) => JSON.stringify(valueAt(each, name)))).size > 1);
  return found.sort((one, other) => (one === "seed") - (other === "seed")); // it is drawn for each job unless it is given
}

function textOf(value) {
  return value === undefined ? "default" : typeof value === "string" ? value : json(value);
}
