"""Notebooks: cells that run in a kernel which keeps its state and its files."""
