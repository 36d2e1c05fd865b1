// Metric curves over steps or time, of one job or several overlaid.

import uPlot from "../vendor/uPlot.js";
import { randomKey } from "../core/api.js";
import { colorOf } from "../core/colors.js";
import { CurveLayout } from "./curve_layout.js";
import { field, h, select } from "../core/dom.js";
import { overlay } from "./overlay.js";
import { duration, number } from "../core/format.js";
import { decisive, groupOf, meaningOf } from "./metric_groups.js";
import { plot, tickLabels } from "./plot.js";
import { pictureOf, saveButtons } from "./plot_export.js";

const COLORS = 8; // tokens --run-1 and so on
const DASHES = [[], [8, 4], [2, 3], [8, 3, 2, 3]]; // one after the other when all colors are used
const HEIGHT = 220;
const MARK_HEIGHT = 8;
const MOST_NAMED_STEPS = 5;
const AXES = { step: "step", time: "time since start" };
const KEYS = { "+": [0.5, 0], "=": [0.5, 0], "-": [2, 0], ArrowLeft: [1, -0.25], ArrowRight: [1, 0.25] };
// Browsers limit how often a URL changes.
const NOTIFY_DELAY_MS = 200;
const HINT = "plus and minus zoom, arrow keys pan, Escape resets";
// The cursor is synced across charts; a drag is handled only by its own chart.
const SHARED = new Set(["mousemove", "mouseleave"]);

/**
 * Charts of all metrics of `runs`, a map of ids to Metrics, with a shared zoom: the few that decide,
 * then the others in groups that unfold. Metrics that never change are a line of text. `query` sets
 * their initial state; `onChange` gets a changed axis, zoom, smoothing, scale, search or group as URL
 * parameters. Call `update` after adding events.
 */
