// Token overlays of a trajectory: one value per token, in color levels with a legend.

import { number, percent as inPercent } from "../core/format.js";

const percent = (logProb) => {
  const share = Math.exp(logProb);
  return share >= 0.01 ? inPercent(share, share > 0.99 ? 2 : 1) : `${(100 * share).toPrecision(2)}%`;
};
const nats = (value) => `${number(value)} nats`;

/** A sequential scale; `bounds` are the lower bounds of levels 1 and up. */
function scale(name, value, bounds, tell, legend) {
  return {
    name,
    classOf: (token) => {
      const found = value(token);
      return found === null ? "" : `level-${bounds.filter((bound) => found >= bound).length}`;
    },
    tell: (token) => (value(token) === null ? "none" : tell(value(token))),
    legend: legend.map((text, level) => [`level-${level}`, text]),
  };
}

/** A diverging scale around zero; negative levels are dashed. */
function signed(name, value, bounds, tell) {
  const steps = bounds.map((bound, index) => [index + 1, index + 1 < bounds.length ? `${bound} to ${bounds[index + 1]}` : `${bound} or more`]);
  return {
    name,
    classOf: (token) => {
      const found = value(token);
      if (found === null) return "";
      const level = bounds.filter((bound) => Math.abs(found) >= bound).length;
      return `level-${level}${level && found < 0 ? " below" : ""}`;
    },
    tell: (token) => (value(token) === null ? "none" : tell(value(token))),
    legend: [
      ...steps.toReversed().map(([level, text]) => [`level-${level} below`, `−(${text})`]),
      ["level-0", `less than ${bounds[0]} from 0`],
      ...steps.map(([level, text]) => [`level-${level}`, text]),
    ],
  };
}

const ORIGINS = { prompt: "the prompt", sampled: "sampled by the policy", inserted: "inserted: tool results and the chat template" };

/** Overlays by their names in URLs. */
export const OVERLAYS = {
  origin: {
    name: "origin",
    classOf: () => "",
    tell: (token) => ORIGINS[token.origin],
    legend: Object.entries(ORIGINS),
  },
  log_prob: scale("log-probability", (token) => (token.log_prob === null ? null : -token.log_prob),
    [0.051, 0.223, 0.693, 1.609, 2.996], (value) => `${number(-value)} (${percent(-value)})`,
    ["95% or more", "80 to 95%", "50 to 80%", "20 to 50%", "5 to 20%", "less than 5%"]),
  entropy: scale("entropy", (token) => token.entropy, [0.05, 0.2, 0.7, 1.5, 3], nats,
    ["less than 0.05 nats", "0.05 to 0.2", "0.2 to 0.7", "0.7 to 1.5", "1.5 to 3", "3 nats or more"]),
  mismatch: signed("mismatch, learner minus sampler",
    (token) => (token.learner_log_prob === null || token.log_prob === null ? null : token.learner_log_prob - token.log_prob),
    [0.01, 0.05, 0.1, 0.3, 1], (value) => `${nats(value)}: the learner's probability is ${number(Math.exp(value))} times the sampler's`),
  advantage: signed("advantage", (token) => token.advantage, [0.05, 0.25, 0.5, 1, 2], number),
  policy_version: {
    name: "policy version",
    classOf: (token) => (token.policy_version === null ? "" : `version-${token.policy_version % 6}`),
    tell: (token) => (token.policy_version === null ? "none" : String(token.policy_version)),
    markOf: (token) => (token.policy_version === null ? null : `v${token.policy_version}`),
    legend: [],
  },
};
