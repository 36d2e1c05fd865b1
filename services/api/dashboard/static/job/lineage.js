// Links to a job's inputs and outputs: models, data, and source jobs.

import { withQuery } from "../core/api.js";
import { checkpointOf } from "./checkpoint_name.js";
import { facts, h, inline } from "../core/dom.js";
import { fileLink, jobLink } from "./named.js";

const FILE_ID = /^[\w-]+$/;
const CAMPAIGN_ID = /^campaign-[0-9a-f]{24}$/;

/** The lineage links of a job as returned by its kind's own route; null without any. */
export function jobLineage(job) {
  const entries = {
    "Output model": model(job.fine_tuned_model ?? job.merged_model ?? job.result?.best_model),
    // A batch's model may be an endpoint's, which is not in the registry.
    "Input model": job.object === "batch" ? null : model(job.base_model ?? job.model),
    "Training data": files(trainingData(job)),
    "Validation data": files(validationData(job)),
    Data: files([job.file, job.input_file_id, ...(job.benchmarks ?? []).map((one) => one.file)]),
    "Results reused from": job.cached_from ? jobLink(job.cached_from) : null,
    Campaign: campaign(job.metadata),
  };
  return Object.values(entries).some(Boolean) ? facts(entries) : null;
}

/** Training data of a fine-tune: file ids and names of hub datasets. */
export function trainingData(job) {
  return distinct([job.training_file, ...(job.training_files ?? []).map((part) => part.file)]);
}

/** Validation data of a fine-tune. */
export function validationData(job) {
  return distinct([job.validation_file, ...Object.values(job.validation_files ?? {})]);
}

function distinct(references) {
  return [...new Set(references.filter(Boolean))];
}

/** A link to the lineage of a model or checkpoint; null for remote models. */
function model(name) {
  if (typeof name !== "string") return null;
  const checkpoint = checkpointOf(name);
  if (checkpoint) return [h("a", { href: withQuery("/ui/lineage", { model: name }) }, `step ${checkpoint.step}`), " of ", jobLink(checkpoint.job)];
  return h("a", { href: withQuery("/ui/lineage", { model: name }) }, h("bdi", {}, name));
}

/** Links to files; hub datasets have no page. */
function files(references) {
  return inline(distinct(references), ", ", (file) => (FILE_ID.test(file) ? fileLink(file) : h("bdi", {}, file)));
}

/** Campaigns put their id and loop into the metadata of their jobs. */
function campaign(metadata) {
  const { campaign: id = "", loop = "" } = metadata ?? {};
  if (!CAMPAIGN_ID.test(id) || !/^\d{1,4}$/.test(loop)) return null;
  return [h("a", { href: `/ui/campaigns/${id}/loops/${loop}` }, `attempt ${loop}`), " of ", jobLink(id, `/ui/campaigns/${id}`)];
}
