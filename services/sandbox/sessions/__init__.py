"""Notebooks and sessions: cells run in a kernel that keeps its state and files."""
