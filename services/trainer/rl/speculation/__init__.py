"""Speculative decoding of rollouts: what drafts would save, and whether they pay."""
