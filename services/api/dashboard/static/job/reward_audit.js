// The audit of a training's reward: six signs that it rose without the policy doing better.

import { request } from "../core/api.js";
import { h, sameBy, show, table } from "../core/dom.js";
import { isFinal, number, words } from "../core/format.js";

const AUDITED = ["reinforcement", "ppo"];

export class RewardAudit {
  constructor(id, signal) {
    this.id = id;
    this.signal = signal;
    this.path = `/v1/fine_tuning/jobs/${id}/trajectories/audit`;
    this.isLoaded = false;
    this.result = h("div");
    this.problem = h("p", { class: "error", role: "alert" });
    this.button = h("button", { type: "button", onclick: () => this.load() }, "Audit the samples so far");
    this.element = h("section", { "aria-label": "Reward audit", hidden: true }, h("h2", {}, "Reward audit"),
      this.result, this.problem, this.button, sameBy(this.path, `temper audit ${id}`));
  }

  /** Show the audit of a training that has ended; one that runs is audited on request. */
  update(job) {
    if (!AUDITED.includes(job.method?.type)) return;
    this.element.hidden = false;
    this.button.hidden = isFinal(job);
    if (isFinal(job) && !this.isLoaded) this.load();
  }

  async load() {
    this.isLoaded = true;
    this.problem.textContent = "";
    try {
      show(this.result, ...reportOf(this.id, await request(this.path, { signal: this.signal })));
    } catch (error) {
      if (!this.signal.aborted) this.problem.textContent = error.message;
    }
  }
}

function reportOf(id, found) {
  const samples = (order) => `/ui/jobs/${id}/trajectories?sort=finished&order=${order}`;
  const verdict = found.flagged ? h("p", { class: "error" }, "The reward may be gamed: see the signs found below.") : h("p", {}, "No sign of a gamed reward.");
  return [
    verdict,
    h("p", {}, `The mean reward of the `, h("a", { href: samples("asc") }, `first ${number(found.first_samples)} samples`), ` is ${number(found.reward_first) || "unknown"}, of the `,
      h("a", { href: samples("desc") }, `last ${number(found.last_samples)}`), ` ${number(found.reward_last) || "unknown"}.`),
    table("Signs of a gamed reward", COLUMNS, found.checks.map((check) => ({ id: check.name, ...check })), ""),
  ];
}

const COLUMNS = {
  Sign: (check) => words(check.name),
  Verdict: (check) => (check.flagged ? h("strong", { class: "error" }, "found") : "not found"),
  First: (check) => number(check.first),
  Last: (check) => number(check.last),
  p: (check) => number(check.p_value),
  "Found when": (check) => h("span", { class: "long" }, check.rule),
  Finding: (check) => h("span", { class: "long" }, check.message),
};
