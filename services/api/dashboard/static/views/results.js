// The answers of an evaluation with their grades.

import { request, withQuery } from "../api.js";
import { excerpt, field, h, inline, sameBy, select, table, whole } from "../dom.js";
import { number } from "../format.js";

const PAGE = 100;
const GRADES = { "": "any", wrong: "wrong", correct: "correct", failed: "without a grade" };

export async function resultsView({ place, signal, query, setQuery }, id) {
  let grade = query.get("grade") ?? "";
  const answers = [];
  const list = h("div");
  const problem = h("p", { class: "error", role: "alert" });
  const more = h("button", { type: "button", hidden: true, onclick: () => load() }, "Show more");

  async function load() {
    try {
      const page = await request(withQuery(`/v1/evaluations/${id}/results`, { after: answers.at(-1)?.id, limit: PAGE }), { signal });
      answers.push(...page.data);
      more.hidden = !page.has_more;
    } catch (error) {
      if (!signal.aborted) problem.textContent = error.message;
      return;
    }
    draw();
  }

  function draw() {
    const found = answers.filter((one) => !grade || gradeOf(one) === grade);
    list.replaceChildren(table(`${found.length} of the ${answers.length} answers loaded`, columns(id), found, "No answer matches."));
  }

  function choose(value) {
    grade = value;
    setQuery({ grade });
    draw();
  }

  place.append(h("h1", {}, "Answers of ", h("a", { href: `/ui/jobs/${id}` }, id)),
    h("div", { class: "row" }, field("Grade", select(GRADES, grade, choose))),
    problem, list, more, sameBy(`/v1/evaluations/${id}/results`));
  await load();
}

function gradeOf(one) {
  if (one.correct === null) return "failed";
  return one.correct ? "correct" : "wrong";
}

const columns = (id) => ({
  Row: (one) => (one.benchmark === null ? String(one.index) : `${one.benchmark} ${one.index}`),
  Grade: (one) => h("span", { class: `status ${one.correct ? "succeeded" : "failed"}` }, GRADES[gradeOf(one)]),
  Score: (one) => number(one.score),
  Gold: (one) => inline(one.gold, " | ", (gold) => h("bdi", {}, excerpt(gold))),
  Compared: (one) => excerpt(one.extracted),
  Prompt: (one) => one.prompt === null ? "" : h("details", {}, h("summary", { class: "long" }, one.prompt.slice(0, 120)), whole(one.prompt)),
  Answer: (one) => answer(one),
  Ended: (one) => one.finish_reason ?? "",
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
