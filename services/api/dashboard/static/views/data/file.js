// One file: its properties, jobs, rows and check.

import { request, withQuery } from "../../core/api.js";
import { facts, h, sameBy, table, when } from "../../core/dom.js";
import { kindOf } from "../../forms/data_kind.js";
import { bytes, time } from "../../core/format.js";
import { checkSection } from "./file_check.js";
import { rowsSection } from "./file_rows.js";
import { useLinks } from "./data.js";
import { copyable, jobName } from "../../job/name.js";
import { waiting } from "../../job/waiting.js";
import { status } from "../jobs/jobs.js";

const JOBS = 50;
const FIRST_ROWS = 20;

export async function fileView({ place, signal, query, setQuery }, id) {
  const file = await request(`/v1/files/${id}`, { signal });
  const state = Object.fromEntries(query);
  const problem = h("p", { class: "error", role: "alert" });
  const jobs = h("div");

  /** Keep the sections' state in the URL. */
  function keep(changes) {
    Object.assign(state, changes);
    setQuery(state);
  }

  const kind = await kindOfFile(id, signal);
  const rows = rowsSection(file, state, keep, signal);
  place.append(
    h("h1", {}, h("bdi", {}, file.filename)),
    copyable(id),
    facts({
      Purpose: file.purpose,
      Size: bytes(file.bytes),
      Uploaded: time(file.created_at),
      Expires: time(file.expires_at),
      SHA256: file.sha256,
      Content: kind && h("span", {}, kind.text),
      Use: kind ? useLinks({ ...file, uses: kind.uses }) : useLinks(file),
      File: h("a", { href: `/v1/files/${id}/content`, download: true }, "download"),
    }),
    problem,
    ...(file.purpose === "fine-tune" ? [checkSection(file, kind, state, keep, rows.jump, signal)] : []),
    rows.element,
    h("section", {}, h("h2", {}, "Jobs"), jobs),
    sameBy(`/v1/files/${id}`, `temper files show ${id}`),
  );
  const found = await request(withQuery("/v1/jobs", { file: id, limit: JOBS }), { signal });
  const caption = found.has_more ? `Latest ${JOBS} jobs that use this file` : "Jobs that use this file";
  jobs.append(table(caption, COLUMNS, found.data, "No jobs use this file."));
  await rows.load();
}

/** What the first rows of a file are; null if that is unknown. */
async function kindOfFile(id, signal) {
  try {
    const { data } = await request(withQuery(`/v1/files/${id}/rows`, { limit: FIRST_ROWS }), { signal });
    return kindOf(data.map((row) => row.value));
  } catch (error) {
    if (signal.aborted) throw error;
    return null; // the rows below tell why they cannot be read
  }
}

const COLUMNS = {
  Job: jobName,
  Kind: (job) => job.kind.replaceAll("_", " "),
  Status: (job) => [status(job), waiting(job) && h("span", { class: "long quiet" }, waiting(job))],
  Created: (job) => when(job.created_at),
};
