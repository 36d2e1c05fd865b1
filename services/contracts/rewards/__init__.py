"""Rewards and graders."""
