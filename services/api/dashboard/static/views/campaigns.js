// Campaigns, and the live tree of attempts of one.

import { poll, request } from "../core/api.js";
import { excerpt, facts, h, sameBy, show, table, when } from "../core/dom.js";
import { isFinal, number, signed } from "../core/format.js";
import { copyable } from "../job/name.js";
import { waiting } from "../job/waiting.js";
import { liveStatus, progress, status } from "./jobs/jobs.js";

const REFRESH_SECONDS = 2;
const PAGE = 100;

export function campaignsView({ place, signal }) {
  const list = h("div");
  const problem = h("p", { class: "error", role: "alert" });

  async function load() {
    const page = await request(`/v1/campaigns?limit=${PAGE}`, { signal });
    problem.textContent = "";
    show(list, table(`Latest ${page.data.length} campaigns`, CAMPAIGNS, page.data, "No campaigns yet."));
  }

  place.append(h("h1", {}, "Campaigns"), problem, list, sameBy("/v1/campaigns", "temper ps --kind campaign"));
  poll(REFRESH_SECONDS, load, (error) => { problem.textContent = error.message; }, signal);
}

export async function campaignView({ place, signal }, id) {
  const state = h("div");
  const tree = h("div");
  const problem = h("p", { class: "error", role: "alert" });
  const path = `/v1/campaigns/${id}`;

  async function load() {
    const campaign = await request(path, { signal });
    const loops = (await request(`${path}/loops`, { signal })).data;
    problem.textContent = "";
    show(state, summary(campaign, loops));
    const widest = Math.max(...loops.flatMap((loop) => loop.comparison?.ci95.map(Math.abs) ?? []), 0);
    show(tree, table("Attempts, each under its parent", attempts(id, widest), inTreeOrder(loops).map((row) => ({ ...row, id: row.loop.loop })), "The base model has not been measured yet."));
    return !isFinal(campaign);
  }

  const { name } = await request(path, { signal });
  place.append(h("h1", {}, h("bdi", {}, name || id)), name ? copyable(id) : "", problem, state,
    h("p", { class: "row" }, h("a", { href: `/ui/jobs/${id}` }, "Events and actions"), h("a", { href: `${path}/report?format=html` }, "Report")),
    h("h2", {}, "Attempts"), tree, sameBy(`${path}/loops`, `temper campaign show ${id}`));
  poll(REFRESH_SECONDS, load, (error) => { problem.textContent = error.message; }, signal);
}

const CAMPAIGNS = {
  Campaign: (one) => h("span", { class: "named" }, h("a", { href: `/ui/campaigns/${one.id}`, class: "name" }, h("bdi", {}, one.name || one.id)), one.name ? copyable(one.id) : null),
  Status: (one) => status(one),
  Progress: (one) => progress(one),
  "Why it waits": (one) => waiting(one) && h("span", { class: "long" }, waiting(one)),
  "Base model": (one) => one.base_model,
  "Best model": (one) => one.result?.best_model,
  Created: (one) => when(one.created_at),
  Scenario: (one) => h("span", { class: "long" }, one.scenario.slice(0, 160)),
};

const PARENTS = {
  best: "the best model",
  spread: "the best accepted model without a child",
};

function summary(campaign, attempted) {
  const { loops, steps, hours, llm_tokens: tokens, gpu_hours: gpuHours, cost } = campaign.budget;
  return facts({
    Status: liveStatus(campaign),
    Progress: progress(campaign),
    "Why it waits": waiting(campaign),
    Scenario: campaign.scenario,
    "Base model": campaign.base_model,
    Budget: [`${loops} loops`, steps && `${number(steps)} steps`, hours && `${number(hours)} hours`, tokens && `${number(tokens)} LLM tokens`, gpuHours && `${number(gpuHours)} GPU hours`, cost && `cost ${number(cost)}`].filter(Boolean).join(", "),
    "Parallel loops": campaign.branches > 1 ? `${campaign.branches}, each from ${PARENTS[campaign.parents]}` : null,
    "In progress": isFinal(campaign) ? null : links(campaign.id, attempted.filter(isInProgress)),
    "Accepted if": `${campaign.acceptance.by === "interval" ? "the 95% CI" : "the mean"} of the gain is above ${number(campaign.acceptance.above)}`,
    Seeds: campaign.seeds.most > 1 ? `${campaign.seeds.most} when the search part has fewer than ${number(campaign.seeds.below_items)} items` : null,
    "LLM used": used(campaign.result),
    "Ended by": campaign.result?.ended_by.replaceAll("_", " "),
    "Best model": campaign.result && `${campaign.result.best_model} (loop ${campaign.result.best_loop})`,
    Error: campaign.error?.message,
  });
}

