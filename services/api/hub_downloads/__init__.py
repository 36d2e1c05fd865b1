"""Downloading hub models over REST."""
