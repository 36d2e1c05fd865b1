// The actions on a job: buttons that stay while the job's state is refreshed around them.

import { request } from "../core/api.js";
import { h } from "../core/dom.js";

const ACTIONS = {
  cancel: ["validating_files", "queued", "running", "paused"],
  pause: ["queued", "running"],
  resume: ["paused"],
  retry: ["failed"],
};

export class JobActions {
  /** The actions on a job; `done` is called after one, and awaited. */
  constructor(jobId, done) {
    this.problem = h("span", { class: "error", role: "alert" });
    this.buttons = new Map(Object.keys(ACTIONS).map((action) =>
      [action, h("button", { type: "button", hidden: true, onclick: () => this.act(jobId, action, done) }, action)]));
    this.compare = h("a", { class: "button", href: `/ui/compare?jobs=${jobId}` }, "compare");
    this.element = h("div", { class: "row" }, [...this.buttons.values()], this.compare,
      h("a", { class: "button", href: `/ui/jobs/${jobId}/clone` }, "clone"), h("a", { class: "button", href: `/ui/jobs/${jobId}/sweep` }, "sweep"), this.problem);
    this.isActing = false;
  }

  /** Show what can be done with the job now. */
  update(job) {
    const isPausing = job.pause_requested_at !== null && job.status === "running";
    for (const [action, button] of this.buttons) {
      const isFocused = document.activeElement === button;
      button.hidden = !ACTIONS[action].includes(job.status);
      button.disabled = (action === "pause" && isPausing) || (action === "cancel" && job.cancel_requested_at !== null);
      if (isFocused && (button.hidden || button.disabled)) this.next(button).focus();
    }
  }

  /** Where the focus goes when a button is no longer of use. */
  next(button) {
    return [...this.buttons.values()].find((each) => each !== button && !each.hidden && !each.disabled) ?? this.compare;
  }

  async act(jobId, action, done) {
    if (this.isActing) return;
    this.isActing = true;
    this.problem.textContent = "";
    try {
      await request(`/v1/jobs/${jobId}/${action}`, { method: "POST" });
    } catch (error) {
      this.problem.textContent = error.message;
      return;
    } finally {
      this.isActing = false;
    }
    await done().catch((error) => { this.problem.textContent = error.message; });
  }
}
