// The health of a job: whether its metrics and counts look as if the work made sense, whatever its status.

import { h, show } from "../core/dom.js";
import { duration, isFinal, number, shortPercent as percent } from "../core/format.js";

const WINDOW = 20; // steps
const STALL_STEPS = 10;
const MIN_STALL_SECONDS = 600;

/** Shares of samples, groups or steps: the mean over the latest steps, and from where it is noted. */
const SHARES = [
  { metric: "group_filter_rate", warn: 0.5, bad: 0.9, text: "of the groups had equal rewards and were dropped" },
  { metric: "cut_off_rate", warn: 0.1, bad: 0.3, text: "of the answers were cut off at the length limit" },
  { metric: "sample_failure_rate", warn: 0.05, bad: 0.3, text: "of the samples failed" },
  { metric: "group_failure_rate", warn: 0.05, bad: 0.3, text: "of the groups failed" },
  { metric: "unrewarded_rate", warn: 0.02, bad: 0.2, text: "of the samples have no reward" },
  { metric: "tool_failure_rate", warn: 0.2, bad: 0.5, text: "of the tool calls failed" },
  { metric: "importance_weight_capped_fraction", warn: 0.05, bad: 0.3, text: "of the importance weights were capped: sampler and learner differ" },
];

/** What an evaluation counted of the samples, over all of its benchmarks; undefined without results. */
function evaluated({ metrics, benchmarks }, counted) {
  const parts = [metrics, ...(benchmarks ?? []).map((one) => one.metrics)].filter((one) => one?.samples);
  const total = (name) => parts.reduce((sum, one) => sum + (one[name] ?? 0), 0);
  return parts.length ? [total(counted), total("samples")] : undefined;
}

/** Metrics that are zero only when a step had nothing to learn from. */
const ZEROS = [
  { metric: "advantage_std", text: "every group had equal rewards, so no sample was better than another" },
  { metric: "grad_norm", text: "the gradient was zero, so no weight changed" },
];

/** Shares of what a job counted, as its kind's own route returns it: `of` gives the part and the whole. */
const COUNTS = [
  { name: "request_counts.failed", warn: 0.01, bad: 0.2, text: "of the requests failed", of: ({ request_counts: counts }) => counts && [counts.failed, counts.total] },
  { name: "metrics.errors", warn: 0.02, bad: 0.2, text: "of the samples have no answer or no grade", of: (whole) => evaluated(whole, "errors") },
  { name: "metrics.unparsable", warn: 0.2, bad: 0.6, text: "of the answers have nothing that could be graded: look at some of them", of: (whole) => evaluated(whole, "unparsable") },
  { name: "metrics.cut_off", warn: 0.1, bad: 0.3, text: "of the samples were cut off at a limit such as max_tokens, and graded as they are", of: (whole) => evaluated(whole, "cut_off") },
  { name: "statistics.failed", warn: 0.05, bad: 0.3, text: "of the rollouts failed", of: ({ statistics }) => statistics && [statistics.failed, statistics.trajectories] },
  { name: "statistics.finish_reasons.length", warn: 0.1, bad: 0.3, text: "of the rollouts were cut off at the length limit", of: ({ statistics }) => statistics && [statistics.finish_reasons?.length ?? 0, statistics.trajectories] },
  { name: "statistics.uniform_prompts", warn: 0.5, bad: 0.9, text: "of the prompts had samples of equal reward only, from which nothing can be learned", of: ({ statistics }) => statistics && [statistics.uniform_prompts, statistics.prompts] },
  { name: "statistics.reward_errors", warn: 0.02, bad: 0.2, text: "of the rollouts have no reward", of: ({ statistics }) => statistics && [statistics.reward_errors, statistics.trajectories] },
  { name: "statistics.failed_calls", warn: 0.2, bad: 0.5, text: "of the tool calls failed", of: ({ statistics }) => statistics && [statistics.failed_calls, statistics.calls] },
];
const ZERO_WARN = 0.1;
const ZERO_BAD = 0.5;

