// One trajectory: its conversation with tool calls and results, and its tokens.

import { elementsOf, request, withQuery } from "../../core/api.js";
import { colorOf } from "../../core/colors.js";
import { facts, h, inline, sameBy, table, whole } from "../../core/dom.js";
import { rounded } from "../../core/exact_json.js";
import { counted, duration, json, number, signed, words } from "../../core/format.js";
import { KINDS } from "../../kinds.js";
import { copyable } from "../../job/name.js";
import { notesSection } from "../../job/notes.js";
import { plot, tickLabels } from "../../charts/plot.js";
import { sampleName } from "../../trajectory/sample_name.js";
import { sessionTree } from "../../trajectory/session.js";
import { TokenText } from "../../trajectory/token_text.js";
import { toolRun } from "../../trajectory/tool_run.js";

export async function trajectoryView({ place, signal, query, setQuery }, jobId, id) {
  const job = await request(`/v1/jobs/${jobId}`, { signal });
  const path = `${KINDS[job.kind].path}/${jobId}/trajectories`;
  const asSent = await request(`${path}/${id}`, { signal, isExact: true });
  const one = computable(asSent);
  const beside = query.get("beside");
  const other = beside ? computable(await request(`${path}/${encodeURIComponent(beside)}`, { signal, isExact: true })) : null;
  const { step, group } = await groupOf(path, one, signal);
  const ofGroup = { prompt: one.prompt_index, step };
  const learned = new Map(group.data.map((each) => [each.id, updateOf(each)]));
  const sequence = query.get("sequence");
  const chooseOverlay = (color) => setQuery({ beside, sequence, color });
  const stepAddress = (step) => `/ui/jobs/${jobId}/trajectories?step=${step}`;
  const hasIds = one.prompt_token_ids.length > 0;
  const tokens = hasIds ? new TokenText(`${path}/${id}/tokens`, sequence, query.get("color"), chooseOverlay, signal, stepAddress) : null;
  const chart = h("div", { class: "chart" });
  place.append(
    h("h1", {}, sampleName(one)),
    h("p", {}, "of ", h("a", { href: `/ui/jobs/${jobId}/trajectories` }, h("bdi", {}, job.name || jobId)), " ", copyable(id)),
    ...asJson(asSent, `${path}/${id}`, `${jobId}-${id}.json`),
    facts({
      Reward: number(one.reward),
      "Reward components": inline(Object.entries(one.reward_components), ", ", ([name, value]) => [h("bdi", {}, name), ` ${number(value)}`]),
      "Reward error": one.reward_error,
      "Finish reason": words(one.finish_reason),
      Error: one.error,
      "Left out": one.left_out && `${one.left_out.source}: ${words(one.left_out.cause)}`,
      Gold: inline(one.gold, " | ", (gold) => h("bdi", {}, gold)),
      Duration: `${duration(one.seconds)} (model ${duration(one.model_seconds)}, tools ${duration(one.tool_seconds)})`,
      Tokens: hasIds
        ? `${one.prompt_token_ids.length} prompt, ${one.response_token_ids.length} response`
        : tokensWithoutIds(one.turns),
    }),
    h("h2", {}, `${counted(group.data.length, "sample", "samples", group.has_more)} of this prompt${step === null ? "" : ` in step ${step}`}`),
    step === null ? "" : h("p", {}, h("a", { href: withQuery(`/ui/jobs/${jobId}/trajectories`, { prompt: one.prompt_index }) }, "its samples of all steps")),
    samples(group.data, job, one, other),
    sameBy(withQuery(path, { ...ofGroup, limit: 100 }), `temper traj ${jobId} --prompt ${one.prompt_index}${step === null ? "" : ` --step ${step}`} -n 100`),
    h("h2", {}, other ? "Conversations" : "Conversation"),
    h("div", { class: "sides" }, conversation(one, learned), other ? conversation(other, learned) : null),
    one.agent ? await sessionTree(`${path}/${id}/turns`, { sequence, color: query.get("color") }, tokens, signal) : "",
    notesSection(jobId, id, signal),
    h("h2", {}, sequence && sequence !== "0" ? `Tokens of sequence ${sequence}` : "Tokens"),
    tokens ? tokens.element : h("p", { class: "quiet" }, "No token ids were recorded: chat endpoints do not return them."),
    chart,
    sameBy(`${path}/${id}`, `temper traj ${jobId} ${id}`),
    ...(tokens ? [sameBy(`${path}/${id}/tokens`, `temper traj ${jobId} ${id} --tokens`)] : []),
  );
  if (one.response_token_ids.length) drawTokens(chart, one, signal);
  await tokens?.load();
  if (query.get("token")) await tokens?.reveal(Number(query.get("token")));
}

