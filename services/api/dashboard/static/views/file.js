// One file: its properties, jobs, rows and check.

import { request, withQuery } from "../api.js";
import { facts, h, sameBy, table } from "../dom.js";
import { bytes, time } from "../format.js";
import { checkSection } from "./file_check.js";
import { rowsSection } from "./file_rows.js";
import { useLinks } from "./data.js";
import { status } from "./jobs.js";

const JOBS = 50;

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

  const rows = rowsSection(file, state, keep, signal);
  place.append(
    h("h1", {}, id),
    facts({
      Name: h("bdi", {}, file.filename),
      Purpose: file.purpose,
      Size: bytes(file.bytes),
      Uploaded: time(file.created_at),
      Expires: time(file.expires_at),
      SHA256: file.sha256,
      Use: useLinks(file),
      Content: h("a", { href: `/v1/files/${id}/content`, download: true }, "download"),
    }),
    problem,
    ...(file.purpose === "fine-tune" ? [checkSection(file, state, keep, rows.jump, signal)] : []),
    rows.element,
    h("section", {}, h("h2", {}, "Jobs"), jobs),
    sameBy(`/v1/files/${id}`, `temper files show ${id}`),
  );
  const found = await request(withQuery("/v1/jobs", { file: id, limit: JOBS }), { signal });
  const caption = found.has_more ? `Latest ${JOBS} jobs that use this file` : "Jobs that use this file";
  jobs.append(table(caption, COLUMNS, found.data, "No jobs use this file."));
  await rows.load();
}

const COLUMNS = {
  Job: (job) => h("a", { href: `/ui/jobs/${job.id}` }, job.id),
  Kind: (job) => job.kind.replaceAll("_", " "),
  Status: (job) => status(job),
  Created: (job) => time(job.created_at),
};
