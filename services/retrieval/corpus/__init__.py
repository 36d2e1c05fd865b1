"""Passages, and the files they come in."""
