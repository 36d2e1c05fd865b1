// What a job was made from and what it made, as links: models, data, and jobs that they come from.

import { withQuery } from "./api.js";
import { facts, h, inline } from "./dom.js";

const CHECKPOINT = /^(ftjob-[0-9a-f]{24}):step-\d+$/;
const FILE_ID = /^[\w-]+$/;
const CAMPAIGN_ID = /^campaign-[0-9a-f]{24}$/;

/** A list of the links of a job, given as its kind's own route shows it; null without any. */
export function jobLineage(job) {
  const entries = {
    Made: model(job.fine_tuned_model ?? job.merged_model ?? job.result?.best_model),
    // That of a batch may be an endpoint's, which the registry does not know.
    From: job.object === "batch" ? null : model(job.base_model ?? job.model),
    "Training data": files([job.training_file, ...(job.training_files ?? []).map((part) => part.file)]),
    "Validation data": files([job.validation_file, ...Object.values(job.validation_files ?? {})]),
    Data: files([job.file, job.input_file_id, ...(job.benchmarks ?? []).map((one) => one.file)]),
    "Answers of": job.cached_from ? jobLink(job.cached_from) : null,
    Campaign: campaign(job.metadata),
  };
  return Object.values(entries).some(Boolean) ? facts(entries) : null;
}

/** A registered model leads to its lineage, a checkpoint to its job; a remote model is neither. */
function model(name) {
  if (typeof name !== "string") return null;
  const job = CHECKPOINT.exec(name)?.[1];
  if (job) return ["step ", name.slice(job.length + ":step-".length), " of ", jobLink(job)];
  return h("a", { href: withQuery("/ui/lineage", { model: name }) }, h("bdi", {}, name));
}

/** A dataset of a hub has no page. */
function files(references) {
  const given = [...new Set(references.filter(Boolean))];
  return inline(given, ", ", (file) => (FILE_ID.test(file) ? h("a", { href: `/ui/data/${file}` }, file) : h("bdi", {}, file)));
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
