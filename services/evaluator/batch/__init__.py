"""Batches: the requests of a file, sent to one model."""
