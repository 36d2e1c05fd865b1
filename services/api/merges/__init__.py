"""Merging models over REST."""
