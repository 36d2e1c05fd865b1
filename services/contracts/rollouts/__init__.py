"""Rollouts: requests, conversations, trajectories and tools."""
