// One job: state, actions, curves, phases, events, attempts, log, configuration and files, live.

import { firstEvents, latestEvents, poll, request, withQuery } from "../../core/api.js";
import { configurationSection } from "../../job/configuration.js";
import { Charts } from "../../charts/curves.js";
import { DeviceLanes, UTILIZATION } from "../../charts/device_lanes.js";
import { downloadOf } from "../../job/download.js";
import { excerpt, facts, followEnd, h, inline, sameBy, show, table } from "../../core/dom.js";
import { duration, isFinal, json, number, time, took } from "../../core/format.js";
import { Health } from "../../job/health.js";
import { Infrastructure } from "../../job/infrastructure.js";
import { JobActions } from "../../job/actions.js";
import { jobAlerts } from "../../job/alerts.js";
import { JobDetails } from "../../job/details.js";
import { jobLineage } from "../../job/lineage.js";
import { copyable } from "../../job/name.js";
import { KINDS } from "../../kinds.js";
import { NextSteps } from "../../job/next.js";
import { followEvents } from "../../core/live.js";
import { LOG, LogTail } from "../../job/log_tail.js";
import { mainNumber } from "../../job/main_number.js";
import { Metrics, metricsPath } from "../../charts/metrics.js";
import { notesSection } from "../../job/notes.js";
import { eventNumber, Phases } from "../../job/phases.js";
import { reportButton } from "../../job/report.js";
import { RewardAudit } from "../../job/reward_audit.js";
import { StepTimes } from "../../charts/step_times.js";
import { waiting } from "../../job/waiting.js";
import { liveStatus, progress } from "./jobs.js";

const REFRESH_SECONDS = 1;
const ENDED_SECONDS = 10;
const MOST_EVENTS = 500;
const LATEST = 100;
const FILES_SHOWN = 100;
export async function jobView({ place, signal, query, setQuery, go }, id) {
  const job = await request(`/v1/jobs/${id}`, { signal });
  const state = h("div", { class: "state" });
  const about = h("div", { class: "about" });
  const next = new NextSteps(signal, go);
  const failed = h("div", { "aria-live": "polite" });
  const actions = new JobActions(id, () => watch());
  const details = new JobDetails();
  const infrastructure = new Infrastructure(job);
  const audit = new RewardAudit(id, signal);
  const links = h("div");
  const attempts = h("div");
  const lineage = h("section", { "aria-label": "Lineage" });
  const files = h("div");
  const connection = h("span", { class: "quiet" });
  const lines = h("ol", { class: "log", tabindex: "0", "aria-label": "Events, newest last" });
  const log = new LogTail(id);
  const phases = new Phases(id);
  const charts = new Charts(query, setQuery, signal);
  const metrics = new Metrics();
  const health = new Health(job, metrics);
  const times = new StepTimes(metrics, (step) => `/ui/jobs/${id}/trajectories?step=${step}`);
  const lanes = new DeviceLanes(id, () => times.range());
  charts.runs.set(id, metrics);

  health.summary.append(
    h("div", { class: "row" }, h("h1", {}, h("bdi", {}, job.name || id)), copyable(id)),
    actions.element, // above the state: nothing that grows may move a button under the pointer
    state,
    health.line);
  place.append(
    health.summary,
    failed,
    next.element,
    details.main,
    links,
    health.element,
    jobAlerts(id, signal),
    infrastructure.element,
    about,
    h("section", {}, h("h2", {}, "Curves"), h("div", { class: "row" }, reportButton(report)), charts.element, sameBy(metricsPath(id), `temper logs ${id}`)),
    times.element,
    lanes.element,
    audit.element,
    notesSection(id, null, signal),
    phases.element,
    h("section", {}, h("h2", {}, "Events ", connection), lines),
    h("section", {}, h("h2", {}, "Attempts"), attempts, sameBy(`/v1/jobs/${id}/attempts`, `temper attempts ${id}`)),
    log.element,
    lineage,
    h("section", {}, h("h2", {}, "Configuration and results"), details.element,
      configurationSection(id, query.get("against"), (against) => setQuery({ against }), signal)),
    h("section", {}, h("h2", {}, "Files"), files),
    sameBy(`/v1/jobs/${id}`, `temper show ${id}\ntemper logs --follow ${id}`),
  );
  let watching = new AbortController();

  /** What a report of the job has. */
  function report() {
    const sections = [health.summary, failed, details.main, health.element, about, times.element, lanes.element, audit.element, phases.element, attempts, lineage, details.element];
    return { title: `${job.name || id} ${id}`, sections, pictures: charts.pictures() };
  }

  /** Follow the job to its end; restarted after an action, which may resume an ended job. */
  async function watch() {
    watching.abort();
    watching = new AbortController();
    const ends = AbortSignal.any([signal, watching.signal]);
    const tell = (text) => { connection.textContent = `(${text})`; };
    const draw = () => {
      charts.update();
      infrastructure.update(metrics);
      times.update();
      lanes.draw();
    };
    const onEvent = (event) => {
      phases.add(event);
      take(event, metrics, draw, lines);
    };
    // Another tab, or a command, may retry a job that has failed; no other ends as something else.
    const awaitRetry = (ended) => poll(ENDED_SECONDS, async () => {
      const { status, attempt } = await request(`/v1/jobs/${id}`, { signal: ends });
      const isSame = status === ended.status && attempt === ended.attempt;
      if (!isSame) watch().catch((error) => tell(error.message));
      return isSame;
    }, () => {}, ends);
    lines.replaceChildren();
    const load = () => refresh(id, { state, about, failed, next, actions, health, audit, attempts, details, links, lineage, files, log, lanes, phases, metrics }, job.kind, ends);
    poll(REFRESH_SECONDS, () => load().then((found) => {
      if (found.status === "failed") awaitRetry(found);
      return !isFinal(found);
    }), (error) => tell(error.message), ends);
    // Events before curves, so that no metric falls between them; the curves of a long job also take
    // longest to load.
    const latest = await latestEvents(id, LATEST, ends);
    latest.toReversed().forEach((event) => write(event, lines));
    await loadPhases(phases, id, latest, ends);
    await metrics.load(id, ends);
    latest.toReversed().forEach((event) => metrics.add(event));
    health.update(); // a job that has ended is not refreshed again
    draw();
    followEvents(id, latest.length ? eventNumber(latest[0]) : 0, onEvent, tell, ends);
  }

  await watch();
}

