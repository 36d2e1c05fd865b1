// The run of a tool call: a program, a search, or a failed request.

import { facts, h, sameBy, whole } from "../core/dom.js";
import { json, number } from "../core/format.js";
import { passageAddress } from "../views/passage.js";

/** The run of a call, collapsed; null without one. */
export function toolRun(call) {
  if (call.run?.type === "program") return collapsed("Sandbox run", programRun(call));
  if (call.run?.type === "search") return collapsed("Search", searchRun(call));
  if (call.run?.type === "http") return collapsed("Request", failedRequest(call));
  return null;
}

function collapsed(title, content) {
  return h("details", { class: "tool-run" }, h("summary", {}, title), content);
}

function programRun({ run, attempts, arguments: given }) {
  const code = run.code ?? given?.code;
  return [
    facts({ Status: run.status === null ? null : h("bdi", {}, run.status), Language: h("bdi", {}, run.language) }),
    run.code === null ? null : [h("h3", {}, "Executed code"), whole(run.code)],
    run.failure ? failedRequest({ run, attempts }) : null,
    run.compile_result ? command("Compiler", run.compile_result) : null,
    run.run_result ? command("Program", run.run_result) : null,
    typeof code === "string" ? sameBy("/run_code", "", json({ code, language: run.language }, 2)) : null,
  ];
}

function command(name, result) {
  const printed = ["stdout", "stderr"].filter((stream) => result[stream]).map((stream) =>
    [h("h4", {}, result[`${stream}_truncated`] ? `${stream} (truncated)` : stream), whole(result[stream])]);
  return h("div", {},
    h("h3", {}, name),
    facts({
      Status: result.out_of_memory ? "out of memory" : h("bdi", {}, result.status),
      "Return code": number(result.return_code),
      "Wall-clock time": seconds(result.execution_time),
      "CPU time": seconds(result.cpu_time),
      "Peak memory": result.peak_memory_mb === null ? null : `${number(result.peak_memory_mb)} MiB`,
    }),
    printed.length ? printed : h("p", { class: "quiet" }, "No output."));
}

function seconds(value) {
  return value === null ? null : `${number(value)} s`;
}

function searchRun({ run, attempts }) {
  const options = { topk: run.topk, return_scores: true, ...(run.index === null ? {} : { index: run.index }) };
  return [
    facts({ Index: run.index === null ? "default" : h("bdi", {}, run.index), "Passages requested": number(run.topk) }),
    run.failure ? failedRequest({ run, attempts }) : null,
    run.queries.map(({ query, found, passages }) => [
      h("h3", {}, h("bdi", {}, query)),
      run.failure ? null : h("p", { class: "quiet" }, `Top ${passages.length} of ${number(found)} passages`),
      h("ol", {}, passages.map((passage) => passageItem(run, query, passage))),
    ]),
    sameBy("/retrieve", "", json({ queries: run.queries.map((one) => one.query), ...options }, 2)),
  ];
}

/** The service's response to the last attempt, if any. */
function failedRequest({ run: { failure }, attempts }) {
  return [
    facts({
      "HTTP status": failure.status === null ? "no response" : number(failure.status),
      Attempts: number(attempts),
      "Last attempt took": seconds(failure.seconds),
    }),
    failure.answer ? [h("h3", {}, "Start of the response"), whole(failure.answer)] : null,
  ];
}

/** A passage as the model read it; those of external search services have no link. */
function passageItem(run, query, passage) {
  return h("li", {},
    h("strong", {}, h("bdi", {}, passage.title)),
    run.own === false || passage.id === null ? null : [" ", h("a", { href: passageAddress(run, query, passage) }, "full passage")],
    facts({ Id: passage.id === null ? null : h("bdi", {}, passage.id), Score: number(passage.score) }),
    whole(passage.text));
}
