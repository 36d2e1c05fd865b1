"""Rollouts by agents: whatever talks to a model's endpoint is an environment."""
