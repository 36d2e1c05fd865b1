// The lineage of a model: ancestors, descendants, data, jobs and library versions.

import { ApiError, request, withQuery } from "../core/api.js";
import { checkpointOf } from "../job/checkpoint_name.js";
import { h, inline, sameBy, table } from "../core/dom.js";
import { json, number } from "../core/format.js";
import { fileLink, jobLink } from "../job/named.js";
import { trainingData, validationData } from "../job/lineage.js";
import { lineageGraph } from "../charts/lineage_graph.js";

const PAGE = 1000;
const MOST_PAGES = 10;
const MOST_ANCESTORS = 20;
const MOST_CHECKPOINTS = 20;
const CHECKPOINTS = 100;
const MOST_SHOWN = 100;
const HASH_CHARACTERS = 12;

export async function lineageView({ place, signal, query }) {
  const id = query.get("model") ?? "";
  place.append(h("h1", {}, "Lineage"));
  const { models, hasMore } = await registry(signal);
  const checkpoint = checkpointOf(id);
  const isSearched = await addCheckpoints(models, id, signal);
  if (!models.has(id)) {
    const problem = id ? h("p", { class: "error" }, "No model named ", h("bdi", {}, id), hasMore ? ` among the newest ${number(models.size)}.` : ".") : null;
    place.append(h("div", {}, problem, h("p", {}, "Choose one of the ", h("a", { href: "/ui/models" }, "models"), ".")));
    return;
  }
  const { family, leftOut, isCut } = familyOf(id, models);
  const notes = [
    isCut ? `Showing the nearest ${MOST_ANCESTORS} ancestors.` : null,
    leftOut ? `Showing ${number(family.length)} models; at least ${number(leftOut)} more derive from them.` : null,
    hasMore ? `Searched the newest ${number(models.size)} models.` : null,
    isSearched ? null : `Looked up only ${MOST_CHECKPOINTS} of the checkpoints that models derive from.`,
    checkpoint && !(await isRetained(checkpoint, signal)) ? "The job does not have this checkpoint." : null,
  ].filter(Boolean);
  place.append(
    h("p", {}, "of ", checkpoint ? ofCheckpoint(checkpoint, models) : h("bdi", {}, id)),
    ...(notes.length ? [h("p", { class: "quiet" }, notes.join(" "))] : []),
    lineageGraph(family, id),
    h("h2", {}, "Table view"),
    table(`${family.length} models`, COLUMNS, family, ""),
    checkpoint
      ? sameBy(`/v1/fine_tuning/jobs/${checkpoint.job}`, `temper show ${checkpoint.job}`)
      : sameBy(`/v1/models/${encodeURIComponent(id)}`, `temper models show ${json(id)}`),
  );
}

/** The newest models by their ids, and whether there are more. */
async function registry(signal) {
  const models = new Map();
  let after = null;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const page = await request(withQuery("/v1/models", { after, limit: PAGE }), { signal });
    for (const model of page.data) models.set(model.id, model);
    if (!page.has_more) return { models, hasMore: false };
    after = page.data.at(-1).id;
  }
  return { models, hasMore: true };
}

/**
 * Add the checkpoints that `id` or other models derive from, those of `id` first: the list of models
 * has none. A checkpoint whose job was deleted stays unknown. Returns false if there were too many.
 */
async function addCheckpoints(models, id, signal) {
  const asked = new Set();
  let next = [...ancestorsOf(id, models), ...[...models.values()].map(parentOf)];
  for (;;) {
    const wanted = [...new Set(next)].filter((name) => checkpointOf(name) && !asked.has(name));
    const left = MOST_CHECKPOINTS - asked.size;
    const found = await Promise.all(wanted.slice(0, left).map((name) => {
      asked.add(name);
      return checkpointModel(name, signal);
    }));
    for (const model of found) if (model) models.set(model.id, model);
    if (wanted.length > left) return false;
    if (!wanted.length) return true;
    next = found.map(parentOf); // may be checkpoints too
  }
}

/** The ids of a model and its known ancestors. */
function ancestorsOf(id, models) {
  const line = new Set();
  for (let name = id; name && !line.has(name); name = parentOf(models.get(name))) line.add(name);
  return line;
}

