// Why a model does not answer yet: the job of its engine, with what that waits for.

import { poll, request, withQuery } from "../core/api.js";
import { h, show } from "../core/dom.js";
import { isFinal } from "../core/format.js";
import { engineWaiting } from "./waiting.js";

const REFRESH_SECONDS = 2;
const NEWEST = 20;

/** Tell in `place` why the engine of a model is not ready, until `signal` is aborted. */
export function tellWait(place, model, signal) {
  const load = async () => {
    const page = await request(withQuery("/v1/servings", { limit: NEWEST }), { signal });
    const begun = page.data.filter((one) => !isFinal(one));
    // An adapter is served by the engine of its base, which is likely the newest one that is not ready.
    const job = begun.find((one) => one.model === model) ?? begun.find((one) => one.status !== "running");
    if (signal.aborted) return;
    if (!job) {
      show(place, "waiting for the model");
      return;
    }
    const whole = job.queue_reason ? await request(`/v1/jobs/${job.id}`, { signal }) : job;
    if (signal.aborted) return;
    show(place, "waiting for the model: ", engineWaiting(whole), " (", h("a", { href: `/ui/jobs/${job.id}` }, "its job"),
      /^no /.test(whole.queue_reason ?? "") ? null : [", ", h("a", { href: "/ui/workers" }, "workers")], ")"); // the remedy has that link
  };
  poll(REFRESH_SECONDS, load, () => {}, signal);
}
