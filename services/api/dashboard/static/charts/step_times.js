// Time per step of an online training, as stacked bars and as a timeline with policy versions.

import { h, keyed, show } from "../core/dom.js";
import { duration, number } from "../core/format.js";

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
// Downsampled curves may lack a step; a bar needs all of these to add up.
const IN_EVERY_STEP = ["step", "generate", "update", "waiting"];
// For trainings recorded before the wait for rollouts was divided.
const IN_EVERY_UNDIVIDED_STEP = ["step", "rollout", "update"];

/**
 * Bars and a timeline of the latest steps of a job's Metrics, linked to `addressOf(step)`. The element
 * is hidden for jobs without step times.
 */
export class StepTimes {
  constructor(metrics, addressOf) {
    this.metrics = metrics;
    this.addressOf = addressOf;
    this.bars = h("ol", { class: "stacks" });
    this.text = h("p", { class: "quiet" });
    this.legend = h("ul", { class: "row legend" });
    this.timeline = h("ol", { class: "timeline", "aria-label": "Timeline of the latest steps" });
    this.element = h("section", { hidden: true },
      h("h2", {}, "Time per step"), this.bars, this.legend, this.text,
      h("h2", {}, "Timeline"), this.timeline);
    this.pending = false;
  }

  /** Schedule one redraw for the next frame. */
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
    show(this.bars, steps.map((one) => this.bar(one, longest)));
    show(this.legend, spent.map(([part, seconds]) => h("li", { class: `part-${part}` }, `${PARTS[part]} ${Math.round((100 * seconds) / whole)}%`)));
    this.text.textContent = `Steps ${steps[0].step} to ${steps.at(-1).step}; the longest took ${duration(longest)}. Select a step to see its trajectories.`;
    this.bars.setAttribute("aria-label", `${this.text.textContent} ${[...this.legend.children].map((item) => item.textContent).join(", ")}`);
    show(this.timeline, steps.slice(-ON_TIMELINE).map((one) => this.stretch(one)));
  }

  /** The latest steps, oldest first, with their seconds in total and by part. */
  latest() {
    const series = (name) => this.metrics.series.get(name) ?? new Map();
    const seconds = (name, step) => series(`${name}_seconds`).get(step) ?? 0;
    const isDivided = series("generate_seconds").size > 0;
    const needed = isDivided ? IN_EVERY_STEP : IN_EVERY_UNDIVIDED_STEP;
    const complete = [...series("step_seconds").keys()].filter((step) => needed.every((part) => series(`${part}_seconds`).has(step)));
    return complete.sort((a, b) => a - b).slice(-SHOWN_STEPS).map((step) => {
      const parts = Object.fromEntries(Object.keys(PARTS).map((part) => [part, seconds(part, step)]));
      const total = seconds("step", step);
      if (isDivided) parts.rollout = 0; // the others divide it
      else parts.waiting = Math.max(0, total - Object.values(parts).reduce((sum, each) => sum + each, 0));
      return { step, total, parts, version: series("version").get(step) };
    });
  }

  /** The first and the last Unix time of the timeline; null where there is none. */
  range() {
    const steps = this.latest().slice(-ON_TIMELINE);
    const [from, to] = [steps[0], steps.at(-1)].map((one) => this.metrics.times.get(one?.step));
    return from === undefined || to === undefined ? null : [from - steps[0].total, to];
  }

  bar(one, longest) {
    const stack = h("a", { class: "stack", href: this.addressOf(one.step), title: description(one), "aria-label": description(one) });
    for (const [part, seconds] of spentOf(one)) {
      const piece = h("span", { class: `part-${part}` });
      piece.style.height = `${(100 * seconds) / (longest || 1)}%`;
      stack.append(piece);
    }
    return keyed(one.step, h("li", {}, stack));
  }

  /** A step on the timeline, sized by its duration; the policy version changes at its end. */
  stretch(one) {
    const pieces = spentOf(one).map(([part, seconds]) => {
      const piece = h("span", { class: `part-${part}` });
      piece.style.flexGrow = seconds;
      return piece;
    });
    const item = h("li", {},
      h("a", { href: this.addressOf(one.step), title: description(one), "aria-label": description(one) }, pieces),
      h("span", { class: "quiet" }, `${one.step}`, one.version === undefined ? null : h("strong", {}, ` v${one.version}`)));
    item.style.flexGrow = one.total || 1;
    return keyed(one.step, item);
  }
}

function spentOf({ parts }) {
  return Object.entries(parts).filter(([, seconds]) => seconds > 0);
}

/** A step's times as text. */
function description(one) {
  const version = one.version === undefined ? "" : `, then policy version ${one.version}`;
  return [`step ${one.step}: ${number(one.total)} s${version}`, ...spentOf(one).map(([part, seconds]) => `${PARTS[part]} ${number(seconds)} s`)].join("\n");
}
