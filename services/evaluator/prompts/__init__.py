"""Prompt batches: a template over the records of a file, answered by remote endpoints."""
