// Notes on a job or one of its trajectories.

import { latestOf, request, withQuery } from "../core/api.js";
import { h, sameBy, whole } from "../core/dom.js";
import { time } from "../core/format.js";
import { trajectoryName } from "../trajectory/sample_name.js";

const MAX_CHARACTERS = 4000;
const PAGE = 100;

/** A section with the notes on a job and its trajectories, or on the trajectory `about`. */
export function notesSection(jobId, about, signal) {
  const path = `/v1/jobs/${jobId}/notes`;
  const list = h("ul", { class: "notes" });
  const problem = h("p", { class: "error", role: "alert" });
  const more = h("button", { type: "button", hidden: true, onclick: () => load(false) }, "Show more notes");
  const text = h("textarea", { rows: "2", maxlength: String(MAX_CHARACTERS), required: true, "aria-label": "New note" });
  let last = null;

  const failed = (error) => { problem.textContent = error.message; };

  async function attempt(work) {
    problem.textContent = "";
    try {
      await work();
    } catch (error) {
      if (!signal.aborted) failed(error);
    }
  }

  const load = latestOf(async (latest, isReload) => {
    problem.textContent = "";
    const page = await request(withQuery(path, { trajectory: about, after: isReload ? null : last, limit: PAGE }), { signal: latest });
    const items = page.data.map(item);
    if (isReload) list.replaceChildren(...items);
    else list.append(...items);
    last = page.last_id;
    more.hidden = !page.has_more;
  }, failed, signal);

  const addNote = (event) => {
    event.preventDefault();
    if (!text.value.trim()) {
      problem.textContent = "A note cannot be empty.";
      return;
    }
    attempt(async () => {
      await request(path, { method: "POST", body: { text: text.value, trajectory_id: about } });
      text.value = "";
      await load(true);
    });
  };

  function item(note) {
    const remove = () => attempt(async () => {
      await request(`${path}/${note.id}`, { method: "DELETE" });
      await load(true);
      text.focus();
    });
    const subject = note.trajectory_id !== null && about === null
      ? ["about ", h("a", { href: `/ui/jobs/${jobId}/trajectories/${encodeURIComponent(note.trajectory_id)}`, title: note.trajectory_id }, trajectoryName(note.trajectory_id)), " "]
      : null;
    return h("li", {},
      h("p", { class: "quiet" }, `${time(note.created_at)} `, subject, h("button", { type: "button", onclick: remove }, "Delete")),
      whole(note.text));
  }

  load(true);
  const command = about === null ? `temper notes ${jobId}` : `temper notes ${jobId} -t ${about}`;
  return h("section", { "aria-label": "Notes" },
    h("h2", {}, "Notes"),
    list, more, problem,
    h("form", { class: "ask row", onsubmit: addNote }, text, h("button", {}, "Add note")),
    sameBy(withQuery(path, { trajectory: about }), command));
}
