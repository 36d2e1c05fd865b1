// Curves of metrics over steps, of one job or of several over each other.

import uPlot from "./vendor/uPlot.js";
import { request } from "./api.js";
import { field, h } from "./dom.js";
import { number } from "./format.js";

const COLORS = ["#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#b45309", "#0e7490", "#be123c", "#4d7c0f"];
const HEIGHT = 220;

const POINTS = 1000;

/** The metrics of a job: values by step of each name. */
export class Metrics {
  constructor() {
    this.series = new Map();
  }

  /** Load what the job has reported so far, thinned. */
  async load(jobId, signal) {
    const { metrics } = await request(`/v1/jobs/${jobId}/metrics?points=${POINTS}`, { signal });
    for (const [name, { steps, values }] of Object.entries(metrics)) {
      this.series.set(name, new Map(steps.map((step, index) => [step, values[index]])));
    }
  }

  /** Take in an event; returns whether it held metrics. */
  add(event) {
    if (event.type !== "metrics" || !Number.isFinite(event.data?.step)) return false;
    const { step, ...values } = event.data;
    for (const [name, value] of Object.entries(values)) {
      if (!Number.isFinite(value)) continue;
      if (!this.series.has(name)) this.series.set(name, new Map());
      this.series.get(name).set(step, value); // a resumed job reports a step again
    }
    return true;
  }
}

/** Charts of all metrics of `runs`, a map of names to Metrics. Call `update` after adding events. */
export class Charts {
  constructor(signal) {
    this.element = h("div");
    this.runs = new Map();
    this.smoothing = 0;
    this.isLog = false;
    this.charts = new Map();
    this.pending = false;
    this.grid = h("div", { class: "charts" });
    this.sync = uPlot.sync(crypto.randomUUID());
    const smoothing = h("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: 0, oninput: (event) => this.set({ smoothing: Number(event.target.value) }) });
    const log = h("input", { type: "checkbox", onchange: (event) => this.set({ isLog: event.target.checked }) });
    this.element.append(h("div", { class: "row" }, field("Smoothing", smoothing), field("Logarithmic", log)), this.grid);
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(this.grid);
    signal.addEventListener("abort", () => {
      observer.disconnect();
      this.clear();
    });
  }

  set(change) {
    Object.assign(this, change);
    this.clear();
    this.update();
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
    const names = new Set([...this.runs.values()].flatMap((metrics) => [...metrics.series.keys()]));
    for (const name of [...names].sort()) {
      const data = this.dataOf(name);
      const chart = this.charts.get(name);
      if (chart && chart.series.length === data.length) chart.setData(data);
      else this.make(name, data);
    }
  }

  /** Steps, then the values of each run that has this metric; gaps are null. */
  dataOf(name) {
    const having = [...this.runs.values()].map((metrics) => metrics.series.get(name)).filter(Boolean);
    const steps = [...new Set(having.flatMap((values) => [...values.keys()]))].sort((a, b) => a - b);
    return [steps, ...having.map((values) => smooth(steps.map((step) => values.get(step) ?? null), this.smoothing))];
  }

  make(name, data) {
    this.charts.get(name)?.destroy();
    let box = [...this.grid.children].find((each) => each.dataset.name === name);
    if (!box) {
      box = h("section", { class: "chart", "data-name": name, "aria-label": name }, h("h3", {}, name), h("div"));
      const behind = [...this.grid.children].find((each) => each.dataset.name > name);
      this.grid.insertBefore(box, behind ?? null);
    }
    const runs = [...this.runs].filter(([, metrics]) => metrics.series.has(name));
    const style = getComputedStyle(document.documentElement);
    const axis = { stroke: style.color, grid: { stroke: "#8884", width: 1 }, ticks: { stroke: "#8884" } };
    const options = {
      width: Math.max(200, box.clientWidth - 18),
      height: HEIGHT,
      cursor: { sync: { key: this.sync.key } },
      scales: { x: { time: false }, y: { distr: this.isLog ? 3 : 1 } },
      axes: [axis, { ...axis, size: 60, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : number(tick))) }],
      series: [
        { label: "step" },
        ...runs.map(([run], index) => ({
          label: run,
          stroke: COLORS[index % COLORS.length],
          width: 1.5,
          spanGaps: true,
          value: (_, value) => number(value),
        })),
      ],
    };
    const drawn = this.isLog ? [data[0], ...data.slice(1).map((values) => values.map((value) => (value > 0 ? value : null)))] : data;
    this.charts.set(name, new uPlot(options, drawn, box.lastElementChild));
  }

  resize() {
    for (const [name, chart] of this.charts) {
      const box = [...this.grid.children].find((each) => each.dataset.name === name);
      const width = Math.max(200, box.clientWidth - 18);
      if (width !== chart.width) chart.setSize({ width, height: HEIGHT });
    }
  }

  clear() {
    for (const chart of this.charts.values()) chart.destroy();
    this.charts.clear();
  }
}

/** Exponential moving average without the bias of its beginning. */
function smooth(values, weight) {
  if (!weight) return values;
  let sum = 0;
  let total = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    total = weight * total + (1 - weight);
    return sum / total;
  });
}
