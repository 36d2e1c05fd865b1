// Clone a job: edit its request and resubmit it.

import { request } from "../../core/api.js";
import { field, h, sameBy, show, table } from "../../core/dom.js";
import { json } from "../../core/format.js";
import { parseExactly } from "../../core/exact_json.js";
import { differences } from "../../forms/request_difference.js";
import { headingOf } from "../../job/name.js";

export async function cloneView({ place, signal, go }, id) {
  const [made, job] = await Promise.all([request(`/v1/jobs/${id}/request`, { signal, isExact: true }), request(`/v1/jobs/${id}`, { signal })]);
  const original = made.body; // with its nulls: where the default is another value, null is a choice
  const problem = h("p", { class: "error", role: "alert" });
  const changes = h("div", { "aria-live": "polite" });
  const text = h("textarea", { rows: 24, spellcheck: "false", oninput: compare });
  const submit = h("button", { type: "submit" }, "Submit");
  text.value = json(original, 2);

  /** The current request; null while it is not valid JSON. */
  function compare() {
    let body = null;
    try {
      body = parseExactly(text.value);
      problem.textContent = "";
    } catch (error) {
      problem.textContent = error.message;
    }
    submit.disabled = body === null;
    if (body !== null) show(changes, table("Changes", COLUMNS, differences(original, body), "No changes yet."));
    return body;
  }

  async function post(event) {
    event.preventDefault();
    const body = compare();
    if (body === null) return;
    submit.disabled = true;
    try {
      const job = await request(made.path, { method: "POST", body, signal });
      go(`/ui/jobs/${job.id}`);
    } catch (error) {
      problem.textContent = error.message;
      submit.disabled = false;
    }
  }

  place.append(...headingOf("Clone of", job));
  if (made.path === null) {
    place.append(h("p", {}, "Jobs of this kind cannot be cloned: the gateway creates them to serve a model."));
    return;
  }
  place.append(
    h("form", { class: "ask", onsubmit: post }, field(`Body of POST ${made.path}`, text), problem,
      h("div", { class: "row" }, submit)),
    changes,
    sameBy(`/v1/jobs/${id}/request`),
  );
  compare();
}

const COLUMNS = {
  Field: ({ name }) => name,
  Original: ({ was }) => h("span", { class: "long" }, shown(was)),
  New: ({ is }) => h("span", { class: "long" }, shown(is)),
};

function shown(value) {
  return value === undefined ? "" : json(value);
}
