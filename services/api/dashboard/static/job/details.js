// A job's configuration and results: the main results, and apart from them all fields, with
// collapsible results and lists.

import { facts, h, keyed, show, table, versioned, whole } from "../core/dom.js";
import { bytes, duration, json, number, oneDirection, words } from "../core/format.js";
import { areShares, interval, value as metricValue } from "./metric_value.js";

const SHOWN_ABOVE = new Set(["id", "name", "object", "status", "phase", "progress", "error", "created_at", "started_at", "finished_at",
  "queue_reason", "metadata", "attempt", "cancel_requested_at", "pause_requested_at", "deadline_at",
  "estimated_finish"]);
const RESULTS = new Set(["metrics", "main_metric", "macro_average", "benchmarks", "statistics", "result", "report", "usage", "memory_estimate"]);
const SHORT_CHARACTERS = 400;
const MOST_ITEMS = 200;

export class JobDetails {
  constructor() {
    this.main = h("section", { "aria-label": "Main results", class: "tiles", hidden: true });
    this.element = h("div", { class: "results" });
    this.known = null;
    this.expanded = new Set();
  }

  /** Show a job as returned by its kind's own route; expanded entries stay expanded. */
  update(job) {
    const given = Object.entries(job).filter(([name]) => !SHOWN_ABOVE.has(name));
    const known = JSON.stringify(given);
    if (known === this.known) return;
    this.known = known;
    const main = Object.entries(mainResults(job)).filter(([, result]) => result);
    this.main.hidden = !main.length;
    show(this.main, facts(Object.fromEntries(main)));
    show(this.element, facts(Object.fromEntries(given.flatMap(([name, value]) => this.flat(name, value)))));
  }

  /** Names and values; fields of objects that are not collapsible get dotted names. */
  flat(name, value) {
    if (value === null || typeof value !== "object") return [[name, this.shown(name, value, json)]];
    if (RESULTS.has(name)) return [[name, this.shown(name, value, number)]];
    if (Array.isArray(value)) return [[name, this.shown(name, value, json)]];
    return Object.entries(value).flatMap(([key, item]) => this.flat(`${name}.${oneDirection(key)}`, item));
  }

  /** A value as text, or as a collapsible element if it is long. */
  shown(name, value, asText) {
    if (value === null) return null;
    if (typeof value === "string") return value.length > SHORT_CHARACTERS ? this.fold(name, value, `${number(value.length)} characters`, () => whole(value)) : h("bdi", {}, value);
    if (typeof value === "number") return asText(value);
    if (typeof value !== "object") return json(value);
    const items = Object.values(value);
    if (!items.length) return json(value);
    if (items.every((item) => item === null || typeof item !== "object") && Array.isArray(value)) return this.list(name, value, asText);
    const about = `${number(items.length)} ${items.length === 1 ? "entry" : "entries"}`;
    return this.fold(name, value, about, () => (isTable(value) ? asTable(name, value, asText) : this.entries(name, value, asText)));
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

  /** A collapsible element whose content is built on first expansion. */
  fold(name, value, summary, build) {
    const body = h("div");
    const toggle = ({ target }) => {
      if (!target.open) {
        this.expanded.delete(name);
        return;
      }
      this.expanded.add(name);
      if (!body.children.length) body.append(...[build()].flat().filter(Boolean));
    };
    return versioned(JSON.stringify(value), h("details", { open: this.expanded.has(name), ontoggle: toggle }, h("summary", {}, summary), body));
  }
}

/** Whether a value is a list of flat objects with the same fields. */
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
  return count > 0 ? h("p", { class: "quiet" }, `${number(count)} more in the API response`) : null;
}

/** The headline results by name; empty where there are none yet. */
function mainResults(job) {
  const counts = job.request_counts;
  return {
    ...evaluationResults(job),
    ...(job.statistics ? rolloutResults(job.statistics) : {}),
    "Training rows": number(job.training_rows),
    "Validation rows": number(job.validation_rows),
    "Trained tokens": number(job.trained_tokens),
    "Training time": duration(job.train_seconds),
    Documents: number(job.metrics?.documents),
    "Size on disk": job.metrics?.bytes_on_disk === undefined ? null : bytes(job.metrics.bytes_on_disk),
    Requests: counts?.total ? `${number(counts.completed)} of ${number(counts.total)} answered, ${number(counts.failed)} failed` : null,
    "Best model": job.result?.best_model && h("bdi", {}, `${job.result.best_model} (attempt ${job.result.best_loop})`),
  };
}

function evaluationResults({ benchmarks, metrics, main_metric: main, macro_average: macro }) {
  const outcomes = (benchmarks ?? [{ main_metric: main }]).filter((one) => one.main_metric);
  return {
    ...Object.fromEntries(outcomes.map(({ name, main_metric: one }) => [`${words(one.name)}${name ? ` of ${name}` : ""}`, estimate(one, one.share)])),
    "Mean over benchmarks": macro && (macro.mean ? estimate(macro.mean, areShares(Object.values(macro.metrics))) : macro.missing),
    ...(metrics?.samples === undefined ? {} : answerResults(metrics)),
  };
}

function answerResults({ samples, correct, errors, unanswered, cut_off: cut, left_out: lost, left_out_causes: causes, tool_use: used, tool_calls: stated, tokens_per_second: speed }) {
  return {
    Correct: `${number(correct)} of ${number(samples)}`,
    Ungraded: errors ? number(errors) : null,
    "Cut off at a limit": cut ? `${number(cut)} (${metricValue(cut / (samples - unanswered), true)} of the answers)` : null,
    "Left out": lost ? lostResults(lost, causes) : null,
    "Tool calls": used && `${number(used.calls)} (${number(used.failed_calls)} failed, ${number(used.malformed_calls)} malformed)`,
    "Tool-call F1": stated && `${metricValue(stated.tools.micro_avg.f1, true)} for tools, ${metricValue(stated.parameters.micro_avg.f1, true)} for parameters`,
    "Tokens per second": number(speed),
  };
}

/** What the infrastructure lost, by cause. */
const lostResults = (count, causes) => `${number(count)} (${Object.entries(causes).map(([name, each]) => `${words(name)} ${number(each)}`).join(", ")})`;

function rolloutResults({ trajectories, prompts, reward, left_out: lost, left_out_causes: causes, finish_reasons: ends, calls, failed_calls: failed, tokens_per_second: speed }) {
  return {
    Trajectories: `${number(trajectories)} from ${number(prompts)} prompts`,
    Reward: reward && estimate(reward, false),
    "Finish reasons": Object.entries(ends).map(([name, count]) => `${words(name)} ${number(count)}`).join(", "),
    "Left out": lost ? lostResults(lost, causes) : null,
    Calls: calls ? `${number(calls)} (${number(failed)} failed)` : null,
    "Tokens per second": number(speed),
  };
}

/** A mean with its confidence interval, if any. */
function estimate({ mean, ci95 }, share) {
  if (mean === null) return "nothing graded";
  const ends = interval(ci95, (end, more) => metricValue(end, share, more));
  return `${metricValue(mean, share)}${ends ? ` (95% CI ${ends})` : ""}`;
}
