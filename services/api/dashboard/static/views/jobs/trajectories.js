// The trajectories of a job, with filters, sorting and reward histograms.

import { latestOf, request, withQuery } from "../../core/api.js";
import { field, h, sameBy, select, table } from "../../core/dom.js";
import { counted, duration, number, shellQuoted, signed } from "../../core/format.js";
import { KINDS } from "../../kinds.js";
import { sampleName } from "../../trajectory/sample_name.js";
import { headingOf } from "../../job/name.js";
import { rewardHistogram } from "../../charts/reward_histogram.js";

const PAGE = 100;
const SORTS = { finished: "finish time", reward: "reward", length: "length", errors: "errors" };
const REASONS = ["", "answered", "length", "reply_too_long", "calls_spent", "tool_error", "tool_unavailable", "environment_done", "prompt_refused", "timed_out", "agent_failed", "engine_failed", "internal_error"];
const FILTERS = ["sort", "order", "min_reward", "max_reward", "min_length", "max_length", "finish_reason", "errors", "prompt", "step", "text"];

export async function trajectoriesView({ place, signal, query, setQuery }, id) {
  const job = await request(`/v1/jobs/${id}`, { signal });
  const route = `${KINDS[job.kind].path}/${id}/trajectories`;
  const filter = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const list = h("div");
  const histogram = h("div");
  const same = h("div");
  const problem = h("p", { class: "error", role: "alert" });
  const more = h("button", { type: "button", hidden: true, onclick: () => load() }, "Show more");
  const rewardFilter = () => ({ ...filter, sort: "", order: "", text: "" }); // the histogram has no text filter
  let found = [];
  let last = null;
  let shownRewards = null; // URL of the rewards shown or being loaded

  const load = latestOf(async (latest) => {
    problem.textContent = "";
    showRewards();
    const page = await request(withQuery(route, { ...filter, after: last, limit: PAGE }), { signal: latest });
    found.push(...page.data);
    last = page.last_id;
    more.hidden = !page.has_more;
    const none = more.hidden ? "No matching trajectories." : "No matches so far.";
    list.replaceChildren(table(counted(found.length, "trajectory", "trajectories", page.has_more), columns(id, found.some((one) => one.step !== null)), found, none));
    same.replaceChildren(
      sameBy(withQuery(route, filter), command(id, filter)),
      sameBy(withQuery(`${route}/rewards`, rewardFilter())),
    );
  }, (error) => {
    problem.textContent = error.message;
    if (found.length) return;
    list.replaceChildren(); // from another filter
    same.replaceChildren();
    more.hidden = true;
  }, signal);

  /** Load the histogram without blocking the list, which reports errors. */
  function showRewards() {
    const asked = withQuery(`${route}/rewards`, rewardFilter());
    const about = `${asked} ${filter.text}`;
    if (shownRewards === about) return; // sorting does not change the rewards
    shownRewards = about;
    loadRewards(asked);
  }

  const loadRewards = latestOf(async (latest, asked) => {
    const rewards = await request(asked, { signal: latest });
    const addressOf = (step) => withQuery(location.pathname, { ...filter, step });
    const shown = rewardHistogram(rewards, addressOf);
    const note = shown.length && filter.text ? [h("p", { class: "quiet" }, "The rewards are counted without the text filter.")] : [];
    histogram.replaceChildren(...note, ...shown);
  }, () => { shownRewards = null; }, signal);

  function change(name) {
    return (value) => {
      filter[name] = value;
      setQuery(filter);
      found = [];
      last = null;
      load();
    };
  }

  function bound(name) {
    return h("input", { type: "number", step: "any", value: filter[name], onchange: (event) => change(name)(event.target.value) });
  }

  const text = h("input", { type: "search", maxlength: "200", value: filter.text, onchange: (event) => change("text")(event.target.value) });
  place.append(
    ...headingOf("Trajectories of", job),
    h("div", { class: "row", role: "search" },
      field("Sort by", select(SORTS, filter.sort || "finished", change("sort"))),
      field("Order", select({ desc: "descending", asc: "ascending" }, filter.order || "desc", change("order"))),
      field("Min reward", bound("min_reward")),
      field("Max reward", bound("max_reward")),
      field("Min tokens", bound("min_length")),
      field("Max tokens", bound("max_length")),
      field("Finish reason", select(Object.fromEntries(REASONS.map((name) => [name, name.replaceAll("_", " ") || "any"])), filter.finish_reason, change("finish_reason"))),
      field("Errors", select({ "": "any", true: "with", false: "without" }, filter.errors, change("errors"))),
      field("Prompt", bound("prompt")),
      field("Training step", bound("step")),
      field("Text", text)),
    problem, histogram, list, more, same,
  );
  await load();
}

const columns = (id, isLearned) => ({
  Trajectory: (one) => h("a", { href: `/ui/jobs/${id}/trajectories/${one.id}`, title: one.id }, sampleName(one)),
  Reward: (one) => number(one.reward),
  ...(isLearned ? { Advantage: (one) => (one.advantage === null ? null : signed(one.advantage)), Step: (one) => one.step } : {}),
  "Finish reason": (one) => one.finish_reason.replaceAll("_", " "),
  Tokens: (one) => `${one.has_estimates ? "about " : ""}${number(one.response_tokens)}`,
  Calls: (one) => (one.failed_calls ? `${one.tool_calls} (${one.failed_calls} failed)` : String(one.tool_calls)),
  Notes: (one) => one.notes || null,
  Duration: (one) => duration(one.seconds),
  Question: (one) => h("span", { class: "long" }, one.question.slice(0, 160)),
  Answer: (one) => h("span", { class: "long" }, one.answer.slice(-160)),
});

/** The equivalent command. */
function command(id, filter) {
  const flags = { errors: { true: "--errors", false: "--no-errors" }[filter.errors], asc: filter.order === "asc" ? "--asc" : null };
  const options = { sort: "--sort", min_reward: "--min-reward", max_reward: "--max-reward", min_length: "--min-length", max_length: "--max-length", finish_reason: "--finish", prompt: "--prompt", step: "--step" };
  const given = Object.entries(options).filter(([name]) => filter[name]).map(([name, option]) => `${option} ${filter[name]}`);
  const quoted = filter.text ? [`--text ${shellQuoted(filter.text)}`] : [];
  return ["temper traj", id, ...given, ...quoted, ...Object.values(flags).filter(Boolean)].join(" ");
}
