// Jobs, models and files that contain a text.

import { request, withQuery } from "../core/api.js";
import { h, table, when } from "../core/dom.js";
import { bytes, words } from "../core/format.js";
import { copyable, jobName } from "../job/name.js";
import { waiting } from "../job/waiting.js";
import { status } from "./jobs/jobs.js";

const JOBS = 50;
const MODELS = 1000;
const FILES = 100;
const SHOWN = 50;

export async function searchView({ place, signal, query }) {
  const text = query.get("text") ?? "";
  const wanted = text.toLowerCase();
  const isFound = (...values) => values.some((value) => value?.toLowerCase().includes(wanted));
  place.append(h("h1", {}, "Search: ", h("bdi", {}, text)));
  if (!wanted) return;
  const [jobs, models, files] = await Promise.all([
    request(withQuery("/v1/jobs", { text, limit: JOBS }), { signal }),
    request(withQuery("/v1/models", { limit: MODELS }), { signal }),
    request(withQuery("/v1/files", { limit: FILES }), { signal }),
  ]);
  const foundModels = models.data.filter((one) => isFound(one.id, one.hub_id, one.folder)).slice(0, SHOWN);
  const foundFiles = files.data.filter((one) => isFound(one.id, one.filename)).slice(0, SHOWN);
  place.append(
    h("h2", {}, "Jobs"), table(jobs.has_more ? `The newest ${JOBS} of them` : `${jobs.data.length} jobs`, JOB_COLUMNS, jobs.data, "No jobs."),
    h("h2", {}, "Models"), table(`${foundModels.length} of the newest ${models.data.length} models`, MODEL_COLUMNS, foundModels, "No models."),
    h("h2", {}, "Data"), table(`${foundFiles.length} of the newest ${files.data.length} files`, FILE_COLUMNS, foundFiles, "No data."),
  );
}

const JOB_COLUMNS = { Job: jobName, Kind: (job) => words(job.kind), Status: (job) => [status(job), waiting(job) && h("span", { class: "long quiet" }, waiting(job))], Created: (job) => when(job.created_at) };

const MODEL_COLUMNS = {
  Model: (one) => h("a", { href: withQuery("/ui/model", { id: one.id }) }, h("bdi", {}, one.id)),
  Kind: (one) => one.kind,
  Created: (one) => when(one.created),
};

const FILE_COLUMNS = {
  File: (one) => h("span", { class: "named" }, h("a", { href: `/ui/data/${one.id}`, class: "name" }, h("bdi", {}, one.filename)), copyable(one.id)),
  Purpose: (one) => one.purpose,
  Size: (one) => bytes(one.bytes),
  Uploaded: (one) => when(one.created_at),
};
