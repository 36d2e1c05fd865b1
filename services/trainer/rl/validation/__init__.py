"""Checking the prompts of an online training before it is queued."""
