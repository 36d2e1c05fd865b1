// Where the curves are: the few that decide, lines of those that never change, and groups that unfold.

import { h, keyed, show } from "../core/dom.js";
import { words } from "../core/format.js";
import { meaningOf, ORDER } from "./metric_groups.js";

export class CurveLayout {
  /** `unfolded` are the groups that are open; `onFold` is called when one was opened or closed. */
  constructor(unfolded, onFold) {
    this.unfolded = new Set(unfolded);
    this.onFold = onFold;
    this.top = h("div", { class: "charts" });
    this.flat = h("ul", { class: "flat", "aria-label": "Metrics that do not change" });
    this.groups = h("div");
    this.folds = new Map(); // by group
    this.element = h("div", {}, this.top, this.flat, this.groups);
  }

  /**
   * Place the boxes of the metrics in `first`, and of those in `rest`, a map by group, whose group is
   * unfolded; `boxOf` makes one. `constant` are texts by metric. Returns the names placed.
   */
  arrange({ first, rest, constant }, boxOf) {
    show(this.flat, [...constant].map(([name, text]) => keyed(name, h("li", { title: meaningOf(name) }, h("bdi", {}, name), `: ${text}`))));
    this.flat.hidden = constant.size === 0;
    put(this.top, first.map(boxOf));
    const groups = ORDER.filter((group) => rest.has(group));
    put(this.groups, groups.map((group) => this.foldOf(group, rest.get(group).length)));
    const open = groups.filter((group) => this.unfolded.has(group));
    for (const group of open) put(this.folds.get(group).lastChild, rest.get(group).map(boxOf));
    return [...first, ...open.flatMap((group) => rest.get(group))];
  }

  foldOf(group, count) {
    const toggle = ({ target }) => {
      if (target.open === this.unfolded.has(group)) return;
      if (target.open) this.unfolded.add(group);
      else this.unfolded.delete(group);
      this.onFold();
    };
    if (!this.folds.has(group)) {
      this.folds.set(group, h("details", { class: "group", open: this.unfolded.has(group), ontoggle: toggle },
        h("summary"), h("div", { class: "charts" })));
    }
    const fold = this.folds.get(group);
    fold.firstChild.textContent = `${words(group)} (${count} ${count === 1 ? "curve" : "curves"})`;
    return fold;
  }
}

/** Make these the children of an element, in this order; those that are in place stay. */
function put(element, children) {
  const wanted = new Set(children);
  for (const child of [...element.children]) if (!wanted.has(child)) child.remove();
  children.forEach((child, index) => {
    if (element.children[index] !== child) element.insertBefore(child, element.children[index] ?? null);
  });
}
