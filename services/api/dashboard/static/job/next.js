// What one can do with the result of a job that has succeeded: chat, compare, evaluate, go on.

import { request, withQuery } from "../core/api.js";
import { field, h } from "../core/dom.js";
import { bytes, oneDirection } from "../core/format.js";

const FILES = 100;
const PURPOSES = ["evals", "fine-tune"]; // in this order

/** The section for a job; `update` it with the job, and with what its kind's own route returned. */
export class NextSteps {
  constructor(signal, go) {
    this.signal = signal;
    this.go = go;
    this.element = h("section", { "aria-label": "Next steps", class: "next", hidden: true });
    this.known = null;
  }

  update(job, whole) {
    const model = whole.fine_tuned_model ?? whole.merged_model ?? null;
    const known = `${job.status} ${model}`;
    if (known === this.known) return;
    this.known = known;
    const has = job.status === "succeeded" && typeof model === "string";
    this.element.hidden = !has;
    this.element.replaceChildren(...(has ? this.steps(model, whole.model) : []));
  }

  steps(model, base) {
    const chat = withQuery("/ui/chat", { model, other: base });
    return [
      h("p", {}, "Made ", h("a", { href: withQuery("/ui/model", { id: model }) }, h("bdi", {}, model)), "."),
      h("ul", { class: "row" },
        h("li", {}, h("a", { class: "button primary", href: chat }, "Chat with it beside its base")),
        h("li", {}, h("a", { class: "button", href: withQuery("/ui/start/fine-tune", { model }) }, "Train it further")),
        h("li", {}, h("a", { class: "button", href: withQuery("/ui/model", { id: model }) }, "Serve, export or delete it"))),
      evaluateForm(model, base, this.signal, this.go),
    ];
  }
}

/**
 * A form that evaluates a model and its base on the same file; it goes to their comparison. Answers of
 * an earlier equal evaluation are taken over by the gateway.
 */
export function evaluateForm(model, base, signal, go) {
  const file = h("select", { required: true });
  const problem = h("p", { class: "error", role: "alert" });
  const hint = h("span", { class: "quiet" });
  const submit = h("button", { type: "submit", disabled: true }, "Evaluate and compare with its base");

  const load = async () => {
    const found = await Promise.all(PURPOSES.map((purpose) => request(withQuery("/v1/files", { purpose, limit: FILES }), { signal })));
    const files = found.flatMap((page) => page.data);
    file.replaceChildren(...files.map((each) => h("option", { value: each.id }, oneDirection(`${each.filename}, ${bytes(each.bytes)}, ${each.purpose}`))));
    submit.disabled = !files.length;
    hint.replaceChildren(...(files.length ? [] : ["No data to evaluate on: ", h("a", { href: "/ui/data" }, "upload rows with prompt and gold"), "."]));
  };
  load().catch((error) => { if (!signal.aborted) problem.textContent = error.message; });

  async function start(event) {
    event.preventDefault();
    submit.disabled = true;
    problem.textContent = "";
    try {
      const evaluate = (name) => request("/v1/evaluations", { method: "POST", body: { model: name, file: file.value }, signal });
      const baseline = await evaluate(base);
      const candidate = await evaluate(model);
      go(withQuery("/ui/evaluations", { compare: `${baseline.id},${candidate.id}` }));
    } catch (error) {
      if (signal.aborted) return;
      problem.textContent = error.message;
      submit.disabled = false;
    }
  }
  return h("form", { class: "row", onsubmit: start }, field("Rows with prompt and gold", file), submit, hint, problem);
}
