"""Embedding models, each in its own process."""
