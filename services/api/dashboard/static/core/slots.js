// A bound on what may run at a time; the rest waits in order.

export class Slots {
  constructor(count) {
    this.free = count;
    this.waiting = [];
  }

  /** Call `begin` once there is a slot; returns a function that gives the slot, or the place, back. */
  take(begin) {
    const mine = { begin, hasBegun: false, hasEnded: false };
    this.waiting.push(mine);
    this.next();
    return () => {
      if (mine.hasEnded) return;
      mine.hasEnded = true;
      if (mine.hasBegun) this.free += 1;
      else this.waiting.splice(this.waiting.indexOf(mine), 1);
      this.next();
    };
  }

  next() {
    while (this.free && this.waiting.length) {
      const one = this.waiting.shift();
      this.free -= 1;
      one.hasBegun = true;
      one.begin();
    }
  }
}
