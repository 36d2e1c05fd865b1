// The trajectories of a job: filters, order and a histogram of their rewards.

import { request, withQuery } from "../api.js";
import { field, h, sameBy, select, table } from "../dom.js";
import { duration, number } from "../format.js";

export const TRAJECTORY_ROUTES = { rollout: "/v1/rollouts", fine_tuning: "/v1/fine_tuning/jobs", evaluation: "/v1/evaluations" };

const PAGE = 100;
const BINS = 20;
const SORTS = { finished: "when they ended", reward: "reward", length: "length", errors: "errors" };
const REASONS = ["", "answered", "length", "reply_too_long", "calls_spent", "tool_error", "prompt_refused", "engine_failed", "internal_error"];
const FILTERS = ["sort", "order", "min_reward", "max_reward", "finish_reason", "errors", "prompt"];

export async function trajectoriesView({ place, signal, query, setQuery }, id) {
  const job = await request(`/v1/jobs/${id}`, { signal });
  const route = `${TRAJECTORY_ROUTES[job.kind]}/${id}/trajectories`;
  const filter = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const list = h("div");
  const histogram = h("div");
  const same = h("div");
  const problem = h("p", { class: "error", role: "alert" });
  const more = h("button", { type: "button", hidden: true, onclick: () => load(false) }, "Show more");
  let found = [];

  async function load(afresh) {
    problem.textContent = "";
    try {
      const page = await request(withQuery(route, { ...filter, after: afresh ? null : found.at(-1)?.id, limit: PAGE }), { signal });
      found = afresh ? page.data : [...found, ...page.data];
      more.hidden = !page.has_more;
    } catch (error) {
      if (!signal.aborted) problem.textContent = error.message;
      return;
    }
    list.replaceChildren(table(`${found.length} trajectories`, columns(id), found, "No trajectory matches."));
    histogram.replaceChildren(...rewards(found));
    same.replaceChildren(sameBy(withQuery(route, filter), `temper traj ${id}`));
  }

  function change(name) {
    return (value) => {
      filter[name] = value;
      setQuery(filter);
      load(true);
    };
  }

  function bound(name) {
    return h("input", { type: "number", step: "any", value: filter[name], onchange: (event) => change(name)(event.target.value) });
  }

  place.append(
    h("h1", {}, "Trajectories of ", h("a", { href: `/ui/jobs/${id}` }, id)),
    h("div", { class: "row", role: "search" },
      field("Sorted by", select(SORTS, filter.sort || "finished", change("sort"))),
      field("Order", select({ desc: "largest or latest first", asc: "smallest or first" }, filter.order || "desc", change("order"))),
      field("Reward from", bound("min_reward")),
      field("to", bound("max_reward")),
      field("Ended by", select(Object.fromEntries(REASONS.map((name) => [name, name.replaceAll("_", " ") || "any"])), filter.finish_reason, change("finish_reason"))),
      field("Errors", select({ "": "any", true: "with", false: "without" }, filter.errors, change("errors"))),
      field("Prompt", bound("prompt"))),
    problem, histogram, list, more, same,
  );
  await load(true);
}

const columns = (id) => ({
  Trajectory: (one) => h("a", { href: `/ui/jobs/${id}/trajectories/${one.id}` }, one.id),
  Reward: (one) => number(one.reward),
  Ended: (one) => one.finish_reason.replaceAll("_", " "),
  Tokens: (one) => number(one.response_tokens),
  Calls: (one) => (one.failed_calls ? `${one.tool_calls} (${one.failed_calls} failed)` : String(one.tool_calls)),
  Took: (one) => duration(one.seconds),
  Question: (one) => h("span", { class: "long" }, one.question.slice(0, 160)),
  Answer: (one) => h("span", { class: "long" }, one.answer.slice(-160)),
});

/** A histogram of the rewards shown, with its numbers for those who cannot see it. */
function rewards(found) {
  const values = found.map((one) => one.reward).filter((value) => value !== null);
  if (!values.length) return [];
  const least = Math.min(...values);
  const width = (Math.max(...values) - least) / BINS || 1;
  const counts = new Array(BINS).fill(0);
  for (const value of values) counts[Math.min(BINS - 1, Math.floor((value - least) / width))] += 1;
  const most = Math.max(...counts);
  const bars = counts.map((count, index) => {
    const bar = h("div", { class: "bar", title: `${count} from ${number(least + index * width)}` });
    bar.style.height = `${(100 * count) / most}%`;
    return bar;
  });
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const text = `Rewards of those shown: ${number(least)} to ${number(Math.max(...values))}, mean ${number(mean)}`;
  return [h("div", { class: "histogram", role: "img", "aria-label": text }, bars), h("p", { class: "quiet" }, text)];
}
