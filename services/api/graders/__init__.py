"""Graders and rewards over REST, to try them before training on them."""
