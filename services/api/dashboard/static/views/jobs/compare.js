// Overlaid curves of several jobs.

import { latestEvents, request } from "../../core/api.js";
import { Charts } from "../../charts/curves.js";
import { field, h, sameBy } from "../../core/dom.js";
import { followEvents } from "../../core/live.js";
import { Metrics, metricsPath } from "../../charts/metrics.js";
import { reportButton } from "../../job/report.js";
import { eventNumber } from "../../job/phases.js";

export function compareView({ place, signal, query, setQuery, go }) {
  const ids = (query.get("jobs") ?? "").split(",").map((id) => id.trim()).filter((id) => /^[\w-]+$/.test(id));
  const wanted = h("input", { value: ids.join(","), size: 60, placeholder: "ftjob-...,ftjob-..." });
  const charts = new Charts(query, setQuery, signal);
  const problems = h("div");

  function submit(event) {
    event.preventDefault();
    const kept = new URLSearchParams(location.search);
    kept.set("jobs", wanted.value);
    go(`/ui/compare?${kept}`);
  }

  const heading = h("h1", {}, "Compare");
  place.append(
    heading,
    h("form", { class: "row", onsubmit: submit }, field("Jobs, separated by commas", wanted), h("button", {}, "Compare")),
    problems,
    h("h2", {}, "Curves"),
    h("div", { class: "row" }, reportButton(() => ({ title: `Comparison of ${ids.length} jobs`, sections: [heading, charts.element], pictures: charts.pictures() }))),
    charts.element,
    ...[...new Set(ids)].map((id) => sameBy(metricsPath(id), `temper logs ${id}`)),
  );
  for (const id of new Set(ids)) {
    const metrics = new Metrics();
    charts.runs.set(id, metrics);
    follow(id, metrics, charts, signal).catch((error) => problems.append(h("p", { class: "error", role: "alert" }, `${id}: ${error.message}`)));
  }
}

async function follow(id, metrics, charts, signal) {
  const [last] = await latestEvents(id, 1, signal);
  metrics.startedAt = (await request(`/v1/jobs/${id}`, { signal })).started_at;
  await metrics.load(id, signal);
  charts.update();
  followEvents(id, last ? eventNumber(last) : 0, (event) => { if (metrics.add(event)) charts.update(); }, () => {}, signal);
}
