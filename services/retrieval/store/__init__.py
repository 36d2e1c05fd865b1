"""Passage indexes: on-disk format, search, and changes."""