/** What the LLM of an ended campaign read and wrote, and cost. */
function used(result) {
  return result && [`${number(result.llm_tokens)} tokens`, result.cost === null ? null : `, cost ${number(result.cost)}`];
}

function isInProgress(loop) {
  return loop.loop ? loop.accepted === null : !loop.model;
}

/** Links to loops and their parents; null without loops. */
function links(id, loops) {
  const place = (loop) => h("a", { href: `/ui/campaigns/${id}/loops/${loop}` }, loopName(loop));
  const items = loops.map((loop) => h("li", {}, place(loop.loop), loop.parent === null ? null : [" from ", place(loop.parent)]));
  return items.length ? h("ul", {}, items) : null;
}

/** The display name of a loop. */
function loopName(loop) {
  return loop ? `loop ${loop}` : "base model";
}

/** Loops depth first, each after its parent, as `{loop, depth}`. */
function inTreeOrder(loops) {
  const below = Map.groupBy(loops, (loop) => (loop.loop ? loop.parent ?? 0 : null));
  const place = (loop, depth) => [{ loop, depth }, ...(below.get(loop.loop) ?? []).flatMap((child) => place(child, depth + 1))];
  return (below.get(null) ?? []).flatMap((root) => place(root, 0));
}

const attempts = (id, widest) => ({
  Attempt: ({ loop, depth }) => {
    const name = h("span", { class: depth ? "branch" : null }, h("a", { href: `/ui/campaigns/${id}/loops/${loop.loop}` }, loopName(loop.loop)));
    name.style.marginInlineStart = `${Math.max(0, depth - 1)}rem`;
    return name;
  },
  Outcome: ({ loop }) => outcome(loop),
  Search: ({ loop }) => [number(loop.search_score), loop.seeds.length ? ` (${loop.seeds.length} seeds)` : null],
  Final: ({ loop }) => number(loop.final_score),
  "Gain over the previous best (95% CI)": ({ loop }) => (loop.comparison ? difference(loop.comparison, widest) : null),
  Hypothesis: ({ loop }) => excerpt(loop.hypothesis),
  "What was learned": ({ loop }) => excerpt(loop.failure_message ?? loop.reason),
});

/** The outcome of an attempt; while it is in progress, its last finished step. */
export function outcome(loop) {
  if (loop.failure) return h("span", { class: "status failed" }, `failed: ${loop.failure}`);
  if (loop.loop === 0 && loop.model) return h("span", { class: "status" }, "measured");
  if (loop.accepted === null) return h("span", { class: "status running" }, loop.steps.length ? `in progress, after ${stepName(loop.steps.at(-1))}` : "in progress");
  return h("span", { class: `status ${loop.accepted ? "succeeded" : ""}` }, loop.accepted ? "accepted" : "rejected");
}

/** The display name of a step. */
export function stepName(step) {
  return step === "direct_exp_gen" ? "proposal" : step;
}

/** A confidence interval around its mean, on the campaign's common scale centered at zero. */
function difference({ difference: mean, ci95: [low, high] }, widest) {
  const at = (value) => 50 + (50 * value) / (widest || 1);
  const range = h("span", { class: "range" });
  range.style.left = `${at(low)}%`;
  range.style.width = `${at(high) - at(low)}%`;
  const middle = h("span", { class: "mean" });
  middle.style.left = `${at(mean)}%`;
  const strip = h("span", { class: `interval ${low > 0 ? "good" : high < 0 ? "bad" : ""}`, "aria-hidden": "true" }, range, middle);
  return [strip, `${signed(mean)} (${signed(low)} to ${signed(high)})`];
}