export class Charts {
  constructor(query, onChange, signal) {
    this.runs = new Map();
    this.labels = new Map(); // names of the runs, where they have others
    this.onChange = onChange;
    this.signal = signal;
    this.axis = query.get("axis") === "time" ? "time" : "step";
    this.zoom = zoomOf(query);
    this.smoothing = Math.min(0.99, Math.max(0, Number(query.get("smoothing")) || 0));
    this.isLog = query.get("scale") === "log";
    this.search = query.get("curves") ?? "";
    this.charts = new Map();
    this.boxes = new Map(); // of all metrics that were drawn, by name
    this.data = new Map(); // what is drawn of each, before a log scale leaves any of it out
    this.pending = false;
    this.layout = new CurveLayout((query.get("unfolded") ?? "").split(",").filter(Boolean), () => {
      this.update();
      this.notify();
    });
    this.sync = uPlot.sync(randomKey());
    const axis = select(AXES, this.axis, (chosen) => this.set({ axis: chosen, zoom: null }));
    const smoothing = h("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: this.smoothing, oninput: (event) => this.set({ smoothing: Number(event.target.value) }) });
    const log = h("input", { type: "checkbox", checked: this.isLog, onchange: (event) => this.set({ isLog: event.target.checked }) });
    this.resetButton = h("button", { type: "button", disabled: this.zoom === null, onclick: () => this.setZoom(null) }, "Reset zoom");
    const find = h("input", { type: "search", maxlength: "100", value: this.search, oninput: (event) => this.find(event.target.value) });
    this.element = h("div", {}, h("div", { class: "row" }, field("Axis", axis), field("Smoothing", smoothing), field("Log scale", log), field("Find curves", find), this.resetButton), this.layout.element);
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(this.element);
    signal.addEventListener("abort", () => {
      observer.disconnect();
      clearTimeout(this.notifyTimer);
      this.clear();
    });
  }

  set(change) {
    Object.assign(this, change);
    this.clear();
    this.update();
    this.notify();
  }

  /** Show the metrics whose name contains a text, in place of the groups. */
  find(text) {
    this.search = text.trim().toLowerCase();
    this.update();
    this.notify();
  }

  /** Zoom every chart to a range of the axis; null resets. */
  setZoom(zoom) {
    this.zoom = zoom;
    for (const chart of this.charts.values()) {
      chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      this.put(chart, chart.data);
    }
    this.update();
    this.notify();
  }

  notify() {
    this.resetButton.disabled = this.zoom === null;
    clearTimeout(this.notifyTimer);
    this.notifyTimer = setTimeout(() => {
      this.onChange(this.parameters());
      this.refine();
    }, NOTIFY_DELAY_MS);
  }

  /** Load finer points of the zoomed range for downsampled runs. */
  refine() {
    if (this.zoom === null) return;
    for (const metrics of this.runs.values()) {
      metrics.refine(this.axis, this.zoom, this.signal)
        .then((isFiner) => { if (isFiner) this.update(); })
        .catch(() => {}); // the coarser points stay
    }
  }

  parameters() {
    const [from, to] = this.zoom?.map((bound) => String(Number(bound.toPrecision(8)))) ?? ["", ""];
    return {
      axis: this.axis === "step" ? "" : this.axis,
      from,
      to,
      smoothing: this.smoothing || "",
      scale: this.isLog ? "log" : "",
      curves: this.search,
      unfolded: [...this.layout.unfolded].join(","),
    };
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
    const names = [...new Set([...this.runs.values()].flatMap((metrics) => [...metrics.series.keys()]))].sort();
    const found = names.filter((name) => name.toLowerCase().includes(this.search)).map((name) => [name, this.constantOf(name)]);
    const changing = found.filter(([, text]) => text === null).map(([name]) => name);
    const first = this.search ? changing : decisive(changing);
    const rest = Map.groupBy(changing.filter((name) => !first.includes(name)), groupOf);
    const constant = new Map(found.filter(([, text]) => text !== null));
    const shown = this.layout.arrange({ first, rest, constant }, (name) => this.boxOf(name));
    for (const [name, box] of this.boxes) if (!box.isConnected) this.drop(name);
    for (const name of shown) this.drawOne(name);
    this.refine();
  }

  drawOne(name) {
    const whole = this.dataOf(name);
    const data = this.isLog ? [whole[0], ...whole.slice(1).map(positive)] : whole;
    this.data.set(name, whole);
    const chart = this.charts.get(name);
    if (chart && chart.series.length === data.length) this.put(chart, data);
    else this.make(name, data);
    this.tellGaps(name);
    this.tellHidden(name);
    this.tellLatest(name);
  }

  /** The value of a metric that has only one, as a text; null if it changes or is not always finite. */
  constantOf(name) {
    const values = new Set();
    let count = 0;
    for (const metrics of this.runs.values()) {
      count += metrics.count(name);
      for (const value of metrics.series.get(name)?.values() ?? []) {
        values.add(value);
        if (value === null || values.size > 1) return null;
      }
    }
    return count > 1 ? `${number([...values][0])} at all ${number(count)} steps` : count ? `${number([...values][0])} at one step` : "no values";
  }

  /** Forget a chart that is not shown any more. */
  drop(name) {
    this.charts.get(name)?.destroy();
    this.charts.delete(name);
    this.boxes.delete(name);
    this.data.delete(name);
  }

  /** The latest value beside the name, of a single run. */
  tellLatest(name) {
    const place = this.boxOf(name).querySelector(".latest");
    if (this.runs.size > 1) return;
    const values = [...[...this.runs.values()][0].series.get(name)];
    const [, latest] = values.reduce((one, other) => (other[0] > one[0] ? other : one), [-Infinity, undefined]);
    place.textContent = latest === undefined ? "" : latest === null ? " not finite" : ` ${number(latest)}`;
  }

  /** Say at which steps a metric was not finite. */
  tellGaps(name) {
    const runs = [...this.runs].map(([run, metrics]) => [run, metrics.gaps(name), metrics.gone.get(name)]).filter(([, steps]) => steps.length);
    const told = runs.map(([run, steps, count]) => `${this.runs.size > 1 ? `${this.labelOf(run)}: ` : ""}${stepsText(steps, count)}`);
    const place = this.boxOf(name).querySelector(".error");
    place.hidden = !told.length;
    place.textContent = told.length ? `NaN or infinite at ${told.join("; ")}` : "";
  }

  /** Say how much a log scale does not show. */
  tellHidden(name) {
    const drawn = this.data.get(name).slice(1).flat().filter((value) => Number.isFinite(value));
    const hidden = drawn.filter((value) => value <= 0).length;
    const place = this.boxOf(name).querySelector(".hidden-by-log");
    place.hidden = !this.isLog || !hidden;
    place.textContent = `A log scale cannot show ${number(hidden)} of ${number(drawn.length)} points, which are 0 or less: the line crosses them.`;
  }

  put(chart, data) {
    chart.setData(data, this.zoom === null);
    if (this.zoom !== null) chart.setScale("x", { min: this.zoom[0], max: this.zoom[1] });
  }

  /**
   * Axis positions, then the values of each run that has this metric: null where a value is not finite,
   * undefined where there is none, which a line crosses. What is smoothed are all values, not the
   * extremes that are drawn of many.
   */
  dataOf(name) {
    const having = [...this.runs.values()].filter((metrics) => metrics.series.has(name))
      .map((metrics) => (this.smoothing ? metrics.smoothed(name, this.axis, this.smoothing) : metrics.points(name, this.axis)));
    return overlay(having, this.widthOf(name), this.zoom, this.axis === "step");
  }

  make(name, data) {
    this.charts.get(name)?.destroy();
    const place = this.boxOf(name).querySelector("[role=group]");
    place.setAttribute("aria-label", `${name} over ${AXES[this.axis]}: ${HINT}`);
    const chart = plot(this.options(name), data, place);
    this.charts.set(name, chart);
    if (this.zoom !== null) this.put(chart, data);
  }

  /** The pixels across a chart. */
  widthOf(name) {
    return Math.max(200, this.boxOf(name).clientWidth - 18);
  }

  columnsOf(name) {
    const about = this.smoothing ? ` (smoothed by ${this.smoothing})` : "";
    return [AXES[this.axis], ...this.charts.get(name).series.slice(1).map((series) => `${series.label}${about}`)];
  }

  /** The plots as drawn, as texts of SVG pictures. */
  pictures() {
    return [...this.charts].map(([name, chart]) => pictureOf(chart, this.columnsOf(name), name));
  }

  /** The box of a metric: its name, meaning and latest value around its chart. */
  boxOf(name) {
    if (!this.boxes.has(name)) {
      const meaning = meaningOf(name);
      this.boxes.set(name, h("section", { class: "chart", "data-name": name, "aria-label": name },
        h("h3", {}, h("bdi", {}, name), h("span", { class: "latest quiet" })),
        meaning ? h("p", { class: "quiet meaning" }, meaning) : null,
        h("p", { class: "error", hidden: true }),
        h("p", { class: "quiet hidden-by-log", hidden: true }),
        h("div", { role: "group", tabindex: "0", onkeydown: (event) => this.move(event, name) }),
        saveButtons(name, () => ({ chart: this.charts.get(name), columns: this.columnsOf(name), data: this.data.get(name) }))));
    }
    return this.boxes.get(name);
  }

  options(name) {
    // A run has the same color in every chart, whether or not the others have the metric.
    const runs = [...this.runs].map(([run, metrics], index) => ({ run, metrics, index })).filter(({ metrics }) => metrics.series.has(name));
    const colors = Array.from({ length: COLORS }, (_, index) => colorOf(`--run-${index + 1}`));
    const [bad, text] = [colorOf("--bad"), colorOf("--text")];
    const axis = { stroke: text, grid: { stroke: "#8884", width: 1 }, ticks: { stroke: "#8884" } };
    const place = this.axis === "time" ? elapsed : number;
    return {
      width: this.widthOf(name),
      height: HEIGHT,
      cursor: {
        sync: { key: this.sync.key, filters: { pub: (type) => SHARED.has(type), sub: () => true } },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => this.setZoom(null) },
      },
      hooks: { setSelect: [(chart) => this.dragged(chart)], draw: [(chart) => markGaps(chart, bad)] },
      scales: { x: {}, y: { isLog: this.isLog } },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((tick) => place(tick)) },
        { ...axis, size: 60, values: (_, ticks) => tickLabels(ticks) },
      ],
      series: [
        { label: this.axis, value: (_, value) => place(value) },
        ...runs.map(({ run, index }) => ({
          label: this.runs.size > 1 ? this.labelOf(run) : name,
          stroke: colors[index % COLORS],
          dash: DASHES[Math.floor(index / COLORS) % DASHES.length],
          width: 1.5,
          value: (_, value, __, at) => (at !== null && value === null ? "not finite" : number(value)),
        })),
      ],
    };
  }

  labelOf(run) {
    return this.labels.get(run) ?? run;
  }

  /** A stroke of the color and dash of a run, for a list of runs. */
  mark(run) {
    const index = [...this.runs.keys()].indexOf(run);
    const mark = h("span", { class: "run-mark", "aria-hidden": "true" });
    mark.style.borderTopColor = `var(--run-${(index % COLORS) + 1})`;
    mark.style.borderTopStyle = index < COLORS ? "solid" : "dashed";
    return mark;
  }

  dragged(chart) {
    const { left, width } = chart.select;
    if (width > 0) this.setZoom([chart.posToVal(left, "x"), chart.posToVal(left + width, "x")]);
  }

  /** Zoom and pan around the center by keyboard. */
  move(event, name) {
    const { min, max } = this.charts.get(name).scales.x;
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (!isPlain || !(event.key === "Escape" || (event.key in KEYS && max > min))) return;
    event.preventDefault();
    if (event.key === "Escape") {
      this.setZoom(null);
      return;
    }
    const [factor, by] = KEYS[event.key];
    const middle = (min + max) / 2 + by * (max - min);
    const half = (factor * (max - min)) / 2;
    this.setZoom([middle - half, middle + half]);
  }

  resize() {
    for (const [name, chart] of this.charts) {
      if (!this.boxOf(name).clientWidth) continue; // folded
      const width = this.widthOf(name);
      if (width !== chart.width) chart.setSize({ width, height: HEIGHT });
    }
  }

  clear() {
    for (const chart of this.charts.values()) chart.destroy();
    this.charts.clear();
  }
}

