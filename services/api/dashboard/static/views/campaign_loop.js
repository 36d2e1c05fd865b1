// One attempt of a campaign: its steps with their jobs, LLM calls and outputs.

import { request } from "../core/api.js";
import { facts, h, sameBy, whole } from "../core/dom.js";
import { json, number, time } from "../core/format.js";
import { copyable } from "../job/name.js";
import { jobLink } from "../job/named.js";
import { outcome, stepName } from "./campaigns.js";
import { turn } from "./jobs/trajectory.js";

export async function campaignLoopView({ place, signal }, id, given) {
  const wanted = Number(given);
  const path = `/v1/campaigns/${id}/loops`;
  const loop = (await request(path, { signal })).data.find((each) => each.loop === wanted);
  if (!loop) {
    place.append(h("h1", {}, "Not found"), h("p", {}, `${id} has no loop ${wanted} yet.`));
    return;
  }
  const steps = await Promise.all(loop.steps.map((name) => request(`${path}/${wanted}/${name}`, { signal })));
  place.append(
    h("h1", {}, wanted ? `Loop ${wanted}` : "Base model"),
    h("p", {}, "of ", jobLink(id, `/ui/campaigns/${id}`), " ", copyable(id)),
    facts({
      Outcome: outcome(loop),
      "Started from": loop.parent === null ? null : h("a", { href: `/ui/campaigns/${id}/loops/${loop.parent}` }, loop.parent ? `loop ${loop.parent}` : "the base model"),
      Hypothesis: loop.hypothesis && whole(loop.hypothesis),
      Model: loop.model,
      "Search score": number(loop.search_score),
      "Final score": number(loop.final_score),
      Seeds: loop.seeds.length ? loop.seeds.map((each) => h("div", {}, `${each.seed}: ${each.model}, search ${number(each.search_score)}, final ${number(each.final_score)}`)) : null,
      "Lost to the infrastructure": lost(loop),
      "Fewer seeds": loop.seeds_note,
      "What was learned": loop.reason && whole(loop.reason),
      Error: loop.failure_message,
    }),
    ...steps.map(section),
    sameBy(`${path}/${wanted}/${loop.steps.at(-1) ?? "direct_exp_gen"}`, `temper campaign show ${id}`),
  );
}

/** The items of both parts that count nowhere; null if there are none. */
function lost(loop) {
  const parts = { search: loop.search_left_out, final: loop.final_left_out };
  const some = Object.entries(parts).filter(([, items]) => items);
  return some.length ? some.map(([part, items]) => `${number(items)} items of the ${part} part`).join(", ") : null;
}

function tokenUsage(call) {
  if (call.saved_tokens !== undefined) return `from the cache, ${number(call.saved_tokens)} tokens saved`;
  return `${number(call.prompt_tokens)} prompt tokens, ${number(call.completion_tokens)} completion tokens`;
}

function section(step) {
  const calls = step.transcript.map((call, index) => h("details", {},
    h("summary", {}, `LLM call ${index + 1}: ${tokenUsage(call)}`),
    turn("user", String(call.messages?.at(-1)?.content ?? "")),
    turn("assistant", String(call.answer))));
  return h("section", {},
    h("h2", {}, stepName(step.name)),
    h("p", { class: "quiet" }, `${time(step.started_at)} to ${time(step.finished_at)}`),
    step.jobs.length ? h("p", { class: "row" }, "Jobs", step.jobs.map((job) => jobLink(job))) : null,
    calls,
    h("details", {}, h("summary", {}, "Output"), turn("record", json(step.output, 2))));
}
