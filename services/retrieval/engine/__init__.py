"""Answering searches: what many clients ask at once, over the indexes that are served."""
