// What an API key used of the served models: requests and tokens by model and by day.

import { latestOf, request, withQuery } from "../core/api.js";
import { field, h, sameBy, select, show, table } from "../core/dom.js";
import { number } from "../core/format.js";

const DAYS = { 1: "today", 7: "7 days", 30: "30 days", 365: "a year" };
const COUNTS = ["requests", "prompt_tokens", "completion_tokens"];

export async function usageView({ place, signal, query, setQuery }) {
  let days = query.get("days") in DAYS ? query.get("days") : "30";
  const totals = h("div");
  const byDay = h("div");
  const same = h("div");
  const problem = h("p", { class: "error", role: "alert" });

  const load = latestOf(async (latest) => {
    const path = withQuery("/v1/usage", { days });
    const { data } = await request(path, { signal: latest });
    problem.textContent = "";
    const models = summed(data);
    show(totals, table(`By model, ${DAYS[days]} (UTC)`, { Model: modelOf, ...COLUMNS }, models, "No request to a served model was answered in this time."));
    show(byDay, data.length ? table("By day, newest first", { Day: (one) => one.day, Model: modelOf, ...COLUMNS }, data, "") : "");
    show(same, sameBy(path));
  }, (error) => { problem.textContent = error.message; }, signal);

  const choose = (value) => {
    days = value;
    setQuery({ days });
    load();
  };
  place.append(h("h1", {}, "Usage"),
    h("p", { class: "quiet" }, "Requests of your API key that served models answered, and their tokens; without keys, those of everyone."),
    h("div", { class: "row" }, field("Time", select(DAYS, days, choose))), problem, totals, byDay, same);
  await load();
}

const modelOf = (one) => h("bdi", {}, one.model);

const COLUMNS = {
  Requests: (one) => number(one.requests),
  "Prompt tokens": (one) => number(one.prompt_tokens),
  "Completion tokens": (one) => number(one.completion_tokens),
  "All tokens": (one) => number(one.prompt_tokens + one.completion_tokens),
};

/** The counts of each model over all days, those with most tokens first. */
function summed(data) {
  const models = new Map();
  for (const one of data) {
    const sum = models.get(one.model) ?? { model: one.model, requests: 0, prompt_tokens: 0, completion_tokens: 0 };
    for (const name of COUNTS) sum[name] += one[name];
    models.set(one.model, sum);
  }
  const tokens = (one) => one.prompt_tokens + one.completion_tokens;
  return [...models.values()].sort((one, other) => tokens(other) - tokens(one));
}
