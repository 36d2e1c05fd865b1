// Active workers and their devices.

import { poll, request } from "../api.js";
import { h, sameBy, show, table } from "../dom.js";
import { duration, time } from "../format.js";

const REFRESH_SECONDS = 5;

export function workersView({ place, signal }) {
  const list = h("div");
  const problem = h("p", { class: "error", role: "alert" });
  place.append(h("h1", {}, "Workers"), problem, list, sameBy("/v1/workers"));
  poll(REFRESH_SECONDS, async () => {
    const workers = (await request("/v1/workers", { signal })).data;
    problem.textContent = "";
    show(list, table(`${workers.length} workers`, COLUMNS, workers, "No active workers. Queued jobs wait until one starts."));
  }, (error) => { problem.textContent = error.message; }, signal);
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
