// Start a sweep: the grid of one job with some fields varied.

import { randomKey, request, withQuery } from "../../core/api.js";
import { field, h } from "../../core/dom.js";
import { json, number } from "../../core/format.js";
import { combinations, described, leavesOf, MOST_JOBS, valueAt, valuesOf, withValues } from "../../forms/grid.js";
import { headingOf } from "../../job/name.js";

const NAME = "sweep"; // the key of the metadata that holds the jobs together
const MOST_CHARACTERS = 200;

/** The address of the jobs of a sweep. */
export function sweepAddress(name) {
  return withQuery("/ui/group", { metadata: `${NAME}=${name}` });
}

export async function sweepView({ place, signal, go }, id) {
  const [made, job] = await Promise.all([request(`/v1/jobs/${id}/request`, { signal, isExact: true }), request(`/v1/jobs/${id}`, { signal })]);
  place.append(...headingOf("Sweep from", job));
  if (made.path === null) {
    place.append(h("p", {}, "Jobs of this kind cannot be repeated: the gateway creates them to serve a model."));
    return;
  }
  const original = made.body; // with its nulls: where the default is another value, null is a choice
  const rows = h("div");
  const count = h("p", { role: "status" });
  const problem = h("p", { class: "error", role: "alert" });
  const name = h("input", { value: `${id.slice(-6)}-${randomKey().slice(0, 4)}`, maxlength: "100", required: true, autocomplete: "off" });
  const submit = h("button", { type: "submit", class: "primary" }, "Start");
  const known = h("datalist", { id: "fields" }, leavesOf(original).map((each) => h("option", { value: each }, shownNow(valueAt(original, each)))));

  const addRow = () => {
    const control = h("input", { list: "fields", size: 50, autocomplete: "off", spellcheck: "false", oninput: tell });
    const values = h("input", { size: 30, placeholder: "0.0001, 0.0003, 0.001", autocomplete: "off", spellcheck: "false", oninput: tell });
    rows.append(h("div", { class: "row" }, field("Field to vary", control), field("Values, separated by commas", values)));
  };

  function grid() {
    const varied = [...rows.children].map((row) => [...row.querySelectorAll("input")].map((each) => each.value));
    return combinations(varied.filter(([path, values]) => path.trim() && values.trim()).map(([path, values]) => ({ name: path.trim(), values: valuesOf(values) })));
  }

  function tell() {
    const jobs = grid().length;
    count.textContent = jobs > MOST_JOBS ? `${number(jobs)} jobs are more than ${MOST_JOBS}.` : `${number(jobs)} ${jobs === 1 ? "job" : "jobs"}`;
    submit.disabled = jobs < 2 || jobs > MOST_JOBS;
  }

  async function start(event) {
    event.preventDefault();
    submit.disabled = true;
    problem.textContent = "";
    let done = 0;
    const wanted = grid();
    try {
      for (const combination of wanted) {
        const body = withValues(original, combination);
        delete body.name;
        body.metadata = { ...body.metadata, [NAME]: name.value.trim(), name: `${name.value.trim()} ${described(combination)}`.slice(0, MOST_CHARACTERS) };
        await request(made.path, { method: "POST", body, signal });
        done += 1;
      }
      go(sweepAddress(name.value.trim()));
    } catch (error) {
      if (signal.aborted) return;
      problem.replaceChildren(`${error.message}. `, `${number(done)} of ${number(wanted.length)} jobs were started: `, h("a", { href: sweepAddress(name.value.trim()) }, "the sweep"));
      tell();
    }
  }

  addRow();
  tell();
  place.append(h("p", { class: "quiet" }, "Every combination of the values becomes a job; the rest of the request stays as it is."), known,
    h("form", { onsubmit: start }, field("Name of the sweep", name), rows,
      h("div", { class: "row" }, h("button", { type: "button", onclick: addRow }, "Vary another field"), submit), count, problem));
}

/** The value that a field has now, as a hint. */
function shownNow(value) {
  return value === null ? "not set" : json(value);
}
