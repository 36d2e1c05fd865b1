// Reward histograms: of the filtered trajectories, and of each of the latest training steps.

import { h } from "../core/dom.js";
import { number } from "../core/format.js";

/** Elements for the histogram from the API; `addressOf` returns the URL of a step. */
export function rewardHistogram(rewards, addressOf) {
  if (!rewards.rewarded) return [];
  const { counts, edges } = rewards;
  const most = Math.max(...counts);
  const bars = counts.map((count, index) => {
    const bar = h("div", { class: "bar", title: `${count} from ${number(edges[index])} to ${number(edges[index + 1])}` });
    bar.style.height = `${(100 * count) / most}%`;
    return bar;
  });
  const without = rewards.unrewarded ? `, ${number(rewards.unrewarded)} missing` : "";
  const text = `${number(rewards.rewarded)} rewards${without}: ${number(edges[0])} to ${number(edges.at(-1))}, mean ${number(rewards.mean)}`;
  return [
    h("div", { class: "histogram", role: "img", "aria-label": text }, bars),
    h("p", { class: "quiet" }, text),
    ...stepColumns(rewards, addressOf),
  ];
}

/** A column per step, highest rewards on top, linked to the step's trajectories. */
function stepColumns(rewards, addressOf) {
  if (rewards.steps.length < 2) return [];
  const column = ({ step, mean, counts }) => {
    const most = Math.max(...counts);
    const cells = counts.toReversed().map((count) => h("span", { class: `sampled level-${Math.ceil((5 * count) / most)}` }));
    const text = `step ${step}: ${counts.reduce((sum, count) => sum + count, 0)} rewards, mean ${number(mean)}`;
    return h("li", {}, h("a", { href: addressOf(step), title: text, "aria-label": text }, cells));
  };
  return [h("section", {},
    h("h2", {}, "Rewards by step"),
    h("ol", { class: "steps" }, rewards.steps.map(column)),
    h("p", { class: "quiet" }, `Steps ${rewards.steps[0].step} to ${rewards.steps.at(-1).step}, highest rewards on top. Select a step to see its trajectories.`))];
}