const MOST_SAMPLES = 1000; // of a group

/** The training step that learned from a trajectory, null without one, and the samples of its prompt in it. */
async function groupOf(path, { id, prompt_index: prompt }, signal) {
  const newest = await request(withQuery(path, { prompt, limit: 100 }), { signal });
  const own = newest.data.find((each) => each.id === id);
  const { step } = own ?? await request(`${path}/${id}/tokens?limit=1`, { signal });
  if (newest.has_more) return { step, group: await elementsOf(path, { prompt, step }, MOST_SAMPLES, signal) };
  return { step, group: { ...newest, data: newest.data.filter((each) => step === null || each.step === step) } };
}

/** A trajectory with numbers to compute with, but for the arguments of its calls, which are shown as they were written. */
function computable(asSent) {
  const one = rounded(asSent);
  one.turns.forEach((turn, place) => turn.calls.forEach((call, at) => { call.arguments = asSent.turns[place].calls[at].arguments; }));
  return one;
}

/** Token counts from a chat endpoint; those of tool results and of uncounted turns are estimates. */
function tokensWithoutIds(turns) {
  const sum = (name) => turns.reduce((total, one) => total + one[name], 0);
  const isCounted = turns.every((one) => one.prompt_tokens !== null);
  const sampled = isCounted ? `${number(sum("token_count"))} sampled, as counted by the endpoint` : `about ${number(sum("token_count"))} sampled (estimated)`;
  const inserted = sum("inserted_count");
  return inserted ? `${sampled}; about ${number(inserted)} in tool results (estimated)` : sampled;
}

function conversation(one, learned) {
  return h("section", { class: "side", "aria-label": sampleName(one) },
    h("p", {}, h("strong", {}, sampleName(one)), ` ${one.reward === null ? "no reward" : `reward ${number(one.reward)}`}, ${words(one.finish_reason)}${learned.get(one.id) ?? ""}`),
    one.messages.map((message) => turn(message.role, text(message.content))),
    one.turns.map(turnWithCalls));
}

/**
 * The rewards of a group, which is a prompt's samples of one step, their difference from the mean,
 * and the advantages of the training step. Samples from which no step has learned may be of several
 * groups, which have no mean in common.
 */
function samples(group, job, shown, other) {
  const address = (one) => `/ui/jobs/${job.id}/trajectories/${one.id}`;
  const isOne = job.kind !== "fine_tuning" || group.every((one) => one.step !== null);
  const mean = meanReward(group);
  const largest = Math.max(...group.map((one) => Math.abs(one.reward ?? 0)), Number.MIN_VALUE);
  const isLearned = group.some((one) => one.step !== null);
  const columns = {
    Sample: (one) => (one.id === shown.id ? h("strong", {}, "this one") : h("a", { href: address(one) }, `sample ${one.sample_index}`)),
    Reward: (one) => [bar(one.reward, largest), ` ${number(one.reward) || "no reward"}`],
    "vs. the mean": (one) => (one.reward === null || !isOne ? null : signed(one.reward - mean)),
    ...(isLearned ? { Advantage: (one) => (one.advantage === null ? null : signed(one.advantage)), Step: (one) => one.step } : {}),
    "Finish reason": (one) => words(one.finish_reason),
    Tokens: (one) => number(one.response_tokens),
    Compare: (one) => sideBySide(one, shown, other, address),
  };
  return table("The group: the samples of this prompt", columns, group, "");
}

