// Active workers and their devices, and services of the stack that do not run.

import { poll, request } from "../core/api.js";
import { h, sameBy, show, table } from "../core/dom.js";
import { duration, time } from "../core/format.js";

const REFRESH_SECONDS = 5;

export function workersView({ place, signal }) {
  const disturbed = h("div");
  const list = h("div");
  const problem = h("p", { class: "error", role: "alert" });
  place.append(h("h1", {}, "Workers"), problem, disturbed, list, sameBy("/v1/workers"));
  poll(REFRESH_SECONDS, async () => {
    const workers = (await request("/v1/workers", { signal })).data;
    const services = (await request("/v1/services", { signal })).data;
    problem.textContent = "";
    show(disturbed, services.filter((service) => service.status !== "running").map(disturbance));
    show(list, table(`${workers.length} workers`, COLUMNS, workers, "No active workers. Queued jobs wait until one starts: temper up starts all, temper serve trainer (evaluator, indexer, campaigns) one."));
  }, (error) => { problem.textContent = error.message; }, signal);
}

function disturbance(service) {
  const next = service.retry_at ? `; next try at ${time(service.retry_at)}` : "";
  return h("section", {},
    h("p", { class: "error" }, `${service.id} ${service.status} (exits: ${service.exits}): ${service.reason}${next}`),
    h("pre", { tabindex: "0" }, service.last_lines.join("\n")));
}

const COLUMNS = {
  Worker: (worker) => worker.id,
  Host: (worker) => worker.host,
  Queues: (worker) => worker.queues.join(", "),
  GPUs: (worker) => worker.gpus.join(", ") || "none",
  "CPU slots": (worker) => String(worker.cpu_slots),
  Started: (worker) => time(worker.started_at),
  "Last heartbeat": (worker) => `${duration(Date.now() / 1000 - worker.heartbeat_at)} ago`,
};
