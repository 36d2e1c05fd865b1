// Plots whose ranges and ticks exist for any values: close, constant, huge, denormal or none.

import uPlot from "../vendor/uPlot.js";
import { number } from "../core/format.js";

// Both ends of a range and their difference have to be finite.
const MAX_BOUND = 4e307;
const MAX_EXPONENT = 307;
// Values closer than this, relative to the largest, are drawn as a constant.
const LEAST_SPREAD = 1e-5;
// Positions on the x axis, such as steps, may be close and large; below this a double has no ticks.
const LEAST_STRETCH = 1e-12;
const TICK_SPACE = [50, 32]; // pixels along x, and along y, where labels are low
const MAX_TICKS = 50;
const PADDING = 0.05;

/** A plot with safe scales in place of uPlot's own; `options.scales` may say `isLog`. */
export function plot(options, data, place) {
  const scales = Object.fromEntries(Object.entries(options.scales).map(([key, { isLog = false }]) => [key, {
    time: false,
    distr: isLog ? 3 : 1,
    range: (_, min, max) => (key === "x" ? stretch(min, max) : isLog ? logRange(min, max) : range(min, max)),
  }]));
  const axes = options.axes.map((axis) => ({
    ...axis,
    incrs: [Number.MAX_VALUE], // the ticks below are used whatever uPlot finds
    filter: (_, ticks) => ticks,
    splits: (self, index, min, max) => {
      const { width, height } = self.bbox;
      const isUpright = self.axes[index].side % 2;
      const length = (isUpright ? height : width) / devicePixelRatio;
      return (scales[axis.scale ?? "y"]?.distr === 3 && index > 0 ? logTicks : ticksBetween)(min, max, length / TICK_SPACE[isUpright]);
    },
  }));
  return new uPlot({ ...options, scales, axes }, data, place);
}

/** The range of the y axis for values from `min` to `max`; null: there are none. */
export function range(min, max) {
  if (!Number.isFinite(min) || !Number.isFinite(max)) return [0, 1];
  const largest = Math.max(Math.abs(min), Math.abs(max));
  const spread = max - min;
  const pad = spread > LEAST_SPREAD * largest ? PADDING * spread : largest / 10 || 1;
  const low = min >= 0 && min < pad && min < max ? 0 : min - pad;
  return widened(bounded(low), bounded(max + pad));
}

/** The range of the x axis: exactly the given one unless it is a point. */
export function stretch(min, max) {
  if (!Number.isFinite(min) || !Number.isFinite(max)) return [0, 1];
  const largest = Math.max(Math.abs(min), Math.abs(max));
  if (max - min > LEAST_STRETCH * largest) return [bounded(min), bounded(max)];
  const half = Math.max(0.5, LEAST_STRETCH * largest);
  return widened(bounded(min - half), bounded(max + half));
}

/** The range of a logarithmic axis, in whole decades. */
export function logRange(min, max) {
  if (!(min > 0) || !Number.isFinite(max)) return [1, 10];
  const low = exponent(Math.floor(Math.log10(min)));
  return [10 ** low, 10 ** Math.max(low + 1, exponent(Math.ceil(Math.log10(max))))];
}

function exponent(found) {
  return Math.max(-MAX_EXPONENT, Math.min(MAX_EXPONENT - 1, found));
}

function bounded(value) {
  return Math.max(-MAX_BOUND, Math.min(MAX_BOUND, value));
}

/** A range that is not a point: denormal values have no tenth, and huge ones are beyond the bounds. */
function widened(low, high) {
  const half = Math.max(1, Math.abs(low) / 10);
  return low < high ? [low, high] : [low - half, high + half];
}

/** About `count` round ticks, at most MAX_TICKS, each greater than the one before. */
export function ticksBetween(min, max, count) {
  const rough = (max - min) / Math.max(2, Math.min(MAX_TICKS / 2, count));
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((each) => each >= rough) ?? rough;
  const first = Math.ceil(min / step);
  const ticks = [];
  for (let index = 0; index < MAX_TICKS; index += 1) {
    // Through a decimal, so that 3 * 0.1 is 0.3.
    const tick = Number(((first + index) * step).toPrecision(12));
    if (!(tick <= max)) break;
    if (tick >= min && !(tick <= ticks.at(-1))) ticks.push(tick || 0);
  }
  return ticks.length ? ticks : [min];
}

/** Powers of ten, about `count` of them. */
export function logTicks(min, max, count) {
  const [first, last] = [Math.ceil(Math.log10(min) - 1e-9), Math.floor(Math.log10(max) + 1e-9)];
  const step = Math.max(1, Math.ceil((last - first) / Math.max(1, Math.min(MAX_TICKS / 2, count))));
  const ticks = [];
  for (let power = first; power <= last && ticks.length < MAX_TICKS; power += step) ticks.push(10 ** power);
  return ticks;
}

/** The labels of ticks, with as many digits as tell them apart. */
export function tickLabels(ticks) {
  const short = ticks.map((tick) => number(tick));
  if (new Set(short).size === ticks.length) return short;
  return ticks.map((tick) => String(Number(tick.toPrecision(8))));
}
