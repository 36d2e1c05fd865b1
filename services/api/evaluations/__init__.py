"""Evaluations over REST."""
