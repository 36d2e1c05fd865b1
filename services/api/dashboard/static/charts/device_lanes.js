// What a job uses of the processor and of each GPU, as lanes under the timeline of its steps.

import { requestRange } from "../core/api.js";
import { h, keyed, show } from "../core/dom.js";
import { bytes, duration, number, shortPercent } from "../core/format.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000;
const HEIGHT = 40;
const MOST_POINTS = 400;

export const UTILIZATION = "utilization.jsonl";

export class DeviceLanes {
  /** The lanes of a job; `rangeOf` returns the first and last Unix time to draw, or null for all. */
  constructor(jobId, rangeOf) {
    this.path = `/v1/jobs/${jobId}/artifacts/${UTILIZATION}`;
    this.rangeOf = rangeOf;
    this.reset();
    this.list = h("ol", { class: "lanes", "aria-label": "Devices over time" });
    this.window = h("p", { class: "quiet" });
    this.element = h("section", { hidden: true, "aria-label": "Devices" }, h("h2", {}, "Devices"), this.list, this.window);
  }

  reset() {
    this.samples = [];
    this.end = 0;
    this.rest = "";
  }

  /** Take note of the job's samples, whose file is now `size` bytes long; only new bytes are read. */
  async update(size, signal) {
    if (size === this.end) return;
    if (size < this.end) this.reset(); // it was thinned out
    const piece = await requestRange(this.path, this.end, size, signal);
    this.end += piece.byteLength;
    const lines = (this.rest + new TextDecoder().decode(piece)).split("\n");
    this.rest = lines.pop();
    this.samples.push(...lines.map(parsed).filter(Boolean));
    this.draw();
  }

  draw() {
    const range = this.rangeOf();
    this.element.hidden = this.samples.length === 0;
    if (this.element.hidden) return;
    const [from, to] = range ?? [this.samples[0].time, this.samples.at(-1).time];
    const within = this.samples.filter(({ time }) => time >= from && time <= to);
    const shown = thinned(within.length ? within : [this.samples.at(-1)]);
    show(this.list, lanesOf(shown).map((lane) => keyed(lane.name, laneElement(lane, from, to))));
    this.window.textContent = `${range ? "The time of the steps above" : "The whole job"}, ${duration(to - from)}: bars are use, the line is memory. Sampled by the worker every few seconds.`;
  }
}

function parsed(line) {
  try {
    const sample = JSON.parse(line);
    return Number.isFinite(sample?.time) && Number.isFinite(sample.cores) ? sample : null;
  } catch {
    return null;
  }
}

/** Every n-th sample, so that a long job has few points. */
function thinned(samples) {
  const every = Math.ceil(samples.length / MOST_POINTS);
  return samples.filter((_, index) => index % every === 0);
}

/** The processor, then each GPU: shares of use and of memory at each time, and a text. */
function lanesOf(samples) {
  const most = Math.max(...samples.map((one) => one.memory_bytes), 1);
  const busiest = mostFrequent(samples.map((one) => one.busiest).filter(Boolean));
  const processor = {
    name: "Processor",
    points: samples.map((one) => ({ time: one.time, use: one.cores / Math.max(1, one.usable_cores), memory: one.memory_bytes / most })),
    text: `${number(mean(samples.map((one) => one.cores)))} of ${number(samples.at(-1).usable_cores)} cores on average, at most ${bytes(most)}`,
    runs: busiest,
  };
  const ids = [...new Set(samples.flatMap((one) => (one.gpus ?? []).map((gpu) => gpu.id)))];
  return [processor, ...ids.map((id) => gpuLane(id, samples))];
}

function gpuLane(id, samples) {
  const found = samples.flatMap((one) => (one.gpus ?? []).filter((gpu) => gpu.id === id).map((gpu) => ({ time: one.time, ...gpu })));
  const last = found.at(-1);
  return {
    name: id,
    points: found.map(({ time, percent, used, total }) => ({ time, use: percent / 100, memory: used / Math.max(1, total) })),
    text: `computing ${shortPercent(mean(found.map((one) => one.percent / 100))).replace("%", " %")} of the time, at most ${bytes(Math.max(...found.map((one) => one.used)))} of ${bytes(last.total)}`,
    runs: null,
  };
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / (values.length || 1);
}

function mostFrequent(names) {
  const counts = Map.groupBy(names, (name) => name);
  return [...counts].sort(([, one], [, other]) => other.length - one.length)[0]?.[0] ?? null;
}

function laneElement({ name, points, text, runs }, from, to) {
  const across = (time) => ((time - from) / Math.max(to - from, 1e-9)) * WIDTH;
  const height = (share) => HEIGHT - Math.min(1, Math.max(0, share)) * HEIGHT;
  const area = points.map(({ time, use }, index) => `${index ? "L" : "M"}${across(time).toFixed(1)} ${height(use).toFixed(1)}`).join("");
  const line = points.map(({ time, memory }) => `${across(time).toFixed(1)},${height(memory).toFixed(1)}`).join(" ");
  const first = across(points[0]?.time ?? from).toFixed(1);
  const last = across(points.at(-1)?.time ?? to).toFixed(1);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { d: `${area}L${last} ${HEIGHT}L${first} ${HEIGHT}Z`, class: "use" }), svg("polyline", { points: line, class: "memory" }));
  return h("li", {}, h("div", {}, h("strong", {}, h("bdi", {}, name)), h("span", { class: "quiet" }, ` ${text}`), runs ? h("span", { class: "quiet" }, "; mostly ", h("bdi", {}, runs)) : null), picture);
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
