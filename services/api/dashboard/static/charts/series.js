// The points of one metric in buffers of a fixed size, which a page can keep for as long as a job runs.

export const LATEST = 64; // points that are never left out

/** Values by step, in the order of steps; the interface is that of a Map. A value is a number, or null where it was not finite. */
export class Series {
  /** At most `capacity` points: where more are added, the extremes of intervals of equal length stay of the older ones. */
  constructor(capacity) {
    this.steps = new Float64Array(capacity);
    this.numbers = new Float64Array(capacity); // NaN: null
    this.size = 0;
    this.isThinned = false;
  }

  /** The place of a step, or that before which it belongs. */
  placeOf(step) {
    let [low, high] = [0, this.size];
    if (high && this.steps[high - 1] < step) return high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.steps[middle] < step) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  has(step) {
    const place = this.placeOf(step);
    return place < this.size && this.steps[place] === step;
  }

  get(step) {
    return this.has(step) ? this.valueAt(this.placeOf(step)) : undefined;
  }

  valueAt(place) {
    return Number.isNaN(this.numbers[place]) ? null : this.numbers[place];
  }

  set(step, value) {
    if (!this.has(step)) {
      if (this.size === this.steps.length) this.thin();
      const place = this.placeOf(step);
      for (const buffer of [this.steps, this.numbers]) buffer.copyWithin(place + 1, place, this.size);
      this.steps[place] = step;
      this.size += 1;
    }
    this.numbers[this.placeOf(step)] = value ?? NaN;
    return this;
  }

  /** The value at a step that may have been left out, between its neighbors; undefined before the first and after the last. */
  between(step) {
    const place = this.placeOf(step);
    if (this.has(step) || !this.isThinned || place === 0 || place === this.size) return this.get(step);
    const share = (step - this.steps[place - 1]) / (this.steps[place] - this.steps[place - 1]);
    return this.numbers[place - 1] + share * (this.numbers[place] - this.numbers[place - 1]);
  }

  /** Leave out older points until a third of the buffers is free. */
  thin() {
    const older = this.size - LATEST;
    let kept = [];
    let width = 1;
    do {
      width *= 2;
      kept = this.extremes(older, width);
    } while (kept.length + LATEST > (2 / 3) * this.steps.length && width < Number.MAX_SAFE_INTEGER);
    kept.forEach((place, index) => {
      this.steps[index] = this.steps[place];
      this.numbers[index] = this.numbers[place];
    });
    for (const buffer of [this.steps, this.numbers]) buffer.copyWithin(kept.length, older, this.size);
    this.size = kept.length + LATEST;
    this.isThinned = true;
  }

  /** The places of the least, the greatest and a not finite value in each interval of steps, among the first `end`. */
  extremes(end, width) {
    const kept = [];
    for (let first = 0, next; first < end; first = next) {
      const interval = Math.floor(this.steps[first] / width);
      let [least, greatest, gap] = [-1, -1, -1];
      for (next = first; next < end && Math.floor(this.steps[next] / width) === interval; next += 1) {
        const value = this.numbers[next];
        if (Number.isNaN(value)) gap = next;
        else {
          if (least < 0 || value < this.numbers[least]) least = next;
          if (greatest < 0 || value > this.numbers[greatest]) greatest = next;
        }
      }
      kept.push(...[...new Set([least, greatest, gap])].filter((place) => place >= 0).sort((one, other) => one - other));
    }
    return kept;
  }

  * keys() {
    for (let place = 0; place < this.size; place += 1) yield this.steps[place];
  }

  * values() {
    for (let place = 0; place < this.size; place += 1) yield this.valueAt(place);
  }

  * [Symbol.iterator]() {
    for (let place = 0; place < this.size; place += 1) yield [this.steps[place], this.valueAt(place)];
  }
}
