// Names of checkpoints: `JOB:step-N`, as jobs, chat and exports take them for models.

const CHECKPOINT = /^(?<job>ftjob-[0-9a-f]{24}):step-(?<step>\d{1,9})$/;

/** The `job` and the `step` of a checkpoint; null for any other name. */
export function checkpointOf(name) {
  return CHECKPOINT.exec(name)?.groups ?? null;
}
