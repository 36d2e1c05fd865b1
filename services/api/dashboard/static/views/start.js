// Forms for new jobs, generated from the gateway's OpenAPI description.

import { request, withQuery } from "../core/api.js";
import { field, h, select } from "../core/dom.js";
import { pointOut } from "../forms/field_problems.js";
import { bytes, json, oneDirection, time } from "../core/format.js";
import { KINDS } from "../kinds.js";
import { bodyOf } from "../forms/schema.js";
import { objectForm } from "../forms/schema_form.js";
import { simpleStart } from "../forms/simple_start.js";
import { USES } from "./data/data.js";

const SUGGESTED = 100;
const FORECAST = "/v1/fine_tuning/forecast";
const FINE_TUNE = { kind: "fine_tuning", file: "training_file", begin: {} };

/** The forms; `file` is the name of the data field, and `begin` the initial request. */
const STARTS = {
  "fine-tune": { ...FINE_TUNE, title: "Start a fine-tune" },
  evaluation: { kind: "evaluation", file: "file", begin: {}, title: "Start an evaluation" },
  rollout: { kind: "rollout", file: "file", begin: {}, title: "Start a rollout" },
  batch: { kind: "batch", file: "input_file_id", begin: {}, title: "Start a batch" },
  training: { ...FINE_TUNE, begin: { method: { type: "reinforcement", reinforcement: {} } }, title: "Start online training" },
};

/** Links to the forms. */
export function startLinks() {
  const links = Object.keys(STARTS).map((name) => h("a", { href: `/ui/start/${name}` }, name === "training" ? "online training" : name));
  return h("p", { class: "row" }, h("span", {}, "Start:"), links);
}

export async function startView({ place, signal, query, go }, name) {
  const start = STARTS[name];
  const description = await request("/ui/openapi.json", { signal });
  const { schema, examples } = bodyOf(description, KINDS[start.kind].path);
  const problem = h("p", { class: "error", role: "alert" });
  const area = h("div");
  const curl = h("pre", { tabindex: "0", role: "region", "aria-label": "Request as curl" });
  const command = h("pre", { tabindex: "0", role: "region", "aria-label": "Request as CLI commands" });
  const submit = h("button", { type: "submit", class: "primary" }, "Start");
  const context = { description, changed, lists: {} };
  const simple = name === "fine-tune" ? simpleStart(FORECAST, given(query, start), choose, signal) : null;
  let form = null;
  let begun = start.begin;
  let retractMessages = () => {}; // removes the field messages

  /** The current request; null while a field is invalid. */
  function changed(_, isChosen = false) {
    retractMessages();
    retractMessages = () => {};
    const problems = [];
    const body = form.read(problems);
    problem.textContent = problems.join("\n");
    submit.disabled = problems.length > 0;
    simple?.update(problems.length ? null : body, isChosen);
    if (problems.length) return null;
    // JSON escapes line breaks, so no text in the body can end the here-document.
    curl.textContent = `curl ${location.origin}${KINDS[start.kind].path} --json @- <<'END'\n${json(body, 2)}\nEND`;
    command.textContent = `cat > job.json <<'END'\n${json({ kind: start.kind, ...body }, 2)}\nEND\ntemper submit job.json`;
    return body;
  }

  function choose(change) {
    const body = form.read([]);
    fill({ ...body, ...change(body) }, true);
  }

  function fill(value, isChosen) {
    form = objectForm(context, schema, value);
    area.replaceChildren(form.element);
    changed(null, isChosen);
  }

  /** Load an example, keeping the model and file that the user set. */
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
      const job = await request(KINDS[start.kind].path, { method: "POST", body, signal });
      go(`/ui/jobs/${job.id}`);
    } catch (error) {
      if (signal.aborted) return;
      submit.disabled = false;
      const problems = error.problems ?? [];
      const { retract, unplaced } = pointOut(form.element, problems);
      retractMessages = retract;
      const further = unplaced.filter((each) => each !== problems[0]); // the message has it
      problem.textContent = [error.message, ...further.map(({ param, message }) => `${param}: ${message}`)].join("\n");
    }
  }

  const beginnings = { "": "an empty request", ...Object.fromEntries(examples.map(({ summary }) => [summary, summary])) };
  place.append(
    h("h1", {}, start.title),
    workerNote(KINDS[start.kind].queue, signal),
    suggestions("/v1/models", {}, ["model", "tokenizer"], () => "", context, signal),
    suggestions("/v1/files", { purpose: purposeOf(name) }, ["file", "training_file", "validation_file", "validation_files", "files", "input_file_id"], aboutFile, context, signal),
    ...(simple ? [simple.element] : [field("Start from", select(beginnings, "", beginWith))]),
    h("form", { class: "ask", novalidate: true, oninput: changed, onchange: changed, onsubmit: post },
      ...(simple ? [simple.forecast, h("details", { class: "settings" }, h("summary", {}, "All settings"), field("Start from", select(beginnings, "", beginWith)), area)] : [area]),
      problem, h("div", { class: "row" }, submit)),
    h("h2", {}, "Equivalent commands"), curl, command,
  );
  fill({ ...start.begin, ...given(query, start) }, true);
}

/** Says so where no worker would run the job, before it is started. */
function workerNote(queue, signal) {
  const note = h("p", { class: "warning", role: "status", hidden: true });
  request("/v1/workers", { signal }).then(({ data }) => {
    note.hidden = data.some((worker) => worker.queues.includes(queue));
    note.append(`No ${queue} worker is running, so the job will wait until one is: temper up starts the workers. `, h("a", { href: "/ui/workers" }, "Workers"));
  }).catch(() => {}); // the job itself says why it waits
  return note;
}

/** The model and file from the URL. */
function given(query, start) {
  const values = [["model", query.get("model")], [start.file, query.get("file")]];
  return Object.fromEntries(values.filter(([, value]) => value));
}

/** The file purpose of a form. */
function purposeOf(name) {
  return Object.keys(USES).find((purpose) => USES[purpose].includes(name));
}

/** The label of a suggested file, which browsers show next to its id and match while typing. */
function aboutFile(file) {
  return oneDirection(`${file.filename}, ${bytes(file.bytes)}, ${time(file.created_at)}`);
}

/** A datalist of the ids from a route, for the fields `names`; others can be typed. */
function suggestions(path, query, names, about, context, signal) {
  const id = `known-${names[0]}`;
  const known = h("datalist", { id });
  for (const name of names) context.lists[name] = id;
  request(withQuery(path, { ...query, limit: SUGGESTED }), { signal })
    .then((page) => known.append(...page.data.map((each) => h("option", { value: each.id }, about(each)))))
    .catch(() => {}); // suggestions are optional
  return known;
}
