// The few choices that a fine-tune needs: model and data; the rest has defaults.

import { latestOf, request, withQuery } from "../core/api.js";
import { kindOf } from "./data_kind.js";
import { field, h } from "../core/dom.js";
import { bytes, duration, number, oneDirection, time, words } from "../core/format.js";
import { modelForm } from "./model_form.js";

const LISTED = 100;
const FIRST_ROWS = 20;
const GOLD_REWARD = { name: "answer", reward: { type: "exact" } };

/**
 * The choices, a forecast of the request, and, where there is no model, a form that adds one. `choose`
 * is called with a function from the request to the fields that change.
 */
export function simpleStart(path, chosen, choose, signal) {
  const model = h("select", { onchange: () => choose(() => ({ model: model.value || undefined })) });
  const file = h("select", { onchange: () => chooseFile() });
  const detected = h("p", { class: "quiet", role: "status" });
  const forecast = h("p", { role: "status", class: "forecast" });
  const again = h("button", { type: "button", hidden: true, onclick: () => ask(current) }, "Forecast");
  const missing = h("div");
  let current = null;

  const chooseFile = latestOf(async (latest) => {
    detected.textContent = "";
    if (!file.value) {
      choose(() => ({ training_file: undefined }));
      return;
    }
    const { data } = await request(withQuery(`/v1/files/${file.value}/rows`, { limit: FIRST_ROWS }), { signal: latest });
    const kind = kindOf(data.map((row) => row.value));
    choose(({ method }) => {
      const { change, said } = methodFor(kind, method);
      detected.textContent = kind ? `The rows look like ${kind.text}${said}.` : "";
      return { training_file: file.value, ...change };
    });
  }, (error) => { detected.textContent = error.message; }, signal);

  async function load() {
    const [models, files] = await Promise.all([
      request(`/v1/models?limit=${LISTED}`, { signal }),
      request(`/v1/files?purpose=fine-tune&limit=${LISTED}`, { signal }),
    ]);
    fill(model, models.data.map((one) => [one.id, one.id]), chosen.model);
    fill(file, files.data.map((one) => [one.id, oneDirection(`${one.filename}, ${bytes(one.bytes)}, ${time(one.created_at)}`)]), chosen.training_file);
    missing.replaceChildren(
      ...(models.data.length ? [] : [modelForm(signal, load)]),
      ...(files.data.length ? [] : [h("p", {}, "No training data yet: ", h("a", { href: "/ui/data" }, "upload a file"), ".")]));
  }
  load().catch((error) => { if (!signal.aborted) detected.textContent = error.message; });

  const ask = latestOf(async (latest, body) => {
    again.hidden = true;
    const found = await request(path, { method: "POST", body, signal: latest });
    forecast.textContent = found.problem ? `It cannot start like this: ${found.problem}` : `Forecast: ${partsOf(found).join("; ")}.`;
  }, (error) => { forecast.textContent = `It cannot start like this: ${error.message}`; }, signal);

  return {
    element: h("div", {}, missing, h("div", { class: "fields" }, field("Base model", model), field("Training data", file)), detected),
    forecast: h("div", { class: "row" }, forecast, again),
    /** Take note of the current request, null while it is invalid; `isChosen`: by the choices here. */
    update(body, isChosen) {
      current = body;
      if (body !== null) {
        setChosen(model, body.model);
        setChosen(file, body.training_file);
      }
      forecast.textContent = "";
      const isComplete = Boolean(body?.model && body?.training_file);
      again.hidden = !isComplete;
      if (isComplete && isChosen) ask(body);
    },
  };
}

/** The options of a list, of which one may be chosen that is not among them. */
function fill(control, options, chosen) {
  const kept = control.value || chosen || "";
  const known = options.some(([value]) => value === kept) || !kept ? options : [[kept, kept], ...options];
  control.replaceChildren(h("option", { value: "" }, "choose"), ...known.map(([value, text]) => h("option", { value }, text)));
  control.value = kept;
}

/** Choose a value that may be none of the options. */
function setChosen(control, value) {
  const wanted = typeof value === "string" ? value : "";
  if (control.value === wanted) return;
  if (![...control.options].some((option) => option.value === wanted)) control.append(h("option", { value: wanted }, wanted || "choose"));
  control.value = wanted;
}

/** What changes where the method of the request does not read the rows, and what is said of it. */
function methodFor(kind, method) {
  const type = method?.type ?? "supervised";
  if (!kind?.readers.length || kind.readers.includes(type)) return { change: {}, said: "" };
  const begin = kind.name === "prompts" ? { type: "reinforcement", reinforcement: { rewards: [GOLD_REWARD] } } : { type: kind.method };
  if (begin.type === null) return { change: {}, said: `, which the method ${words(type)} does not read: choose another method` };
  const left = Object.keys(method?.[type] ?? {}).length ? `; the settings of ${words(type)} were left out` : "";
  const change = { method: begin.type === "supervised" ? undefined : begin };
  return { change, said: method ? `; the method was changed from ${words(type)} to ${words(begin.type)}${left}` : "; the method was chosen accordingly" };
}

function partsOf({ method, memory_estimate: memory, seconds, based_on: basis, queued_jobs: queued }) {
  return [
    `method ${method.replaceAll("_", " ")}`,
    memory ? `about ${number(memory.needed_gb)} GB${memory.card_gb ? ` of ${number(memory.card_gb)} GB` : ""} on each GPU` : "memory not estimated (CPU slots, or a model that is not here yet)",
    seconds === null ? "time unknown, as no such training has ended yet" : `about ${duration(seconds)} of training, by ${basis}`,
    queued ? `${number(queued)} fine-tunes wait already` : "nothing waits before it",
  ];
}