/** A bar from 0 to a reward, to the right if it is positive. */
function bar(reward, largest) {
  const filled = h("span", { class: reward < 0 ? "negative" : null });
  filled.style.width = `${(50 * Math.abs(reward ?? 0)) / largest}%`;
  return h("span", { class: "bar-of-0", "aria-hidden": "true" }, filled);
}

function sideBySide(one, shown, other, address) {
  if (one.id === shown.id) return null;
  if (one.id === other?.id) return h("a", { href: address(shown) }, "close");
  return h("a", { href: `${address(shown)}?beside=${one.id}`, "aria-label": `sample ${one.sample_index} side by side` }, "side by side");
}

function meanReward(ones) {
  const rewards = ones.map((one) => one.reward).filter((reward) => reward !== null);
  return rewards.reduce((sum, reward) => sum + reward, 0) / (rewards.length || 1);
}

/** The advantage of a sample and its training step, if known. */
function updateOf(one) {
  if (one.step === null) return "";
  return `${one.advantage === null ? "" : `, advantage ${signed(one.advantage)}`}, step ${one.step}`;
}

function turnWithCalls(one) {
  const calls = one.calls.map((call) => h("details", { open: true },
    h("summary", {}, h("bdi", {}, call.name), `: ${words(call.outcome)}, ${duration(call.seconds)}`),
    whole(json(call.arguments, 2)),
    turn("tool", call.shown ?? call.reply ?? ""),
    call.error === null ? null : h("p", { class: "error" }, h("bdi", {}, call.error)),
    toolRun(call)));
  const malformed = one.malformed.map((call) => h("p", { class: "error" }, "Malformed call: ", h("bdi", {}, call.reason)));
  return h("div", {}, turn("assistant", one.text), malformed, calls);
}

/** One message of a conversation. */
export function turn(role, content) {
  return h("article", { class: `turn ${role}` }, h("strong", {}, role), whole(content));
}

function text(content) {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => part.text ?? JSON.stringify(part)).join("\n");
}

/** Buttons to download the trajectory as JSON or copy it to the clipboard. */
function asJson(one, path, fileName) {
  const problem = h("p", { class: "error", role: "alert" });
  const copy = async (event) => {
    problem.textContent = "";
    try {
      // Browsers offer the clipboard only over HTTPS and on loopback.
      if (!navigator.clipboard) throw new Error("the clipboard needs HTTPS or a loopback address");
      await navigator.clipboard.writeText(JSON.stringify(one, null, 2));
    } catch (error) {
      problem.textContent = `Copy failed: ${error.message}`;
      return;
    }
    event.target.textContent = "Copied";
  };
  return [
    h("div", { class: "row" },
      h("a", { class: "button", href: path, download: fileName }, "Download as JSON"),
      h("button", { type: "button", onclick: copy }, "Copy as JSON")),
    problem,
  ];
}

/** Chart log-probability and policy version of each sampled token; inserted tokens are gaps. */
function drawTokens(place, one, signal) {
  const sampled = (values) => values.map((value, index) => (one.response_mask[index] ? value : null));
  const axis = { stroke: colorOf("--text"), grid: { stroke: "#8884" }, values: (_, ticks) => tickLabels(ticks) };
  const chart = plot({
    width: Math.max(200, place.clientWidth - 18),
    height: 200,
    scales: { x: {}, y: {}, version: {} },
    axes: [axis, { ...axis, size: 60 }, { ...axis, side: 1, scale: "version", grid: { show: false } }],
    series: [
      { label: "token" },
      { label: "log-probability", stroke: colorOf("--run-1"), value: (_, value) => number(value) },
      { label: "policy version", scale: "version", stroke: "#1d4ed8", value: (_, value) => number(value) },
    ],
  }, [one.response_token_ids.map((_, index) => index), sampled(one.log_probs), sampled(one.policy_versions)], place);
  signal.addEventListener("abort", () => chart.destroy());
}
