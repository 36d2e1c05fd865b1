// Uploaded files and the upload form.

import { latestOf, request, withQuery } from "../../core/api.js";
import { kindOfUpload } from "../../forms/data_kind.js";
import { field, h, sameBy, select, table, when } from "../../core/dom.js";
import { bytes, counted, time } from "../../core/format.js";
import { copyable } from "../../job/name.js";
import { upload } from "../../forms/upload.js";

const PAGE = 100;
const PURPOSES = {
  "fine-tune": "fine-tune: training data",
  evals: "evals: evaluation data",
  batch: "batch: requests",
  user_data: "user_data: anything else",
};

/** The start forms that take a file of each purpose. */
export const USES = { "fine-tune": ["fine-tune", "training"], evals: ["evaluation", "rollout"], batch: ["batch"] };

export async function dataView({ place, signal, query, setQuery, go }) {
  let purpose = query.get("purpose") ?? "";
  const list = h("div");
  const same = h("div");
  const problem = h("p", { class: "error", role: "alert" });
  const more = h("button", { type: "button", hidden: true, onclick: () => load() }, "Show more");
  let files = [];

  const load = latestOf(async (latest) => {
    const wanted = { purpose };
    const page = await request(withQuery("/v1/files", { ...wanted, after: files.at(-1)?.id, limit: PAGE }), { signal: latest });
    files.push(...page.data);
    more.hidden = !page.has_more;
    problem.textContent = "";
    list.replaceChildren(table(`${counted(files.length, "file", "files", page.has_more)}, newest first`, COLUMNS, files, "No files."));
    same.replaceChildren(sameBy(withQuery("/v1/files", wanted), `temper files list${purpose ? ` --purpose ${purpose}` : ""}`));
  }, (error) => { problem.textContent = error.message; }, signal);

  function choose(value) {
    purpose = value;
    files = [];
    setQuery({ purpose });
    load();
  }

  const purposes = { "": "any", ...Object.fromEntries(Object.keys(PURPOSES).map((name) => [name, name])) };
  place.append(
    h("h1", {}, "Data"),
    uploadForm(signal, go),
    h("h2", {}, "Files"),
    h("div", { class: "row", role: "search" }, field("Purpose", select(purposes, purpose, choose))),
    problem, list, more, same,
  );
  await load();
}

const COLUMNS = {
  File: (file) => h("span", { class: "named" }, h("a", { href: `/ui/data/${file.id}`, class: "name" }, h("bdi", {}, file.filename)), copyable(file.id)),
  Purpose: (file) => file.purpose,
  Size: (file) => bytes(file.bytes),
  Uploaded: (file) => when(file.created_at),
  Expires: (file) => time(file.expires_at),
  Use: (file) => useLinks(file),
};

/** Links to the start forms for a file: those of its `uses`, or else of its purpose. */
export function useLinks(file) {
  const links = (file.uses ?? USES[file.purpose] ?? []).map((name) =>
    h("a", { href: withQuery(`/ui/start/${name}`, { file: file.id }), "aria-label": `start ${name} with ${file.id}` }, name));
  return links.length ? h("span", { class: "row" }, links) : null;
}

/** The upload form; goes to the file's view, which checks training data. */
function uploadForm(signal, go) {
  const problem = h("p", { class: "error", role: "alert" });
  const chosen = h("input", { type: "file", required: true, onchange: () => detect() });
  const purpose = select(PURPOSES, "fine-tune", () => {});
  const detected = h("p", { class: "quiet", role: "status" });
  const bar = h("progress", { max: 1, value: 0, "aria-label": "Upload" });
  const sent = h("span", { class: "quiet", role: "status" });
  const submit = h("button", { type: "submit" }, "Upload");
  const cancel = h("button", { type: "button", onclick: () => sending.abort() }, "Cancel");
  const state = h("div", { class: "row", hidden: true }, bar, sent, cancel);
  let sending = new AbortController();

  function busy(is) {
    submit.disabled = is;
    state.hidden = !is;
  }

  /** Say what the chosen file is for, and set the purpose accordingly. */
  async function detect() {
    const file = chosen.files[0];
    const kind = file ? await kindOfUpload(file).catch(() => null) : null;
    if (file !== chosen.files[0]) return;
    detected.textContent = kind ? `These rows look like ${kind.text}. The purpose was set accordingly; choose another if that is wrong.` : "";
    if (kind) purpose.value = kind.purpose;
  }

  async function send(event) {
    event.preventDefault();
    const file = chosen.files[0];
    sending = new AbortController();
    problem.textContent = "";
    bar.value = 0;
    sent.textContent = "";
    busy(true);
    try {
      const stored = await upload(file, purpose.value, (done) => {
        bar.value = Math.min(1, done / Math.max(1, file.size));
        sent.textContent = `${bytes(Math.min(done, file.size))} of ${bytes(file.size)}`;
      }, AbortSignal.any([signal, sending.signal]));
      go(withQuery(`/ui/data/${stored.id}`, { check: stored.purpose === "fine-tune" ? "new" : "" }));
    } catch (error) {
      if (signal.aborted) return;
      problem.textContent = sending.signal.aborted ? "The upload was cancelled." : `The upload failed: ${error.message}`;
      busy(false);
    }
  }

  return h("form", { onsubmit: send },
    h("div", { class: "row" }, field("File to upload", chosen), field("Purpose of the upload", purpose), submit), detected, state, problem);
}
