// What is behind the result of a tool call: the run of a program, a search, or a failed request.

import { facts, h, sameBy, whole } from "./dom.js";
import { json, number } from "./format.js";
import { passageAddress } from "./views/passage.js";

/** The run of a call, folded; null for a call that has none. */
export function toolRun(call) {
  if (call.run?.type === "program") return folded("The run in the sandbox", programRun(call));
  if (call.run?.type === "search") return folded("The search", searchRun(call));
  if (call.run?.type === "http") return folded("The request", failedRequest(call));
  return null;
}

function folded(title, content) {
  return h("details", { class: "tool-run" }, h("summary", {}, title), content);
}

function programRun({ run, attempts, arguments: given }) {
  const code = run.code ?? given?.code;
  return [
    facts({ Status: run.status === null ? null : h("bdi", {}, run.status), Language: h("bdi", {}, run.language) }),
    run.code === null ? null : [h("h3", {}, "Code as it ran"), whole(run.code)],
    run.failure ? failedRequest({ run, attempts }) : null,
    run.compile_result ? command("Compiler", run.compile_result) : null,
    run.run_result ? command("Program", run.run_result) : null,
    typeof code === "string" ? sameBy("/run_code", "", json({ code, language: run.language }, 2)) : null,
  ];
}

function command(name, result) {
  const printed = ["stdout", "stderr"].filter((stream) => result[stream]).map((stream) =>
    [h("h4", {}, result[`${stream}_truncated`] ? `${stream}, cut` : stream), whole(result[stream])]);
  return h("div", {},
    h("h3", {}, name),
    facts({
      Ended: result.out_of_memory ? "out of memory" : h("bdi", {}, result.status),
      "Return code": number(result.return_code),
      "Wall-clock time": seconds(result.execution_time),
      "CPU time": seconds(result.cpu_time),
      "Peak memory": result.peak_memory_mb === null ? null : `${number(result.peak_memory_mb)} MiB`,
    }),
    printed.length ? printed : h("p", { class: "quiet" }, "It printed nothing."));
}

function seconds(value) {
  return value === null ? null : `${number(value)} s`;
}

function searchRun({ run, attempts }) {
  const options = { topk: run.topk, return_scores: true, ...(run.index === null ? {} : { index: run.index }) };
  return [
    facts({ Index: run.index === null ? "the default" : h("bdi", {}, run.index), "Passages asked for": number(run.topk) }),
    run.failure ? failedRequest({ run, attempts }) : null,
    run.queries.map(({ query, found, passages }) => [
      h("h3", {}, h("bdi", {}, query)),
      run.failure ? null : h("p", { class: "quiet" }, `${passages.length} of the ${number(found)} passages found, best first`),
      h("ol", {}, passages.map((passage) => passageItem(run, query, passage))),
    ]),
    sameBy("/retrieve", "", json({ queries: run.queries.map((one) => one.query), ...options }, 2)),
  ];
}

/** How the service answered the last of the attempts, if it did. */
function failedRequest({ run: { failure }, attempts }) {
  return [
    facts({
      "HTTP status": failure.status === null ? "no answer" : number(failure.status),
      Attempts: number(attempts),
      "The last took": seconds(failure.seconds),
    }),
    failure.answer ? [h("h3", {}, "Beginning of the answer"), whole(failure.answer)] : null,
  ];
}

/** A passage as the model read it; those of another service's indexes cannot be opened here. */
function passageItem(run, query, passage) {
  return h("li", {},
    h("strong", {}, h("bdi", {}, passage.title)),
    run.own === false || passage.id === null ? null : [" ", h("a", { href: passageAddress(run, query, passage) }, "whole passage")],
    facts({ Id: passage.id === null ? null : h("bdi", {}, passage.id), Score: number(passage.score) }),
    whole(passage.text));
}
