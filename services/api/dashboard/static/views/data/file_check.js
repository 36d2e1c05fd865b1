// The check of a training file: a fine-tune's validation, with the invalid rows.

import { poll, request, withQuery } from "../../core/api.js";
import { facts, field, h, inline, sameBy, select, show, table } from "../../core/dom.js";
import { isFinal, json, number } from "../../core/format.js";
import { jobName } from "../../job/name.js";
import { waiting } from "../../job/waiting.js";
import { liveStatus, progress } from "../jobs/jobs.js";

const REFRESH_SECONDS = 0.5;

/** Methods whose rows can be checked, and their kind of rows. */
export const METHODS = {
  supervised: "supervised: demonstrations",
  dpo: "dpo: preferences",
  reward_model: "reward model: preferences",
  kto: "kto: answers with feedback",
  pretraining: "pretraining: text",
};

/**
 * The section. `kind` is what the rows look like, or null; rows that no training method of this check
 * reads are not checked unless asked for. `state.check` is the job to show, or "new" to start one; without it the file's latest is
 * shown. `jump` is called with the number of a row to show.
 */
export function checkSection(file, kind, state, keep, jump, signal) {
  const problem = h("p", { class: "error", role: "alert" });
  const found = h("div");
  const reported = h("div", { "aria-live": "polite" });
  const same = h("div");
  const isOther = kind !== null && kind.method === null;
  const method = select(METHODS, kind?.method ?? "supervised", showCommands);
  const detected = h("p", { role: "status" }, !kind ? "" : isOther
    ? `These rows look like ${kind.text}. They are not rows of a supervised fine-tune, so they are not checked as such: the job that reads them checks them before it queues.`
    : `These rows look like ${kind.text}.`);
  const model = h("input", { type: "text", list: "known-models", autocomplete: "off" });
  model.addEventListener("input", showCommands);
  const begin = h("button", { type: "submit" }, "Check all rows");
  let watching = new AbortController();

  function body() {
    return { training_file: file.id, method: { type: method.value }, ...(model.value ? { model: model.value } : {}) };
  }

  function showCommands() {
    const counted = model.value ? ` --model ${json(model.value)}` : "";
    same.replaceChildren(sameBy("/v1/checks", `temper files check ${file.id} --method ${method.value}${counted}`, json(body(), 2)));
  }

  function watch(id) {
    watching.abort();
    watching = new AbortController();
    const ends = AbortSignal.any([signal, watching.signal]);
    poll(REFRESH_SECONDS, async () => {
      const check = await request(`/v1/checks/${id}`, { signal: ends });
      problem.textContent = "";
      show(found, summary(check));
      show(reported, findings(check, jump), fidelity(check.report?.fidelity, jump));
      return !isFinal(check);
    }, (error) => { problem.textContent = error.message; }, ends);
  }

  async function start(event) {
    event?.preventDefault();
    begin.disabled = true;
    problem.textContent = "";
    try {
      const check = await request("/v1/checks", { method: "POST", body: body(), signal });
      keep({ check: check.id });
      watch(check.id);
    } catch (error) {
      if (!signal.aborted) problem.textContent = error.message;
    }
    begin.disabled = false;
  }

  async function open() {
    try {
      if (state.check === "new") {
        if (!isOther) await start();
      }
      else if (state.check) watch(state.check);
      else {
        const latest = await request(withQuery("/v1/jobs", { kind: "check", file: file.id, limit: 1 }), { signal });
        if (latest.data.length) watch(latest.data[0].id);
      }
    } catch (error) {
      if (!signal.aborted) problem.textContent = error.message;
    }
  }

  showCommands();
  open();
  return h("section", {}, h("h2", {}, "Check"),
    h("form", { class: "row", onsubmit: start }, field("Check for method", method), field("Count tokens with model", model), begin),
    detected, problem, found, reported, same);
}

function summary(check) {
  const report = check.report;
  return facts({
    Check: jobName(check),
    Status: liveStatus(check),
    Progress: isFinal(check) ? null : progress(check),
    "Why it waits": waiting(check),
    Rows: report ? `${number(report.rows)}, all valid` : null,
    Format: report?.layout,
    Lengths: report?.lengths ? lengths(report.lengths) : null,
    "Will be truncated": report?.lengths?.truncated ? `${number(report.lengths.truncated)} rows` : null,
    "Unused columns": report ? inline(report.ignored_columns, ", ", (name) => h("bdi", {}, name)) : null,
  });
}

function lengths({ unit, mean, p50, p95, max }) {
  return `${unit} per row: mean ${number(mean)}, median ${number(p50)}, p95 ${number(p95)}, longest ${number(max)}`;
}

function findings(check, jump) {
  if (!check.error) return null;
  const { message, rows, hint } = check.error;
  return h("div", {},
    h("div", { class: "error-box" }, h("p", {}, h("bdi", {}, message)), hint ? h("p", {}, hint) : null),
    rows.length ? table(`${rows.length} invalid rows`, columns(jump), rows, "") : null);
}

/** What the chat template makes of the rows, with its verdict. */
function fidelity(report, jump) {
  if (!report) return null;
  const kinds = { Rows: ({ rows }) => number(rows), "First rows": ({ first_rows }) => inline(first_rows, ", ", (row) => rowButton(row, jump)),
    Finding: ({ message }) => h("bdi", { class: "long" }, message) };
  return h("div", {},
    h("p", { class: report.verdict === "refused" ? "error" : null }, h("strong", {}, "Verdict: "), h("bdi", {}, report.summary)),
    report.findings.length ? table("What the template makes of the rows", kinds, report.findings, "") : null,
    report.samples.map(sampleFigure));
}

function sampleFigure({ row, sequences, missing, cut_tokens }) {
  const cut = cut_tokens ? `, ${number(cut_tokens)} tokens truncated` : "";
  return h("figure", { class: "example" },
    h("figcaption", {}, h("strong", {}, `Row ${number(row)}`), h("span", { class: "quiet" }, ` trained text marked${cut}`)),
    missing.map((part) => h("p", { class: "error" }, "Not in the trained text: ", h("bdi", {}, part))),
    sequences.map((parts) => h("pre", { class: "tokens boxes", tabindex: "0" },
      parts.map(({ text, trained }) => h("span", { class: trained ? "learned" : null }, text)))));
}

function rowButton(row, jump) {
  return h("button", { type: "button", onclick: () => jump(row), "aria-label": `Show row ${row}` }, number(row));
}

const columns = (jump) => ({
  Row: ({ row }) => rowButton(row, jump),
  Error: ({ message }) => h("bdi", { class: "long" }, message),
});