export class Health {
  /** The health of a job by its Metrics; `update` it when these, the `job` or the `whole` job change. */
  constructor(job, metrics) {
    this.metrics = metrics;
    this.findings = h("ul", { class: "findings" });
    this.line = h("p", { class: "findings" }); // for the summary, which stays in view
    this.summary = h("section", { class: "summary", "aria-label": "Summary" }); // tells by an attribute that a success is none
    this.job = job;
    this.whole = {}; // the job as its kind's own route returns it
    const rules = [
      ...SHARES.map(({ metric, warn, bad, text }) => [metric, `a share ${text}: noted from ${percent(warn)}, red from ${percent(bad)}`]),
      ...ZEROS.map(({ metric, text }) => [metric, `zero where ${text}: noted from ${percent(ZERO_WARN)} of the steps, red from ${percent(ZERO_BAD)}`]),
      ...COUNTS.map(({ name, warn, bad, text }) => [name, `a share ${text}: noted from ${percent(warn)}, red from ${percent(bad)}`]),
      ["any metric", "NaN or infinite at a step: red for loss and grad_norm, else noted"],
      ["time", `no new step for ${STALL_STEPS} times the usual time of one, and ${duration(MIN_STALL_SECONDS)}: noted while the job runs`],
    ];
    this.element = h("section", { "aria-label": "Health", class: "health" }, this.findings,
      h("details", {}, h("summary", {}, "How health is judged"),
        h("p", { class: "quiet" }, `Metrics by their means over the latest ${WINDOW} steps that have them; counts of the whole job.`),
        h("ul", {}, rules.map(([metric, text]) => h("li", {}, h("code", {}, metric), `: ${text}`)))));
  }

  update() {
    const { job, metrics, whole } = this;
    const counted = COUNTS.map((rule) => ({ ...rule, pair: rule.of(whole) })).filter(({ pair }) => pair?.[1] > 0);
    const found = [...zeros(metrics), ...shares(metrics), ...counts(counted), ...gaps(metrics), ...stall(job, metrics)];
    const isJudged = metrics.series.size > 0 || counted.length > 0;
    const nothing = isJudged ? { level: "good", text: "Healthy: no rule below has a finding." }
      : { level: "unknown", text: isFinal(job) ? "Nothing to judge: the job reported neither metrics nor counts." : "Nothing to judge yet: no metrics so far." };
    const shown = found.length ? found : [nothing];
    const worst = ["bad", "warn"].find((level) => found.some((one) => one.level === level)) ?? nothing.level;
    this.summary.dataset.health = worst;
    this.findings.hidden = found.length < 2; // the line in the summary has the only one
    show(this.findings, shown.map(({ level, text }) => h("li", { class: level }, text)));
    const first = shown.find(({ level }) => level === worst);
    const more = found.length > 1 ? ` (and ${number(found.length - 1)} more)` : "";
    show(this.line, h("span", { class: worst }, h("strong", {}, "Health: "), first.text, more));
  }
}

/** The latest finite values of a metric. */
function latest(metrics, name) {
  const values = [...(metrics.series.get(name) ?? [])].filter(([, value]) => value !== null);
  return values.sort(([one], [other]) => one - other).slice(-WINDOW).map(([, value]) => value);
}

function shares(metrics) {
  return SHARES.flatMap(({ metric, warn, bad, text }) => {
    const values = latest(metrics, metric);
    const mean = values.reduce((sum, value) => sum + value, 0) / (values.length || 1);
    return mean >= warn ? [{ level: mean >= bad ? "bad" : "warn", text: `${percent(mean)} ${text}.` }] : [];
  });
}

function counts(counted) {
  return counted.flatMap(({ pair: [part, whole], warn, bad, text }) => {
    const share = part / whole;
    return share >= warn ? [{ level: share >= bad ? "bad" : "warn", text: `${percent(share)} ${text}.` }] : [];
  });
}

function zeros(metrics) {
  return ZEROS.flatMap(({ metric, text }) => {
    const values = latest(metrics, metric);
    const count = values.filter((value) => value === 0).length;
    const share = count / (values.length || 1);
    return share >= ZERO_WARN ? [{ level: share >= ZERO_BAD ? "bad" : "warn", text: `In ${count} of the latest ${values.length} steps ${text}.` }] : [];
  });
}

function gaps(metrics) {
  const broken = [...metrics.series.keys()].filter((name) => metrics.gaps(name).length);
  if (!broken.length) return [];
  const isBad = broken.some((name) => ["loss", "grad_norm"].includes(name));
  return [{ level: isBad ? "bad" : "warn", text: `NaN or infinite at some steps: ${broken.slice(0, 5).join(", ")}${broken.length > 5 ? " and others" : ""}.` }];
}

function stall(job, metrics) {
  const times = [...metrics.times].sort(([one], [other]) => one - other).slice(-WINDOW).map(([, time]) => time);
  if (job.status !== "running" || times.length < 3) return [];
  const lengths = times.slice(1).map((time, index) => time - times[index]).sort((one, other) => one - other);
  const usual = lengths[Math.floor(lengths.length / 2)];
  const since = Date.now() / 1000 - times.at(-1);
  const isStalled = since > Math.max(MIN_STALL_SECONDS, STALL_STEPS * usual);
  return isStalled ? [{ level: "warn", text: `No new step for ${duration(since)}; a step usually takes ${duration(usual)}.` }] : [];
}
