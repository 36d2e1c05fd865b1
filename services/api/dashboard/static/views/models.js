// The model registry, and a form that adds to it.

import { latestOf, request, withQuery } from "../core/api.js";
import { h, sameBy, table, when } from "../core/dom.js";
import { counted } from "../core/format.js";
import { jobLink } from "../job/named.js";
import { modelForm } from "../forms/model_form.js";

const PAGE = 100;

export async function modelsView({ place, signal, go }) {
  const list = h("div");
  const models = [];
  const problem = h("p", { class: "error", role: "alert" });
  const more = h("button", { type: "button", hidden: true, onclick: () => load() }, "Show more");

  const load = latestOf(async (latest) => {
    problem.textContent = "";
    const page = await request(withQuery("/v1/models", { after: models.at(-1)?.id, limit: PAGE }), { signal: latest });
    models.push(...page.data);
    more.hidden = !page.has_more;
    list.replaceChildren(table(counted(models.length, "model", "models", page.has_more), COLUMNS, models, "No models yet: add one below."));
  }, (error) => { problem.textContent = error.message; }, signal);

  place.append(h("h1", {}, "Models"), h("p", {}, h("a", { href: "/ui/usage" }, "Usage of served models")), problem, list, more,
    modelForm(signal, (model) => go(withQuery("/ui/model", { id: model.id }))),
    sameBy("/v1/models", "temper models list\ntemper models folders\ntemper models register NAME --folder FOLDER"));
  await load();
}

const COLUMNS = {
  Model: (model) => h("a", { href: withQuery("/ui/model", { id: model.id }) }, h("bdi", {}, model.id)),
  Kind: (model) => model.kind,
  Parent: (model) => model.lineage?.parent ?? model.base,
  "Created by": (model) => (model.lineage ? jobLink(model.lineage.job_id) : "registered"),
  Lineage: (model) => h("a", { href: withQuery("/ui/lineage", { model: model.id }) }, "lineage"),
  Chat: (model) => h("a", { href: withQuery("/ui/chat", { model: model.id }) }, "chat"),
  Created: (model) => when(model.created),
};
