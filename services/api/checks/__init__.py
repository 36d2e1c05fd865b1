"""Checks of training files over REST."""
