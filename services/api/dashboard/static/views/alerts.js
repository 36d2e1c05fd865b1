// What goes wrong in jobs and on the gateway's host, and what did.

import { alertTable } from "../job/alert_table.js";
import { latestOf, poll, request, withQuery } from "../core/api.js";
import { field, h, sameBy, select, show } from "../core/dom.js";
import { shellQuoted } from "../core/format.js";

const REFRESH_SECONDS = 10;
const PAGE = 100;
const SHOWN = { "": "those that hold", true: "all" };

export function alertsView({ place, signal, query, setQuery }) {
  const filter = { job: query.get("job") ?? "", resolved: query.get("resolved") ?? "" };
  const list = h("div");
  const same = h("div");
  const problem = h("p", { class: "error", role: "alert" });
  const failed = (error) => { problem.textContent = error.message; };

  const load = latestOf(async (latest) => {
    const page = await request(withQuery("/v1/alerts", { ...filter, limit: PAGE }), { signal: latest });
    problem.textContent = "";
    const number = page.has_more ? `The latest ${PAGE} alerts` : `${page.data.length} alerts`;
    show(list, alertTable(`${number}, newest first`, page.data, filter.resolved ? "No alerts." : "Nothing is wrong now."));
    show(same, sameBy(withQuery("/v1/alerts", filter), command(filter)));
  }, failed, signal);

  const change = (name) => (value) => {
    filter[name] = value.trim();
    setQuery(filter);
    load();
  };
  const job = h("input", { type: "search", maxlength: "80", value: filter.job, onchange: (event) => change("job")(event.target.value) });
  place.append(h("h1", {}, "Alerts"),
    h("div", { class: "row", role: "search" }, field("Show", select(SHOWN, filter.resolved, change("resolved"))), field("Job", job)),
    problem, list, same);
  poll(REFRESH_SECONDS, load, failed, signal);
}

function command({ job, resolved }) {
  return ["temper alerts", ...(resolved ? ["--all"] : []), ...(job ? [`--job ${shellQuoted(job)}`] : [])].join(" ");
}
