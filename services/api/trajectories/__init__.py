"""Trajectories over REST, for the kinds of jobs that produce them."""
