"""Passages and corpus files."""
