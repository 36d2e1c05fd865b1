"""Rewards of trajectories: validated before a job, computed while it runs."""
