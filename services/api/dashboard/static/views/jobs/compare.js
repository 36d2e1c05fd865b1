// Overlaid curves of several jobs, which are chosen by name.

import { latestEvents, poll, request, withQuery } from "../../core/api.js";
import { Charts } from "../../charts/curves.js";
import { field, h, sameBy, show, table } from "../../core/dom.js";
import { duration, isFinal, oneDirection, took, words } from "../../core/format.js";
import { followEvents } from "../../core/live.js";
import { capacityOf, Metrics, metricsPath } from "../../charts/metrics.js";
import { reportButton } from "../../job/report.js";
import { eventNumber } from "../../job/phases.js";
import { jobName } from "../../job/name.js";
import { mainNumber } from "../../job/main_number.js";
import { progress, status } from "./jobs.js";

const REFRESH_SECONDS = 5;
const SUGGESTED = 100;
const ID_CHARACTERS = 6; // which tell runs of the same name apart

export function compareView({ place, signal, query, setQuery, go }) {
  const ids = [...new Set((query.get("jobs") ?? "").split(",").map((id) => id.trim()).filter((id) => /^[\w-]+$/.test(id)))];
  const charts = new Charts(query, setQuery, signal);
  const jobs = new Map(); // by id, those that exist
  const runs = h("div");
  const problems = h("div");
  const heading = h("h1", {}, ids.length ? `Comparison of ${ids.length} ${ids.length === 1 ? "job" : "jobs"}` : "Compare");

  function choose(chosen) {
    const kept = new URLSearchParams(location.search);
    kept.set("jobs", chosen.join(","));
    go(`/ui/compare?${kept}`);
  }

  function draw() {
    const known = ids.filter((id) => jobs.has(id)).map((id) => jobs.get(id));
    for (const job of known) charts.labels.set(job.id, labelOf(job, known));
    const columns = {
      Run: (job) => [charts.mark(job.id), jobName(job)],
      ...RUN_COLUMNS,
      Remove: (job) => h("button", { type: "button", "aria-label": `Remove ${job.name || job.id}`, onclick: () => choose(ids.filter((id) => id !== job.id)) }, "remove"),
    };
    show(runs, known.length ? table("Runs", columns, known, "") : "");
  }

  async function load(id) {
    jobs.set(id, await request(`/v1/jobs/${id}`, { signal }));
    draw();
  }

  place.append(
    heading,
    problems, runs,
    addForm(ids, choose, signal),
    ...(ids.length ? [
      h("h2", {}, "Curves"),
      h("div", { class: "row" }, reportButton(() => ({ title: `Comparison of ${ids.length} jobs`, sections: [heading, runs, charts.element], pictures: charts.pictures() }))),
      charts.element,
      sameBy(metricsPath(ids[0]), [...ids.slice(1).map((id) => `curl ${location.origin}${metricsPath(id)}`), ...ids.map((id) => `temper logs ${id}`)].join("\n"))] : [h("p", { class: "quiet" }, "Choose the jobs whose curves are drawn over each other.")]));
  for (const id of ids) {
    const metrics = new Metrics(capacityOf(ids.length));
    charts.runs.set(id, metrics);
    const follow = async () => {
      const [last] = await latestEvents(id, 1, signal);
      await load(id);
      metrics.startedAt = jobs.get(id).started_at;
      await metrics.load(id, signal);
      charts.update();
      followEvents(id, last ? eventNumber(last) : 0, (event) => { if (metrics.add(event)) charts.update(); }, () => {}, signal);
    };
    follow().catch((error) => problems.append(h("p", { class: "error", role: "alert" }, `${charts.labelOf(id)}: ${error.message}`)));
  }
  poll(REFRESH_SECONDS, async () => {
    const open = ids.filter((id) => jobs.has(id) && !isFinal(jobs.get(id)));
    for (const id of open) await load(id);
    return open.length > 0 || jobs.size < ids.length;
  }, () => {}, signal);
}

const RUN_COLUMNS = {
  Status: (job) => status(job),
  Result: mainNumber,
  Progress: (job) => progress(job),
  Model: (job) => job.model && h("bdi", { class: "long" }, job.model),
  Method: (job) => job.method && h("bdi", {}, words(job.method)),
  Duration: (job) => duration(took(job)),
};

/** The name of a run in legends, with the end of its id where others have the same. */
function labelOf(job, all) {
  const name = oneDirection(job.name || job.id);
  const isShared = all.some((other) => other !== job && other.name === job.name);
  return isShared ? `${name} (…${job.id.slice(-ID_CHARACTERS)})` : name;
}

/** A form that adds a job by name, and one that takes ids. */
function addForm(ids, choose, signal) {
  const newest = h("select", { required: true }, h("option", { value: "" }, "choose a job"));
  request(withQuery("/v1/jobs", { limit: SUGGESTED }), { signal }).then(({ data }) => {
    const others = data.filter((job) => !ids.includes(job.id));
    newest.append(...others.map((job) => h("option", { value: job.id }, oneDirection(`${job.name || job.id}, ${words(job.status)}, …${job.id.slice(-ID_CHARACTERS)}`))));
  }).catch(() => {}); // ids can be entered
  const wanted = h("input", { value: ids.join(","), size: 60, placeholder: "ftjob-...,ftjob-..." });
  const submitting = (chosen) => (event) => {
    event.preventDefault();
    choose(chosen());
  };
  return h("div", {},
    h("form", { class: "row", onsubmit: submitting(() => [...ids, newest.value]) }, field("Job to add", newest), h("button", {}, "Add")),
    h("details", {}, h("summary", {}, "Choose by ids"),
      h("form", { class: "row", onsubmit: submitting(() => wanted.value.split(",")) }, field("Jobs, separated by commas", wanted), h("button", {}, "Compare"))));
}
