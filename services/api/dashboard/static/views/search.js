// Jobs, models, files and notes that contain a text.

import { request, withQuery } from "../core/api.js";
import { h, table, when } from "../core/dom.js";
import { bytes, words } from "../core/format.js";
import { copyable, jobName } from "../job/name.js";
import { jobLink } from "../job/named.js";
import { waiting } from "../job/waiting.js";
import { trajectoryName } from "../trajectory/sample_name.js";
import { status } from "./jobs/jobs.js";

const SHOWN = 50;

export async function searchView({ place, signal, query }) {
  const text = (query.get("text") ?? "").trim().slice(0, 200);
  place.append(h("h1", {}, "Search: ", h("bdi", {}, text)));
  if (!text) return;
  const found = (path) => request(withQuery(path, { text, limit: SHOWN }), { signal });
  const lists = await Promise.all(LISTS.map(([, path]) => found(path)));
  for (const [index, [title, , columns]] of LISTS.entries()) {
    const { data, has_more: more } = lists[index];
    const caption = more ? `The newest ${SHOWN} of those found` : `${data.length} found`;
    place.append(h("h2", {}, title), table(caption, columns, data, `No ${title.toLowerCase()}.`));
  }
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

const NOTE_COLUMNS = {
  Note: (one) => h("span", { class: "long" }, h("bdi", {}, one.text)),
  About: (one) => [jobLink(one.job_id), one.trajectory_id && [", ", h("a", { href: `/ui/jobs/${one.job_id}/trajectories/${encodeURIComponent(one.trajectory_id)}` }, trajectoryName(one.trajectory_id))]],
  Written: (one) => when(one.created_at),
};

const LISTS = [
  ["Jobs", "/v1/jobs", JOB_COLUMNS],
  ["Models", "/v1/models", MODEL_COLUMNS],
  ["Data", "/v1/files", FILE_COLUMNS],
  ["Notes", "/v1/notes", NOTE_COLUMNS],
];
