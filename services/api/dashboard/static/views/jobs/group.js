// Jobs that share a label, such as those of a sweep: what differs between them, the best first where
// one direction of one metric tells which that is.

import { poll, request, withQuery } from "../../core/api.js";
import { excerpt, field, h, sameBy, select, show, table } from "../../core/dom.js";
import { duration, isFinal, json, number, oneDirection, shellQuoted, took } from "../../core/format.js";
import { Metrics } from "../../charts/metrics.js";
import { fieldsOf, valueAt } from "../../forms/grid.js";
import { mainNumber } from "../../job/main_number.js";
import { jobName } from "../../job/name.js";
import { waiting } from "../../job/waiting.js";
import { progress, status } from "./jobs.js";

const REFRESH_SECONDS = 5;
const MOST = 100;
const MOST_COMPARED = 20;
const MAIN = ""; // the main number of each job
const LOWER = /loss|perplexity|error|seconds|fail|(^|[_/])kl([_/]|$)|cut_off|unrewarded|capped|filter_rate|stale|idle/;
const HIGHER = /reward|accuracy|score|pass|correct|exact|f1|precision|recall|per_second|speedup|acceptance|margin/;
const SPREAD = /_(std|min|max)$/; // tells of a metric, but not how good it is

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
      requests.set(job.id, (await request(`/v1/jobs/${job.id}/request`, { signal, isExact: true })).body);
    }));
    await Promise.all(jobs.map((job) => read(job)));
    problem.textContent = "";
    draw(jobs, hasMore);
    return jobs.some((job) => !isFinal(job) || job.status === "failed") || !jobs.length; // a failed one may be retried
  }

  /** The last value of the chosen metric of a job; of one that has ended, only once. */
  async function read(job) {
    if (state.by === MAIN || (finals.has(job.id) && isFinal(job))) return;
    const metrics = new Metrics();
    await metrics.load(job.id, signal);
    names.replaceChildren(...[...metrics.series.keys()].sort().map((each) => h("option", { value: each })));
    const values = [...(metrics.series.get(state.by) ?? [])].sort(([one], [other]) => one - other);
    finals.set(job.id, values.at(-1)?.[1]); // null: not finite
  }

  /** What a job is ranked by; null without it, or where it is of another metric than most have. */
  function valueOf(job, main) {
    if (state.by !== MAIN) return finals.get(job.id) ?? null;
    const found = job.main_number;
    return found && !found.not_finite && isAlike(job, main) ? found.value : null;
  }

  function draw(jobs, hasMore) {
    const main = commonest(jobs);
    const metric = state.by || (main?.main_number.name ?? "");
    const direction = state.better || directionOf(metric, main?.main_number);
    const sign = { lower: 1, higher: -1 }[direction] ?? null;
    const rank = (job) => (valueOf(job, main) === null || sign === null ? Infinity : sign * valueOf(job, main));
    const ranked = [...jobs].sort((one, other) => rank(one) - rank(other) || 0); // the list is newest first
    const best = ranked.length && rank(ranked[0]) < Infinity ? ranked[0].id : null;
    const about = direction ? `${direction} is better` : "choose which is better";
    const shown = {
      Job: (job) => [jobName(job), job.id === best ? h("strong", { class: "better" }, "best") : null],
      ...Object.fromEntries(headingsOf(differing([...requests.values()])).map(([heading, name]) => [heading, (job) => excerpt(textOf(valueAt(requests.get(job.id), name)))])),
      [metric ? `${metric} (${about})` : "Result"]: (job) => (state.by === MAIN ? mainNumber(job) : h("span", { class: "number" }, finals.get(job.id) === null ? "not finite" : number(finals.get(job.id)))),
      Status: (job) => [status(job), " ", progress(job), waiting(job) && h("span", { class: "long quiet" }, waiting(job))],
      Duration: (job) => duration(took(job)),
    };
    const order = best ? "the best first" : "newest first";
    show(list, table(hasMore ? `The newest ${MOST} jobs, ${order}` : `${jobs.length} jobs, ${order}`, shown, ranked, "No job has this label."));
    const compared = ranked.slice(0, MOST_COMPARED).map((job) => job.id).join(",");
    show(links, compared ? h("a", { class: "button", href: withQuery("/ui/compare", { jobs: compared, curves: state.by }) }, ranked.length > MOST_COMPARED ? `Curves of the first ${MOST_COMPARED}` : "Curves") : null);
  }

  place.append(h("h1", {}, "Jobs with ", h("bdi", {}, label)), names,
    h("div", { class: "row", role: "search" }, field("Best by", by), field("Better is", better)),
    problem, links, list, sameBy(withQuery("/v1/jobs", { metadata: label }), `temper ps --metadata ${shellQuoted(label)}`));
  poll(REFRESH_SECONDS, load, failed, signal);
}

/** Whether jobs are of one kind, with main numbers of one metric and direction. */
function isAlike({ kind, main_number: one }, { kind: otherKind, main_number: other }) {
  return kind === otherKind && one.name === other.name && one.direction === other.direction;
}

/** A job whose main number is such as most jobs have; null without any. */
function commonest(jobs) {
  const found = jobs.filter((job) => job.main_number);
  const count = (one) => found.filter((other) => isAlike(one, other)).length;
  return found.reduce((most, one) => (most === null || count(one) > count(most) ? one : most), null);
}

/** Which values of a metric are better: as the jobs whose main number it is say, else by its name; empty where neither tells. */
function directionOf(metric, main) {
  if (main?.name === metric && main.direction) return main.direction === "minimize" ? "lower" : "higher";
  if (SPREAD.test(metric)) return "";
  return LOWER.test(metric) ? "lower" : HIGHER.test(metric) ? "higher" : "";
}

/** The dotted names of the fields in which requests differ, but for their labels. */
function differing(requests) {
  const all = [...new Set(requests.flatMap((each) => fieldsOf(each)))].filter((name) => !/^(metadata|name|suffix)(\.|$)/.test(name));
  const names = all.filter((name) => !all.some((other) => other.startsWith(`${name}.`))); // an object of one is null in another
  const found = names.filter((name) => new Set(requests.map((each) => JSON.stringify(valueAt(each, name) ?? null))).size > 1); // an earlier version's lacks fields
  return found.sort((one, other) => (one === "seed") - (other === "seed")); // it is drawn for each job unless it is given
}

/** Headings for dotted names: their last parts, but for names that have it in common. */
function headingsOf(names) {
  const last = (name) => name.slice(name.lastIndexOf(".") + 1);
  const counts = Map.groupBy(names, last);
  return names.map((name) => [counts.get(last(name)).length > 1 ? name : last(name), name]);
}

/** A value as text; empty where the request has no such field, as under another method. */
function textOf(value) {
  if (value === undefined) return "";
  return value === null ? "none" : typeof value === "string" ? oneDirection(value) : json(value);
}
