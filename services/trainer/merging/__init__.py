"""Merge jobs: an adapter merged into its base, a reward model's checkpoint made a classifier."""