/** Few events report phases, most of them at the start and the end of a job. */
async function loadPhases(phases, id, latest, signal) {
  const missing = latest.length ? eventNumber(latest.at(-1)) - 1 : 0;
  const first = missing ? await firstEvents(id, Math.min(LATEST, missing), signal) : [];
  phases.isComplete = first.length === missing;
  for (const event of [...first, ...latest]) phases.add(event);
}

function take(event, metrics, draw, lines) {
  if (metrics.add(event)) draw();
  write(event, lines);
}

function write(event, lines) {
  followEnd(lines, () => {
    lines.append(h("li", { class: event.level }, h("time", {}, new Date(event.created_at * 1000).toLocaleTimeString()), h("bdi", {}, event.message)));
    if (lines.children.length > MOST_EVENTS) lines.firstElementChild.remove();
  });
}

/** Load the job again and show everything; returns it. */
async function refresh(id, parts, kind, signal) {
  const job = await request(`/v1/jobs/${id}`, { signal });
  parts.metrics.startedAt = job.started_at;
  show(parts.about, properties(job));
  show(parts.failed, failure(job));
  parts.actions.update(job);
  await showAttempts(parts, job, signal);
  parts.phases.job = job;
  parts.phases.draw();
  const whole = kind in KINDS ? await request(`${KINDS[kind].path}/${id}`, { signal }) : job;
  Object.assign(parts.health, { job, whole });
  parts.health.update();
  show(parts.state, summary(job));
  const origins = jobLineage(whole);
  parts.lineage.hidden = origins === null;
  show(parts.lineage, ...(origins ? [h("h2", {}, "Lineage"), origins] : []));
  parts.audit.update(whole);
  parts.details.update(whole);
  parts.next.update(job, whole);
  show(parts.links, linksOf(job, whole));
  const path = `/v1/jobs/${id}/artifacts`;
  const artifacts = await request(withQuery(path, { limit: FILES_SHOWN }), { signal });
  show(parts.files, table("Files in the job's folder", FILES(id), artifacts.data, "No files yet."));
  await parts.log.update(await sizeOf(LOG, path, artifacts, signal), signal);
  await parts.lanes.update(await sizeOf(UTILIZATION, path, artifacts, signal), signal);
  return job;
}

