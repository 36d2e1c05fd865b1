// Names of trajectories: which sample of which prompt.

const ID = /^traj-(?<draw>\d+)-\d+$/;

/** The name of a trajectory; where a training drew its prompt again, also the number of the draw. */
export function sampleName({ id, prompt_index: prompt, sample_index: sample }) {
  const { draw } = ID.exec(id)?.groups ?? {};
  const isFirst = draw === undefined || Number(draw) === prompt;
  return `Prompt ${prompt}, sample ${sample}${isFirst ? "" : `, draw ${draw}`}`;
}

/** The name of the trajectory of which only the id is known. */
export function trajectoryName(id) {
  return `trajectory ${id.replace(/^traj-/, "")}`;
}
