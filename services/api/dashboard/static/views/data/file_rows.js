// Paged rows of a file, as uploaded or as tokenized for training.

import { latestOf, request, withQuery } from "../../core/api.js";
import { field, h, sameBy, select, whole } from "../../core/dom.js";
import { json, number, shellQuoted } from "../../core/format.js";
import { rowSettings } from "../../forms/row_settings.js";
import { exampleFigure, tokensLegend } from "../../trajectory/tokens.js";
import { METHODS } from "./file_check.js";

const PAGE = 10;
const MODELS = 100;
const SHOWS = { raw: "as uploaded", training: "as tokenized for training" };

/**
 * The section, with `load`, which shows the page in `state`, and `jump`, which goes to a row. `state`
 * has the URL parameters `show`, `after`, `model`, `method` and `settings` (hyperparameters as JSON).
 */
export function rowsSection(file, state, keep, signal) {
  const problem = h("p", { class: "error", role: "alert" });
  const list = h("div", { "aria-live": "polite", "aria-busy": "false" });
  const same = h("div");
  const known = h("datalist", { id: "known-models" });
  const model = h("input", { type: "text", list: "known-models", value: state.model ?? "", autocomplete: "off", required: true });
  const method = select(METHODS, state.method ?? "supervised", () => setForm(read([])));
  const settings = h("div");
  const training = h("form", { class: "ask", onsubmit: apply },
    h("div", { class: "row" }, field("Model", model), field("Method", method), h("button", { type: "submit" }, "Show")),
    h("details", { open: Boolean(state.settings) }, h("summary", {}, "Hyperparameters that affect tokenization"), settings));
  const from = h("input", { type: "number", min: "1", value: "1" });
  const next = h("button", { type: "button", onclick: () => go(last) }, "Next rows");
  const first = h("button", { type: "button", onclick: () => go("") }, "First rows");
  let last = "";
  let preparing = null;
  let context = null;
  let form = null;

  /** The hyperparameters in the form; undefined if none are set. */
  function read(problems) {
    const found = form.read(problems);
    return Object.keys(found).length ? found : undefined;
  }

  function setForm(value) {
    form = rowSettings(context, method.value, value);
    settings.replaceChildren(form.element);
  }

  /** Build the form from the URL on first use. */
  function prepare() {
    preparing ??= makeForm().catch((error) => {
      preparing = null;
      throw error;
    });
    return preparing;
  }

  async function makeForm() {
    const description = await request("/ui/openapi.json", { signal });
    context = { description, changed: () => {}, lists: {} };
    try {
      setForm(parsed(state.settings));
    } catch {
      setForm({}); // invalid JSON in the URL is reported with the rows
    }
  }

  function go(after) {
    keep({ after });
    return load();
  }

  function jump(row) {
    from.value = row;
    element.scrollIntoView();
    return go(row > 1 ? String(row - 1) : "");
  }

  function choose(show) {
    keep({ show });
    return load();
  }

  function apply(event) {
    event.preventDefault();
    const problems = [];
    const found = read(problems);
    if (problems.length) {
      problem.textContent = problems.join("\n");
      return undefined;
    }
    keep({ model: model.value, method: method.value, settings: found ? json(found) : "" });
    return load();
  }

  const load = latestOf(async (latest) => {
    const asTraining = state.show === "training";
    training.hidden = !asTraining || form === null;
    problem.textContent = "";
    if (asTraining) await prepare();
    latest.throwIfAborted();
    training.hidden = !asTraining;
    if (asTraining && !state.model) {
      replaceList(h("p", { class: "quiet" }, "Choose the model to train."));
      return;
    }
    list.setAttribute("aria-busy", "true");
    draw(await (asTraining ? examples(latest) : raw(latest)), asTraining);
  }, (error) => {
    problem.textContent = error.message;
    replaceList();
  }, signal);

  function replaceList(...items) {
    list.replaceChildren(...items);
    list.setAttribute("aria-busy", "false");
  }

  function raw(latest) {
    const path = withQuery(`/v1/files/${file.id}/rows`, { after: state.after, limit: PAGE });
    same.replaceChildren(sameBy(path, `temper files rows ${file.id} -n ${PAGE}${state.after ? ` --after ${state.after}` : ""}`));
    return request(path, { signal: latest, isExact: true });
  }

  function examples(latest) {
    const type = state.method ?? "supervised";
    const given = state.settings ? { [type]: { hyperparameters: parsed(state.settings) } } : {};
    const asked = [`--model ${shellQuoted(state.model)}`, `--method ${shellQuoted(type)}`, `-n ${PAGE}`, ...(state.after ? [`--after ${shellQuoted(state.after)}`] : [])];
    if (state.settings) asked.push(`--hyperparameters ${shellQuoted(state.settings)}`);
    const body = { model: state.model, method: { type, ...given }, limit: PAGE, ...(state.after ? { after: state.after } : {}) };
    const path = `/v1/files/${file.id}/examples`;
    same.replaceChildren(sameBy(path, `temper files examples ${file.id} ${asked.join(" ")}`, json(body, 2)));
    return request(path, { method: "POST", body, signal: latest });
  }

  function draw(page, asTraining) {
    last = page.last_id ?? "";
    next.disabled = !page.has_more;
    first.disabled = !state.after;
    if (page.data.length) from.value = page.data[0].row;
    const empty = page.problem ? null : h("p", { class: "quiet" }, state.after ? "No more rows." : "The file has no rows.");
    replaceList(
      ...(asTraining && page.data.length ? [tokensLegend()] : []),
      ...page.data.map((row) => article(row, asTraining)),
      ...(page.problem ? [h("p", { class: "error" }, h("bdi", {}, page.problem))] : []),
      ...(page.data.length || !empty ? [] : [empty]),
    );
  }

  suggestModels(known, signal);
  const element = h("section", {}, h("h2", {}, "Rows"), known,
    h("div", { class: "row" }, field("Show rows", select(SHOWS, state.show ?? "raw", choose)), first,
      h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); jump(Number(from.value)); } },
        field("From row", from), h("button", { type: "submit" }, "Go"))),
    training, problem, list, h("div", { class: "row" }, next), same);
  return { element, load, jump };
}

function article(row, asTraining) {
  const title = h("h3", {}, `Row ${number(row.row)}`);
  if (row.problem !== null) return h("article", {}, title, h("p", { class: "error" }, h("bdi", {}, row.problem)));
  if (!asTraining) return h("article", {}, title, whole(json(row.value, 2)));
  const label = row.label === null ? null : h("p", {}, row.label ? "desirable" : "undesirable");
  const missing = row.missing.map((part) => h("p", { class: "error" }, "Not in the trained text: ", h("bdi", {}, part)));
  const warnings = row.warnings.map((text) => h("p", { class: "quiet" }, h("bdi", {}, text)));
  return h("article", {}, title, label, missing, warnings, row.examples.map(exampleFigure));
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("The hyperparameters are not valid JSON.");
  }
}

/** Suggest model names; others can be typed. */
function suggestModels(known, signal) {
  request(`/v1/models?limit=${MODELS}`, { signal })
    .then((page) => known.append(...page.data.map((each) => h("option", { value: each.id }))))
    .catch(() => {}); // suggestions are optional
}
