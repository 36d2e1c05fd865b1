// The means of one metric over intervals of steps: what is averaged, as the points that are drawn of many steps are extremes.

import { LATEST } from "./series.js";

/** Intervals in the order of steps, each with its last step (`end`), the `mean` of its values and how many these are (`count`). */
export class Means {
  /** At most `capacity` intervals: where there are more, pairs of older ones become one. */
  constructor(capacity) {
    this.capacity = capacity;
    this.intervals = [];
  }

  /** The number of steps that have a value. */
  get count() {
    return this.intervals.reduce((sum, { count }) => sum + count, 0);
  }

  /** Add the value of a step. One that is within an interval of several is in its mean already. */
  add(step, value) {
    let place = this.intervals.length;
    while (place && this.intervals[place - 1].end >= step) place -= 1;
    const next = this.intervals[place];
    if (next?.count > 1) return;
    if (next?.end === step) next.mean = value; // a resumed job reports a step again
    else this.intervals.splice(place, 0, { end: step, mean: value, count: 1 });
    if (this.intervals.length > this.capacity) this.join();
  }

  /** Take out a step whose value is not finite any more. */
  remove(step) {
    this.intervals = this.intervals.filter(({ end, count }) => end !== step || count > 1);
  }

  join() {
    const older = this.intervals.splice(0, this.intervals.length - LATEST);
    const joined = [];
    for (let at = 0; at < older.length; at += 2) joined.push(at + 1 < older.length ? union(older[at], older[at + 1]) : older[at]);
    this.intervals = [...joined, ...this.intervals];
  }

  /** These intervals with `finer` ones in the place of what they overlap. */
  refined(finer) {
    if (!finer.length) return this;
    const found = new Means(this.capacity);
    const [from, to] = [finer[0].end - finer[0].count, finer.at(-1).end];
    let next = 0;
    const outside = this.intervals.flatMap((interval) => {
      let left = interval;
      for (; next < finer.length && finer[next].end <= interval.end; next += 1) left = without(left, finer[next]);
      const around = finer[next];
      const isInside = around && interval.count < around.count && interval.end > (finer[next - 1]?.end ?? from);
      if (left === interval) return isInside ? [] : [interval]; // such as a step that was added live
      return left.count > 0 ? [interval.end > to ? left : { ...left, end: from }] : [];
    });
    found.intervals = [...outside, ...finer].sort((one, other) => one.end - other.end);
    return found;
  }

  /** The bias-corrected exponential moving average of all values, by the last step of each interval. */
  smoothed(weight) {
    let sum = 0;
    let total = 0;
    return new Map(this.intervals.map(({ end, mean, count }) => {
      const kept = weight ** count; // as if each of its values were the mean
      sum = kept * sum + (1 - kept) * mean;
      total = kept * total + (1 - kept);
      return [end, sum / total];
    }));
  }
}

/** What is left of an interval without a part of it. */
function without(whole, part) {
  const count = whole.count - part.count;
  return { ...whole, mean: whole.mean + (whole.mean - part.mean) * (part.count / count), count };
}

function union(one, other) {
  const count = one.count + other.count;
  return { end: other.end, mean: one.mean * (one.count / count) + other.mean * (other.count / count), count };
}
