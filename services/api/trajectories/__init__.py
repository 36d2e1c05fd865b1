"""The trajectories that a job has played, over REST."""
