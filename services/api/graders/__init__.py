"""Trying graders and rewards over REST, before training with them."""
