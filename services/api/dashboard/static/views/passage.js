// A passage that a tool call found, whole: what its search finds now in the index, and where that comes from.

import { request, withQuery } from "../api.js";
import { facts, h, sameBy, whole } from "../dom.js";
import { json, number } from "../format.js";

const SEARCHED_JOBS = 100; // that a request may ask for

/** Where a passage of a search is shown. */
export function passageAddress(run, query, passage) {
  return withQuery("/ui/passage", { id: passage.id, index: run.index, topk: run.topk, query });
}

export async function passageView({ place, signal, query }) {
  const id = query.get("id") ?? "";
  const [topk, index] = [Number(query.get("topk") || 1), query.get("index")];
  const body = { query: query.get("query") ?? "", topk, ...(index ? { index } : {}) };
  place.append(h("h1", {}, "Passage"));
  const found = await request("/v1/search", { method: "POST", body, signal });
  const hit = found.results[0].find((each) => String(each.document.id) === id);
  place.append(
    facts({ Id: h("bdi", {}, id), Index: h("bdi", {}, found.index), Query: h("bdi", {}, body.query), "Score now": hit && number(hit.score) }),
    hit ? content(hit.document) : h("p", { class: "error" }, "The search does not find it now: its index was changed since, or the query was too long to be kept whole."),
    h("h2", {}, "Index"),
    await origin(found.index, signal),
    sameBy("/v1/search", "", json(body, 2)),
  );
}

function content({ id: _id, contents: _contents, title, text, ...others }) {
  return h("article", {},
    title ? h("h2", {}, h("bdi", {}, title)) : null,
    whole(text),
    Object.keys(others).length ? [h("h3", {}, "Its other fields"), whole(json(others, 2))] : null);
}

/** The latest of the newest jobs that built an index, and the file with its passages. */
async function origin(index, signal) {
  const page = await request(`/v1/indexing/jobs?limit=${SEARCHED_JOBS}`, { signal });
  const built = page.data.find((job) => job.index === index && job.status === "succeeded");
  if (!built) return h("p", { class: "quiet" }, `None of the newest ${SEARCHED_JOBS} indexing jobs built it.`);
  return facts({
    "Built by": h("a", { href: `/ui/jobs/${built.id}` }, built.id),
    From: h("a", { href: `/ui/data/${built.file}` }, built.file),
  });
}
