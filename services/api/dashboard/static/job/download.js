// The download of a hub model: how many bytes are here, at what rate, and how long the rest takes.

import { poll, request } from "../core/api.js";
import { h, show } from "../core/dom.js";
import { bytes, duration, isFinal } from "../core/format.js";
import { waiting } from "./waiting.js";

const REFRESH_SECONDS = 1;

/** A job's download as children of an element; null while it downloads nothing. */
export function downloadOf(job) {
  if (!job.download) return null;
  const { bytes: done, total_bytes: total, bytes_per_second: rate, eta_seconds: left } = job.download;
  return [
    h("progress", { max: total, value: done, "aria-label": "Download" }),
    ` ${bytes(done)} of ${bytes(total)}`,
    rate === null ? null : rate > 0 ? `, ${bytes(Math.round(rate))}/s` : ", nothing comes at the moment",
    left === null ? null : `, ${duration(left)} left`,
  ];
}

/** Show a download job in `place`, live, with a button that cancels it; `done` is called with it once it has succeeded. */
export function followDownload(place, id, signal, done) {
  const line = h("span");
  const problem = h("p", { class: "error", role: "alert" });
  const cancel = h("button", { type: "button", onclick: () => stop() }, "Cancel the download");
  async function stop() {
    cancel.disabled = true;
    await request(`/v1/jobs/${id}/cancel`, { method: "POST", signal }).catch((error) => { problem.textContent = error.message; });
  }
  place.replaceChildren(h("p", { class: "row" }, line, cancel, h("a", { href: `/ui/jobs/${id}` }, "its job")), problem);
  poll(REFRESH_SECONDS, async () => {
    const job = await request(`/v1/jobs/${id}`, { signal });
    show(line, downloadOf(job) ?? waiting(job) ?? job.status);
    if (!isFinal(job)) return true;
    cancel.hidden = true;
    if (job.error) problem.textContent = job.error.message;
    if (job.status === "succeeded") done(job);
    return false;
  }, (error) => { problem.textContent = error.message; }, signal);
}
