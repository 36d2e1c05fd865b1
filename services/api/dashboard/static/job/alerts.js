// The alerts of one job, those that hold and those that are over; hidden without any.

import { alertTable } from "./alert_table.js";
import { poll, request, withQuery } from "../core/api.js";
import { h, sameBy, show } from "../core/dom.js";

const REFRESH_SECONDS = 15; // the gateway looks every 30
const MOST = 20;

/** A section that follows the alerts of a job. */
export function jobAlerts(id, signal) {
  const list = h("div");
  const path = withQuery("/v1/alerts", { job: id, resolved: true, limit: MOST });
  const section = h("section", { "aria-label": "Alerts", hidden: true }, h("h2", {}, "Alerts"), list,
    sameBy(path, `temper alerts --job ${id} --all`));
  poll(REFRESH_SECONDS, async () => {
    const { data } = await request(path, { signal });
    section.hidden = data.length === 0;
    show(list, alertTable("Newest first", data, "", { ofOneJob: true }));
  }, () => {}, signal);
  return section;
}