/** The zoom range in the URL, if any. */
function zoomOf(query) {
  const [from, to] = ["from", "to"].map((name) => parseFloat(query.get(name) ?? ""));
  return Number.isFinite(from) && Number.isFinite(to) && from < to ? [from, to] : null;
}

/** Marks on the axis where values are not finite; the line has a gap there. */
function markGaps(chart, color) {
  const { ctx, bbox: { left, top, width, height } } = chart;
  ctx.save();
  ctx.fillStyle = color;
  for (const values of chart.data.slice(1)) {
    values.forEach((value, index) => {
      if (value !== null) return;
      const x = chart.valToPos(chart.data[0][index], "x", true);
      if (x >= left && x <= left + width) ctx.fillRect(x - devicePixelRatio, top + height - MARK_HEIGHT * devicePixelRatio, 2 * devicePixelRatio, MARK_HEIGHT * devicePixelRatio);
    });
  }
  ctx.restore();
}

/** The first of `count` steps; where some were left out, only the first of them is known to be the next one. */
function stepsText(steps, count) {
  const sorted = [...steps].sort((one, other) => one - other);
  const named = sorted.slice(0, count > steps.length ? 1 : MOST_NAMED_STEPS).map(number);
  const more = count - named.length;
  return `${count === 1 ? "step" : "steps"} ${named.join(", ")}${more > 0 ? ` and ${number(more)} more` : ""}`;
}

/** Values without those that a log scale cannot show. */
function positive(values) {
  return values.map((value) => (value > 0 || value === null ? value : undefined));
}

/** Elapsed seconds, fractional below a minute. */
function elapsed(seconds) {
  if (seconds === null || seconds === undefined) return "";
  return Math.abs(seconds) < 60 ? `${number(seconds)}s` : duration(seconds);
}
