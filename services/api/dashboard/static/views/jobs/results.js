// The answers of an evaluation with their grades, filters and tool-call scores.

import { latestOf, request, withQuery } from "../../core/api.js";
import { excerpt, field, h, inline, sameBy, select, table, whole } from "../../core/dom.js";
import { number, shellQuoted } from "../../core/format.js";
import { headingOf } from "../../job/name.js";
import { toolCallScores } from "../../trajectory/tool_call_scores.js";

const PAGE = 100;
const GRADES = { "": "any", wrong: "wrong", correct: "correct", failed: "ungraded" };

const FILTERS = ["outcome", "tag", "text", "benchmark", "row"];

export async function resultsView({ place, signal, query, setQuery }, id) {
  const evaluation = await request(`/v1/evaluations/${id}`, { signal });
  const filter = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const route = `/v1/evaluations/${id}/results`;
  const list = h("div");
  const same = h("div");
  const problem = h("p", { class: "error", role: "alert" });
  const more = h("button", { type: "button", hidden: true, onclick: () => load() }, "Show more");
  let answers = [];

  const load = latestOf(async (latest) => {
    problem.textContent = "";
    const page = await request(withQuery(route, { ...filter, order: "input", after: answers.at(-1)?.id, limit: PAGE }), { signal: latest });
    answers.push(...page.data);
    more.hidden = !page.has_more;
    const counted = `${answers.length} ${answers.length === 1 ? "answer" : "answers"}${more.hidden ? "" : ", and more"}`;
    list.replaceChildren(table(counted, columns(id), answers, "No matching answers."));
    same.replaceChildren(sameBy(withQuery(route, { ...filter, order: "input" }), command(id, filter)));
  }, (error) => {
    problem.textContent = error.message;
    if (answers.length) return;
    list.replaceChildren(); // from another filter
    same.replaceChildren();
    more.hidden = true;
  }, signal);

  function change(name) {
    return (value) => {
      filter[name] = value;
      setQuery(filter);
      answers = [];
      load();
    };
  }

  function input(name, attributes) {
    return h("input", { ...attributes, value: filter[name], onchange: (event) => change(name)(event.target.value) });
  }

  place.append(...headingOf("Answers of", evaluation),
    ...toolCallScores(evaluation),
    h("div", { class: "row", role: "search" },
      field("Grade", select(GRADES, filter.outcome, change("outcome"))),
      field("Tag", input("tag", { type: "search", maxlength: "200" })),
      field("Answer text", input("text", { type: "search", maxlength: "1000" })),
      field("Benchmark", input("benchmark", { type: "search", maxlength: "100" })),
      field("Row", input("row", { type: "number", min: "0", step: "1" }))),
    problem, list, more, same);
  await load();
}

/** The equivalent command, which cannot filter by row. */
function command(id, { outcome, tag, text, benchmark }) {
  const options = { "--only": outcome, "--tag": tag, "--text": text, "--benchmark": benchmark };
  const given = Object.entries(options).filter(([, value]) => value).map(([name, value]) => `${name} ${shellQuoted(value)}`);
  return ["temper evals show", id, ...given].join(" ");
}

function gradeOf(one) {
  if (one.correct === null) return "failed";
  return one.correct ? "correct" : "wrong";
}

const columns = (id) => ({
  Row: (one) => (one.benchmark === null ? String(one.index) : `${one.benchmark} ${one.index}`),
  Tags: (one) => inline(one.tags, ", ", (tag) => h("bdi", {}, excerpt(tag))),
  Grade: (one) => h("span", { class: `status ${one.correct ? "succeeded" : "failed"}` }, GRADES[gradeOf(one)]),
  Score: (one) => number(one.score),
  Gold: (one) => inline(one.gold, " | ", (gold) => h("bdi", {}, excerpt(gold))),
  Extracted: (one) => excerpt(one.extracted),
  Prompt: (one) => one.prompt === null ? "" : h("details", {}, h("summary", { class: "long" }, one.prompt.slice(0, 120)), whole(one.prompt)),
  Answer: (one) => answer(one),
  "Finish reason": (one) => one.finish_reason ?? "",
  "Tool calls": (one) => one.tools ? calls(one.tools, id) : "",
});

function calls(used, id) {
  const failed = used.failed_calls ? ` (${used.failed_calls} failed)` : "";
  return h("a", { href: `/ui/jobs/${id}/trajectories/${used.trajectory}` }, `${used.calls}${failed}`);
}

function answer(one) {
  if (one.answer === null) return h("span", { class: "long error" }, one.error ?? "");
  return h("details", {}, h("summary", { class: "long" }, one.answer.slice(0, 120)), whole(one.answer));
}
