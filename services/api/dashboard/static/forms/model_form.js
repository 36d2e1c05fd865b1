// A form that registers a model: a folder below the model root, or a repository of a hub.

import { request } from "../core/api.js";
import { field, h, table } from "../core/dom.js";
import { bytes } from "../core/format.js";
import { followDownload } from "../job/download.js";

const KIND_NAMES = { full: "whole model", adapter: "adapter", gguf: "GGUF file: convert it once it is added" };

/** The form; `done` is called with the model that was registered. */
export function modelForm(signal, done) {
  const problem = h("p", { class: "error", role: "alert" });
  const folders = h("div");
  const progress = h("div");
  const hub = h("input", { type: "text", placeholder: "owner/name", autocomplete: "off", spellcheck: "false", required: true, maxlength: "200" });
  const base = h("input", { type: "text", list: "known-models", autocomplete: "off", spellcheck: "false" });

  async function register(body) {
    problem.textContent = "";
    try {
      done(await request("/v1/models", { method: "POST", body, signal }));
    } catch (error) {
      if (!signal.aborted) problem.textContent = error.message;
    }
  }

  function addFolder({ id, kind }) {
    const adapter = kind === "adapter" ? { base: base.value.trim() || null } : {};
    return register({ id: nameOf(id), folder: id, ...adapter });
  }

  async function load() {
    const { data, has_more: hasMore } = await request("/v1/model_folders", { signal });
    const columns = {
      Folder: (one) => h("bdi", {}, one.id),
      Size: (one) => bytes(one.bytes),
      "What it is": (one) => (one.problem ? h("span", { class: "long error" }, one.problem) : KIND_NAMES[one.kind]),
      Add: (one) => actionOf(one),
    };
    folders.replaceChildren(
      table(hasMore ? `First ${data.length} folders below the model root` : "Folders below the model root", columns, data,
        "No folders below the model root: copy one with config.json and *.safetensors there, or enter the name of a hub's model."),
      data.some((one) => one.kind === "adapter" && !one.problem) ? field("Base of an adapter", base) : "");
  }

  function actionOf(one) {
    if (one.models.length) return ["added as ", h("bdi", {}, one.models.join(", "))];
    if (one.problem) return null;
    return h("button", { type: "button", "aria-label": `Add ${one.id}`, onclick: () => addFolder(one) }, "Add");
  }

  /** Register a repository, and download it at once, as far as a worker runs. */
  async function addHub(event) {
    event.preventDefault();
    problem.textContent = "";
    const name = hub.value.trim();
    try {
      const model = await request("/v1/models", { method: "POST", body: { id: name, hub_id: name }, signal });
      const job = await request(`/v1/models/${encodeURIComponent(name)}/download`, { method: "POST", body: {}, signal });
      followDownload(progress, job.id, signal, () => done(model));
    } catch (error) {
      if (!signal.aborted) problem.textContent = error.message;
    }
  }
  load().catch((error) => { if (!signal.aborted) problem.textContent = error.message; });
  return h("section", { "aria-label": "Add a model" }, h("h2", {}, "Add a model"), problem, folders,
    h("form", { class: "row", onsubmit: addHub }, field("Model of a hub", hub), h("button", {}, "Add and download"),
      h("span", { class: "quiet" }, "To the cache of the worker's host; what is complete there is not downloaded again.")), progress);
}

/** The name of a model in a folder: its path, as far as names allow. */
function nameOf(folder) {
  return folder.replaceAll(/[^A-Za-z0-9._/-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "") || "model";
}
