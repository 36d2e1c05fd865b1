// The live list of jobs of every kind.

import { latestOf, poll, request, withQuery } from "../../core/api.js";
import { excerpt, field, h, inline, sameBy, select, setInvalid, show, table, when } from "../../core/dom.js";
import { counted, duration, isFinal, shellQuoted, took, words } from "../../core/format.js";
import { downloadOf } from "../../job/download.js";
import { KINDS } from "../../kinds.js";
import { firstSteps } from "../../job/first_steps.js";
import { jobName } from "../../job/name.js";
import { mainNumber } from "../../job/main_number.js";
import { waiting } from "../../job/waiting.js";
import { startLinks } from "../start.js";

const STATUSES = ["", "validating_files", "queued", "running", "paused", "succeeded", "failed", "cancelled"];
const REFRESH_SECONDS = 2;
const PAGE = 50;
const MOST = 100; // per request
const TYPING_MILLISECONDS = 200;

export function jobsView({ place, signal, query, setQuery }) {
  const filter = Object.fromEntries(["kind", "status", "metadata", "text"].map((name) => [name, query.get(name) ?? ""]));
  const list = h("div");
  const problem = h("p", { class: "error", role: "alert" });
  const more = h("button", { type: "button", hidden: true, onclick: () => { limit += PAGE; load(); } }, "Show more");
  let limit = PAGE;
  let typing = null;

  const failed = (error) => { problem.textContent = `${error.message}; showing the last known list.`; };

  const load = latestOf(async (latest) => {
    const isPair = filter.metadata === "" || filter.metadata.indexOf("=") > 0;
    setInvalid(metadata, !isPair);
    if (!isPair) {
      problem.textContent = "Enter metadata as key=value.";
      return;
    }
    const { jobs, hasMore } = await newest(filter, limit, latest);
    problem.textContent = "";
    const isFiltered = Object.values(filter).some(Boolean);
    show(list, table(`${counted(jobs.length, "job", "jobs", hasMore)}, newest first`, COLUMNS, jobs, isFiltered ? "No matching jobs." : "No jobs yet."));
    more.hidden = !hasMore;
    show(same, sameBy(withQuery("/v1/jobs", filter), command(filter)));
  }, failed, signal);

  function change(name) {
    return (value) => {
      filter[name] = value;
      setQuery(filter);
      load();
    };
  }

  /** Search after a pause in typing. */
  function typed(event) {
    clearTimeout(typing);
    typing = setTimeout(() => change("text")(event.target.value), TYPING_MILLISECONDS);
  }
  signal.addEventListener("abort", () => clearTimeout(typing));

  const same = h("div");
  const text = h("input", { type: "search", maxlength: "200", value: filter.text, oninput: typed });
  // On change, not on input: half of a pair matches nothing.
  const metadata = h("input", {
    type: "search", value: filter.metadata, placeholder: "key=value", autocomplete: "off",
    onchange: (event) => change("metadata")(event.target.value.trim()),
  });
  place.append(
    h("h1", {}, "Jobs"),
    firstSteps(signal),
    startLinks(),
    h("div", { class: "row", role: "search" },
      field("Kind", select(options(["", ...Object.keys(KINDS)]), filter.kind, change("kind"))),
      field("Status", select(options(STATUSES), filter.status, change("status"))),
      field("Metadata (exact match)", metadata),
      field("Search id, model, reason, or metadata", text)),
    problem, list, more, same,
  );
  poll(REFRESH_SECONDS, load, failed, signal);
}

const COLUMNS = {
  Job: jobName,
  Status: (job) => [status(job), goesOn(job), reasonOf(job)],
  Result: mainNumber,
  Kind: (job) => words(job.kind),
  Method: (job) => job.method && h("bdi", {}, words(job.method)),
  Model: (job) => job.model && h("bdi", { class: "short" }, job.model),
  Data: (job) => h("span", { class: "short" }, inline(job.data, ", ", (name) => h("bdi", {}, name))),
  Duration: (job) => duration(took(job)),
  Notes: (job) => job.notes || null,
  Created: (job) => when(job.created_at),
};

/** How far a job is that has not ended. */
function goesOn(job) {
  const done = isFinal(job) ? null : downloadOf(job) ?? progress(job);
  return done && h("div", {}, done);
}

/** Why a job failed, or why it waits. */
function reasonOf(job) {
  const reason = job.error ? excerpt(job.error.message) : waiting(job);
  return reason && h("div", { class: "long" }, reason);
}

/** The status of a job as an element. */
export function status(job) {
  const shown = job.phase && job.status === "running" ? job.phase : job.status;
  const doubt = job.main_number?.nothing_learned ? " doubtful" : "";
  return h("span", { class: `status ${job.status}${doubt}` }, h("bdi", {}, words(shown)));
}

/** The status of a job, announced when it changes: without clocks, a change is worth saying. */
export function liveStatus(job) {
  return h("span", { "aria-live": "polite" }, status(job));
}

/** The progress of a job as an element; null without any. */
export function progress(job) {
  if (!job.progress) return null;
  const { step, total_steps: total, percent, eta_seconds: eta } = job.progress;
  const left = eta === null ? "" : `, ${duration(eta)} left`;
  return h("span", {}, h("progress", { max: total, value: step, "aria-label": "Progress" }), ` ${percent} %${left}`);
}

/** The newest jobs that match, up to `limit`, over several pages if needed. */
async function newest(wanted, limit, signal) {
  const jobs = [];
  let hasMore = true;
  while (hasMore && jobs.length < limit) {
    const after = jobs.at(-1)?.id;
    const page = await request(withQuery("/v1/jobs", { ...wanted, after, limit: Math.min(MOST, limit - jobs.length) }), { signal });
    jobs.push(...page.data);
    hasMore = page.has_more;
  }
  return { jobs, hasMore };
}

/** The equivalent command. */
function command(filter) {
  const given = Object.entries(filter).filter(([, value]) => value).map(([name, value]) => `--${name} ${shellQuoted(value)}`);
  return ["temper ps", ...given].join(" ");
}

function options(values) {
  return Object.fromEntries(values.map((value) => [value, value ? words(value) : "any"]));
}
