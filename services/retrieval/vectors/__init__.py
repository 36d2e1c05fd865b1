"""Vectors of passages: how they are stored, searched and added to. Knows nothing of text."""
