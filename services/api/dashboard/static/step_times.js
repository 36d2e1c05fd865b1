// Where the time of each step of an online training went, as stacked bars.

import { h } from "./dom.js";
import { duration, number } from "./format.js";

const SHOWN_STEPS = 60;
const PARTS = {
  rollout: "generating, with tools and rewards",
  batch: "batch",
  probe: "log-probabilities before the update",
  update: "update",
  sync: "weight sync",
  evaluation: "evaluation",
  checkpoint: "checkpoint",
};
// A thinned curve may lack a step; without one of these a bar would not add up.
const IN_EVERY_STEP = ["step", "rollout", "update"];

/** Bars of the latest steps of a job's Metrics. Its element is hidden for jobs without step times. */
export class StepTimes {
  constructor(metrics) {
    this.metrics = metrics;
    this.bars = h("div", { class: "stacks", role: "img" });
    this.text = h("p", { class: "quiet" });
    this.legend = h("ul", { class: "row legend" });
    this.element = h("section", { hidden: true }, h("h2", {}, "Where the time of each step went"), this.bars, this.legend, this.text);
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
    const sums = Object.fromEntries([...Object.keys(PARTS), "other"].map((part) => [part, steps.reduce((sum, { parts }) => sum + (parts[part] ?? 0), 0)]));
    const whole = steps.reduce((sum, { total }) => sum + total, 0) || 1;
    const spent = Object.entries(sums).filter(([, seconds]) => seconds > 0);
    this.bars.replaceChildren(...steps.map((one) => bar(one, longest)));
    this.legend.replaceChildren(...spent.map(([part, seconds]) => h("li", { class: `part-${part}` }, `${PARTS[part] ?? part} ${Math.round((100 * seconds) / whole)} %`)));
    this.text.textContent = `Steps ${steps[0].step} to ${steps.at(-1).step}; the longest took ${duration(longest)}.`;
    this.bars.setAttribute("aria-label", `${this.text.textContent} ${[...this.legend.children].map((item) => item.textContent).join(", ")}`);
  }

  /** The latest steps, oldest first: their seconds in all, and of each part. */
  latest() {
    const series = (part) => this.metrics.series.get(`${part}_seconds`) ?? new Map();
    const complete = [...series("step").keys()].filter((step) => IN_EVERY_STEP.every((part) => series(part).has(step)));
    return complete.sort((a, b) => a - b).slice(-SHOWN_STEPS).map((step) => {
      const parts = Object.fromEntries(Object.keys(PARTS).map((part) => [part, series(part).get(step) ?? 0]));
      const known = Object.values(parts).reduce((sum, seconds) => sum + seconds, 0);
      const total = Math.max(series("step").get(step), known);
      return { step, total, parts: { ...parts, other: total - known } };
    });
  }
}

function bar({ step, total, parts }, longest) {
  const spent = Object.entries(parts).filter(([, seconds]) => seconds > 0);
  const title = [`step ${step}: ${number(total)} s`, ...spent.map(([part, seconds]) => `${PARTS[part] ?? part} ${number(seconds)} s`)].join("\n");
  const stack = h("div", { class: "stack", title });
  for (const [part, seconds] of spent) {
    const piece = h("div", { class: `part-${part}` });
    piece.style.height = `${(100 * seconds) / (longest || 1)}%`;
    stack.append(piece);
  }
  return stack;
}
