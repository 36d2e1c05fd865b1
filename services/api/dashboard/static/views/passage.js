// The full passage of a tool call's search, as the index returns it now, and the index's source.

import { request, withQuery } from "../core/api.js";
import { facts, h, sameBy, show, whole } from "../core/dom.js";
import { isFinal, json, number } from "../core/format.js";
import { jobName } from "../job/name.js";
import { fileLink } from "../job/named.js";
import { waiting } from "../job/waiting.js";
import { progress, status } from "./jobs/jobs.js";

const SEARCHED_JOBS = 100; // the most per request
const ASK_AGAIN_MS = 2000;

/** The URL of a passage's view. */
export function passageAddress(run, query, passage) {
  return withQuery("/ui/passage", { id: passage.id, index: run.index, topk: run.topk, query });
}

export async function passageView({ place, signal, query }) {
  const id = query.get("id") ?? "";
  const [topk, index] = [Number(query.get("topk") || 1), query.get("index")];
  const body = { query: query.get("query") ?? "", topk, ...(index ? { index } : {}) };
  place.append(h("h1", {}, "Passage"));
  const found = await searchWhenBuilt(body, place, signal);
  const hit = found.results[0].find((each) => String(each.document.id) === id);
  place.append(
    facts({ Id: h("bdi", {}, id), Index: h("bdi", {}, found.index), Query: h("bdi", {}, body.query), "Current score": hit && number(hit.score) }),
    hit ? content(hit.document) : h("p", { class: "error" }, "The search no longer returns this passage: the index has changed since, or the recorded query was truncated."),
    h("h2", {}, "Index"),
    await origin(found.index, signal),
    sameBy("/v1/search", "", json(body, 2)),
  );
}

/** Search an index, if need be once it has been built; `place` says meanwhile how far that is. */
async function searchWhenBuilt(body, place, signal) {
  const state = h("p", { role: "status" });
  for (;;) {
    try {
      const found = await request("/v1/search", { method: "POST", body, signal });
      state.remove();
      return found;
    } catch (error) {
      if (error.code !== "index_being_built") throw error;
      if (!state.isConnected) place.append(state);
      const { data } = await request("/v1/indexing/jobs?limit=1", { signal });
      const [job] = data.filter((one) => !isFinal(one));
      show(state, error.message, ": the passage appears here once that is done",
        job ? [" (", h("a", { href: `/ui/jobs/${job.id}` }, "its job"), " ", progress(job) ?? status(job), " ", waiting(job), ")"] : ", in the retrieval service");
    }
    await new Promise((resolve) => { setTimeout(resolve, ASK_AGAIN_MS); });
    signal.throwIfAborted();
  }
}

function content({ id: _id, contents: _contents, title, text, ...others }) {
  return h("article", {},
    title ? h("h2", {}, h("bdi", {}, title)) : null,
    whole(text),
    Object.keys(others).length ? [h("h3", {}, "Other fields"), whole(json(others, 2))] : null);
}

/** The latest job that built an index, among the newest, and its source file. */
async function origin(index, signal) {
  const page = await request(`/v1/indexing/jobs?limit=${SEARCHED_JOBS}`, { signal });
  const built = page.data.find((job) => job.index === index && job.status === "succeeded");
  if (!built) return h("p", { class: "quiet" }, `None of the newest ${SEARCHED_JOBS} indexing jobs built this index.`);
  return facts({
    "Built by": jobName(built),
    "Source file": fileLink(built.file),
  });
}
