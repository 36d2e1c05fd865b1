"""Encoders: models in a process of their own that make vectors of texts."""
