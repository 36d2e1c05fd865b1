// What a job was made from and what it made, as links: models, data, and jobs that they come from.

import { withQuery } from "./api.js";
import { checkpointOf } from "./checkpoint_name.js";
import { facts, h, inline } from "./dom.js";

const FILE_ID = /^[\w-]+$/;
const CAMPAIGN_ID = /^campaign-[0-9a-f]{24}$/;

/** A list of the links of a job, given as its kind's own route shows it; null without any. */
export function jobLineage(job) {
  const entries = {
    Made: model(job.fine_tuned_model ?? job.merged_model ?? job.result?.best_model),
    // That of a batch may be an endpoint's, which the registry does not know.
    From: job.object === "batch" ? null : model(job.base_model ?? job.model),
    "Training data": files(trainingData(job)),
    "Validation data": files(validationData(job)),
    Data: files([job.file, job.input_file_id, ...(job.benchmarks ?? []).map((one) => one.file)]),
    "Answers of": job.cached_from ? jobLink(job.cached_from) : null,
    Campaign: campaign(job.metadata),
  };
  return Object.values(entries).some(Boolean) ? facts(entries) : null;
}

/** What a fine-tune learns from: file ids and names of a hub's datasets. */
export function trainingData(job) {
  return distinct([job.training_file, ...(job.training_files ?? []).map((part) => part.file)]);
}

/** What a fine-tune is validated on. */
export function validationData(job) {
  return distinct([job.validation_file, ...Object.values(job.validation_files ?? {})]);
}

function distinct(references) {
  return [...new Set(references.filter(Boolean))];
}

/** Models and checkpoints lead to their lineage, a checkpoint to its job too; a remote model has none. */
function model(name) {
  if (typeof name !== "string") return null;
  const checkpoint = checkpointOf(name);
  if (checkpoint) return [h("a", { href: withQuery("/ui/lineage", { model: name }) }, `step ${checkpoint.step}`), " of ", jobLink(checkpoint.job)];
  return h("a", { href: withQuery("/ui/lineage", { model: name }) }, h("bdi", {}, name));
}

/** A dataset of a hub has no page. */
function files(references) {
  return inline(distinct(references), ", ", (file) => (FILE_ID.test(file) ? h("a", { href: `/ui/data/${file}` }, file) : h("bdi", {}, file)));
}

function jobLink(id) {
  return h("a", { href: `/ui/jobs/${id}` }, id);
}

/** A campaign writes itself and the loop into the metadata of its jobs. */
function campaign(metadata) {
  const { campaign: id = "", loop = "" } = metadata ?? {};
  if (!CAMPAIGN_ID.test(id) || !/^\d{1,4}$/.test(loop)) return null;
  return h("a", { href: `/ui/campaigns/${id}/loops/${loop}` }, `${id}, attempt ${loop}`);
}
