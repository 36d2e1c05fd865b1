"""Rewards for trajectories: validated before a job is created, computed while it runs."""