/** A checkpoint as the registry would show it; null if its job was deleted. */
async function checkpointModel(name, signal) {
  try {
    return modelOf(name, await request(`/v1/fine_tuning/jobs/${checkpointOf(name).job}`, { signal }));
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** Whether a job still has a checkpoint, or has more than a page of them. */
async function isRetained({ job, step }, signal) {
  const page = await request(`/v1/fine_tuning/jobs/${job}/checkpoints?limit=${CHECKPOINTS}`, { signal });
  return page.has_more || page.data.some((each) => each.step_number === Number(step));
}

/** A checkpoint of the fine-tune that saved it. */
function modelOf(id, job) {
  const data = [...trainingData(job), ...validationData(job)];
  const files = Object.fromEntries(data.map((file) => [file, { file, sha256: null, num_samples: null }]));
  return { id, lineage: { job_id: job.id, parent: job.model, files, seed: job.seed } };
}

/** The step and job of a checkpoint, and the job's final model. */
function ofCheckpoint({ job, step }, models) {
  const made = [...models.values()].find((model) => !checkpointOf(model.id) && model.lineage?.job_id === job && !model.lineage.merged);
  return [
    `step ${step} of `,
    jobLink(job),
    made ? [", which produced ", h("a", { href: withQuery("/ui/lineage", { model: made.id }) }, h("bdi", {}, made.id))] : null,
  ];
}

/**
 * A model with its ancestors and descendants, each after its parent. `isCut`: there are older
 * ancestors; `leftOut`: number of children of shown models that are not shown.
 */
function familyOf(id, models) {
  const line = [id];
  const seen = new Set(line);
  let parent = parentOf(models.get(id));
  while (parent && !seen.has(parent) && line.length <= MOST_ANCESTORS) {
    seen.add(parent);
    line.unshift(parent);
    parent = parentOf(models.get(parent));
  }
  const isCut = Boolean(parent) && !seen.has(parent);
  const oldestFirst = [...models.values()].reverse();
  const below = Map.groupBy(oldestFirst, parentOf);
  let leftOut = 0;
  // Breadth first: the list grows during the walk.
  for (let index = line.length - 1; index < line.length; index += 1) {
    for (const child of below.get(line[index]) ?? []) {
      if (seen.has(child.id)) continue;
      seen.add(child.id);
      if (line.length < MOST_SHOWN) line.push(child.id);
      else leftOut += 1;
    }
  }
  return { family: line.map((name) => member(name, models.get(name))), leftOut, isCut };
}

function parentOf(model) {
  return model?.lineage?.parent ?? model?.base ?? null;
}

/** A model of the graph; `model` is undefined if it is not in the registry. */
function member(id, model) {
  const lineage = model?.lineage ?? null;
  const files = Object.values(lineage?.files ?? {});
  // Older lineage records have only file names.
  const named = [lineage?.training_file, lineage?.validation_file].filter(Boolean).map((file) => ({ file, sha256: null, num_samples: null }));
  const read = new Map((files.length ? files : named).map((one) => [one.file, one]));
  return { id, parent: parentOf(model), isKnown: model !== undefined, job: lineage?.job_id ?? null, data: [...read.keys()], files: [...read.values()], lineage };
}

const COLUMNS = {
  Model: ({ id }) => h("bdi", {}, id),
  Parent: ({ parent, lineage }) => (parent ? [h("bdi", {}, parent), lineage?.merged ? " (merged)" : null] : null),
  "Created by": ({ job, isKnown }) => (job ? jobLink(job) : isKnown ? "registered" : "not in the registry"),
  Data: ({ files }) => inline(files, ", ", dataFile),
  Seed: ({ lineage }) => lineage?.seed,
  "Library versions": ({ lineage }) => inline(Object.entries(lineage?.library_versions ?? {}), ", ", ([name, version]) => [h("bdi", {}, name), " ", h("bdi", {}, version)]),
};

function dataFile({ file, sha256, num_samples: rows }) {
  const about = [Number.isFinite(rows) ? `${number(rows)} rows` : null, sha256 ? `sha256 ${sha256.slice(0, HASH_CHARACTERS)}` : null].filter(Boolean);
  return [fileLink(file), about.length ? h("span", { class: "quiet" }, ` (${about.join(", ")})`) : null];
}
