"""Judging trajectories."""
