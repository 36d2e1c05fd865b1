// One model: where it comes from, its checkpoints and evaluations, and what one can do with it.

import { request, withQuery } from "../core/api.js";
import { facts, h, sameBy, show, table, when } from "../core/dom.js";
import { counted, json, number, time } from "../core/format.js";
import { copyButton, jobName } from "../job/name.js";
import { jobLink } from "../job/named.js";
import { followDownload } from "../job/download.js";
import { evaluateForm } from "../job/next.js";
import { mainNumber } from "../job/main_number.js";
import { waiting } from "../job/waiting.js";
import { status } from "./jobs/jobs.js";

const JOBS = 50;
const CHECKPOINTS = 100;

export async function modelView({ place, signal, query, go }) {
  const id = query.get("id") ?? "";
  const path = `/v1/models/${encodeURIComponent(id)}`;
  const model = await request(path, { signal });
  const parent = model.lineage?.parent ?? model.base;
  const jobs = h("div");
  const checkpoints = h("div");
  place.append(
    h("div", { class: "row" }, h("h1", {}, h("bdi", {}, id)), copyButton(id)),
    facts({
      Kind: model.kind,
      Source: model.hub_id ? `hub: ${model.hub_id}` : model.folder && h("bdi", {}, `folder ${model.folder}`),
      "Made by": model.lineage && jobLink(model.lineage.job_id),
      Parent: parent && h("a", { href: withQuery("/ui/model", { id: parent }) }, h("bdi", {}, parent)),
      Added: time(model.created),
    }),
    model.kind === "gguf" ? conversion(path, signal, go) : h("p", { class: "row" },
      h("a", { class: "button primary", href: withQuery("/ui/chat", { model: id, other: parent }) }, parent ? "Chat with it beside its parent" : "Chat"),
      h("a", { class: "button", href: withQuery("/ui/start/fine-tune", { model: id }) }, "Train it"),
      h("a", { class: "button", href: withQuery("/ui/start/evaluation", { model: id }) }, "Evaluate"),
      h("a", { class: "button", href: withQuery("/ui/lineage", { model: id }) }, "Lineage")),
    ...(model.hub_id ? [hubSection(path, signal)] : []),
    ...(parent ? [evaluateForm(id, parent, signal, go)] : []),
    actions(path, id, signal, go),
    h("section", {}, h("h2", {}, "Evaluations and other jobs with this model"), jobs),
    ...(model.lineage && !model.lineage.merged ? [h("section", {}, h("h2", {}, "Checkpoints of its training"), checkpoints)] : []),
    sameBy(path, `temper models show ${json(id)}\ntemper ps --model ${json(id)}`),
  );
  const found = await request(withQuery("/v1/jobs", { model: id, limit: JOBS }), { signal });
  show(jobs, table(found.has_more ? `The latest ${JOBS} jobs` : counted(found.data.length, "job", "jobs"), JOB_COLUMNS, found.data, "No jobs yet."));
  if (!model.lineage || model.lineage.merged) return;
  const saved = await request(`/v1/fine_tuning/jobs/${model.lineage.job_id}/checkpoints?limit=${CHECKPOINTS}`, { signal }).catch(() => ({ data: [] }));
  show(checkpoints, table(`${counted(saved.data.length, "checkpoint", "checkpoints", saved.has_more)}, newest first`, CHECKPOINT_COLUMNS, saved.data, "None is kept."));
}

const JOB_COLUMNS = { Job: jobName, Kind: (job) => job.kind.replaceAll("_", " "), Status: (job) => [status(job), waiting(job) && h("span", { class: "long quiet" }, waiting(job))], Result: mainNumber, Created: (job) => when(job.created_at) };

const CHECKPOINT_COLUMNS = {
  Step: (one) => number(one.step_number),
  Metrics: (one) => h("span", { class: "long" }, Object.entries(one.metrics).map(([name, value]) => `${name} ${number(value)}`).join(", ")),
  Saved: (one) => time(one.created_at),
  Chat: (one) => h("a", { href: withQuery("/ui/chat", { model: one.fine_tuned_model_checkpoint }), "aria-label": `chat with step ${one.step_number}` }, "chat"),
};

/** A GGUF file is neither trained nor served: a job makes a model of it. */
function conversion(path, signal, go) {
  const problem = h("span", { class: "error", role: "alert" });
  const convert = async () => {
    const job = await request(`${path}/merge`, { method: "POST", body: { suffix: "converted" }, signal }).catch((error) => { problem.textContent = error.message; });
    if (job) go(`/ui/jobs/${job.id}`);
  };
  return h("p", { class: "row" }, h("button", { type: "button", class: "primary", onclick: convert }, "Convert it into a model"),
    h("span", { class: "quiet" }, "that can be trained and served; the file stays."), problem);
}

/** The download of a hub model, with its bytes. */
function hubSection(path, signal) {
  const progress = h("div");
  const download = async () => {
    const job = await request(`${path}/download`, { method: "POST", body: {}, signal }).catch((error) => show(progress, h("p", { class: "error", role: "alert" }, error.message)));
    if (job) followDownload(progress, job.id, signal, () => show(progress, h("p", {}, "It is on the worker's host.")));
  };
  return h("section", { "aria-label": "Download" }, h("button", { type: "button", onclick: download }, "Download it now"), progress);
}

/** Serving, exporting and deleting a model; each shows its result or its error. */
function actions(path, id, signal, go) {
  const problem = h("p", { class: "error", role: "alert" });
  const sure = h("button", { type: "button", hidden: true, onclick: () => attempt(remove) }, "Delete for good");
  async function attempt(work) {
    problem.textContent = "";
    try {
      await work();
    } catch (error) {
      if (!signal.aborted) problem.textContent = error.message;
    }
  }
  async function remove() {
    await request(path, { method: "DELETE", signal });
    go("/ui/models");
  }
  const serve = async () => {
    const job = await request(`${path}/deploy`, { method: "POST", body: {}, signal });
    go(`/ui/jobs/${job.id}`);
  };
  const destination = h("input", { type: "text", placeholder: "hf://owner/name or /folder", "aria-label": "Destination of the export", spellcheck: "false" });
  const send = async () => {
    const job = await request(`${path}/export`, { method: "POST", body: { destination: destination.value.trim() }, signal });
    go(`/ui/jobs/${job.id}`);
  };
  return h("section", { "aria-label": "Actions" },
    h("div", { class: "row" },
      h("button", { type: "button", onclick: () => attempt(serve) }, "Serve"),
      destination, h("button", { type: "button", onclick: () => attempt(send) }, "Export"),
      h("button", { type: "button", onclick: () => { sure.hidden = !sure.hidden; } }, "Delete…"), sure), problem);
}
