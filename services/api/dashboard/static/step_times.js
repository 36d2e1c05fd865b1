// Where the time of each step of an online training went: as stacked bars, and one after another
// with the versions of the policy.

import { h } from "./dom.js";
import { duration, number } from "./format.js";

const SHOWN_STEPS = 60;
const ON_TIMELINE = 12;
const PARTS = {
  rollout: "rollouts",
  generate: "generating",
  tools: "tools",
  reward: "rewards",
  batch: "batch",
  probe: "log-probabilities before the update",
  update: "update",
  sync: "weight sync",
  evaluation: "evaluation",
  checkpoint: "checkpoint",
  waiting: "waiting",
};
// A thinned curve may lack a step; without one of these a bar would not add up.
const IN_EVERY_STEP = ["step", "generate", "update", "waiting"];
// Of trainings before Temper divided the wait for rollouts.
const IN_EVERY_UNDIVIDED_STEP = ["step", "rollout", "update"];

/**
 * Bars and a timeline of the latest steps of a job's Metrics; a step leads to `addressOf` it. Its
 * element is hidden for jobs without step times.
 */
export class StepTimes {
  constructor(metrics, addressOf) {
    this.metrics = metrics;
    this.addressOf = addressOf;
    this.bars = h("ol", { class: "stacks" });
    this.text = h("p", { class: "quiet" });
    this.legend = h("ul", { class: "row legend" });
    this.timeline = h("ol", { class: "timeline", "aria-label": "The latest steps one after another" });
    this.element = h("section", { hidden: true },
      h("h2", {}, "Where the time of each step went"), this.bars, this.legend, this.text,
      h("h2", {}, "Timeline"), this.timeline);
    this.pending = false;
  }

  /** Draw what has come since, once before the next frame. */
  update() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
    });
  }

  draw() {
    const steps = this.latest();
    this.element.hidden = !steps.length;
    if (!steps.length) return;
    const longest = Math.max(...steps.map(({ total }) => total));
    const whole = steps.reduce((sum, { total }) => sum + total, 0) || 1;
    const sums = Object.keys(PARTS).map((part) => [part, steps.reduce((sum, { parts }) => sum + (parts[part] ?? 0), 0)]);
    const spent = sums.filter(([, seconds]) => seconds > 0);
    replaceItems(this.bars, steps.map((one) => this.bar(one, longest)));
    this.legend.replaceChildren(...spent.map(([part, seconds]) => h("li", { class: `part-${part}` }, `${PARTS[part]} ${Math.round((100 * seconds) / whole)} %`)));
    this.text.textContent = `Steps ${steps[0].step} to ${steps.at(-1).step}; the longest took ${duration(longest)}. A step leads to its trajectories.`;
    this.bars.setAttribute("aria-label", `${this.text.textContent} ${[...this.legend.children].map((item) => item.textContent).join(", ")}`);
    replaceItems(this.timeline, steps.slice(-ON_TIMELINE).map((one) => this.stretch(one)));
  }

  /** The latest steps, oldest first: their seconds in all, and of each part in its order. */
  latest() {
    const series = (name) => this.metrics.series.get(name) ?? new Map();
    const seconds = (name, step) => series(`${name}_seconds`).get(step) ?? 0;
    const isDivided = series("generate_seconds").size > 0;
    const needed = isDivided ? IN_EVERY_STEP : IN_EVERY_UNDIVIDED_STEP;
    const complete = [...series("step_seconds").keys()].filter((step) => needed.every((part) => series(`${part}_seconds`).has(step)));
    return complete.sort((a, b) => a - b).slice(-SHOWN_STEPS).map((step) => {
      const parts = Object.fromEntries(Object.keys(PARTS).map((part) => [part, seconds(part, step)]));
      const total = seconds("step", step);
      if (isDivided) parts.rollout = 0; // it is what the others divide
      else parts.waiting = Math.max(0, total - Object.values(parts).reduce((sum, each) => sum + each, 0));
      return { step, total, parts, version: series("version").get(step) };
    });
  }

  bar(one, longest) {
    const stack = h("a", { class: "stack", href: this.addressOf(one.step), title: told(one), "aria-label": told(one) });
    for (const [part, seconds] of spentOf(one)) {
      const piece = h("span", { class: `part-${part}` });
      piece.style.height = `${(100 * seconds) / (longest || 1)}%`;
      stack.append(piece);
    }
    return h("li", {}, stack);
  }

  /** A step on the timeline, as long as it took; the policy's version changes at its end. */
  stretch(one) {
    const pieces = spentOf(one).map(([part, seconds]) => {
      const piece = h("span", { class: `part-${part}` });
      piece.style.flexGrow = seconds;
      return piece;
    });
    const item = h("li", {},
      h("a", { href: this.addressOf(one.step), title: told(one), "aria-label": told(one) }, pieces),
      h("span", { class: "quiet" }, `${one.step}`, one.version === undefined ? null : h("strong", {}, ` v${one.version}`)));
    item.style.flexGrow = one.total || 1;
    return item;
  }
}

/** Replace the items of a list; the link that has the focus keeps it. */
function replaceItems(list, items) {
  const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  list.replaceChildren(...items);
  if (focused !== null) [...list.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
}

function spentOf({ parts }) {
  return Object.entries(parts).filter(([, seconds]) => seconds > 0);
}

/** A step in words. */
function told(one) {
  const version = one.version === undefined ? "" : `, then policy version ${one.version}`;
  return [`step ${one.step}: ${number(one.total)} s${version}`, ...spentOf(one).map(([part, seconds]) => `${PARTS[part]} ${number(seconds)} s`)].join("\n");
}