/** The size of a file, which may be beyond the first page of files; 0 if there is none. */
async function sizeOf(name, path, shown, signal) {
  const isWanted = (file) => file.id === name;
  if (!shown.has_more || shown.data.some(isWanted)) return shown.data.find(isWanted)?.bytes ?? 0;
  const rest = await request(withQuery(path, { after: name.slice(0, -1), limit: 1 }), { signal });
  return rest.data.find(isWanted)?.bytes ?? 0;
}

/** Load the attempts, which change only with the status. */
async function showAttempts(parts, job, signal) {
  const known = `${job.attempt} ${job.status}`;
  if (parts.attempts.dataset.known === known) return;
  const { data } = await request(`/v1/jobs/${job.id}/attempts?limit=100`, { signal });
  show(parts.attempts, table("Latest first", ATTEMPTS, data, "No worker has claimed the job yet."));
  parts.phases.attempts = data;
  parts.attempts.dataset.known = known;
}

/** What stays in view: status, progress, main number and why it waits. */
function summary(job) {
  return facts({
    Status: liveStatus(job),
    Result: mainNumber(job),
    Progress: progress(job),
    Download: downloadOf(job),
    Requested: requested(job),
    "Why it waits": waiting(job),
    Duration: duration(took(job)),
  });
}

function properties(job) {
  return facts({
    Kind: job.kind.replaceAll("_", " "),
    Model: job.model && h("bdi", {}, job.model),
    Method: job.method && h("bdi", {}, job.method.replaceAll("_", " ")),
    Data: inline(job.data, ", ", (name) => h("bdi", {}, name)),
    Priority: job.priority || null,
    Attempt: job.attempt || null,
    Created: time(job.created_at),
    Deadline: time(job.deadline_at),
    Metadata: job.metadata ? json(job.metadata) : null,
  });
}

/** What a running job was asked for and has not done yet. */
function requested(job) {
  if (isFinal(job)) return null;
  if (job.cancel_requested_at !== null) return "to be cancelled, once its processes have ended";
  return job.pause_requested_at !== null && job.status === "running" ? "to be paused, once a checkpoint is saved" : null;
}

function failure(job) {
  if (!job.error) return null;
  const rows = job.error.rows.map(({ row, message }) => h("li", {}, `row ${row}: `, h("bdi", {}, message)));
  return h("div", { class: "error-box" }, h("p", {}, h("strong", {}, job.error.code), " ", h("bdi", {}, job.error.message)),
    job.error.hint ? h("p", {}, job.error.hint) : null, rows.length ? h("ul", {}, rows) : null);
}

/** Links to the other views of a job of this kind. */
function linksOf(job, whole) {
  if (job.kind === "evaluation") {
    return h("p", { class: "row" }, h("a", { class: "button", href: `/ui/jobs/${job.id}/results` }, "Answers"),
      whole.tools?.length ? h("a", { class: "button", href: `/ui/jobs/${job.id}/trajectories` }, "Conversations") : null);
  }
  if (job.kind === "campaign") return h("p", {}, h("a", { class: "button", href: `/ui/campaigns/${job.id}` }, "Attempts"));
  const has = job.kind === "rollout" || ["reinforcement", "ppo", "distillation"].includes(whole.method?.type);
  return has ? h("p", {}, h("a", { class: "button", href: `/ui/jobs/${job.id}/trajectories` }, "Trajectories")) : null;
}

const ATTEMPTS = {
  Attempt: (one) => number(one.attempt),
  Worker: (one) => h("bdi", {}, one.worker),
  Devices: (one) => h("span", { class: "long" }, one.devices.join(", ")),
  Lease: (one) => `epoch ${one.id}`,
  Started: (one) => time(one.started_at),
  Ended: (one) => time(one.ended_at),
  Outcome: (one) => one.became?.replaceAll("_", " ") ?? "running",
  Reason: (one) => excerpt(one.reason),
};

const FILES = (id) => ({
  File: (file) => h("a", { href: `/v1/jobs/${id}/artifacts/${file.id.split("/").map(encodeURIComponent).join("/")}`, download: true }, file.id),
  Bytes: (file) => number(file.bytes),
  Written: (file) => time(file.created_at),
});
