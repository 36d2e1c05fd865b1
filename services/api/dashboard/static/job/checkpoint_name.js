// Checkpoint names, `JOB:step-N`, which jobs, chat and exports accept as model names.

const CHECKPOINT = /^(?<job>ftjob-[0-9a-f]{24}):step-(?<step>\d{1,9})$/;

/** The `job` and the `step` of a checkpoint; null for any other name. */
export function checkpointOf(name) {
  return CHECKPOINT.exec(name)?.groups ?? null;
}
