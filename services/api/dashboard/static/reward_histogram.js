// Rewards in bins: of all trajectories that a filter leaves, and of each of the latest training steps.

import { h } from "./dom.js";
import { number } from "./format.js";

/** The elements of a histogram as the route answers it; `addressOf` makes the address of a step. */
export function rewardHistogram(rewards, addressOf) {
  if (!rewards.rewarded) return [];
  const { counts, edges } = rewards;
  const most = Math.max(...counts);
  const bars = counts.map((count, index) => {
    const bar = h("div", { class: "bar", title: `${count} from ${number(edges[index])} to ${number(edges[index + 1])}` });
    bar.style.height = `${(100 * count) / most}%`;
    return bar;
  });
  const without = rewards.unrewarded ? `, ${number(rewards.unrewarded)} without` : "";
  const text = `${number(rewards.rewarded)} rewards${without}: ${number(edges[0])} to ${number(edges.at(-1))}, mean ${number(rewards.mean)}`;
  return [
    h("div", { class: "histogram", role: "img", "aria-label": text }, bars),
    h("p", { class: "quiet" }, text),
    ...steps(rewards, addressOf),
  ];
}

/** A column for each step, the greatest rewards on top; it leads to the trajectories of the step. */
function steps(rewards, addressOf) {
  if (rewards.steps.length < 2) return [];
  const column = ({ step, mean, counts }) => {
    const most = Math.max(...counts);
    const cells = counts.toReversed().map((count) => h("span", { class: `sampled level-${Math.ceil((5 * count) / most)}` }));
    const text = `step ${step}: ${counts.reduce((sum, count) => sum + count, 0)} rewards, mean ${number(mean)}`;
    return h("li", {}, h("a", { href: addressOf(step), title: text, "aria-label": text }, cells));
  };
  return [h("section", {},
    h("h2", {}, "Rewards of each step"),
    h("ol", { class: "steps" }, rewards.steps.map(column)),
    h("p", { class: "quiet" }, `Steps ${rewards.steps[0].step} to ${rewards.steps.at(-1).step}; above: the greatest rewards. A step leads to its trajectories.`))];
}
