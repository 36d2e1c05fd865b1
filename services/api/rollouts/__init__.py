"""Rollouts over REST."""
