"""Rows of uploaded files over REST."""
