// A new job, from a form that is made from the gateway's OpenAPI description.

import { request } from "../api.js";
import { field, h, select } from "../dom.js";
import { json } from "../format.js";
import { bodyOf } from "../schema.js";
import { objectForm, pointOut } from "../schema_form.js";

const SUGGESTED = 100;
const FINE_TUNE = { path: "/v1/fine_tuning/jobs", kind: "fine_tuning", file: "training_file", begin: {} };

/** What can be started; `file` is the field of the data, and `begin` the request to begin with. */
const STARTS = {
  "fine-tune": { ...FINE_TUNE, title: "Start a fine-tune" },
  evaluation: { path: "/v1/evaluations", kind: "evaluation", file: "file", begin: {}, title: "Start an evaluation" },
  rollout: { path: "/v1/rollouts", kind: "rollout", file: "file", begin: {}, title: "Start a rollout" },
  training: { ...FINE_TUNE, begin: { method: { type: "reinforcement", reinforcement: {} } }, title: "Start an online training" },
};

/** Links to the forms. */
export function startLinks() {
  const links = Object.keys(STARTS).map((name) => h("a", { href: `/ui/start/${name}` }, name));
  return h("p", { class: "row" }, h("span", {}, "Start:"), links);
}

export async function startView({ place, signal, query, go }, name) {
  const start = STARTS[name];
  const description = await request("/openapi.json", { signal });
  const { schema, examples } = bodyOf(description, start.path);
  const problem = h("p", { class: "error", role: "alert" });
  const area = h("div");
  const curl = h("pre", { tabindex: "0", role: "region", "aria-label": "The request by curl" });
  const command = h("pre", { tabindex: "0", role: "region", "aria-label": "The request by the command line" });
  const submit = h("button", { type: "submit" }, "Start");
  const context = { description, changed, lists: {} };
  let form = null;
  let begun = start.begin;
  let forgive = () => {}; // takes away what was said at a field

  /** The request as it is now; null while a field holds what is not a value. */
  function changed() {
    forgive();
    forgive = () => {};
    const problems = [];
    const body = form.read(problems);
    problem.textContent = problems.join("\n");
    submit.disabled = problems.length > 0;
    if (problems.length) return null;
    // In JSON a line break is escaped, so that no text of the body can be the line that ends it.
    curl.textContent = `curl ${location.origin}${start.path} --json @- <<'END'\n${json(body, 2)}\nEND`;
    command.textContent = `cat > job.json <<'END'\n${json({ kind: start.kind, ...body }, 2)}\nEND\ntemper submit job.json`;
    return body;
  }

  function fill(value) {
    form = objectForm(context, schema, value);
    area.replaceChildren(form.element);
    changed();
  }

  /** Take the values of an example, but keep the model and the file that were given or typed. */
  function beginWith(summary) {
    const next = examples.find((each) => each.summary === summary)?.value ?? start.begin;
    const isOwn = ([key, value]) => ["model", start.file].includes(key) && JSON.stringify(value) !== JSON.stringify(begun[key]);
    const own = Object.entries(form.read([])).filter(isOwn);
    begun = next;
    fill({ ...next, ...Object.fromEntries(own) });
  }

  async function post(event) {
    event.preventDefault();
    const body = changed();
    if (body === null) return;
    submit.disabled = true;
    try {
      const job = await request(start.path, { method: "POST", body, signal });
      go(`/ui/jobs/${job.id}`);
    } catch (error) {
      if (signal.aborted) return;
      problem.textContent = error.message;
      submit.disabled = false;
      if (error.param) forgive = pointOut(form.element, error.param, error.message);
    }
  }

  const beginnings = { "": "an empty request", ...Object.fromEntries(examples.map(({ summary }) => [summary, summary])) };
  place.append(
    h("h1", {}, start.title),
    suggestions("models", ["model", "tokenizer"], (model) => model.id, context, signal),
    suggestions("files", ["file", "training_file", "validation_file"], (file) => file.id, context, signal),
    field("Begin with", select(beginnings, "", beginWith)),
    h("form", { class: "ask", novalidate: true, oninput: changed, onchange: changed, onsubmit: post }, area, problem, h("div", { class: "row" }, submit)),
    h("h2", {}, "The same request"), curl, command,
  );
  fill({ ...start.begin, ...given(query, start) });
}

/** The model and the file that a link to this view names. */
function given(query, start) {
  const values = [["model", query.get("model")], [start.file, query.get("file")]];
  return Object.fromEntries(values.filter(([, value]) => value));
}

/** Names that fields can be filled with; others can be typed. */
function suggestions(what, names, nameOf, context, signal) {
  const id = `known-${what}`;
  const known = h("datalist", { id });
  for (const name of names) context.lists[name] = id;
  request(`/v1/${what}?limit=${SUGGESTED}`, { signal })
    .then((page) => known.append(...page.data.map((each) => h("option", { value: nameOf(each) }))))
    .catch(() => {}); // the names are only a help
  return known;
}
