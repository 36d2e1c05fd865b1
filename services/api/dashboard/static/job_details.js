// What a job was asked for and its results: the main ones in words, and everything else, of
// which results and lists of things unfold.

import { facts, h, table, whole } from "./dom.js";
import { bytes, duration, json, number, oneDirection } from "./format.js";
import { interval, isShare, value as metricValue } from "./metric_value.js";

const SHOWN_ABOVE = new Set(["id", "object", "status", "phase", "progress", "error", "created_at", "started_at", "finished_at",
  "queue_reason", "metadata", "attempt", "cancel_requested_at", "pause_requested_at", "deadline_at",
  "estimated_finish"]);
const RESULTS = new Set(["metrics", "main_metric", "macro_average", "benchmarks", "statistics", "result", "report", "usage", "memory_estimate"]);
const SHORT_CHARACTERS = 400;
const MOST_ITEMS = 200;

export class JobDetails {
  constructor() {
    this.element = h("div", { class: "results" });
    this.known = null;
    this.unfolded = new Set();
  }

  /** Show a job as the route of its kind does; what is unfolded stays so. */
  update(job) {
    const given = Object.entries(job).filter(([name]) => !SHOWN_ABOVE.has(name));
    const known = JSON.stringify(given);
    if (known === this.known) return;
    this.known = known;
    const main = Object.entries(mainResults(job)).filter(([, result]) => result);
    this.element.replaceChildren(
      ...(main.length ? [h("h3", {}, "Main results"), facts(Object.fromEntries(main)), h("h3", {}, "Everything else")] : []),
      facts(Object.fromEntries(given.flatMap(([name, value]) => this.flat(name, value)))),
    );
  }

  /** Names and values; the fields of an object have dotted names, unless it unfolds. */
  flat(name, value) {
    if (value === null || typeof value !== "object") return [[name, this.shown(name, value, json)]];
    if (RESULTS.has(name)) return [[name, this.shown(name, value, number)]];
    if (Array.isArray(value)) return [[name, this.shown(name, value, json)]];
    return Object.entries(value).flatMap(([key, item]) => this.flat(`${name}.${oneDirection(key)}`, item));
  }

  /** A value as text or, if it is long, as an element that unfolds. */
  shown(name, value, asText) {
    if (value === null) return null;
    if (typeof value === "string") return value.length > SHORT_CHARACTERS ? this.fold(name, `${number(value.length)} characters`, () => whole(value)) : h("bdi", {}, value);
    if (typeof value === "number") return asText(value);
    if (typeof value !== "object") return json(value);
    const items = Object.values(value);
    if (!items.length) return json(value);
    if (items.every((item) => item === null || typeof item !== "object") && Array.isArray(value)) return this.list(name, value, asText);
    const about = `${number(items.length)} ${items.length === 1 ? "entry" : "entries"}`;
    return this.fold(name, about, () => (isTable(value) ? asTable(name, value, asText) : this.entries(name, value, asText)));
  }

  list(name, values, asText) {
    const text = values.map((item) => (typeof item === "number" ? asText(item) : typeof item === "string" ? oneDirection(item) : json(item))).join(", ");
    return this.shown(name, text, asText);
  }

  entries(name, value, asText) {
    const shown = Object.entries(value).slice(0, MOST_ITEMS);
    const left = Object.keys(value).length - shown.length;
    const placeOf = (key, item) => `${Number(key) + 1}${typeof item?.name === "string" ? `: ${item.name}` : ""}`;
    const nameOf = (key, item) => oneDirection(Array.isArray(value) ? placeOf(key, item) : key);
    return [facts(Object.fromEntries(shown.map(([key, item]) => [nameOf(key, item), this.shown(`${name}.${key}`, item, asText)]))), more(left)];
  }

  /** An element that is filled once it is unfolded. */
  fold(name, summary, build) {
    const body = h("div");
    const toggle = ({ target }) => {
      if (!target.open) {
        this.unfolded.delete(name);
        return;
      }
      this.unfolded.add(name);
      if (!body.children.length) body.append(...[build()].flat().filter(Boolean));
    };
    return h("details", { open: this.unfolded.has(name), ontoggle: toggle }, h("summary", {}, summary), body);
  }
}

