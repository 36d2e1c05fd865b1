// What the curves are about: groups of metrics, their meanings, and which ones decide.

import { GROUPS, PREFIXES, TERMS } from "../metric_terms.js";

export const OTHER = "other";
const MOST_DECISIVE = 6;
const BY_NAME = new Map(TERMS.map((term) => [term.name, term]));
const FAMILIES = { reward: "reward", rewards: "reward", accuracy: "objective", infrastructure_failures: "system" };

/** The order of the groups; those of unknown metrics come last. */
export const ORDER = [...GROUPS, OTHER];

/** The term of a metric's name, by the rest of a prefixed one; null if it is unknown. */
function termOf(name) {
  if (BY_NAME.has(name)) return BY_NAME.get(name);
  const prefix = Object.keys(PREFIXES).find((each) => name.startsWith(each));
  const term = prefix && BY_NAME.get(name.slice(prefix.length));
  return term ? { ...term, meaning: `${term.meaning} ${PREFIXES[prefix]}`, rank: null } : null;
}

/** The group of a metric. */
export function groupOf(name) {
  const [family] = name.replace(/^(eval|rollout)_/, "").split("/");
  return termOf(name)?.group ?? FAMILIES[family] ?? (name.endsWith("_seconds") ? "speed" : OTHER);
}

/** What a metric means, with its unit and usual values; empty if it is unknown. */
export function meaningOf(name) {
  const term = termOf(name);
  if (!term) return "";
  const unit = term.unit ? ` (${term.unit})` : "";
  return `${term.meaning}${unit}.${term.usual ? ` Usually ${term.usual}.` : ""}`;
}

/** The names that decide, the most important first: all where there are few. */
export function decisive(names) {
  if (names.length <= MOST_DECISIVE) return [...names].sort((one, other) => rankOf(one) - rankOf(other) || (one < other ? -1 : 1));
  const ranked = names.filter((name) => rankOf(name) < Infinity);
  return ranked.sort((one, other) => rankOf(one) - rankOf(other)).slice(0, MOST_DECISIVE);
}

function rankOf(name) {
  return termOf(name)?.rank ?? Infinity;
}
