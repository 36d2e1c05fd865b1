"""Exporting models over REST."""