/** Whether a value is a list of objects, each with the same fields and nothing below them. */
function isTable(value) {
  if (!Array.isArray(value) || value[0] === null || typeof value[0] !== "object" || Array.isArray(value[0])) return false;
  const fields = Object.keys(value[0]).join();
  return value.every((item) => item !== null && Object.keys(item).join() === fields && Object.values(item).every((cell) => cell === null || typeof cell !== "object"));
}

function asTable(name, rows, asText) {
  const cell = (item) => (typeof item === "number" ? asText(item) : h("bdi", {}, h("span", { class: "long" }, item === null ? "" : String(item).slice(0, SHORT_CHARACTERS))));
  const columns = Object.fromEntries(Object.keys(rows[0]).map((field) => [oneDirection(field), (row) => cell(row[field])]));
  return [table(name, columns, rows.slice(0, MOST_ITEMS), ""), more(rows.length - MOST_ITEMS)];
}

function more(count) {
  return count > 0 ? h("p", { class: "quiet" }, `${number(count)} more are in the answer of the route`) : null;
}

/** What one looks for first, by its name; empty where there is nothing yet. */
function mainResults(job) {
  const counts = job.request_counts;
  return {
    ...evaluationResults(job),
    ...(job.statistics ? rolloutResults(job.statistics) : {}),
    "Trained tokens": number(job.trained_tokens),
    "Training took": duration(job.train_seconds),
    Documents: number(job.metrics?.documents),
    "Size on disk": job.metrics?.bytes_on_disk === undefined ? null : bytes(job.metrics.bytes_on_disk),
    Requests: counts?.total ? `${number(counts.completed)} of ${number(counts.total)} answered, ${number(counts.failed)} failed` : null,
    "Best model": job.result?.best_model && h("bdi", {}, `${job.result.best_model} (attempt ${job.result.best_loop})`),
  };
}

function evaluationResults({ benchmarks, metrics, main_metric: main, macro_average: macro }) {
  const outcomes = (benchmarks ?? [{ main_metric: main }]).filter((one) => one.main_metric);
  return {
    ...Object.fromEntries(outcomes.map(({ name, main_metric: one }) => [`${words(one.name)}${name ? ` of ${name}` : ""}`, estimate(one, isShare(one.name))])),
    "Mean over benchmarks": macro && (macro.mean ? estimate(macro.mean, Object.values(macro.metrics).every(isShare)) : macro.missing),
    ...(metrics?.samples === undefined ? {} : answerResults(metrics)),
  };
}

function answerResults({ samples, correct, errors, tool_use: used, tool_calls: stated, tokens_per_second: speed }) {
  return {
    Correct: `${number(correct)} of ${number(samples)}`,
    "Without a grade": errors ? number(errors) : null,
    "Tool calls": used && `${number(used.calls)} (${number(used.failed_calls)} failed, ${number(used.malformed_calls)} unreadable)`,
    "F1 of stated calls": stated && `${metricValue(stated.tools.micro_avg.f1, true)} of tools, ${metricValue(stated.parameters.micro_avg.f1, true)} of parameters`,
    "Tokens per second": number(speed),
  };
}

function rolloutResults({ trajectories, prompts, reward, finish_reasons: ends, calls, failed_calls: failed, tokens_per_second: speed }) {
  return {
    Trajectories: `${number(trajectories)} of ${number(prompts)} prompts`,
    Reward: reward && estimate(reward, false),
    Ended: Object.entries(ends).map(([name, count]) => `${words(name)} ${number(count)}`).join(", "),
    Calls: calls ? `${number(calls)} (${number(failed)} failed)` : null,
    "Tokens per second": number(speed),
  };
}

/** A mean with its interval, if it has one. */
function estimate({ mean, ci95 }, share) {
  if (mean === null) return "nothing was graded";
  const ends = interval(ci95, (end) => metricValue(end, share));
  return `${metricValue(mean, share)}${ends ? ` (95 % interval ${ends})` : ""}`;
}

function words(name) {
  return name.replaceAll("_", " ");
}
