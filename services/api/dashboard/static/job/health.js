// The health of a job: whether its latest metrics look as if the work made sense, whatever its status.

import { h, show } from "../core/dom.js";
import { duration, number } from "../core/format.js";

const WINDOW = 20; // steps
const STALL_STEPS = 10;
const MIN_STALL_SECONDS = 600;
const percent = (share) => `${number(Math.round(1000 * share) / 10)}%`;

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

/** Metrics that are zero only when a step had nothing to learn from. */
const ZEROS = [
  { metric: "advantage_std", text: "every group had equal rewards, so no sample was better than another" },
  { metric: "grad_norm", text: "the gradient was zero, so no weight changed" },
];
const ZERO_WARN = 0.1;
const ZERO_BAD = 0.5;

export class Health {
  constructor() {
    this.findings = h("ul", { class: "findings" });
    const rules = [
      ...SHARES.map(({ metric, warn, bad, text }) => [metric, `a share ${text}: noted from ${percent(warn)}, red from ${percent(bad)}`]),
      ...ZEROS.map(({ metric, text }) => [metric, `zero where ${text}: noted from ${percent(ZERO_WARN)} of the steps, red from ${percent(ZERO_BAD)}`]),
      ["any metric", "NaN or infinite at a step: red for loss and grad_norm, else noted"],
      ["time", `no new step for ${STALL_STEPS} times the usual time of one, and ${duration(MIN_STALL_SECONDS)}: noted while the job runs`],
    ];
    this.element = h("section", { "aria-label": "Health", hidden: true }, this.findings,
      h("details", {}, h("summary", {}, "How health is judged"),
        h("p", { class: "quiet" }, `Means over the latest ${WINDOW} steps that have the metric.`),
        h("ul", {}, rules.map(([metric, text]) => h("li", {}, h("code", {}, metric), `: ${text}`)))));
  }

  /** Judge a job by its Metrics. */
  update(job, metrics) {
    this.element.hidden = metrics.series.size === 0;
    const found = [...zeros(metrics), ...shares(metrics), ...gaps(metrics), ...stall(job, metrics)];
    const shown = found.length ? found : [{ level: "good", text: "Healthy: no rule below has a finding." }];
    show(this.findings, shown.map(({ level, text }) => h("li", { class: level }, text)));
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
